//! Compares writes, lists, watches and compactions of the embedded server with a log of changes: the test of
//! `crates/apiserver/tests/watch_model.rs`, with steps that the fuzzer's input seeds.
#![no_main]
#![allow(dead_code)]

use kube_informer_fuzz::runner;
use libfuzzer_sys::fuzz_target;
use proptest::strategy::{Strategy, ValueTree};

#[path = "../../crates/apiserver/tests/watch_model.rs"]
mod watch_model;

fuzz_target!(|input: &[u8]| {
    let steps = watch_model::history().new_tree(&mut runner(input)).expect("a history").current();
    watch_model::check_history(steps);
});
