//! The content of a `Lease`, and reading and writing it.

use std::time::{Duration, SystemTime};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube_client::Api;
use kube_client::api::{ListParams, PostParams};
use kube_core::{ObjectMeta, Status};
use tokio::time::{Instant, timeout};

use super::term::FencingToken;
use crate::deliberate_bug::deliberate_bug;
use crate::error::words;

/// The lease as last read, and the time since which it has not changed.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    seen: Option<(Lease, Instant)>,
}

/// A lease's storage.
#[derive(Clone, Debug)]
pub(crate) struct Leases {
    pub(crate) api: Api<Lease>,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// How long one request may take.
    pub(crate) request_max: Duration,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LeaseError {
    /// The lease is missing or, when it is to be created, its namespace.
    #[error("{}", words(.0))]
    NotFound(Box<Status>),
    #[error("another client changed it concurrently")]
    Conflict,
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error("{}", words(.0))]
    Answered(Box<Status>),
    #[error(transparent)]
    Other(kube_client::Error),
}

/// The server permanently refuses a lease: for example, a namespace or role is missing.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("cannot acquire lease {lease}: {code} {reason}: {message}; {}", remedy(*.code))]
#[non_exhaustive]
pub struct LeaseRefused {
    /// The lease, as `namespace/name`.
    pub lease: String,
    /// The HTTP status code of the answer.
    pub code: u16,
    /// The server's reason, such as `Forbidden`.
    pub reason: String,
    /// The server's message.
    pub message: String,
}

/// Status codes of permanent refusals.
const REFUSALS: [u16; 7] = [400, 401, 403, 404, 405, 406, 422];

impl LeaseError {
    /// The refusal, if this error is permanent.
    pub(crate) fn refusal(&self, lease: &str) -> Option<LeaseRefused> {
        let (Self::NotFound(status) | Self::Answered(status)) = self else { return None };
        REFUSALS.contains(&status.code).then(|| LeaseRefused {
            lease: lease.to_owned(),
            code: status.code,
            reason: status.reason.clone(),
            message: status.message.clone(),
        })
    }
}

fn remedy(code: u16) -> &'static str {
    match code {
        401 => "check the credentials",
        403 => "grant \"get\", \"create\" and \"update\" on leases.coordination.k8s.io",
        404 => "create the namespace, or name another",
        _ => "check the lease's name and namespace",
    }
}

// === impl Observed ===

impl Observed {
    /// Records a lease that was just read.
    pub(crate) fn observe(&mut self, lease: Lease) {
        self.observe_at(lease, Instant::now());
    }

    /// Records a lease that was read at this time.
    pub(crate) fn observe_at(&mut self, lease: Lease, read: Instant) {
        let unchanged = |known: &Lease| known.spec == lease.spec && known.metadata.uid == lease.metadata.uid;
        let since = match &self.seen {
            Some((known, since)) if unchanged(known) => *since,
            _ => read,
        };
        self.seen = Some((lease, since));
    }

    /// The lease as last read.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        self.seen.as_ref().map(|(lease, _)| lease)
    }

    /// Whether it can be taken: it has no holder, or its holder has not renewed it in time.
    pub(crate) fn is_free(&self) -> bool {
        let silent = |(lease, since): &(Lease, Instant)| {
            let divisor = if deliberate_bug("lease-taken-early") { 4 } else { 1 };
            since.elapsed() >= duration(lease) / divisor
        };
        self.holder().is_empty() || self.seen.as_ref().is_none_or(silent)
    }

    /// The holder when it was last read.
    pub(crate) fn holder(&self) -> &str {
        self.seen.as_ref().map_or("", |(lease, _)| holder(lease))
    }
}

// === a lease's content ===

/// The identity of the holder; empty if the lease is free.
pub(crate) fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

fn duration(lease: &Lease) -> Duration {
    let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

fn transitions(lease: &Lease) -> i32 {
    lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default()
}

/// The holder's token.
pub(crate) fn token(lease: &Lease) -> FencingToken {
    FencingToken {
        lease_uid: lease.metadata.uid.clone().unwrap_or_default(),
        transitions: transitions(lease),
        holder: holder(lease).to_owned(),
        slot: None,
    }
}

/// A lease that does not exist yet, held from the beginning.
pub(crate) fn new(name: &str, identity: &str, lasts: Duration, now: SystemTime) -> Lease {
    let spec = LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(seconds(lasts)),
        acquire_time: Some(micros(now)),
        renew_time: Some(micros(now)),
        lease_transitions: Some(0),
        ..LeaseSpec::default()
    };
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    Lease { metadata, spec: Some(spec) }
}

