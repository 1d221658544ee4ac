//! `--index PATH`: the number of objects per value of a field, or per pair of values of two fields.

use std::collections::HashMap;

use kube_informer::StoredObject;
use kube_wire::FieldPath;
use kube_wire::path::PathReader;
use serde_json::{Map, Value};

use super::{Getting, tables};
use crate::discovery::{Kind, Selected};
use crate::failure::Failure;
use crate::field_filter::FieldFilter;
use crate::output::Format;
use crate::output::list::Document;
use crate::reads::Reads;
use crate::terminal::Screen;

/// The values of the fields, and the number of objects that have them.
type Count = (Vec<String>, usize);

pub(super) async fn run(
    getting: &Getting<'_>,
    paths: &[String],
    format: &Format,
    selected: &[Selected],
    screen: &mut Screen,
) -> Result<(), Failure> {
    let fields = paths.iter().map(|path| parse(path)).collect::<Result<Vec<_>, _>>()?;
    for selected in selected {
        let counts = counts(getting, &fields, selected, screen).await?;
        if counts.is_empty() {
            let nothing = getting.nothing_found(selected);
            screen.remark(&format!("{nothing} with a value in {}", paths.join(" and "))).await?;
            continue;
        }
        match format {
            Format::Json => screen.text(&Document::Json.object(&as_map(&counts))).await?,
            Format::Yaml => screen.text(&Document::Yaml.object(&as_map(&counts))).await?,
            Format::Table { .. } => {
                let row = |(values, count): &Count| [values.as_slice(), &[count.to_string()]].concat();
                let rows = counts.iter().map(row).collect::<Vec<_>>();
                let plural = selected.kind.resource.plural.to_uppercase();
                let titles = paths.iter().map(|path| path.to_uppercase()).chain([plural]).collect::<Vec<_>>();
                tables::print_rows(&titles, &rows, getting.arguments.output.no_headers, screen).await?;
            }
            _ => {
                return Err(Failure::Usage(
                    "cannot print --index with this format; use columns, -o json or -o yaml".to_owned(),
                ));
            }
        }
    }
    Ok(())
}

fn parse(path: &str) -> Result<FieldPath, Failure> {
    path.parse().map_err(|error: kube_wire::Error| Failure::Usage(format!("--index: {error}")))
}

/// The most frequent values first. An object without a value in one of the fields is not counted.
async fn counts(
    getting: &Getting<'_>,
    fields: &[FieldPath],
    selected: &Selected,
    screen: &mut Screen,
) -> Result<Vec<Count>, Failure> {
    let readers = Readers::new(fields, &selected.kind)?;
    let type_meta = selected.kind.resource.type_meta();
    let filter = FieldFilter::compile(&getting.fields, &type_meta)?;
    let read = fields.iter().chain(getting.fields.iter().map(FieldFilter::path));
    let reads = read.fold(Reads::heads(), |reads, path| reads.and(path, &type_meta));
    let mirror = getting.mirror(selected.clone(), &reads, screen).await?;
    let mut counts = HashMap::<Vec<String>, usize>::new();
    for object in mirror.informer.lister().view().snapshot().iter() {
        if filter.match_all(object)? {
            for values in readers.combinations(object)? {
                *counts.entry(values).or_default() += 1;
            }
        }
    }
    mirror.informer.shutdown().await;
    let mut counts = counts.into_iter().collect::<Vec<_>>();
    counts.sort_by(|(a, more), (b, fewer)| fewer.cmp(more).then_with(|| a.cmp(b)));
    counts.truncate(getting.arguments.top.unwrap_or(usize::MAX));
    Ok(counts)
}

/// The fields, compiled for one kind.
struct Readers(Vec<PathReader>);

impl Readers {
    fn new(fields: &[FieldPath], kind: &Kind) -> Result<Self, Failure> {
        let type_meta = kind.resource.type_meta();
        let readers = fields.iter().map(|field| PathReader::new(field, &type_meta));
        let readers = readers.collect::<Result<_, _>>();
        readers.map(Self).map_err(|error| Failure::Usage(format!("--index: {error}")))
    }

    /// Every combination of distinct values of the fields.
    fn combinations(&self, object: &StoredObject) -> Result<Vec<Vec<String>>, Failure> {
        let mut found = vec![Vec::new()];
        for reader in &self.0 {
            let mut values = Vec::new();
            object
                .for_each_field(reader, |value| values.extend(value.text().map(|text| text.into_owned())))
                .map_err(|error| Failure::Other(format!("cannot read {}: {error}", object.key())))?;
            values.sort();
            values.dedup();
            let with = |before: &Vec<String>| {
                let with = |value: &String| [before.as_slice(), std::slice::from_ref(value)].concat();
                values.iter().map(with).collect::<Vec<_>>()
            };
            found = found.iter().flat_map(with).collect();
        }
        Ok(found)
    }
}

/// `{"node-1": 4}`, or with two fields `{"node-1": {"Running": 3, "Pending": 1}}`.
fn as_map(counts: &[Count]) -> Value {
    let mut all = Map::new();
    for (values, count) in counts {
        match values.as_slice() {
            [value] => {
                all.insert(value.clone(), (*count).into());
            }
            [first, second] => {
                let inner = all.entry(first.clone()).or_insert_with(|| Value::Object(Map::new()));
                inner[second.as_str()] = (*count).into();
            }
            _ => {}
        }
    }
    Value::Object(all)
}
