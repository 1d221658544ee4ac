//! `kube-informer get`: the current state of objects.
//!
//! Columns come from the server where it returns a `Table`. Everything else is read by an informer, so that `--field` and
//! `--index` work on every field of every kind. The informer keeps only the fields that the output shows; names, columns,
//! sort keys and fields of templates are read from its bytes, and complete objects are decoded one at a time.

mod arguments;
mod by_index;
mod listing;
mod print;
mod tables;

pub(crate) use arguments::GetArguments;

use super::watch;
use crate::cluster::Cluster;
use crate::discovery::{Catalogue, Kind, Selected, Wanted};
use crate::failure::Failure;
use crate::field_filter::FieldFilter;
use crate::masks;
use crate::output::Format;
use crate::output::columns::Columns;
use crate::output::jsonpath::Path;
use crate::output::record::Decodes;
use crate::reads::Reads;
use crate::signals;
use crate::terminal::{Screen, StatusOn};

pub(crate) async fn run(arguments: GetArguments) -> Result<(), Failure> {
    arguments.check()?;
    if arguments.watch || arguments.watch_only {
        return watch::run(arguments.into_watch()).await;
    }
    let mut signals = signals::listen()?;
    let mut screen = Screen::new(arguments.output.color, StatusOn::Stderr);
    tokio::select! {
        biased;
        signal = signals.next() => Err(Failure::Interrupted(signal)),
        ended = get(&arguments, &mut screen) => ended,
    }
}

async fn get(arguments: &GetArguments, screen: &mut Screen) -> Result<(), Failure> {
    let fields =
        arguments.field.iter().map(|field| FieldFilter::from_flag(field)).collect::<Result<Vec<_>, _>>()?;
    let sort_by = arguments.sort_by.as_deref().map(parse_sort_by).transpose()?;
    let cluster = Cluster::connect_as(&arguments.cluster, &arguments.credentials).await?;
    let catalogue = Catalogue::fetch(&cluster).await?;
    let mut selected = match arguments.what.as_slice() {
        [] => Vec::new(),
        what => catalogue.select(&Wanted { what: what.to_vec() }, &["list"])?,
    };
    selected.extend(catalogue.select_from_files(&arguments.filename).await?);
    arguments.check_names(&selected)?;
    let several = selected.iter().any(|one| one.kind != selected[0].kind);
    let getting =
        Getting { arguments, cluster: &cluster, fields, sort_by, several, decodes: Decodes::default() };
    getting.check_masked_fields(&selected)?;
    match (arguments.index.as_slice(), arguments.output.format()) {
        ([], Format::Table { wide }) => tables::run(&getting, wide, &selected, screen).await?,
        ([], format) => print::run(&getting, &format, &selected, screen).await?,
        (paths, format) => by_index::run(&getting, paths, &format, &selected, screen).await?,
    }
    tracing::debug!(decoded = getting.decodes.count(), "objects decoded");
    screen.flush().await
}

fn parse_sort_by(text: &str) -> Result<Path, Failure> {
    Path::parse(text).map_err(|error| Failure::Usage(format!("--sort-by {text}: {error}")))
}

/// The arguments, and the cluster to read from.
struct Getting<'a> {
    arguments: &'a GetArguments,
    cluster: &'a Cluster,
    fields: Vec<FieldFilter>,
    sort_by: Option<Path>,
    /// Objects of several kinds are selected.
    several: bool,
    decodes: Decodes,
}

impl Getting<'_> {
    /// The fields of a kind that a format, the filters and the sort key read.
    fn reads(&self, format: &Format, kind: &Kind, one: bool) -> Reads {
        let type_meta = kind.resource.type_meta();
        let complete = Reads::Everything { managed_fields: self.arguments.output.show_managed_fields };
        let shown = match format {
            Format::Name | Format::Table { .. } => Some(Vec::new()),
            Format::CustomColumns(columns) => columns.paths().iter().map(Path::field_path).collect(),
            Format::JsonPath(template) if !one => template.list_fields(),
            Format::Json | Format::Yaml | Format::JsonPath(_) => None,
        };
        let sort_key = self.sort_by.as_ref().map(Path::field_path);
        let (Some(shown), Some(sort_key)) = (shown, sort_key.map_or(Some(None), |path| path.map(Some)))
        else {
            return complete;
        };
        let own = match format {
            Format::Table { .. } => Columns::of(&kind.resource).fields(),
            _ => &[],
        };
        let filtered = self.fields.iter().map(|filter| filter.path().clone());
        let paths = shown.into_iter().chain(sort_key).chain(filtered);
        paths.fold(Reads::heads().and_known(own), |reads, path| reads.and(&path, &type_meta))
    }

    /// A masked field is neither read to print it, nor to confirm a guess, nor to sort by it.
    fn check_masked_fields(&self, selected: &[Selected]) -> Result<(), Failure> {
        let has_secrets = selected.iter().any(|one| masks::are_secrets(&one.kind.resource));
        if self.arguments.output.show_secrets || !has_secrets {
            return Ok(());
        }
        let fields = self.fields.iter().map(|filter| ("--field", filter.path().to_string()));
        let index = self.arguments.index.iter().map(|path| ("--index", path.clone()));
        let sort_by = self.arguments.sort_by.iter().map(|path| ("--sort-by", path.clone()));
        let is_masked = |path: &str| match Path::parse(path).ok().and_then(|path| path.field_path()) {
            Some(path) => masks::hides_field(&path.to_string()),
            // Such a path may lead to a masked field, too.
            None => path
                .parse::<kube_wire::FieldPath>()
                .map_or(true, |path| masks::hides_field(&path.to_string())),
        };
        match fields.chain(index).chain(sort_by).find(|(_, path)| is_masked(path)) {
            Some((flag, path)) => Err(Failure::Usage(format!(
                "{flag} {path}: the values of Secrets are masked; add --show-secrets to read them"
            ))),
            None => Ok(()),
        }
    }

    fn nothing_found(&self, selected: &Selected) -> String {
        format!("no {} found", self.arguments.select.describe(self.cluster, selected))
    }
}

/// Named objects that do not exist. The others are printed nevertheless, as in kubectl.
struct Missing {
    /// `--ignore-not-found`
    ignored: bool,
    last: Option<Failure>,
}

impl Missing {
    fn new(arguments: &GetArguments) -> Self {
        Self { ignored: arguments.ignore_not_found, last: None }
    }

    /// Records a missing object; other failures end the command.
    async fn unless_found<T>(
        &mut self,
        found: Result<T, Failure>,
        screen: &mut Screen,
    ) -> Result<Option<T>, Failure> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Failure::NotFound(_)) if self.ignored => Ok(None),
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