/// The lease after a takeover. The record always differs from the previous one, even if the same holder takes it again.
pub(crate) fn taken(lease: &Lease, identity: &str, lasts: Duration, now: SystemTime) -> Lease {
    let mut taken = lease.clone();
    let changes_hands = holder(lease) != identity;
    let renew_time = if changes_hands { micros(now) } else { after(lease, now) };
    let spec = taken.spec.get_or_insert_default();
    spec.lease_transitions = Some(transitions(lease).saturating_add(i32::from(changes_hands)));
    spec.holder_identity = Some(identity.to_owned());
    spec.lease_duration_seconds = Some(seconds(lasts));
    spec.acquire_time = Some(micros(now));
    spec.renew_time = Some(renew_time);
    taken
}

/// The lease after a renewal. The record always differs from the previous one, even if the clock has stopped: standbys recognise a
/// live leader by changes of its record.
pub(crate) fn renewed(lease: &Lease, lasts: Duration, now: SystemTime) -> Lease {
    let mut renewed = lease.clone();
    let renew_time = after(lease, now);
    let spec = renewed.spec.get_or_insert_default();
    spec.lease_duration_seconds = Some(seconds(lasts));
    spec.renew_time = Some(renew_time);
    renewed
}

/// The current time, or one microsecond after the last renewal if the clock has stopped or was set back.
fn after(lease: &Lease, now: SystemTime) -> MicroTime {
    let now = micros(now);
    let Some(MicroTime(last)) = lease.spec.as_ref().and_then(|spec| spec.renew_time.clone()) else {
        return now;
    };
    // A lease shows microseconds.
    if now.0.as_microsecond() > last.as_microsecond() {
        return now;
    }
    let next = Timestamp::from_microsecond(last.as_microsecond().saturating_add(1));
    // Past the last representable time, start again at the first.
    MicroTime(next.unwrap_or_default())
}

/// The lease after its release. The transitions stay, so that no token is repeated.
pub(crate) fn released(lease: &Lease, now: SystemTime) -> Lease {
    let mut released = lease.clone();
    let spec = released.spec.get_or_insert_default();
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    spec.acquire_time = Some(micros(now));
    spec.renew_time = Some(micros(now));
    released
}

/// Whole seconds, rounded up.
fn seconds(duration: Duration) -> i32 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    i32::try_from(seconds.max(1)).unwrap_or(i32::MAX)
}

fn micros(time: SystemTime) -> MicroTime {
    // A time after the year 9999 is written as 1970. This is harmless, because clocks are not compared.
    MicroTime(Timestamp::try_from(time).unwrap_or_default())
}

// === impl Leases ===

impl Leases {
    /// The storage of another lease in the same namespace.
    pub(crate) fn named(&self, name: String) -> Self {
        Self { name, ..self.clone() }
    }

    pub(crate) async fn get(&self) -> Result<Lease, LeaseError> {
        self.limited(self.api.get(&self.name)).await
    }

    pub(crate) async fn create(&self, lease: &Lease) -> Result<Lease, LeaseError> {
        self.limited(self.api.create(&PostParams::default(), lease)).await
    }

    /// Replaces a lease that was read. Fails with a conflict if it has changed since.
    pub(crate) async fn replace(&self, lease: &Lease) -> Result<Lease, LeaseError> {
        self.limited(self.api.replace(&self.name, &PostParams::default(), lease)).await
    }

    /// The server's current resourceVersion.
    pub(crate) async fn revision(&self) -> Result<String, LeaseError> {
        // Without a resourceVersion, the server answers from etcd.
        let one = ListParams::default().limit(1);
        let list = self.limited(self.api.list(&one)).await?;
        Ok(list.metadata.resource_version.unwrap_or_default())
    }

    async fn limited<T>(
        &self,
        request: impl Future<Output = Result<T, kube_client::Error>>,
    ) -> Result<T, LeaseError> {
        match timeout(self.request_max, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube_client::Error::Api(status))) => Err(match status.code {
                404 => LeaseError::NotFound(status),
                409 => LeaseError::Conflict,
                _ => LeaseError::Answered(status),
            }),
            Ok(Err(error)) => Err(LeaseError::Other(error)),
            Err(_) => Err(LeaseError::TimedOut(self.request_max)),
        }
    }
}
