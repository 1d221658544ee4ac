//! The scenarios: which subjects are measured, with how much data, and which figures are shown. A real kube-apiserver
//! has fewer scenarios, because filling it takes minutes and its history cannot be dropped on request.

use super::load::Load;
use super::paper::{Better, Column, Form};
use super::scenario::{Scenario, Work};
use super::subject::Subject::{
    self, ClientGo, ClientGoJson, ClientGoMetadata, ClientGoStripped, Floor, Get, KubeRs, KubeRsMetadata,
    KubeRsStreaming, KubeRsStripped, Kubectl, Ours, OursDecoding, OursJson, OursMetadata,
};
use super::{Size, grouped};

const ALL: &[Subject] = &[
    Ours,
    OursDecoding,
    OursJson,
    ClientGo,
    ClientGoStripped,
    ClientGoJson,
    KubeRs,
    KubeRsStreaming,
    KubeRsStripped,
    Floor,
];
/// Equal work for all: managedFields are dropped, and one subject decodes every object.
const FAIR: &[Subject] = &[Ours, OursDecoding, ClientGoStripped, KubeRsStripped, Floor];
/// The same in JSON.
const FAIR_JSON: &[Subject] = &[OursJson, OursDecoding, ClientGoStripped, KubeRsStripped];
const METADATA: &[Subject] = &[OursMetadata, ClientGoMetadata, KubeRsMetadata];
/// The program, next to the library's sync of the same objects and to kubectl.
const PROGRAMS: &[Subject] = &[Ours, Get, Kubectl];
const THREE: &[Subject] = &[Ours, ClientGo, KubeRs];
const IDLING: &[Subject] = &[Ours, ClientGo, ClientGoStripped, KubeRs, KubeRsStripped];
const FOLLOWING: &[Subject] = &[
    Ours,
    OursDecoding,
    OursJson,
    ClientGo,
    ClientGoStripped,
    ClientGoJson,
    KubeRsStreaming,
    KubeRsStripped,
    Floor,
];
/// Without the subjects that would take minutes.
const LARGE: &[Subject] =
    &[Ours, OursDecoding, OursJson, ClientGo, ClientGoStripped, KubeRsStreaming, KubeRsStripped, Floor];
/// Without handlers.
const STARTING: &[Subject] = &[Ours, ClientGo, ClientGoStripped, KubeRs, KubeRsStripped];
/// Without the floor, which cannot recognise the last change that is written.
const WRITTEN_TO: &[Subject] = &[
    Ours,
    OursDecoding,
    OursJson,
    ClientGo,
    ClientGoStripped,
    ClientGoJson,
    KubeRsStreaming,
    KubeRsStripped,
];

const SYNC: &[Column] = &[
    Column::new("wall", "wall", Form::Seconds, Better::Less),
    Column::new("cpu", "client CPU", Form::Seconds, Better::Less),
    Column::new("peak", "peak memory", Form::Bytes, Better::Less),
    Column::new("steady", "memory afterwards", Form::Bytes, Better::Less),
];
const RELIST: &[Column] = &[
    SYNC[0],
    SYNC[1],
    SYNC[2],
    SYNC[3],
    Column::new("relist cpu", "relist, client CPU", Form::Seconds, Better::Less),
    Column::new("relist peak", "relist, peak memory", Form::Bytes, Better::Less),
];
const START: &[Column] = &[SYNC[0], SYNC[1], SYNC[2]];
const IDLE: &[Column] =
    &[Column::new("idle cpu", "idle CPU per minute", Form::Milliseconds, Better::Less), SYNC[1], SYNC[3]];
const READS: &[Column] = &[
    Column::new("get", "get", Form::Nanoseconds, Better::Less),
    Column::new("get and decode, cold", "get and decode, first read", Form::Nanoseconds, Better::Less)
        .done_before_by_peers(),
    Column::new("get and decode, hot", "get and decode, cached", Form::Nanoseconds, Better::Less),
    Column::new("by index", "pods of one node", Form::Nanoseconds, Better::Less),
    Column::new("list per object", "list, per pod", Form::Nanoseconds, Better::Less),
    Column::new("list and decode per object", "list and decode, per pod", Form::Nanoseconds, Better::Less)
        .done_before_by_peers(),
];
const CHANGES: &[Column] = &[
    Column::new("cpu per change", "client CPU per change", Form::Microseconds, Better::Less),
    Column::new("changes per second", "changes per second", Form::Rate, Better::More),
    SYNC[2],
];
const PACED: &[Column] = &[
    CHANGES[0],
    Column::new("lag p50", "lag, p50", Form::Milliseconds, Better::Less),
    Column::new("lag p99", "lag, p99", Form::Milliseconds, Better::Less),
    Column::new("lag p99.9", "lag, p99.9", Form::Milliseconds, Better::Less),
];

