//! Leader election on a `Lease`: of several replicas one works, and another takes over when it falls silent.
//!
//! The rules are client-go's, so that replicas in Go and in Rust can stand for the same lease:
//!
//! - Whoever holds the lease writes it anew every *retry period*. If it has not succeeded for the *renew deadline*, counted
//!   from when the last successful write was **sent**, its work is cut short.
//! - Whoever does not looks at it every 1 to 2.2 retry periods, and takes it when its content has not changed, as seen
//!   here, for as long as the **record** says it lasts; nobody's clock is compared with anybody else's. An empty holder is
//!   succeeded at once. So failover takes at most lease + 4.4 × retry from the last renewal.
//! - Since the renew deadline is shorter than the lease, the work of the one has ended before the other's begins.
//!
//! What goes beyond them: each term of leadership has a [`FencingToken`] that no other term ever has, and the lease is
//! released only by the one that holds it.

mod election;
mod record;
mod status;
mod term;

pub use election::{LeaderElection, LeaseTiming, Outcome};
pub use record::LeaseRefused;
#[cfg(feature = "metrics")]
pub use status::LeaderMetrics;
pub use status::LeaderProbe;
pub use term::{FencingToken, Term};
