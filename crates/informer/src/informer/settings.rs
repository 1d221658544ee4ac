//! Everything that is said about an informer before it starts, without its type; checked as a whole.

use std::sync::Arc;
use std::time::Duration;

use kube_client::Client;
use kube_wire::schema::Schema;
use kube_wire::{Limits, Projection, TypeMeta};
use tokio::sync::Semaphore;

use super::StartError;
use super::core::{Core, CoreParts, Owner, ScopeParts, Selection};
#[cfg(feature = "metrics")]
use crate::InformerMetrics;
use crate::queue::Transform;
use crate::reflector::{ErrorHandler, ReflectorConfig, WatchList};
use crate::source::{EncodingPreference, ListWatch, ListerWatcher, Resource, ServerIsNewer};
use crate::store::{Index, Memory, Store, StoreConfig};

/// Where the objects come from.
pub(super) enum InformerSource {
    Client { client: Client, resource: Resource, metadata_only: bool },
    Given(Vec<(Option<String>, Arc<dyn ListerWatcher>)>),
}

/// What makes two informers the same: whoever wants the same can share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    resource: Resource,
    metadata_only: bool,
    /// Each with what is selected there, in the order of their names; one without a name is all of them.
    namespaces: Vec<(Option<String>, Selectors)>,
    projection: String,
    encoding: EncodingPreference,
}

/// Which objects of a namespace are wanted; all of them, unless said otherwise.
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

/// Everything that does not know the type.
pub(super) struct Settings {
    /// Each with selectors of its own, if it has some.
    pub(super) namespaces: Vec<(String, Option<Selectors>)>,
    pub(super) selectors: Selectors,
    pub(super) drop_fields: Vec<String>,
    pub(super) keep_fields: Option<Vec<String>>,
    pub(super) encoding: EncodingPreference,
    pub(super) server_is_newer: ServerIsNewer,
    pub(super) object_bytes_max: Option<usize>,
    pub(super) transform: Option<Transform>,
    /// The transform was given before it was said that metadata is enough.
    pub(super) transform_is_of_more: bool,
    /// An index reads typed values.
    pub(super) indexes_values: bool,
    /// It was added before metadata was found to be enough, so it reads values of the whole type.
    pub(super) index_is_of_more: bool,
    pub(super) indexes: Vec<Index>,
    pub(super) reflector: ReflectorConfig,
    /// These override the reflector's settings, whichever was set first.
    pub(super) page_size: Option<u32>,
    pub(super) watch_list: Option<WatchList>,
    pub(super) on_error: Option<ErrorHandler>,
    pub(super) resync: Option<Duration>,
    pub(super) memory: Memory,
    pub(super) hot_values_max: usize,
    pub(super) wait_max: Duration,
    #[cfg(feature = "metrics")]
    pub(super) metrics: Option<(InformerMetrics, String)>,
}

// === impl Selectors ===

impl Selectors {
    /// Only objects with these labels, as kubectl's `-l`.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = selector.into();
        self
    }

    /// Only objects with these fields, as kubectl's `--field-selector`.
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

impl Settings {
    /// Checks everything and starts.
    pub(super) fn start(
        self,
        source: InformerSource,
        starts: Arc<Semaphore>,
    ) -> Result<Arc<Owner>, StartError> {
        Ok(Arc::new(Owner(Core::start(self.parts(source, starts)?))))
    }

    /// What is asked for, if somebody else may ask for the same: not so of functions and given sources.
    pub(super) fn wanted(&self, source: &InformerSource) -> Option<Wanted> {
        let InformerSource::Client { resource, metadata_only, .. } = source else { return None };
        if self.transform.is_some() {
            return None;
        }
        let mut namespaces = self.scopes();
        namespaces.sort();
        Some(Wanted {
            resource: resource.clone(),
            metadata_only: *metadata_only,
            namespaces,
            // An invalid projection is reported when it is checked.
            projection: self.projection().map(|projection| projection.to_string()).unwrap_or_default(),
            encoding: self.encoding,
        })
    }

