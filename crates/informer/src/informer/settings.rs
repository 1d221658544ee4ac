//! The settings of an informer, without its type, validated together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_client::Client;
use kube_wire::path::CustomSchema;
use kube_wire::schema::Schema;
use kube_wire::{LabelSelector, Limits, Projection, TypeMeta};
use tokio::sync::Semaphore;

use super::core::{Core, CoreParts, Owner};
use super::defaults::{Defaulted, Defaults};
use super::factory::InformerFactory;
use super::namespaces::{self, Matching};
use super::scopes::{ScopeParts, Selection};
use super::{LabelQuery, StartError};
#[cfg(feature = "metrics")]
use crate::InformerMetrics;
use crate::memory::Memory;
use crate::queue::Transform;
use crate::reflector::{ErrorHandler, ReflectorConfig};
use crate::shard::AssignedShard;
use crate::source::{EncodingPreference, ListWatch, ListerWatcher, Resource, ServerIsNewer};
use crate::store::{Index, Store, StoreConfig};

/// Where the objects come from.
#[derive(Clone)]
pub(super) enum InformerSource {
    Client { client: Client, resource: Resource, metadata_only: bool },
    Given(Vec<(Option<String>, Arc<dyn ListerWatcher>)>),
}

/// The identity of an informer for sharing: equal requests share one informer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    resource: Resource,
    metadata_only: bool,
    /// Each with its selectors, sorted by name; `None` for all namespaces.
    namespaces: Vec<(Option<String>, Selectors)>,
    /// The labels of further namespaces, and the selectors of their objects.
    matching: Option<(String, Selectors)>,
    projection: String,
    encoding: EncodingPreference,
    shard: Option<AssignedShard>,
    /// The factory's defaults, if their transform changes the objects.
    transform: Option<Defaults>,
}

/// Which objects of a namespace are selected. Default: all.
///
/// ```
/// use kube_informer::Selectors;
///
/// let running = Selectors::default().labels("tier=backend").fields("status.phase=Running");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selectors {
    pub(super) labels: String,
    pub(super) fields: String,
}

/// The settings that are independent of the type.
pub(super) struct Settings {
    /// Each with its own selectors, if set.
    pub(super) namespaces: Vec<(String, Option<Selectors>)>,
    /// The labels of further namespaces.
    pub(super) matching: Option<String>,
    pub(super) selectors: Selectors,
    pub(super) shard: Option<AssignedShard>,
    pub(super) drop_fields: Vec<String>,
    pub(super) keep_fields: Option<Vec<String>>,
    pub(super) encoding: EncodingPreference,
    pub(super) server_is_newer: ServerIsNewer,
    pub(super) object_bytes_max: Option<usize>,
    pub(super) transform: Option<Transform>,
    /// Whether the transform was set before `metadata_only`: it expects whole objects.
    pub(super) transform_is_of_more: bool,
    /// Whether an index reads typed values.
    pub(super) indexes_values: bool,
    /// Whether such an index was added before `metadata_only`: it expects whole objects.
    pub(super) index_is_of_more: bool,
    pub(super) indexes: Vec<Index>,
    /// The schema of the custom resource, or the reason why the definition does not fit.
    pub(super) definition: Option<Result<CustomSchema, &'static str>>,
    pub(super) defaulted: Defaulted,
    pub(super) reflector: ReflectorConfig,
    /// The error handler. It overrides the reflector's, regardless of which was set first.
    pub(super) on_error: Option<ErrorHandler>,
    pub(super) resync: Option<Duration>,
    pub(super) memory: Memory,
    pub(super) hot_values_max: usize,
    pub(super) wait_max: Duration,
    #[cfg(feature = "metrics")]
    pub(super) metrics: Option<(InformerMetrics, String)>,
    /// The factory that shares the informer.
    pub(super) factory: Option<InformerFactory>,
}

// === impl Selectors ===

impl Selectors {
    /// Only objects with these labels, in any form that [`labels`](super::InformerBuilder::labels) takes.
    #[must_use]
    pub fn labels(mut self, selector: impl LabelQuery) -> Self {
        self.labels = selector.into_text();
        self
    }

