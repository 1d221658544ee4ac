//! What an informer is to watch, keep and index, said before it starts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_client::Client;
use kube_core::metadata::PartialObjectMeta;
use kube_wire::schema::Schema;
use kube_wire::{Projection, TypeMeta};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use super::core::{Core, Owner, Parts, Selection};
use super::decoder::{Decode, Decoder};
use super::factory::InformerFactory;
use super::{Informer, StartError};
#[cfg(feature = "metrics")]
use crate::InformerMetrics;
use crate::reflector::{ReflectorConfig, Trouble, WatchList};
use crate::source::{EncodingPreference, ListWatch, ListerWatcher, Resource};
use crate::store::{Index, Store, StoreConfig};

/// Settings of an [`Informer`]; [`start`](Self::start) checks and starts it.
#[must_use = "an informer does nothing until it is started"]
pub struct InformerBuilder<K> {
    source: Source,
    decode: Decode<K>,
    settings: Settings,
    factory: Option<InformerFactory>,
}

pub(super) enum Source {
    Client { client: Client, resource: Resource, metadata_only: bool },
    Given(Vec<(Option<String>, Arc<dyn ListerWatcher>)>),
}

/// What makes two informers the same: whoever wants the same can share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    resource: Resource,
    metadata_only: bool,
    namespaces: Vec<String>,
    labels: String,
    fields: String,
    projection: String,
    encoding: EncodingPreference,
}

/// Everything that does not know the type.
pub(super) struct Settings {
    namespaces: Vec<String>,
    labels: String,
    fields: String,
    drop_fields: Vec<String>,
    keep_fields: Option<Vec<String>>,
    encoding: EncodingPreference,
    pub(super) indexes: Vec<Index>,
    reflector: ReflectorConfig,
    resync: Option<Duration>,
    hot_values_max: usize,
    wait_max: Duration,
    #[cfg(feature = "metrics")]
    metrics: Option<(InformerMetrics, String)>,
}

// === impl InformerBuilder ===

