//! The pages of this folder and the crates' READMEs as documentation, so that `cargo test` compiles their code. The modules have what the examples
//! assume: imports, a custom resource, and what its controller works with.

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
#[doc = include_str!("operations.md")]
struct Operations;

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

/// What examples with this project's crates assume.
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

    /// What a reconcile works with.
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

/// What examples with kube-rs assume.
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

    /// What a reconcile works with.
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
