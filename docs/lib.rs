//! Includes the pages of this folder and the crates' READMEs as documentation, so that `cargo test` compiles their code. The modules
//! have the imports and types that the examples use.

#[cfg(doctest)]
#[doc = include_str!("controllers.md")]
struct Controllers;

#[cfg(doctest)]
#[doc = include_str!("embedded-server.md")]
struct EmbeddedServer;

#[cfg(doctest)]
#[doc = include_str!("from-client-go.md")]
struct FromClientGo;

#[cfg(doctest)]
#[doc = include_str!("from-kube-rs.md")]
struct FromKubeRs;

#[cfg(doctest)]
#[doc = include_str!("informers.md")]
struct Informers;

#[cfg(doctest)]
#[doc = include_str!("operations.md")]
struct Operations;

#[cfg(doctest)]
#[doc = include_str!("scaling.md")]
struct Scaling;

#[cfg(doctest)]
#[doc = include_str!("testing.md")]
struct Testing;

#[cfg(doctest)]
#[doc = include_str!("troubleshooting.md")]
struct Troubleshooting;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../crates/apiserver/README.md")]
struct ApiserverReadme;

#[cfg(doctest)]
#[doc = include_str!("../crates/controller/README.md")]
struct ControllerReadme;

#[cfg(doctest)]
#[doc = include_str!("../crates/informer/README.md")]
struct InformerReadme;

#[cfg(doctest)]
#[doc = include_str!("../crates/wire/README.md")]
struct WireReadme;

#[cfg(doctest)]
#[doc = include_str!("../crates/workqueue/README.md")]
struct WorkqueueReadme;

/// Imports and types of the examples with this project's crates.
pub mod ours {
    pub use std::time::Duration;

    pub use k8s_openapi::api::apps::v1::Deployment;
    pub use k8s_openapi::api::core::v1::Pod;
    pub use kube_client::api::{Patch, PatchParams};
    pub use kube_client::{Api, Client};
    pub use kube_informer::Cluster;
    pub use kube_informer::{Event, Index, Informer, Key};
    pub use kube_informer_controller::{
        Action, Context, Controller, Error, LeaderElection, Predicate, Stop, Trigger,
    };
    pub use kube_workqueue::WorkQueue;
    pub use website_operator::Website;

    /// The data of a reconcile.
    #[derive(Clone)]
    pub struct Data {
        /// For writing.
        pub client: Client,
        /// For reading.
        pub websites: Informer<Website>,
    }

    impl Data {
        /// The deployments in the namespace of this key.
        pub fn api(&self, key: &Key) -> Api<Deployment> {
            Api::namespaced(self.client.clone(), key.namespace())
        }
    }

    /// The deployment that a website needs.
    pub fn deployment(_: &Website) -> Deployment {
        Deployment::default()
    }

    /// Changes nothing.
    ///
    /// # Errors
    /// None.
    pub async fn reconcile(_: Context<Data>, _: Key) -> Result<Action, Error> {
        Ok(Action::Done)
    }
}

/// What examples of tests assume.
pub mod testing {
    pub use std::time::Duration;

    pub use embedded_apiserver::{Action as FaultAction, Fault, Match, Server, Verb};
    pub use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    pub use kube_client::Api;
    pub use kube_client::api::{DeleteParams, ObjectMeta};
    pub use kube_informer::{Informer, Key};
    pub use kube_informer_controller::{Action, Context, Controller, Error, Manager, testing};
    pub use serde_json::json;

    /// Every ConfigMap owns a Secret of its name.
    ///
    /// # Errors
    /// Returns an error if the server refuses the Secret.
    pub async fn reconcile(ctx: Context<Informer<ConfigMap>>, key: Key) -> Result<Action, Error> {
        if ctx.data().lister().get(&key).is_none() {
            return Ok(Action::Done);
        }
        let metadata = ObjectMeta { name: Some(key.name().to_owned()), ..ObjectMeta::default() };
        ctx.apply(&Secret { metadata, ..Secret::default() }).await?;
        Ok(Action::Done)
    }
}

/// Imports and types of the examples with kube-rs.
pub mod kube_rs {
    pub use std::future::ready;
    pub use std::sync::Arc;
    pub use std::time::Duration;

    pub use futures::StreamExt;
    pub use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
    pub use k8s_openapi::api::core::v1::Pod;
    pub use kube_client::{Api, Client};
    pub use kube_runtime::controller::{Action, Controller};
    pub use kube_runtime::{WatchStreamExt, reflector, watcher};

    /// The data of a reconcile.
    pub struct Data;

    /// The node that a pod is on.
    pub fn node(pod: &Pod) -> Option<&str> {
        pod.spec.as_ref()?.node_name.as_deref()
    }

    /// Changes nothing.
    ///
    /// # Errors
    /// None.
    pub async fn reconcile(_: Arc<Deployment>, _: Arc<Data>) -> std::io::Result<Action> {
        Ok(Action::await_change())
    }
}
