//! The informers under test, with every kind of listener.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_client::api::ListParams;
use kube_client::{Api, Client, Config};
use kube_core::metadata::PartialObjectMeta;
use kube_informer::{
    Cluster, EncodingPreference, Event, HandlerHandle, Index, Informer, InformerFactory, Key, ListenerConfig,
    Lister, Memory, Origin, StoredObject,
};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::Outcome;
use crate::record::Lags;
use crate::writer::{TIER, WRITTEN_AT, each_object, namespace, now_micros};

/// Faults apply to clients whose User-Agent begins with this.
pub(crate) const USER_AGENT: &str = "soak";

/// The memory limit of all informers together. It is never reached.
const MEMORY_MAX: usize = 1 << 30;
const ALL_CHANGES_MAX: usize = 2_000;
/// The message of a handler's deliberate panics.
const PLANNED_PANIC: &str = "planned";
/// A handler panics once per this many calls.
const PANICS_EVERY: u64 = 5_000;

pub(crate) struct Clients {
    factory: InformerFactory,
    all: Informer<ConfigMap>,
    some: Informer<ConfigMap>,
    gold: Informer<ConfigMap>,
    names: Informer<PartialObjectMeta<ConfigMap>>,
    by_team: Index,
    by_length: Index,
    handlers: Vec<HandlerHandle>,
    /// Subscribes, reads for a while and unsubscribes, repeatedly.
    guest: JoinHandle<()>,
    pub(crate) lags: Arc<Mutex<Lags>>,
}

/// Marks the requests of a configuration, so that faults apply to them.
pub(crate) fn marked(mut config: Config) -> Config {
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(USER_AGENT)));
    config
}

/// The value of the index `team`.
fn team(object: &StoredObject) -> Option<String> {
    object.labels().get("team").map(Into::into)
}

/// The value of the index `length`: the length of the ConfigMap's value in hundreds of bytes.
fn length(object: &StoredObject) -> Option<String> {
    let value = object.field("data.value").ok().flatten();
    value.and_then(|value| value.as_str().map(|text| (text.len() / 100).to_string()))
}

fn namespaces() -> impl Iterator<Item = String> {
    (0..4).map(namespace)
}

impl Clients {
    pub(crate) async fn start(config: Config) -> Outcome<Self> {
        let factory = InformerFactory::new(Cluster::from_config(marked(config))?).memory_max(MEMORY_MAX);
        let by_team = Index::label("team", "team");
        let by_length = Index::by("length", length);
        let all =
            factory.informer::<ConfigMap>().labels("app=soak").index(&by_team).index(&by_length).start()?;
        let some = factory
            .informer::<ConfigMap>()
            .namespaces(namespaces())
            .labels("app=soak")
            .memory(Memory::Uncompressed)
            .encoding(EncodingPreference::Json)
            .keep_fields(["metadata.labels", "metadata.annotations"])
            .resync(Duration::from_secs(45))
            .start()?;
        let gold = factory
            .informer::<ConfigMap>()
            .namespaces_matching(format!("{}={}", TIER.0, TIER.1))
            .labels("app=soak")
            .start()?;
        let names = factory.informer::<ConfigMap>().metadata_only().labels("app=soak").start()?;
        factory.wait_for_sync().await?;
        let lags = Arc::new(Mutex::new(Lags::default()));
        let handlers = vec![timed(&all, lags.clone())?, slow(&all)?, panicking(&some)?, slow(&gold)?];
        let guest = tokio::spawn(come_and_go(all.clone()));
        Ok(Self { factory, all, some, gold, names, by_team, by_length, handlers, guest, lags })
    }

    /// The first difference between a cache and the server. No object may change meanwhile.
    pub(crate) async fn difference(&self, client: &Client) -> Outcome<Option<String>> {
        let some: Vec<_> = namespaces().collect();
        let gold = {
            let selected = ListParams::default().labels(&format!("{}={}", TIER.0, TIER.1));
            let list = Api::<Namespace>::all(client.clone()).list_metadata(&selected).await?;
            list.items.into_iter().filter_map(|object| object.metadata.name).collect::<Vec<_>>()
        };
        let (all, names) = (Caches::of("all", self.all.lister()), Caches::of("names", self.names.lister()));
        let (few, golden) = (Caches::of("some", self.some.lister()), Caches::of("gold", self.gold.lister()));
        let mut caches = (all, names, few, golden);
        each_object(client, None, |key, uid, version| {
            caches.0.compare(&key, uid, version);
            caches.1.compare(&key, uid, version);
            if some.iter().any(|name| name == key.namespace()) {
                caches.2.compare(&key, uid, version);
            }
            if gold.iter().any(|name| name == key.namespace()) {
                caches.3.compare(&key, uid, version);
            }
        })
        .await?;
        let differs =
            [caches.0.end(), caches.1.end(), caches.2.end(), caches.3.end()].into_iter().flatten().next();
        Ok(differs.or_else(|| self.index_difference()).or_else(|| self.pending()))
    }

