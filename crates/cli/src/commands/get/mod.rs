//! `kube-informer get`: objects as they are now, by kubectl's selectors and by any field.
//!
//! Columns are the server's own where it gives a `Table`. Everything else is read by an informer and asked of its lister,
//! so that `--field` and `--index` work on every field of every kind, whatever the server can select by.

mod by_index;
mod tables;

use kube_informer::SyncError;
use kube_informer::building_blocks::{ReflectorError, StoredObject};
use serde_json::Value;

use crate::cluster::{Cluster, ClusterFlags};
use crate::discovery::{Catalogue, Kind, Selected, Wanted};
use crate::failure::Failure;
use crate::field_filter::FieldFilter;
use crate::flags::{OutputFlags, SelectFlags};
use crate::masks;
use crate::mirror::{self, Mirror, MirrorErrors, MirrorOptions};
use crate::output::{self, Format};
use crate::request;
use crate::signals;
use crate::terminal::{Screen, StatusOn, escape};

/// What to get.
#[derive(clap::Args)]
pub(crate) struct GetArguments {
    #[command(flatten)]
    wanted: Wanted,
    /// Only objects whose field passes a test, any field: spec.nodeName=node-7, status.phase!=Running,
    /// 'spec.replicas>3', 'spec.nodeName in (a,b)', spec.hostNetwork (present), '!spec.nodeName' (absent). May be repeated.
    #[arg(long = "field", value_name = "TEST")]
    field: Vec<String>,
    /// How many objects have each value of a field: spec.nodeName, status.phase.
    #[arg(long, value_name = "PATH")]
    index: Option<String>,
    /// Whether columns are made by the server, where it can.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    server_print: bool,
    #[command(flatten)]
    select: SelectFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
}

pub(crate) async fn run(arguments: GetArguments) -> Result<(), Failure> {
    let mut signals = signals::listen()?;
    let mut screen = Screen::new(arguments.output.color, StatusOn::Stderr);
    tokio::select! {
        biased;
        _ = signals.next() => Ok(()),
        ended = get(&arguments, &mut screen) => ended,
    }
}

async fn get(arguments: &GetArguments, screen: &mut Screen) -> Result<(), Failure> {
    let fields = arguments.field.iter().map(|field| parse_field(field)).collect::<Result<Vec<_>, _>>()?;
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let catalogue = Catalogue::fetch(&cluster).await?;
    let selected = catalogue.select(&arguments.wanted, &["list"])?;
    check_masked_fields(arguments, &fields, &selected)?;
    let several = selected.iter().any(|one| one.kind != selected[0].kind);
    let getting = Getting { arguments, cluster: &cluster, fields, several };
    match (&arguments.index, arguments.output.format()) {
        (Some(path), format) => by_index::run(&getting, path, &format, selected, screen).await?,
        (None, Format::Table { wide }) => tables::run(&getting, wide, selected, screen).await?,
        (None, format) => getting.print(&format, selected, screen).await?,
    }
    screen.flush().await
}

fn parse_field(text: &str) -> Result<FieldFilter, Failure> {
    text.parse().map_err(|error| Failure::Usage(format!("--field {text:?}: {error}")))
}

/// Objects that were asked for by name and do not exist. The others are shown all the same, as kubectl does.
#[derive(Default)]
struct Missing {
    last: Option<Failure>,
}