/// The scenarios on the embedded server, in order.
pub(super) fn embedded(size: Size) -> Vec<Scenario> {
    if size == Size::Smoke {
        return vec![
            sync(300, SYNC, ALL, 1),
            sync(301, RELIST, ALL, 1),
            loaded(Load::VariedPods, 300, 1),
            loaded(Load::Secrets, 300, 1),
            loaded(Load::Widgets, 300, 1),
            metadata(300, 1),
            reads(500, 1),
            idle(500, 1),
            changes(100, 2_000, None, 1),
            changes(100, 500, Some(1_000), 1),
            start(200, 1),
            get("name", 300, NAMES, 1),
            by_field(300, 1),
            get("json", 300, JSON, 1),
            shards(300),
        ];
    }
    let mut scenarios = vec![
        sync(10_000, SYNC, ALL, 5),
        sync(50_000, RELIST, ALL, 2),
        loaded(Load::VariedPods, 10_000, 5),
        loaded(Load::Secrets, 10_000, 5),
        loaded(Load::Widgets, 10_000, 5),
        metadata(10_000, 5),
        reads(10_000, 3),
        idle(100_000, 20),
        changes(10_000, 200_000, None, 3),
        changes(10_000, 5_000, Some(500), 2),
        changes(10_000, 10_000, Some(2_000), 3),
        changes(10_000, 25_000, Some(5_000), 3),
        start(10_000, 3),
        get("name", 50_000, NAMES, 3),
        by_field(50_000, 3),
        get("json", 50_000, JSON, 3),
        Scenario {
            name: "queue".to_owned(),
            title: "The work queue".to_owned(),
            work: Work::Queue,
            repetitions: 1,
            subjects: &[],
            columns: &[],
        },
    ];
    scenarios.push(shards(200_000));
    if size == Size::Long {
        scenarios.insert(2, sync(200_000, RELIST, LARGE, 2));
        scenarios.push(get("json-200000", 200_000, JSON, 1));
    }
    scenarios
}

/// The scenarios on a real kube-apiserver, in order.
pub(super) fn real(size: Size) -> Vec<Scenario> {
    let scenarios = if size == Size::Smoke {
        vec![sync(300, SYNC, ALL, 1), start(200, 1), written(100, 200, 200, 1)]
    } else {
        vec![
            sync(10_000, SYNC, ALL, 3),
            sync(50_000, SYNC, ALL, 2),
            start(10_000, 3),
            written(10_000, 5_000, 500, 2),
        ]
    };
    let on_real = |scenario: Scenario| Scenario {
        name: format!("real-{}", scenario.name),
        title: format!("{}, real kube-apiserver", scenario.title),
        ..scenario
    };
    scenarios.into_iter().map(on_real).collect()
}

fn sync(
    count: u64,
    columns: &'static [Column],
    subjects: &'static [Subject],
    repetitions: usize,
) -> Scenario {
    let relist = columns == RELIST;
    Scenario {
        name: format!("sync-{count}"),
        title: format!(
            "Initial list of {} pods{}",
            grouped(count),
            if relist { ", and a relist" } else { "" }
        ),
        work: Work::FirstState { load: Load::Pods, count, options: Vec::new(), relist },
        repetitions,
        subjects,
        columns,
    }
}

/// The initial list of other objects than replicated pods.
fn loaded(load: Load, count: u64, repetitions: usize) -> Scenario {
    Scenario {
        name: format!("sync-{}", load.name()),
        title: format!("Initial list of {} {}", grouped(count), load.title()),
        work: Work::FirstState { load, count, options: Vec::new(), relist: false },
        repetitions,
        subjects: if load == Load::Widgets { FAIR_JSON } else { FAIR },
        columns: SYNC,
    }
}

