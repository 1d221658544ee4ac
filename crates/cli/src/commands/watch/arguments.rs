//! The arguments of `watch`.

use std::path::PathBuf;
use std::time::Duration;

use crate::cluster::{ClusterFlags, CredentialFlags, parse_duration};
use crate::condition::Condition;
use crate::discovery::{Selected, Wanted};
use crate::failure::Failure;
use crate::field_filter::FieldFilter;
use crate::flags::{OutputFlags, SelectFlags};
use crate::masks;
use crate::output::EventType;

/// Selects objects, events and a format.
#[derive(clap::Args)]
pub(crate) struct WatchArguments {
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    /// Watch the objects of these manifests: `get --watch -f FILE`.
    #[arg(skip)]
    pub(crate) filename: Vec<PathBuf>,
    /// Fail if a named object does not exist: `get --watch` without `--ignore-not-found`.
    #[arg(skip)]
    pub(crate) requires_named: bool,
    /// Print only changes from now on, not the existing objects.
    #[arg(long)]
    pub(crate) events_only: bool,
    /// Print only these types of events; can be repeated, or a list separated by commas.
    #[arg(long = "type", value_name = "TYPE", value_enum, value_delimiter = ',', ignore_case = true)]
    pub(crate) types: Vec<EventType>,
    /// Select objects by any field, as in `get`. An object that starts to match is ADDED, one that no longer matches is
    /// DELETED. Can be repeated.
    #[arg(long = "field", value_name = "TEST")]
    pub(crate) field: Vec<String>,
    /// End when all objects that are selected at the start, by --field too, meet this condition: condition=Ready,
    /// jsonpath={.status.phase}=Running, create or delete.
    #[arg(long = "for", value_name = "CONDITION")]
    pub(crate) condition: Option<Condition>,
    /// End after this time, such as 30s or 2m. With --for, this is an error.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Show the seconds since the start as the first column.
    #[arg(long)]
    pub(crate) since_start: bool,
    /// Show the time of each event as the first column, in UTC.
    #[arg(long, conflicts_with = "since_start")]
    pub(crate) timestamps: bool,
    /// What a row shows.
    #[arg(skip)]
    pub(crate) rows: Rows,
    #[command(flatten)]
    pub(crate) select: SelectFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
    #[command(flatten)]
    pub(crate) credentials: CredentialFlags,
}

/// What a row shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rows {
    /// The type of the event, the name, and the changed fields.
    #[default]
    Changes,
    /// The columns of the object, as in `kubectl get --watch`.
    Objects {
        /// Also the type of the event.
        events: bool,
        /// The labels of `-L`.
        labels: Vec<String>,
        show_labels: bool,
    },
}

impl WatchArguments {
    /// A watch of these objects, with the default of every flag.
    pub(crate) fn of(wanted: Wanted) -> Self {
        Self {
            wanted,
            filename: Vec::new(),
            requires_named: false,
            events_only: false,
            types: Vec::new(),
            field: Vec::new(),
            condition: None,
            timeout: None,
            since_start: false,
            timestamps: false,
            rows: Rows::default(),
            select: SelectFlags::default(),
            output: OutputFlags::default(),
            cluster: ClusterFlags::default(),
            credentials: CredentialFlags::default(),
        }
    }

    /// A masked field is not read to confirm a guess.
    pub(super) fn check_masked_fields(
        &self,
        filters: &[FieldFilter],
        selected: &[Selected],
    ) -> Result<(), Failure> {
        if let Some(condition) = &self.condition {
            condition.check_masked(selected, self.output.show_secrets)?;
        }
        let has_secrets = selected.iter().any(|one| masks::are_secrets(&one.kind.resource));
        let masked = filters.iter().find(|filter| masks::hides_field(&filter.path().to_string()));
        match masked.filter(|_| has_secrets && !self.output.show_secrets) {
            Some(filter) => Err(Failure::Usage(format!(
                "--field {}: the values of Secrets are masked; add --show-secrets to read them",
                filter.path()
            ))),
            None => Ok(()),
        }
    }
}
