//! The program `kube-informer`.

mod apiserver;
mod demo;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A live, local mirror of Kubernetes objects.
#[derive(Parser)]
#[command(version, about, propagate_version = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Watch a made-up cluster live: an embedded API server, something that changes it, and an informer that follows.
    Demo(demo::Arguments),
    /// Run the embedded API server by itself, for kubectl and other clients.
    Apiserver(apiserver::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Demo(arguments) => demo::run(arguments).await,
        Command::Apiserver(arguments) => apiserver::run(arguments).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("kube-informer: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "a program says what went wrong")]
fn complain(what: &str) {
    eprintln!("{what}");
}

/// Prints a line. A reader that has gone (`| head`) ends the program, without an error.
fn say(line: &str) {
    use std::io::Write as _;

    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
