//! The command line: words, and options that begin with `--` and may have a value.

use kube_client::Config;
use kube_client::config::{KubeConfigOptions, Kubeconfig};

use crate::Outcome;

/// The command line after the program's name.
pub(crate) struct Arguments(Vec<String>);

impl Arguments {
    pub(crate) fn of_the_process() -> Self {
        Self(std::env::args().skip(1).collect())
    }

    /// A word by its position. Options follow the words.
    pub(crate) fn word(&self, place: usize) -> Outcome<&str> {
        let word = self.0.get(place).filter(|word| !word.starts_with("--"));
        Ok(word
            .ok_or_else(|| format!("argument {place} is missing; see the top of peers/ours/src/main.rs"))?)
    }

    pub(crate) fn number(&self, place: usize) -> Outcome<u64> {
        Ok(self.word(place)?.parse()?)
    }

    pub(crate) fn has(&self, option: &str) -> bool {
        self.0.iter().any(|given| given == option)
    }

    /// The number after an option.
    pub(crate) fn option(&self, option: &str) -> Outcome<Option<u64>> {
        let Some(place) = self.0.iter().position(|given| given == option) else { return Ok(None) };
        Ok(Some(self.0.get(place + 1).ok_or_else(|| format!("{option} needs a number"))?.parse()?))
    }

    /// The word after an option.
    pub(crate) fn text(&self, option: &str) -> Option<&str> {
        let place = self.0.iter().position(|given| given == option)?;
        self.0.get(place + 1).map(String::as_str)
    }

    /// The configuration in the kubeconfig file that the first word after the subcommand names.
    pub(crate) async fn config(&self) -> Outcome<Config> {
        let kubeconfig = Kubeconfig::read_from(self.word(1)?)?;
        Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
    }
}
