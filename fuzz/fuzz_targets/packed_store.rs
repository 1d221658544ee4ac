//! Compares a packed store with a map: the test of `crates/informer/tests/store_and_queues/store_model.rs`, with
//! histories that the fuzzer's input seeds.
#![no_main]
#![allow(dead_code, unused_imports)]

use kube_informer_fuzz::runner;
use libfuzzer_sys::fuzz_target;
use proptest::strategy::{Strategy, ValueTree};

#[path = "../../crates/informer/tests/store_and_queues/store_model.rs"]
mod store_model;
#[path = "../../crates/informer/tests/store_and_queues/support.rs"]
mod support;

fuzz_target!(|input: &[u8]| {
    let ops = store_model::history().new_tree(&mut runner(input)).expect("a history").current();
    store_model::check_history(ops);
});
