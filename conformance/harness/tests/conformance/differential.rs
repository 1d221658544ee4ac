//! Compares three clients on one real kube-apiserver behind the same faulty network: client-go's informer, kube-rs'
//! reflector and our informer. At the end each store equals the server's state. The states that each client saw of an
//! object are states that the object had, in the same order.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client, Config};
use kube_core::ResourceExt;
use kube_informer::{Cluster, Event, Informer};
use kube_informer_conformance::{Proxy, raw};
use kube_runtime::{WatchStreamExt, reflector, watcher};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::common;
use crate::common::MAPS;
use crate::common::informers::{converges, listed, quick};
use crate::common::writes::{churn, create, write};

/// uid and resourceVersion by name.
type Held = BTreeMap<String, (String, String)>;
/// The resource versions of each object, by uid, in the order in which a client saw them.
type Seen = HashMap<String, Vec<u64>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_clients_behind_a_faulty_network_converge_and_see_only_real_states() {
    const OBJECTS: usize = 300;
    let (server, client) = common::server().await;
    let proxy = Proxy::start(server.address()).await.unwrap();
    let config = proxy.before(server.config().await.unwrap());
    let truth = Truth::record(client.clone()).await;
    write(&client, create(OBJECTS)).await;

    let ours = Ours::start(config.clone());
    let theirs = KubeRs::start(config);
    let kubeconfig = std::fs::read_to_string(server.kubeconfig()).unwrap();
    let behind = server.directory().join("kubeconfig-behind-proxy");
    let moved = kubeconfig.replace(&server.address().to_string(), &proxy.address().to_string());
    std::fs::write(&behind, moved).unwrap();
    let mut client_go = ClientGo::start(&behind).await;

    let mut present: Vec<usize> = (0..OBJECTS).collect();
    for round in 0..6 {
        proxy.cut_after((round % 2 == 0).then_some(20_000));
        proxy.cut();
        write(&client, churn(round, &mut present, OBJECTS)).await;
    }
    proxy.cut_after(None);
    proxy.cut();

    let expected: Held = listed(&client, MAPS).await.values().map(held).collect();
    assert_eq!(expected.len(), present.len());
    converges(&ours.informer, &client, MAPS).await;
    while theirs.held() != expected {
        tokio::task::yield_now().await;
    }
    while client_go.held().await != expected {}
    let truth = truth.until(&expected).await;
    is_part_of("ours", &ours.seen.lock().unwrap(), &truth);
    is_part_of("kube-rs", &theirs.seen.lock().unwrap(), &truth);
    is_part_of("client-go", &client_go.seen, &truth);
}

/// Checks that the states a client saw are a subsequence of the states that each object had.
fn is_part_of(client: &str, seen: &Seen, truth: &Seen) {
    assert!(!seen.is_empty(), "{client} saw nothing");
    for (uid, versions) in seen {
        let mut real = truth.get(uid).unwrap_or_else(|| panic!("{client}: {uid} never existed")).iter();
        assert!(
            versions.iter().all(|version| real.any(|real| real == version)),
            "{client}: {versions:?} of {:?}",
            truth[uid]
        );
    }
}

/// Records a state that a peer saw. A relist notifies the peers' handlers of unchanged objects too; ours must not.
fn peer_saw(seen: &mut Seen, uid: String, version: u64) {
    let versions = seen.entry(uid).or_default();
    if versions.last() != Some(&version) {
        versions.push(version);
    }
}

fn held(object: &Value) -> (String, (String, String)) {
    let text = |name: &str| object["metadata"][name].as_str().unwrap().to_owned();
    (text("name"), (text("uid"), text("resourceVersion")))
}

/// The true history, from a watch that does not go through the faulty network. It is read continuously, because a
/// server ends the watch of a slow client. If the watch ends anyway, it resumes.
struct Truth {
    events: mpsc::UnboundedReceiver<Value>,
    _task: JoinSet<()>,
}