impl Missing {
    /// Remembers that an object is missing; other failures end the command.
    async fn unless_found<T>(
        &mut self,
        found: Result<T, Failure>,
        screen: &mut Screen,
    ) -> Result<Option<T>, Failure> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(failure @ Failure::NotFound(_)) => {
                if let Some(before) = self.last.replace(failure) {
                    screen.remark(&before.to_string()).await?;
                }
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    fn end(self) -> Result<(), Failure> {
        self.last.map_or(Ok(()), Err)
    }
}

/// A field whose values are masked is not read, neither to print its values nor to confirm a guess.
fn check_masked_fields(
    arguments: &GetArguments,
    fields: &[FieldFilter],
    selected: &[Selected],
) -> Result<(), Failure> {
    let has_secrets = selected.iter().any(|one| masks::are_secrets(&one.kind.resource));
    if arguments.output.show_secrets || !has_secrets {
        return Ok(());
    }
    let fields = fields.iter().map(|filter| ("--field", filter.path().to_string()));
    let index = arguments.index.iter().map(|path| ("--index", path.clone()));
    match fields.chain(index).find(|(_, path)| masks::hides_field(path)) {
        Some((flag, path)) => Err(Failure::Usage(format!(
            "{flag} {path}: the values of Secrets are masked; add --show-secrets to read them"
        ))),
        None => Ok(()),
    }
}

/// What is asked for, and of whom.
struct Getting<'a> {
    arguments: &'a GetArguments,
    cluster: &'a Cluster,
    fields: Vec<FieldFilter>,
    several: bool,
}

