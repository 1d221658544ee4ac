//! `kube-informer top`: a live view of informers on a terminal.

mod changes;
mod kinds;
mod model;
mod objects;
mod view;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use crate::cluster::{Cluster, ClusterFlags, CredentialFlags};
use crate::discovery::{Catalogue, Wanted};
use crate::failure::Failure;
use crate::flags::SelectFlags;
use crate::mirror::{self, Mirror, MirrorErrors, MirrorOptions};
use crate::signals;
use crate::terminal::{ColourChoice, FullScreen, Input, escape};
use changes::Changes;
use kinds::Kinds;
use model::{Action, Model};

/// How often figures are sampled and the view is drawn.
const TICK: Duration = Duration::from_millis(250);

/// The kinds without an argument.
const DEFAULT_KINDS: &str = "all,nodes,namespaces";

/// Selects kinds.
#[derive(clap::Args)]
pub(crate) struct TopArguments {
    /// Kinds as in `get`; by default all, nodes and namespaces.
    #[arg(value_name = "KIND")]
    what: Vec<String>,
    /// When to use colours.
    #[arg(long, value_enum, default_value_t)]
    color: ColourChoice,
    #[command(flatten)]
    select: SelectFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    credentials: CredentialFlags,
}

pub(crate) async fn run(mut arguments: TopArguments) -> Result<(), Failure> {
    let mut signals = signals::listen()?;
    if arguments.select.namespaces.is_empty() {
        arguments.select.all_namespaces = true;
    }
    let (mut top, mut screen) = tokio::select! {
        biased;
        _ = signals.next() => return Ok(()),
        started = start(&arguments) => started?,
    };
    let ended = tokio::select! {
        biased;
        _ = signals.next() => Ok(()),
        ended = top.run(&mut screen) => ended,
    };
    drop(screen);
    for mirror in top.kinds.mirrors() {
        mirror.informer.shutdown().await;
    }
    ended
}

async fn start(arguments: &TopArguments) -> Result<(Top, FullScreen), Failure> {
    let cluster = Cluster::connect_as(&arguments.cluster, &arguments.credentials).await?;
    let catalogue = Catalogue::fetch(&cluster).await?;
    let what = match arguments.what.as_slice() {
        [] => vec![DEFAULT_KINDS.to_owned()],
        what => what.to_vec(),
    };
    let selected = catalogue.select(&Wanted { what }, &["list", "watch"])?;
    let (sender, errors) = mirror::errors();
    let changes = Arc::<Changes>::default();
    let mut kinds = Kinds::default();
    for (number, selected) in selected.into_iter().enumerate() {
        let options = MirrorOptions::default();
        let mirror = Mirror::start(&cluster, selected, &arguments.select, &options, number, sender.clone())?;
        kinds.add(mirror, &changes)?;
    }
    let screen = FullScreen::enter(arguments.color)?;
    let model = Model::new(cluster.url.clone(), screen.colours);
    Ok((Top { kinds, changes, errors, model }, screen))
}

/// The running view.
struct Top {
    kinds: Kinds,
    changes: Arc<Changes>,
    errors: MirrorErrors,
    model: Model,
}

impl Top {
    async fn run(&mut self, screen: &mut FullScreen) -> Result<(), Failure> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            self.model.take_changes(&self.changes);
            let (kinds, model) = (&self.kinds, &mut self.model);
            screen.draw(|frame| view::draw(frame, model, kinds)).await?;
            tokio::select! {
                biased;
                input = screen.input() => match input {
                    None => return Ok(()),
                    Some(Input::Resized) => {}
                    Some(Input::Key(key)) => if self.model.key(key, &self.kinds) == Action::Quit {
                        return Ok(());
                    },
                },
                Some((number, report)) = self.errors.recv() => {
                    if !mirror::is_lack_of_watch_lists(&report) {
                        let error = escape::one_line(&report.error.to_string()).into_owned();
                        self.kinds.failed(number, error);
                    }
                }
                _ = tick.tick() => {
                    self.kinds.sample();
                    self.model.refresh(&self.kinds);
                }
            }
        }
    }
}
