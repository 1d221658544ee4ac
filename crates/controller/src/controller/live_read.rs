//! Settles writes whose outcome is unknown: reads the live state, and expects the cache to catch up with it.
//!
//! A worker does this before it reconciles the key again. The key then waits for the cache, as after any other write.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::time::Duration;

use http::Request;
use kube_client::Client;
use kube_core::metadata::PartialObjectMeta;
use kube_core::params::{GetParams, ListParams};
use kube_core::request::Request as ApiRequest;
use kube_core::{ObjectList, ObjectMeta};
use kube_informer::Key;
use kube_informer::internals::compare_resource_versions;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::expect::{Named, last_known};
use super::request::WriteTarget;
use super::tools::Tools;
use super::unsettled::{Absent, UnsettledWrite};

/// The time limit of one read.
const READ_MAX: Duration = Duration::from_secs(10);

/// Objects per page when a collection is read.
const PAGE_OBJECTS: u32 = 500;

/// Why the live state could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("cannot read {path}: {source}")]
    Failed { path: String, source: kube_client::Error },
    #[error("timed out after {READ_MAX:?} reading {0}")]
    TimedOut(String),
}

impl Tools {
    /// Reads the outcome of every unknown write of `key`. Returns `false` while an object that a read did not find may still appear
    /// in the cache: the cache must first reach the resourceVersion of that read.
    pub(super) async fn settle_writes(&self, key: &Key) -> Result<bool, ReadError> {
        let writes = &self.intake.writes;
        let mut is_settled = true;
        for write in writes.unsettled.of(key) {
            let target = &write.target;
            let absent = match (write.absent.clone(), &self.client) {
                (Some(absent), _) => Some(absent),
                (None, Some(client)) => {
                    let revision = self.settle_write(client, key, &write).await?;
                    revision.map(|revision| writes.unsettled.absent(key, target, revision))
                }
                // Cannot happen: only a controller with a client has unknown writes.
                (None, None) => None,
            };
            let waits = |absent: Absent| {
                Instant::now() < absent.until && !self.has_reached(&Named::of(target), &absent.revision)
            };
            if absent.is_some_and(waits) {
                is_settled = false;
            } else {
                writes.unsettled.settled(key, target);
            }
        }
        Ok(is_settled)
    }

    /// Reads the live state, and defers the key until the cache has it. Returns a resourceVersion that the cache must reach in
    /// addition, if there may be deleted objects that the cache has not received.
    async fn settle_write(
        &self,
        client: &Client,
        key: &Key,
        write: &UnsettledWrite,
    ) -> Result<Option<String>, ReadError> {
        match &write.target.name {
            None => self.settle_collection(client, key, write).await,
            Some(name) => self.settle_object(client, key, write, name).await,
        }
    }

    async fn settle_object(
        &self,
        client: &Client,
        key: &Key,
        write: &UnsettledWrite,
        name: &str,
    ) -> Result<Option<String>, ReadError> {
        let target = &write.target;
        let (found, revision) = match write.may_have_deleted {
            true => read_listed(client, target, name).await?,
            false => (read_object(client, target, name).await?, None),
        };
        let named = Named::of(target);
        match found {
            Found::Object(meta) => drop(self.expect(key, &named, &meta, false)),
            Found::Nothing => {
                for meta in self.known(key, target) {
                    self.expect(key, &named, &meta, true);
                }
                return Ok(revision);
            }
            Found::Refused => {}
        }
        Ok(None)
    }

