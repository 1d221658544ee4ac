//! Our program for the benchmarks. `cargo xtask bench` runs it and the peers' programs in turns. Each is a separate
//! process, does the same work on the same server, and prints lines of `figure <tab> value <tab> unit`.
//!
//! ```text
//! ours serve DIRECTORY COUNT [--namespaces N] [--objects LOAD]
//!                                                  a server with pods or another load; writes DIRECTORY/kubeconfig
//! ours replay DIRECTORY COUNT CHANGES [--rate N]   a server that sends pods and then changes to them
//! ours informer FILE [--objects LOAD] [--json] [--metadata] [--decode] [--reads] [--idle SECONDS] [--relist]
//! ours watch FILE --changes N [--json] [--decode] [--label]
//!                                                  the changes of a replay, or of another writer
//! ours start FILE [--namespaces N]                 one informer per namespace, started concurrently
//! ours share FILE --lease NAME --name NAME         a replica that shares the work; reads commands
//! ours floor FILE [--objects LOAD] [--watch]       receives the same bytes and discards them
//! ```
//!
//! A load is `pods`, `varied-pods`, `secrets` or `widgets`.
#![allow(clippy::print_stdout, reason = "it prints figures")]

mod arguments;
mod floor;
mod informer;
mod load;
mod measure;
mod pods;
mod reads;
mod replay;
mod secrets;
mod serve;
mod share;
mod start;
mod varied;
mod watch;
mod widgets;

use arguments::Arguments;

/// The result of a subcommand.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Outcome {
    let arguments = Arguments::of_the_process();
    match arguments.word(0)? {
        "serve" => serve::run(&arguments).await,
        "replay" => replay::run(&arguments).await,
        "informer" => informer::run(&arguments).await,
        "watch" => watch::run(&arguments).await,
        "start" => start::run(&arguments).await,
        "share" => share::run(&arguments).await,
        "floor" => floor::run(&arguments).await,
        other => Err(format!("unknown subcommand {other:?}; see the top of peers/ours/src/main.rs").into()),
    }
}
