//! `kube-informer get`: objects as they are now, by kubectl's selectors and by any field.
//!
//! Columns are the server's own where it gives a `Table`. Everything else is read by an informer and asked of its lister,
//! so that `--field` and `--index` work on every field of every kind, whatever the server can select by.

mod by_index;
mod tables;

use futures::FutureExt;
use kube_informer::SyncError;
use serde_json::Value;

use crate::cluster::{Cluster, ClusterFlags};
use crate::discovery::{Catalogue, Selected, Wanted};
use crate::failure::Failure;
use crate::flags::{OutputFlags, SelectFlags};
use crate::masks;
use crate::mirror::{self, Mirror, MirrorOptions};
use crate::output::{self, Format};
use crate::request;
use crate::signals::Signals;
use crate::terminal::{Screen, StatusOn};

/// What to get.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    wanted: Wanted,
    /// Only objects with this value in a field, any field: spec.nodeName=node-7, `spec.containers[*].image=nginx:1`.
    /// May be repeated.
    #[arg(long = "field", value_name = "PATH=VALUE")]
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

pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let mut screen = Screen::new(arguments.output.color, StatusOn::Stderr);
    tokio::select! {
        biased;
        () = signals.next() => Ok(()),
        ended = get(&arguments, &mut screen) => ended,
    }?;
    screen.flush()
}

async fn get(arguments: &Arguments, screen: &mut Screen) -> Result<(), Failure> {
    let fields = arguments.field.iter().map(|field| parse_field(field)).collect::<Result<Vec<_>, _>>()?;
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let catalogue = Catalogue::fetch(&cluster).await?;
    let selected = catalogue.select(&arguments.wanted, &["list"])?;
    let getting = Getting { arguments, cluster: &cluster, fields, several: selected.len() > 1 };
    match (&arguments.index, arguments.output.format()) {
        (Some(path), format) => by_index::run(&getting, path, &format, selected, screen).await,
        (None, Format::Table { wide }) => tables::run(&getting, wide, selected, screen).await,
        (None, format) => getting.print(&format, selected, screen).await,
    }
}

/// `spec.nodeName=node-7`.
fn parse_field(text: &str) -> Result<(String, String), Failure> {
    // The path may hold `[?type=Ready]`: the sign is the first one outside of brackets.
    let mut depth = 0_usize;
    let sign = text.char_indices().find(|(_, c)| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        *c == '=' && depth == 0
    });
    let Some((sign, _)) = sign else {
        return Err(Failure::Usage(format!("--field {text}: write PATH=VALUE, as spec.nodeName=node-7")));
    };
    let (path, value) = (&text[..sign], &text[sign + 1..]);
    Ok((path.to_owned(), value.strip_prefix('=').unwrap_or(value).to_owned()))
}

/// What is asked for, and of whom.
struct Getting<'a> {
    arguments: &'a Arguments,
    cluster: &'a Cluster,
    fields: Vec<(String, String)>,
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
        let mut all = Vec::new();
        for selected in selected {
            for object in self.objects(&selected).await? {
                all.push((selected.kind.clone(), object));
            }
        }
        match format {
            Format::Name => {
                for (kind, object) in &all {
                    screen.line(&output::name(kind, object))?;
                }
                return Ok(());
            }
            Format::CustomColumns(columns) => {
                return tables::print_rows(
                    columns.titles(),
                    &all.iter().map(|(_, object)| columns.cells(object)).collect::<Vec<_>>(),
                    self.arguments.output.no_headers,
                    screen,
                );
            }
            _ => {}
        }
        let mut objects = all.into_iter().map(|(_, object)| object).collect::<Vec<_>>();
        let whole = if one && objects.len() == 1 { objects.remove(0) } else { output::list(objects) };
        match format {
            Format::Yaml => screen.line(&output::yaml(&whole)),
            Format::JsonPath(template) => screen.text(&template.print(&whole)),
            _ => screen.line(&output::json(&whole)),
        }
    }

    /// The objects of a kind, in the order of their names.
    async fn objects(&self, selected: &Selected) -> Result<Vec<Value>, Failure> {
        if let (Some(name), true) =
            (&selected.name, self.fields.is_empty() && self.arguments.select.fields.is_empty())
        {
            return Ok(vec![self.object(selected, name).await?]);
        }
        let mirror = self.mirror(selected.clone(), None).await?;
        let mut objects = self.narrowed(&mirror)?.list();
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
        let path = kind.path(select.namespace_of(self.cluster, kind), Some(name));
        let asked = format!("reading {}", select.describe(self.cluster, kind));
        let answer = request::get(self.cluster, &path, "application/json").await;
        Ok(self.cleaned(answer.map_err(|error| error.when(&asked))?))
    }

    /// Without what is not to be shown.
    fn cleaned(&self, mut object: Value) -> Value {
        if !self.arguments.output.show_managed_fields
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("managedFields");
        }
        if !self.arguments.output.show_secrets {
            masks::mask(&mut object);
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

    /// An informer that has read everything. Any trouble is an error: there is nobody to wait.
    async fn mirror(
        &self,
        selected: Selected,
        index: Option<&kube_informer::store::Index>,
    ) -> Result<Mirror, Failure> {
        let options = MirrorOptions {
            managed_fields: self.arguments.output.show_managed_fields,
            list_only: true,
            index,
            metrics: None,
        };
        let (sender, mut troubles) = mirror::troubles();
        let mirror = Mirror::start(self.cluster, selected, &self.arguments.select, &options, 0, sender)?;
        tokio::select! {
            biased;
            Some((_, trouble)) = troubles.recv() => Err(mirror.refusal(&trouble).unwrap_or_else(|| {
                Failure::Other(format!("{}: {}", mirror.asked, trouble.error))
            })),
            synced = mirror.informer.synced().boxed() => {
                // The same refusal comes both ways.
                synced.map_err(|error| match &error {
                    SyncError::Refused { status, .. } => Failure::from_status(&mirror.asked, status),
                    _ => Failure::other(&mirror.asked, &error),
                })?;
                Ok(mirror)
            }
        }
    }

    /// Only objects with the fields that were asked for.
    fn narrowed(&self, mirror: &Mirror) -> Result<kube_informer::Lister<Value>, Failure> {
        let mut lister = mirror.informer.lister();
        for (path, value) in &self.fields {
            lister = lister
                .field(path, value)
                .map_err(|error| Failure::Usage(format!("--field {path}: {error}")))?;
        }
        Ok(lister)
    }

    fn nothing_found(&self, selected: &Selected) -> String {
        format!("no {} found", self.arguments.select.describe(self.cluster, &selected.kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_a_path_and_a_value_and_signs_in_brackets_belong_to_the_path() {
        let parsed = |text| parse_field(text).map_err(|error| error.to_string());
        let pair = |path: &str, value: &str| Ok((path.to_owned(), value.to_owned()));
        assert_eq!(parsed("spec.nodeName=node-7"), pair("spec.nodeName", "node-7"));
        assert_eq!(parsed("spec.nodeName==node-7"), pair("spec.nodeName", "node-7"));
        assert_eq!(parsed("a[?type=Ready].status=True"), pair("a[?type=Ready].status", "True"));
        assert_eq!(parsed("a="), pair("a", ""));
        assert!(parsed("spec.nodeName").unwrap_err().contains("write PATH=VALUE"));
    }
}
