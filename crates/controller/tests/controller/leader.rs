//! Leader election on the embedded server: two replicas, partitions, paused clocks.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use embedded_apiserver::{Action, Fault, Match, Server, Verb};
use futures::FutureExt as _;
use http::HeaderValue;
use k8s_openapi::api::coordination::v1::Lease;
use kube_client::api::{DeleteParams, Patch, PatchParams};
use kube_client::{Api, Client};
use kube_informer_controller::leader::{LeaderProbe, Outcome, Term};
use kube_informer_controller::{LeaderElection, LeaderMetrics, LeaseTiming};
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use proptest::prelude::*;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tower::ServiceBuilder;

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(15);
const RENEW: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);

fn timing(lease_duration: Duration, renew_deadline: Duration, retry_period: Duration) -> LeaseTiming {
    LeaseTiming { lease_duration, renew_deadline, retry_period }
}

/// What one replica did, and when.
#[derive(Clone, Debug)]
struct Acted {
    replica: &'static str,
    token: String,
    at: Instant,
}

type Acts = Arc<Mutex<Vec<Acted>>>;

struct Replica {
    name: &'static str,
    probe: LeaderProbe,
    task: JoinHandle<()>,
}

async fn server() -> Server {
    Server::builder().without_socket().seed(1).start().await.unwrap()
}

/// A client whose requests carry this user agent.
fn client(server: &Server, name: &'static str) -> Client {
    let tag = move |mut request: http::Request<kube_client::client::Body>| {
        request.headers_mut().insert(http::header::USER_AGENT, HeaderValue::from_static(name));
        request
    };
    let service = ServiceBuilder::new().map_request(tag).service(server.service());
    Client::new(service, "default")
}

fn election(server: &Server, name: &'static str, seed: u64) -> LeaderElection {
    let began = Instant::now();
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    LeaderElection::new(client(server, name), "default", "lease")
        .identity(name)
        .seed(seed)
        .clock(move || start + began.elapsed())
}

/// Acts ten times per second until dropped.
async fn act(name: &'static str, term: Term, acts: Acts) {
    loop {
        let token = term.token().to_string();
        acts.lock().push(Acted { replica: name, token, at: Instant::now() });
        sleep(SECOND / 10).await;
    }
}

