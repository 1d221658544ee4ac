//! Cleanup before an object is deleted: a finalizer keeps the object until the cleanup has succeeded.

use std::fmt;
use std::sync::Arc;

use kube_client::Api;
use kube_client::api::{Patch, PatchParams};
use kube_core::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::deliberate_bug::deliberate_bug;
use crate::error::reason;
use crate::{Action, Context, Error};

/// What a reconcile has to do with an object that has a finalizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage<K> {
    /// The object exists and has the finalizer: apply its desired state.
    Apply(Arc<K>),
    /// The object is being deleted: remove everything outside Kubernetes, and everything that no owner reference covers. An
    /// earlier call that failed, or another process, may have removed some of it already.
    Cleanup(Arc<K>),
}

/// The finalizer could not be added or removed, or its name is invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinalizerError {
    /// Adding the finalizer failed; nothing else was done.
    #[error("cannot add finalizer `{finalizer}`: {}", reason(.source))]
    Add {
        /// The finalizer.
        finalizer: String,
        /// The server's answer.
        source: kube_client::Error,
    },
    /// Removing the finalizer failed after the cleanup succeeded. Only the removal is retried.
    #[error("cannot remove finalizer `{finalizer}`: {}", reason(.source))]
    Remove {
        /// The finalizer.
        finalizer: String,
        /// The server's answer.
        source: kube_client::Error,
    },
    /// The name is not qualified.
    #[error("invalid finalizer `{0}`: write `domain/name`")]
    Name(String),
}

/// Calls `reconcile` with a finalizer on the object: added before the first apply, removed after the cleanup has succeeded.
///
/// - An object that is not being deleted gets the finalizer if it lacks it; then `reconcile` is called with [`Stage::Apply`].
/// - An object that is being deleted and has the finalizer: `reconcile` is called with [`Stage::Cleanup`]. [`Action::Done`]
///   removes the finalizer. [`Action::RequeueAfter`] keeps it, and the cleanup is called again later.
/// - An object that is being deleted and lacks the finalizer is ignored.
///
/// This controller does not repeat a cleanup that succeeded, even while the cache lags behind or removing the finalizer fails: it
/// remembers the object's uid until the cache no longer has the object, or has it without a deletion timestamp (the server was
/// restored from a backup). After a restart or a change of leader the cleanup may be repeated.
///
/// `object` comes from the cache. The finalizers are written only if the object still has that resourceVersion; otherwise the
/// server answers 409 and the key is retried with back-off. Writes are [reported](Context::wrote) to the controller. After the
/// last finalizer is removed, the key is deferred until the object [is gone](Context::deleted).
///
/// Works for dynamic objects, too: `Api<DynamicObject>` knows its resource.
///
/// # Errors
/// Returns the errors of `reconcile`, and [`FinalizerError`].
///
/// # Cancel safety
/// A request in progress may or may not take effect. The next call continues from the object's current state.
pub async fn finalize<K, D, F, R, E>(
    context: &Context<D>,
    api: &Api<K>,
    finalizer: &str,
    object: Arc<K>,
    reconcile: F,
) -> Result<Action, Error>
where
    K: Resource + DeserializeOwned + Clone + fmt::Debug,
    F: FnOnce(Stage<K>) -> R,
    R: Future<Output = Result<Action, E>>,
    E: Into<Error>,
{
    let reconcile = async |stage| reconcile(stage).await.map_err(Into::into);
    if !finalizer.contains('/') {
        return Err(Error::terminal(FinalizerError::Name(finalizer.to_owned())));
    }
    let url = api.resource_url();
    let ours = object.finalizers().iter().any(|known| known == finalizer);
    if object.meta().deletion_timestamp.is_none() && !deliberate_bug("cleanup-remembered-after-restore") {
        context.forget_cleanups(url, object.meta());
    }
    match (object.meta().deletion_timestamp.is_some(), ours) {
        (false, true) => reconcile(Stage::Apply(object)).await,
        (false, false) if deliberate_bug("finalizer-not-added") => reconcile(Stage::Apply(object)).await,
        (false, false) => {
            let mut finalizers = object.finalizers().to_vec();
            finalizers.push(finalizer.to_owned());
            let failed = |source| FinalizerError::Add { finalizer: finalizer.to_owned(), source };
            let written = write(api, &object, &finalizers).await.map_err(failed)?;
            context.wrote_at(url, written.meta(), false);
            reconcile(Stage::Apply(Arc::new(written))).await
        }
        (true, true) => {
            let is_cleaned_up = context.is_cleaned_up(url, object.meta(), finalizer);
            let is_skipped = deliberate_bug("cleanup-skipped");
            if !is_skipped && (!is_cleaned_up || deliberate_bug("cleanup-repeated")) {
                let action = reconcile(Stage::Cleanup(object.clone())).await?;
                if action != Action::Done {
                    return Ok(action);
                }
                context.cleaned_up(url, object.meta(), finalizer);
            }
            let mut finalizers = object.finalizers().to_vec();
            finalizers.retain(|known| known != finalizer);
            match write(api, &object, &finalizers).await {
                // The last finalizer was removed. The server then deletes the object without a new resourceVersion, so the cache
                // already has this version: wait until the object is gone.
                Ok(written) if written.resource_version() == object.resource_version() => {
                    context.wrote_at(url, object.meta(), true);
                }
                Ok(written) => context.wrote_at(url, written.meta(), false),
                // The object is gone: an earlier request has removed the finalizer.
                Err(kube_client::Error::Api(status)) if status.code == 404 => {
                    context.wrote_at(url, object.meta(), true);
                }
                Err(source) => Err(FinalizerError::Remove { finalizer: finalizer.to_owned(), source })?,
            };
            Ok(Action::Done)
        }
        (true, false) => Ok(Action::Done),
    }
}

async fn write<K>(api: &Api<K>, object: &K, finalizers: &[String]) -> Result<K, kube_client::Error>
where
    K: Resource + DeserializeOwned + Clone + fmt::Debug,
{
    let version = object.meta().resource_version.as_deref();
    let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
    api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await
}
