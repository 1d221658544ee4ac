//! `GET /api/v1/objects/RESOURCE`: the objects of a kind, streamed one by one from a snapshot.
//!
//! Without `limit`, the response has all of them in no particular order, and memory does not depend on their number. With `limit`
//! and `offset`, it has one page, sorted by namespace and name; only the keys of the selected objects are compared.
//! With `column`, each item is the key and the named fields, read from the bytes.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use kube_informer::StoredObject;
use kube_wire::path::PathReader;
use kube_wire::{FieldPath, TypeMeta};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::body::{Chunks, ReadTime, body};
use super::params::Params;
use super::representation::Representation;
use super::selection::Selection;
use super::{Refusal, Served, check_field, scopes, shown};
use crate::mirror::Mirror;

/// Most objects of one page.
const LIMIT_MAX: usize = 10_000;
/// Most objects that can be skipped: more than any mirror holds.
const OFFSET_MAX: usize = 100_000_000;
/// Most columns of one request.
const COLUMNS_MAX: usize = 16;
/// Most values of one field that are shown.
const CELL_VALUES_MAX: usize = 16;
/// Minimum size of a chunk. The last one may be smaller, and so may one whose objects took long to find.
const CHUNK_BYTES: usize = 32 << 10;
/// Objects that are tested before other tasks run.
const BATCH_OBJECTS: usize = 256;
/// How long a client may take to read a response. The response holds a snapshot meanwhile.
const READ_TIME_MAX: Duration = Duration::from_secs(300);

/// The items of a response: whole objects, or columns of them.
enum AnswerItems {
    Objects,
    Columns(Vec<FieldPath>),
}

/// A response that is being written.
struct ObjectAnswer {
    objects: Box<dyn Iterator<Item = StoredObject> + Send>,
    type_meta: TypeMeta,
    selection: Selection,
    items: AnswerItems,
    representation: Representation,
    resource_version: String,
    /// Objects after this page, if there is a page.
    remaining: Option<usize>,
    written: usize,
    state: ListingState,
    _permit: OwnedSemaphorePermit,
}

#[derive(PartialEq)]
enum ListingState {
    Head,
    Items,
    End,
}

pub(super) async fn list(
    State(served): State<Arc<Served>>,
    Path(resource): Path<String>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let mirrors = served.mirrors_of(&resource)?;
    let mut params = Params::parse(query.as_deref())?;
    let selection = Selection::take(&mut params, &mirrors)?;
    let representation = Representation::take(&mut params, &headers)?;
    let items = AnswerItems::take(&mut params, &mirrors)?;
    let limit = params.number("limit", LIMIT_MAX)?;
    let offset = params.number("offset", OFFSET_MAX)?;
    params.finish()?;
    let permit = read_permit(&served)?;
    check_synced(&mirrors)?;

    let snapshots: Vec<_> =
        mirrors.iter().map(|(_, mirror)| mirror.informer.lister().view().snapshot().clone()).collect();
    // With several namespaces or names, everything up to the oldest version is complete.
    let versions = mirrors.iter().zip(&snapshots);
    let versions: Vec<_> =
        versions.map(|((_, mirror), snapshot)| scopes::stored_version(mirror, snapshot)).collect();
    let resource_version = scopes::oldest(versions.iter().map(String::as_str)).to_owned();
    let candidates = snapshots.iter().map(|snapshot| selection.candidates(snapshot));
    let candidates = candidates.collect::<Result<Vec<_>, _>>()?.into_iter().flatten();
    let mut listing = ObjectAnswer {
        objects: Box::new(candidates),
        type_meta: mirrors[0].1.selected.kind.resource.type_meta(),
        selection,
        items,
        representation,
        resource_version,
        remaining: None,
        written: 0,
        state: ListingState::Head,
        _permit: permit,
    };
    if limit.is_some() || offset.is_some() {
        let page = tokio::task::spawn_blocking(move || {
            listing.keep_page(offset.unwrap_or(0), limit.unwrap_or(LIMIT_MAX))?;
            Ok::<_, Refusal>(listing)
        });
        listing = page.await.map_err(|_| Refusal::unavailable("the request was cancelled"))??;
    }
    let content_type = listing.representation.content_type();
    Ok(([(CONTENT_TYPE, content_type)], body(listing, ReadTime::Body(READ_TIME_MAX))).into_response())
}

/// A permit to read many objects.
pub(super) fn read_permit(served: &Served) -> Result<OwnedSemaphorePermit, Refusal> {
    served.reads.clone().try_acquire_owned().map_err(|_| {
        Refusal::unavailable(format!("{} requests are read already: try again", super::READS_MAX))
    })
}

/// Refuses requests to mirrors that are not synced: they must not look like an empty cluster.
pub(super) fn check_synced(mirrors: &[(usize, &Mirror)]) -> Result<(), Refusal> {
    match mirrors.iter().find(|(_, mirror)| !mirror.informer.is_synced()) {
        None => Ok(()),
        Some((_, mirror)) => Err(Refusal::unavailable(format!(
            "{} are not synced yet: try again",
            mirror.selected.kind.qualified()
        ))),
    }
}

/// Parses field paths, and refuses those that a mirror does not allow.
pub(super) fn parse_paths(texts: &[String], mirrors: &[(usize, &Mirror)]) -> Result<Vec<FieldPath>, Refusal> {
    let mut paths = Vec::new();
    for text in texts {
        let path: FieldPath =
            text.parse().map_err(|error: kube_wire::Error| Refusal::bad_request(error.to_string()))?;
        for (_, mirror) in mirrors {
            check_field(mirror, &path.to_string())?;
            path_reader(&path, &mirror.selected.kind.resource.type_meta())?;
        }
        paths.push(path);
    }
    Ok(paths)
}

