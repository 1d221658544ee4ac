//! The repository's tasks: `cargo xtask <task>`. One module per task; few dependencies, so that it builds quickly.

mod api;
mod bench;
mod bench_queue;
mod browser;
mod cargo;
mod conformance;
mod dist;
mod fuzz;
mod go;
mod install;
mod mutants;
mod openapi;
mod readme;
mod releases;
mod schema;
mod sim;
mod soak;
mod tidy;
mod tutorial;
mod vectors;

use std::process::ExitCode;

/// The result of a step; an error is a message for the user.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "\
usage: cargo xtask <task>

tasks:
  tidy              check the rules of the repository; --print-graph prints the graphs for ARCHITECTURE.md
  api               list the public API of each library crate in api/ (needs the nightly of .ci/nightly)
  api --check       fail if that would change a listing
  readme            build the dependencies and the program that pages tell readers to copy, outside of the workspace
  tutorial          follow docs/tutorial.md: write its files and run its commands, outside of the workspace
  tutorial --build DIR
                    do that in a new folder, without the tests of the page, and keep the package and its program
  schema            generate the schema table of kube-wire from the releases in xtask/schema/releases.txt (needs Go)
  schema --check    fail if that would change it, or if it disagrees with Kubernetes' .proto files (needs Go)
  vectors [DIR]     write the test vectors of kube-wire to DIR or target/vectors, for inspection (needs Go)
  vectors --test    run the tests of kube-wire that read the vectors (needs Go)
  openapi [1.NN]    test the types of k8s-openapi for each supported version, or one, against the vectors (needs Go)
  conformance       build a real kube-apiserver and test against it; see --help (needs Go)
  sim               simulate informers under faults; see --help
  soak --minutes N  run informers and a controller under churn and faults, and check memory and lag; see --help
  sim --own-writes [STEPS]
                    run the property test of a controller's own writes; 100,000 steps by default
  fuzz --minutes N  run each fuzz target for this long; see --help (needs the nightly of .ci/nightly)
  mutants           change the libraries one place at a time, and check that tests notice; see --help
  bench             compare this library with client-go and kube-rs; see --help (needs Go)
  browser           test the page in Chromium, which it installs if missing; see --help
  dist              build a static binary, its manual pages and completions, and pack them; see --help
  bench-queue [WORD]
                    compare the work queue with client-go's (needs Go); WORD selects figures by name";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["tidy", ref rest @ ..] => tidy::run(rest),
        ["api"] => api::write(),
        ["api", "--check"] => api::check(),
        ["readme"] => readme::check(),
        ["tutorial"] => tutorial::check(),
        ["tutorial", "--build", folder] => tutorial::build(folder),
        ["schema"] => schema::write(),
        ["schema", "--check"] => schema::check(),
        ["vectors"] => vectors::write(None),
        ["vectors", "--test"] => vectors::test(),
        ["vectors", dir] => vectors::write(Some(dir)),
        ["openapi"] => openapi::run(None),
        ["openapi", version] => openapi::run(Some(version)),
        ["conformance", ref rest @ ..] => conformance::run(rest),
        ["sim", ref rest @ ..] => sim::run(rest),
        ["soak", ref rest @ ..] => soak::run(rest),
        ["fuzz", ref rest @ ..] => fuzz::run(rest),
        ["mutants", ref rest @ ..] => mutants::run(rest),
        ["bench", ref rest @ ..] => bench::run(rest),
        ["browser", ref rest @ ..] => browser::run(rest),
        ["dist", ref rest @ ..] => dist::run(rest),
        ["bench-queue"] => bench_queue::run(None),
        ["bench-queue", word] => bench_queue::run(Some(word)),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(summary) => {
            if !summary.is_empty() {
                print(&summary);
            }
            ExitCode::SUCCESS
        }
        Err(message) => {
            print_error(&message);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "the output of a task")]
fn print(summary: &str) {
    println!("{summary}");
}

#[expect(clippy::print_stderr, reason = "the error of a task")]
fn print_error(message: &str) {
    eprintln!("{message}");
}
