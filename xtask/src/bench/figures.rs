//! What programs print, gathered over repetitions: medians with their spread.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use super::Outcome;

/// What one program printed: figure by name.
pub(super) type Printed = BTreeMap<String, String>;

/// Reads lines of `figure <tab> value <tab> unit`.
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

    pub(super) fn median(&self, figure: &str) -> Option<f64> {
        let mut values = self.0.get(figure)?.clone();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        Some(if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 })
    }

    /// The least and the most, if there was more than one.
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
    fn repetitions_give_a_median_and_a_spread() {
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
