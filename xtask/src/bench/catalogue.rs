//! The scenarios: what is measured of whom, how much of it, and which figures are shown. On a real kube-apiserver there are
//! fewer, because filling it takes minutes and it cannot be made to forget on request.

use super::load::Load;
use super::paper::{Better, Column, Form};
use super::scenario::{Scenario, Work};
use super::subject::Subject::{
    self, ClientGo, ClientGoJson, ClientGoMetadata, ClientGoStripped, Floor, KubeRs, KubeRsMetadata,
    KubeRsStreaming, KubeRsStripped, Ours, OursDecoding, OursJson, OursMetadata,
};
use super::{Size, grouped};

const EVERYBODY: &[Subject] = &[
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
/// The same work by all: managedFields dropped, and once with every object decoded.
const FAIR: &[Subject] = &[Ours, OursDecoding, ClientGoStripped, KubeRsStripped, Floor];
/// The same in JSON.
const FAIR_JSON: &[Subject] = &[OursJson, OursDecoding, ClientGoStripped, KubeRsStripped];
const METADATA: &[Subject] = &[OursMetadata, ClientGoMetadata, KubeRsMetadata];
const THREE: &[Subject] = &[Ours, ClientGo, KubeRs];
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
/// Without those who would take minutes.
const LARGE: &[Subject] = &[Ours, OursJson, ClientGo, KubeRsStreaming, Floor];
/// The floor cannot recognise the last change that is written.
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
    &[Column::new("idle cpu", "CPU a minute", Form::Milliseconds, Better::Less), SYNC[1], SYNC[3]];
const READS: &[Column] = &[
    Column::new("get", "get", Form::Nanoseconds, Better::Less),
    Column::new("get, value, cold", "get and decode, first time", Form::Nanoseconds, Better::Less)
        .done_before_by_peers(),
    Column::new("get, value, hot", "again", Form::Nanoseconds, Better::Less),
    Column::new("by index", "the pods of a node", Form::Nanoseconds, Better::Less),
    Column::new("list, an object", "list, a pod", Form::Nanoseconds, Better::Less),
    Column::new("list, value, an object", "list and decode, a pod", Form::Nanoseconds, Better::Less)
        .done_before_by_peers(),
];
const CHANGES: &[Column] = &[
    Column::new("cpu a change", "client CPU a change", Form::Microseconds, Better::Less),
    Column::new("changes a second", "changes a second", Form::Rate, Better::More),
    SYNC[2],
];
const PACED: &[Column] = &[
    CHANGES[0],
    Column::new("late, median", "late, median", Form::Milliseconds, Better::Less),
    Column::new("late, 99 of 100", "99 of 100", Form::Milliseconds, Better::Less),
    Column::new("late, 999 of 1000", "999 of 1,000", Form::Milliseconds, Better::Less),
];

/// The scenarios on the embedded server, in order.
pub(super) fn embedded(size: Size) -> Vec<Scenario> {
    if size == Size::Smoke {
        return vec![
            sync(300, SYNC, EVERYBODY, 1),
            sync(301, RELIST, EVERYBODY, 1),
            loaded(Load::VariedPods, 300, 1),
            loaded(Load::Secrets, 300, 1),
            loaded(Load::Widgets, 300, 1),
            metadata(300, 1),
            reads(500, 1),
            idle(500, 1),
            changes(100, 2_000, None, 1),
            changes(100, 500, Some(1_000), 1),
            start(200, 1),
        ];
    }
    let mut scenarios = vec![
        sync(10_000, SYNC, EVERYBODY, 5),
        sync(50_000, RELIST, EVERYBODY, 2),
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
        Scenario {
            name: "queue".to_owned(),
            title: "The work queue".to_owned(),
            work: Work::Queue,
            repetitions: 1,
            subjects: &[],
            columns: &[],
        },
    ];
    if size == Size::Long {
        scenarios.insert(2, sync(200_000, RELIST, LARGE, 2));
    }
    scenarios
}

/// The scenarios on a real kube-apiserver, in order.
pub(super) fn real(size: Size) -> Vec<Scenario> {
    let scenarios = if size == Size::Smoke {
        vec![sync(300, SYNC, EVERYBODY, 1), start(200, 1), written(100, 200, 200, 1)]
    } else {
        vec![
            sync(10_000, SYNC, EVERYBODY, 3),
            sync(50_000, SYNC, EVERYBODY, 2),
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
            "First state of {} pods{}",
            grouped(count),
            if relist { ", and a relist" } else { "" }
        ),
        work: Work::FirstState { load: Load::Pods, count, options: Vec::new(), relist },
        repetitions,
        subjects,
        columns,
    }
}

/// The first state of other objects than pods that are replicas of each other.
fn loaded(load: Load, count: u64, repetitions: usize) -> Scenario {
    Scenario {
        name: format!("sync-{}", load.name()),
        title: format!("First state of {} {}", grouped(count), load.title()),
        work: Work::FirstState { load, count, options: Vec::new(), relist: false },
        repetitions,
        subjects: if load == Load::Widgets { FAIR_JSON } else { FAIR },
        columns: SYNC,
    }
}

fn metadata(count: u64, repetitions: usize) -> Scenario {
    Scenario {
        name: "metadata".to_owned(),
        title: format!("First state of the metadata of {} pods", grouped(count)),
        work: Work::FirstState { load: Load::Pods, count, options: Vec::new(), relist: false },
        repetitions,
        subjects: METADATA,
        columns: SYNC,
    }
}

/// Over which the pods are spread.
const NODES: u64 = 500;

fn reads(count: u64, repetitions: usize) -> Scenario {
    Scenario {
        name: "reads".to_owned(),
        title: format!("Reads, {} pods, {} a node", grouped(count), count / NODES),
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
        subjects: THREE,
        columns: IDLE,
    }
}

fn changes(count: u64, changes: u64, rate: Option<u64>, repetitions: usize) -> Scenario {
    Scenario {
        name: rate.map_or_else(|| "watch".to_owned(), |rate| format!("watch-{rate}")),
        title: match rate {
            None => {
                format!("{} changes of {} pods, as fast as they are taken", grouped(changes), grouped(count))
            }
            Some(rate) => format!("{} changes a second of {} pods", grouped(rate), grouped(count)),
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
        title: format!("{} changes a second of {} pods", grouped(rate), grouped(count)),
        work: Work::Written { count, changes, rate },
        repetitions,
        subjects: WRITTEN_TO,
        columns: PACED,
    }
}

fn start(count: u64, repetitions: usize) -> Scenario {
    const NAMESPACES: u64 = 50;
    Scenario {
        name: "start".to_owned(),
        title: format!("{NAMESPACES} informers at once, {} pods in all", grouped(count)),
        work: Work::Start { count, namespaces: NAMESPACES },
        repetitions,
        subjects: THREE,
        columns: START,
    }
}
