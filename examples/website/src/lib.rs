//! A complete operator: a `Website` becomes a Deployment, a Service and a ConfigMap, and stays so.
//!
//! | file | what it shows |
//! |---|---|
//! | [`website`] | a custom resource by `#[derive(CustomResource)]` |
//! | [`children`] | what a website is made of, as plain functions from a website to objects |
//! | [`reconcile`] | the reconcile: finalizer, server-side apply, status, events, reading one's own writes |
//! | [`operator`] | informers, controller and leader election put together |
//! | `main.rs` | the program: logs, signals, health and metrics over HTTP |
//! | [`trial`] | the end-to-end test's body, which runs on the embedded server and on a real one |
//!
//! Run it against the cluster of your kubeconfig with `cargo run -p website-operator`, or look at it work in the test:
//! `cargo test -p website-operator`.

pub mod children;
pub mod operator;
pub mod reconcile;
pub mod trial;
pub mod website;

pub use operator::{Operator, Settings};
pub use website::{Website, WebsiteSpec, WebsiteStatus};
