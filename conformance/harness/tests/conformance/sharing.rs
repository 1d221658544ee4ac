//! Replicas of a controller that share the work, as processes on a real kube-apiserver: one is killed, one is suspended, one is
//! stopped, while objects change. The server splits the stream in one test; the replicas filter the whole stream in the other one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::iter;
use kube_client::Client;
use kube_client::api::{Api, Patch, PatchParams, PostParams};
use kube_client::core::{ApiResource, DynamicObject};
use kube_informer::{Event, Informer, Key, ListenerConfig, Object, Subscription};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::common::both::{AnyServer, Features};
use crate::common::informers::long;
use crate::common::things::{define, definition};

const SLOTS: usize = 64;
/// The reconciles that a replica runs at the same time.
const CONCURRENCY: usize = 8;
/// The writes that a test sends at the same time.
const WRITES: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c11_replicas_share_the_work_of_a_stream_that_the_server_splits() {
    share(Features::Shards).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c11_replicas_share_the_work_of_a_stream_that_they_filter() {
    share(Features::Default).await;
}

async fn share(features: Features) {
    let (AnyServer::Real(server), client) = AnyServer::real(features).await else { unreachable!() };
    let count = if long() { 20_000 } else { 1_000 };
    define(&client, &definition()).await;
    let things = Api::namespaced_with(client.clone(), "default", &resource());
    create(&things, count).await;
    let mut judge = Judge::watch(&client).await;
    judge.expect(0..count, 0);
    let start = |name| Replica::start(&server.kubeconfig(), name);

    let (mut one, mut two, mut three) = (start("one"), start("two"), start("three"));
    judge.settled().await;
    shared_by(&mut [&mut one, &mut two, &mut three], count).await;

    // One is killed while objects change, and another one takes its place.
    judge.expect((0..count).step_by(2), 1);
    tokio::join!(change(&things, (0..count).step_by(2), 1), async { one.signal(Signal::KILL) });
    let mut four = start("four");
    judge.settled().await;
    shared_by(&mut [&mut two, &mut three, &mut four], count).await;

    // One is suspended while objects change. The others take its slots, although it does not end. Then it wakes up.
    judge.expect((0..count).step_by(3), 2);
    tokio::join!(change(&things, (0..count).step_by(3), 2), async { two.signal(Signal::STOP) });
    judge.settled().await;
    two.signal(Signal::CONT);
    judge.expect((0..count).step_by(5), 3);
    change(&things, (0..count).step_by(5), 3).await;
    judge.settled().await;
    shared_by(&mut [&mut two, &mut three, &mut four], count).await;

    // One is stopped while objects change.
    judge.expect((0..count).step_by(2), 4);
    tokio::join!(change(&things, (0..count).step_by(2), 4), three.stop());
    judge.settled().await;
    shared_by(&mut [&mut two, &mut four], count).await;
    tokio::join!(two.stop(), four.stop());
    judge.check(&["one", "two", "three", "four"], "two");
}

/// Waits until these replicas have all slots, about the same number each, and each object is cached by exactly one of them.
async fn shared_by(replicas: &mut [&mut Replica], count: usize) {
    let fair = SLOTS / replicas.len()..=SLOTS.div_ceil(replicas.len());
    loop {
        let mut total = (0, 0);
        let mut is_fair = true;
        for replica in &mut *replicas {
            let (objects, slots) = replica.holds().await;
            total = (total.0 + objects, total.1 + slots);
            is_fair &= fair.contains(&slots);
        }
        if is_fair && total == (count, SLOTS) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn resource() -> ApiResource {
    ApiResource {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "example.com/v1".to_owned(),
        kind: "Thing".to_owned(),
        plural: "things".to_owned(),
    }
}

async fn create(things: &Api<DynamicObject>, count: usize) {
    let create = async |number: usize| {
        let thing = json!({
            "apiVersion": "example.com/v1", "kind": "Thing",
            "metadata": {"name": format!("thing-{number}")}, "spec": {"value": 0},
        });
        let thing = serde_json::from_value(thing).unwrap();
        things.create(&PostParams::default(), &thing).await.unwrap();
    };
    iter(0..count).for_each_concurrent(WRITES, create).await;
}

/// Gives these things another value.
async fn change(things: &Api<DynamicObject>, numbers: impl Iterator<Item = usize>, value: u64) {
    let change = async |number: usize| {
        let patch = Patch::Merge(json!({"spec": {"value": value}}));
        things.patch(&format!("thing-{number}"), &PatchParams::default(), &patch).await.unwrap();
    };
    iter(numbers).for_each_concurrent(WRITES, change).await;
}

/// A replica in its own process. It is killed when this value is dropped, and ends with the test's process.
struct Replica {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Replica {
    fn start(kubeconfig: &Path, name: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_sharing-replica"))
            .arg(kubeconfig)
            .arg(name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
        Self { process, input, output }
    }

    fn signal(&self, signal: Signal) {
        let id = self.process.id().unwrap().try_into().unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// How many objects it has cached, and how many slots it works on.
    async fn holds(&mut self) -> (usize, usize) {
        self.input.as_mut().unwrap().write_all(b"\n").await.unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).await.unwrap();
        let (objects, slots) = line.trim().split_once('\t').unwrap();
        (objects.parse().unwrap(), slots.parse().unwrap())
    }

    /// Stops it as SIGTERM would: it hands its slots over and ends.
    async fn stop(&mut self) {
        self.input = None;
        assert!(self.process.wait().await.unwrap().success());
    }
}

/// Follows the server's state, and checks which replica wrote what.
struct Judge {
    events: Subscription<DynamicObject>,
    /// The latest value of each thing.
    expected: BTreeMap<Key, u64>,
    /// The things whose status does not have it.
    unsettled: BTreeSet<Key>,
    writes: Vec<Write>,
    _things: Informer<DynamicObject>,
}

/// A write of a replica.
struct Write {
    version: u64,
    slot: u32,
    term: i32,
    holder: String,
}

impl Judge {
    async fn watch(client: &Client) -> Self {
        let things = Informer::dynamic(client.clone(), &resource()).start().unwrap();
        let mut every = ListenerConfig::default();
        every.changes_max = usize::MAX; // Each write is needed.
        every.bytes_max = usize::MAX;
        let events = things.subscribe_with(every);
        things.synced().await.unwrap();
        let (expected, unsettled) = Default::default();
        Self { events, expected, unsettled, writes: Vec::new(), _things: things }
    }

    /// Expects this value in the status of these things.
    fn expect(&mut self, numbers: impl Iterator<Item = usize>, value: u64) {
        for number in numbers {
            let key = Key::new("default", &format!("thing-{number}"));
            self.unsettled.insert(key.clone());
            self.expected.insert(key, value);
        }
    }

    /// Waits until each thing has its latest value in its status.
    async fn settled(&mut self) {
        while !self.unsettled.is_empty() {
            let event = self.events.next().await.expect("the informer runs");
            self.observe(&event);
        }
    }

    fn observe(&mut self, event: &Event<DynamicObject>) {
        match event {
            Event::Added { object, .. } => self.changed(None, object),
            Event::Updated { old, new, .. } => self.changed(Some(old), new),
            Event::Synced => {}
            event => panic!("nothing was deleted: {event:?}"),
        }
    }

    fn changed(&mut self, old: Option<&Object<DynamicObject>>, new: &Object<DynamicObject>) {
        let field = |object: &Object<DynamicObject>, path: &str| object.field(path).unwrap();
        let key = new.key();
        match field(new, "status.value").and_then(|value| value.as_u64()) == self.expected.get(&key).copied()
        {
            true => self.unsettled.remove(&key),
            false => self.unsettled.insert(key),
        };
        // An update of the spec repeats the token of an earlier write.
        let token = |object| field(object, "status.token");
        let Some(Value::String(written)) = token(new).filter(|new| old.and_then(token).as_ref() != Some(new))
        else {
            return;
        };
        let parts: Vec<&str> = written.split('/').collect();
        let [_, slot, term, holder] = parts[..] else { panic!("not a token: {written}") };
        let version = new.resource_version().parse().unwrap();
        let (slot, term) = (slot.parse().unwrap(), term.parse().unwrap());
        self.writes.push(Write { version, slot, term, holder: holder.to_owned() });
    }

    /// Checks that all of these replicas worked, that no term had two holders, and that no replica wrote after the next term
    /// began. Requests that the suspended replica had sent can be executed later.
    fn check(mut self, names: &[&str], suspended: &str) {
        self.writes.sort_by_key(|write| write.version);
        let name_of = |holder: &str| holder.rsplit_once('_').unwrap().0.to_owned();
        let (mut holders, mut latest) = (BTreeMap::new(), BTreeMap::<u32, i32>::new());
        let mut late = 0;
        for Write { version, slot, term, holder } in &self.writes {
            let first = holders.entry((slot, term)).or_insert(holder);
            assert_eq!(*first, holder, "two holders of term {term} of slot {slot}, at {version}");
            let latest = latest.entry(*slot).or_default();
            if term < latest {
                assert_eq!(
                    name_of(holder),
                    suspended,
                    "term {term} of slot {slot} after {latest}, at {version}"
                );
                late += 1;
            }
            *latest = (*term).max(*latest);
        }
        assert!(late <= CONCURRENCY, "{late} late writes");
        let worked: BTreeSet<String> = holders.values().map(|holder| name_of(holder)).collect();
        assert_eq!(worked, names.iter().map(|name| (*name).to_owned()).collect());
    }
}
