//! One object: its state, its recorded changes, and its values in the indexes.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use kube_informer::StoredObject;
use kube_informer::{Index, Key};
use kube_informer_controller::OWNER_INDEX;
use kube_wire::FieldPath;
use serde_json::{Value, json};

use super::histories::OBJECT_ENTRIES_MAX;
use super::listing::{check_synced, path_reader};
use super::params::Params;
use super::representation::Representation;
use super::{Refusal, Served, change, routes, shown};

/// The parts of a path: a resource, then `NAME` or `NAMESPACE/NAME`.
pub(super) struct Asked {
    pub(super) resource: String,
    pub(super) key: Key,
}

impl Asked {
    pub(super) fn new(parts: &[(String, String)]) -> Result<Self, Refusal> {
        let part = |at: usize| parts.get(at).map(|(_, value)| value.as_str());
        let (resource, key) = match (part(0), part(1), part(2)) {
            (Some(resource), Some(name), None) => (resource, Key::new("", name)),
            (Some(resource), Some(namespace), Some(name)) => (resource, Key::new(namespace, name)),
            _ => return Err(Refusal::bad_request("expected RESOURCE/NAME or RESOURCE/NAMESPACE/NAME")),
        };
        Ok(Self { resource: resource.to_owned(), key })
    }

    /// Returns the object and the number of its mirror. Refused while a mirror is not synced, because the object may still arrive.
    pub(super) fn find(&self, served: &Served) -> Result<(usize, StoredObject), Refusal> {
        let mirrors = served.mirrors_of(&self.resource)?;
        check_synced(&mirrors)?;
        let found = mirrors.iter().find_map(|(number, mirror)| {
            let view = mirror.informer.lister().view();
            Some((*number, view.snapshot().get(&self.key)?.clone()))
        });
        found.ok_or_else(|| Refusal::not_found(format!("no object {} {}", self.resource, self.key)))
    }
}

/// `GET /api/v1/objects/RESOURCE/[NAMESPACE/]NAME`
pub(super) async fn object(
    State(served): State<Arc<Served>>,
    Path(parts): Path<Vec<(String, String)>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let asked = Asked::new(&parts)?;
    let mut params = Params::parse(query.as_deref())?;
    let representation = Representation::take(&mut params, &headers)?;
    params.finish()?;
    let (_, object) = asked.find(&served)?;
    let text = representation.single(&shown::value(&object));
    Ok(([(CONTENT_TYPE, representation.content_type())], text).into_response())
}

/// `GET /api/v1/history/RESOURCE/[NAMESPACE/]NAME`: the recorded changes of an object, the newest first. Also for deleted
/// objects.
pub(super) async fn history(
    State(served): State<Arc<Served>>,
    Path(parts): Path<Vec<(String, String)>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let asked = Asked::new(&parts)?;
    let mut params = Params::parse(query.as_deref())?;
    let limit = params.number("limit", OBJECT_ENTRIES_MAX)?.unwrap_or(OBJECT_ENTRIES_MAX);
    params.finish()?;
    let mirrors = served.mirrors_of(&asked.resource)?;
    let mut histories = mirrors.iter().map(|(number, _)| served.journal.history(*number, &asked.key));
    // Objects that were selected by name have a mirror each.
    let first = histories.next().ok_or_else(|| served.not_mirrored(&asked.resource))?;
    let (entries, coverage) = if first.0.is_empty() {
        histories.find(|(entries, _)| !entries.is_empty()).unwrap_or(first)
    } else {
        first
    };
    let total = entries.len();
    let changes = change::compared(&served, move |served| {
        entries.iter().take(limit).map(|entry| change::render(served, entry)).collect::<Vec<_>>()
    });
    Ok(routes::json(&json!({
        "changes": changes.await?,
        "total": total,
        "completeSince": coverage.since.to_string(),
        "complete": coverage.from_start,
    })))
}

/// `GET /api/v1/indexes/RESOURCE/[NAMESPACE/]NAME`: the values of an object in each index of its mirror.
pub(super) async fn indexes(
    State(served): State<Arc<Served>>,
    Path(parts): Path<Vec<(String, String)>>,
) -> Result<Response, Refusal> {
    let asked = Asked::new(&parts)?;
    let (number, object) = asked.find(&served)?;
    let view = served.mirrors[number].informer.lister().view();
    let rows: Vec<_> = view.snapshot().indexes().map(|index| index_row(index, &object)).collect();
    Ok(routes::json(&json!({"indexes": rows})))
}

/// An index over a field is named after its path. A controller adds an index over owners.
fn index_row(index: &str, object: &StoredObject) -> Value {
    let mut values = Vec::new();
    if index == Index::namespace().as_ref() {
        values.push(object.namespace().to_owned());
    } else if index == OWNER_INDEX {
        values.extend(object.owners().map(|owner| owner.uid.into_owned()));
    } else if let Ok(path) = index.parse::<FieldPath>()
        && let Ok(reader) = path_reader(&path, object.type_meta())
    {
        // An object whose bytes cannot be read has no values.
        let _ = object.for_each_field(&reader, |value| values.extend(value.text().map(String::from)));
    }
    json!({"name": index, "values": values})
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::super::{COMPARISONS_MAX, testing};
    use super::*;

    #[tokio::test]
    async fn histories_wait_for_a_thread_to_compare_states_and_delay_nothing_else() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}});
        let (_server, served) = testing::config_maps(vec![map]).await;
        let path = || {
            let parts = [("resource", "configmaps"), ("first", "default"), ("second", "a")];
            Path(parts.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
        };
        let all = served.comparisons.acquire_many(COMPARISONS_MAX as u32).await.unwrap();
        let mut history = Box::pin(history(State(served.clone()), path(), RawQuery(None)));
        assert!((&mut history).now_or_never().is_none());
        let asked = object(State(served.clone()), path(), HeaderMap::new(), RawQuery(None));
        assert!(asked.now_or_never().is_some_and(|answer| answer.is_ok()));
        drop(all);
        assert!(history.await.is_ok());
    }
}
