//! The informer for one kind that was selected on the command line.

use std::sync::Arc;
use std::time::Duration;

use kube_informer::building_blocks::{ListWatch, ListerWatcher, ReflectorConfig, ReflectorError};
use kube_informer::{EncodingPreference, ErrorReport, Index, Informer, InformerMetrics, Object, WatchList};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::cluster::Cluster;
use crate::discovery::Selected;
use crate::failure::Failure;
use crate::flags::SelectFlags;
use crate::handler_lag::Handlers;
use crate::masks;
use crate::observed::{Gate, Observed, Traffic, Watches};
use crate::reads::Reads;

/// Maximum number of errors that wait to be reported; further ones are dropped.
const ERRORS_MAX: usize = 64;

/// A kind, its informer, the traffic and the watches of its sources, and its handlers.
pub(crate) struct Mirror {
    pub(crate) selected: Selected,
    pub(crate) informer: Informer<Value>,
    pub(crate) traffic: Arc<Traffic>,
    /// Of each namespace, if several are watched.
    watches: Vec<Arc<Watches>>,
    pub(crate) handlers: Handlers,
    /// The objects, for messages: `pods in namespace web`.
    pub(crate) objects: String,
}

/// The options of a mirror.
#[derive(Default)]
pub(crate) struct MirrorOptions<'a> {
    /// The fields to keep. Secrets with masked values are always kept complete.
    pub(crate) reads: Reads,
    /// Keep the values of Secrets.
    pub(crate) show_secrets: bool,
    /// List instead of streaming the initial state, so that permission to list is enough.
    pub(crate) list_only: bool,
    pub(crate) index: Option<&'a Index>,
    pub(crate) metrics: Option<&'a InformerMetrics>,
    /// Reading stops while the gate is closed.
    pub(crate) gate: Option<&'a Gate>,
}

impl MirrorOptions<'_> {
    /// The source of one namespace, or of all.
    fn source(
        &self,
        cluster: &Cluster,
        selected: &Selected,
        select: &SelectFlags,
        namespace: Option<&str>,
        conceals: bool,
    ) -> Result<ListWatch, Failure> {
        let mut source = ListWatch::new(cluster.client.clone(), selected.kind.resource.clone())
            .labels(&select.labels)
            .fields(select.fields_of(selected));
        if let Some(namespace) = namespace {
            source = source.namespace(namespace);
        }
        if conceals {
            // Concealing decodes and re-encodes every field, including fields that the schema table lacks.
            return Ok(source
                .encoding(EncodingPreference::Json)
                .projection(self.reads.complete().projection()?));
        }
        if self.list_only {
            source = source.encoding(self.reads.encoding());
        }
        Ok(source.projection(self.reads.projection()?))
    }
}

/// Errors of mirrors, with the number of the mirror.
pub(crate) type MirrorErrors = mpsc::Receiver<(usize, ErrorReport)>;

/// The sender for errors of mirrors.
pub(crate) type MirrorErrorSender = mpsc::Sender<(usize, ErrorReport)>;

/// Creates the channel for errors of mirrors.
pub(crate) fn errors() -> (MirrorErrorSender, MirrorErrors) {
    mpsc::channel(ERRORS_MAX)
}

impl Mirror {
    /// Starts the informer.
    ///
    /// # Errors
    /// If a selector or an index is invalid.
    pub(crate) fn start(
        cluster: &Cluster,
        selected: Selected,
        select: &SelectFlags,
        options: &MirrorOptions<'_>,
        number: usize,
        errors: MirrorErrorSender,
    ) -> Result<Self, Failure> {
        check_selectors(select)?;
        let conceals = masks::are_secrets(&selected.kind.resource) && !options.show_secrets;
        let traffic = Arc::new(Traffic::new());
        let (mut sources, mut watches) = (Vec::new(), Vec::new());
        for namespace in select.namespaces_of(cluster, &selected) {
            selected.kind.path(namespace, None)?;
            let source = options.source(cluster, &selected, select, namespace, conceals)?;
            let source = Observed::new(source, &traffic, options.gate, cluster.list_limit);
            watches.push(source.watches().clone());
            sources.push((namespace.unwrap_or_default(), Arc::new(source) as Arc<dyn ListerWatcher>));
        }
        let builder = match <[_; 1]>::try_from(sources) {
            Ok([(_, source)]) => Informer::<Value>::from_source(source),
            Err(sources) => Informer::<Value>::from_sources(sources),
        };
        let mut builder = builder.on_error(move |report| {
            // Errors can arrive faster than they are printed. Those that do not fit are repetitions.
            let _ = errors.try_send((number, report.clone()));
        });
        if conceals {
            let concealer = masks::Concealer::default();
            builder = builder.transform(move |secret| concealer.conceal(secret));
        }
        if options.list_only || cluster.compress {
            let mut config = ReflectorConfig::default();
            config.watch_list = WatchList::Off;
            builder = builder.reflector(config);
        }
        if let Some(index) = options.index {
            builder = builder.index(index);
        }
        if let Some(metrics) = options.metrics {
            builder = builder.metrics(selected.kind.qualified(), metrics);
        }
        let objects = select.describe(cluster, &selected);
        let informer = builder.start()?;
        Ok(Self { selected, informer, traffic, watches, handlers: Handlers::default(), objects })
    }

    /// The longest time without an open watch, among its namespaces.
    pub(crate) fn unwatched_for(&self) -> Duration {
        self.watches.iter().map(|watches| watches.closed_for()).max().unwrap_or_default()
    }

    /// The failure for a request that the server refused; `None` for other errors.
    pub(crate) fn refusal(&self, report: &ErrorReport) -> Option<Failure> {
        let status = report.error.status()?;
        // 400: for example a field selector that the server does not support. Retrying does not help.
        let refused = matches!(status.code, 400 | 401 | 403 | 404);
        refused.then(|| Failure::from_status(&self.cannot_read(), status))
    }

    /// The operation of an error: `cannot read pods in namespace web`.
    pub(crate) fn cannot_read(&self) -> String {
        format!("cannot read {}", self.objects)
    }
}

/// Whether the server only lacks watch-lists. The informer then lists, and there is nothing to report.
pub(crate) fn is_lack_of_watch_lists(report: &ErrorReport) -> bool {
    let ReflectorError::WatchList(error) = report.error.reflector_error() else { return false };
    error.status().is_some_and(|status| status.is_invalid())
}

/// Checks the selectors before any request is sent.
fn check_selectors(select: &SelectFlags) -> Result<(), Failure> {
    let wrong = |flag: &str, error: kube_wire::InvalidSelector| Failure::Usage(format!("{flag}: {error}"));
    select.labels.parse::<kube_wire::LabelSelector>().map_err(|error| wrong("-l", error))?;
    select.fields.parse::<kube_wire::FieldSelector>().map_err(|error| wrong("--field-selector", error))?;
    Ok(())
}

/// The masked value of an object. If it cannot be decoded, the value has the name and the error.
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
