//! The repository's chores: `cargo xtask <chore>`. One module per chore; few dependencies, so that it builds quickly.

mod api;
mod bench;
mod bench_queue;
mod cargo;
mod conformance;
mod go;
mod openapi;
mod releases;
mod schema;
mod tidy;
mod vectors;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <chore>

chores:
  tidy              check the rules of the repository; --print-graph prints the graphs for ARCHITECTURE.md
  api               list the public API of each library crate in api/ (needs the nightly of .ci/nightly)
  api --check       fail if that would change a listing
  schema            make the schema table of kube-wire again, from the releases in xtask/schema/releases.txt (needs Go)
  schema --check    fail if that would change it, or if it disagrees with Kubernetes' .proto files (needs Go)
  vectors [DIR]     write the test vectors of kube-wire to look at, into target/vectors unless DIR is given (needs Go)
  vectors --test    run the tests of kube-wire, those on vectors included (needs Go)
  openapi [1.NN]    test the types of k8s-openapi for each supported version, or one, against the vectors (needs Go)
  conformance       test against a real kube-apiserver, built here; --help says more (needs Go)
  bench             ours, client-go and kube-rs side by side; --help says more (needs Go)
  bench-queue [WORD]
                    the work queue's figures beside client-go's, all or those whose names contain the word (theirs need Go)";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["tidy", ref rest @ ..] => tidy::run(rest),
        ["api"] => api::write(),
        ["api", "--check"] => api::check(),
        ["schema"] => schema::write(),
        ["schema", "--check"] => schema::check(),
        ["vectors"] => vectors::write(None),
        ["vectors", "--test"] => vectors::test(),
        ["vectors", dir] => vectors::write(Some(dir)),
        ["openapi"] => openapi::run(None),
        ["openapi", version] => openapi::run(Some(version)),
        ["conformance", ref rest @ ..] => conformance::run(rest),
        ["bench", ref rest @ ..] => bench::run(rest),
        ["bench-queue"] => bench_queue::run(None),
        ["bench-queue", word] => bench_queue::run(Some(word)),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(said) => {
            say(&said);
            ExitCode::SUCCESS
        }
        Err(why) => {
            complain(&why);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "a chore says what it did")]
fn say(what: &str) {
    println!("{what}");
}

#[expect(clippy::print_stderr, reason = "a chore says what went wrong")]
fn complain(why: &str) {
    eprintln!("{why}");
}
