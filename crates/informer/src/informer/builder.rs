//! What an informer is to watch, keep and index, said before it starts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_client::Client;
use kube_core::metadata::PartialObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use super::decode::{Decode, JsonFallback};
use super::decoder::Decoder;
use super::factory::InformerFactory;
use super::settings::{InformerSource, Settings};
use super::{Informer, Selectors, StartError};
#[cfg(feature = "metrics")]
use crate::InformerMetrics;
use crate::reflector::{ErrorReport, ReflectorConfig, WatchList};
use crate::source::{EncodingPreference, ListerWatcher, Resource};
use crate::store::{Index, Memory};

/// Settings of an [`Informer`]; [`start`](Self::start) checks and starts it.
#[must_use = "an informer does nothing until it is started"]
pub struct InformerBuilder<K> {
    source: InformerSource,
    decode: Decode<K>,
    fallback: JsonFallback,
    settings: Settings,
    factory: Option<InformerFactory>,
}

// === impl InformerBuilder ===

impl<K: DeserializeOwned + Send + Sync + 'static> InformerBuilder<K> {
    pub(super) fn over_client(client: Client, resource: Resource, metadata_only: bool) -> Self {
        Self::over(InformerSource::Client { client, resource, metadata_only })
    }

    pub(super) fn over_sources(sources: Vec<(Option<String>, Arc<dyn ListerWatcher>)>) -> Self {
        Self::over(InformerSource::Given(sources))
    }

    fn over(source: InformerSource) -> Self {
        let fallback = JsonFallback::default();
        Self {
            source,
            decode: Decode::new(&fallback),
            fallback,
            settings: Settings::default(),
            factory: None,
        }
    }

    /// Shares what is started with all who ask this factory for the same.
    pub(super) fn shared_by(mut self, factory: &InformerFactory) -> Self {
        self.settings.server_is_newer = factory.server_is_newer.clone();
        self.factory = Some(factory.clone());
        self
    }

    /// Only these namespaces. Several become one informer: one watch each, one store. None named: all.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        for namespace in namespaces.into_iter().map(Into::into) {
            self.add_namespace(namespace, None);
        }
        self
    }

    /// This namespace, too, with selectors of its own instead of the informer's.
    ///
    /// ```no_run
    /// # use kube_informer::{Informer, Selectors};
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(client: kube_client::Client) -> Result<(), kube_informer::StartError> {
    /// let pods = Informer::<Pod>::builder(client)
    ///     .namespaces(["web", "api"])
    ///     .labels("tier=backend")
    ///     .namespace_with("batch", Selectors::default().fields("status.phase=Running"))
    ///     .start()?;
    /// # Ok(()) }
    /// ```
    pub fn namespace_with(mut self, namespace: impl Into<String>, selectors: Selectors) -> Self {
        self.add_namespace(namespace.into(), Some(selectors));
        self
    }

    fn add_namespace(&mut self, namespace: String, selectors: Option<Selectors>) {
        let known = self.settings.namespaces.iter_mut().find(|(known, _)| *known == namespace);
        match known {
            Some((_, known)) => *known = selectors.or(known.take()),
            None => self.settings.namespaces.push((namespace, selectors)),
        }
    }

    /// Only objects with these labels, as kubectl's `-l`.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.settings.selectors.labels = selector.into();
        self
    }

    /// Only objects with these fields, as kubectl's `--field-selector`. Which fields can be selected by is the server's
    /// affair.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.settings.selectors.fields = selector.into();
        self
    }

    /// Only the metadata of the objects.
    pub fn metadata_only(self) -> InformerBuilder<PartialObjectMeta<K>> {
        let source = match self.source {
            InformerSource::Client { client, resource, .. } => {
                InformerSource::Client { client, resource, metadata_only: true }
            }
            given => given,
        };
        let mut settings = self.settings;
        settings.transform_is_of_more = settings.transform.is_some();
        settings.index_is_of_more = settings.indexes_values;
        let (decode, fallback) = (Decode::new(&self.fallback), self.fallback);
        InformerBuilder { source, decode, fallback, settings, factory: self.factory }
    }

    /// With an index: see [`Lister::by_index`](crate::Lister::by_index).
    pub fn index(mut self, index: &Index) -> Self {
        self.settings.indexes.push(index.clone());
        self
    }

    /// With an index over what a function reads from the typed value. Every state of every object is decoded for it:
    /// where a field or label will do, [`Index::field`] and [`Index::label`] cost much less.
    pub fn index_by<V>(mut self, name: &str, values: impl Fn(&K) -> V + Send + Sync + 'static) -> Self
    where
        V: IntoIterator<Item = String>,
    {
        self.settings.indexes_values = true;
        let (decode, identity) = (self.decode.clone(), Index::identity_of(&values));
        let index = Index::try_by(name, move |object| Ok(values(&object.read(|kept| decode.value(kept))?)));
        self.index(&index.identified_by(identity))
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

    /// Changes each object when it arrives, before anything else sees it. This is the slow way: each object is decoded,
    /// changed and encoded again (as JSON). Where dropping or keeping fields will do, [`drop_fields`](Self::drop_fields)
    /// and [`keep_fields`](Self::keep_fields) do it on the bytes.
    ///
    /// The function must make the same of the same object each time, and leave its type, name, uid and resourceVersion. An
    /// object that does not fit the type is left out, and [reported](Self::on_error); so is one that the function
    /// refuses, with [`try_transform`](Self::try_transform). Informers with a transform are not shared by a factory.
    pub fn transform(self, change: impl Fn(&mut K) + Send + Sync + 'static) -> Self
    where
        K: Serialize,
    {
        self.try_transform(move |value| {
            change(value);
            Ok::<(), std::convert::Infallible>(())
        })
    }

    /// As [`transform`](Self::transform), with a function that may refuse an object.
    pub fn try_transform<E: fmt::Display>(
        mut self,
        change: impl Fn(&mut K) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self
    where
        K: Serialize,
    {
        let decode = self.decode.clone();
        self.settings.transform = Some(Arc::new(move |raw| {
            let mut value = decode.value(raw.kept()).map_err(|error| error.to_string())?;
            change(&mut value).map_err(|error| error.to_string())?;
            serde_json::to_vec(&value).map_err(|error| error.to_string())
        }));
        self
    }

    /// How often every object is delivered once more to each listener that has no period of its own. Default: never.
    pub fn resync(mut self, period: Duration) -> Self {
        self.settings.resync = Some(period);
        self
    }

    /// Size of a list's pages. Default: as the server can serve best.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.settings.page_size = Some(objects);
        self
    }

    /// Whether the initial state is streamed. Default: where the server can.
    pub fn watch_list(mut self, mode: WatchList) -> Self {
        self.settings.watch_list = Some(mode);
        self
    }

    /// Which encoding is asked for. Default: protobuf where nothing is lost by it.
    pub fn encoding(mut self, preference: EncodingPreference) -> Self {
        self.settings.encoding = preference;
        self
    }

    /// How large an object may be; a larger one is left out and reported. Default: 8 MiB, where a kube-apiserver itself takes
    /// no more than 3.
    pub fn object_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.object_bytes_max = Some(bytes);
        self
    }

    /// Reports every error of the server, and what is done about it.
    pub fn on_error(mut self, report: impl Fn(&ErrorReport) + Send + Sync + 'static) -> Self {
        self.settings.on_error = Some(Arc::new(report));
        self
    }

    /// All settings of its reflectors: waits after errors, time limits, the seed of random choices. (Resync is the
    /// informer's own: see [`resync`](Self::resync).) [`page_size`](Self::page_size), [`watch_list`](Self::watch_list) and
    /// [`on_error`](Self::on_error) override it, before or after.
    pub fn reflector(mut self, config: ReflectorConfig) -> Self {
        self.settings.reflector = config;
        self
    }

    /// How the store holds objects. Default: packed. Those who share an informer by a factory share the first one's choice.
    pub fn memory(mut self, memory: impl Into<Memory>) -> Self {
        self.settings.memory = memory.into();
        self
    }

    /// How many of the values decoded last are held though nobody else does. 0: none; `usize::MAX`: all that were decoded,
    /// as long as their objects are stored as they were (and up to as many again, until there is a sweep). Default: 100.
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
        let (owner, decoder) = match self.factory {
            Some(factory) => factory.share(wanted, decoder, self.settings, self.source)?,
            None => (self.settings.start(self.source, unlimited())?, Arc::new(decoder)),
        };
        self.fallback.connect(&owner.0.json);
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

impl<K> fmt::Debug for InformerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerBuilder")
            .field("namespaces", &self.settings.namespaces)
            .field("selectors", &self.settings.selectors)
            .field("indexes", &self.settings.indexes)
            .finish_non_exhaustive()
    }
}
