//! `cargo xtask schema`: generates the table in `crates/wire/schema` from the Go types of Kubernetes.

use std::fs;

use crate::go::{go, root};

const TABLE: &str = "crates/wire/schema/kubernetes.txt";

/// Generates the table.
pub(crate) fn write() -> Result<String, String> {
    let table = go(["run", "."])?;
    fs::write(root().join(TABLE), &table).map_err(|error| format!("cannot write {TABLE}: {error}"))?;
    Ok(format!("{TABLE}: {}", heading(&table)))
}

/// Fails if [`write()`] would change the table, or if the table and Kubernetes' `.proto` files disagree.
pub(crate) fn check() -> Result<String, String> {
    go(["test", "./..."])?;
    let made = go(["run", "."])?;
    let committed = fs::read(root().join(TABLE)).map_err(|error| format!("cannot read {TABLE}: {error}"))?;
    if made == committed {
        return Ok(format!("{TABLE} is up to date: {}", heading(&made)));
    }
    let (made, committed) = (String::from_utf8_lossy(&made), String::from_utf8_lossy(&committed));
    let (line, (new, old)) = (1..)
        .zip(made.lines().chain([""]).zip(committed.lines().chain([""])))
        .find(|(_, (new, old))| new != old)
        .unwrap_or((0, ("", "")));
    Err(format!(
        "{TABLE} differs from the Go types; run `cargo xtask schema` and commit it\nfirst difference, line {line}:\n-{old}\n+{new}"
    ))
}

fn heading(table: &[u8]) -> String {
    let count =
        |prefix: &[u8]| table.split(|&byte| byte == b'\n').filter(|line| line.starts_with(prefix)).count();
    let version = table.split(|&byte| byte == b'\n').next().unwrap_or_default();
    format!(
        "{}, {} kinds, {} messages",
        String::from_utf8_lossy(version),
        count(b"kind "),
        count(b"message ")
    )
}
