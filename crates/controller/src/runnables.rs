//! Runnables: the other parts of a program with controllers, such as servers, recorders and periodic jobs. They are started first
//! and stopped last.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, select_all};
use kube_informer::panic_text;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::leader::Term;
use crate::{Error, RunError, Stop};

/// A future that ends soon after it is stopped.
type RunnableFuture = BoxFuture<'static, Result<(), Error>>;

/// A function whose future runs as long as the manager.
pub(crate) struct Runnable {
    name: String,
    run: Box<dyn FnOnce(Stop) -> RunnableFuture + Send>,
}

/// A function whose future runs in each term of leadership.
pub(crate) struct LeaderRunnable {
    name: String,
    run: Box<dyn Fn(Stop, Option<Term>) -> RunnableFuture + Send + Sync>,
}

/// Running runnables, in the order in which they were started. Dropping this cancels them.
pub(crate) struct Started(Vec<Task>);

struct Task {
    name: String,
    stop: Stop,
    /// `None` after it has ended.
    task: Option<JoinHandle<Result<(), Error>>>,
}

// === impl Runnable ===

impl Runnable {
    pub(crate) fn new<R, E>(name: String, run: impl FnOnce(Stop) -> R + Send + 'static) -> Self
    where
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Error> + 'static,
    {
        Self { name, run: Box::new(move |stop| guarded(move || run(stop))) }
    }

    pub(crate) fn start_all(runnables: Vec<Self>) -> Started {
        let start = |Self { name, run }: Self| {
            let stop = Stop::new();
            Task { name, stop: stop.clone(), task: Some(tokio::spawn(run(stop))) }
        };
        Started(runnables.into_iter().map(start).collect())
    }
}

// === impl LeaderRunnable ===

impl LeaderRunnable {
    pub(crate) fn new<R, E>(
        name: String,
        run: impl Fn(Stop, Option<Term>) -> R + Send + Sync + 'static,
    ) -> Self
    where
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Error> + 'static,
    {
        let run = Arc::new(run);
        let run = move |stop, term| {
            let run = run.clone();
            guarded(move || run(stop, term))
        };
        Self { name, run: Box::new(run) }
    }

    /// Runs the future in one term: until leadership is lost, or until it has ended after a stop. It is cancelled at the second stop,
    /// or after the grace period. Returns the future's error.
    pub(crate) async fn lead(
        &self,
        stop: &Stop,
        term: Option<Term>,
        grace: Duration,
    ) -> Result<(), RunError> {
        let run = (self.run)(stop.clone(), term.clone());
        let is_late = async {
            stop.stopping().await;
            tokio::time::sleep(grace).await;
        };
        tokio::select! {
            biased;
            () = lost(term.as_ref()) => Ok(()),
            () = stop.aborting() => Ok(()),
            () = is_late => Ok(()),
            ended = run => match ended {
                // The runnable is started again in the next term.
                Ok(()) => {
                    tokio::select! {
                        () = stop.stopping() => {}
                        () = lost(term.as_ref()) => {}
                    }
                    Ok(())
                }
                Err(error) => Err(failed(&self.name, &error)),
            },
        }
    }
}

/// Calls a function and runs its future. A panic in either becomes an error.
fn guarded<R, E>(run: impl FnOnce() -> R + Send + 'static) -> RunnableFuture
where
    R: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<Error> + 'static,
{
    // Unwind safe: a runnable shares no mutable state with the manager.
    let ended = AssertUnwindSafe(async move { run().await.map_err(Into::into) }).catch_unwind();
    let panicked = |panic: Box<dyn Any + Send>| Error::new(format!("panicked: {}", panic_text(&*panic)));
    ended.map(move |ended| ended.map_err(panicked).flatten()).boxed()
}

async fn lost(term: Option<&Term>) {
    match term {
        Some(term) => term.lost().await,
        None => futures::future::pending().await,
    }
}

// === impl Started ===

impl Started {
    /// Waits until a runnable fails.
    pub(crate) async fn failed(&mut self) -> RunError {
        loop {
            let running = self.0.iter_mut().enumerate();
            let running = running.filter_map(|(number, task)| {
                let ended = task.task.as_mut()?;
                Some(ended.map(move |ended| (number, ended)).boxed())
            });
            let running = running.collect::<Vec<_>>();
            if running.is_empty() {
                return futures::future::pending().await;
            }
            let ((number, ended), ..) = select_all(running).await;
            self.0[number].task = None;
            if let Err(error) = self.0[number].outcome(ended) {
                return error;
            }
        }
    }

    /// Stops the runnables one after another, the last one first, and waits for each. Runnables that have not ended within the grace
    /// period, or at the second stop, are cancelled. Returns the first error.
    pub(crate) async fn stop(mut self, stop: &Stop, grace: Duration) -> Result<(), RunError> {
        let until = Instant::now() + grace.min(crate::LONGEST);
        let mut first = Ok(());
        while let Some(mut task) = self.0.pop() {
            let Some(mut running) = task.task.take() else { continue };
            task.stop.stop();
            let ended = tokio::select! {
                biased;
                ended = timeout_at(until, &mut running) => ended.ok(),
                () = stop.aborting() => None,
            };
            let outcome = match ended {
                Some(ended) => task.outcome(ended),
                None => {
                    running.abort();
                    // A cancelled task ends at its next await.
                    let _ = running.await;
                    tracing::warn!(runnable = task.name, "cancelled: it did not stop in time");
                    Ok(())
                }
            };
            first = first.and(outcome);
        }
        first
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.0.iter().filter_map(|task| task.task.as_ref()).for_each(JoinHandle::abort);
    }
}

impl Task {
    fn outcome(&self, ended: Result<Result<(), Error>, tokio::task::JoinError>) -> Result<(), RunError> {
        match ended {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(failed(&self.name, &error)),
            Err(error) => Err(failed(&self.name, &Error::new(error))),
        }
    }
}

fn failed(name: &str, error: &Error) -> RunError {
    RunError::Runnable { name: name.to_owned(), reason: format!("{error:#}") }
}

impl fmt::Debug for Runnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for LeaderRunnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
