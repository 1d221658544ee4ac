//! The program `kube-informer`.

mod changes;
mod cluster;
mod commands;
mod discovery;
mod failure;
mod field_filter;
mod flags;
mod kubeconfig;
mod list_limit;
mod masks;
mod mirror;
mod observed;
mod output;
mod request;
mod signals;
mod suggest;
mod terminal;
mod unreachable;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};

use commands::{apiserver, demo, get, serve, watch};
use failure::{EXIT_CODES, Failure};
use terminal::{ColourChoice, Screen, StatusOn};

/// A live, local mirror of Kubernetes objects.
#[derive(Parser)]
#[command(name = "kube-informer", version, about, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A made-up cluster to look at: an embedded API server, something that changes it, and informers that follow.
    Demo(demo::DemoArguments),
    /// What happens to objects of any kind, as it happens: what changed, in one line each.
    Watch(watch::WatchArguments),
    /// Objects as they are now, by kubectl's selectors and by any field.
    Get(get::GetArguments),
    /// A long-running mirror with metrics, health checks and a look inside.
    Serve(serve::ServeArguments),
    /// The embedded API server by itself, for kubectl and other clients.
    Apiserver(apiserver::ApiserverArguments),
    /// A script that completes this program's commands and flags: source <(kube-informer completions bash).
    Completions {
        /// The shell that it is for.
        shell: clap_complete::Shell,
    },
}

/// How long threads that cannot be interrupted (looking up a host name, for instance) may delay the program's end.
const SHUTDOWN_TIME_MAX: Duration = Duration::from_millis(200);

#[expect(clippy::print_stderr, reason = "without a runtime there is no screen")]
fn main() -> ExitCode {
    let command = Arguments::parse().command;
    match tokio::runtime::Runtime::new() {
        Ok(runtime) => {
            let code = runtime.block_on(run(command));
            runtime.shutdown_timeout(SHUTDOWN_TIME_MAX);
            code
        }
        Err(error) => {
            eprintln!("kube-informer: cannot start threads: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> ExitCode {
    let done = match command {
        Command::Demo(arguments) => demo::run(arguments).await,
        Command::Watch(arguments) => watch::run(arguments).await,
        Command::Get(arguments) => get::run(arguments).await,
        Command::Serve(arguments) => serve::run(arguments).await,
        Command::Apiserver(arguments) => apiserver::run(arguments).await,
        Command::Completions { shell } => completions(shell).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, Failure::ReaderGone) {
                report(&failure).await;
            }
            failure.exit_code()
        }
    }
}

/// Says why the program ends. A signal ends it even if that is not read.
async fn report(failure: &Failure) {
    let mut screen = Screen::new(ColourChoice::Never, StatusOn::Stderr);
    let words = failure.to_string();
    let signal = async {
        match signals::listen() {
            Ok(mut signals) => drop(signals.next().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = signal => {}
        // An error of writing an error has no better place to go.
        _ = screen.remark(&words) => {}
    }
}

async fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "kube-informer", &mut script);
    let mut screen = Screen::new(ColourChoice::Never, StatusOn::Stderr);
    screen.text(&String::from_utf8_lossy(&script)).await?;
    screen.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }
}
