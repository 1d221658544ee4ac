//! Leader election on a `Lease`: one of several replicas works, and another takes over when it stops renewing.
//!
//! The rules are client-go's, so Go and Rust replicas can compete for the same lease:
//!
//! - The leader renews the lease every *retry period*. If no renewal succeeds within the *renew deadline*, counted from when
//!   the last successful write was **sent**, its work is cancelled.
//! - A standby reads the lease every 1 to 2.2 retry periods. It takes the lease when the content has not changed, as observed
//!   locally, for the duration stated in the **record**; clocks of different replicas are never compared. A lease without a
//!   holder is taken immediately. Failover therefore takes at most lease + 4.4 × retry from the last renewal.
//! - The renew deadline is shorter than the lease, so the old leader's work has ended before the new leader's begins.
//!
//! In addition, each term of leadership has a unique [`FencingToken`], and only its holder releases a lease.

mod election;
pub(crate) mod record;
mod status;
mod term;

pub use election::{LeaderElection, LeaseTiming, Outcome};
pub use record::LeaseRefused;
#[cfg(feature = "metrics")]
pub use status::LeaderMetrics;
pub use status::LeaderProbe;
pub(crate) use term::Validity;
pub use term::{FencingToken, Term};
