//! What a controller watches, and how it works, said before it runs.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt};
use kube_informer::{Index, IndexError, Informer, Key, Object, Stopped};
use kube_workqueue::{RateLimiter, WorkQueue};

use super::context::{Context, Tools};
use super::feed::{Feed, Lists, Wanted};
use super::intake::Intake;
use super::report::Reports;
use super::trigger::{Listening, Map, Trigger, Watched, itself, owners, related};
use super::worker::{Job, Policy};
use super::writes::Writes;
use super::{Controller, Team};
use crate::action::{Action, Error, Failure, Retry};
use crate::error::BuildError;
use crate::leader::LeaderElection;

/// The name of the index by which [`ControllerBuilder::owns`] lets children be found: by the uids of their owners.
pub const OWNER_INDEX: &str = "owner-uid";

/// Settings of a [`Controller`]; see there for an example. `M` is the main kind, whose keys are reconciled.
#[must_use = "a controller does nothing until it is built and run"]
pub struct ControllerBuilder<M> {
    name: String,
    main: Informer<M>,
    watches: Vec<Attach>,
    feeds: Vec<BoxStream<'static, Wanted>>,
    limiter: Option<Box<dyn RateLimiter<Key>>>,
    policy: Policy,
    concurrency: usize,
    queue_capacity: Option<usize>,
    aging: Option<Duration>,
    grace: Duration,
    write_wait_max: Duration,
    leader: Option<LeaderElection>,
    #[cfg(feature = "metrics")]
    metrics: Option<crate::ControllerMetrics>,
}

/// Begins to listen to an informer, whose number it is told.
type Attach = Box<dyn FnOnce(usize, &Arc<Intake>) -> Result<(Listening, Box<dyn Watched>), AttachError>>;

enum AttachError {
    Index(String, IndexError),
    Stopped(String, Stopped),
}

// === impl ControllerBuilder ===

