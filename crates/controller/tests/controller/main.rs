//! Controllers from where users stand: on scripted sources or the embedded server, with time that stands still.
#![allow(clippy::unwrap_used, reason = "what cannot be is a test's failure")]

mod leader;
mod stopping;
mod support;
mod tools;
mod triggers;
mod working;
mod writes;
