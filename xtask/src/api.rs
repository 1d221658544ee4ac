//! `cargo xtask api`: the public API of each library crate, listed in `api/CRATE.txt` from rustdoc's JSON on the pinned nightly.
//! A change of the API shows as a diff of a listing, so that it shows in review.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use crate::cargo::clean;
use crate::go::root;

/// The toolchain whose rustdoc writes the JSON that `public_api` reads.
const NIGHTLY: &str = include_str!("../../.ci/nightly").trim_ascii_end();

/// The library crates, and the features that their documentation is built with.
const CRATES: [(&str, &str); 5] = [
    ("kube-wire", ""),
    ("kube-workqueue", "metrics"),
    ("kube-informer", "http-proxy,kube-runtime,metrics,oauth,oidc,socks5,testing"),
    ("kube-informer-controller", "health,metrics,signal"),
    ("embedded-apiserver", "client"),
];

/// Writes the listings.
pub(crate) fn write() -> Result<String, String> {
    let mut said = String::new();
    for (name, features) in CRATES {
        let listing = listing(name, features)?;
        fs::create_dir_all(root().join("api")).map_err(|error| format!("cannot create api: {error}"))?;
        fs::write(file(name), &listing).map_err(|error| format!("cannot write api/{name}.txt: {error}"))?;
        let _ = writeln!(said, "{}", count(name, &listing));
    }
    Ok(said.trim_end().to_owned())
}

/// Fails if [`write()`] would change something.
pub(crate) fn check() -> Result<String, String> {
    let (mut said, mut changed) = (String::new(), false);
    for (name, features) in CRATES {
        let made = listing(name, features)?;
        let committed = fs::read_to_string(file(name)).unwrap_or_default();
        let _ = writeln!(said, "{}", count(name, &made));
        for (sign, line) in difference(&committed, &made) {
            changed = true;
            let _ = writeln!(said, "{sign}{line}");
        }
    }
    if changed {
        return Err(
            said + "the public API differs from api/*.txt; if that is meant, run `cargo xtask api` and commit it"
        );
    }
    Ok(said.trim_end().to_owned())
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

/// Has rustdoc describe the crate in JSON, and gives the file.
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
            "cannot document {name}; if the toolchain is missing: `rustup toolchain install {NIGHTLY}`"
        )),
        Err(error) => Err(format!("cannot run rustup: {error}")),
    }
}

/// Lines that only one of the two has. Listings are sorted, so order says nothing.
fn difference<'a>(old: &'a str, new: &'a str) -> Vec<(char, &'a str)> {
    let lacks = |text: &'a str, sign, of: &'a str| {
        of.lines().filter(move |line| !text.lines().any(|other| other == *line)).map(move |line| (sign, line))
    };
    lacks(new, '-', old).chain(lacks(old, '+', new)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_what_is_gone_and_what_is_new() {
        assert_eq!(difference("a\nb\n", "b\nc\n"), [('-', "a"), ('+', "c")]);
        assert_eq!(difference("a\n", "a\n"), []);
    }
}
