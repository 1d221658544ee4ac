//! Tests of the public API: on scripted sources or the embedded server, with paused time.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod clusters;
mod conditions;
mod filters;
mod leader;
mod manager;
mod own_writes;
mod settling;
mod sharing;
mod stopping;
mod support;
mod tools;
mod tracking;
mod triggers;
mod working;
mod writes;