    /// Only objects with these fields, in the syntax of kubectl's `--field-selector`.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = selector.into();
        self
    }

    fn parse(&self) -> Result<Selection, StartError> {
        let labels = self.labels.parse()?;
        Ok(Selection { labels, label_text: self.labels.clone(), fields: self.fields.parse()? })
    }
}

// === impl Settings ===

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("namespaces", &self.namespaces)
            .field("matching", &self.matching)
            .field("selectors", &self.selectors)
            .field("shard", &self.shard)
            .field("indexes", &self.indexes)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// Validates everything and starts.
    pub(super) fn start(
        self,
        source: InformerSource,
        starts: Arc<Semaphore>,
    ) -> Result<Arc<Owner>, StartError> {
        Ok(Arc::new(Owner(Core::start(self.parts(source, starts)?))))
    }

    /// The identity for sharing; `None` with functions or custom sources, which cannot be compared.
    pub(super) fn wanted(&self, source: &InformerSource) -> Option<Wanted> {
        let InformerSource::Client { resource, metadata_only, .. } = source else { return None };
        if self.transform.is_some() && self.defaulted.transform.is_none() {
            return None;
        }
        let mut namespaces = self.scopes();
        namespaces.sort();
        Some(Wanted {
            resource: resource.clone(),
            metadata_only: *metadata_only,
            namespaces,
            matching: self.matching.clone().map(|labels| (labels, self.selectors.clone())),
            // An invalid projection is reported by the validation.
            projection: self.projection().map(|projection| projection.to_string()).unwrap_or_default(),
            encoding: self.encoding,
            shard: self.shard.clone(),
            transform: self.defaulted.transform.clone(),
        })
    }

    /// Marks the current settings as a factory's defaults.
    pub(super) fn are_defaults(&mut self, defaults: &Defaults) {
        self.defaulted = Defaulted {
            namespaces: !self.namespaces.is_empty() || self.matching.is_some(),
            fields: !self.drop_fields.is_empty() || self.keep_fields.is_some(),
            transform: self.transform.is_some().then(|| defaults.clone()),
        };
        // An index function of the defaults accepts objects of any kind.
        self.indexes_values = false;
    }

    pub(super) fn replace_default_namespaces(&mut self) {
        if std::mem::take(&mut self.defaulted.namespaces) {
            (self.namespaces, self.matching) = Default::default();
        }
    }

    pub(super) fn replace_default_fields(&mut self) {
        if std::mem::take(&mut self.defaulted.fields) {
            (self.drop_fields, self.keep_fields) = Default::default();
        }
    }

    /// The fields of the custom resource, if they are known. The paths of this request are checked against them.
    pub(super) fn custom_schema(&self, source: &InformerSource) -> Result<Option<CustomSchema>, StartError> {
        let Some(definition) = &self.definition else { return Ok(None) };
        let schema = definition.clone().map_err(StartError::Contradiction)?;
        let metadata_only = matches!(source, InformerSource::Client { metadata_only: true, .. });
        if !metadata_only && !self.defaulted.fields {
            self.projection()?.check_custom(&schema).map_err(StartError::Field)?;
        }
        self.indexes.iter().try_for_each(|index| index.check(&schema))?;
        #[cfg(feature = "shards")]
        if let Some(assigned) = &self.shard {
            assigned.key().check_custom(&schema)?;
        }
        Ok(Some(schema))
    }

    /// One entry per watch: all namespaces, or each configured one.
    fn scopes(&self) -> Vec<(Option<String>, Selectors)> {
        if self.namespaces.is_empty() && self.matching.is_none() {
            return vec![(None, self.selectors.clone())];
        }
        let one = |(namespace, own): &(String, Option<Selectors>)| {
            (Some(namespace.clone()), own.as_ref().unwrap_or(&self.selectors).clone())
        };
        self.namespaces.iter().map(one).collect()
    }

    fn parts(self, source: InformerSource, starts: Arc<Semaphore>) -> Result<CoreParts, StartError> {
        if self.transform_is_of_more {
            return Err(StartError::Contradiction(
                "cannot combine `transform` with `metadata_only`: it reads whole objects; call `metadata_only` first",
            ));
        }
        if self.index_is_of_more {
            return Err(StartError::Contradiction(
                "cannot combine `index_by` with `metadata_only`: it reads whole objects; call `metadata_only` first",
            ));
        }
        let projection = self.projection()?;
        let resource = source.resource();
        let reflector = self.reflector_config();
        let (sources, matching) = match source {
            InformerSource::Client { client, resource, metadata_only } => {
                if !metadata_only && !self.defaulted.fields {
                    check_fields(&projection, &resource.type_meta())?;
                }
                let mut list_watch = ListWatch::new(client.clone(), resource)
                    .encoding(self.encoding)
                    .server_is_newer_as(&self.server_is_newer)
                    .projection(projection.clone());
                if let Some(bytes) = self.object_bytes_max {
                    list_watch = list_watch.limits(Limits::default().object_bytes_max(bytes));
                }
                if metadata_only {
                    list_watch = list_watch.metadata_only();
                }
                (self.over_namespaces(&list_watch)?, self.over_matching(&client, list_watch)?)
            }
            InformerSource::Given(_) if self.selects_or_keeps() => {
                return Err(StartError::Contradiction(
                    "cannot set namespaces, selectors, fields, encoding or limits on an informer over a custom source: set them on the source",
                ));
            }
            InformerSource::Given(sources) => {
                let part =
                    |(namespace, source)| ScopeParts { namespace, source, selection: Selection::default() };
                (sources.into_iter().map(part).collect::<Vec<_>>(), None)
            }
        };
        if (sources.is_empty() && matching.is_none()) || sources.len() > usize::from(u16::MAX) {
            return Err(StartError::Contradiction(
                "invalid number of sources: an informer takes 1 to 65,535",
            ));
        }
        let examples = matching.iter().map(|matching| &matching.source);
        let examples = sources.iter().map(|part| &part.source).chain(examples);
        let json = examples.clone().filter_map(|source| source.json_switch()).collect();
        let budget = self.factory.as_ref().and_then(|factory| factory.budget.clone());
        let expected = examples.clone().next().and_then(|source| source.expected_type());
        #[cfg(feature = "shards")]
        if let Some(assigned) = &self.shard {
            assigned.key().check(&projection, expected.as_ref())?;
        }
        let mut store = StoreConfig::default().projection(projection.clone()).memory(self.memory);
        store = store.budget(budget.clone());
        if let Some(type_meta) = expected {
            store = store.type_meta(type_meta);
        }
        let mut indexes = self.indexes;
        if !indexes.iter().any(|index| index.name() == Index::NAMESPACE) {
            indexes.push(Index::by_namespace());
        }
        let store = Arc::new(Store::new(indexes.iter().cloned().fold(store, StoreConfig::index))?);
        let transform = self.transform.map(|transform| (transform, projection));
        Ok(CoreParts {
            sources,
            matching,
            resource: resource.to_kube(),
            store,
            transform,
            reflector,
            indexes,
            wait_max: self.wait_max,
            starts,
            json,
            budget,
            shard: self.shard,
        })
    }

    fn reflector_config(&self) -> ReflectorConfig {
        let mut config = self.reflector.clone();
        config.on_error = self.on_error.clone().or(config.on_error);
        // Resyncs are per listener, not per reflector.
        config.resync_period = None;
        config
    }

    fn over_namespaces(&self, list_watch: &ListWatch) -> Result<Vec<ScopeParts>, StartError> {
        let one = |(namespace, selectors)| scope_parts(list_watch.clone(), namespace, selectors);
        self.scopes().into_iter().map(one).collect()
    }

    fn over_matching(&self, client: &Client, list_watch: ListWatch) -> Result<Option<Matching>, StartError> {
        let Some(selector) = self.matching.clone() else { return Ok(None) };
        // Report an invalid selector now, not with the first namespace.
        selector.parse::<LabelSelector>()?;
        self.selectors.parse()?;
        let (source, selectors) = (Arc::new(list_watch.clone()), self.selectors.clone());
        let mut namespaces = namespaces::informer(client, self.factory.as_ref(), &selector);
        namespaces.settings().reflector = self.reflector_config();
        let parts = move |namespace: &str| {
            scope_parts(list_watch.clone(), Some(namespace.to_owned()), selectors.clone())
        };
        Ok(Some(Matching { selector, source, namespaces, parts: Box::new(parts) }))
    }

    fn projection(&self) -> Result<Projection, StartError> {
        if deliberate_bug!("kept-field-dropped") && !self.drop_fields.is_empty() {
            return Projection::dropping(["data", "metadata.annotations"]).map_err(StartError::Field);
        }
        match &self.keep_fields {
            Some(_) if !self.drop_fields.is_empty() => Err(StartError::Contradiction(
                "cannot both drop and keep fields; use `drop_fields` or `keep_fields`",
            )),
            Some(keep) => Projection::keeping(keep.iter().map(String::as_str)).map_err(StartError::Field),
            None => {
                Projection::dropping(self.drop_fields.iter().map(String::as_str)).map_err(StartError::Field)
            }
        }
    }

    fn selects_or_keeps(&self) -> bool {
        !self.namespaces.is_empty()
            || self.matching.is_some()
            || self.selectors != Selectors::default()
            || !self.drop_fields.is_empty()
            || self.keep_fields.is_some()
            || self.encoding != EncodingPreference::default()
            || self.object_bytes_max.is_some()
    }
}