fn metadata(count: u64, repetitions: usize) -> Scenario {
    Scenario {
        name: "metadata".to_owned(),
        title: format!("Initial list of the metadata of {} pods", grouped(count)),
        work: Work::FirstState { load: Load::Pods, count, options: Vec::new(), relist: false },
        repetitions,
        subjects: METADATA,
        columns: SYNC,
    }
}

/// The number of nodes that the pods are spread over.
const NODES: u64 = 500;

fn reads(count: u64, repetitions: usize) -> Scenario {
    Scenario {
        name: "reads".to_owned(),
        title: format!("Reads from a store of {} pods, {} per node", grouped(count), count / NODES),
        work: Work::FirstState {
            load: Load::Pods,
            count,
            options: vec!["--reads".to_owned()],
            relist: false,
        },
        repetitions,
        subjects: THREE,
        columns: READS,
    }
}

fn idle(count: u64, seconds: u64) -> Scenario {
    Scenario {
        name: "idle".to_owned(),
        title: format!("Idle with {} pods", grouped(count)),
        work: Work::FirstState {
            load: Load::Pods,
            count,
            options: vec!["--idle".to_owned(), seconds.to_string()],
            relist: false,
        },
        repetitions: 1,
        subjects: IDLING,
        columns: IDLE,
    }
}

fn changes(count: u64, changes: u64, rate: Option<u64>, repetitions: usize) -> Scenario {
    Scenario {
        name: rate.map_or_else(|| "watch".to_owned(), |rate| format!("watch-{rate}")),
        title: match rate {
            None => {
                format!("{} changes to {} pods, at full speed", grouped(changes), grouped(count))
            }
            Some(rate) => format!("{} changes per second to {} pods", grouped(rate), grouped(count)),
        },
        work: Work::Changes { count, changes, rate },
        repetitions,
        subjects: FOLLOWING,
        columns: if rate.is_some() { PACED } else { CHANGES },
    }
}

fn written(count: u64, changes: u64, rate: u64, repetitions: usize) -> Scenario {
    Scenario {
        name: format!("watch-{rate}"),
        title: format!("{} changes per second to {} pods", grouped(rate), grouped(count)),
        work: Work::Written { count, changes, rate },
        repetitions,
        subjects: WRITTEN_TO,
        columns: PACED,
    }
}

const NAMES: &[&str] = &["pods", "-A", "-o", "name"];
const JSON: &[&str] = &["pods", "-A", "-o", "json"];
/// Selects the pods of one node by a field that is read from the bytes.
const BY_FIELD: &[&str] = &["pods", "-A", "--field", "spec.nodeName=node-7", "-o", "name"];
/// The same selection in kubectl. This is one of the few fields that a server can select by.
const BY_FIELD_SELECTOR: &[&str] = &["pods", "-A", "--field-selector", "spec.nodeName=node-7", "-o", "name"];

/// `get` with the same arguments for both programs.
fn get(name: &str, count: u64, arguments: &'static [&'static str], repetitions: usize) -> Scenario {
    Scenario {
        name: format!("get-{name}"),
        title: format!("`get {}`, {} pods", arguments.join(" "), grouped(count)),
        work: Work::Get { count, arguments, kubectl: arguments },
        repetitions,
        subjects: PROGRAMS,
        columns: START,
    }
}

/// The pods of one node.
fn by_field(count: u64, repetitions: usize) -> Scenario {
    Scenario {
        work: Work::Get { count, arguments: BY_FIELD, kubectl: BY_FIELD_SELECTOR },
        ..get("field", count, BY_FIELD, repetitions)
    }
}

fn shards(count: u64) -> Scenario {
    Scenario {
        name: "shards".to_owned(),
        title: format!(
            "A controller of {} distinct pods, alone and with replicas that share the work",
            grouped(count)
        ),
        work: Work::Shards { count },
        repetitions: 1,
        subjects: &[],
        columns: &[],
    }
}

fn start(count: u64, repetitions: usize) -> Scenario {
    const NAMESPACES: u64 = 50;
    Scenario {
        name: "start".to_owned(),
        title: format!(
            "{NAMESPACES} concurrent informers, one per namespace, {} pods in total",
            grouped(count)
        ),
        work: Work::Start { count, namespaces: NAMESPACES },
        repetitions,
        subjects: STARTING,
        columns: START,
    }
}