    /// The first index value for which a lookup does not return exactly the objects that have it.
    fn index_difference(&self) -> Option<String> {
        let view = self.all.lister().view();
        let difference = |index: &Index, value_of: fn(&StoredObject) -> Option<String>| {
            let mut expected = BTreeMap::<_, Vec<_>>::new();
            for object in view.iter() {
                if let Some(value) = value_of(&object) {
                    expected.entry(value).or_default().push(object.key());
                }
            }
            expected.into_iter().find_map(|(value, mut keys)| {
                let mut found: Vec<_> = view
                    .by_index(index, &value)
                    .unwrap_or_default()
                    .iter()
                    .map(|object| object.key())
                    .collect();
                keys.sort();
                found.sort();
                (found != keys).then(|| format!("index {}: wrong objects under {value:?}", index.as_ref()))
            })
        };
        difference(&self.by_team, team).or_else(|| difference(&self.by_length, length))
    }

    /// The lags of the handlers, if any has pending changes.
    fn pending(&self) -> Option<String> {
        let lags: Vec<_> = self.handlers.iter().map(HandlerHandle::lag).collect();
        lags.iter().any(|lag| *lag > 0).then(|| format!("handlers are behind by {lags:?} changes"))
    }

    /// The state of each scope, one per line, for the report of a failure.
    pub(crate) fn scopes(&self) -> String {
        let informers = [
            ("all", self.all.status()),
            ("some", self.some.status()),
            ("gold", self.gold.status()),
            ("names", self.names.status()),
        ];
        let mut text = String::new();
        for (name, scopes) in informers {
            for scope in scopes {
                let namespace = scope.namespace.as_deref().unwrap_or("all namespaces");
                let received = scope.received_at.map(|at| at.elapsed());
                text += &format!(
                    "{name}, {namespace}: resourceVersion {}, received {received:?} ago, {:?}\n",
                    scope.resource_version,
                    scope.reflector()
                );
            }
        }
        text
    }

    pub(crate) async fn stop(self) {
        self.guest.abort();
        drop(self.handlers);
        self.factory.shutdown().await;
    }
}

/// Compares one cache with the objects of the server.
struct Caches<K> {
    name: &'static str,
    lister: Lister<K>,
    compared: usize,
    differs: Option<String>,
}

impl<K> Caches<K> {
    fn of(name: &'static str, lister: Lister<K>) -> Self {
        Self { name, lister, compared: 0, differs: None }
    }

    fn compare(&mut self, key: &Key, uid: &str, version: &str) {
        self.compared += 1;
        if self.differs.is_some() {
            return;
        }
        let found = self.lister.get(key);
        let same =
            found.as_ref().is_some_and(|found| (found.uid(), found.resource_version()) == (uid, version));
        if !same {
            let found = found.map(|found| format!("{} {}", found.uid(), found.resource_version()));
            self.differs = Some(format!("{}: {key} is {found:?}, on the server {uid} {version}", self.name));
        }
    }

    fn end(self) -> Option<String> {
        let count = self.lister.count();
        let extra = (count != self.compared)
            .then(|| format!("{}: {count} objects, on the server {}", self.name, self.compared));
        self.differs.or(extra)
    }
}

/// Measures the time from a write to the call of the handler.
fn timed(informer: &Informer<ConfigMap>, lags: Arc<Mutex<Lags>>) -> Outcome<HandlerHandle> {
    Ok(informer.add_handler(move |event: Event<ConfigMap>| {
        if let (Some(object), Some(Origin::Live)) = (event.object(), event.origin())
            && !matches!(event, Event::Deleted { .. })
            && let Some(written) =
                object.annotations().get(WRITTEN_AT).and_then(|text| text.parse::<u64>().ok())
        {
            lags.lock().add(now_micros().saturating_sub(written));
        }
        std::future::ready(())
    })?)
}

/// A handler that falls behind, so that its changes are coalesced.
fn slow(informer: &Informer<ConfigMap>) -> Outcome<HandlerHandle> {
    let mut config = ListenerConfig::default();
    config.changes_max = ALL_CHANGES_MAX;
    Ok(informer
        .add_handler_with(config, |_: Event<ConfigMap>| tokio::time::sleep(Duration::from_millis(1)))?)
}

fn panicking(informer: &Informer<ConfigMap>) -> Outcome<HandlerHandle> {
    let mut calls = 0_u64;
    Ok(informer.add_handler(move |_: Event<ConfigMap>| {
        calls += 1;
        let call = calls;
        async move { assert!(!call.is_multiple_of(PANICS_EVERY), "{PLANNED_PANIC}") }
    })?)
}

/// Reports panics as usual, except deliberate ones: a backtrace of each would hide everything else.
pub(crate) fn hide_planned_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if kube_informer::panic_text(info.payload()) != PLANNED_PANIC {
            report(info);
        }
    }));
}

async fn come_and_go(informer: Informer<ConfigMap>) {
    loop {
        let mut events = informer.lister().namespace("team-0").subscribe();
        let reading = async { while events.next().await.is_some() {} };
        let _ = tokio::time::timeout(Duration::from_secs(7), reading).await;
    }
}