impl<K: DeserializeOwned + Send + Sync + 'static> InformerBuilder<K> {
    pub(super) fn over_client(
        client: Client,
        resource: Resource,
        metadata_only: bool,
        decode: Decode<K>,
    ) -> Self {
        let source = Source::Client { client, resource, metadata_only };
        Self { source, decode, settings: Settings::default(), factory: None }
    }

    pub(super) fn over_sources(
        sources: Vec<(Option<String>, Arc<dyn ListerWatcher>)>,
        decode: Decode<K>,
    ) -> Self {
        Self { source: Source::Given(sources), decode, settings: Settings::default(), factory: None }
    }

    /// Shares what is started with all who ask this factory for the same.
    pub(super) fn shared_by(mut self, factory: &InformerFactory) -> Self {
        self.factory = Some(factory.clone());
        self
    }

    /// Only these namespaces. Several become one informer: one watch each, one store. None named: all.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        for namespace in namespaces.into_iter().map(Into::into) {
            if !self.settings.namespaces.contains(&namespace) {
                self.settings.namespaces.push(namespace);
            }
        }
        self
    }

    /// Only objects with these labels, as kubectl's `-l`.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.settings.labels = selector.into();
        self
    }

    /// Only objects with these fields, as kubectl's `--field-selector`. Which fields can be selected by is the server's
    /// affair.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.settings.fields = selector.into();
        self
    }

    /// Only the metadata of the objects.
    pub fn metadata_only(self) -> InformerBuilder<PartialObjectMeta<K>> {
        let source = match self.source {
            Source::Client { client, resource, .. } => {
                Source::Client { client, resource, metadata_only: true }
            }
            given => given,
        };
        InformerBuilder { source, decode: |raw| raw.decode(), settings: self.settings, factory: self.factory }
    }

    /// With an index: see [`Lister::by_index`](crate::Lister::by_index).
    pub fn index(mut self, index: &Index) -> Self {
        self.settings.indexes.push(index.clone());
        self
    }

    /// With an index over what a function reads from the typed value. Every state of every object is decoded for it:
    /// where a field or label will do, [`Index::field`] and [`Index::label`] cost much less.
    pub fn index_by<V>(self, name: &str, values: impl Fn(&K) -> V + Send + Sync + 'static) -> Self
    where
        V: IntoIterator<Item = String>,
    {
        let decode = self.decode;
        let index = Index::try_by(name, move |object| Ok(values(&decode(&object.body())?)));
        self.index(&index)
    }

    /// Drops these fields of every object when it arrives (`metadata.managedFields` is dropped anyway).
    pub fn drop_fields<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.settings.drop_fields.extend(paths.into_iter().map(Into::into));
        self
    }

    /// Keeps only these fields of every object, and its head.
    pub fn keep_fields<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        let keep = self.settings.keep_fields.get_or_insert_default();
        keep.extend(paths.into_iter().map(Into::into));
        self
    }

    /// How often everything is told once more to every listener that does not say otherwise. Default: never.
    pub fn resync(mut self, period: Duration) -> Self {
        self.settings.resync = Some(period);
        self
    }

    /// Size of a list's pages. Default: as the server can serve best.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.settings.reflector.page_size = Some(objects);
        self
    }

    /// Whether the initial state is streamed. Default: where the server can.
    pub fn watch_list(mut self, mode: WatchList) -> Self {
        self.settings.reflector.watch_list = mode;
        self
    }

    /// Which encoding is asked for. Default: protobuf where the kind has it.
    pub fn encoding(mut self, preference: EncodingPreference) -> Self {
        self.settings.encoding = preference;
        self
    }

    /// Who hears of every trouble with the server, and what is done about it.
    pub fn on_error(mut self, hear: impl Fn(&Trouble) + Send + Sync + 'static) -> Self {
        self.settings.reflector.on_error = Some(Arc::new(hear));
        self
    }

    /// All settings of its reflectors: waits after trouble, time limits, the seed of random choices. (Resync is the
    /// informer's own: see [`resync`](Self::resync).)
    pub fn reflector(mut self, config: ReflectorConfig) -> Self {
        self.settings.reflector = config;
        self
    }

    /// How many of the values decoded last are held though nobody else does. 0: none; `usize::MAX`: all. Default: 100.
    pub fn hot_values_max(mut self, values: usize) -> Self {
        self.settings.hot_values_max = values;
        self
    }

    /// How long [`Informer::wait_for`] and [`Informer::wait_gone`] wait at most. Default: 30 s.
    pub fn wait_max(mut self, limit: Duration) -> Self {
        self.settings.wait_max = limit;
        self
    }

    /// Reports under this name to these metrics.
    #[cfg(feature = "metrics")]
    pub fn metrics(mut self, name: impl Into<String>, metrics: &InformerMetrics) -> Self {
        self.settings.metrics = Some((metrics.clone(), name.into()));
        self
    }

    /// Checks all settings, and starts.
    ///
    /// # Errors
    /// If a selector, a field's path or an index is wrong, or there is no runtime. Nothing was started then.
    pub fn start(self) -> Result<Informer<K>, StartError> {
        tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let (resync, wanted) = (self.settings.resync, self.settings.wanted(&self.source));
        let decoder = Decoder::new(self.decode, self.settings.hot_values_max);
        #[cfg(feature = "metrics")]
        let reports =
            self.settings.metrics.clone().map(|(metrics, name)| (metrics, name, self.source.resource()));
        let (owner, decoder) = match (self.factory, wanted) {
            (Some(factory), Some(wanted)) => factory.share(wanted, decoder, self.settings, self.source)?,
            (factory, _) => {
                let starts = factory.map_or_else(unlimited, |factory| factory.starts());
                (self.settings.start(self.source, starts)?, Arc::new(decoder))
            }
        };
        #[cfg(feature = "metrics")]
        if let Some((metrics, name, resource)) = reports {
            metrics.add(name, &resource, &owner.0, decoder.error_counter());
        }
        Ok(Informer::new(owner, decoder, resync))
    }
}

fn unlimited() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(Semaphore::MAX_PERMITS))
}

impl Source {
    /// The resource, as far as it is known.
    fn resource(&self) -> Resource {
        match self {
            Self::Client { resource, .. } => resource.clone(),
            Self::Given(sources) => {
                let type_meta = sources.first().and_then(|(_, source)| source.expected_type());
                let type_meta = type_meta.unwrap_or_else(|| TypeMeta::new("", ""));
                let (kind, plural) = (type_meta.kind(), type_meta.kind().to_lowercase());
                Resource::new(type_meta.group(), type_meta.version(), &plural, kind)
            }
        }
    }
}

