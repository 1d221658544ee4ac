//! The work queue's figures next to client-go's. Both programs do the same work and print lines of
//! `figure <tab> value <tab> unit`. Compare only figures of one run on one machine.

use std::{
    fmt::Write as _,
    io::ErrorKind,
    process::{Command, Stdio},
};

use crate::cargo::cargo;
use crate::go::root;

struct Figure {
    name: String,
    value: f64,
    unit: String,
}

/// Runs our benchmarks and, if Go is installed, client-go's: all of them, or those whose names contain the word.
/// Returns a table with the ratios.
pub(crate) fn run(word: Option<&str>) -> Result<String, String> {
    let mut ours = Vec::new();
    for bench in ["queue", "memory"] {
        let mut cargo = cargo();
        cargo.args(["bench", "--quiet", "--package", "kube-workqueue", "--bench", bench, "--"]).args(word);
        ours.extend(figures(&mut cargo)?.ok_or("cannot run cargo: not found")?);
    }
    let mut go = Command::new("go");
    go.args(["run", ".", "workqueue"]).args(word).current_dir(root().join("peers/client-go"));
    Ok(table(&ours, figures(&mut go)?.as_deref()))
}

/// The figures that a program prints; `None` if the program is not installed.
fn figures(command: &mut Command) -> Result<Option<Vec<Figure>>, String> {
    match command.stderr(Stdio::inherit()).output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).lines().map(figure).collect::<Result<_, _>>().map(Some)
        }
        Ok(output) => Err(format!("{command:?} failed ({})", output.status)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot start {command:?}: {error}")),
    }
}

fn figure(line: &str) -> Result<Figure, String> {
    let parsed = || {
        let mut fields = line.split('\t');
        let (name, value, unit) = (fields.next()?, fields.next()?.parse().ok()?, fields.next()?);
        Some(Figure { name: name.to_owned(), value, unit: unit.to_owned() })
    };
    parsed().ok_or_else(|| format!("not `figure <tab> value <tab> unit`: {line}"))
}

/// client-go is named below the table where its figure is better by more than this.
const BETTER: f64 = 0.95;

/// One line per figure of ours, then the figures in which client-go is better. The ratio is how many times better ours is.
fn table(ours: &[Figure], theirs: Option<&[Figure]>) -> String {
    let mut table = format!("{:<30} {:>9} {:>10} {:>7}\n", "", "ours", "client-go", "ratio");
    let mut better = Vec::new();
    for Figure { name, value, unit } in ours {
        let _ = write!(table, "{name:<30} {value:>9.2}");
        if let Some(peer) = theirs.and_then(|theirs| theirs.iter().find(|peer| peer.name == *name)) {
            let ratio = if unit == "bytes" { peer.value / value } else { value / peer.value };
            let _ = write!(table, " {:>10.2} {ratio:>6.2}×", peer.value);
            if ratio < BETTER {
                better.push(format!("{name} ({:.2}×)", 1.0 / ratio));
            }
        } else {
            let _ = write!(table, " {:>10} {:>7}", "–", "–");
        }
        let _ = writeln!(table, "  {unit}");
    }
    if !better.is_empty() {
        let _ = writeln!(table, "client-go is better: {}", better.join("; "));
    }
    if theirs.is_none() {
        table.push_str("client-go was skipped; install Go and add it to PATH\n");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_in_which_client_go_is_better_are_named() {
        let figures = |values: [f64; 2]| {
            let of =
                |(name, value): (&str, f64)| Figure { name: name.to_owned(), value, unit: "M/s".to_owned() };
            ["queued", "one producer"].into_iter().zip(values).map(of).collect::<Vec<_>>()
        };
        let ours = figures([2.0, 1.5]);
        let table = table(&ours, Some(&figures([1.0, 3.0])));
        assert!(table.ends_with("\nclient-go is better: one producer (2.00×)\n"), "{table}");
        assert!(!super::table(&ours, Some(&ours)).contains("better"));
    }
}
