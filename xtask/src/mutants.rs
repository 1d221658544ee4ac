//! `cargo xtask mutants`: mutation tests. cargo-mutants changes one place at a time in the libraries with the guarantees; the tests
//! must notice each change. All mutants would take days, so a seed chooses a sample.
//!
//! The place of a mutant in the sample depends on its name and the seed only, so a larger sample contains a smaller one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::Outcome;
use crate::cargo::cargo;
use crate::go::root;
use crate::install;

const USAGE: &str = "\
usage: cargo xtask mutants [--sample N] [--seed N] [--package NAME] [--jobs N] [--list]

Changes N places (default: 300) of kube-informer, kube-workqueue and kube-informer-controller, one at a time, and runs the tests of the
changed package. Fails if fewer than 98 % of the changes are caught. A run that is interrupted continues: mutants that were caught
before are not tested again.

  --sample N      the number of mutants
  --seed N        chooses the sample (default: 1)
  --package NAME  only the sample's mutants of this package
  --jobs N        mutants to test at the same time (default: 1)
  --list          print the sample and run no test";

/// The program that makes the mutants, and its version.
const TOOL: &str = "cargo-mutants";
const VERSION: &str = "27.1.0";

/// The packages, and the arguments of `cargo test` that select their tests. Examples, benchmarks and documentation are not tested.
const PACKAGES: [(&str, &[&str]); 3] = [
    ("kube-informer", &["--lib", "--test", "suite", "--test", "packed"]),
    ("kube-workqueue", &["--lib", "--tests"]),
    ("kube-informer-controller", &["--lib", "--test", "controller"]),
];

/// Mutants of these are not in the sample: deliberate bugs are not compiled, and the rest only formats text for people.
const EXCLUDED: [&str; 2] = ["deliberate_bug", r"impl .*(Debug|Display) for"];

/// A mutant counts as caught if its tests run longer than this.
const TIMEOUT_SECONDS: &str = "300";
const CAUGHT_PERCENT_MIN: usize = 98;

struct Arguments<'a> {
    sample: usize,
    seed: u64,
    package: Option<&'a str>,
    jobs: &'a str,
    is_list: bool,
}

/// Tests the sample and returns its results.
pub(crate) fn run(args: &[&str]) -> Result<String, String> {
    let failed = |error| format!("cargo xtask mutants: {error}");
    match Arguments::parse(args)? {
        Some(arguments) => test(&arguments).map_err(failed),
        None => Ok(USAGE.to_owned()),
    }
}