impl Truth {
    async fn record(client: Client) -> Self {
        let mut version = common::version_of(&common::get(&client, MAPS).await.json());
        let (sender, events) = mpsc::unbounded_channel();
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                let path = format!("{MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=3600");
                let mut watch = raw::watch(&client, &path, raw::JSON).await.unwrap();
                while let Ok(Some(event)) = watch.line().await {
                    version = common::version_of(&event["object"]);
                    if sender.send(event).is_err() {
                        return;
                    }
                }
            }
        });
        Self { events, _task: task }
    }

    /// The history up to a state.
    async fn until(mut self, state: &Held) -> Seen {
        let (mut seen, mut now) = (Seen::new(), Held::new());
        while now != *state {
            let event = self.events.recv().await.unwrap();
            let (name, (uid, version)) = held(&event["object"]);
            if event["type"] == "DELETED" {
                now.remove(&name);
            } else {
                seen.entry(uid.clone()).or_default().push(version.parse().unwrap());
                now.insert(name, (uid, version));
            }
        }
        seen
    }
}

struct Ours {
    informer: Informer<ConfigMap>,
    seen: Arc<Mutex<Seen>>,
}

impl Ours {
    fn start(config: Config) -> Self {
        let cluster = Cluster::from_config(config).unwrap();
        let informer = Informer::<ConfigMap>::builder(&cluster).namespaces(["default"]).reflector(quick());
        let informer = informer.start().unwrap();
        let seen = Arc::<Mutex<Seen>>::default();
        let recorded = seen.clone();
        let handler = move |event: Event<ConfigMap>| {
            if let Event::Added { object, .. } | Event::Updated { new: object, .. } = &event {
                let version = object.resource_version().parse().unwrap();
                recorded.lock().unwrap().entry(object.uid().to_owned()).or_default().push(version);
            }
            std::future::ready(())
        };
        informer.add_handler(handler).unwrap().detach();
        Self { informer, seen }
    }
}

struct KubeRs {
    store: reflector::Store<ConfigMap>,
    seen: Arc<Mutex<Seen>>,
    _task: JoinSet<()>,
}

impl KubeRs {
    fn start(config: Config) -> Self {
        let api = Api::<ConfigMap>::namespaced(Client::try_from(config).unwrap(), "default");
        let (store, writer) = reflector::store();
        let seen = Arc::<Mutex<Seen>>::default();
        let recorded = seen.clone();
        let events = reflector(writer, watcher(api, watcher::Config::default()).default_backoff());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                if let Ok(watcher::Event::Apply(map) | watcher::Event::InitApply(map)) = event {
                    let version = map.resource_version().unwrap().parse().unwrap();
                    peer_saw(&mut recorded.lock().unwrap(), map.uid().unwrap(), version);
                }
            }
        });
        Self { store, seen, _task: task }
    }

    fn held(&self) -> Held {
        let text = |text: Option<String>| text.unwrap_or_default();
        let maps = self.store.state();
        maps.iter().map(|map| (map.name_any(), (text(map.uid()), text(map.resource_version())))).collect()
    }
}

/// The program in `peers/client-go`, built here.
struct ClientGo {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    seen: Seen,
    _process: Child,
}

impl ClientGo {
    async fn start(kubeconfig: &Path) -> Self {
        let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("client-go-peer");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/client-go");
        let mut go = Command::new("go");
        go.args(["build", "-buildvcs=false", "-o"]).arg(&program).arg(".").current_dir(source);
        let built =
            go.env("GOWORK", "off").output().await.unwrap_or_else(|error| panic!("cannot run go: {error}"));
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let mut command = Command::new(program);
        command.args(["mirror", "--kubeconfig"]).arg(kubeconfig).kill_on_drop(true);
        // It logs every broken connection.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let output = BufReader::new(output).lines();
        Self { input, output, seen: Seen::new(), _process: process }
    }

    async fn held(&mut self) -> Held {
        self.input.write_all(b"\n").await.unwrap();
        let mut held = Held::new();
        loop {
            let line = self.output.next_line().await.unwrap().unwrap();
            match line.split('\t').collect::<Vec<_>>()[..] {
                ["seen", _, uid, version] => {
                    peer_saw(&mut self.seen, uid.to_owned(), version.parse().unwrap());
                }
                ["held", name, uid, version] => {
                    held.insert(name.to_owned(), (uid.to_owned(), version.to_owned()));
                }
                ["end"] => return held,
                _ => panic!("{line}"),
            }
        }
    }
}
