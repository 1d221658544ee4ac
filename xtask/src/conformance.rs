//! `cargo xtask conformance`: builds a real kube-apiserver, etcd, kubectl and kube-controller-manager from the Go
//! module in `conformance/` (once per version), then runs the tests that need them. Versions other than the module's
//! own are built from a copy with a generated go.mod, because each version has its own list of modules.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use crate::Outcome;
use crate::cargo::cargo;
use crate::go::root;
use crate::releases::releases;
use crate::tutorial::{self, TemporaryFolder};

const USAGE: &str =
    "usage: cargo xtask conformance [--kubernetes 1.NN[.P]] [--long] [--build-only] [-- ARGUMENTS OF CARGO TEST]

Runs the tests of conformance/harness; arguments of `cargo test` select some of them.

  --kubernetes VERSION  test this version instead of the newest one
  --long                more objects and more rounds, as before a release
  --build-only          build the programs and run no test

The programs are stored below $KUBE_INFORMER_CACHE, or below conformance/ in the target directory. They are rebuilt
only when conformance/ changes.";

const PROGRAMS: [&str; 4] = ["kube-apiserver", "etcd", "kubectl", "kube-controller-manager"];
/// The folders of the module with Go sources.
const SOURCES: [&str; 2] = ["cmd", "leash"];
/// A file next to the programs with the sources from which they were built.
const STAMP: &str = "built-from";

/// Runs the task and returns its final message.
pub(crate) fn run(args: &[&str]) -> Result<String, String> {
    test(args).map_err(|error| format!("cargo xtask conformance: {error}"))
}

/// The directory of the programs of the module's own version. Builds them if they are missing.
pub(crate) fn programs() -> Outcome<PathBuf> {
    Ok(built(&root(), None)?.1)
}

/// kubectl of the module's own version, if it is built.
pub(crate) fn kubectl() -> Option<PathBuf> {
    let module = fs::read_to_string(root().join("conformance/go.mod")).ok()?;
    let version = required_version(&module, "k8s.io/kubernetes").ok()?;
    let kubectl = std::path::absolute(cache(&root())).ok()?.join(version).join("kubectl");
    kubectl.is_file().then_some(kubectl)
}

/// Builds the programs of a version, or of the module's own. Returns the full version and the directory.
fn built(root: &Path, version: Option<&str>) -> Outcome<(String, PathBuf)> {
    let module = root.join("conformance");
    let own = required_version(&fs::read_to_string(module.join("go.mod"))?, "k8s.io/kubernetes")?;
    let version = version.map_or(Ok(own.clone()), release)?;
    let programs = std::path::absolute(cache(root))?.join(&version);
    build(&module, &version, version == own, &programs)?;
    Ok((version, programs))
}

fn test(args: &[&str]) -> Outcome<String> {
    let Some(asked) = TestArguments::parse(args)? else { return Ok(USAGE.to_owned()) };
    let (version, programs) = built(&root(), asked.version.as_deref())?;
    if asked.build_only {
        return Ok(format!("Kubernetes {version} is in {}", programs.display()));
    }
    let mut cargo = cargo();
    // The tests are behind this feature. After a failure the other tests still run.
    // With the features of the whole workspace, so that nothing is built that `cargo test` has built.
    cargo.args(["test", "--no-fail-fast", "--workspace", "--test", "conformance"]);
    cargo.args(["--features", "kube-informer-conformance/real-server"]);
    cargo.args(asked.test_args);
    cargo.env("KUBE_INFORMER_CONFORMANCE_PROGRAMS", &programs);
    let folder = TemporaryFolder::new();
    if asked.selects_tutorial() {
        print_progress(&format!("building the operator of {}", tutorial::PAGE));
        cargo.env("KUBE_INFORMER_TUTORIAL", tutorial::package_in(&folder.0)?);
    }
    if asked.long {
        cargo.env("KUBE_INFORMER_CONFORMANCE_LONG", "1");
    }
    if !cargo.status()?.success() {
        return Err(format!("the tests failed on Kubernetes {version}").into());
    }
    Ok(format!("the tests passed on Kubernetes {version}"))
}

/// The command line.
#[derive(Debug, Default, PartialEq)]
struct TestArguments<'a> {
    version: Option<String>,
    build_only: bool,
    long: bool,
    test_args: &'a [&'a str],
}