impl<'a> Arguments<'a> {
    /// `None` if help was requested.
    fn parse(args: &[&'a str]) -> Result<Option<Self>, String> {
        let mut parsed = Self { sample: 300, seed: 1, package: None, jobs: "1", is_list: false };
        let mut rest = args.iter().copied();
        while let Some(arg) = rest.next() {
            let mut value = || rest.next().ok_or_else(|| format!("{arg} needs a value\n{USAGE}"));
            match arg {
                "--help" | "-h" => return Ok(None),
                "--sample" => parsed.sample = number(value()?)?,
                "--seed" => parsed.seed = number(value()?)?,
                "--package" => parsed.package = Some(value()?),
                "--jobs" => parsed.jobs = value()?,
                "--list" => parsed.is_list = true,
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(Some(parsed))
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("invalid number {text:?}\n{USAGE}"))
}

fn test(arguments: &Arguments<'_>) -> Outcome<String> {
    let found = cargo().args(["mutants", "--version"]).output().map(|output| output.stdout);
    if !found.is_ok_and(|version| String::from_utf8_lossy(&version).contains(VERSION)) {
        return Err(
            format!("cannot find {TOOL} {VERSION}; run `cargo install --locked {TOOL}@{VERSION}`").into()
        );
    }
    let mut by_package = BTreeMap::<String, Vec<String>>::new();
    for (package, name) in sample(all_mutants()?, arguments.sample, arguments.seed) {
        by_package.entry(package).or_default().push(name);
    }
    let (mut counts, mut survivors) = (Counts::default(), Vec::new());
    for (package, tests) in PACKAGES {
        let names = by_package.remove(package).unwrap_or_default();
        if names.is_empty() || arguments.package.is_some_and(|only| only != package) {
            continue;
        }
        if arguments.is_list {
            survivors.extend(names);
            continue;
        }
        let output = install::target(&root()).join("mutants").join(package);
        fs::create_dir_all(&output)?;
        mutate(package, tests, &names, arguments.jobs, &output)?;
        counts.add(&output, &mut survivors)?;
    }
    let listed = survivors.join("\n");
    if arguments.is_list {
        return Ok(listed);
    }
    let summary = format!("{listed}\n{counts}");
    if counts.caught * 100 < CAUGHT_PERCENT_MIN * counts.viable() { Err(summary.into()) } else { Ok(summary) }
}

/// The package and the name of each mutant.
fn all_mutants() -> Outcome<Vec<(String, String)>> {
    let mut list = cargo();
    list.args(["mutants", "--list", "--json"]);
    for (package, _) in PACKAGES {
        list.args(["--package", package]);
    }
    for excluded in EXCLUDED {
        list.args(["--exclude-re", excluded]);
    }
    let output = list.output()?;
    if !output.status.success() {
        return Err(format!("cannot list mutants: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let mutants: Vec<Value> = serde_json::from_slice(&output.stdout)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(mutants.iter().map(|mutant| (text(&mutant["package"]), text(&mutant["name"]))).collect())
}

/// The mutants whose hashes come first, in the order of their names.
fn sample(mutants: Vec<(String, String)>, count: usize, seed: u64) -> Vec<(String, String)> {
    let mut ranked: Vec<_> =
        mutants.into_iter().map(|(package, name)| (rank(seed, &name), package, name)).collect();
    ranked.sort();
    ranked.truncate(count);
    let mut sample: Vec<_> = ranked.into_iter().map(|(_, package, name)| (package, name)).collect();
    sample.sort();
    sample
}

/// FNV-1a over the seed and the name.
fn rank(seed: u64, name: &str) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Tests mutants of one package. Survivors are no error here.
fn mutate(package: &str, tests: &[&str], names: &[String], jobs: &str, output: &Path) -> Outcome {
    let mut mutants = cargo();
    mutants.args(["mutants", "--package", package, "--iterate", "--no-shuffle", "--colors", "never"]);
    mutants.args(["--timeout", TIMEOUT_SECONDS, "--jobs", jobs]).arg("--output").arg(output);
    for name in names {
        mutants.arg("--re").arg(format!("^{}$", escaped(name)));
    }
    mutants.arg("--").args(tests);
    match mutants.status()?.code() {
        // Everything was caught; some were missed; some ran out of time.
        Some(0 | 2 | 3) => Ok(()),
        code => Err(format!("the mutants of {package} were not tested: exit code {code:?}").into()),
    }
}

/// A regular expression that matches this text.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for char in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(char) {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}

/// What became of the mutants.
#[derive(Debug, Default)]
struct Counts {
    caught: usize,
    missed: usize,
    unviable: usize,
}

impl Counts {
    fn viable(&self) -> usize {
        self.caught + self.missed
    }

    /// Adds the results in this folder. A run that continues another one also counts what the other one caught.
    fn add(&mut self, output: &Path, survivors: &mut Vec<String>) -> Outcome {
        let folder = output.join("mutants.out");
        let lines = |file: &str| -> Outcome<Vec<String>> {
            let path: PathBuf = folder.join(file);
            Ok(if path.exists() {
                fs::read_to_string(path)?.lines().map(str::to_owned).collect()
            } else {
                Vec::new()
            })
        };
        let caught = [lines("caught.txt")?, lines("timeout.txt")?, lines("previously_caught.txt")?].concat();
        let caught: std::collections::BTreeSet<String> = caught.into_iter().collect();
        let missed = lines("missed.txt")?;
        self.caught += caught.len();
        self.missed += missed.len();
        self.unviable += lines("unviable.txt")?.len();
        survivors.extend(missed);
        Ok(())
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { caught, missed, unviable } = self;
        let percent = (caught * 1000).checked_div(self.viable()).unwrap_or_default();
        let (whole, tenths) = (percent / 10, percent % 10);
        write!(
            f,
            "{caught} mutants caught, {missed} missed ({whole}.{tenths} % caught); {unviable} did not compile"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_sample_contains_a_smaller_one() {
        let mutants: Vec<_> = (0..100).map(|number| ("p".to_owned(), format!("mutant {number}"))).collect();
        let (few, many) = (sample(mutants.clone(), 10, 1), sample(mutants.clone(), 30, 1));
        assert_eq!((few.len(), many.len()), (10, 30));
        assert!(few.iter().all(|mutant| many.contains(mutant)));
        assert_ne!(few, sample(mutants, 10, 2), "another seed chooses others");
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(
            escaped("a.rs:1:2: replace && with || in f<T>"),
            r"a\.rs:1:2: replace \&\& with \|\| in f<T>"
        );
    }

    #[test]
    fn percentages_ignore_what_did_not_compile() {
        let counts = Counts { caught: 197, missed: 3, unviable: 50 };
        assert_eq!(counts.to_string(), "197 mutants caught, 3 missed (98.5 % caught); 50 did not compile");
    }
}
