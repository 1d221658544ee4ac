//! The command line.

use std::path::PathBuf;
use std::time::Duration;

pub(crate) const USAGE: &str = "usage: cargo xtask soak [--minutes N] [--objects N] [--server real] [--seed N] [--plot FILE]

Runs informers and a controller under churn and faults, and fails if a cache differs from the server at a checkpoint, if lag
is not bounded, or if memory grows after the warm-up.

  --minutes N     how long to run (default: 30)
  --objects N     the number of objects (default: 50000)
  --server real   a real kube-apiserver and etcd, built by `cargo xtask conformance --build-only`, instead of the embedded one
  --seed N        the seed of all random choices (default: 1)
  --plot FILE     where to write the plot (default: target/soak.svg)";

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) time: Duration,
    pub(crate) objects: u64,
    pub(crate) real: bool,
    pub(crate) seed: u64,
    pub(crate) plot: PathBuf,
}

impl Options {
    /// `None` if help was requested.
    pub(crate) fn parse(arguments: &[&str]) -> Result<Option<Self>, String> {
        let mut options = Self {
            time: Duration::from_secs(30 * 60),
            objects: 50_000,
            real: false,
            seed: 1,
            plot: PathBuf::from("target/soak.svg"),
        };
        let mut rest = arguments.iter().copied();
        while let Some(argument) = rest.next() {
            if matches!(argument, "--help" | "-h") {
                return Ok(None);
            }
            let value = rest.next().ok_or_else(|| format!("{argument} needs a value\n{USAGE}"))?;
            let number =
                || value.parse::<u64>().map_err(|error| format!("invalid {argument} {value:?}: {error}"));
            match argument {
                "--minutes" => options.time = Duration::from_secs(number()?.max(1) * 60),
                "--objects" => options.objects = number()?.max(1),
                "--seed" => options.seed = number()?,
                "--plot" => options.plot = value.into(),
                "--server" if value == "real" => options.real = true,
                "--server" if value == "embedded" => options.real = false,
                _ => return Err(format!("unknown argument {argument:?} {value:?}\n{USAGE}")),
            }
        }
        Ok(Some(options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed_and_invalid_ones_are_rejected() {
        let options =
            Options::parse(&["--minutes", "2", "--objects", "500", "--server", "real"]).unwrap().unwrap();
        assert_eq!((options.time.as_secs(), options.objects, options.real), (120, 500, true));
        assert_eq!(Options::parse(&["--help"]).unwrap(), None);
        assert!(Options::parse(&["--minutes", "soon"]).unwrap_err().contains("\"soon\""));
        assert!(Options::parse(&["--minutes"]).unwrap_err().contains("needs a value"));
        assert!(Options::parse(&["--server", "mock"]).unwrap_err().contains("mock"));
    }
}
