//! `cargo xtask bench`: ours, the peers and the transport's floor do the same work on the same data, one after the other in
//! one sitting. Every program is a process of its own (`peers/`) and measures itself; here they are built, run in turns,
//! compared, and written down: a table and a plot for each scenario, into docs/benchmarks.md and docs/plots/.

mod catalogue;
mod figures;
mod load;
mod machine;
mod paper;
mod plot;
mod programs;
mod scenario;
mod servers;
mod subject;

use std::path::Path;

use crate::go::root;
use programs::Programs;
use scenario::Scenario;

/// What a step gives; a message for the user if it fails.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "usage: cargo xtask bench [--smoke | --long] [--server real] [--build-only] [WORD…]

Runs the scenarios whose names contain one of the words, or all of them, and writes their tables into
docs/benchmarks.md and their plots into docs/plots. Close everything else first; it takes about twenty minutes.

  --smoke         small and short, everything once: whether it runs and all stores are equal; nothing is written
  --long          the first state of 200,000 pods, too
  --server real   the first states, and changes that are written, of pods in a real kube-apiserver (built as by
                  `cargo xtask conformance`) instead of the embedded one; their sections stand apart
  --build-only    builds the programs, and says where they are";

/// Runs the chore, and gives what there is to say at the end.
pub(crate) fn run(args: &[&str]) -> Result<String, String> {
    bench(args).map_err(|error| format!("cargo xtask bench: {error}"))
}

fn bench(args: &[&str]) -> Outcome<String> {
    let Some(asked) = Asked::parse(args)? else { return Ok(USAGE.to_owned()) };
    let programs = Programs::build(asked.real, asked.size != Size::Smoke)?;
    if asked.build_only {
        return Ok(programs.to_string());
    }
    let mut said = format!("{}\n", machine::describe());
    let scenarios = if asked.real { catalogue::real } else { catalogue::embedded };
    for scenario in scenarios(asked.size) {
        if !asked.wants(&scenario) {
            continue;
        }
        tell(&format!("{} …", scenario.title));
        let section = scenario.run(&programs)?;
        tell(&section.text);
        said += &format!("\n{}", section.text);
        if asked.size != Size::Smoke {
            paper::write(&root(), &section)?;
        }
    }
    Ok(said)
}

/// How much is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Size {
    Smoke,
    #[default]
    Plain,
    Long,
}

/// The command line.
#[derive(Debug, Default, PartialEq)]
struct Asked<'a> {
    size: Size,
    real: bool,
    build_only: bool,
    words: Vec<&'a str>,
}

impl<'a> Asked<'a> {
    /// `None` if help was asked for.
    fn parse(args: &[&'a str]) -> Result<Option<Self>, String> {
        let mut asked = Self::default();
        let mut rest = args.iter().copied();
        while let Some(argument) = rest.next() {
            match argument {
                "--help" | "-h" => return Ok(None),
                "--smoke" => asked.size = Size::Smoke,
                "--long" => asked.size = Size::Long,
                "--build-only" => asked.build_only = true,
                "--server" => match rest.next() {
                    Some("real") => asked.real = true,
                    Some("embedded") => asked.real = false,
                    other => return Err(format!("--server is `real` or `embedded`, not {other:?}\n{USAGE}")),
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

#[expect(clippy::print_stderr, reason = "twenty minutes of silence would look like a hang")]
fn tell(what: &str) {
    eprintln!("{what}");
}

/// A table and a plot of one scenario.
struct Section {
    name: String,
    text: String,
    plot: Option<String>,
}

impl Section {
    /// The comment in the document before which a new section of this sort is put.
    fn end(&self) -> &'static str {
        if self.name.starts_with("real-") {
            "<!-- end of cargo xtask bench --server real -->\n"
        } else {
            "<!-- end of cargo xtask bench -->\n"
        }
    }

    /// Where the plot stands, seen from docs/.
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
    fn the_command_line_says_how_much_on_what_and_which() {
        let asked = Asked::parse(&["sync", "--long", "--server", "real", "watch"]).unwrap().unwrap();
        let expected =
            Asked { size: Size::Long, real: true, build_only: false, words: vec!["sync", "watch"] };
        assert_eq!(asked, expected);
        assert_eq!(Asked::parse(&["--help"]).unwrap(), None);
        assert!(Asked::parse(&["--server", "mock"]).unwrap_err().contains("mock"));
        assert!(Asked::parse(&["--fast"]).unwrap_err().contains("--fast"));
    }
}