    /// What is watched by itself: all namespaces, or each that was named.
    fn scopes(&self) -> Vec<(Option<String>, Selectors)> {
        if self.namespaces.is_empty() {
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
                "a transform of whole objects never sees them with metadata only: say `metadata_only` before `transform`",
            ));
        }
        if self.index_is_of_more {
            return Err(StartError::Contradiction(
                "`index_by` reads whole objects, which `metadata_only` does not fetch: call `metadata_only` before `index_by`",
            ));
        }
        let projection = self.projection()?;
        let resource = source.resource();
        let reflector = self.reflector_config();
        let sources = match source {
            InformerSource::Client { client, resource, metadata_only } => {
                if !metadata_only {
                    check_fields(&projection, &resource.type_meta())?;
                }
                let mut list_watch = ListWatch::new(client, resource)
                    .encoding(self.encoding)
                    .server_is_newer_as(&self.server_is_newer)
                    .projection(projection.clone());
                if let Some(bytes) = self.object_bytes_max {
                    list_watch = list_watch.limits(Limits::default().object_bytes_max(bytes));
                }
                if metadata_only {
                    list_watch = list_watch.metadata_only();
                }
                self.over_namespaces(&list_watch)?
            }
            InformerSource::Given(_) if self.selects_or_keeps() => {
                return Err(StartError::Contradiction(
                    "namespaces, selectors, fields, encoding and limits are the given source's affair: set them there",
                ));
            }
            InformerSource::Given(sources) => {
                let part =
                    |(namespace, source)| ScopeParts { namespace, source, selection: Selection::default() };
                sources.into_iter().map(part).collect()
            }
        };
        if sources.is_empty() || sources.len() > usize::from(u16::MAX) {
            return Err(StartError::Contradiction("an informer needs a source, and has room for 65,535"));
        }
        let json = sources.iter().filter_map(|part| part.source.json_switch()).collect();
        let mut store = StoreConfig::default().projection(projection.clone()).memory(self.memory);
        if let Some(type_meta) = sources[0].source.expected_type() {
            store = store.type_meta(type_meta);
        }
        let mut indexes = self.indexes;
        if !indexes.iter().any(|index| index.name() == Index::NAMESPACE) {
            indexes.push(Index::namespace());
        }
        let store = Arc::new(Store::new(indexes.iter().cloned().fold(store, StoreConfig::index))?);
        let transform = self.transform.map(|transform| (transform, projection));
        Ok(CoreParts {
            sources,
            resource,
            store,
            transform,
            reflector,
            indexes,
            wait_max: self.wait_max,
            starts,
            json,
        })
    }

    fn reflector_config(&self) -> ReflectorConfig {
        let mut config = self.reflector.clone();
        config.page_size = self.page_size.or(config.page_size);
        config.watch_list = self.watch_list.unwrap_or(config.watch_list);
        config.on_error = self.on_error.clone().or(config.on_error);
        // Each listener has its own.
        config.resync_period = None;
        config
    }

    fn over_namespaces(&self, list_watch: &ListWatch) -> Result<Vec<ScopeParts>, StartError> {
        let one = |(namespace, selectors): (Option<String>, Selectors)| {
            let selection = selectors.parse()?;
            let mut list_watch = list_watch.clone().labels(selectors.labels).fields(selectors.fields);
            if let Some(namespace) = &namespace {
                list_watch = list_watch.namespace(namespace);
            }
            list_watch.path()?;
            Ok(ScopeParts { namespace, source: Arc::new(list_watch), selection })
        };
        self.scopes().into_iter().map(one).collect()
    }

    fn projection(&self) -> Result<Projection, StartError> {
        match &self.keep_fields {
            Some(_) if !self.drop_fields.is_empty() => {
                Err(StartError::Contradiction("fields are either dropped or kept: name one or the other"))
            }
            Some(keep) => Projection::keeping(keep.iter().map(String::as_str)).map_err(StartError::Field),
            None => {
                Projection::dropping(self.drop_fields.iter().map(String::as_str)).map_err(StartError::Field)
            }
        }
    }

    fn selects_or_keeps(&self) -> bool {
        !self.namespaces.is_empty()
            || self.selectors != Selectors::default()
            || !self.drop_fields.is_empty()
            || self.keep_fields.is_some()
            || self.encoding != EncodingPreference::default()
            || self.object_bytes_max.is_some()
    }
}

/// A field that the kind lacks is a slip of the pen.
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
            selectors: Selectors::default(),
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
            reflector: ReflectorConfig::default(),
            page_size: None,
            watch_list: None,
            on_error: None,
            resync: None,
            memory: Memory::default(),
            hot_values_max: 100,
            wait_max: Duration::from_secs(30),
            #[cfg(feature = "metrics")]
            metrics: None,
        }
    }
}

impl InformerSource {
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
