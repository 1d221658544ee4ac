//! Cleaning up before an object goes: a finalizer keeps it there until that is done.

use std::fmt;
use std::sync::Arc;

use kube_client::Api;
use kube_client::api::{Patch, PatchParams};
use kube_core::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::{Action, Context, Error};

/// What is to be done about an object that carries a finalizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage<K> {
    /// It is wanted, and the finalizer is in place: make the world so.
    Apply(Arc<K>),
    /// It is being deleted: undo what was made outside of Kubernetes, and what no owner reference covers. It may have been
    /// undone before, wholly or in part, by a call that failed or by another process.
    Cleanup(Arc<K>),
}

/// The finalizer itself could not be written, or its name is invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinalizerError {
    /// Adding it failed; nothing else was done.
    #[error("could not add finalizer `{finalizer}`")]
    Add {
        /// The finalizer.
        finalizer: String,
        /// What the server said.
        source: kube_client::Error,
    },
    /// Removing it failed, after the clean-up succeeded. Only the removal is tried again.
    #[error("could not remove finalizer `{finalizer}`")]
    Remove {
        /// The finalizer.
        finalizer: String,
        /// What the server said.
        source: kube_client::Error,
    },
    /// A server takes only qualified names.
    #[error("invalid finalizer `{0}`: write `domain/name`")]
    Name(String),
}

/// Runs `reconcile` with a finalizer around it: put on the object before anything is made for it, and taken off when
/// everything is cleaned up.
///
/// - An object that is wanted gets the finalizer if it has it not, then [`Stage::Apply`] is reconciled.
/// - One that is being deleted and has the finalizer: [`Stage::Cleanup`]; if that succeeds with [`Action::Done`] the finalizer
///   is removed. With [`Action::RequeueAfter`] it stays, and the clean-up is called again then.
/// - One that is being deleted and does not have the finalizer is left alone.
///
/// A clean-up that succeeded is not called again by this controller, however far the cache is behind and however often
/// removing the finalizer fails: the object's uid is remembered until the cache no longer shows it. (A controller that was
/// restarted, or leads after another, does not know, and may call it again.)
///
/// The object is the one in the cache. It is written only if it is still at that resourceVersion: otherwise the server answers
/// 409, and the key is tried again with back-off. Writes are [reported](Context::wrote) to the controller, and after the last
/// finalizer is removed the key is deferred until the object [is gone](Context::deleted).
///
/// # Errors
/// Those of `reconcile`, and [`FinalizerError`].
///
/// # Cancel safety
/// If it is dropped, each request was sent or not; calling it again goes on from there.
pub async fn finalize<K, D, F, R, E>(
    context: &Context<D>,
    api: &Api<K>,
    finalizer: &str,
    object: Arc<K>,
    reconcile: F,
) -> Result<Action, Error>
where
    K: Resource + DeserializeOwned + Clone + fmt::Debug,
    K::DynamicType: Default,
    F: FnOnce(Stage<K>) -> R,
    R: Future<Output = Result<Action, E>>,
    E: Into<Error>,
{
    let reconcile = async |stage| reconcile(stage).await.map_err(Into::into);
    if !finalizer.contains('/') {
        return Err(Error::terminal(FinalizerError::Name(finalizer.to_owned())));
    }
    let ours = object.finalizers().iter().any(|known| known == finalizer);
    match (object.meta().deletion_timestamp.is_some(), ours) {
        (false, true) => reconcile(Stage::Apply(object)).await,
        (false, false) => {
            let mut finalizers = object.finalizers().to_vec();
            finalizers.push(finalizer.to_owned());
            let failed = |source| FinalizerError::Add { finalizer: finalizer.to_owned(), source };
            let written = write(api, &object, &finalizers).await.map_err(failed)?;
            context.wrote(&written);
            reconcile(Stage::Apply(Arc::new(written))).await
        }
        (true, true) => {
            if !context.is_cleaned_up(&*object, finalizer) {
                let action = reconcile(Stage::Cleanup(object.clone())).await?;
                if action != Action::Done {
                    return Ok(action);
                }
                context.cleaned_up(&*object, finalizer);
            }
            let mut finalizers = object.finalizers().to_vec();
            finalizers.retain(|known| known != finalizer);
            match write(api, &object, &finalizers).await {
                // The last one: the object is deleted at its old resourceVersion, which the cache shows already.
                Ok(written) if written.resource_version() == object.resource_version() => {
                    context.deleted(&*object)
                }
                Ok(written) => context.wrote(&written),
                // It is gone: the finalizer was removed before.
                Err(kube_client::Error::Api(status)) if status.code == 404 => context.deleted(&*object),
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