impl<'a> TestArguments<'a> {
    /// `None` if help was requested.
    fn parse(args: &'a [&'a str]) -> Result<Option<Self>, String> {
        let mut asked = Self::default();
        let mut rest = args;
        while let [first, tail @ ..] = rest {
            rest = tail;
            match *first {
                "--help" | "-h" => return Ok(None),
                "--build-only" => asked.build_only = true,
                "--long" => asked.long = true,
                "--kubernetes" => {
                    let [version, tail @ ..] = rest else {
                        return Err(format!("--kubernetes needs a version\n{USAGE}"));
                    };
                    (asked.version, rest) = (Some((*version).to_owned()), tail);
                }
                "--" => {
                    asked.test_args = rest;
                    break;
                }
                other => return Err(format!("unknown argument {other:?}\n{USAGE}")),
            }
        }
        Ok(Some(asked))
    }

    /// Whether the tests of `tutorial.rs` run, which need its operator. Building it takes minutes the first time.
    fn selects_tutorial(&self) -> bool {
        self.test_args.is_empty() || self.test_args.iter().any(|arg| arg.contains("tutorial"))
    }
}

/// The release that `1.34`, `1.34.4` or `v1.34.4` means.
fn release(asked: &str) -> Result<String, String> {
    let plain = asked.trim_start_matches('v');
    match plain.split('.').collect::<Vec<_>>()[..] {
        ["1", _] => releases()
            .find(|release| release.minor() == plain)
            .map(|found| found.full.to_owned())
            .ok_or_else(|| {
                let known: Vec<_> = releases().map(|release| release.full).collect();
                format!(
                    "unknown Kubernetes version {asked}; name one in full, or one of {}",
                    known.join(", ")
                )
            }),
        ["1", _, _] => Ok(format!("v{plain}")),
        _ => Err(format!("invalid Kubernetes version {asked:?}; write 1.34 or 1.34.4")),
    }
}

/// The directory of the built programs.
fn cache(root: &Path) -> PathBuf {
    let target = || env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    env::var_os("KUBE_INFORMER_CACHE").map_or_else(|| target().join("conformance"), PathBuf::from)
}

/// Builds the programs of one version, unless they exist and were built from the same sources.
fn build(module: &Path, version: &str, own: bool, programs: &Path) -> Outcome {
    let stamp = sources(module)?;
    let built = fs::read_to_string(programs.join(STAMP)).is_ok_and(|found| found == stamp)
        && PROGRAMS.iter().all(|name| programs.join(name).is_file());
    if built {
        return Ok(());
    }
    require_go()?;
    fs::create_dir_all(programs)?;
    print_progress(&format!(
        "Kubernetes {version}: building in {} (minutes the first time)",
        programs.display()
    ));
    let began = Instant::now();
    let module = if own { module.to_owned() } else { copy_for(module, version, &programs.join("module"))? };
    go(
        &module,
        &[
            "build",
            "-buildvcs=false",
            "-trimpath",
            "-ldflags",
            &linker_flags(version),
            "-o",
            &format!("{}/", programs.display()),
            "./cmd/...",
        ],
    )?;
    fs::write(programs.join(STAMP), stamp)?;
    print_progress(&format!("Kubernetes {version}: built in {} s", began.elapsed().as_secs()));
    Ok(())
}

#[expect(clippy::print_stderr, reason = "minutes of silence would look like a hang")]
fn print_progress(what: &str) {
    eprintln!("{what}");
}

/// The sources of the programs as one text.
fn sources(module: &Path) -> io::Result<String> {
    let mut files = vec![module.join("go.mod"), module.join("go.sum")];
    for folder in SOURCES {
        files.extend(files_below(&module.join(folder))?);
    }
    files.iter().map(fs::read_to_string).collect()
}

fn files_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        if entry.is_dir() { files.extend(files_below(&entry)?) } else { files.push(entry) }
    }
    Ok(files)
}

fn require_go() -> Outcome {
    match Command::new("go").arg("version").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("`go version` fails: {}", String::from_utf8_lossy(&output.stderr)).into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err("cannot find Go, which builds kube-apiserver and etcd; install Go 1.21 or newer (it downloads the \
                 release that it needs) and add it to PATH, or set KUBE_INFORMER_CACHE to a directory with \
                 programs that were built before"
                .into())
        }
        Err(error) => Err(format!("cannot run go: {error}").into()),
    }
}

/// The linker flags that set the version of every program, as Kubernetes' own build does.
fn linker_flags(version: &str) -> String {
    let minor = version.split('.').nth(1).unwrap_or_default();
    let mut flags = "-s -w".to_owned();
    for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
        for (name, value) in [
            ("gitVersion", version),
            ("gitMajor", "1"),
            ("gitMinor", minor),
            ("gitTreeState", "clean"),
            ("gitCommit", ""),
        ] {
            flags += &format!(" -X {package}.{name}={value}");
        }
    }
    flags
}

