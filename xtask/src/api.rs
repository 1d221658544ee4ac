//! `cargo xtask api`: the public API of each library crate, listed in `api/` from rustdoc's JSON on the pinned nightly.
//! A change of the API is a diff of a listing, so reviewers see it.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use crate::cargo::clean;
use crate::go::root;

/// The toolchain whose rustdoc writes the JSON that `public_api` reads.
pub(crate) const NIGHTLY: &str = include_str!("../../.ci/nightly").trim_ascii_end();

/// The listings: file, library crate, and the features in addition to the crate's default ones.
const LISTINGS: [(&str, &str, &str); 6] = [
    ("kube-wire", "kube-wire", ""),
    ("kube-workqueue", "kube-workqueue", "metrics"),
    // What most users see. `cargo xtask tidy` limits its length.
    ("kube-informer", "kube-informer", ""),
    (
        "kube-informer-all-features",
        "kube-informer",
        "building-blocks,http-proxy,kube-runtime,metrics,oauth,oidc,shards,socks5,testing",
    ),
    ("kube-informer-controller", "kube-informer-controller", "anyhow,health,metrics,signal,testing"),
    ("embedded-apiserver", "embedded-apiserver", "client"),
];

/// Writes the listings.
pub(crate) fn write() -> Result<String, String> {
    let mut summary = String::new();
    for (name, package, features) in LISTINGS {
        let listing = listing(package, features)?;
        fs::create_dir_all(root().join("api")).map_err(|error| format!("cannot create api: {error}"))?;
        fs::write(file(name), &listing).map_err(|error| format!("cannot write api/{name}.txt: {error}"))?;
        let _ = writeln!(summary, "{}", count(name, &listing));
    }
    Ok(summary.trim_end().to_owned())
}

/// Fails if [`write()`] would change a listing.
pub(crate) fn check() -> Result<String, String> {
    let (mut summary, mut changed) = (String::new(), false);
    for (name, package, features) in LISTINGS {
        let made = listing(package, features)?;
        let committed = fs::read_to_string(file(name)).unwrap_or_default();
        let _ = writeln!(summary, "{}", count(name, &made));
        for (sign, line) in difference(&committed, &made) {
            changed = true;
            let _ = writeln!(summary, "{sign}{line}");
        }
    }
    if changed {
        return Err(summary
            + "the public API differs from api/*.txt; if this is intended, run `cargo xtask api` and commit it");
    }
    Ok(summary.trim_end().to_owned())
}

fn file(name: &str) -> PathBuf {
    root().join(format!("api/{name}.txt"))
}

fn count(name: &str, listing: &str) -> String {
    format!("{name}: {} lines", listing.lines().count())
}

/// One line per public item, without blanket, auto trait and derived implementations.
fn listing(name: &str, features: &str) -> Result<String, String> {
    let api = public_api::Builder::from_rustdoc_json(documented(name, features)?)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .map_err(|error| format!("cannot list the API of {name}: {error}"))?;
    Ok(api.items().map(|item| format!("{item}\n")).collect())
}

/// Writes the crate's documentation as JSON with rustdoc and returns the file.
fn documented(name: &str, features: &str) -> Result<PathBuf, String> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let target = target.join("nightly");
    let mut command = Command::new("rustup");
    clean(&mut command);
    command.args([
        "run",
        NIGHTLY,
        "cargo",
        "rustdoc",
        "--quiet",
        "--lib",
        "--package",
        name,
        "--features",
        features,
    ]);
    command.args(["--", "-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"]);
    command.current_dir(root()).env("CARGO_TARGET_DIR", &target);
    match command.status() {
        Ok(status) if status.success() => Ok(target.join("doc").join(name.replace('-', "_") + ".json")),
        Ok(_) => Err(format!(
            "cannot document {name}; if the toolchain is missing, run `rustup toolchain install {NIGHTLY}`"
        )),
        Err(error) => Err(format!("cannot run rustup: {error}")),
    }
}

/// The lines that only one of the two has. Listings are sorted, so the order does not matter.
fn difference<'a>(old: &'a str, new: &'a str) -> Vec<(char, &'a str)> {
    let surplus = |sign, of: &'a str, text: &'a str| {
        let mut others: Vec<_> = text.lines().collect();
        let mut is_other = |line: &&str| match others.iter().position(|other| other == line) {
            Some(at) => others.swap_remove(at) == *line,
            None => false,
        };
        of.lines().filter(|line| !is_other(line)).map(|line| (sign, line)).collect::<Vec<_>>()
    };
    [surplus('-', old, new), surplus('+', new, old)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_the_removed_and_the_added_lines() {
        assert_eq!(difference("a\nb\n", "b\nc\n"), [('-', "a"), ('+', "c")]);
        assert_eq!(difference("a\n", "a\n"), []);
        assert_eq!(difference("a\na\n", "a\n"), [('-', "a")]);
    }
}