impl Getting<'_> {
    async fn print(
        &self,
        format: &Format,
        selected: Vec<Selected>,
        screen: &mut Screen,
    ) -> Result<(), Failure> {
        let one = selected.len() == 1 && selected[0].name.is_some();
        let (mut all, mut missing) = (Vec::new(), Missing::default());
        for selected in selected {
            for object in
                missing.unless_found(self.objects(&selected).await, screen).await?.unwrap_or_default()
            {
                all.push((selected.kind.clone(), object));
            }
        }
        if !(all.is_empty() && one) {
            self.print_objects(format, all, one, screen).await?;
        }
        missing.end()
    }

    async fn print_objects(
        &self,
        format: &Format,
        all: Vec<(Kind, Value)>,
        one: bool,
        screen: &mut Screen,
    ) -> Result<(), Failure> {
        match format {
            Format::Name => {
                for (kind, object) in &all {
                    screen.line(output::name(kind, object)).await?;
                }
                return Ok(());
            }
            Format::CustomColumns(columns) => {
                return tables::print_rows(
                    columns.titles(),
                    &all.iter().map(|(_, object)| columns.cells(object)).collect::<Vec<_>>(),
                    self.arguments.output.no_headers,
                    screen,
                )
                .await;
            }
            _ => {}
        }
        let mut objects = all.into_iter().map(|(_, object)| object).collect::<Vec<_>>();
        let whole = if one && objects.len() == 1 { objects.remove(0) } else { output::list(objects) };
        match format {
            Format::Yaml => screen.text(&(output::yaml(&whole) + "\n")).await,
            Format::JsonPath(template) => screen.text(&template.print(&whole)).await,
            _ => screen.text(&(output::json(&whole) + "\n")).await,
        }
    }

    /// The objects of a kind, in the order of their names.
    async fn objects(&self, selected: &Selected) -> Result<Vec<Value>, Failure> {
        if let (Some(name), true) =
            (&selected.name, self.fields.is_empty() && self.arguments.select.fields.is_empty())
        {
            return Ok(vec![self.object(selected, name).await?]);
        }
        let filter = self.filter(&selected.kind)?;
        let mirror = self.mirror(selected.clone(), None).await?;
        let mut objects = Vec::new();
        for object in mirror.informer.lister().list() {
            if filter(&object)? {
                objects.push(object);
            }
        }
        objects.sort_unstable_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
        let show_secrets = self.arguments.output.show_secrets;
        let values = objects.iter().map(|object| mirror::value_of(object, show_secrets)).collect();
        mirror.informer.shutdown().await;
        Ok(values)
    }

    /// One object by its name.
    async fn object(&self, selected: &Selected, name: &str) -> Result<Value, Failure> {
        let (select, kind) = (&self.arguments.select, &selected.kind);
        self.check_namespace(selected)?;
        let path = kind.path(select.namespace_of(self.cluster, kind), Some(name))?;
        let asked = format!("reading {}", select.describe(self.cluster, kind));
        let answer = request::get(self.cluster, &path, "application/json").await;
        let object = answer.map_err(|error| error.when(&asked))?;
        let expected = kind.resource.type_meta();
        if object["kind"] != expected.kind() || object["apiVersion"] != expected.api_version() {
            let found = object["kind"].as_str().unwrap_or("something without a kind");
            return Err(Failure::Other(format!("{asked}: expected {expected}, received {found}")));
        }
        Ok(self.cleaned(kind, object))
    }

    /// Without what is not to be shown.
    fn cleaned(&self, kind: &Kind, mut object: Value) -> Value {
        if !self.arguments.output.show_managed_fields
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("managedFields");
        }
        // The items of a list may lack their kind.
        if !self.arguments.output.show_secrets && masks::are_secrets(&kind.resource) {
            masks::mask_secret(&mut object);
        }
        object
    }

    /// A name belongs to one namespace.
    fn check_namespace(&self, selected: &Selected) -> Result<(), Failure> {
        match (self.arguments.select.all_namespaces && selected.kind.namespaced, &selected.name) {
            (true, Some(name)) => Err(Failure::Usage(format!(
                "{name} is a name in one namespace: give -n NAMESPACE instead of -A"
            ))),
            _ => Ok(()),
        }
    }

    /// An informer that has read everything. It waits where the server asks for that, up to a limit; any other error
    /// ends the command.
    async fn mirror(
        &self,
        selected: Selected,
        index: Option<&kube_informer::Index>,
    ) -> Result<Mirror, Failure> {
        let options = MirrorOptions {
            managed_fields: self.arguments.output.show_managed_fields,
            show_secrets: self.arguments.output.show_secrets,
            list_only: true,
            index,
            ..MirrorOptions::default()
        };
        let (sender, errors) = mirror::errors();
        let mirror = Mirror::start(self.cluster, selected, &self.arguments.select, &options, 0, sender)?;
        let synced = self.synced(&mirror, errors);
        match self.cluster.request_timeout {
            None => synced.await?,
            Some(limit) => tokio::time::timeout(limit, synced).await.unwrap_or_else(|_| {
                Err(Failure::NoCluster(format!("timed out after {limit:?} {}", mirror.asked)))
            })?,
        }
        Ok(mirror)
    }

    async fn synced(&self, mirror: &Mirror, mut errors: MirrorErrors) -> Result<(), Failure> {
        let mut retries = 0;
        let synced = mirror.informer.synced();
        tokio::pin!(synced);
        loop {
            tokio::select! {
                biased;
                Some((_, report)) = errors.recv() => {
                    // A watch follows the list, and nothing is expected from it.
                    if !matches!(*report.error, ReflectorError::List(_) | ReflectorError::Object(_)) {
                        continue;
                    }
                    let status = report.error.status();
                    let passes = status.is_some_and(|status| request::can_retry(status) || status.is_expired());
                    if passes && retries < request::RETRIES_MAX {
                        retries += 1;
                        continue;
                    }
                    return Err(mirror.refusal(&report).unwrap_or_else(|| {
                        Failure::Other(format!("{}: {}", mirror.asked, escape::one_line(&report.error.to_string())))
                    }));
                }
                // The same refusal may arrive either way.
                synced = &mut synced => return synced.map_err(|error| match &error {
                    SyncError::Refused { status, .. } => Failure::from_status(&mirror.asked, status),
                    _ => Failure::other(&mirror.asked, &error),
                }),
            }
        }
    }

    /// A predicate for all of `--field`.
    ///
    /// # Errors
    /// If the kind is built in and has no such field.
    fn filter(&self, kind: &Kind) -> Result<impl Fn(&StoredObject) -> Result<bool, Failure>, Failure> {
        let type_meta = kind.resource.type_meta();
        let matcher = |filter| FieldFilter::matcher(filter, &type_meta);
        let matchers = self.fields.iter().map(matcher).collect::<Result<Vec<_>, _>>();
        let matchers = matchers.map_err(|error| Failure::Usage(format!("--field: {error}")))?;
        Ok(move |object: &StoredObject| {
            for matcher in &matchers {
                let matches = matcher.matches(object);
                let matches = matches
                    .map_err(|error| Failure::Other(format!("cannot read {}: {error}", object.key())))?;
                if !matches {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn nothing_found(&self, selected: &Selected) -> String {
        format!("no {} found", self.arguments.select.describe(self.cluster, &selected.kind))
    }
}
