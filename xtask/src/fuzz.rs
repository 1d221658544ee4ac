//! `cargo xtask fuzz`: builds the fuzz targets with the pinned nightly and runs them one after another.
//!
//! Each target starts from the recordings of a real server (`crates/wire/tests/captures`) and from the lines of
//! `fuzz/seeds/TARGET.txt`. Its corpus is kept next to the build, and the next run continues from it. A failing
//! input is written to `fuzz/artifacts/TARGET`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

use crate::api::NIGHTLY;
use crate::cargo::clean;
use crate::go::root;

const USAGE: &str = "\
usage: cargo xtask fuzz (--minutes N | --seconds N) [TARGET]

Runs each fuzz target, or one, for this long. Needs the nightly of .ci/nightly and a C++ compiler.";

/// The compiler flags that libFuzzer needs. cargo-fuzz uses the same.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-simplifycfg-branch-fold-threshold=0 \
    -Zsanitizer=address -Cdebug-assertions -Coverflow-checks";
const PLATFORM: &str = "x86_64-unknown-linux-gnu";
/// Limits of one input: its length, the memory of the process, and its time. The length is within the limits of the
/// decoders. The time is many times that of the slowest input.
const LIMITS: [&str; 3] = ["-max_len=65536", "-rss_limit_mb=2048", "-timeout=20"];

/// Runs all targets, or one.
pub(crate) fn run(args: &[&str]) -> Result<String, String> {
    let (unit, number, only) = match *args {
        [unit, number] => (unit, number, None),
        [unit, number, target] => (unit, number, Some(target)),
        _ => return Err(USAGE.to_owned()),
    };
    let number = number.parse::<u64>().map_err(|_| USAGE)?;
    let seconds = match unit {
        "--minutes" => number * 60,
        "--seconds" => number,
        _ => return Err(USAGE.to_owned()),
    };
    let targets = targets()?.into_iter().filter(|target| only.is_none_or(|only| only == *target));
    let targets = targets.collect::<Vec<_>>();
    if targets.is_empty() {
        return Err(format!("unknown fuzz target; see fuzz/fuzz_targets\n{USAGE}"));
    }
    let built = build(only)?;
    let summary =
        targets.iter().map(|target| fuzz(&built, target, seconds)).collect::<Result<Vec<_>, _>>()?;
    Ok(summary.join("\n"))
}

/// The names of all targets.
fn targets() -> Result<Vec<String>, String> {
    let files = files(&root().join("fuzz/fuzz_targets"))?;
    let name = |file: &PathBuf| Some(file.file_stem()?.to_str()?.to_owned());
    Ok(files.iter().filter_map(name).collect())
}

fn build(only: Option<&str>) -> Result<PathBuf, String> {
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from).join("fuzz");
    let mut command = Command::new("rustup");
    clean(&mut command);
    command.args(["run", NIGHTLY, "cargo", "build", "--quiet", "--release", "--target", PLATFORM]);
    match only {
        Some(only) => command.args(["--bin", only]),
        None => command.arg("--bins"),
    };
    command.arg("--manifest-path").arg(root().join("fuzz/Cargo.toml"));
    command.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", &target);
    succeed(&mut command, "cannot build the fuzz targets")?;
    Ok(target)
}

fn fuzz(built: &Path, target: &str, seconds: u64) -> Result<String, String> {
    let (corpus, seeds) = (built.join("corpus").join(target), built.join("seeds").join(target));
    let artifacts = root().join("fuzz/artifacts").join(target);
    for directory in [&corpus, &seeds, &artifacts] {
        fs::create_dir_all(directory)
            .map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
    }
    for (number, seed) in seeds_of(target)?.iter().enumerate() {
        let file = seeds.join(number.to_string());
        fs::write(&file, seed).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    let mut command = Command::new(built.join(PLATFORM).join("release").join(target));
    command.args(LIMITS).arg("-verbosity=0").arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-artifact_prefix={}/", artifacts.display())).arg(&corpus).arg(&seeds);
    succeed(&mut command, &format!("fuzz target {target} failed; its input is in {}", artifacts.display()))?;
    Ok(format!("{target}: no failure in {seconds} s, {} inputs in its corpus", files(&corpus)?.len()))
}

fn succeed(command: &mut Command, failure: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{failure}: {status}")),
        Err(error) => Err(format!("cannot run {command:?}: {error}")),
    }
}

// === seeds ===

