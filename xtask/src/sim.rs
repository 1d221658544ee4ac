//! `cargo xtask sim`: builds the simulator and runs it.
//!
//! All modes share one build: `tokio_unstable` lets a run seed tokio's own choices, and `deliberate_bug` compiles the
//! bugs that `--bugs` enables one by one. Both flags change the build of every crate, so the simulator has its own
//! target directory. `--own-writes` runs the property test of own writes in the same build.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use crate::cargo::cargo;
use crate::go::root;

const FLAGS: &str = "--cfg tokio_unstable --cfg deliberate_bug";
const PROGRAM: &str = "kube-informer-sim";
/// The profile, and the name of the target directory.
const NAME: &str = "sim";

/// The number of reconciles that `--own-writes` checks.
const OWN_WRITES_STEPS: &str = "100000";

/// Builds the simulator and runs it with these arguments.
pub(crate) fn run(args: &[&str]) -> Result<String, String> {
    match args {
        ["--own-writes"] => own_writes(OWN_WRITES_STEPS),
        ["--own-writes", steps] => own_writes(steps),
        args => simulate(args),
    }
}

fn simulate(args: &[&str]) -> Result<String, String> {
    let target = target();
    let mut build = cargo();
    build.args(["build", "--quiet", "--profile", NAME, "--package", PROGRAM]);
    succeed(configure(&mut build), "cannot build the simulator")?;
    let program = target.join(NAME).join(PROGRAM).with_extension(env::consts::EXE_EXTENSION);
    succeed(Command::new(program).args(args), "the simulation failed")?;
    Ok(String::new())
}

/// Runs the property test of own writes, and its version without tracking, which must find violations.
fn own_writes(steps: &str) -> Result<String, String> {
    let mut test = cargo();
    test.args(["test", "--quiet", "--profile", NAME, "--package", "kube-informer-controller"]);
    test.args(["--test", "controller", "own_writes"]).env("OWN_WRITES_STEPS", steps);
    succeed(configure(&mut test), "the property test of own writes failed")?;
    Ok(format!("{steps} reconciles saw all of their own writes in the cache"))
}

fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from).join(NAME)
}

/// Sets the flags and the target directory of the simulator's build.
fn configure(command: &mut Command) -> &mut Command {
    let flags = env::var("RUSTFLAGS").map_or_else(|_| FLAGS.to_owned(), |others| format!("{others} {FLAGS}"));
    command.env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", target())
}

fn succeed(command: &mut Command, failure: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{failure}: {status}")),
        Err(error) => Err(format!("cannot run {command:?}: {error}")),
    }
}
