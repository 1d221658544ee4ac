//! The soak test: all features of informers and a controller run together for a given time, while objects change and
//! the server and the network fail. At each checkpoint the faults pause, every cache must equal the server, and memory
//! and lag are recorded. At the end, memory must be about the same as after the warm-up.
//!
//! ```text
//! kube-informer-soak [--minutes N] [--objects N] [--server real] [--seed N] [--plot FILE]
//! kube-informer-soak serve FILE      runs the embedded server in its own process; writes a kubeconfig
//! ```
#![allow(clippy::print_stdout, reason = "the program reports its progress")]

mod clients;
mod mirror;
mod options;
mod plot;
mod record;
mod run;
mod server;
mod target;
mod writer;

use options::Options;

/// The result of a step.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", kubeconfig] => server::run(kubeconfig.as_ref()).await,
        ref given => match Options::parse(given)? {
            Some(options) => {
                clients::hide_planned_panics();
                run::run(&options).await
            }
            None => {
                println!("{}", options::USAGE);
                Ok(())
            }
        },
    }
}