// === impl Settings ===

impl Settings {
    /// Checks everything and starts.
    pub(super) fn start(self, source: Source, starts: Arc<Semaphore>) -> Result<Arc<Owner>, StartError> {
        Ok(Arc::new(Owner(Core::start(self.parts(source, starts)?))))
    }

    /// What is asked for, if it is asked for over a client.
    fn wanted(&self, source: &Source) -> Option<Wanted> {
        let Source::Client { resource, metadata_only, .. } = source else { return None };
        let mut namespaces = self.namespaces.clone();
        namespaces.sort();
        Some(Wanted {
            resource: resource.clone(),
            metadata_only: *metadata_only,
            namespaces,
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            // A projection that is none is told when it is checked.
            projection: self.projection().map(|projection| projection.to_string()).unwrap_or_default(),
            encoding: self.encoding,
        })
    }

    fn parts(self, source: Source, starts: Arc<Semaphore>) -> Result<Parts, StartError> {
        let selection = Selection {
            labels: self.labels.parse()?,
            label_text: self.labels.clone(),
            fields: self.fields.parse()?,
        };
        let projection = self.projection()?;
        let resource = source.resource();
        let mut reflector = self.reflector.clone();
        // Each listener has its own.
        reflector.resync_period = None;
        let sources = match source {
            Source::Client { client, resource, metadata_only } => {
                if !metadata_only {
                    check_fields(&projection, &resource.type_meta())?;
                }
                let mut list_watch = ListWatch::new(client, resource)
                    .labels(&self.labels)
                    .fields(&self.fields)
                    .encoding(self.encoding)
                    .projection(projection.clone());
                if metadata_only {
                    list_watch = list_watch.metadata_only();
                }
                self.over_namespaces(&list_watch)
            }
            Source::Given(_) if self.selects_or_keeps() => {
                return Err(StartError::Contradiction(
                    "namespaces, selectors, fields and encoding are the given source's affair: set them there",
                ));
            }
            Source::Given(sources) => sources,
        };
        if sources.is_empty() || sources.len() > usize::from(u16::MAX) {
            return Err(StartError::Contradiction("an informer needs a source, and has room for 65,535"));
        }
        let mut store = StoreConfig::default().projection(projection);
        if let Some(type_meta) = sources[0].1.expected_type() {
            store = store.type_meta(type_meta);
        }
        let mut indexes = self.indexes;
        if !indexes.iter().any(|index| index.name() == Index::NAMESPACE) {
            indexes.push(Index::namespace());
        }
        let store = Store::new(indexes.iter().cloned().fold(store, StoreConfig::index))?;
        Ok(Parts { sources, resource, store, selection, reflector, indexes, wait_max: self.wait_max, starts })
    }

    fn over_namespaces(&self, list_watch: &ListWatch) -> Vec<(Option<String>, Arc<dyn ListerWatcher>)> {
        if self.namespaces.is_empty() {
            return vec![(None, Arc::new(list_watch.clone()))];
        }
        let one = |namespace: &String| -> (_, Arc<dyn ListerWatcher>) {
            (Some(namespace.clone()), Arc::new(list_watch.clone().namespace(namespace)))
        };
        self.namespaces.iter().map(one).collect()
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
            || !self.labels.is_empty()
            || !self.fields.is_empty()
            || !self.drop_fields.is_empty()
            || self.keep_fields.is_some()
            || self.encoding != EncodingPreference::default()
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
            labels: String::new(),
            fields: String::new(),
            drop_fields: Vec::new(),
            keep_fields: None,
            encoding: EncodingPreference::default(),
            indexes: Vec::new(),
            reflector: ReflectorConfig::default(),
            resync: None,
            hot_values_max: 100,
            wait_max: Duration::from_secs(30),
            #[cfg(feature = "metrics")]
            metrics: None,
        }
    }
}

impl<K> fmt::Debug for InformerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerBuilder")
            .field("namespaces", &self.settings.namespaces)
            .field("labels", &self.settings.labels)
            .field("fields", &self.settings.fields)
            .field("indexes", &self.settings.indexes)
            .finish_non_exhaustive()
    }
}
