//! `cargo xtask bench`: our library, its peers and the transport floor do the same work on the same data, in turns in
//! one session. Every program is its own process (`peers/`) and measures itself. This module builds and runs them,
//! compares their results, and writes a table and a plot per scenario to docs/benchmarks.md and docs/plots/.

mod catalogue;
mod figures;
mod load;
mod machine;
mod paper;
mod plot;
mod process;
mod product_page;
mod programs;
mod scenario;
mod servers;
mod shards;
mod subject;

use std::path::Path;

use crate::Outcome;
use crate::go::root;
use programs::Programs;
use scenario::Scenario;

const USAGE: &str = "usage: cargo xtask bench [--smoke | --long] [--server real] [--build-only | --readme] [WORD…]

Runs the scenarios whose names contain one of the words, or all scenarios. Writes their tables to
docs/benchmarks.md, their plots to docs/plots, and the table of README.md. Close all other programs first; a run takes
twenty to forty minutes.

  --smoke         run small versions once, to check that they work and that all stores are equal; write nothing
  --long          also run the initial list and `get -o json` of 200,000 pods
  --server real   use a real kube-apiserver (built as by `cargo xtask conformance`) instead of the embedded server,
                  for initial lists and written changes; writes to a separate part of the page
  --build-only    build the programs and print their paths
  --readme        run nothing; write the table of README.md from docs/benchmarks.md";

/// Runs the task and returns its summary.
pub(crate) fn run(args: &[&str]) -> Result<String, String> {
    bench(args).map_err(|error| format!("cargo xtask bench: {error}"))
}

fn bench(args: &[&str]) -> Outcome<String> {
    let Some(asked) = BenchArguments::parse(args)? else { return Ok(USAGE.to_owned()) };
    if asked.readme {
        product_page::write(&root())?;
        return Ok("README.md has the figures of docs/benchmarks.md".to_owned());
    }
    let programs = Programs::build(asked.real, asked.size != Size::Smoke)?;
    if asked.build_only {
        return Ok(programs.to_string());
    }
    let mut summary = format!("{}\n", machine::describe());
    let scenarios = if asked.real { catalogue::real } else { catalogue::embedded };
    for scenario in scenarios(asked.size) {
        if !asked.wants(&scenario) {
            continue;
        }
        print_progress(&format!("{} …", scenario.title));
        let section = scenario.run(&programs)?;
        print_progress(&section.text);
        summary += &format!("\n{}", section.text);
        if asked.size != Size::Smoke {
            paper::write(&root(), &section)?;
        }
    }
    if asked.size != Size::Smoke {
        product_page::write(&root())?;
    }
    Ok(summary)
}

/// How many scenarios run, and with how much data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Size {
    Smoke,
    #[default]
    Plain,
    Long,
}

/// The command line.
#[derive(Debug, Default, PartialEq)]
struct BenchArguments<'a> {
    size: Size,
    real: bool,
    build_only: bool,
    readme: bool,
    words: Vec<&'a str>,
}

impl<'a> BenchArguments<'a> {
    /// `None` if help was requested.
    fn parse(args: &[&'a str]) -> Result<Option<Self>, String> {
        let mut asked = Self::default();
        let mut rest = args.iter().copied();
        while let Some(argument) = rest.next() {
            match argument {
                "--help" | "-h" => return Ok(None),
                "--smoke" => asked.size = Size::Smoke,
                "--long" => asked.size = Size::Long,
                "--build-only" => asked.build_only = true,
                "--readme" => asked.readme = true,
                "--server" => match rest.next() {
                    Some("real") => asked.real = true,
                    Some("embedded") => asked.real = false,
                    other => {
                        return Err(format!("invalid --server {other:?}: use `real` or `embedded`\n{USAGE}"));
                    }
                },
                word if !word.starts_with('-') => asked.words.push(word),
                other => return Err(format!("unknown argument {other:?}\n{USAGE}")),
            }
        }
        Ok(Some(asked))
    }

    fn wants(&self, scenario: &Scenario) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| scenario.name.contains(word))
    }
}

#[expect(clippy::print_stderr, reason = "half an hour of silence would look like a hang")]
fn print_progress(what: &str) {
    eprintln!("{what}");
}

/// A table and a plot of one scenario.
struct Section {
    name: String,
    text: String,
    plot: Option<String>,
}

impl Section {
    /// The comment in the document before which a new section of this kind is inserted.
    fn end(&self) -> &'static str {
        if self.name.starts_with("real-") {
            "<!-- end of cargo xtask bench --server real -->\n"
        } else {
            "<!-- end of cargo xtask bench -->\n"
        }
    }

    /// The path of the plot, relative to docs/.
    fn plot_file(&self) -> String {
        format!("plots/{}.svg", self.name)
    }

    fn write_plot(&self, docs: &Path) -> Outcome {
        if let Some(plot) = &self.plot {
            std::fs::create_dir_all(docs.join("plots"))?;
            std::fs::write(docs.join(self.plot_file()), plot)?;
        }
        Ok(())
    }
}

/// A number with commas.
fn grouped(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1_000), number % 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_select_the_size_the_server_and_the_scenarios() {
        let asked = BenchArguments::parse(&["sync", "--long", "--server", "real", "watch"]).unwrap().unwrap();
        let expected = BenchArguments {
            size: Size::Long,
            real: true,
            build_only: false,
            readme: false,
            words: vec!["sync", "watch"],
        };
        assert_eq!(asked, expected);
        assert_eq!(BenchArguments::parse(&["--help"]).unwrap(), None);
        assert!(BenchArguments::parse(&["--server", "mock"]).unwrap_err().contains("mock"));
        assert!(BenchArguments::parse(&["--fast"]).unwrap_err().contains("--fast"));
    }
}
