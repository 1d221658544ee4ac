//! Configures what an informer watches, keeps and indexes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use educe::Educe;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::Client;
use kube_core::metadata::PartialObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use super::decode::{Decode, JsonFallback};
use super::decoder::Decoder;
use super::defaults::Defaults;
use super::definition::schema_of;
use super::factory::InformerFactory;
use super::settings::{InformerSource, Settings};
use super::{Informer, LabelQuery, Selectors, StartError};
#[cfg(feature = "metrics")]
use crate::InformerMetrics;
use crate::memory::Memory;
use crate::reflector::ErrorReport;
#[cfg(feature = "building-blocks")]
use crate::reflector::ReflectorConfig;
#[cfg(feature = "building-blocks")]
use crate::source::EncodingPreference;
use crate::source::{ListerWatcher, Resource};
use crate::store::Index;

/// Settings of an [`Informer`]; [`start`](Self::start) checks and starts it.
#[derive(Educe)]
#[educe(Debug)]
#[must_use = "an informer does nothing until it is started"]
pub struct InformerBuilder<K> {
    #[educe(Debug(ignore))]
    source: InformerSource,
    #[educe(Debug(ignore))]
    decode: Decode<K>,
    #[educe(Debug(ignore))]
    fallback: JsonFallback,
    settings: Settings,
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
        Self { source, decode: Decode::new(&fallback), fallback, settings: Settings::default() }
    }

    /// Begins with a factory's defaults. Namespaces are not set on resources without them.
    pub(super) fn with_defaults(mut self, defaults: &Defaults, is_namespaced: bool) -> Self {
        let (source, fallback) = (self.source.clone(), self.fallback.clone());
        let (decode, settings) = (Decode::new(&fallback), self.settings);
        self.settings = defaults.set(InformerBuilder { source, decode, fallback, settings }).settings;
        self.settings.are_defaults(defaults);
        if !is_namespaced {
            self.settings.replace_default_namespaces();
        }
        self
    }

    /// Shares the started informer with all callers that request the same from this factory.
    pub(super) fn shared_by(mut self, factory: &InformerFactory) -> Self {
        self.settings.server_is_newer = factory.server_is_newer.clone();
        self.settings.factory = Some(factory.clone());
        self
    }

    pub(super) fn settings(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// Only these namespaces: one watch per namespace, and one store. Without any, all namespaces.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.settings.replace_default_namespaces();
        for namespace in namespaces.into_iter().map(Into::into) {
            self.add_namespace(namespace, None);
        }
        self
    }

    /// Adds this namespace, with its own selectors instead of the informer's.
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
        self.settings.replace_default_namespaces();
        self.add_namespace(namespace.into(), Some(selectors));
        self
    }

    /// Watches the namespaces that match these labels (in any form that [`labels`](Self::labels) takes), and follows changes of
    /// their labels. Each namespace has a watch while it matches.
    ///
    /// When a namespace begins to match, its objects are reported as added. When it no longer matches, or is deleted, they are
    /// reported as deleted, with `final_state_known: false`: they may still exist. The informer is synced when all
    /// namespaces that match at the start are synced. It needs the permission to list and watch namespaces.
    ///
    /// ```no_run
    /// # use kube_informer::Informer;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(client: kube_client::Client) -> Result<(), kube_informer::StartError> {
    /// let pods = Informer::<Pod>::builder(client).namespaces_matching("team=web").start()?;
    /// # Ok(()) }
    /// ```
    pub fn namespaces_matching(mut self, labels: impl LabelQuery) -> Self {
        self.settings.replace_default_namespaces();
        self.settings.matching = Some(labels.into_text());
        self
    }

    fn add_namespace(&mut self, namespace: String, selectors: Option<Selectors>) {
        let known = self.settings.namespaces.iter_mut().find(|(known, _)| *known == namespace);
        match known {
            Some((_, known)) => *known = selectors.or(known.take()),
            None => self.settings.namespaces.push((namespace, selectors)),
        }
    }

    /// Only objects with these labels: in the syntax of kubectl's `-l`, as kube's `Selector`, or as the `LabelSelector` of an
    /// object, such as a Deployment's.
    ///
    /// ```no_run
    /// # use kube_informer::{Informer, StartError};
    /// # use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::LabelSelector};
    /// # fn example(client: kube_client::Client, selector: &LabelSelector) -> Result<(), StartError> {
    /// let pods = Informer::<Pod>::builder(client).labels(selector).start()?;
    /// # Ok(()) }
    /// ```
    pub fn labels(mut self, selector: impl LabelQuery) -> Self {
        self.settings.selectors.labels = selector.into_text();
        self
    }

    /// Only objects with these fields, in the syntax of kubectl's `--field-selector`. The server decides which fields it
    /// can select by.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.settings.selectors.fields = selector.into();
        self
    }

    /// Only a part of the objects, for replicas that divide them among themselves: with the feature `shards`. Takes a
    /// [`Shard`](crate::Shard), or an [`AssignedShard`](crate::AssignedShard) to change it while informers run.
    ///
    /// A server that supports `shardSelector` (KEP-5866) sends only this part. Other servers send everything, and the informer
    /// drops the other objects when they arrive: this divides the memory, but not the traffic
    /// ([`ScopeStatus::foreign_objects`](crate::ScopeStatus::foreign_objects) counts them).
    ///
    /// With [`AssignedShard::by_owner`](crate::AssignedShard::by_owner), `by_label` or `by_field`, the objects are divided by their
    /// owner, a label or a field. The server then always sends everything.
    ///
    /// When the shard changes, the informer lists its new part, and keeps the bytes of unchanged objects. Objects of gained slots
    /// are reported as added ([`Origin::Initial`](crate::Origin::Initial)). Objects of lost slots leave the store: they are reported
    /// as `Deleted` with [`Origin::LeftShard`](crate::Origin::LeftShard), and may still exist. [`Informer::shard_synced`] waits until
    /// the change has taken effect.
    ///
    /// ```no_run
    /// # use kube_informer::{AssignedShard, Informer, Shard};
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # async fn example(client: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let assigned = AssignedShard::new(Shard::new(0..16, Shard::SLOTS)?);
    /// let pods = Informer::<Pod>::builder(client).shard(&assigned).start()?;
    /// pods.synced().await?;                                   // a quarter of all pods
    /// assigned.set(Shard::new(0..32, Shard::SLOTS)?);
    /// pods.shard_synced().await?;                             // half of them
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "shards")]
    pub fn shard(mut self, shard: impl Into<crate::AssignedShard>) -> Self {
        self.settings.shard = Some(shard.into());
        self
    }

    /// Fetches only the metadata of the objects.
    pub fn metadata_only(self) -> InformerBuilder<PartialObjectMeta<K>> {
        let source = match self.source {
            InformerSource::Client { client, resource, .. } => {
                InformerSource::Client { client, resource, metadata_only: true }
            }
            given => given,
        };
        let mut settings = self.settings;
        // A transform of a factory's defaults accepts objects of any kind.
        settings.transform_is_of_more =
            settings.transform.is_some() && settings.defaulted.transform.is_none();
        settings.index_is_of_more = settings.indexes_values;
        let (decode, fallback) = (Decode::new(&self.fallback), self.fallback);
        InformerBuilder { source, decode, fallback, settings }
    }

    /// The definition of the custom resource. Field paths are then checked against its schema, as those of built-in kinds always are:
    /// in indexes, in [`drop_fields`](Self::drop_fields) and [`keep_fields`](Self::keep_fields), in
    /// [`Lister::field`](crate::Lister::field) and [`Object::field`](crate::Object::field), and in the filters and references of a
    /// controller. Without it, a misspelled path never finds anything.
    ///
    /// ```no_run
    /// # use kube_informer::{Index, Informer, StartError};
    /// # use kube_core::CustomResourceExt;
    /// # #[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema, kube_derive::CustomResource)]
    /// # #[kube(group = "example.com", version = "v1", kind = "Website", namespaced, crates(kube_core = "kube_core"))]
    /// # struct WebsiteSpec { host: String }
    /// # fn example(client: kube_client::Client) -> Result<(), StartError> {
    /// let by_host = Index::field("host", "spec.host");
    /// let sites = Informer::<Website>::builder(client).definition(&Website::crd()).index(&by_host).start()?;
    /// # Ok(()) }
    /// ```
    pub fn definition(mut self, definition: &CustomResourceDefinition) -> Self {
        self.settings.definition = Some(schema_of(definition, &self.source.resource()));
        self
    }

    /// Adds an index: see [`Lister::by_index`](crate::Lister::by_index).
    pub fn index(mut self, index: &Index) -> Self {
        self.settings.indexes.push(index.clone());
        self
    }

    /// Adds an index over values that a function reads from the typed object. It decodes every state of every object;
    /// [`Index::field`] and [`Index::label`] cost much less.
    pub fn index_by<V>(mut self, name: &str, values: impl Fn(&K) -> V + Send + Sync + 'static) -> Self
    where
        V: IntoIterator<Item = String>,
    {
        self.settings.indexes_values = true;
        let (decode, identity) = (self.decode.clone(), Index::identity_of(&values));
        let index =
            Index::by_fallible(name, move |object| Ok(values(&object.read(|kept| decode.value(kept))?)));
        self.index(&index.identified_by(identity))
    }

    /// Drops these fields of every object on arrival. `metadata.managedFields` is always dropped.
    pub fn drop_fields<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.settings.replace_default_fields();
        self.settings.drop_fields.extend(paths.into_iter().map(Into::into));
        self
    }

    /// Keeps only these fields of every object, and its head.
    pub fn keep_fields<P: Into<String>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.settings.replace_default_fields();
        let keep = self.settings.keep_fields.get_or_insert_default();
        keep.extend(paths.into_iter().map(Into::into));
        self
    }

    /// Changes each object on arrival, before it is stored. This is expensive: each object is decoded, changed and encoded
    /// again (as JSON). To drop or keep fields, use [`drop_fields`](Self::drop_fields) or
    /// [`keep_fields`](Self::keep_fields), which work on the bytes.
    ///
    /// The function must be deterministic, and must not change type, name, uid or resourceVersion. An object that cannot be
    /// decoded is skipped and [reported](Self::on_error), as is one that a [`try_transform`](Self::try_transform) function
    /// rejects. A factory does not share informers that have a transform of their own. It shares those with only the transform of
    /// its [defaults](crate::InformerFactory::defaults).
    pub fn transform(self, change: impl Fn(&mut K) + Send + Sync + 'static) -> Self
    where
        K: Serialize,
    {
        self.try_transform(move |value| {
            change(value);
            Ok::<(), std::convert::Infallible>(())
        })
    }

    /// Like [`transform`](Self::transform), with a function that can reject an object.
    pub fn try_transform<E: fmt::Display>(
        mut self,
        change: impl Fn(&mut K) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self
    where
        K: Serialize,
    {
        let decode = self.decode.clone();
        self.settings.defaulted.transform = None;
        self.settings.transform = Some(Arc::new(move |raw| {
            let mut value = decode.value(raw.kept()).map_err(|error| error.to_string())?;
            change(&mut value).map_err(|error| error.to_string())?;
            serde_json::to_vec(&value).map_err(|error| error.to_string())
        }));
        self
    }

    /// How often to deliver every object again, to listeners without their own period. Default: never.
    pub fn resync(mut self, period: Duration) -> Self {
        self.settings.resync = Some(period);
        self
    }

    /// Which encoding is requested, with the feature `building-blocks`. Default: protobuf where it loses nothing.
    #[cfg(feature = "building-blocks")]
    pub fn encoding(mut self, preference: EncodingPreference) -> Self {
        self.settings.encoding = preference;
        self
    }

    /// The maximum size of an object; larger ones are skipped and reported: the cache keeps the previous state, if there is
    /// one, until the object is smaller again or deleted. Default: 8 MiB. (A kube-apiserver accepts at most 3 MiB.)
    pub fn object_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.object_bytes_max = Some(bytes);
        self
    }

    /// Called with every server error, and what the informer does about it.
    pub fn on_error(mut self, report: impl Fn(&ErrorReport) + Send + Sync + 'static) -> Self {
        self.settings.on_error = Some(Arc::new(report));
        self
    }

    /// Settings of the reflectors, with the feature `building-blocks`: page size, watch-lists, back-off, timeouts, random
    /// seed. (For resync use [`resync`](Self::resync).) [`on_error`](Self::on_error) overrides it, in any order.
    #[cfg(feature = "building-blocks")]
    pub fn reflector(mut self, config: ReflectorConfig) -> Self {
        self.settings.reflector = config;
        self
    }

    /// How the store holds objects. Default: packed. For an informer shared by a factory, the first request decides.
    pub fn memory(mut self, memory: impl Into<Memory>) -> Self {
        self.settings.memory = memory.into();
        self
    }

    /// How many of the most recently decoded values to keep alive without other references. 0 keeps none. `usize::MAX`
    /// keeps every decoded value while its object is stored unchanged (and up to as many again until the next sweep).
    /// Default: 100.
    pub fn hot_values_max(mut self, values: usize) -> Self {
        self.settings.hot_values_max = values;
        self
    }

    /// Sets the time limit of [`Informer::wait_for`] and [`Informer::wait_deleted`]. Default: 30 s. [`Informer::wait_until`] has
    /// no limit.
    pub fn wait_max(mut self, limit: Duration) -> Self {
        self.settings.wait_max = limit;
        self
    }

    /// Exports metrics under this name.
    #[cfg(feature = "metrics")]
    pub fn metrics(mut self, name: impl Into<String>, metrics: &InformerMetrics) -> Self {
        self.settings.metrics = Some((metrics.clone(), name.into()));
        self
    }

    /// Validates all settings and starts the informer.
    ///
    /// # Errors
    /// Returns an error if a selector, field path or index is invalid, or if there is no tokio runtime. Nothing is started
    /// then.
    pub fn start(self) -> Result<Informer<K>, StartError> {
        tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let schema = self.settings.custom_schema(&self.source)?;
        let (resync, wanted) = (self.settings.resync, self.settings.wanted(&self.source));
        let client = self.source.client().cloned();
        let decoder = Decoder::new(self.decode, self.settings.hot_values_max);
        #[cfg(feature = "metrics")]
        let reports =
            self.settings.metrics.clone().map(|(metrics, name)| (metrics, name, self.source.resource()));
        let (owner, decoder) = match self.settings.factory.clone() {
            Some(factory) => factory.share(wanted, decoder, self.settings, self.source)?,
            None => {
                let starts = match self.settings.matching {
                    Some(_) => InformerFactory::STARTS_MAX,
                    None => Semaphore::MAX_PERMITS,
                };
                let starts = Arc::new(Semaphore::new(starts));
                let owner = self.settings.start(self.source, starts)?;
                let decoder = Arc::new(decoder.of_store(&owner.0.store));
                (owner, decoder)
            }
        };
        if let Some(schema) = schema {
            owner.0.store.define(schema);
        }
        self.fallback.connect(&owner.0.json);
        #[cfg(feature = "metrics")]
        if let Some((metrics, name, resource)) = reports {
            metrics.add(name, &resource, &owner.0, decoder.error_counter());
        }
        Ok(Informer::new(owner, decoder, resync, client))
    }
}