/// A copy of the module for another version of Kubernetes, with a go.mod and go.sum of its own.
fn copy_for(module: &Path, version: &str, copy: &Path) -> Outcome<PathBuf> {
    if copy.exists() {
        fs::remove_dir_all(copy)?;
    }
    for folder in SOURCES {
        for file in files_below(&module.join(folder))? {
            let target = copy.join(file.strip_prefix(module)?);
            fs::create_dir_all(target.parent().unwrap_or(copy))?;
            fs::copy(file, target)?;
        }
    }
    fs::write(copy.join("go.mod"), "module kube-informer/conformance\n")?;
    let described = go(copy, &["mod", "download", "-json", &format!("k8s.io/kubernetes@{version}")])?;
    let theirs =
        described.lines().find_map(|line| line.trim().strip_prefix("\"GoMod\": \"")?.strip_suffix("\","));
    let theirs = fs::read_to_string(theirs.ok_or("go mod download does not say where go.mod is")?)?;
    fs::write(copy.join("go.mod"), go_mod(&theirs, version)?)?;
    go(copy, &["mod", "tidy"])?;
    Ok(copy.to_owned())
}

/// The go.mod for a version, from Kubernetes' own: the same Go, the same etcd, and each module of
/// its own tree (`=> ./staging/…`) in the published version of the same release.
fn go_mod(theirs: &str, version: &str) -> Result<String, String> {
    let etcd = required_version(theirs, "go.etcd.io/etcd/server/v3")?;
    let published = version.replacen("v1.", "v0.", 1);
    let mut text = "module kube-informer/conformance\n\n".to_owned();
    for line in theirs.lines().filter(|line| line.starts_with("go ") || line.starts_with("godebug ")) {
        text += &format!("{line}\n\n");
    }
    text += &format!("require (\n\tgo.etcd.io/etcd/client/v3 {etcd}\n\tgo.etcd.io/etcd/server/v3 {etcd}\n");
    text += &format!("\tk8s.io/kubernetes {version}\n)\n\nreplace (\n");
    for line in theirs.lines() {
        if let Some((name, _)) = line.trim().split_once(" => ./staging/") {
            text += &format!("\t{name} => {name} {published}\n");
        }
    }
    Ok(text + ")\n")
}

/// The version of a module that a go.mod requires.
fn required_version(go_mod: &str, module: &str) -> Result<String, String> {
    let mut lines = go_mod.lines().map(|line| line.trim().trim_start_matches("require "));
    lines
        .find_map(|line| line.strip_prefix(module)?.strip_prefix(' ')?.split_whitespace().next())
        .filter(|version| version.starts_with('v'))
        .map(str::to_owned)
        .ok_or_else(|| format!("go.mod does not require {module}"))
}

/// Runs go in a module and returns its output. Its standard error goes to the terminal.
fn go(module: &Path, args: &[&str]) -> Outcome<String> {
    let output = Command::new("go")
        .current_dir(module)
        .args(args)
        .env("GOWORK", "off")
        .stderr(std::process::Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("`go {}` failed in {}", args[..2].join(" "), module.display()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    #[test]
    fn options_are_parsed_in_any_order_up_to_the_arguments_of_the_tests() {
        let args = words("--build-only --kubernetes 1.34 --long -- watches:: bookmark");
        let asked = TestArguments::parse(&args).unwrap().unwrap();
        let expected = TestArguments {
            version: Some("1.34".into()),
            build_only: true,
            long: true,
            test_args: &args[5..],
        };
        assert_eq!(asked, expected);
        assert!(!asked.selects_tutorial());
        let every_test = TestArguments::parse(&[]).unwrap().unwrap();
        assert!(every_test.selects_tutorial());
        assert_eq!(TestArguments::parse(&words("--help")).unwrap(), None);
        assert!(TestArguments::parse(&words("--kubernetes")).unwrap_err().contains("needs a version"));
        assert!(TestArguments::parse(&words("--fast")).unwrap_err().contains("--fast"));
    }

    #[test]
    fn a_minor_version_is_its_known_release_and_a_full_version_is_itself() {
        for (asked, meant) in
            [("1.34", "v1.34.4"), ("v1.37", "v1.37.1"), ("1.35.1", "v1.35.1"), ("v1.33.13", "v1.33.13")]
        {
            assert_eq!(release(asked).as_deref(), Ok(meant));
        }
        for wrong in ["1.20", "1.3", "2.0.0", "latest", ""] {
            assert!(release(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn another_version_has_its_own_go_etcd_and_published_modules() {
        let theirs = "module k8s.io/kubernetes\n\ngo 1.24.0\n\ngodebug default=go1.24\n\nrequire (\n\
                      \tgo.etcd.io/etcd/server/v3 v3.6.4 // indirect\n\tk8s.io/api v0.0.0\n)\n\n\
                      replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n";
        let ours = go_mod(theirs, "v1.34.4").unwrap();
        for line in [
            "go 1.24.0",
            "godebug default=go1.24",
            "\tgo.etcd.io/etcd/client/v3 v3.6.4",
            "\tk8s.io/kubernetes v1.34.4",
            "\tk8s.io/api => k8s.io/api v0.34.4",
        ] {
            assert!(ours.lines().any(|found| found == line), "{line:?} is not in\n{ours}");
        }
        assert!(!ours.contains("staging"));
    }
}
