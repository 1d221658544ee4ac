//! Which objects are selected and what is kept of them: transforms, selectors per namespace, encodings, types.

use crate::support;

use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::Server;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_client::client::Body;
use kube_client::{Api, Client};
use kube_core::metadata::PartialObjectMeta;
use kube_core::{ApiResource, DynamicObject, ObjectMeta};
use kube_informer::building_blocks::{BackoffConfig, ListWatch, ListerWatcher, ReflectorConfig, Resource};
use kube_informer::testing::ScriptedSource;
use kube_informer::{
    AssignedShard, EncodingPreference, Event, Index, Informer, InformerBuilder, InformerFactory, Key,
    Selectors, Shard, StartError, WaitError,
};
use parking_lot::Mutex;
use serde_json::json;
use support::informers::*;
use support::status;

// --- transform ---

fn without_spec(pod: &mut Pod) {
    pod.spec = None;
    pod.metadata.annotations.get_or_insert_default().insert("slim".to_owned(), "yes".to_owned());
}

#[tokio::test(start_paused = true)]
async fn a_transform_changes_each_object_once_before_anything_else_sees_it() {
    let source = ScriptedSource::new("v1", "Pod");
    source.put(on_node("a", "node-7"));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let received = calls.clone();
    let slim = Index::field("slim", "metadata.annotations['slim']");
    let pods = informer(&source)
        .index(&slim)
        .transform(move |pod: &mut Pod| {
            let version = pod.metadata.resource_version.clone().unwrap();
            received.lock().push(version);
            without_spec(pod);
        })
        .start()
        .unwrap();
    pods.synced().await.unwrap();
    source.put(on_node("b", "node-8"));
    let key = Key::new("web", "b");
    pods.wait_until(&key, |pod| pod.is_some()).await.unwrap();

    let lister = pods.lister();
    assert_eq!(lister.by_index(&slim, "yes").unwrap().len(), 2);
    let pod = lister.get(&key).unwrap().decode().unwrap();
    assert_eq!(pod.spec, None);
    assert_eq!(pod.metadata.name.as_deref(), Some("b"));

    // An unchanged relist transforms the listed objects to compare them, and finds no change.
    let mut events = pods.subscribe();
    while !matches!(events.next().await, Some(Event::Synced)) {}
    source.compact();
    source.close_watches();
    source.put(on_node("c", "node-9"));
    expect_events(&mut events, &["added web/c@103 (Live)"]).await;

    source.delete("web/a");
    let deleted = events.next().await.unwrap();
    let Event::Deleted { last, .. } = &deleted else { panic!("{deleted:?}") };
    assert_eq!(last.decode().unwrap().spec, None);
    assert_eq!(calls.lock().iter().filter(|version| *version == "102").count(), 1, "{:?}", calls.lock());
}

