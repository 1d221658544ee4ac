//! Writing from a reconcile: apply with an owner reference, status, deletion, and read-modify-write.
//!
//! All requests go through the reconcile's own client, which records every write.

use std::any::TypeId;
use std::fmt;
use std::time::Duration;

use kube_client::Client;
use kube_core::params::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube_core::request::Request as ApiRequest;
use kube_core::{NamespaceResourceScope, Resource};
use kube_informer::Key;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::context::Context;
use super::expect::key_of;
use crate::error::reason;

/// Why a write of [`Context`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The request failed.
    #[error("cannot {operation} {kind} {object}: {}", reason(.source))]
    Request {
        /// Such as `apply`.
        operation: &'static str,
        /// The kind of the object.
        kind: String,
        /// The object.
        object: Key,
        /// The client's error.
        source: kube_client::Error,
    },
    /// The object that would own the child is not cached, or is not the one that the reconcile began with. A retry cannot fix
    /// that: the error is terminal. If the object was deleted or re-created meanwhile, the key is reconciled again immediately.
    #[error(
        "cannot apply {kind} {object}: its owner {owner} is not in the cache of the main informer, or was re-created during the reconcile"
    )]
    NoOwner {
        /// The kind of the child.
        kind: String,
        /// The child.
        object: Key,
        /// The key that is reconciled.
        owner: Key,
    },
    /// A namespaced object cannot own objects of other namespaces or cluster-scoped ones. The error is terminal.
    #[error(
        "cannot apply {kind} {object}: {owner} cannot own it, because it is not in the owner's namespace; use `apply_unowned`"
    )]
    OwnerNamespace {
        /// The kind of the child.
        kind: String,
        /// The child.
        object: Key,
        /// The key that is reconciled.
        owner: Key,
    },
    /// The object has no name, is namespaced without a namespace, or does not serialize. The error is terminal.
    #[error("cannot {operation} {kind}: {reason}")]
    Invalid {
        /// Such as `apply`.
        operation: &'static str,
        /// The kind of the object.
        kind: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Attempts of a read-modify-write before a conflict is returned, as in client-go.
const CONFLICT_ATTEMPTS: u32 = 5;

/// The wait between two attempts.
const CONFLICT_WAIT: Duration = Duration::from_millis(10);

// === impl Context ===

impl<D> Context<D> {
    /// Applies a child: server-side apply with the controller's field manager, with an owner reference to the reconciled object, and
    /// with force. The key is not reconciled again before the cache has the result. Applying an unchanged child writes nothing.
    ///
    /// The child needs a name. A namespaced child without a namespace gets that of the key. The owner is the object of the key that
    /// the main informer had when the reconcile began; it is marked as the managing controller. If that object was deleted or
    /// re-created meanwhile, nothing is written: return the error, and the key is reconciled again.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kube_core::ObjectMeta;
    /// # use kube_informer::Key;
    /// # use kube_informer_controller::{Action, Context, Error};
    /// async fn reconcile(ctx: Context, key: Key) -> Result<Action, Error> {
    ///     let metadata = ObjectMeta { name: Some(key.name().to_owned()), ..ObjectMeta::default() };
    ///     ctx.apply(&ConfigMap { metadata, ..ConfigMap::default() }).await?;
    ///     Ok(Action::Done)
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the request fails, if the owner is not cached or in another namespace, or if the child has no name.
    ///
    /// # Cancel safety
    /// If it is dropped, the request continues: see [`client`](Self::client).
    pub async fn apply<K>(&self, child: &K) -> Result<K, WriteError>
    where
        K: Resource + Serialize + DeserializeOwned,
        K::DynamicType: Default,
        K::Scope: 'static,
    {
        self.apply_as(child, &K::DynamicType::default()).await
    }

    /// As [`apply`](Self::apply), for a dynamic type. Its namespace must be set.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub async fn apply_as<K>(&self, child: &K, dynamic: &K::DynamicType) -> Result<K, WriteError>
    where
        K: Resource + Serialize + DeserializeOwned,
        K::Scope: 'static,
    {
        let mut write = Write::new(self, "apply", child, dynamic)?;
        write.set_owner(self)?;
        write.apply(self).await
    }

    /// As [`apply`](Self::apply), without an owner reference: for objects in other namespaces, cluster-scoped objects, and objects
    /// that outlive their creator.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub async fn apply_unowned<K>(&self, object: &K) -> Result<K, WriteError>
    where
        K: Resource + Serialize + DeserializeOwned,
        K::DynamicType: Default,
        K::Scope: 'static,
    {
        self.apply_unowned_as(object, &K::DynamicType::default()).await
    }

    /// As [`apply_unowned`](Self::apply_unowned), for a dynamic type. The namespace of a namespaced object must be set.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub async fn apply_unowned_as<K>(&self, object: &K, dynamic: &K::DynamicType) -> Result<K, WriteError>
    where
        K: Resource + Serialize + DeserializeOwned,
        K::Scope: 'static,
    {
        Write::new(self, "apply", object, dynamic)?.apply(self).await
    }

    /// Applies the status of an object, with the controller's field manager. Returns whether it was written: a status that the
    /// object already has is not sent. The object's uid is sent along, so the status of a deleted object is never written to
    /// another object of that name.
    ///
    /// # Errors
    /// Returns an error if the request fails; 409 if the object was deleted and re-created.
    pub async fn patch_status<K>(&self, object: &K, status: &impl Serialize) -> Result<bool, WriteError>
    where
        K: Resource + Serialize,
        K::DynamicType: Default,
        K::Scope: 'static,
    {
        self.patch_status_as(object, &K::DynamicType::default(), status).await
    }

    /// As [`patch_status`](Self::patch_status), for a dynamic type.
    ///
    /// # Errors
    /// As [`patch_status`](Self::patch_status).
    pub async fn patch_status_as<K>(
        &self,
        object: &K,
        dynamic: &K::DynamicType,
        status: &impl Serialize,
    ) -> Result<bool, WriteError>
    where
        K: Resource + Serialize,
        K::Scope: 'static,
    {
        let write = Write::new(self, "patch the status of", object, dynamic)?;
        let status = serde_json::to_value(status).map_err(|error| write.invalid(error))?;
        if write.object.get("status") == Some(&status) {
            return Ok(false);
        }
        let (api_version, kind) = (K::api_version(dynamic), K::kind(dynamic));
        let mut metadata = json!({"name": write.key.name()});
        if let Some(uid) = &object.meta().uid {
            metadata["uid"] = uid.as_str().into();
        }
        let patch = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "status": status});
        let params = self.apply_params();
        let request =
            write.api().patch_subresource("status", write.key.name(), &params, &Patch::Apply(patch));
        write.send::<Value>(&self.client(), request).await?;
        Ok(true)
    }

    /// Deletes an object, with background propagation. If it has a uid, only the object of that uid is deleted. An object that
    /// is already gone is not an error. The key is not reconciled again before the cache has the deletion.
    ///
    /// # Errors
    /// Returns an error if the request fails.
    pub async fn delete<K>(&self, object: &K) -> Result<(), WriteError>
    where
        K: Resource + Serialize,
        K::DynamicType: Default,
        K::Scope: 'static,
    {
        self.delete_as(object, &K::DynamicType::default()).await
    }

    /// As [`delete`](Self::delete), for a dynamic type. Its namespace must be set.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    pub async fn delete_as<K>(&self, object: &K, dynamic: &K::DynamicType) -> Result<(), WriteError>
    where
        K: Resource + Serialize,
        K::Scope: 'static,
    {
        let write = Write::new(self, "delete", object, dynamic)?;
        let uid = object.meta().uid.clone();
        let has_uid = uid.is_some();
        let mut params = DeleteParams::background();
        params.preconditions = uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None });
        let request = write.api().delete(write.key.name(), &params);
        match write.send::<Value>(&self.client(), request).await {
            Err(error) if error.code() == Some(404) => Ok(()),
            // An object with another uid has the name, so the object to delete is gone.
            Err(error) if error.code() == Some(409) && has_uid => Ok(()),
            deleted => deleted.map(drop),
        }
    }

    /// Creates or updates a child by reading the live object, changing it, and writing it if it differs: for fields that cannot be
    /// applied. `change` is called with the live object, or with `initial` if it does not exist; `initial` also names the child. The
    /// child gets an owner reference, as with [`apply`](Self::apply). After a conflict, it tries again, up to five attempts in total.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub async fn create_or_update<K>(&self, initial: &K, change: impl Fn(&mut K)) -> Result<K, WriteError>
    where
        K: Resource + Clone + Serialize + DeserializeOwned,
        K::DynamicType: Default,
        K::Scope: 'static,
    {
        self.create_or_update_as(initial, &K::DynamicType::default(), change).await
    }

    /// As [`create_or_update`](Self::create_or_update), for a dynamic type. Its namespace must be set.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub async fn create_or_update_as<K>(
        &self,
        initial: &K,
        dynamic: &K::DynamicType,
        change: impl Fn(&mut K),
    ) -> Result<K, WriteError>
    where
        K: Resource + Clone + Serialize + DeserializeOwned,
        K::Scope: 'static,
    {
        let mut attempt = 1;
        loop {
            match self.create_or_update_once(initial, dynamic, &change).await {
                Err(error) if error.code() == Some(409) && attempt < CONFLICT_ATTEMPTS => attempt += 1,
                written => return written,
            }
            tokio::time::sleep(CONFLICT_WAIT).await;
        }
    }

    async fn create_or_update_once<K>(
        &self,
        initial: &K,
        dynamic: &K::DynamicType,
        change: &impl Fn(&mut K),
    ) -> Result<K, WriteError>
    where
        K: Resource + Clone + Serialize + DeserializeOwned,
        K::Scope: 'static,
    {
        let client = self.client();
        let named = Write::new(self, "create or update", initial, dynamic)?;
        let live = named.send::<K>(&client, named.api().get(named.key.name(), &GetParams::default())).await;
        let (mut object, live) = match live {
            Ok(live) => (live.clone(), Some(live)),
            Err(error) if error.code() == Some(404) => (initial.clone(), None),
            Err(error) => return Err(error),
        };
        change(&mut object);
        let mut write = Write::full(self, "create or update", &object, dynamic)?;
        write.set_owner(self)?;
        let body = || serde_json::to_vec(&write.object).map_err(|error| write.invalid(error));
        let params =
            PostParams { field_manager: Some(self.run.tools.field_manager.clone()), ..PostParams::default() };
        match live {
            None => write.send(&client, write.api().create(&params, body()?)).await,
            Some(live) if serde_json::to_value(&live).is_ok_and(|live| live == write.object) => Ok(live),
            Some(_) => write.send(&client, write.api().replace(write.key.name(), &params, body()?)).await,
        }
    }

    fn apply_params(&self) -> PatchParams {
        PatchParams::apply(&self.run.tools.field_manager).force()
    }
}