impl<M: Send + Sync + 'static> ControllerBuilder<M> {
    pub(super) fn new(name: String, main: Trigger<M>) -> Self {
        let informer = main.informer.clone();
        let builder = Self {
            name,
            main: informer,
            watches: Vec::new(),
            feeds: Vec::new(),
            limiter: None,
            policy: Box::new(|_| Retry::Backoff),
            concurrency: 1,
            queue_capacity: None,
            aging: None,
            grace: Duration::from_secs(30),
            write_wait_max: Duration::from_secs(30),
            leader: None,
            #[cfg(feature = "metrics")]
            metrics: None,
        };
        builder.attach(main, |_| Ok(itself()))
    }

    /// Reconciles an owner when something of an owned kind changes. Owners are found by owner references of the main kind,
    /// in the last state that is known of a child: also of one that vanished while nobody was looking, and also the owner
    /// that a child had before.
    ///
    /// Children can then be found by their owner's uid: see [`children`](crate::children).
    pub fn owns<K: Send + Sync + 'static>(self, children: impl Into<Trigger<K>>) -> Self {
        let main = self.main.clone();
        self.attach(children.into(), move |children| {
            ensure_index(children, &Index::owner(OWNER_INDEX))?;
            Ok(owners(&main))
        })
    }

    /// Reconciles the keys that a function returns when something of another kind changes. Of an update both states are
    /// mapped, and no intermediate state is left out.
    ///
    /// The function runs for every change and must not block: one that is slower than the changes holds up its informer,
    /// for all listeners. If it panics, that is reported and counted as a handler's panic.
    pub fn watches<K, Keys>(
        self,
        informer: impl Into<Trigger<K>>,
        keys: impl Fn(&Object<K>) -> Keys + Send + Sync + 'static,
    ) -> Self
    where
        K: Send + Sync + 'static,
        Keys: IntoIterator<Item = Key>,
    {
        self.attach(informer.into(), |_| {
            Ok(Box::new(move |object, add| keys(object).into_iter().for_each(add)))
        })
    }

    /// Reconciles the main objects that have, in an index of the main informer, one of the values that a function returns for
    /// a changed object of another kind. The index is added if it is not there.
    ///
    /// An object in a namespace concerns main objects of that namespace, and cluster-scoped ones. A cluster-scoped object
    /// concerns main objects in all namespaces. For references across namespaces put the namespace into the value, and use
    /// [`watches`](Self::watches).
    ///
    /// ```no_run
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
    /// # use kube_informer::{Index, Informer};
    /// # use kube_informer_controller::Controller;
    /// # fn example(deployments: Informer<Deployment>, secrets: Informer<Secret>) {
    /// let by_secret = Index::field("secret", "spec.template.spec.volumes[*].secret.secretName");
    /// let controller = Controller::builder("restarter", &deployments)
    ///     .watches_related(&secrets, &by_secret, |secret| [secret.name().to_owned()]);
    /// # }
    /// ```
    pub fn watches_related<K, V>(
        self,
        informer: impl Into<Trigger<K>>,
        index: &Index,
        values: impl Fn(&Object<K>) -> V + Send + Sync + 'static,
    ) -> Self
    where
        K: Send + Sync + 'static,
        V: IntoIterator<Item = String>,
    {
        let (main, index) = (self.main.clone(), index.clone());
        self.attach(informer.into(), move |_| {
            ensure_index(&main, &index)?;
            Ok(related(&main, &index, values))
        })
    }

    /// Reconciles the keys that a stream gives: of whatever happens outside of Kubernetes.
    pub fn reconcile_on(mut self, keys: impl Stream<Item = Key> + Send + 'static) -> Self {
        self.feeds.push(keys.map(Wanted::One).boxed());
        self
    }

    /// Reconciles everything whenever a stream gives something, after what is more urgent.
    pub fn reconcile_all_on<T>(mut self, signals: impl Stream<Item = T> + Send + 'static) -> Self {
        self.feeds.push(signals.map(|_| Wanted::All).boxed());
        self
    }

    /// How many reconciles may run at the same time, each of another key. Default: 1.
    pub fn concurrency(mut self, workers: usize) -> Self {
        self.concurrency = workers;
        self
    }

    /// For how long a key that failed is put off. Default: [`kube_workqueue::default_limiter`], which is 5 ms × 2ⁿ up to
    /// 1,000 s for each key, and for all together ten a second after a burst of 100. Success forgets a key's failures.
    pub fn backoff(mut self, limiter: impl RateLimiter<Key> + 'static) -> Self {
        self.limiter = Some(Box::new(limiter));
        self
    }

    /// What becomes of a key that failed, other than by a terminal error. Default: always [`Retry::Backoff`], which
    /// is also what a panic in it stands for.
    pub fn on_error(mut self, policy: impl Fn(Failure<'_>) -> Retry + Send + Sync + 'static) -> Self {
        self.policy = Box::new(policy);
        self
    }

    /// How long running reconciles may take to finish once the controller is told to stop. Default: 30 s.
    pub fn grace(mut self, limit: Duration) -> Self {
        self.grace = limit;
        self
    }

    /// How long a key is put off at most because its own writes are not in the cache: see [`Context::wrote`]. Default:
    /// 30 s. More than 30 years counts as that.
    pub fn write_wait_max(mut self, limit: Duration) -> Self {
        self.write_wait_max = limit;
        self
    }

    /// How many keys may be queued before streams of keys ([`reconcile_on`](Self::reconcile_on)) wait. Default:
    /// [`kube_workqueue::Builder::CAPACITY`]. Keys that informers' changes concern are always queued: each is queued once, so
    /// there are no more of them than objects.
    pub fn queue_capacity(mut self, keys: usize) -> Self {
        self.queue_capacity = Some(keys);
        self
    }

    /// How long a key has to wait to gain one point of priority. Default: [`kube_workqueue::Builder::AGING`]. The initial
    /// state and resyncs have priority −100, everything else 0.
    pub fn aging(mut self, a_point: Duration) -> Self {
        self.aging = Some(a_point);
        self
    }

    /// Works only while this replica leads. Informers and handlers are synced before, so that failover is quick. For
    /// several controllers under one lease see [`Manager`](crate::Manager).
    pub fn leader(mut self, election: LeaderElection) -> Self {
        self.leader = Some(election);
        self
    }

    /// Reports to these metrics, under the controller's name.
    #[cfg(feature = "metrics")]
    pub fn metrics(mut self, metrics: &crate::ControllerMetrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// Checks the settings and begins to listen to the informers; nothing is reconciled until the controller runs.
    /// `data` is handed to every reconcile, which may return [`Error`] or any error that converts into it.
    ///
    /// # Errors
    /// If an informer was stopped, an index cannot be added, or there are to be no workers.
    pub fn build<D, F, R, E>(self, data: D, reconcile: F) -> Result<Controller, BuildError>
    where
        D: Send + Sync + 'static,
        F: Fn(Context<D>, Key) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<Error> + 'static,
    {
        let name = self.name;
        if self.concurrency == 0 {
            return Err(BuildError::NoWorkers { controller: name });
        }
        let mut queue = WorkQueue::builder().capacity(usize::MAX);
        if let Some(limiter) = self.limiter {
            queue = queue.rate_limiter(limiter);
        }
        if let Some(aging) = self.aging {
            queue = queue.aging(aging);
        }
        let reports = Reports::default();
        #[cfg(feature = "metrics")]
        let reports = match &self.metrics {
            Some(metrics) => {
                queue = queue.metrics(name.clone(), metrics.queues());
                metrics.reports(&name, self.concurrency)
            }
            None => reports,
        };
        let capacity = self.queue_capacity.unwrap_or(kube_workqueue::Builder::<Key>::CAPACITY).max(1);
        let intake =
            Arc::new(Intake { queue: queue.build(), capacity, writes: Writes::new(self.write_wait_max) });
        let (mut listening, mut watched) = (Vec::new(), Vec::new());
        for (number, attach) in self.watches.into_iter().enumerate() {
            let (listens, erased) = attach(number, &intake).map_err(|error| error.of(&name))?;
            listening.push(listens);
            watched.push(erased);
        }
        let lister = self.main.lister();
        let lists: Lists = Box::new(move || lister.view().iter().map(|object| object.key()).collect());
        let feed = Feed { intake: intake.clone(), lists, streams: self.feeds };
        let job = Job {
            name: name.into(),
            data: Arc::new(data),
            tools: Arc::new(Tools { intake, watched }),
            reconcile: Box::new(move |context, key| {
                reconcile(context, key).map(|done| done.map_err(Into::into)).boxed()
            }),
            policy: self.policy,
            reports,
            cut_short: AtomicUsize::new(0),
        };
        let (concurrency, grace) = (self.concurrency, self.grace);
        let team = Team { job: Arc::new(job), listening: Arc::new(listening), concurrency, grace };
        Ok(Controller { managed: Box::new(team), feed: feed.run().boxed(), leader: self.leader })
    }

    fn attach<K: Send + Sync + 'static>(
        mut self,
        watch: Trigger<K>,
        map: impl FnOnce(&Informer<K>) -> Result<Map<K>, AttachError> + 'static,
    ) -> Self {
        self.watches.push(Box::new(move |number, intake| {
            let informer = watch.informer.clone();
            let map = map(&informer)?;
            let listening = watch.listen(number, map, intake);
            let listening = listening.map_err(|error| AttachError::Stopped(plural(&informer), error))?;
            Ok((listening, Box::new(informer)))
        }));
        self
    }
}

/// Adds an index to an informer; an error names that informer.
fn ensure_index<K: Send + Sync + 'static>(informer: &Informer<K>, index: &Index) -> Result<(), AttachError> {
    informer.ensure_index(index).map_err(|error| AttachError::Index(plural(informer), error))
}

fn plural<K: Send + Sync + 'static>(informer: &Informer<K>) -> String {
    informer.resource().plural.clone()
}

impl AttachError {
    fn of(self, controller: &str) -> BuildError {
        let controller = controller.to_owned();
        match self {
            Self::Index(informer, source) => BuildError::Index { controller, informer, source },
            Self::Stopped(informer, source) => BuildError::Informer { controller, informer, source },
        }
    }
}

impl<M> fmt::Debug for ControllerBuilder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder")
            .field("name", &self.name)
            .field("main", &self.main)
            .field("watches", &self.watches.len())
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}