pub(super) fn path_reader(path: &FieldPath, type_meta: &TypeMeta) -> Result<PathReader, Refusal> {
    PathReader::new(path, type_meta).map_err(|error| Refusal::bad_request(error.to_string()))
}

impl AnswerItems {
    fn take(params: &mut Params, mirrors: &[(usize, &Mirror)]) -> Result<Self, Refusal> {
        let texts = params.all("column");
        if texts.len() > COLUMNS_MAX {
            return Err(Refusal::bad_request(format!("more than {COLUMNS_MAX} columns")));
        }
        let paths = parse_paths(&texts, mirrors)?;
        Ok(if paths.is_empty() { Self::Objects } else { Self::Columns(paths) })
    }
}

impl ObjectAnswer {
    /// Keeps one page of the selected objects, by namespace and name.
    fn keep_page(&mut self, offset: usize, limit: usize) -> Result<(), Refusal> {
        let selector = self.selection.selector(&self.type_meta)?;
        let mut selected: Vec<_> = self.objects.by_ref().filter(|object| selector.selects(object)).collect();
        let order =
            |a: &StoredObject, b: &StoredObject| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name()));
        let (start, end) = (offset.min(selected.len()), offset.saturating_add(limit).min(selected.len()));
        self.remaining = Some(selected.len() - end);
        // Only the page is sorted.
        if end < selected.len() {
            selected.select_nth_unstable_by(end, order);
            selected.truncate(end);
        }
        if start > 0 && start < selected.len() {
            selected.select_nth_unstable_by(start, order);
        }
        let mut page = selected.split_off(start);
        page.sort_unstable_by(order);
        self.objects = Box::new(page.into_iter());
        // The page has only selected objects: do not test them again.
        self.selection = Selection::default();
        Ok(())
    }

    fn write_head(&self, text: &mut String) {
        if self.representation != Representation::Json {
            return;
        }
        let mut metadata = json!({"resourceVersion": self.resource_version});
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        text.push_str(&format!(r#"{{"apiVersion":"v1","kind":"List","metadata":{metadata},"items":["#));
    }

    /// Tests the next few objects, and writes the selected ones.
    fn write_batch(&mut self, text: &mut String) {
        // Cannot fail: the selection was checked for this type.
        let Ok(selector) = self.selection.selector(&self.type_meta) else { return };
        let readers: Vec<_> = match &self.items {
            AnswerItems::Objects => Vec::new(),
            AnswerItems::Columns(paths) => {
                paths.iter().filter_map(|path| path_reader(path, &self.type_meta).ok()).collect()
            }
        };
        for _ in 0..BATCH_OBJECTS {
            if text.len() >= CHUNK_BYTES {
                return;
            }
            let Some(object) = self.objects.next() else {
                self.state = ListingState::End;
                if self.representation == Representation::Json {
                    text.push_str("\n]}\n");
                }
                return;
            };
            if !selector.selects(&object) {
                continue;
            }
            let value = match &self.items {
                AnswerItems::Objects => shown::value(&object),
                AnswerItems::Columns(_) => columns(&object, &readers),
            };
            self.representation.write(&value, self.written == 0, text);
            self.written += 1;
        }
    }
}

impl Chunks for ObjectAnswer {
    async fn next_chunk(&mut self) -> Option<Bytes> {
        if self.state == ListingState::End {
            return None;
        }
        let mut text = String::new();
        if self.state == ListingState::Head {
            self.write_head(&mut text);
            self.state = ListingState::Items;
        }
        while self.state == ListingState::Items && text.len() < CHUNK_BYTES {
            self.write_batch(&mut text);
            tokio::task::yield_now().await;
        }
        Some(text.into())
    }
}

/// The key of an object, and the values of its fields.
fn columns(object: &StoredObject, readers: &[PathReader]) -> Value {
    let cells = readers.iter().map(|reader| {
        let mut values = Vec::new();
        // An object whose bytes cannot be read has no values.
        let _ = object.for_each_field(reader, |value| {
            if values.len() < CELL_VALUES_MAX {
                values.extend(value.text().map(|text| Value::from(text.into_owned())));
            }
        });
        match values.len() {
            0 => Value::Null,
            1 => values.remove(0),
            _ => values.into(),
        }
    });
    json!({
        "namespace": object.namespace(),
        "name": object.name(),
        "resourceVersion": object.resource_version(),
        "columns": cells.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::super::{READS_MAX, testing};
    use super::*;

    #[tokio::test]
    async fn a_list_that_is_not_read_within_five_minutes_frees_its_snapshot() {
        let map = |number| {
            let metadata = json!({"name": format!("map-{number}"), "namespace": "default"});
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "x".repeat(20_000)}})
        };
        let (_server, served) = testing::config_maps((0..20).map(map).collect()).await;
        tokio::time::pause();
        let asked = (State(served.clone()), Path("configmaps".to_owned()), HeaderMap::new(), RawQuery(None));
        let response = list(asked.0, asked.1, asked.2, asked.3).await.unwrap();
        let mut body = response.into_body().into_data_stream();
        assert!(body.next().await.unwrap().unwrap().starts_with(b"{\"apiVersion\":\"v1\""));
        tokio::time::sleep(Duration::from_secs(299)).await;
        assert_eq!(served.reads.available_permits(), READS_MAX - 1, "the client still has a second");
        let all = served.reads.acquire_many(READS_MAX as u32);
        assert!(tokio::time::timeout(Duration::from_secs(2), all).await.is_ok(), "the permit is held");
        // A truncated response must not look complete.
        let mut rest = body.take_while(|chunk| std::future::ready(chunk.is_ok()));
        while let Some(chunk) = rest.next().await {
            assert!(!chunk.unwrap().ends_with(b"]}\n"));
        }
    }
}
