//! `/api/v1/demo`: the clients, the clock and the faults of the demo's server. Only the faults can be changed.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use serde_json::Value;

use super::{Refusal, Served, routes};

/// A server with faults that can be switched on and off.
pub(crate) trait Playground: Send + Sync {
    /// The figures for the page.
    fn report(&self) -> Value;

    /// Arms a fault, or triggers it if it happens once.
    ///
    /// # Errors
    /// Returns an error if there is no such fault.
    fn arm(&self, name: &str) -> Result<(), FaultRefusal>;

    /// Disarms a fault.
    ///
    /// # Errors
    /// Returns an error if there is no such fault, or if it happens once.
    fn disarm(&self, name: &str) -> Result<(), FaultRefusal>;
}

/// Why a fault cannot be switched.
#[derive(Debug)]
pub(crate) enum FaultRefusal {
    /// There is no such fault; these can be switched.
    Unknown(Vec<&'static str>),
    /// The fault happens once, so it cannot be switched off.
    HappensOnce,
}

pub(super) async fn show(State(served): State<Arc<Served>>) -> Result<Response, Refusal> {
    Ok(routes::json(&playground(&served)?.report()))
}

pub(super) async fn arm(
    State(served): State<Arc<Served>>,
    Path(name): Path<String>,
) -> Result<Response, Refusal> {
    switched(&served, playground(&served)?.arm(&name), &name)
}

pub(super) async fn disarm(
    State(served): State<Arc<Served>>,
    Path(name): Path<String>,
) -> Result<Response, Refusal> {
    switched(&served, playground(&served)?.disarm(&name), &name)
}

fn switched(served: &Served, done: Result<(), FaultRefusal>, name: &str) -> Result<Response, Refusal> {
    match done {
        Ok(()) => Ok(routes::json(&playground(served)?.report())),
        Err(FaultRefusal::Unknown(names)) => {
            Err(Refusal::not_found(format!("unknown fault {name:?}; use {}", names.join(", "))))
        }
        Err(FaultRefusal::HappensOnce) => {
            Err(Refusal::bad_request(format!("cannot switch off fault {name:?}: it happens once")))
        }
    }
}

fn playground(served: &Served) -> Result<&dyn Playground, Refusal> {
    served.playground.as_deref().ok_or_else(|| Refusal::not_found("only the demo has a server to disturb"))
}
