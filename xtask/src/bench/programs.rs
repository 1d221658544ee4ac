//! Builds the programs, each with its own tools. Rust programs use the workspace's benchmark profile, or the dev profile for
//! smoke runs, because it builds faster.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use super::{Outcome, print_progress};
use crate::cargo::cargo;
use crate::conformance;
use crate::go::root;

pub(super) struct Programs {
    pub(super) ours: PathBuf,
    pub(super) client_go: PathBuf,
    pub(super) kube_rs: PathBuf,
    /// `kube-informer`
    pub(super) program: PathBuf,
    /// kubectl, if the conformance programs are built.
    pub(super) kubectl: Option<PathBuf>,
    /// The program that starts the real server, and the directory of the server's programs.
    pub(super) real: Option<(PathBuf, PathBuf)>,
}

impl Programs {
    pub(super) fn build(real: bool, measured: bool) -> Outcome<Self> {
        let root = root();
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let target = std::path::absolute(target)?;
        let theirs = target.join("peers");
        std::fs::create_dir_all(&theirs)?;
        print_progress("building …");
        // A smoke run uses what the workspace's tests have built.
        let (profile, folder) = if measured { ("bench", "release") } else { ("dev", "debug") };
        let mut ours = cargo();
        ours.args(["build", "--quiet", "--bins", "--profile", profile]);
        if measured {
            ours.args(["-p", "kube-informer-peer", "-p", "kube-informer-cli"]);
            if real {
                ours.args(["-p", "kube-informer-conformance"]);
            }
        } else {
            ours.arg("--workspace");
        }
        succeed(&mut ours)?;
        let manifest = root.join("peers/kube-rs/Cargo.toml");
        let mut kube_rs = cargo();
        kube_rs.args(["build", "--profile", profile, "--quiet", "--manifest-path"]).arg(manifest);
        succeed(kube_rs.env("CARGO_TARGET_DIR", &theirs))?;
        let client_go = theirs.join("client-go-peer");
        let mut go = Command::new("go");
        go.args(["build", "-buildvcs=false", "-o"]).arg(&client_go).arg(".");
        succeed(go.current_dir(root.join("peers/client-go")).env("GOWORK", "off"))?;
        let built = target.join(folder);
        Ok(Self {
            ours: built.join("kube-informer-peer"),
            client_go,
            kube_rs: theirs.join(folder).join("kube-rs-peer"),
            program: built.join("kube-informer"),
            kubectl: conformance::kubectl(),
            real: real
                .then(|| Outcome::Ok((built.join("real-server"), conformance::programs()?)))
                .transpose()?,
        })
    }
}

impl fmt::Display for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ours, client_go, kube_rs, program, .. } = self;
        let paths = [ours, client_go, kube_rs, program].map(|path| path.display().to_string());
        f.write_str(&paths.join("\n"))
    }
}

fn succeed(command: &mut Command) -> Outcome {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} failed ({status})").into()),
        Err(error) => Err(format!("cannot start {command:?}: {error}; Go must be installed").into()),
    }
}