/// The initial inputs of a target, in the format that it reads.
fn seeds_of(target: &str) -> Result<Vec<Vec<u8>>, String> {
    let recordings = Recordings(root().join("crates/wire/tests/captures"));
    let mut seeds = match target {
        // Encoding, chunk size, body.
        "watch" => recordings.bodies("watch", |encoding| vec![encoding, 100])?,
        "list" => recordings.bodies("list", |encoding| vec![encoding, 100])?,
        // Kind, encoding, body.
        "object" => recordings.bodies("", |encoding| vec![0, 0, encoding])?,
        // Code, content type, body.
        "status" => recordings.bodies("", |encoding| vec![154, 1, encoding])?,
        "patch" => recordings.writes(|step| {
            matches!(step["op"].as_str(), Some("merge" | "strategic" | "json"))
                .then(|| documents(&[0], [&step["before"], &step["body"]]))
        })?,
        "apply" => recordings.writes(|step| {
            (step["op"] == "apply")
                .then(|| documents(&[0, 0], [&step["body"], &step["after"], &step["after"]]))
        })?,
        "crd" => recordings.definitions()?,
        "request" => recordings.requests()?,
        _ => Vec::new(),
    };
    let lines = root().join("fuzz/seeds").join(target).with_extension("txt");
    if let Ok(text) = fs::read_to_string(lines) {
        seeds.extend(text.lines().map(|line| line.replace("\\0", "\0").into_bytes()));
    }
    Ok(seeds)
}

/// A prefix, followed by documents that are separated by NUL.
fn documents<const N: usize>(prefix: &[u8], documents: [&Value; N]) -> Vec<u8> {
    [prefix, documents.map(Value::to_string).join("\0").as_bytes()].concat()
}

/// The recordings of a real server.
struct Recordings(PathBuf);

impl Recordings {
    /// All response bodies whose file name starts with `name`, each after a prefix for its encoding (1: protobuf).
    fn bodies(&self, name: &str, prefix: impl Fn(u8) -> Vec<u8>) -> Result<Vec<Vec<u8>>, String> {
        let mut bodies = Vec::new();
        for file in files(&self.0)? {
            let file_name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if file_name.starts_with(name) && file_name.ends_with(".body") {
                let encoding = u8::from(file_name.contains("protobuf"));
                bodies.push([prefix(encoding), read(&file)?].concat());
            }
        }
        Ok(bodies)
    }

    /// Seeds from the steps of all recorded writes.
    fn writes(&self, seed: impl Fn(&Value) -> Option<Vec<u8>>) -> Result<Vec<Vec<u8>>, String> {
        let writes = self.json("writes.json")?;
        let scenarios = writes["scenarios"].as_array().into_iter().flatten();
        Ok(scenarios
            .flat_map(|scenario| scenario["steps"].as_array().into_iter().flatten())
            .filter_map(seed)
            .collect())
    }

    /// All recorded definitions, each with an object.
    fn definitions(&self) -> Result<Vec<Vec<u8>>, String> {
        let (definitions, values) = (self.json("definitions.json")?, self.json("custom-values.json")?);
        let mut seeds = Vec::new();
        for case in definitions["create"].as_array().into_iter().flatten() {
            seeds.push(documents(&[], [&case["object"], &Value::Null]));
        }
        let mut definition = self.json("crd-create.sent")?;
        for (_, set) in values.as_object().into_iter().flatten() {
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = set["schema"].clone();
            for case in set["cases"].as_array().into_iter().flatten() {
                seeds.push(documents(&[], [&definition, &case["object"]]));
            }
        }
        Ok(seeds)
    }

    /// All recorded requests: the lines before the response, and the body.
    fn requests(&self) -> Result<Vec<Vec<u8>>, String> {
        let mut requests = Vec::new();
        for file in files(&self.0)?.iter().filter(|file| file.extension().is_some_and(|end| end == "http")) {
            let text =
                String::from_utf8_lossy(&read(file)?).replace("/namespaces/cap/", "/namespaces/default/");
            let head = text.lines().take_while(|line| !line.starts_with('<')).collect::<Vec<_>>().join("\n");
            let body = read(&file.with_extension("sent")).unwrap_or_default();
            requests.push([head.as_bytes(), b"\n\n", &body].concat());
        }
        Ok(requests)
    }

    fn json(&self, name: &str) -> Result<Value, String> {
        serde_json::from_slice(&read(&self.0.join(name))?)
            .map_err(|error| format!("cannot read {name}: {error}"))
    }
}

fn files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error| format!("cannot read {}: {error}", directory.display());
    let entries = fs::read_dir(directory).map_err(failed)?;
    let mut files =
        entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect::<Result<Vec<_>, String>>()?;
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}
