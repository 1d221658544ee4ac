//! One change as JSON, with its differences: for the stream, for the history of an object, and in detail.
//!
//! Changes of one object can be coalesced: the result has the first state before and the last state after.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use kube_informer::StoredObject;
use serde_json::{Value, json};

use super::journal::{JournalEntry, RecordedChange};
use super::params::Params;
use super::{Refusal, Served, routes};
use crate::changes::{self, ChangeDetail, Difference};
use crate::masks;
use crate::output::EventType;

/// The limits in lists of changes and, below, for one change in detail.
pub(super) const SUMMARY: DifferenceLimits =
    DifferenceLimits { count: 8, path_chars: 160, segments_bytes: 0, detail: ChangeDetail::SHORT };
const DETAIL: DifferenceLimits =
    DifferenceLimits { count: 500, path_chars: 1000, segments_bytes: 4000, detail: ChangeDetail::LONG };

/// The maximum number of differences to show of one change, the maximum length of a path, and the detail of each value.
#[derive(Clone, Copy)]
pub(super) struct DifferenceLimits {
    count: usize,
    path_chars: usize,
    /// Segments that are longer in total are omitted: a shortened segment could be that of another field.
    segments_bytes: usize,
    detail: ChangeDetail,
}

/// Several changes of one object, coalesced into one.
pub(super) struct Coalesced {
    first: Arc<JournalEntry>,
    pub(super) last: Arc<JournalEntry>,
    pub(super) count: usize,
}

/// `GET /api/v1/changes/ID`: one change of the journal with its differences. With `first`, the changes of the same object
/// since that number are coalesced into it, as the stream does.
pub(super) async fn change(
    State(served): State<Arc<Served>>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let mut params = Params::parse(query.as_deref())?;
    let first = params.number("first", usize::MAX)?.map(|first| first as u64);
    params.finish()?;
    let journal = &served.journal;
    let missing = || Refusal::not_found(format!("no change {id}: it was dropped, or never recorded"));
    let (session, sequence) = id.split_once('-').ok_or_else(missing)?;
    let last = sequence.parse().ok().filter(|_| session == journal.session());
    let last = last.and_then(|last| journal.entry(last)).ok_or_else(missing)?;
    let first = journal.entry(first.unwrap_or(last.sequence)).ok_or_else(missing)?;
    if identity(&first) != identity(&last) || first.sequence > last.sequence {
        return Err(Refusal::bad_request("first is not an earlier change of the same object"));
    }
    let count = journal.count_between(&first, &last);
    let change = Coalesced { first, last, count };
    Ok(routes::json(&compared(&served, move |served| change.render(served, DETAIL)).await?))
}

/// Compares states of objects on another thread: large objects take a while, and other requests must not wait for them.
pub(super) async fn compared<T: Send + 'static>(
    served: &Arc<Served>,
    compare: impl FnOnce(&Served) -> T + Send + 'static,
) -> Result<T, Refusal> {
    let cancelled = || Refusal::unavailable("the request was cancelled");
    let permit = served.comparisons.clone().acquire_owned().await.map_err(|_| cancelled())?;
    let served = served.clone();
    let compared = tokio::task::spawn_blocking(move || {
        let result = compare(&served);
        drop(permit);
        result
    });
    compared.await.map_err(|_| cancelled())
}

/// One change as JSON.
pub(super) fn render(served: &Served, entry: &Arc<JournalEntry>) -> Value {
    Coalesced::one(entry.clone()).render(served, SUMMARY)
}

// === impl Coalesced ===

impl Coalesced {
    pub(super) fn one(entry: Arc<JournalEntry>) -> Self {
        Self { first: entry.clone(), last: entry, count: 1 }
    }

    pub(super) fn render(&self, served: &Served, limits: DifferenceLimits) -> Value {
        let (first, last) = (&*self.first, &*self.last);
        let object = last.change.object();
        let kind = &served.mirrors[last.mirror].selected.kind;
        let (event_type, note) = match &last.change {
            RecordedChange::Deleted { final_state_known: false, .. } => {
                (EventType::Deleted, Some("deleted; its final state is unknown"))
            }
            RecordedChange::Deleted { .. } => (EventType::Deleted, None),
            _ if first.change.old().is_none() => (EventType::Added, None),
            _ if last.relisted => (EventType::Relisted, None),
            _ => (EventType::Modified, None),
        };
        let compared = match (event_type, first.change.old()) {
            (EventType::Modified | EventType::Relisted, Some(old)) => differences(old, object, limits.detail),
            _ => Vec::new(),
        };
        let shown = compared.iter().take(limits.count);
        let shown: Vec<_> = shown.map(|found| difference(found, limits)).collect();
        json!({
            "id": format!("{}-{}", served.journal.session(), last.sequence),
            "sequence": last.sequence,
            "first": first.sequence,
            "time": last.at.as_millisecond(),
            "type": event_type.name(),
            "resource": kind.qualified(),
            "kind": kind.resource.kind,
            "namespace": object.namespace(),
            "name": object.name(),
            "resourceVersion": object.resource_version(),
            "differences": shown,
            "more": compared.len().saturating_sub(limits.count),
            "coalesced": self.count,
            "note": note,
        })
    }
}

