//! A complete operator: a `Website` becomes a Deployment, a Service and a ConfigMap, and stays so.
//!
//! | file | what it shows |
//! |---|---|
//! | [`website`] | a custom resource by `#[derive(CustomResource)]` |
//! | [`children`] | the desired children, as functions from a website to objects |
//! | [`reconcile`] | the reconcile: finalizer, server-side apply with owner references, status, Events |
//! | [`mod@operator`] | informers, controller, leader election and Events put together |
//! | `main.rs` | the program: logs, signals, health and metrics over HTTP |
//! | [`trial`] | the end-to-end test's body, which runs on the embedded server and on a real one |
//! | `tests/reconcile.rs` | unit tests that call the reconcile directly |
//!
//! Run it against the cluster of your kubeconfig with `cargo run -p website-operator`, or see it work in its test:
//! `cargo test -p website-operator`.

pub mod children;
pub mod operator;
pub mod reconcile;
pub mod trial;
pub mod website;

pub use operator::{Settings, operator};
pub use website::{Website, WebsiteSpec, WebsiteStatus};
