//! One term of leadership, and the token that identifies it.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Identifies one term of leadership, or of the ownership of a slot, among all terms of all replicas, processes and incarnations
/// of the lease. Prints as `uid/transitions/holder`, or as `uid/slot/transitions/holder` for a slot.
///
/// Within one lease (`lease_uid`) and slot, a later term has higher `transitions`. A storage that remembers the highest value and
/// rejects lower ones is protected from writes of a replaced leader or owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct FencingToken {
    /// The uid of the lease, or of the lease that has the slot's record. If that lease is deleted and created again, `transitions`
    /// starts again, and the uid differs.
    pub lease_uid: String,
    /// How often the lease, or the slot, had changed hands.
    pub transitions: i32,
    /// The holder's identity. It is unique to this term, because a holder that takes its own lease again does not change
    /// `transitions`.
    pub holder: String,
    /// The slot, for replicas that [share](crate::ShardedLease) the work.
    pub slot: Option<u32>,
}

/// A term of leadership, or of the ownership of a slot. It lasts until it is lost or the work is finished. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Term(Arc<TermState>);

#[derive(Debug)]
struct TermState {
    token: FencingToken,
    lost: CancellationToken,
    valid_until: Validity,
}

/// Until this time no other replica can take the lease. The slots of a replica share one.
pub(crate) type Validity = Arc<Mutex<Instant>>;

impl Term {
    pub(super) fn new(token: FencingToken, valid_until: Instant) -> Self {
        Self::within(token, Arc::new(Mutex::new(valid_until)))
    }

    /// A term that is valid as long as others.
    pub(crate) fn within(token: FencingToken, valid_until: Validity) -> Self {
        Self(Arc::new(TermState { token, lost: CancellationToken::new(), valid_until }))
    }

    /// A term that lasts until [`end`](Self::end), for tests.
    #[cfg(feature = "testing")]
    pub(crate) fn for_test(transitions: i32) -> Self {
        let token =
            FencingToken { lease_uid: "test".to_owned(), transitions, holder: "test".to_owned(), slot: None };
        Self::new(token, Instant::now() + crate::LONGEST)
    }

    /// Whether both are the same term, rather than two with one token: a slot that is lost and regained keeps its token.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The token that identifies this term.
    pub fn token(&self) -> &FencingToken {
        &self.0.token
    }

    /// Whether the term lasts and no other replica can have taken the lease by now. Check this before an action that must not
    /// happen twice: the process may have been suspended meanwhile.
    pub fn is_current(&self) -> bool {
        !self.0.lost.is_cancelled() && Instant::now() < *self.0.valid_until.lock()
    }

    /// Waits until the term is lost. Work that does not end by itself is then cancelled.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn lost(&self) {
        self.0.lost.cancelled().await;
    }

    pub(super) fn prolong(&self, valid_until: Instant) {
        *self.0.valid_until.lock() = valid_until;
    }

    pub(crate) fn end(&self) {
        self.0.lost.cancel();
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.slot {
            Some(slot) => write!(f, "{}/{slot}/{}/{}", self.lease_uid, self.transitions, self.holder),
            None => write!(f, "{}/{}/{}", self.lease_uid, self.transitions, self.holder),
        }
    }
}