impl Replica {
    fn start(server: &Server, name: &'static str, seed: u64, acts: &Acts) -> Self {
        let mut election = election(server, name, seed);
        let (probe, acts) = (election.probe(), acts.clone());
        let task = tokio::spawn(async move {
            loop {
                match election.lead(|term| act(name, term, acts.clone())).await {
                    Outcome::Lost => {}
                    Outcome::Finished(()) => unreachable!("the work never ends"),
                }
            }
        });
        Self { name, probe, task }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn cut_off(server: &Server, name: &str, how: Action) -> embedded_apiserver::FaultId {
    server.faults().arm(Fault::new(how).on(Match::default().user_agent(name)))
}

async fn lease(server: &Server) -> Lease {
    Api::<Lease>::default_namespaced(client(server, "test")).get("lease").await.unwrap()
}

/// Terms in order: replica, token, first and last act. Panics if two overlap or a token is repeated.
fn terms(acts: &Acts) -> Vec<(&'static str, String, Instant, Instant)> {
    let mut terms: Vec<(&'static str, String, Instant, Instant)> = Vec::new();
    for Acted { replica, token, at } in acts.lock().iter() {
        match terms.last_mut() {
            Some((_, last, _, end)) if last == token => *end = *at,
            _ => {
                let again = terms.iter().any(|(_, known, ..)| known == token);
                assert!(!again, "{replica} acts with {token} after another replica acted: {terms:?}");
                terms.push((replica, token.clone(), *at, *at));
            }
        }
    }
    for pair in terms.windows(2) {
        let [one, next] = pair else { unreachable!() };
        assert!(one.3 < next.2 || one.3 == next.2 && one.0 == next.0, "two led at the same time: {pair:?}");
    }
    terms
}

#[tokio::test(start_paused = true)]
async fn c8_standby_takes_over_from_a_partitioned_leader() {
    for how in [Action::Hang, Action::Disconnect, Action::Html { code: 503 }] {
        let server = server().await;
        let acts = Acts::default();
        let one = Replica::start(&server, "one", 1, &acts);
        sleep(SECOND).await;
        let two = Replica::start(&server, "two", 2, &acts);
        sleep(60 * SECOND).await;
        assert!(one.probe.is_leading() && !two.probe.is_leading());
        assert_eq!(terms(&acts).len(), 1, "as long as it can be renewed it is");
        assert!(two.probe.leader().starts_with("one_"));

        let before = server.revision();
        let cut = Instant::now();
        let fault = cut_off(&server, "one", how.clone());
        sleep(60 * SECOND).await;
        let terms_now = terms(&acts);
        let [(_, _, _, last_act), (who, _, first_act, _)] = terms_now[..] else { panic!("{terms_now:?}") };
        assert_eq!(who, two.name, "{how:?}");
        // The last renewal was at most a retry period before.
        assert!(last_act <= cut + (RENEW + LEASE) / 2, "{how:?}: it acted on for {:?}", last_act - cut);
        assert!(first_act <= cut + LEASE + RETRY.mul_f64(4.4), "{how:?}: {:?}", first_act - cut);
        assert!(first_act >= cut - RETRY + LEASE, "{how:?}: not before the lease was over");
        assert!(server.revision() > before);

        server.faults().disarm(fault);
        sleep(60 * SECOND).await;
        assert_eq!(terms(&acts).len(), 2, "{how:?}: coming back, the first one follows");
        assert!(!one.probe.is_leading() && one.probe.leader().starts_with("two_"));
        let spec = lease(&server).await.spec.unwrap();
        assert_eq!(spec.lease_transitions, Some(1));
    }
}

#[tokio::test(start_paused = true)]
async fn finished_work_releases_the_lease_for_the_next_replica() {
    let server = server().await;
    let mut one = election(&server, "one", 1);
    let token = one.lead(|term| async move { term.token().clone() }).await;
    let Outcome::Finished(token) = token else { panic!() };
    assert!(token.holder.starts_with("one_") && token.transitions == 0);
    let spec = lease(&server).await.spec.unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some(""), Some(1)));
    assert_eq!(spec.lease_transitions, Some(0), "or a token could come back");

    let before = Instant::now();
    let mut two = election(&server, "two", 2);
    let Outcome::Finished(next) = two.lead(|term| async move { term.token().clone() }).await else {
        panic!()
    };
    assert_eq!((before.elapsed(), next.transitions), (Duration::ZERO, 1));
    let Outcome::Finished(again) = two.lead(|term| async move { term.token().clone() }).await else {
        panic!()
    };
    assert_eq!(again.transitions, 2);
    assert_ne!(again.holder, next.holder, "each term has a holder of its own");
}

#[tokio::test(start_paused = true)]
async fn c8_stolen_deleted_or_emptied_lease_is_lost_at_next_renewal() {
    type Meddle = fn(Api<Lease>) -> futures::future::BoxFuture<'static, ()>;
    let steal: Meddle = |api| {
        Box::pin(async move {
            let patch = Patch::Merge(json!({"spec": {"holderIdentity": "thief", "leaseTransitions": 1}}));
            api.patch("lease", &PatchParams::default(), &patch).await.unwrap();
        })
    };
    let delete: Meddle =
        |api| Box::pin(async move { drop(api.delete("lease", &DeleteParams::default()).await.unwrap()) });
    let empty: Meddle = |api| {
        Box::pin(async move {
            let patch = Patch::Merge(json!({"spec": {"holderIdentity": ""}}));
            api.patch("lease", &PatchParams::default(), &patch).await.unwrap();
        })
    };
    for (name, meddle) in [("stolen", steal), ("deleted", delete), ("emptied", empty)] {
        let server = server().await;
        let acts = Acts::default();
        let _one = Replica::start(&server, "one", 1, &acts);
        sleep(10 * SECOND).await;
        meddle(Api::default_namespaced(client(&server, "test"))).await;
        let meddled = Instant::now();
        sleep(60 * SECOND).await;
        let terms = terms(&acts);
        assert!(terms.len() >= 2, "{name}: {terms:?}");
        assert!(terms[0].3 <= meddled + RETRY, "{name}: it acted on for {:?}", terms[0].3 - meddled);
    }
}

#[tokio::test(start_paused = true)]
async fn a_foreign_write_to_the_lease_costs_one_read() {
    let server = server().await;
    let acts = Acts::default();
    let mut registry = Registry::default();
    let metrics = LeaderMetrics::register(&mut registry);
    let text = || {
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    };
    let mut election = election(&server, "one", 1).metrics(&metrics);
    let probe = election.probe();
    assert!(text().contains(r#"leader_election_master_status{name="lease"} 0"#), "{}", text());
    let work = acts.clone();
    let leading = tokio::spawn(async move { election.lead(|term| act("one", term, work)).await });
    sleep(5 * SECOND).await;
    let api: Api<Lease> = Api::default_namespaced(client(&server, "test"));
    let patch = Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
    api.patch("lease", &PatchParams::default(), &patch).await.unwrap();
    sleep(30 * SECOND).await;
    assert_eq!((terms(&acts).len(), probe.slow_paths()), (1, 1));
    assert!(text().contains(r#"leader_election_master_status{name="lease"} 1"#), "{}", text());
    assert!(text().contains(r#"leader_election_slowpath_total{name="lease"} 1"#), "{}", text());
    assert_eq!(
        lease(&server).await.metadata.labels.unwrap()["seen"],
        "yes",
        "the labels of other writers stay"
    );
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn renewal_does_not_read_the_lease() {
    let server = server().await;
    let acts = Acts::default();
    let _one = Replica::start(&server, "one", 1, &acts);
    sleep(SECOND).await;
    let reads = server.faults().arm(Fault::new(Action::Delay(Duration::ZERO)).on(Match::verb(Verb::Get)));
    let writes = server.faults().arm(Fault::new(Action::Delay(Duration::ZERO)).on(Match::verb(Verb::Update)));
    sleep(60 * SECOND).await;
    assert_eq!(server.faults().fired(reads), Some(0));
    assert_eq!(server.faults().fired(writes), Some(30), "every two seconds");
}

#[tokio::test(start_paused = true)]
async fn c8_work_is_dropped_before_a_lost_lease_expires() {
    let server = server().await;
    let mut one = election(&server, "one", 1);
    let probe = one.probe();
    let ended = Arc::<Mutex<Option<(Instant, bool)>>>::default();
    let noted = ended.clone();
    let leading = tokio::spawn(async move {
        let work = |term: Term| async move {
            term.lost().await;
            *noted.lock() = Some((Instant::now(), term.is_current()));
            std::future::pending::<()>().await;
        };
        let outcome = one.lead(work).await;
        (outcome, Instant::now())
    });
    sleep(10 * SECOND).await;
    assert!(probe.is_leading() && probe.is_healthy(Duration::ZERO));
    let cut = Instant::now();
    cut_off(&server, "one", Action::Disconnect);
    let (outcome, dropped) = leading.await.unwrap();
    assert_eq!(outcome, Outcome::Lost);
    let (lost, current) = ended.lock().unwrap();
    assert!(lost <= cut + RENEW && !current);
    assert!(dropped < cut + LEASE, "dropped before another replica can lead");
    assert!(!probe.is_leading());
}

#[derive(Clone, Copy, Debug)]
enum Disturbance {
    CutOff { replica: usize, how: usize, seconds: u32 },
    Quiet { seconds: u32 },
    Delay { milliseconds: u64, seconds: u32 },
    Meddle,
}

fn disturbances() -> impl Strategy<Value = Vec<Disturbance>> {
    let disturbance = prop_oneof![
        4 => (0..2_usize, 0..3_usize, 1..40_u32)
            .prop_map(|(replica, how, seconds)| Disturbance::CutOff { replica, how, seconds }),
        2 => (1..40_u32).prop_map(|seconds| Disturbance::Quiet { seconds }),
        1 => (1..9_000_u64, 1..30_u32)
            .prop_map(|(milliseconds, seconds)| Disturbance::Delay { milliseconds, seconds }),
        1 => Just(Disturbance::Meddle),
    ];
    prop::collection::vec(disturbance, 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn c8_two_replicas_never_act_concurrently_or_share_a_token(disturbances in disturbances(), seed in 0..1000_u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let server = server().await;
            let acts = Acts::default();
            let names = ["one", "two"];
            let _replicas =
                [0, 1].map(|number| Replica::start(&server, names[number], seed * 2 + number as u64, &acts));
            for disturbance in disturbances {
                match disturbance {
                    Disturbance::CutOff { replica, how, seconds } => {
                        let how = [Action::Hang, Action::Disconnect, Action::Html { code: 500 }][how].clone();
                        let fault = cut_off(&server, names[replica], how);
                        sleep(seconds * SECOND).await;
                        server.faults().disarm(fault);
                    }
                    Disturbance::Quiet { seconds } => sleep(seconds * SECOND).await,
                    Disturbance::Delay { milliseconds, seconds } => {
                        let delay = Action::Delay(Duration::from_millis(milliseconds));
                        let fault = server.faults().arm(Fault::new(delay));
                        sleep(seconds * SECOND).await;
                        server.faults().disarm(fault);
                    }
                    Disturbance::Meddle => {
                        let api: Api<Lease> = Api::default_namespaced(client(&server, "test"));
                        let patch = Patch::Merge(json!({"metadata": {"annotations": {"seen": "yes"}}}));
                        drop(api.patch("lease", &PatchParams::default(), &patch).await);
                    }
                }
            }
            let healed = Instant::now();
            sleep(60 * SECOND).await;
            let terms = terms(&acts);
            let last = terms.last().unwrap();
            assert!(last.3 >= healed + 59 * SECOND, "a replica leads at the end: {terms:?}");
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_taken_when_it_is_free_or_expired() {
    let held = |seconds: i32| json!({"holderIdentity": "other", "leaseDurationSeconds": seconds, "leaseTransitions": 4});
    let cases = [
        ("no lease", None, 0, 0),
        ("nothing in it", Some(json!({})), 0, 1),
        (
            "an empty holder",
            Some(json!({"holderIdentity": "", "leaseDurationSeconds": 15, "leaseTransitions": 4})),
            0,
            5,
        ),
        ("a silent holder", Some(held(7)), 7, 5),
        ("a silent holder of a long lease", Some(held(60)), 60, 5),
    ];
    for (name, spec, seconds, transitions) in cases {
        let server = server().await;
        let api: Api<Lease> = Api::default_namespaced(client(&server, "test"));
        if let Some(spec) = spec {
            let lease = serde_json::from_value(json!({"metadata": {"name": "lease"}, "spec": spec})).unwrap();
            api.create(&Default::default(), &lease).await.unwrap();
        }
        let began = Instant::now();
        let mut one = election(&server, "one", 1);
        let Outcome::Finished(token) = one.lead(|term| async move { term.token().clone() }).await else {
            panic!()
        };
        let waited = began.elapsed();
        assert!(
            waited >= seconds * SECOND && waited <= seconds * SECOND + RETRY.mul_f64(2.2),
            "{name}: {waited:?}"
        );
        assert_eq!(token.transitions, transitions, "{name}");
        assert_eq!(Some(&token.lease_uid), lease(&server).await.metadata.uid.as_ref(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_response_to_acquiring_keeps_the_lease() {
    let server = server().await;
    // The write is made; its answer breaks off.
    server.faults().arm(Fault::new(Action::CutAfterBytes(10)).on(Match::verb(Verb::Create)).once());
    let began = Instant::now();
    let mut one = election(&server, "one", 1);
    let Outcome::Finished(token) = one.lead(|term| async move { term.token().clone() }).await else {
        panic!()
    };
    assert_eq!(token.transitions, 0);
    assert!(began.elapsed() < 5 * SECOND, "it is known to be ours: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn release_retries_on_conflict() {
    let server = server().await;
    let mut one = election(&server, "one", 1);
    let conflict =
        Action::Status { code: 409, reason: "Conflict".into(), message: "x".into(), retry_after_seconds: 0 };
    let faults = server.faults();
    let work = |_| async { faults.arm(Fault::new(conflict).on(Match::verb(Verb::Update)).times(2)) };
    let Outcome::Finished(fault) = one.lead(work).await else { panic!() };
    assert_eq!(server.faults().fired(fault), Some(2));
    assert_eq!(lease(&server).await.spec.unwrap().holder_identity.as_deref(), Some(""));
}

#[tokio::test(start_paused = true)]
async fn inconsistent_periods_are_corrected() {
    let server = server().await;
    let acts = Acts::default();
    let mut one =
        election(&server, "one", 1).timing(timing(Duration::from_millis(1), Duration::ZERO, Duration::ZERO));
    let work = acts.clone();
    let leading = tokio::spawn(async move { one.lead(|term| act("one", term, work)).await });
    sleep(SECOND / 2).await;
    assert!(!leading.is_finished(), "the replica can hold the lease with the extended periods");
    assert_eq!(lease(&server).await.spec.unwrap().lease_duration_seconds, Some(1));
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn c8_a_term_ends_when_its_leader_is_dropped() {
    let server = server().await;
    let mut registry = Registry::default();
    let metrics = LeaderMetrics::register(&mut registry);
    let mut one = election(&server, "one", 1).metrics(&metrics);
    let probe = one.probe();
    let mut leading = Box::pin(one.lead(|_| std::future::pending::<()>()));
    tokio::select! {
        _ = &mut leading => unreachable!("the work never ends"),
        () = sleep(10 * SECOND) => {}
    }
    let term = probe.term().unwrap();
    assert!(probe.is_leading() && term.lost().now_or_never().is_none());
    drop(leading);
    assert!(term.lost().now_or_never().is_some() && !term.is_current());
    assert!(!probe.is_leading() && probe.term().is_none());
    assert_eq!(probe.leader(), term.token().holder, "the lease is left to expire");
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    assert!(text.contains(r#"leader_election_master_status{name="lease"} 0"#), "{text}");
}

#[tokio::test(start_paused = true)]
async fn maximum_periods_never_expire() {
    const MAX: Duration = Duration::MAX;
    for (lease_lasts, renew, retry) in
        [(MAX, RENEW, RETRY), (LEASE, MAX, RETRY), (LEASE, RENEW, MAX), (MAX, MAX, MAX)]
    {
        let server = server().await;
        let mut one = election(&server, "one", 1).timing(timing(lease_lasts, renew, retry));
        let probe = one.probe();
        let leading = tokio::spawn(async move { one.lead(|term| async move { term.lost().await }).await });
        sleep(60 * SECOND).await;
        assert!(probe.is_leading() && probe.is_healthy(MAX) && probe.term().unwrap().is_current());
        assert!(lease(&server).await.spec.unwrap().lease_duration_seconds.unwrap() > 365 * 24 * 3600);
        leading.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_stuck_leader_is_unhealthy_and_a_standby_is_healthy() {
    let server = server().await;
    let mut one = election(&server, "one", 1);
    let probe = one.probe();
    assert!(probe.is_healthy(Duration::ZERO));
    let mut leading = Box::pin(one.lead(|_| std::future::pending::<()>()));
    tokio::select! {
        _ = &mut leading => unreachable!("the work never ends"),
        () = sleep(10 * SECOND) => {}
    }
    assert!(probe.is_healthy(Duration::ZERO));
    // It is no longer polled.
    tokio::time::advance(LEASE + 3 * SECOND).await;
    assert!(probe.is_leading() && !probe.is_healthy(SECOND) && probe.is_healthy(20 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn c8_a_leader_with_a_stopped_clock_keeps_its_lease() {
    let server = server().await;
    let acts = Acts::default();
    let mut one = election(&server, "one", 1).clock(|| SystemTime::UNIX_EPOCH + SECOND);
    let work = acts.clone();
    let leading = tokio::spawn(async move { one.lead(|term| act("one", term, work)).await });
    sleep(SECOND).await;
    let first = lease(&server).await.spec.unwrap();
    let two = Replica::start(&server, "two", 2, &acts);
    sleep(120 * SECOND).await;
    assert_eq!(terms(&acts).len(), 1, "the leader keeps renewing");
    assert!(!leading.is_finished() && !two.probe.is_leading());
    let spec = lease(&server).await.spec.unwrap();
    assert!(spec.renew_time.unwrap().0 > first.renew_time.unwrap().0, "each renewal is another record");
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn c8_a_reacquired_lease_has_a_new_record() {
    let server = server().await;
    // The write succeeds, but its response is lost. The next attempt finds that it holds the lease, and acquires it again.
    server.faults().arm(Fault::new(Action::CutAfterBytes(10)).on(Match::verb(Verb::Create)).once());
    let mut one = election(&server, "one", 1).clock(|| SystemTime::UNIX_EPOCH + SECOND);
    let leading = tokio::spawn(async move { one.lead(|_| std::future::pending::<()>()).await });
    sleep(SECOND / 2).await;
    let first = lease(&server).await;
    sleep(5 * SECOND).await;
    assert_ne!(first.spec, lease(&server).await.spec);
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn probes_and_metrics_survive_a_change_of_periods() {
    let server = server().await;
    let mut registry = Registry::default();
    let metrics = LeaderMetrics::register(&mut registry);
    let early = election(&server, "one", 1);
    let probe = early.probe();
    let mut one = early.metrics(&metrics).timing(timing(40 * SECOND, RENEW, RETRY));
    let mut leading = Box::pin(one.lead(|_| std::future::pending::<()>()));
    tokio::select! {
        _ = &mut leading => unreachable!("it leads until dropped"),
        () = sleep(10 * SECOND) => {}
    }
    assert!(probe.is_leading());
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    assert!(text.contains(r#"leader_election_master_status{name="lease"} 1"#), "{text}");
    // It is not polled any more.
    tokio::time::advance(30 * SECOND).await;
    assert!(probe.is_healthy(Duration::ZERO), "the lease lasts 40 s");
    tokio::time::advance(20 * SECOND).await;
    assert!(!probe.is_healthy(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_has_no_reported_leader() {
    let server = server().await;
    let (logs, _guard) = crate::support::capture_logs();
    let mut one = election(&server, "one", 1);
    assert!(matches!(one.lead(|_| async {}).await, Outcome::Finished(())));
    let lines = logs.take();
    assert!(
        !lines.iter().any(|line| line.contains("leader=") || line.contains("another replica")),
        "{lines:#?}"
    );
}