    /// As `settle_write`, for a collection: defers the key until the cache has every live object and no other.
    async fn settle_collection(
        &self,
        client: &Client,
        key: &Key,
        write: &UnsettledWrite,
    ) -> Result<Option<String>, ReadError> {
        let (target, named) = (&write.target, Named::of(&write.target));
        let mut live = HashSet::new();
        let mut params = ListParams::default().limit(PAGE_OBJECTS);
        let revision = loop {
            let request = ApiRequest::new(&target.path).list_metadata(&params);
            let Found::Object(page) = read::<ObjectList<PartialObjectMeta>>(client, target, request).await?
            else {
                return Ok(None);
            };
            for object in page.items {
                self.expect(key, &named, &object.metadata, false);
                live.extend(object.metadata.uid);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break page.metadata.resource_version.unwrap_or_default(),
            }
        };
        let is_live = |meta: &ObjectMeta| meta.uid.as_ref().is_some_and(|uid| live.contains(uid));
        // A cached object that is newer than the list was not deleted.
        let is_newer = |meta: &ObjectMeta| {
            let version = meta.resource_version.as_deref().unwrap_or_default();
            compare_resource_versions(version, &revision) == Some(Ordering::Greater)
        };
        let cached = self.cached(&named, target.namespace.as_deref());
        let missing = write.deleted.iter().chain(cached.iter().filter(|meta| !is_newer(meta)));
        for meta in missing.filter(|meta| !is_live(meta)) {
            self.expect(key, &named, meta, true);
        }
        let in_namespace =
            |object: &Key| target.namespace.as_ref().is_none_or(|namespace| object.namespace() == namespace);
        for (object, uid) in self.expected(key, &named) {
            if in_namespace(&object) && !live.contains(&uid) {
                self.expect(key, &named, &last_known(&object, uid), true);
            }
        }
        Ok(write.may_have_deleted.then_some(revision))
    }
}

/// The answer to a read.
enum Found<T> {
    Object(T),
    Nothing,
    /// The account is not allowed to read it.
    Refused,
}

async fn read_object(
    client: &Client,
    target: &WriteTarget,
    name: &str,
) -> Result<Found<ObjectMeta>, ReadError> {
    let request = ApiRequest::new(&target.path).get_metadata(name, &GetParams::default());
    let found = read::<PartialObjectMeta>(client, target, request).await?;
    Ok(match found {
        Found::Object(object) => Found::Object(object.metadata),
        Found::Nothing => Found::Nothing,
        Found::Refused => Found::Refused,
    })
}

/// Reads an object with a list, which has the server's resourceVersion even if there is no object. An account that may not list
/// reads the object.
async fn read_listed(
    client: &Client,
    target: &WriteTarget,
    name: &str,
) -> Result<(Found<ObjectMeta>, Option<String>), ReadError> {
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let request = ApiRequest::new(&target.path).list_metadata(&params);
    match read::<ObjectList<PartialObjectMeta>>(client, target, request).await? {
        Found::Object(page) => {
            let found = page.items.into_iter().next();
            let found = found.map_or(Found::Nothing, |object| Found::Object(object.metadata));
            Ok((found, page.metadata.resource_version))
        }
        Found::Nothing => Ok((Found::Nothing, None)),
        Found::Refused => Ok((read_object(client, target, name).await?, None)),
    }
}

async fn read<T: DeserializeOwned>(
    client: &Client,
    target: &WriteTarget,
    request: Result<Request<Vec<u8>>, kube_core::request::Error>,
) -> Result<Found<T>, ReadError> {
    let path = || format!("{}/{}", target.path, target.name.as_deref().unwrap_or_default());
    let failed = |source| ReadError::Failed { path: path(), source };
    let request = request.map_err(|error| failed(kube_client::Error::BuildRequest(error)))?;
    match tokio::time::timeout(READ_MAX, client.request::<T>(request)).await {
        Ok(Ok(object)) => Ok(Found::Object(object)),
        Ok(Err(kube_client::Error::Api(status))) if status.code == 404 => Ok(Found::Nothing),
        // Not 401: credentials that have expired are replaced, and the read is repeated.
        Ok(Err(kube_client::Error::Api(status))) if matches!(status.code, 403 | 405) => {
            let error = crate::error::words(&status);
            tracing::warn!(
                path = path(),
                error,
                "cannot find out whether a write succeeded; grant \"get\" and \"list\""
            );
            Ok(Found::Refused)
        }
        Ok(Err(source)) => Err(failed(source)),
        Err(_) => Err(ReadError::TimedOut(path())),
    }
}
