//! Compares informers with the server, object by object.

use std::{collections::BTreeMap, time::Duration};

use futures::{FutureExt, StreamExt};
use kube_client::Client;
use kube_informer::building_blocks::{BackoffConfig, ReflectorConfig};
use kube_informer::{Informer, Subscription};
use kube_informer_conformance::raw;
use serde_json::Value;

/// Objects by key, without the fields that an informer drops on arrival.
pub(crate) type Objects = BTreeMap<String, Value>;

/// Settings of a reflector whose delays are milliseconds instead of seconds.
pub(crate) fn quick() -> ReflectorConfig {
    let mut config = ReflectorConfig::default();
    let (first, longest) = (Duration::from_millis(20), Duration::from_millis(500));
    config.backoff = BackoffConfig { first, longest, ..Default::default() };
    config.resume_check_after = Duration::from_secs(2);
    config.seed = Some(7);
    config
}

/// Whether `--long` was given.
pub(crate) fn long() -> bool {
    std::env::var_os("KUBE_INFORMER_CONFORMANCE_LONG").is_some()
}

/// Lists the objects of a path from etcd. Retries while the server is down.
pub(crate) async fn listed(client: &Client, path: &str) -> Objects {
    let list = loop {
        match raw::get(client, path, raw::JSON).await {
            Ok(answer) if answer.status == 200 => break answer.json(),
            _ => tokio::task::yield_now().await,
        }
    };
    list["items"].as_array().unwrap().iter().cloned().map(comparable).collect()
}

/// All objects of an informer.
pub(crate) fn shown<K: Send + Sync + 'static>(informer: &Informer<K>) -> Objects {
    let view = informer.lister().view();
    view.iter().map(|object| comparable(object.raw().decode().unwrap())).collect()
}

/// Waits until an informer equals the server. No object may be written meanwhile. There is no time limit: the
/// differences are printed every 20 seconds.
pub(crate) async fn converges<K: Send + Sync + 'static>(informer: &Informer<K>, client: &Client, path: &str) {
    converges_to(informer, async || listed(client, path).await).await;
}

/// Waits until an informer has the expected objects.
pub(crate) async fn converges_to<K: Send + Sync + 'static>(
    informer: &Informer<K>,
    expected: impl AsyncFn() -> Objects,
) {
    let mut events = informer.subscribe();
    let mut right = expected().await;
    loop {
        let heads = || right.iter().map(|(key, object)| (key.clone(), version_of(object).to_owned()));
        // Decodes the objects only if their versions are equal.
        if versions(informer) == heads().collect() && shown(informer) == right {
            return;
        }
        if tokio::time::timeout(Duration::from_secs(20), something(&mut events)).await.is_err() {
            right = expected().await;
            report_differences(informer, &right);
        }
    }
}

fn versions<K: Send + Sync + 'static>(informer: &Informer<K>) -> BTreeMap<String, String> {
    let view = informer.lister().view();
    view.iter().map(|object| (object.key().to_string(), object.resource_version().to_owned())).collect()
}

/// Waits for an event, then reads all pending ones.
async fn something<K: Send + Sync + 'static>(events: &mut Subscription<K>) {
    events.next().await.expect("the informer runs");
    while tokio::task::unconstrained(events.next()).now_or_never().flatten().is_some() {}
}

fn comparable(mut object: Value) -> (String, Value) {
    without_unset_times(&mut object);
    let fields = object.as_object_mut().unwrap();
    fields.remove("apiVersion");
    fields.remove("kind");
    let metadata = fields["metadata"].as_object_mut().unwrap();
    metadata.remove("managedFields");
    let name = metadata["name"].as_str().unwrap();
    let key = match metadata.get("namespace") {
        Some(namespace) => format!("{}/{name}", namespace.as_str().unwrap()),
        None => name.to_owned(),
    };
    (key, object)
}

/// Removes unset times. Up to 1.33 the JSON of a pod template has `creationTimestamp: null`; protobuf and later servers
/// omit it.
fn without_unset_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| name != "creationTimestamp" || !value.is_null());
            fields.values_mut().for_each(without_unset_times);
        }
        Value::Array(items) => items.iter_mut().for_each(without_unset_times),
        _ => {}
    }
}

fn version_of(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

#[allow(clippy::print_stderr, reason = "printed only when a test hangs")]
fn report_differences<K: Send + Sync + 'static>(informer: &Informer<K>, expected: &Objects) {
    let shown = shown(informer);
    let state = informer.state();
    eprintln!("{state}: {} objects shown, {} expected", shown.len(), expected.len());
    let differs = |key: &&String| shown.get(*key) != expected.get(*key);
    for key in shown.keys().chain(expected.keys()).filter(differs).take(3) {
        eprintln!("{key}\n  shown    {:?}\n  expected {:?}", shown.get(key), expected.get(key));
    }
}