/// The mirror, key and uid of a change's object. An object that was deleted and created again has another uid: it is another object.
fn identity(entry: &JournalEntry) -> (usize, String, String) {
    let object = entry.change.object();
    (entry.mirror, object.key().as_str().to_owned(), object.uid().to_owned())
}

/// Coalesces changes per object if there are more than `single_max`. The result is in the order of each object's last change.
pub(super) fn coalesce(entries: Vec<Arc<JournalEntry>>, single_max: usize) -> Vec<Coalesced> {
    if entries.len() <= single_max {
        return entries.into_iter().map(Coalesced::one).collect();
    }
    let mut changes = HashMap::<_, Coalesced>::new();
    for entry in entries {
        let identity = identity(&entry);
        match changes.get_mut(&identity) {
            Some(change) => (change.last, change.count) = (entry, change.count + 1),
            None => drop(changes.insert(identity, Coalesced::one(entry))),
        }
    }
    let mut changes: Vec<_> = changes.into_values().collect();
    changes.sort_unstable_by_key(|change| change.last.sequence);
    changes
}

fn differences(old: &StoredObject, new: &StoredObject, detail: ChangeDetail) -> Vec<Difference> {
    match (old.decode::<Value>(), new.decode::<Value>()) {
        (Ok(old), Ok(new)) => changes::differences(&old, &new, detail),
        _ => Vec::new(),
    }
}

fn difference(difference: &Difference, limits: DifferenceLimits) -> Value {
    let mut path = difference.path.as_str();
    let is_masked = masks::is_last_applied(path);
    if let Some((end, _)) = path.char_indices().nth(limits.path_chars) {
        path = &path[..end];
    }
    let mut shown = json!({"path": path});
    if difference.segments.iter().map(String::len).sum::<usize>() <= limits.segments_bytes {
        shown["segments"] = json!(difference.segments);
    }
    for (name, text) in [("before", &difference.before), ("after", &difference.after)] {
        // Omit the side that does not have the field.
        if !text.is_empty() {
            shown[name] = if is_masked { masks::MASK.into() } else { text.as_str().into() };
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kube_informer::Scope;
    use kube_wire::{Encoding, Limits, ObjectReader, Projection};

    use super::*;

    /// A ConfigMap of which all objects have the same key.
    fn object(uid: &str, version: u64) -> StoredObject {
        let json = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "a", "name": "b", "uid": uid, "resourceVersion": version.to_string()}});
        let mut reader = ObjectReader::new(Projection::default(), Limits::default());
        let object = reader.read(json.to_string().as_bytes(), Encoding::Json, None).unwrap();
        StoredObject::new(Scope::default(), object).unwrap()
    }

    #[test]
    fn changes_of_an_object_and_of_its_successor_are_not_merged() {
        let changes = [
            RecordedChange::Updated { old: object("first", 1), new: object("first", 2) },
            RecordedChange::Updated { old: object("first", 2), new: object("first", 3) },
            RecordedChange::Deleted { last: object("first", 3), final_state_known: true },
            RecordedChange::Added(object("second", 4)),
            RecordedChange::Updated { old: object("second", 4), new: object("second", 5) },
        ];
        let entry = |(change, sequence)| {
            Arc::new(JournalEntry { sequence, at: Timestamp::now(), mirror: 0, change, relisted: false })
        };
        let entries = changes.into_iter().zip(1..).map(entry).collect();
        let merged = coalesce(entries, 1);
        let numbers: Vec<_> =
            merged.iter().map(|one| (one.first.sequence, one.last.sequence, one.count)).collect();
        assert_eq!(numbers, [(1, 3, 3), (4, 5, 2)]);
    }

    #[test]
    fn kubectls_copy_is_masked_in_differences_of_any_kind() {
        let path = "metadata.annotations.kubectl.kubernetes.io/last-applied-configuration".to_owned();
        let shown = Difference {
            path: path.clone(),
            segments: vec!["metadata".into()],
            before: String::new(),
            after: "{\"data\"".into(),
        };
        let shown = difference(&shown, SUMMARY);
        assert_eq!(shown, json!({"path": path, "after": "***"}));
    }

    #[test]
    fn segments_are_complete_or_omitted() {
        let with = |name: String| {
            let segments = vec!["metadata".into(), "labels".into(), name];
            let found = Difference { path: "p".into(), segments, before: String::new(), after: "x".into() };
            difference(&found, DETAIL)["segments"].clone()
        };
        let long = "x".repeat(DETAIL.path_chars);
        assert_eq!(with(long.clone()), json!(["metadata", "labels", long]));
        assert_eq!(with("x".repeat(DETAIL.segments_bytes)), Value::Null);
    }
}
