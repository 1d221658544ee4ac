//! How many requests each client has made. Clients are identified by their user agent. The number of entries is bounded,
//! because a client chooses its user agent.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::faults::{RequestInfo, Verb};

/// Entries, at most; requests of further clients are counted together.
const ENTRIES_MAX: usize = 256;
/// The user agent under which they are counted.
const OTHERS: &str = "others";
/// Characters of a user agent that are kept.
const USER_AGENT_CHARS_MAX: usize = 120;

/// Requests of one client. See [`Server::requests`](crate::Server::requests).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestCount {
    /// The header; empty if the client sends none.
    pub user_agent: String,
    /// What they do; `None` for discovery, health and the like.
    pub verb: Option<Verb>,
    /// How many came.
    pub requests: u64,
}

/// The counts so far.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<HashMap<(String, Option<Verb>), u64>>);

impl Tally {
    pub(super) fn count(&self, request: &RequestInfo) {
        let user_agent: String = request.user_agent.chars().take(USER_AGENT_CHARS_MAX).collect();
        let mut counts = self.0.lock();
        let key = (user_agent, request.verb);
        let is_full = counts.len() >= ENTRIES_MAX && !counts.contains_key(&key);
        let key = if is_full { (OTHERS.to_owned(), request.verb) } else { key };
        *counts.entry(key).or_default() += 1;
    }

    /// The most frequent first.
    pub(crate) fn report(&self) -> Vec<RequestCount> {
        let counts = self.0.lock();
        let mut report: Vec<_> = counts
            .iter()
            .map(|((user_agent, verb), requests)| RequestCount {
                user_agent: user_agent.clone(),
                verb: *verb,
                requests: *requests,
            })
            .collect();
        report.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.user_agent.cmp(&b.user_agent)));
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_client_and_verb_and_the_number_of_clients_is_bounded() {
        let tally = Tally::default();
        let request = |user_agent: &str, verb| RequestInfo {
            user_agent: user_agent.to_owned(),
            verb,
            ..RequestInfo::default()
        };
        tally.count(&request("kubectl", Some(Verb::List)));
        tally.count(&request("kubectl", Some(Verb::List)));
        tally.count(&request("kubectl", None));
        let first = &tally.report()[0];
        assert_eq!((&*first.user_agent, first.verb, first.requests), ("kubectl", Some(Verb::List), 2));
        for number in 0..2 * ENTRIES_MAX {
            tally.count(&request(&format!("{number}{}", "x".repeat(1000)), None));
        }
        let report = tally.report();
        assert!(report.len() <= ENTRIES_MAX + 1);
        assert!(report.iter().all(|count| count.user_agent.len() <= USER_AGENT_CHARS_MAX));
        assert_eq!(report.iter().map(|count| count.requests).sum::<u64>(), 3 + 2 * ENTRIES_MAX as u64);
    }
}