#[tokio::test(start_paused = true)]
async fn only_the_object_that_a_transform_rejects_is_skipped() {
    let source = ScriptedSource::new("v1", "Pod");
    for name in ["a", "bad", "c", "other"] {
        source.put(on_node(name, "node-7"));
    }
    let errors = Arc::new(Mutex::new(Vec::new()));
    let received = errors.clone();
    let pods = informer(&source)
        .on_error(move |report| received.lock().push(report.to_string()))
        .try_transform(|pod: &mut Pod| match pod.metadata.name.as_deref() {
            Some("bad") => Err("it is bad"),
            Some("other") => {
                pod.metadata.name = Some("renamed".to_owned());
                Ok(())
            }
            _ => Ok(()),
        })
        .start()
        .unwrap();
    pods.synced().await.unwrap();
    let names = |informer: &Informer<Pod>| {
        let mut names = informer.lister().list().iter().map(|pod| pod.name().to_owned()).collect::<Vec<_>>();
        names.sort();
        names
    };
    assert_eq!(names(&pods), ["a", "c"]);

    source.put(on_node("bad", "node-8"));
    source.put(on_node("d", "node-8"));
    pods.wait_until(&Key::new("web", "d"), |pod| pod.is_some()).await.unwrap();
    assert_eq!(names(&pods), ["a", "c", "d"]);
    let resource = ListerWatcher::describe(&source);
    assert_eq!(
        *errors.lock(),
        [
            format!("{resource}: cannot store object `web/bad`: it is bad; skipped"),
            format!(
                "{resource}: cannot store object `web/other`: the transform changed type, name, uid or \
                 resourceVersion, which must stay the same; skipped"
            ),
            format!("{resource}: cannot store object `web/bad`: it is bad; skipped"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_cached_state_stays_when_a_transform_panics_at_the_new_state() {
    let source = ScriptedSource::new("v1", "Pod");
    ["a", "b"].iter().for_each(|name| drop(source.put(on_node(name, "node-7"))));
    let pods = informer(&source)
        .transform(|pod: &mut Pod| {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            assert!(node != Some("node-8") || pod.metadata.name.as_deref() != Some("a"), "not here");
        })
        .start()
        .unwrap();
    let mut events = pods.subscribe();
    expect_events(&mut events, &["added web/a@101 (Initial)", "added web/b@102 (Initial)", "synced"]).await;
    source.put(on_node("a", "node-8"));
    source.put(on_node("b", "node-8"));
    expect_events(&mut events, &["updated web/b@104 from 102 (Live)"]).await;
    // The transform fails again in the relist. The object exists, so it must not be reported as deleted.
    source.compact();
    source.send_error(status(410, "Expired"));
    tokio::time::sleep(Duration::from_secs(10)).await;
    source.put(on_node("c", "node-8"));
    expect_events(&mut events, &["added web/c@105 (Live)"]).await;
    assert_eq!(pods.lister().get(&Key::new("web", "a")).unwrap().resource_version(), "101");
    // A real deletion is reported.
    source.delete("web/a");
    expect_events(&mut events, &["deleted web/a@106 (Live)"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_reported_even_if_the_transform_rejects_the_final_state() {
    let source = ScriptedSource::new("v1", "Pod");
    source.put(on_node("a", "node-7"));
    let refuses = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let now = refuses.clone();
    let pods =
        informer(&source)
            .try_transform(move |_: &mut Pod| {
                if now.load(std::sync::atomic::Ordering::Relaxed) { Err("no more") } else { Ok(()) }
            })
            .start()
            .unwrap();
    pods.synced().await.unwrap();
    let uid = pods.lister().list()[0].uid().to_owned();
    refuses.store(true, std::sync::atomic::Ordering::Relaxed);
    source.delete("web/a");
    pods.wait_gone(&Key::new("web", "a"), &uid).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_transform_of_whole_objects_and_metadata_only_contradict_each_other() {
    let (_server, client) = start().await;
    let started = Informer::<Pod>::builder(client.clone()).transform(without_spec).metadata_only().start();
    assert!(matches!(started, Err(StartError::Contradiction(why)) if why.contains("metadata_only")));
    drop(Informer::<Pod>::builder(client).metadata_only().transform(|_| ()).start().unwrap());
}

// --- on the embedded server ---

async fn start() -> (Server, Client) {
    let server = Server::builder().without_socket().seed(1).start().await.unwrap();
    let client = server.client().unwrap();
    (server, client)
}

fn seeded() -> ReflectorConfig {
    let mut config = ReflectorConfig::default();
    config.seed = Some(1);
    config
}

async fn create<K>(client: &Client, namespace: &str, object: serde_json::Value) -> K
where
    K: kube_core::Resource<DynamicType = (), Scope = kube_core::NamespaceResourceScope>
        + serde::Serialize
        + serde::de::DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_namespace_can_have_its_own_selectors() {
    let (_server, client) = start().await;
    let map = |name: &str, tier: &str| json!({"metadata": {"name": name, "labels": {"tier": tier}}});
    for namespace in ["default", "kube-system", "kube-public"] {
        create::<ConfigMap>(&client, namespace, map("back", "backend")).await;
        create::<ConfigMap>(&client, namespace, map("front", "frontend")).await;
    }
    let maps = Informer::<ConfigMap>::builder(client.clone())
        .reflector(seeded())
        .memory(support::memory())
        .namespaces(["default", "kube-system"])
        .labels("tier=backend")
        .namespace_with("kube-system", Selectors::default().labels("tier=frontend"))
        .namespace_with("kube-public", Selectors::default().fields("metadata.name=front"))
        .start()
        .unwrap();
    maps.synced().await.unwrap();
    let mut keys = maps.lister().list().iter().map(|map| map.key().to_string()).collect::<Vec<_>>();
    keys.sort();
    assert_eq!(keys, ["default/back", "kube-public/front", "kube-system/front"]);

    // Waiting knows which selector applies where.
    for (namespace, name, tier, excluded_by) in [
        ("default", "x", "backend", None),
        ("kube-system", "x", "frontend", None),
        ("kube-system", "y", "backend", Some("the label selector `tier=frontend` excludes it")),
        ("kube-public", "x", "backend", Some("the field selector `metadata.name=front` excludes it")),
        ("kube-node-lease", "x", "backend", Some("namespace `kube-node-lease` is not watched")),
    ] {
        let written = create::<ConfigMap>(&client, namespace, map(name, tier)).await;
        match (maps.wait_for(&written).await, excluded_by) {
            (Ok(found), None) => assert_eq!(found.unwrap().name(), name),
            (Err(WaitError::Never { why, .. }), Some(excluded_by)) => assert_eq!(why, excluded_by),
            (result, _) => panic!("{namespace}/{name}: {result:?}"),
        }
    }
    let wrong = Informer::<ConfigMap>::builder(client)
        .namespace_with("default", Selectors::default().labels("tier in backend"))
        .start();
    assert!(matches!(wrong, Err(StartError::Selector(_))));
}

#[tokio::test(start_paused = true)]
async fn metadata_only_fetches_no_secret_data() {
    let (_server, client) = start().await;
    let secret = json!({"metadata": {"name": "a", "labels": {"tier": "backend"}}, "stringData": {"password": "swordfish"}});
    create::<Secret>(&client, "default", secret).await;
    let secrets = Informer::<Secret>::builder(client.clone())
        .metadata_only()
        .reflector(seeded())
        .memory(support::memory())
        .start()
        .unwrap();
    secrets.synced().await.unwrap();
    let found = secrets.lister().labels("tier=backend").unwrap().list();
    let meta: Arc<PartialObjectMeta<Secret>> = found[0].decode().unwrap();
    assert_eq!(meta.metadata.name.as_deref(), Some("a"));
    let text = format!("{:?}", found[0].raw().bytes());
    assert!(!text.contains("password"), "{text}");

    // The type can request it, too.
    let secrets = Informer::<PartialObjectMeta<Secret>>::builder(client)
        .reflector(seeded())
        .memory(support::memory())
        .start()
        .unwrap();
    secrets.synced().await.unwrap();
    assert_eq!(secrets.lister().count(), 1);
}

#[derive(
    kube_derive::CustomResource,
    Clone,
    Debug,
    PartialEq,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[kube(group = "example.com", version = "v1", kind = "Widget", namespaced, status = "WidgetStatus")]
#[kube(crates(kube_core = "::kube_core"))]
struct WidgetSpec {
    size: i64,
    #[serde(default)]
    colour: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct WidgetStatus {
    ready: bool,
}

#[tokio::test(start_paused = true)]
async fn fields_of_a_custom_resource_are_checked_against_its_definition() {
    use kube_core::CustomResourceExt;
    let (_server, client) = start().await;
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    crds.create(&PostParams::default(), &Widget::crd()).await.unwrap();
    create::<Widget>(&client, "default", json!({"metadata": {"name": "a"}, "spec": {"size": 7}})).await;
    let ask = || Informer::<Widget>::builder(client.clone()).memory(support::memory());
    let by_sise = Index::field("size", "spec.sise");
    type Mistake = fn(InformerBuilder<Widget>) -> InformerBuilder<Widget>;
    let no_member = "`spec` has no member `sise` (Widget of example.com/v1)";
    let mistakes: [(Mistake, &str); 4] = [
        (|widgets| widgets.index(&Index::field("size", "spec.sise")), "invalid index `size`: "),
        (|widgets| widgets.drop_fields(["spec.sise"]), "invalid field to drop or keep: "),
        (|widgets| widgets.keep_fields(["spec.sise"]), "invalid field to drop or keep: "),
        (|widgets| widgets.shard(sharded_by_sise()), "invalid shard: "),
    ];
    fn sharded_by_sise() -> AssignedShard {
        AssignedShard::new(Shard::new([0], 2).unwrap()).by_field("spec.sise").unwrap()
    }
    for (mistake, subject) in mistakes {
        let error = mistake(ask().definition(&Widget::crd())).start().unwrap_err().to_string();
        assert_eq!(error, format!("{subject}invalid field path `spec.sise`: {no_member}"));
        assert!(mistake(ask()).start().is_ok(), "it is not known without the definition");
    }

    let widgets = ask().definition(&Widget::crd()).drop_fields(["spec.colour"]).start().unwrap();
    let error = widgets.add_index(&by_sise).unwrap_err().to_string();
    assert!(error.contains(no_member), "{error}");
    let error = widgets.lister().field("spec.sise", "7").unwrap_err().to_string();
    assert!(error.contains(no_member), "{error}");
    widgets.lister().field("spec.size", "7").unwrap();
    widgets.ensure_index(&Index::field("ready", "status.ready")).unwrap();

    // A later request brings the definition to a shared informer.
    let factory = InformerFactory::new(client.clone());
    let first = factory.informer::<Widget>().start().unwrap();
    first.synced().await.unwrap();
    let widget = first.lister().list().remove(0);
    first.lister().field("spec.sise", "7").unwrap();
    assert_eq!(widget.field("spec.sise").unwrap(), None);
    let error = factory.informer::<Widget>().definition(&Widget::crd()).index(&by_sise).start().unwrap_err();
    assert!(error.to_string().contains(no_member), "{error}");
    let _same = factory.informer::<Widget>().definition(&Widget::crd()).start().unwrap();
    first.lister().field("spec.sise", "7").unwrap_err();
    let error = widget.field("spec.sise").unwrap_err().to_string();
    assert!(error.contains(no_member), "{error}");
    assert_eq!(widget.field("spec.size").unwrap(), Some(json!(7)));
}

#[tokio::test(start_paused = true)]
async fn a_definition_of_another_resource_is_an_error() {
    use kube_core::CustomResourceExt;
    let (_server, client) = start().await;
    let error = Informer::<Pod>::builder(client.clone()).definition(&Widget::crd()).start().unwrap_err();
    assert_eq!(error.to_string(), "invalid `definition`: it is of another kind");
    let mut newer = ApiResource::erase::<Widget>(&());
    newer.version = "v2".to_owned();
    let error = Informer::dynamic(client, &newer).definition(&Widget::crd()).start().unwrap_err();
    assert_eq!(error.to_string(), "invalid `definition`: it lacks the watched version");
}

#[tokio::test(start_paused = true)]
async fn a_derived_custom_resource_works_like_a_built_in_kind() {
    use kube_core::CustomResourceExt;
    let (_server, client) = start().await;
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    crds.create(&PostParams::default(), &Widget::crd()).await.unwrap();
    let by_size = Index::field("size", "spec.size");
    let widgets = Informer::<Widget>::builder(client.clone())
        .namespaces(["default"])
        .index(&by_size)
        .index_by("colour", |widget: &Widget| widget.spec.colour.clone())
        .reflector(seeded())
        .memory(support::memory())
        .start()
        .unwrap();
    widgets.synced().await.unwrap();
    let widget = Widget::new("a", WidgetSpec { size: 7, colour: Some("red".to_owned()) });
    let api: Api<Widget> = Api::namespaced(client.clone(), "default");
    let written = api.create(&PostParams::default(), &widget).await.unwrap();
    let found = widgets.wait_for(&written).await.unwrap().unwrap();
    assert_eq!(found.decode().unwrap().spec, written.spec);
    assert_eq!(widgets.lister().by_index(&by_size, "7").unwrap().len(), 1);
    assert_eq!(widgets.lister().by_index("colour", "red").unwrap().len(), 1);

    // The same with a dynamic resource, and only its metadata.
    let dynamic = Informer::dynamic(client.clone(), &ApiResource::erase::<Widget>(&()))
        .reflector(seeded())
        .memory(support::memory());
    let dynamic = dynamic.start().unwrap();
    dynamic.synced().await.unwrap();
    let value = dynamic.lister().get(&Key::new("default", "a")).unwrap().decode().unwrap();
    assert_eq!(value.data["spec"]["size"], 7);
    let metadata = Informer::<Widget>::builder(client)
        .metadata_only()
        .reflector(seeded())
        .memory(support::memory())
        .start()
        .unwrap();
    metadata.synced().await.unwrap();
    assert_eq!(metadata.lister().list()[0].uid(), found.uid());
}

// --- a server newer than the schema table ---

/// A bytes field of a message.
fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    let mut varint = |mut value: usize| {
        while value >= 0x80 {
            message.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        message.push(value as u8);
    };
    varint((number << 3 | 2) as usize);
    varint(bytes.len());
    message.extend_from_slice(bytes);
    message
}

/// Lists one pod with the unknown field 99, in the requested encoding; watches stay silent.
fn newer_server(version: &'static str) -> (Client, Arc<Mutex<Vec<String>>>) {
    let accepts = Arc::new(Mutex::new(Vec::new()));
    let received = accepts.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let received = received.clone();
        async move {
            let accept = request.headers().get("accept").map(|value| value.to_str().unwrap().to_owned());
            let accept = accept.unwrap_or_default();
            let answer = |content_type: &str, body: Vec<u8>| {
                let answer = http::Response::builder().header("content-type", content_type);
                Ok::<_, std::io::Error>(answer.body(Body::from(body)).unwrap())
            };
            if request.uri().path() == "/version" {
                received.lock().push("version".to_owned());
                let info = json!({"major": "1", "minor": "99", "gitVersion": version, "gitCommit": "",
                    "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
                return answer("application/json", info.to_string().into_bytes());
            }
            if request.uri().query().unwrap_or_default().contains("watch=") {
                return futures::future::pending().await;
            }
            received.lock().push(accept.split([',', ';']).next().unwrap().to_owned());
            if !accept.starts_with("application/vnd.kubernetes.protobuf") {
                let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
                    "items": [{"metadata": {"name": "a", "uid": "u", "resourceVersion": "5"}, "future": "bright"}]});
                return answer("application/json", list.to_string().into_bytes());
            }
            let meta = [field(1, b"a"), field(5, b"u"), field(6, b"5")].concat();
            let pod = [field(1, &meta), field(99, b"bright")].concat();
            let list = [field(1, &field(2, b"7")), field(2, &pod)].concat();
            let types = [field(1, b"v1"), field(2, b"PodList")].concat();
            let body = [b"k8s\0".to_vec(), field(1, &types), field(2, &list)].concat();
            answer("application/vnd.kubernetes.protobuf", body)
        }
    });
    (Client::new(service, "default"), accepts)
}

fn listing() -> ReflectorConfig {
    let mut config = seeded();
    config.watch_list = kube_informer::WatchList::Off;
    config
}

fn pods() -> ApiResource {
    ApiResource::erase::<Pod>(&())
}

#[tokio::test(start_paused = true)]
async fn promise_13_a_dynamic_informer_requests_json_from_a_newer_server() {
    let (client, accepts) = newer_server("v1.99.0");
    let pods =
        Informer::dynamic(client, &pods()).reflector(listing()).memory(support::memory()).start().unwrap();
    pods.synced().await.unwrap();
    let value = pods.lister().list()[0].decode().unwrap();
    assert_eq!(value.data["future"], "bright");
    assert_eq!(*accepts.lock(), ["version", "application/json"]);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_field_switches_a_dynamic_informer_to_json() {
    // It claims not to be newer, but is.
    let (client, accepts) = newer_server("v1.30.0");
    let pods =
        Informer::dynamic(client, &pods()).reflector(listing()).memory(support::memory()).start().unwrap();
    pods.synced().await.unwrap();
    let mut events = pods.subscribe();
    while !matches!(events.next().await, Some(Event::Synced)) {}

    let object = pods.lister().list().remove(0);
    let error = object.decode().unwrap_err();
    assert!(error.to_string().contains("field 99"), "{error}");
    let is_whole = |pod: Option<&DynamicObject>| pod.is_some_and(|pod| pod.data["future"] == "bright");
    // Only the first version of the object fails; after the relist it is complete.
    settle().await;
    let value = pods.wait_until(&Key::new("", "a"), is_whole).await.unwrap().unwrap();
    assert_eq!(value.uid(), "u");
    let protobuf = "application/vnd.kubernetes.protobuf";
    assert_eq!(*accepts.lock(), ["version", protobuf, "application/json"]);
    settle().await;
    assert!(futures::FutureExt::now_or_never(events.next()).is_none(), "nothing has changed");
}

/// A pod of a later version: it has a field that the schema table does not know.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct FuturePod {
    metadata: ObjectMeta,
    future: Option<String>,
}

impl kube_core::Resource for FuturePod {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        "Pod".into()
    }

    fn group((): &()) -> std::borrow::Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> std::borrow::Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        "pods".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[tokio::test(start_paused = true)]
async fn promise_13_a_typed_informer_requests_json_from_a_newer_server() {
    let (client, accepts) = newer_server("v1.99.0");
    let pods = Informer::<FuturePod>::builder(client)
        .reflector(listing())
        .memory(support::memory())
        .start()
        .unwrap();
    pods.synced().await.unwrap();
    assert_eq!(pods.lister().list()[0].decode().unwrap().future.as_deref(), Some("bright"));
    assert_eq!(*accepts.lock(), ["version", "application/json"]);
}

#[tokio::test(start_paused = true)]
async fn promise_13_no_typed_informer_loses_an_unknown_field() {
    let list_watch = |client: Client| -> Arc<dyn ListerWatcher> {
        Arc::new(ListWatch::new(client, Resource::new("", "v1", "pods", "Pod")))
    };
    let protobuf =
        |client: Client| Informer::<FuturePod>::builder(client).encoding(EncodingPreference::Protobuf);
    for (version, build) in [
        // It claims not to be newer, but is.
        ("v1.30.0", (&|client| Informer::<FuturePod>::builder(client)) as &dyn Fn(Client) -> _),
        ("v1.30.0", &|client| InformerFactory::new(client).informer::<FuturePod>()),
        ("v1.30.0", &|client| Informer::<FuturePod>::from_source(list_watch(client))),
        ("v1.30.0", &|client| Informer::<FuturePod>::from_sources([("", list_watch(client))])),
        // It is known to be newer, and protobuf is requested anyway.
        ("v1.99.0", &protobuf),
    ] {
        let (client, accepts) = newer_server(version);
        let pods = build(client).reflector(listing()).memory(support::memory()).start().unwrap();
        pods.synced().await.unwrap();
        let error = pods.lister().list().remove(0).decode().unwrap_err();
        assert!(error.to_string().contains("field 99"), "{error}");
        settle().await;
        let is_whole = |pod: Option<&FuturePod>| pod.and_then(|pod| pod.future.as_deref()) == Some("bright");
        pods.wait_until(&Key::new("", "a"), is_whole).await.unwrap();
        assert_eq!(accepts.lock().last().unwrap(), "application/json");
    }
}

#[tokio::test(start_paused = true)]
async fn promise_13_transforms_and_value_indexes_lose_no_unknown_field() {
    let (client, _) = newer_server("v1.30.0");
    let pods = Informer::<FuturePod>::builder(client)
        .transform(|pod: &mut FuturePod| pod.metadata.labels = None)
        .reflector(listing())
        .memory(support::memory())
        .start()
        .unwrap();
    let is_whole = |pod: Option<&FuturePod>| pod.and_then(|pod| pod.future.as_deref()) == Some("bright");
    pods.wait_until(&Key::new("", "a"), is_whole).await.unwrap();

    let (client, _) = newer_server("v1.30.0");
    let pods = Informer::<FuturePod>::builder(client)
        .index_by("future", |pod: &FuturePod| pod.future.clone())
        .reflector(listing())
        .memory(support::memory())
        .start()
        .unwrap();
    pods.synced().await.unwrap();
    settle().await;
    assert_eq!(pods.lister().by_index("future", "bright").unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_field_that_the_type_lacks_is_dropped_in_either_encoding() {
    let (client, _) = newer_server("v1.99.0");
    let pods =
        Informer::<Pod>::builder(client).reflector(listing()).memory(support::memory()).start().unwrap();
    pods.synced().await.unwrap();
    assert_eq!(pods.lister().list()[0].decode().unwrap().metadata.name.as_deref(), Some("a"));
}

// --- limits ---

#[tokio::test]
async fn only_the_object_over_the_limit_is_skipped() {
    let (_server, client) = start().await;
    for (name, bytes) in [("small", 10), ("large", 20_000)] {
        let map = json!({"metadata": {"name": name}, "data": {"text": "x".repeat(bytes)}});
        create::<ConfigMap>(&client, "default", map).await;
    }
    let errors = Arc::new(Mutex::new(Vec::new()));
    let received = errors.clone();
    let limited = Informer::<ConfigMap>::builder(client.clone())
        .object_bytes_max(10_000)
        .on_error(move |report| received.lock().push(report.to_string()));
    let all = Informer::<ConfigMap>::builder(client);
    for (builder, names) in [(limited, &["small"][..]), (all, &["large", "small"])] {
        let maps = builder.namespaces(["default"]).start().unwrap();
        maps.synced().await.unwrap();
        let mut shown = maps.lister().list().iter().map(|map| map.name().to_owned()).collect::<Vec<_>>();
        shown.sort();
        assert_eq!(shown, names);
    }
    let errors = errors.lock();
    let [skipped] = &errors[..] else { panic!("{errors:?}") };
    assert!(skipped.contains("default/large") && skipped.ends_with("skipped"), "{skipped}");
    drop(errors);
    let given =
        Informer::<Pod>::from_source(Arc::new(ScriptedSource::new("v1", "Pod"))).object_bytes_max(1).start();
    assert!(matches!(given, Err(StartError::Contradiction(_))));
}

#[tokio::test]
async fn the_cached_state_stays_when_an_object_grows_over_the_limit_until_it_is_deleted() {
    for encoding in [EncodingPreference::Json, EncodingPreference::default()] {
        let (_server, client) = start().await;
        create::<ConfigMap>(&client, "default", json!({"metadata": {"name": "grows"}})).await;
        let mut reflector = seeded();
        let (first, longest) = (Duration::from_millis(1), Duration::from_millis(10));
        reflector.backoff = BackoffConfig { first, longest, ..Default::default() };
        let errors = Arc::new(Mutex::new(Vec::new()));
        let reported = errors.clone();
        let maps = Informer::<ConfigMap>::builder(client.clone())
            .namespaces(["default"])
            .reflector(reflector)
            .encoding(encoding)
            .object_bytes_max(10_000)
            .on_error(move |report| reported.lock().push(report.to_string()))
            .memory(support::memory())
            .start()
            .unwrap();
        let mut events = maps.subscribe();
        let mut received = async || match events.next().await.unwrap() {
            Event::Synced => "synced".to_owned(),
            Event::Added { object, .. } => format!("added {}", object.name()),
            Event::Updated { new, .. } => format!("updated {}", new.name()),
            Event::Deleted { last, final_state_known, origin } => {
                format!("deleted {}, known: {final_state_known}, {origin:?}", last.name())
            }
        };
        assert_eq!([received().await, received().await], ["added grows", "synced"]);
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        let patch = async |bytes: usize| {
            let data = json!({"data": {"text": "x".repeat(bytes)}});
            api.patch("grows", &PatchParams::default(), &Patch::Merge(data)).await.unwrap();
        };
        for bytes in 20_000..20_005 {
            patch(bytes).await;
        }
        create::<ConfigMap>(&client, "default", json!({"metadata": {"name": "other"}})).await;
        assert_eq!(received().await, "added other", "and no deletion of the oversized one");
        assert!(maps.lister().get(&Key::new("default", "grows")).is_some());
        patch(10).await;
        assert_eq!(received().await, "updated grows", "it is readable again");
        patch(20_000).await;
        api.delete("grows", &DeleteParams::default()).await.unwrap();
        assert_eq!(received().await, "deleted grows, known: false, Live");
        assert!(maps.lister().get(&Key::new("default", "grows")).is_none());
        // Other objects do not pay for it.
        let status = maps.status()[0].reflector().clone();
        assert_eq!((status.complete_lists, status.watches, status.broken_watches), (1, 0, 0), "{errors:?}");
        assert_eq!(errors.lock().len(), 6, "{errors:?}");
        for error in errors.lock().iter() {
            assert!(error.contains("default/grows") && error.ends_with("skipped"), "{error}");
        }
    }
}

// --- the order of settings ---

#[tokio::test(start_paused = true)]
async fn settings_override_those_of_the_reflector_in_any_order() {
    let config = || {
        let mut config = ReflectorConfig::default();
        (config.seed, config.page_size) = (Some(1), Some(2));
        config.watch_list = kube_informer::WatchList::Off;
        config
    };
    for reflector_first in [true, false] {
        let source = ScriptedSource::new("v1", "Pod");
        (0..5).for_each(|number| drop(source.put(on_node(&format!("pod-{number}"), "node-7"))));
        source.fail_next_list(status(500, "InternalError"));
        let errors = Arc::new(Mutex::new(0));
        let counted = errors.clone();
        let builder = Informer::<Pod>::from_source(Arc::new(source.clone()));
        let builder = if reflector_first { builder.reflector(config()) } else { builder };
        let builder = builder.on_error(move |_| *counted.lock() += 1);
        let builder = if reflector_first { builder } else { builder.reflector(config()) };
        source.paginate_at_zero(true);
        let pods = builder.start().unwrap();
        pods.synced().await.unwrap();
        let requests = source.requests();
        let lists =
            requests.iter().filter(|request| format!("{request:?}").contains("limit: Some(2)")).count();
        assert!(lists >= 3, "{reflector_first}: {requests:?}");
        assert_eq!(*errors.lock(), 1, "{reflector_first}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_index_over_whole_objects_contradicts_metadata_only_when_it_comes_first() {
    let server = Server::builder().without_socket().seed(1).start().await.unwrap();
    let client = server.client().unwrap();
    let builder = Informer::<Pod>::builder(client.clone());
    let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let error = builder.index_by("node", node).metadata_only().start().unwrap_err();
    assert!(matches!(error, StartError::Contradiction(_)), "{error}");
    assert!(error.to_string().contains("index_by"), "{error}");
    let name = |pod: &PartialObjectMeta<Pod>| pod.metadata.name.clone();
    drop(Informer::<Pod>::builder(client).metadata_only().index_by("name", name).start().unwrap());
}
