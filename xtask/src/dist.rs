//! `cargo xtask dist`: packages the program for users who do not build from source. It writes an archive and its
//! checksum. The archive has a binary that runs on any Linux of its architecture (musl, linked statically), manual
//! pages, completions and a Dockerfile.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::cargo;
use crate::go::root;
use crate::install::{find_or_install, find_program, succeed, target};

const USAGE: &str = "\
usage: cargo xtask dist [--quick]

Builds the program for x86_64-unknown-linux-musl (or this machine's architecture), checks it, and packs it into
target/dist. Installs the target with rustup and Debian's musl-tools if they are missing.
  --quick   use the dev profile, which builds faster; the binary is larger and slower";

/// Completions: the shell, and the file name that it expects.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "kube-informer.bash"), ("zsh", "_kube-informer"), ("fish", "kube-informer.fish")];

/// Other files of the repository in the archive.
const FILES: [&str; 3] = ["LICENSE", "crates/cli/README.md", "crates/cli/Dockerfile"];

/// Runs the task.
pub(crate) fn run(args: &[&str]) -> Result<String, String> {
    let profile = match args {
        [] => "dist",
        ["--quick"] => "dev",
        _ => return Err(USAGE.to_owned()),
    };
    let triple = format!("{ARCH}-unknown-linux-musl");
    let program = build(&triple, profile)?;
    check(&program)?;
    let name = format!("kube-informer-{}-{triple}", env!("CARGO_PKG_VERSION"));
    let dist = target(&root()).join("dist");
    let directory = dist.join(&name);
    // Do not pack files of an earlier run.
    let _ = fs::remove_dir_all(&directory);
    fill(&directory, &program)?;
    let archive = pack(&dist, &name)?;
    let size = fs::metadata(&archive).map_or(0, |metadata| metadata.len());
    Ok(format!("{}: {:.1} MB", archive.display(), size as f64 / 1e6))
}

/// Builds the program and returns its path.
fn build(triple: &str, profile: &str) -> Result<PathBuf, String> {
    // C code of dependencies needs musl's headers.
    find_or_install(&["musl-gcc"], &["musl-tools"])?;
    if let Some(rustup) = find_program(&["rustup"]) {
        succeed(Command::new(rustup).args(["target", "add", triple]), "installing the target")?;
    }
    let mut build = cargo();
    build.args(["build", "--locked", "--quiet", "--package", "kube-informer-cli"]);
    build.args(["--target", triple, "--profile", profile]);
    succeed(&mut build, "building the program")?;
    let directory = if profile == "dev" { "debug" } else { profile };
    Ok(target(&root()).join(triple).join(directory).join("kube-informer"))
}

/// Checks that the binary needs no library, and that it works.
fn check(program: &Path) -> Result<(), String> {
    let bytes = fs::read(program).map_err(|error| format!("cannot read {}: {error}", program.display()))?;
    if needs_loader(&bytes).ok_or("the binary is not a 64-bit little-endian ELF file")? {
        return Err(format!("{} is linked dynamically", program.display()));
    }
    let demo = ["demo", "--seconds", "1", "--objects", "100", "--quiet"];
    let output = output_of(Command::new(program).args(demo))?;
    match output.contains("the mirror equals the server") {
        true => Ok(()),
        false => Err(format!("the demo of {} failed:\n{output}", program.display())),
    }
}

/// Whether a program header asks for a dynamic loader (`PT_INTERP`).
fn needs_loader(elf: &[u8]) -> Option<bool> {
    const PT_INTERP: u32 = 3;
    let number = |at: usize, length: usize| {
        let bytes = elf.get(at..at.checked_add(length)?)?;
        Some(bytes.iter().rev().fold(0_usize, |number, byte| number << 8 | usize::from(*byte)))
    };
    if elf.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for entry in 0..count {
        if number(table.checked_add(entry * size)?, 4)? == PT_INTERP as usize {
            return Some(true);
        }
    }
    Some(false)
}

/// Fills the directory to be packed.
fn fill(directory: &Path, program: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot fill {}: {error}", directory.display());
    for part in ["man", "completions"] {
        fs::create_dir_all(directory.join(part)).map_err(failed)?;
    }
    fs::copy(program, directory.join("kube-informer")).map_err(failed)?;
    for file in FILES.map(|file| root().join(file)) {
        fs::copy(&file, directory.join(file.file_name().unwrap_or_default())).map_err(failed)?;
    }
    for (shell, name) in COMPLETIONS {
        let script = output_of(Command::new(program).args(["completions", shell]))?;
        fs::write(directory.join("completions").join(name), script).map_err(failed)?;
    }
    let mut man = Command::new(program);
    succeed(man.args(["man", "--directory"]).arg(directory.join("man")), "writing the manual pages")
}

/// Packs the directory, with a checksum next to the archive. The same files produce the same archive.
fn pack(dist: &Path, name: &str) -> Result<PathBuf, String> {
    let archive = format!("{name}.tar.gz");
    let mut tar = Command::new("tar");
    tar.current_dir(dist)
        .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=go=u-w", "--mtime=@0"])
        .args(["--use-compress-program", "gzip --no-name", "--create", "--file", &archive, name]);
    succeed(&mut tar, "packing")?;
    let sums = output_of(Command::new("sha256sum").current_dir(dist).arg(&archive))?;
    fs::write(dist.join("SHA256SUMS"), sums).map_err(|error| format!("cannot write SHA256SUMS: {error}"))?;
    Ok(dist.join(archive))
}

/// The standard output of a command that must succeed.
fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => Err(format!("{command:?} failed: {}\n{text}", output.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamic_and_static_binaries_are_distinguished() {
        let mut elf = vec![0; 64 + 2 * 56];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (elf[32], elf[54], elf[56]) = (64, 56, 2);
        assert_eq!(needs_loader(&elf), Some(false));
        elf[64 + 56] = 3;
        assert_eq!(needs_loader(&elf), Some(true));
        elf[33] = 255;
        assert_eq!(needs_loader(&elf), None, "the table is outside of the file");
        assert_eq!(needs_loader(b"#!/bin/sh"), None);
    }
}
