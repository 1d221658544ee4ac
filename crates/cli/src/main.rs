//! The program `kube-informer`.

mod changes;
mod cluster;
mod commands;
mod condition;
mod discovery;
mod failure;
mod field_filter;
mod flags;
mod handler_lag;
mod kubeconfig;
mod list_limit;
mod masks;
mod mirror;
mod observed;
mod output;
mod progress;
mod reads;
mod request;
mod signals;
mod suggest;
mod terminal;
#[cfg(test)]
mod testing;
mod unreachable;
mod web;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};

use commands::{apiserver, demo, get, serve, top, wait, watch};
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
    /// Run a simulated cluster: an embedded API server, changing objects, and informers that follow them.
    Demo(demo::DemoArguments),
    /// Print changes of objects as they happen, one line per change.
    Watch(watch::WatchArguments),
    /// Print the current state of objects, selected by kubectl's selectors and by any field.
    Get(get::GetArguments),
    /// Wait until objects meet a condition, are created or are deleted.
    Wait(wait::WaitArguments),
    /// Show informers live on the terminal: objects, memory, events and changes.
    Top(top::TopArguments),
    /// Run a long-running mirror with a query API, a page, metrics and health checks.
    Serve(serve::ServeArguments),
    /// Run the embedded API server for kubectl and other clients.
    Apiserver(apiserver::ApiserverArguments),
    /// Print a completion script for a shell: source <(kube-informer completions bash).
    Completions {
        /// Shell of the script.
        shell: clap_complete::Shell,
    },
    /// Print the manual page: kube-informer man | man --local-file -.
    Man {
        /// Write one page per command to this directory instead.
        #[arg(long, value_name = "DIRECTORY")]
        directory: Option<PathBuf>,
    },
}

/// How long blocking threads (for example a host name lookup) may delay the program's exit.
const SHUTDOWN_TIME_MAX: Duration = Duration::from_millis(200);

#[expect(clippy::print_stderr, reason = "without a runtime there is no screen")]
fn main() -> ExitCode {
    let command = Arguments::parse().command;
    log_to_stderr();
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

/// Logs to standard error if $RUST_LOG is set.
fn log_to_stderr() {
    if let Ok(filter) = tracing_subscriber::EnvFilter::try_from_default_env() {
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(false)
            .init();
    }
}

async fn run(command: Command) -> ExitCode {
    let done = match command {
        Command::Demo(arguments) => demo::run(arguments).await,
        Command::Watch(arguments) => watch::run(arguments).await,
        Command::Get(arguments) => get::run(arguments).await,
        Command::Wait(arguments) => wait::run(arguments).await,
        Command::Top(arguments) => top::run(arguments).await,
        Command::Serve(arguments) => serve::run(arguments).await,
        Command::Apiserver(arguments) => apiserver::run(arguments).await,
        Command::Completions { shell } => completions(shell).await,
        Command::Man { directory } => manual(directory.as_deref()).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, Failure::ReaderGone | Failure::Interrupted(_)) {
                report(&failure).await;
            }
            failure.exit_code()
        }
    }
}

/// Prints why the program ends. A signal ends the program even while the output is blocked.
async fn report(failure: &Failure) {
    let mut screen = Screen::new(ColourChoice::Never, StatusOn::Stderr);
    let words = failure.to_string();
    let signal = async {
        match signals::listen() {
            Ok(mut signals) => signals.next().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        _ = signal => {}
        // An error that cannot be written is dropped.
        _ = screen.remark(&words) => {}
    }
}

async fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "kube-informer", &mut script);
    print(&script).await
}

async fn manual(directory: Option<&Path>) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| Failure::other("cannot write the manual pages", error);
    if let Some(directory) = directory {
        std::fs::create_dir_all(directory).map_err(|error| failed(&error))?;
        return clap_mangen::generate_to(Arguments::command(), directory).map_err(|error| failed(&error));
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Arguments::command()).render(&mut page).map_err(|error| failed(&error))?;
    print(&page).await
}

async fn print(text: &[u8]) -> Result<(), Failure> {
    let mut screen = Screen::new(ColourChoice::Never, StatusOn::Stderr);
    screen.text(&String::from_utf8_lossy(text)).await?;
    screen.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_valid() {
        Arguments::command().debug_assert();
    }
}
