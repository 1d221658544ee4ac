//! `kube-informer wait`: waits until objects meet a condition, as `kubectl wait` does.

use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::select_all;
use kube_informer::{Event, Key};
use tokio::time::Instant;

use crate::cluster::{Cluster, ClusterFlags, CredentialFlags, parse_duration};
use crate::condition::{Condition, Tracker};
use crate::discovery::{Catalogue, Selected, Wanted};
use crate::failure::Failure;
use crate::field_filter::FieldMatchers;
use crate::flags::SelectFlags;
use crate::mirror::{self, Mirror, MirrorErrors, MirrorOptions};
use crate::signals;
use crate::terminal::{ColourChoice, Screen, StatusOn, escape};

/// Selects objects and a condition.
#[derive(clap::Args)]
pub(crate) struct WaitArguments {
    /// Kinds and names: pods web-1, pod/web-1, deploy/api.
    #[arg(value_name = "KIND", required_unless_present = "filename")]
    what: Vec<String>,
    /// Wait for the objects of this manifest; `-` reads the standard input; can be repeated.
    #[arg(short, long, value_name = "FILE")]
    filename: Vec<PathBuf>,
    /// Condition: condition=Ready, condition=Ready=False, jsonpath={.status.phase}=Running, create or delete.
    #[arg(long = "for", value_name = "CONDITION", required = true)]
    condition: Condition,
    /// Time limit, such as 30s or 2m; 0 checks once.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,
    /// All objects of the kind.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    select: SelectFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    credentials: CredentialFlags,
}

pub(crate) async fn run(arguments: WaitArguments) -> Result<(), Failure> {
    let mut signals = signals::listen()?;
    let mut screen = Screen::new(ColourChoice::Never, StatusOn::Stderr);
    tokio::select! {
        biased;
        signal = signals.next() => Err(Failure::Interrupted(signal)),
        ended = wait(&arguments, &mut screen) => ended,
    }
}

async fn wait(arguments: &WaitArguments, screen: &mut Screen) -> Result<(), Failure> {
    let cluster = Cluster::connect_as(&arguments.cluster, &arguments.credentials).await?;
    let catalogue = Catalogue::fetch(&cluster).await?;
    let mut selected = match arguments.what.as_slice() {
        [] => Vec::new(),
        what => catalogue.select(&Wanted { what: what.to_vec() }, &["list", "watch"])?,
    };
    selected.extend(catalogue.select_from_files(&arguments.filename).await?);
    arguments.check(&selected)?;
    let (sender, errors) = mirror::errors();
    let start = |(number, selected)| {
        let options = MirrorOptions::default();
        Mirror::start(&cluster, selected, &arguments.select, &options, number, sender.clone())
    };
    let mirrors = selected.into_iter().enumerate().map(start).collect::<Result<Vec<_>, _>>()?;
    let tracker = Tracker::new(arguments.condition.clone(), mirrors.len());
    let mut waiting = Waiting { arguments, cluster: &cluster, mirrors, tracker };
    waiting.run(errors, screen).await?;
    screen.flush().await
}

impl WaitArguments {
    fn check(&self, selected: &[Selected]) -> Result<(), Failure> {
        self.condition.check_masked(selected, false)?;
        let is_narrowed = self.all || !self.select.labels.is_empty() || !self.select.fields.is_empty();
        let unnamed = selected.iter().find(|one| one.name.is_none());
        if let Some(one) = unnamed.filter(|_| self.condition == Condition::Created) {
            return Err(Failure::Usage(format!(
                "--for=create needs the name of an object: {}/NAME",
                one.kind.qualified()
            )));
        }
        if let Some(one) = unnamed.filter(|_| !is_narrowed) {
            return Err(Failure::Usage(format!(
                "cannot wait for {}: no objects selected; name them, or use -l, --field-selector or --all",
                one.kind.qualified()
            )));
        }
        if let Some(name) = selected.iter().find_map(|one| one.name.as_ref())
            && self.select.all_namespaces
        {
            return Err(Failure::Usage(format!(
                "cannot wait for {name} in all namespaces: a name belongs to one namespace; use -n NAMESPACE"
            )));
        }
        Ok(())
    }
}

struct Waiting<'a> {
    arguments: &'a WaitArguments,
    cluster: &'a Cluster,
    mirrors: Vec<Mirror>,
    tracker: Tracker,
}

impl Waiting<'_> {
    async fn run(&mut self, mut errors: MirrorErrors, screen: &mut Screen) -> Result<(), Failure> {
        let events =
            self.mirrors.iter().enumerate().map(|(number, mirror)| {
                mirror.informer.subscribe().map(move |event| (number, event)).boxed()
            });
        let mut events = select_all(events);
        let limit = self.arguments.timeout;
        let deadline = tokio::time::sleep_until(Instant::now() + limit);
        tokio::pin!(deadline);
        while !self.tracker.is_done() {
            tokio::select! {
                biased;
                Some((number, report)) = errors.recv() => {
                    if mirror::is_lack_of_watch_lists(&report) {
                        continue;
                    }
                    let mirror = &self.mirrors[number];
                    if let Some(refusal) = mirror.refusal(&report) {
                        return Err(refusal);
                    }
                    let error = report.error.to_string();
                    let text = format!("{}: {}", mirror.selected.kind.qualified(), escape::one_line(&error));
                    screen.remark(&format!("{text}; {}", report.next())).await?;
                }
                Some((number, event)) = events.next() => {
                    for key in self.event(number, &event)? {
                        let prefix = self.mirrors[number].selected.kind.name_prefix();
                        screen.line(format!("{prefix}/{} condition met", key.name())).await?;
                        screen.flush().await?;
                    }
                    if limit.is_zero() && self.tracker.is_synced() && !self.tracker.is_done() {
                        let waiting = self.tracker.describe(&self.mirrors);
                        return Err(Failure::TimedOut(format!("condition not met: {waiting}")));
                    }
                }
                () = &mut deadline, if !limit.is_zero() => return Err(self.timed_out()),
            }
        }
        Ok(())
    }

    fn timed_out(&self) -> Failure {
        let limit = self.arguments.timeout;
        Failure::TimedOut(format!(
            "timed out after {limit:?} waiting for {}",
            self.tracker.describe(&self.mirrors)
        ))
    }

    /// The objects that meet the condition because of an event.
    fn event(&mut self, number: usize, event: &Event<serde_json::Value>) -> Result<Vec<Key>, Failure> {
        let (object, deleted) = match event {
            Event::Synced => {
                let (mirror, select) = (&self.mirrors[number], &self.arguments.select);
                return self.tracker.synced(number, mirror, self.cluster, select, &FieldMatchers::default());
            }
            Event::Added { object, .. } | Event::Updated { new: object, .. } => (object, false),
            Event::Deleted { last, .. } => (last, true),
        };
        let met = self.tracker.changed(number, object, deleted, &FieldMatchers::default())?;
        Ok(met.then(|| object.key()).into_iter().collect())
    }
}
