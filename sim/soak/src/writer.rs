//! Creates, changes, deletes and re-creates ConfigMaps. Their number stays the same.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_client::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_client::{Client, Error};
use kube_core::ObjectMeta;
use kube_informer::Key;
use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::json;

use crate::Outcome;

/// The annotation with the time of a write, in microseconds since 1970.
pub(crate) const WRITTEN_AT: &str = "soak/written-at";
/// The namespace label that one informer selects by, and its value.
pub(crate) const TIER: (&str, &str) = ("tier", "gold");

const NAMESPACES: u64 = 20;
const CONCURRENT_REQUESTS: usize = 16;

pub(crate) struct Writer {
    client: Client,
    objects: u64,
}

pub(crate) fn namespace(number: u64) -> String {
    format!("team-{}", number % NAMESPACES)
}

pub(crate) fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or_default()
}

impl Writer {
    /// Creates all namespaces and objects.
    pub(crate) async fn fill(client: Client, objects: u64) -> Outcome<Self> {
        let writer = Self { client, objects };
        for number in 0..NAMESPACES {
            let metadata = ObjectMeta { name: Some(namespace(number)), ..ObjectMeta::default() };
            let namespace = Namespace { metadata, ..Namespace::default() };
            Api::all(writer.client.clone()).create(&PostParams::default(), &namespace).await?;
        }
        stream::iter(0..objects)
            .map(|number| writer.create(number))
            .buffer_unordered(CONCURRENT_REQUESTS)
            .try_collect::<()>()
            .await?;
        Ok(writer)
    }

    /// One random change.
    pub(crate) async fn change(&self, random: &mut StdRng) -> Outcome {
        let number = random.random_range(0..self.objects);
        match random.random_range(0..100) {
            0..10 => {
                self.delete(number).await?;
                self.create(number).await?;
            }
            10..11 => self.label(random.random_range(0..NAMESPACES), random.random()).await?,
            _ => self.update(number, random.random_range(0..1_000)).await?,
        }
        Ok(())
    }

    /// Creates the objects that a restored backup lacks.
    pub(crate) async fn complete(&self) -> Outcome {
        for number in 0..NAMESPACES {
            let have = self.names(&namespace(number)).await?;
            for missing in (0..self.objects).filter(|other| other % NAMESPACES == number) {
                if have.binary_search(&name(missing)).is_err() {
                    self.create(missing).await?;
                }
            }
        }
        Ok(())
    }

    async fn names(&self, namespace: &str) -> Outcome<Vec<String>> {
        let list = self.api(namespace).list_metadata(&ListParams::default()).await?;
        let mut names: Vec<_> = list.items.into_iter().filter_map(|object| object.metadata.name).collect();
        names.sort_unstable();
        Ok(names)
    }

    async fn create(&self, number: u64) -> Outcome {
        let object = object(number);
        let api = self.api(&namespace(number));
        settled(|| async { api.create(&PostParams::default(), &object).await.map(drop) }).await
    }

    async fn delete(&self, number: u64) -> Outcome {
        let (api, name) = (self.api(&namespace(number)), name(number));
        settled(|| async { api.delete(&name, &DeleteParams::default()).await.map(drop) }).await
    }

    async fn update(&self, number: u64, value: u64) -> Outcome {
        let (api, name) = (self.api(&namespace(number)), name(number));
        let patch = json!({
            "metadata": {"annotations": {WRITTEN_AT: now_micros().to_string()}, "labels": {"team": format!("t{}", value % 7)}},
            "data": {"value": format!("{value} {}", "x".repeat(value as usize))},
        });
        let patch = Patch::Merge(patch);
        settled(|| async { api.patch(&name, &PatchParams::default(), &patch).await.map(drop) }).await
    }

    /// Adds or removes the label that an informer selects namespaces by.
    async fn label(&self, number: u64, on: bool) -> Outcome {
        let api = Api::<Namespace>::all(self.client.clone());
        let patch = Patch::Merge(json!({"metadata": {"labels": {TIER.0: on.then_some(TIER.1)}}}));
        settled(|| async { api.patch(&namespace(number), &PatchParams::default(), &patch).await.map(drop) })
            .await
    }

    fn api(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

/// Retries a request until the server responds. An object that already exists, or is already gone, counts as success.
async fn settled<R: Future<Output = Result<(), Error>>>(request: impl Fn() -> R) -> Outcome {
    const TRIES: usize = 100;
    let mut last = None;
    for _ in 0..TRIES {
        match request().await {
            Ok(()) => return Ok(()),
            Err(Error::Api(status)) if matches!(status.code, 404 | 409) => return Ok(()),
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Err(format!("the server does not accept writes: {last:?}").into())
}

fn name(number: u64) -> String {
    format!("c-{number:06}")
}

fn object(number: u64) -> ConfigMap {
    let labels = [("team", format!("t{}", number % 7)), ("app", "soak".to_owned())];
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name(number)),
            namespace: Some(namespace(number)),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
            annotations: Some(BTreeMap::from([(WRITTEN_AT.to_owned(), now_micros().to_string())])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("value".to_owned(), "x".repeat(number as usize % 1_000))])),
        ..ConfigMap::default()
    }
}

/// Calls a function with the key, uid and resourceVersion of each object on the server. It reads pages, so that this
/// process never holds all objects.
pub(crate) async fn each_object(
    client: &Client,
    namespace: Option<&str>,
    mut each: impl FnMut(Key, &str, &str),
) -> Outcome {
    let api = match namespace {
        Some(namespace) => Api::<ConfigMap>::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let mut parameters = ListParams::default().limit(500).labels("app=soak");
    loop {
        let page = api.list_metadata(&parameters).await?;
        for object in &page.items {
            let metadata = &object.metadata;
            let text = |part: &Option<String>| part.clone().unwrap_or_default();
            each(
                Key::new(&text(&metadata.namespace), &text(&metadata.name)),
                metadata.uid.as_deref().unwrap_or_default(),
                metadata.resource_version.as_deref().unwrap_or_default(),
            );
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(()),
        }
    }
}