fn scope_parts(
    list_watch: ListWatch,
    namespace: Option<String>,
    selectors: Selectors,
) -> Result<ScopeParts, StartError> {
    let selection = selectors.parse()?;
    let mut list_watch = list_watch.labels(selectors.labels).fields(selectors.fields);
    if let Some(namespace) = &namespace {
        list_watch = list_watch.namespace(namespace);
    }
    list_watch.path()?;
    Ok(ScopeParts { namespace, source: Arc::new(list_watch), selection })
}

/// Rejects a field that the kind does not have: it is probably misspelled.
fn check_fields(projection: &Projection, type_meta: &TypeMeta) -> Result<(), StartError> {
    match Schema::builtin().kind(type_meta.api_version(), type_meta.kind()) {
        Some(message) => projection.check(message).map_err(StartError::Field),
        None => Ok(()),
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespaces: Vec::new(),
            matching: None,
            selectors: Selectors::default(),
            shard: None,
            drop_fields: Vec::new(),
            keep_fields: None,
            encoding: EncodingPreference::default(),
            server_is_newer: ServerIsNewer::default(),
            object_bytes_max: None,
            transform: None,
            transform_is_of_more: false,
            indexes_values: false,
            index_is_of_more: false,
            indexes: Vec::new(),
            definition: None,
            defaulted: Defaulted::default(),
            reflector: ReflectorConfig::default(),
            on_error: None,
            resync: None,
            memory: Memory::default(),
            hot_values_max: 100,
            wait_max: Duration::from_secs(30),
            #[cfg(feature = "metrics")]
            metrics: None,
            factory: None,
        }
    }
}

impl InformerSource {
    /// The client, unless the sources were given.
    pub(super) fn client(&self) -> Option<&Client> {
        match self {
            Self::Client { client, .. } => Some(client),
            Self::Given(_) => None,
        }
    }

    /// The resource, as far as it is known.
    pub(super) fn resource(&self) -> Resource {
        match self {
            Self::Client { resource, .. } => resource.clone(),
            Self::Given(sources) => {
                let first = sources.first().map(|(_, source)| source);
                first.and_then(|source| source.resource()).unwrap_or_else(|| {
                    let type_meta = first.and_then(|source| source.expected_type());
                    let type_meta = type_meta.unwrap_or_else(|| TypeMeta::new("", ""));
                    let (kind, plural) = (type_meta.kind(), type_meta.kind().to_lowercase());
                    Resource::new(type_meta.group(), type_meta.version(), &plural, kind)
                })
            }
        }
    }
}
