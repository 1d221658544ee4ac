//! The repository's chores: `cargo xtask <chore>`. Each chore is a module; this file only finds it.
#![allow(clippy::print_stdout, clippy::print_stderr)] // A program talks to its user.

mod conformance;

use std::{env, error::Error, process::ExitCode};

/// What a chore gives: nothing, or a message for the user.
type Outcome = Result<(), Box<dyn Error>>;
/// A chore, given the arguments after its name.
type Chore = fn(&[String]) -> Outcome;

/// Name, what it does, and where.
const CHORES: &[(&str, &str, Chore)] =
    &[("conformance", "test against a real kube-apiserver, built here", conformance::run)];

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let name = args.next().unwrap_or_default();
    let rest: Vec<_> = args.collect();
    let Some((_, _, chore)) = CHORES.iter().find(|(known, _, _)| *known == name) else {
        eprintln!("usage: cargo xtask <chore>\n");
        CHORES.iter().for_each(|(name, what, _)| eprintln!("  {name:<14} {what}"));
        return ExitCode::from(2);
    };
    match chore(&rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask {name}: {error}");
            ExitCode::FAILURE
        }
    }
}