/// Retries a read-modify-write on conflicts (409), up to five attempts.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube_client::{Api, api::PostParams};
/// # use kube_informer_controller::retry_on_conflict;
/// # async fn example(api: Api<ConfigMap>) -> Result<(), kube_client::Error> {
/// retry_on_conflict(async || {
///     let mut map = api.get("settings").await?;
///     map.data.get_or_insert_default().insert("colour".to_owned(), "red".to_owned());
///     api.replace("settings", &PostParams::default(), &map).await
/// })
/// .await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// Returns the error of the last attempt.
pub async fn retry_on_conflict<T>(
    mut attempt: impl AsyncFnMut() -> Result<T, kube_client::Error>,
) -> Result<T, kube_client::Error> {
    for _ in 1..CONFLICT_ATTEMPTS {
        match attempt().await {
            Err(kube_client::Error::Api(status)) if status.code == 409 => {}
            done => return done,
        }
        tokio::time::sleep(CONFLICT_WAIT).await;
    }
    attempt().await
}

// === one write ===

/// An object to write, and its path.
struct Write {
    operation: &'static str,
    kind: String,
    key: Key,
    /// The path of the collection.
    path: String,
    object: Value,
}

impl Write {
    /// An object to apply: without the fields that the server sets.
    fn new<D, K>(
        context: &Context<D>,
        operation: &'static str,
        object: &K,
        dynamic: &K::DynamicType,
    ) -> Result<Self, WriteError>
    where
        K: Resource + Serialize,
        K::Scope: 'static,
    {
        let mut write = Self::full(context, operation, object, dynamic)?;
        if let Some(metadata) = write.object["metadata"].as_object_mut() {
            for field in ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"] {
                metadata.remove(field);
            }
        }
        Ok(write)
    }

    /// An object to replace.
    fn full<D, K>(
        context: &Context<D>,
        operation: &'static str,
        object: &K,
        dynamic: &K::DynamicType,
    ) -> Result<Self, WriteError>
    where
        K: Resource + Serialize,
        K::Scope: 'static,
    {
        let kind = K::kind(dynamic).into_owned();
        let mut key = key_of(object.meta());
        let is_namespaced = TypeId::of::<K::Scope>() == TypeId::of::<NamespaceResourceScope>();
        if is_namespaced && key.namespace().is_empty() {
            key = Key::new(context.key().namespace(), key.name());
        }
        let namespace = Some(key.namespace()).filter(|namespace| !namespace.is_empty());
        let path = K::url_path(dynamic, namespace);
        let mut write = Self { operation, kind, key: key.clone(), path, object: Value::Null };
        if key.name().is_empty() {
            return Err(write.invalid("the object has no name"));
        }
        if is_namespaced && key.namespace().is_empty() {
            return Err(write.invalid("the object has no namespace, and neither has the reconciled one"));
        }
        write.object = serde_json::to_value(object).map_err(|error| write.invalid(error))?;
        write.object["apiVersion"] = K::api_version(dynamic).into();
        write.object["kind"] = write.kind.clone().into();
        if let Some(namespace) = namespace {
            write.object["metadata"]["namespace"] = namespace.into();
        }
        Ok(write)
    }

    /// Adds a reference to the reconciled object, unless the object has one.
    fn set_owner<D>(&mut self, context: &Context<D>) -> Result<(), WriteError> {
        let (kind, object, owner) = (self.kind.clone(), self.key.clone(), context.key().clone());
        let run = &context.run;
        let uid = run.owner.as_deref().filter(|_| !run.is_superseded());
        let Some((main, uid)) = run.tools.main().zip(uid) else {
            return Err(WriteError::NoOwner { kind, object, owner });
        };
        if !owner.namespace().is_empty() && owner.namespace() != object.namespace() {
            return Err(WriteError::OwnerNamespace { kind, object, owner });
        }
        let resource = main.resource();
        let references = &mut self.object["metadata"]["ownerReferences"];
        if !references.is_array() {
            *references = json!([]);
        }
        let Some(references) = references.as_array_mut() else { return Ok(()) };
        if references.iter().any(|reference| reference["uid"] == uid) {
            return Ok(());
        }
        references.push(json!({
            "apiVersion": resource.api_version, "kind": resource.kind, "name": owner.name(), "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        }));
        Ok(())
    }

    async fn apply<D, K: DeserializeOwned>(&self, context: &Context<D>) -> Result<K, WriteError> {
        let patch = Patch::Apply(&self.object);
        let request = self.api().patch(self.key.name(), &context.apply_params(), &patch);
        self.send(&context.client(), request).await
    }

    fn api(&self) -> ApiRequest {
        ApiRequest::new(&self.path)
    }

    async fn send<T: DeserializeOwned>(
        &self,
        client: &Client,
        request: Result<http::Request<Vec<u8>>, kube_core::request::Error>,
    ) -> Result<T, WriteError> {
        let failed = |source| WriteError::Request {
            operation: self.operation,
            kind: self.kind.clone(),
            object: self.key.clone(),
            source,
        };
        let request = request.map_err(|error| failed(kube_client::Error::BuildRequest(error)))?;
        client.request(request).await.map_err(failed)
    }

    fn invalid(&self, reason: impl fmt::Display) -> WriteError {
        WriteError::Invalid { operation: self.operation, kind: self.kind.clone(), reason: reason.to_string() }
    }
}

// === impl WriteError ===

impl WriteError {
    /// The HTTP status code with which the server refused the write.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Request { source: kube_client::Error::Api(status), .. } => Some(status.code),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use kube_core::Status;
    use tokio::time::Instant;

    use super::*;

    fn refused<T>(code: u16) -> Result<T, kube_client::Error> {
        Err(kube_client::Error::Api(Status::failure("x", "y").with_code(code).boxed()))
    }

    #[tokio::test(start_paused = true)]
    async fn conflicts_are_retried_with_a_pause_up_to_five_attempts() {
        let attempts = Cell::new(0);
        let conflicts = async |conflicts: u32, began: Instant| {
            attempts.set(0);
            let written = retry_on_conflict(async || {
                attempts.set(attempts.get() + 1);
                if attempts.get() <= conflicts { refused(409) } else { Ok("written") }
            });
            (written.await.map_err(|error| error.to_string()), attempts.get(), began.elapsed())
        };
        assert_eq!(conflicts(0, Instant::now()).await, (Ok("written"), 1, Duration::ZERO));
        assert_eq!(conflicts(4, Instant::now()).await, (Ok("written"), 5, 4 * CONFLICT_WAIT));
        let (written, attempts, _) = conflicts(u32::MAX, Instant::now()).await;
        assert!(written.is_err() && attempts == CONFLICT_ATTEMPTS, "{written:?} after {attempts}");
    }

    #[tokio::test(start_paused = true)]
    async fn other_errors_are_not_retried() {
        let attempts = Cell::new(0);
        let written = retry_on_conflict(async || {
            attempts.set(attempts.get() + 1);
            refused::<()>(403)
        });
        let error = written.await.unwrap_err();
        assert!(matches!(&error, kube_client::Error::Api(status) if status.code == 403), "{error}");
        assert_eq!(attempts.get(), 1);
    }
}
