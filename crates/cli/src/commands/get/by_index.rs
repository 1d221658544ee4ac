//! `--index PATH`: how many objects have each value of a field, from the informer's index over it.

use kube_informer::Index;
use serde_json::{Map, Value};

use super::{Getting, tables};
use crate::discovery::Selected;
use crate::failure::Failure;
use crate::output::{self, Format};
use crate::terminal::Screen;

pub(super) async fn run(
    getting: &Getting<'_>,
    path: &str,
    format: &Format,
    selected: Vec<Selected>,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let index = Index::field("values", path);
    for selected in selected {
        let mirror = getting.mirror(selected.clone(), Some(&index)).await?;
        let counts = counts(getting, &mirror, &index)?;
        mirror.informer.shutdown().await;
        if counts.is_empty() {
            screen.remark(&format!("{} with a value in {path}", getting.nothing_found(&selected))).await?;
            continue;
        }
        let as_map = || {
            let entries = counts.iter().map(|(value, count)| (value.clone(), Value::from(*count)));
            Value::Object(entries.collect::<Map<_, _>>())
        };
        match format {
            Format::Json => screen.text(&(output::json(&as_map()) + "\n")).await?,
            Format::Yaml => screen.text(&(output::yaml(&as_map()) + "\n")).await?,
            Format::Table { .. } => {
                let rows = counts
                    .iter()
                    .map(|(value, count)| vec![value.clone(), count.to_string()])
                    .collect::<Vec<_>>();
                let titles = [path.to_uppercase(), selected.kind.resource.plural.to_uppercase()];
                tables::print_rows(&titles, &rows, getting.arguments.output.no_headers, screen).await?;
            }
            _ => {
                return Err(Failure::Usage(
                    "--index is printed in columns, or with -o json or -o yaml".to_owned(),
                ));
            }
        }
    }
    Ok(())
}

/// Values and how many objects have them, the most frequent first.
fn counts(
    getting: &Getting<'_>,
    mirror: &crate::mirror::Mirror,
    index: &Index,
) -> Result<Vec<(String, usize)>, Failure> {
    let filter = getting.filter(&mirror.selected.kind)?;
    let view = mirror.informer.lister().view();
    let failed = |error: kube_informer::IndexError| Failure::Usage(error.to_string());
    let mut counts = Vec::new();
    for (value, all) in view.snapshot().index_values(index).map_err(failed)? {
        let mut count = all;
        if !getting.fields.is_empty() {
            count = 0;
            for object in view.snapshot().by_index(index, value).map_err(failed)? {
                count += usize::from(filter(object)?);
            }
        }
        if count > 0 {
            counts.push((value.to_owned(), count));
        }
    }
    counts.sort_by(|(a, more), (b, fewer)| fewer.cmp(more).then_with(|| a.cmp(b)));
    Ok(counts)
}
