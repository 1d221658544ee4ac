//! The figures that programs print, collected over repetitions: medians with their spread.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use super::Outcome;

/// The figures that one program printed, by name.
pub(super) type Printed = BTreeMap<String, String>;

/// Parses lines of `figure <tab> value <tab> unit`.
pub(super) fn parse(text: &str) -> Outcome<Printed> {
    let line = |line: &str| {
        let mut fields = line.split('\t');
        match (fields.next(), fields.next(), fields.next()) {
            (Some(figure), Some(value), Some(_unit)) => Ok((figure.to_owned(), value.to_owned())),
            _ => Err(format!("not `figure <tab> value <tab> unit`: {line}").into()),
        }
    };
    text.lines().map(line).collect()
}

/// Runs a program to its end and reads what it prints.
pub(super) fn of(command: &mut Command) -> Outcome<Printed> {
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} failed ({})", output.status).into());
    }
    parse(&String::from_utf8(output.stdout)?)
}

/// The same for a program that prints that it is waiting; `act` is called then.
pub(super) fn of_waiting(command: &mut Command, mut act: impl FnMut() -> Outcome) -> Outcome<Printed> {
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
    let mut text = String::new();
    let mut done = Ok(());
    while done.is_ok() && output.read_line(&mut text)? > 0 {
        if text.lines().next_back().is_some_and(|line| line.starts_with("waiting\t")) {
            done = act();
        }
    }
    if done.is_err() {
        // It would wait forever.
        let _ = child.kill();
    }
    let status = child.wait()?;
    done?;
    if !status.success() {
        return Err(format!("{command:?} failed ({status})").into());
    }
    parse(&text)
}

/// The figures of one subject over all repetitions.
#[derive(Debug, Default)]
pub(super) struct Repeated(BTreeMap<String, Vec<f64>>);

impl Repeated {
    pub(super) fn add(&mut self, printed: &Printed) {
        for (figure, value) in printed {
            if let Ok(value) = value.parse() {
                self.0.entry(figure.clone()).or_default().push(value);
            }
        }
    }

    /// Drops the figures whose names start with this prefix.
    pub(super) fn forget(&mut self, prefix: &str) {
        self.0.retain(|figure, _| !figure.starts_with(prefix));
    }

    pub(super) fn median(&self, figure: &str) -> Option<f64> {
        let mut values = self.0.get(figure)?.clone();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        Some(if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 })
    }

    /// Minimum and maximum, if there was more than one run.
    pub(super) fn spread(&self, figure: &str) -> Option<(f64, f64)> {
        let values = self.0.get(figure).filter(|values| values.len() > 1)?;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        Some((least, values.iter().copied().fold(f64::NEG_INFINITY, f64::max)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_program_continues_after_the_action_and_is_killed_if_it_fails() {
        let directory = std::env::temp_dir().join(format!("kube-informer-waits-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let script = "printf 'a\\t1\\ts\\nwaiting\\t1\\tfile\\n'; until [ -e there ]; do :; done; printf 'b\\t2\\ts\\n'";
        let mut waits = Command::new("sh");
        waits.current_dir(&directory).args(["-c", script]);
        assert!(of_waiting(&mut waits, || Err("no".into())).is_err());
        let printed = of_waiting(&mut waits, || Ok(std::fs::write(directory.join("there"), "")?)).unwrap();
        assert_eq!((printed["a"].as_str(), printed["b"].as_str()), ("1", "2"));
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn repetitions_have_a_median_and_a_spread() {
        let mut repeated = Repeated::default();
        for value in ["3", "1", "2"] {
            repeated.add(&parse(&format!("cpu\t{value}\ts\nchecksum\tx9\ttext\n")).unwrap());
        }
        assert_eq!(repeated.median("cpu"), Some(2.0));
        assert_eq!(repeated.spread("cpu"), Some((1.0, 3.0)));
        assert_eq!(repeated.median("checksum"), None);
        assert!(parse("nonsense").is_err());
    }
}
