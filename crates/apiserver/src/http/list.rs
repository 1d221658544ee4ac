//! GET on a collection: lists in all modes, and watches. DELETE on a collection.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use kube_wire::Encoding;

use super::accept::Representation;
use super::body::ApiBody;
use super::query::{ListOptions, VersionMatch, parse_revision};
use super::respond;
use super::service::RequestHead;
use super::status::Status;
use crate::api::Api;
use crate::codec::{ListBody, ListMeta};
use crate::faults::Fired;
use crate::objects::{DeleteOptions, Target, Writer};
use crate::resources::Resource;
use crate::selector::Selection;
use crate::storage::{ContinueToken, ListQuery};
use crate::watch::{Start, Watch, WatchRequest};

/// Serves a list.
pub(super) async fn list(
    api: &Arc<Api>,
    target: &Target,
    options: &ListOptions,
    representation: Representation,
) -> Result<Response<ApiBody>, Status> {
    let resource = &target.resource;
    let prefix = target.prefix();
    let selection =
        selection(api, resource, &options.label_selector, &options.field_selector, &options.shard_selector)?;
    let mut token = None;
    let mut limit = options.limit;
    let mut exact = None;
    if options.continue_token.is_empty() {
        let revision = parse_revision(&options.resource_version)
            .map_err(|error| Status::bad_request(format!("invalid resource version: {error}")))?;
        match (revision, options.version_match) {
            (None, _) => {}
            (Some(0), _) => limit = 0,
            (Some(revision), version_match) => {
                fresh(api, target, revision).await?;
                let exactly = match version_match {
                    Some(version_match) => version_match == VersionMatch::Exact,
                    None => limit > 0,
                };
                exact = exactly.then_some(revision);
            }
        }
    } else {
        if !matches!(options.resource_version.as_str(), "" | "0") {
            let message = "specifying resource version is not allowed when using continue";
            return Err(Status::bad_request(message));
        }
        let decoded = ContinueToken::decode(&options.continue_token)
            .map_err(|error| Status::bad_request(format!("invalid continue token: {error}")))?;
        if let Some(revision) = decoded.revision {
            fresh(api, target, revision).await?;
        }
        exact = decoded.revision;
        token = Some(decoded);
    }
    let start = token.as_ref().map(|token| token.start_key(&prefix)).unwrap_or_default();
    let matches = |object: &crate::storage::Stored| selection.matches(object);
    let filter: Option<&dyn Fn(&crate::storage::Stored) -> bool> =
        if selection.is_everything() { None } else { Some(&matches) };
    let counted = selection.is_any_content();
    let query = ListQuery { prefix: &prefix, start: &start, limit, at: exact, filter, counted };
    let page = api.storage.list(resource.collection, &query).map_err(|_| match &token {
        Some(token) => Status::expired_continue(token.inconsistent().encode()),
        None => Status::expired_list(),
    })?;
    let continue_token =
        page.more_after.as_ref().map(|last| ContinueToken::after(last, &prefix, page.revision));
    let meta = ListMeta {
        revision: page.revision,
        continue_token: continue_token.map(|token| token.encode()).unwrap_or_default(),
        remaining: page.remaining,
        shard: selection.shard().cloned(),
    };
    let body = ListBody::new(resource.clone(), representation, meta, page.objects);
    Ok(respond::answer(200, representation.encoding.media_type(), ApiBody::list(body)))
}

/// Serves a watch.
pub(super) fn watch(
    api: &Arc<Api>,
    target: &Target,
    options: &ListOptions,
    faults: &Fired,
    representation: Representation,
) -> Result<Response<ApiBody>, Status> {
    let resource = &target.resource;
    let mut fields = options.field_selector.clone();
    if !target.name.is_empty() {
        fields = format!("metadata.name={}", target.name);
    }
    let selection = selection(api, resource, &options.label_selector, &fields, &options.shard_selector)?;
    let revision = parse_revision(&options.resource_version).map_err(Status::internal)?.unwrap_or(0);
    let with_state = options.send_initial_events.unwrap_or(revision == 0);
    let start = match (with_state, revision) {
        (true, revision) => Start::State { not_older_than: revision },
        (false, 0) => Start::After(api.storage.revision(resource.collection)),
        (false, revision) => Start::After(revision),
    };
    let timeout = options.timeout_seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs);
    let min = api.options.watch_timeout_min;
    let request = WatchRequest {
        resource: resource.clone(),
        prefix: target.prefix(),
        selection,
        representation,
        bookmarks: options.bookmarks,
        skip_bookmarks: faults.skip_bookmarks,
        skip_initial_events_end: faults.skip_initial_events_end,
        timeout: timeout.unwrap_or_else(|| min + min.mul_f64(api.chance.unit())),
        start,
    };
    let content_type = watch_content_type(representation.encoding);
    Ok(respond::answer(200, content_type, ApiBody::watch(Watch::new(api.clone(), request))))
}

pub(super) fn watch_content_type(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Json => "application/json",
        Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
    }
}

/// Deletes all selected objects and returns the list of them as they were.
pub(super) fn delete(
    writer: &Writer<'_>,
    target: &Target,
    head: &RequestHead,
    options: &DeleteOptions,
    representation: Representation,
) -> Result<Response<ApiBody>, Status> {
    let resource = &target.resource;
    let [labels, fields, shard] =
        ["labelSelector", "fieldSelector", "shardSelector"].map(|name| head.query.text(name));
    let selection = selection(writer, resource, &labels, &fields, &shard)?;
    let (objects, revision) = writer.storage.all(resource.collection, &target.prefix());
    let objects: Vec<_> = objects.into_iter().filter(|object| selection.matches(object)).collect();
    let mut warnings = BTreeSet::new();
    for object in &objects {
        let (namespace, name) = resource.split_key(&object.key);
        let target = Target { namespace: namespace.to_owned(), ..target.named(name) };
        match writer.delete(&target, options) {
            Ok(outcome) => warnings.extend(outcome.warnings),
            // Another request deleted it first.
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    let meta = ListMeta { revision, shard: selection.shard().cloned(), ..ListMeta::default() };
    let body = ListBody::new(resource.clone(), representation, meta, objects);
    let mut response = respond::answer(200, representation.encoding.media_type(), ApiBody::list(body));
    warnings.iter().for_each(|warning| respond::warn(&mut response, warning));
    Ok(response)
}

/// The objects that a request selects. Ignores the shard selector if the server does not support it.
fn selection(
    api: &Api,
    resource: &Resource,
    labels: &str,
    fields: &str,
    shard: &str,
) -> Result<Selection, Status> {
    let shard = if api.options.sharded_list_and_watch { shard } else { "" };
    Selection::parse(resource, labels, fields, shard)
}

/// Waits until the collection has reached the revision, with a timeout.
pub(super) async fn fresh(api: &Arc<Api>, target: &Target, revision: u64) -> Result<(), Status> {
    let id = target.resource.collection;
    if api.storage.revision(id) >= revision {
        return Ok(());
    }
    let mut progress = api.storage.progress();
    let reached =
        std::future::poll_fn(|context| api.storage.poll_reached(id, revision, &mut progress, context));
    match tokio::time::timeout(api.options.fresh_wait, reached).await {
        Ok(()) => Ok(()),
        Err(_) => Err(Status::too_large_revision(revision, api.storage.revision(id))),
    }
}
