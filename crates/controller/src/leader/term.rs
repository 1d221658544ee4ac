//! One term of leadership, and the token that tells it from all others.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Tells one term of leadership from all others, of any replica, process or incarnation of the lease. Prints as
/// `uid/transitions/holder`.
///
/// Within one lease (`lease_uid`), a later term has higher `transitions`. A storage that remembers the highest it has seen,
/// and refuses less, cannot be written by a leader that does not know yet that it is none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct FencingToken {
    /// The lease's uid: one that was deleted and made anew counts its transitions from 0.
    pub lease_uid: String,
    /// How often the lease had changed hands.
    pub transitions: i32,
    /// Who holds it: unique to this term, because the same holder taking a lease again need not raise its transitions.
    pub holder: String,
}

/// A term of leadership, which lasts until it is lost or the work is finished. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Term(Arc<TermState>);

#[derive(Debug)]
struct TermState {
    token: FencingToken,
    lost: CancellationToken,
    /// Before this time nobody else can have taken the lease.
    valid_until: Mutex<Instant>,
}

impl Term {
    pub(super) fn new(token: FencingToken, valid_until: Instant) -> Self {
        Self(Arc::new(TermState {
            token,
            lost: CancellationToken::new(),
            valid_until: Mutex::new(valid_until),
        }))
    }

    /// What tells it from all other terms.
    pub fn token(&self) -> &FencingToken {
        &self.0.token
    }

    /// Whether it goes on, and nobody else can have taken the lease by now: to be asked before something that must not
    /// happen twice, as a process may have been suspended since.
    pub fn is_current(&self) -> bool {
        !self.0.lost.is_cancelled() && Instant::now() < *self.0.valid_until.lock()
    }

    /// Waits until it is lost. Work that does not end then is cut short.
    ///
    /// # Cancel safety
    /// May be dropped at any point.
    pub async fn lost(&self) {
        self.0.lost.cancelled().await;
    }

    pub(super) fn prolong(&self, valid_until: Instant) {
        *self.0.valid_until.lock() = valid_until;
    }

    pub(super) fn end(&self) {
        self.0.lost.cancel();
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.lease_uid, self.transitions, self.holder)
    }
}
