//! The arguments of `get`, and the combinations that make no sense.

use std::path::PathBuf;

use crate::cluster::{ClusterFlags, CredentialFlags};
use crate::commands::watch::{Rows, WatchArguments};
use crate::discovery::{Selected, Wanted};
use crate::failure::Failure;
use crate::flags::{OutputFlags, SelectFlags};
use crate::output::Format;

/// Selects objects and a format.
#[derive(clap::Args)]
pub(crate) struct GetArguments {
    /// Kinds as kubectl names them (pods, po, deploy, deployments.apps, pods.v1., pods,services), a category (all),
    /// KIND/NAME, or `everything`; optionally followed by names of objects.
    #[arg(value_name = "KIND", required_unless_present = "filename")]
    pub(super) what: Vec<String>,
    /// Get the objects of this manifest, YAML or JSON; `-` reads the standard input; can be repeated.
    #[arg(short, long, value_name = "FILE")]
    pub(super) filename: Vec<PathBuf>,
    /// Select objects by any field: spec.nodeName=node-7, status.phase!=Running, 'spec.replicas>3',
    /// 'spec.nodeName in (a,b)', spec.hostNetwork (present), '!spec.nodeName' (absent). Can be repeated.
    #[arg(long = "field", value_name = "TEST")]
    pub(super) field: Vec<String>,
    /// Count objects per value of a field: spec.nodeName, status.phase. Given twice, count per pair of values.
    #[arg(long, value_name = "PATH")]
    pub(super) index: Vec<String>,
    /// With --index, show only the most frequent values.
    #[arg(long, value_name = "COUNT", requires = "index", value_parser = parse_top)]
    pub(super) top: Option<usize>,
    /// Print objects, then each object that changes, until Ctrl-C.
    #[arg(short, long)]
    pub(super) watch: bool,
    /// Like --watch, without the existing objects.
    #[arg(long)]
    pub(super) watch_only: bool,
    /// With --watch, print the type of each event: ADDED, MODIFIED, DELETED.
    #[arg(long)]
    pub(super) output_watch_events: bool,
    /// Do not fail if a named object does not exist. With --watch, wait for it.
    #[arg(long)]
    pub(super) ignore_not_found: bool,
    /// Sort by a field, such as .metadata.creationTimestamp or '{.status.replicas}'.
    #[arg(long, value_name = "PATH")]
    pub(super) sort_by: Option<String>,
    /// Show these labels as columns; can be repeated, or a list separated by commas.
    #[arg(short = 'L', long, value_name = "LABEL", value_delimiter = ',')]
    pub(super) label_columns: Vec<String>,
    /// Show all labels as the last column.
    #[arg(long)]
    pub(super) show_labels: bool,
    /// Use the server's columns if the server has them.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub(super) server_print: bool,
    #[command(flatten)]
    pub(super) select: SelectFlags,
    #[command(flatten)]
    pub(super) output: OutputFlags,
    #[command(flatten)]
    pub(super) cluster: ClusterFlags,
    #[command(flatten)]
    pub(super) credentials: CredentialFlags,
}

/// Maximum number of fields of one `--index`.
const INDEX_FIELDS_MAX: usize = 2;

/// Parses `--top`. With 0, a list without rows would look like a cluster without objects.
fn parse_top(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|count| *count > 0).ok_or("give a number of at least 1")
}

impl GetArguments {
    /// Rejects combinations of flags that would otherwise be ignored.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let watches = self.watch || self.watch_only;
        let has_rows = matches!(self.output.format(), Format::Table { .. });
        let shows_labels = self.show_labels || !self.label_columns.is_empty();
        let selects =
            self.select.all_namespaces || !self.select.labels.is_empty() || !self.select.fields.is_empty();
        let rules = [
            (self.index.len() > INDEX_FIELDS_MAX, "--index can be given at most twice"),
            (watches && !self.index.is_empty(), "--index cannot be combined with --watch"),
            (watches && self.sort_by.is_some(), "--sort-by cannot be combined with --watch"),
            (!watches && self.output_watch_events, "--output-watch-events requires --watch or --watch-only"),
            (self.sort_by.is_some() && !self.index.is_empty(), "--sort-by cannot be combined with --index"),
            (shows_labels && !self.index.is_empty(), "-L and --show-labels cannot be combined with --index"),
            (
                shows_labels && !has_rows,
                "-L and --show-labels apply to columns only; remove -o, or use -o wide",
            ),
            (
                !self.filename.is_empty() && selects,
                "-f names objects; it cannot be combined with -A, -l or --field-selector",
            ),
        ];
        match rules.into_iter().find(|(broken, _)| *broken) {
            Some((_, error)) => Err(Failure::Usage(error.to_owned())),
            None => Ok(()),
        }
    }

    /// An object is read by its name, without a selector.
    pub(super) fn check_names(&self, selected: &[Selected]) -> Result<(), Failure> {
        if self.select.labels.is_empty() || selected.iter().all(|one| one.name.is_none()) {
            return Ok(());
        }
        Err(Failure::Usage("cannot combine -l with names".to_owned()))
    }

    /// The watch that `--watch` stands for.
    pub(super) fn into_watch(self) -> WatchArguments {
        WatchArguments {
            filename: self.filename,
            requires_named: !self.ignore_not_found,
            events_only: self.watch_only,
            select: self.select,
            output: self.output,
            cluster: self.cluster,
            credentials: self.credentials,
            field: self.field,
            rows: Rows::Objects {
                events: self.output_watch_events,
                labels: self.label_columns,
                show_labels: self.show_labels,
            },
            ..WatchArguments::of(Wanted { what: self.what })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_is_a_number_of_at_least_one() {
        assert_eq!(parse_top("5"), Ok(5));
        for text in ["0", "-1", "x", ""] {
            assert_eq!(parse_top(text), Err("give a number of at least 1"), "{text}");
        }
    }
}
