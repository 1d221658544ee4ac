//! An informer for one kind that was chosen on the command line.

use std::sync::Arc;

use kube_informer::building_blocks::{ErrorReport, ListWatch, ReflectorError};
use kube_informer::{EncodingPreference, Index, Informer, InformerMetrics, Object, WatchList};
use kube_wire::Projection;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::cluster::Cluster;
use crate::discovery::Selected;
use crate::failure::Failure;
use crate::flags::SelectFlags;
use crate::masks;
use crate::observed::{Gate, Observed, Traffic};

/// Errors that wait to be reported, at most; more are left out.
const ERRORS_MAX: usize = 64;

/// A kind, its informer, and what has come through to it.
pub(crate) struct Mirror {
    pub(crate) selected: Selected,
    pub(crate) informer: Informer<Value>,
    pub(crate) traffic: Arc<Traffic>,
    /// What was asked for, in words.
    pub(crate) asked: String,
}

/// How a mirror is to be.
#[derive(Default)]
pub(crate) struct MirrorOptions<'a> {
    pub(crate) managed_fields: bool,
    /// Keep the values of Secrets.
    pub(crate) show_secrets: bool,
    /// Do not stream the initial state: who may only list can have it, too.
    pub(crate) list_only: bool,
    pub(crate) index: Option<&'a Index>,
    pub(crate) metrics: Option<&'a InformerMetrics>,
    /// Stops reading while it is closed.
    pub(crate) gate: Option<&'a Gate>,
}

/// Errors of the mirror with this number.
pub(crate) type MirrorErrors = mpsc::Receiver<(usize, ErrorReport)>;

/// Where mirrors report errors.
pub(crate) type MirrorErrorSender = mpsc::Sender<(usize, ErrorReport)>;

/// Makes the channel in which mirrors report errors.
pub(crate) fn errors() -> (MirrorErrorSender, MirrorErrors) {
    mpsc::channel(ERRORS_MAX)
}

impl Mirror {
    /// Starts it.
    ///
    /// # Errors
    /// If a selector or an index is wrong.
    pub(crate) fn start(
        cluster: &Cluster,
        selected: Selected,
        select: &SelectFlags,
        options: &MirrorOptions<'_>,
        number: usize,
        errors: MirrorErrorSender,
    ) -> Result<Self, Failure> {
        check_selectors(select)?;
        selected.kind.path(select.namespace_of(cluster, &selected.kind), None)?;
        let projection =
            if options.managed_fields { Projection::everything() } else { Projection::default() };
        let mut source = ListWatch::new(cluster.client.clone(), selected.kind.resource.clone())
            .labels(&select.labels)
            .fields(select.fields_of(&selected))
            .projection(projection);
        let conceals = masks::are_secrets(&selected.kind.resource) && !options.show_secrets;
        if conceals {
            // Every field must be decoded to be stored again, including those that the schema table lacks.
            source = source.encoding(EncodingPreference::Json);
        }
        if let Some(namespace) = select.namespace_of(cluster, &selected.kind) {
            source = source.namespace(namespace);
        }
        if options.list_only {
            // What is printed once must be complete the first time: JSON names every field, whatever the server's version.
            source = source.encoding(EncodingPreference::Json);
        }
        let (source, traffic) = Observed::new(source, options.gate, cluster.list_limit);
        let mut builder = Informer::<Value>::from_source(Arc::new(source)).on_error(move |report| {
            // Printing is slower than errors come: what does not fit is a repetition.
            let _ = errors.try_send((number, report.clone()));
        });
        if conceals {
            let concealer = masks::Concealer::default();
            builder = builder.transform(move |secret| concealer.conceal(secret));
        }
        if options.list_only || cluster.compress {
            builder = builder.watch_list(WatchList::Off);
        }
        if let Some(index) = options.index {
            builder = builder.index(index);
        }
        if let Some(metrics) = options.metrics {
            builder = builder.metrics(selected.kind.qualified(), metrics);
        }
        let asked = format!("reading {}", select.describe(cluster, &selected.kind));
        Ok(Self { selected, informer: builder.start()?, traffic, asked })
    }

    /// What a refusal of the server means; `None` if the error is another.
    pub(crate) fn refusal(&self, report: &ErrorReport) -> Option<Failure> {
        let status = report.error.status()?;
        // 400: a field selector that the server does not know, for instance. Asking again does not help.
        let refused = matches!(status.code, 400 | 401 | 403 | 404);
        refused.then(|| Failure::from_status(&self.asked, status))
    }
}

/// Whether the server only lacks watch-lists, so that it is listed instead: nothing to report.
pub(crate) fn is_lack_of_watch_lists(report: &ErrorReport) -> bool {
    let ReflectorError::WatchList(error) = &*report.error else { return false };
    error.status().is_some_and(|status| status.is_invalid())
}

/// Selectors are checked before anything is asked for.
fn check_selectors(select: &SelectFlags) -> Result<(), Failure> {
    let wrong =
        |flag: &str, error: kube_informer::InvalidSelector| Failure::Usage(format!("{flag}: {error}"));
    select.labels.parse::<kube_informer::LabelSelector>().map_err(|error| wrong("-l", error))?;
    select
        .fields
        .parse::<kube_informer::FieldSelector>()
        .map_err(|error| wrong("--field-selector", error))?;
    Ok(())
}

/// The value of an object, masked. One that cannot be read shows its name and why.
pub(crate) fn value_of(object: &Object<Value>, show_secrets: bool) -> Value {
    let mut value = match object.decode() {
        Ok(value) => Arc::unwrap_or_clone(value),
        Err(error) => serde_json::json!({
            "metadata": {"name": object.name(), "namespace": object.namespace()},
            "error": error.to_string(),
        }),
    };
    if !show_secrets {
        masks::mask(&mut value);
    }
    value
}
