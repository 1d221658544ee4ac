//! `cargo xtask browser`: the page in a real Chromium, driven by the tests in `browser/`. If they are missing, it
//! installs Debian's packages of Chromium and Node.js, and the npm packages that `browser/package-lock.json` pins. No
//! browser is downloaded from elsewhere.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::cargo;
use crate::go::root;
use crate::install::{find_or_install, succeed, target};

const USAGE: &str = "\
usage: cargo xtask browser [--debug] [--pictures] [--objects N] [WORD]

Builds the program and tests its page in Chromium.
  --debug      build without optimizations
  --pictures   write the screenshots to docs/pictures instead of target/pictures
  --objects N  the number of objects in the test of scale (default: 200000)
  WORD         run only the tests whose names contain this word";

/// The test that takes the pictures.
const PICTURES: &str = "pictures of every view";

/// Names of Chromium's program, in the order in which they are tried.
const CHROMIUMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// The command line.
#[derive(Debug, Default, PartialEq)]
struct BrowserOptions {
    debug: bool,
    pictures: bool,
    objects: Option<String>,
    word: Option<String>,
}

/// Runs the task.
pub(crate) fn run(args: &[&str]) -> Result<String, String> {
    let options = BrowserOptions::parse(args)?;
    let root = root();
    let program = build(options.debug)?;
    let chromium = chromium()?;
    install_packages(&root)?;
    let pictures = if options.pictures { root.join("docs/pictures") } else { target(&root).join("pictures") };
    std::fs::create_dir_all(&pictures)
        .map_err(|error| format!("cannot create {}: {error}", pictures.display()))?;
    let mut node = Command::new(find_or_install(&["node"], &["nodejs"])?);
    node.current_dir(root.join("browser"))
        .args(["--test", "--test-concurrency=1", "--test-reporter=spec"])
        .env("KUBE_INFORMER_PROGRAM", &program)
        .env("CHROMIUM", &chromium)
        .env("PICTURES", &pictures);
    if let Some(objects) = &options.objects {
        node.env("OBJECTS", objects);
    }
    if let Some(word) = &options.word {
        node.arg(format!("--test-name-pattern={word}"));
    }
    node.arg("page.test.js");
    succeed(&mut node, "testing the page")?;
    if options.pictures && options.word.as_deref().is_none_or(|word| PICTURES.contains(word)) {
        crate::tidy::note_pictures()?;
    }
    Ok(format!("the page works in {}; pictures are in {}", chromium.display(), pictures.display()))
}

impl BrowserOptions {
    fn parse(args: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "--debug" => options.debug = true,
                "--pictures" => options.pictures = true,
                "--objects" => {
                    let number = args.next().filter(|number| number.parse::<u32>().is_ok());
                    options.objects = Some(number.ok_or(USAGE)?.to_string());
                }
                word if !word.starts_with('-') && options.word.is_none() => {
                    options.word = Some(word.to_owned());
                }
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(options)
    }
}

/// Builds the program and returns its path.
fn build(debug: bool) -> Result<PathBuf, String> {
    let mut build = cargo();
    build.args(["build", "--quiet", "--package", "kube-informer-cli"]);
    if !debug {
        build.arg("--release");
    }
    succeed(&mut build, "building the program")?;
    Ok(target(&root()).join(if debug { "debug" } else { "release" }).join("kube-informer"))
}

/// Finds or installs the browser.
fn chromium() -> Result<PathBuf, String> {
    if let Some(given) = env::var_os("CHROMIUM") {
        return Ok(given.into());
    }
    // Text needs a font.
    find_or_install(&CHROMIUMS, &["chromium", "fonts-dejavu-core", "fonts-noto-core"])
}

/// Installs the npm packages, unless those of the lock file are installed already.
fn install_packages(root: &Path) -> Result<(), String> {
    let directory = root.join("browser");
    let lock = std::fs::read(directory.join("package-lock.json"))
        .map_err(|error| format!("cannot read the lock file: {error}"))?;
    let mark = directory.join("node_modules/.installed-lock.json");
    if std::fs::read(&mark).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    let mut npm = Command::new(find_or_install(&["npm"], &["npm"])?);
    npm.current_dir(&directory)
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1");
    succeed(&mut npm, "installing the npm packages")?;
    std::fs::write(&mark, lock).map_err(|error| format!("cannot write {}: {error}", mark.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed_and_unknown_ones_are_rejected() {
        let options = BrowserOptions::parse(&["--debug", "--objects", "500", "graph"]).unwrap();
        assert!(options.debug && !options.pictures);
        assert_eq!((options.objects.as_deref(), options.word.as_deref()), (Some("500"), Some("graph")));
        assert!(BrowserOptions::parse(&["--objects", "many"]).is_err());
        assert!(BrowserOptions::parse(&["--help"]).is_err());
    }
}
