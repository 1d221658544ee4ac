//! Prints objects in every format but columns of a kind. Names, custom columns and fields of templates are read from the
//! bytes; JSON and YAML are decoded and written one object at a time.

use kube_informer::StoredObject;

use super::listing::Listing;
use super::{Getting, Missing, tables};
use crate::discovery::Selected;
use crate::failure::Failure;
use crate::output::column::PathColumn;
use crate::output::jsonpath::{ListPart, Template};
use crate::output::list::{Document, ListWriter};
use crate::output::record::Record;
use crate::output::sort_key::SortKey;
use crate::output::{self, CustomColumns, Format};
use crate::terminal::Screen;

/// An object and the listing that it belongs to.
struct Entry<'l> {
    listing: &'l Listing,
    object: &'l StoredObject,
}

pub(super) async fn run(
    getting: &Getting<'_>,
    format: &Format,
    selected: &[Selected],
    screen: &mut Screen,
) -> Result<(), Failure> {
    let one = selected.len() == 1 && selected[0].name.is_some();
    let (mut listings, mut missing) = (Vec::new(), Missing::new(getting.arguments));
    for selected in selected {
        let reads = getting.reads(format, &selected.kind, one);
        let listing = getting.listing(selected, &reads, screen).await;
        listings.extend(missing.unless_found(listing, screen).await?);
    }
    let printer = ObjectPrinter { getting, listings: &listings, entries: sorted(getting, &listings)? };
    if !(printer.entries.is_empty() && one) {
        printer.print(format, one && printer.entries.len() == 1, screen).await?;
    }
    missing.end()
}

/// All objects in order. Only keys are held for sorting.
fn sorted<'l>(getting: &Getting<'_>, listings: &'l [Listing]) -> Result<Vec<Entry<'l>>, Failure> {
    let entries = listings
        .iter()
        .flat_map(|listing| listing.objects.iter().map(move |object| Entry { listing, object }));
    let Some(path) = &getting.sort_by else { return Ok(entries.collect()) };
    let column = PathColumn::new(path.clone(), &types(listings));
    let mut keyed = Vec::new();
    for entry in entries {
        let texts = column.texts(&entry.listing.record(entry.object, getting))?;
        keyed.push((SortKey::of(texts.first().map(String::as_str)), entry));
    }
    tables::check_sort_keys(getting, keyed.iter().map(|(key, _)| key))?;
    keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(keyed.into_iter().map(|(_, entry)| entry).collect())
}

fn types(listings: &[Listing]) -> Vec<kube_wire::TypeMeta> {
    listings.iter().map(|listing| listing.kind.resource.type_meta()).collect()
}

struct ObjectPrinter<'a, 'g> {
    getting: &'a Getting<'g>,
    listings: &'a [Listing],
    entries: Vec<Entry<'a>>,
}

impl ObjectPrinter<'_, '_> {
    async fn print(&self, format: &Format, one: bool, screen: &mut Screen) -> Result<(), Failure> {
        match format {
            Format::Name => self.names(screen).await,
            Format::CustomColumns(columns) => self.columns(columns, screen).await,
            Format::JsonPath(template) => self.template(template, one, screen).await,
            Format::Yaml => self.documents(Document::Yaml, one, screen).await,
            Format::Json | Format::Table { .. } => self.documents(Document::Json, one, screen).await,
        }
    }

    fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.entries.iter().map(|entry| entry.listing.record(entry.object, self.getting))
    }

    async fn names(&self, screen: &mut Screen) -> Result<(), Failure> {
        let same_listing = |a: &Entry<'_>, b: &Entry<'_>| std::ptr::eq(a.listing, b.listing);
        for entries in self.entries.chunk_by(same_listing) {
            let prefix = entries[0].listing.kind.name_prefix();
            for entry in entries {
                screen.line(format!("{prefix}/{}", entry.object.name())).await?;
            }
        }
        Ok(())
    }

    async fn columns(&self, columns: &CustomColumns, screen: &mut Screen) -> Result<(), Failure> {
        let types = types(self.listings);
        let paths =
            columns.paths().iter().map(|path| PathColumn::new(path.clone(), &types)).collect::<Vec<_>>();
        let mut rows = Vec::new();
        for record in self.records() {
            rows.push(paths.iter().map(|path| path.cell(&record)).collect::<Result<Vec<_>, _>>()?);
        }
        tables::print_rows(columns.titles(), &rows, self.getting.arguments.output.no_headers, screen).await
    }

    async fn documents(&self, document: Document, one: bool, screen: &mut Screen) -> Result<(), Failure> {
        if one && let Some(record) = self.records().next() {
            return screen.text(&document.object(record.value())).await;
        }
        let mut writer = ListWriter::new(document);
        screen.text(writer.begin()).await?;
        for record in self.records() {
            screen.text(&writer.object(record.value())).await?;
        }
        screen.text(writer.end()).await
    }

    async fn template(&self, template: &Template, one: bool, screen: &mut Screen) -> Result<(), Failure> {
        if one && let Some(record) = self.records().next() {
            return screen.text(&template.print(record.value())).await;
        }
        let types = types(self.listings);
        let Some(parts) = template.list_parts(&types) else {
            let values = self.records().map(|record| record.value().clone()).collect();
            return screen.text(&template.print(&output::list(values))).await;
        };
        for part in parts {
            match part {
                ListPart::Text(text) => screen.text(text).await?,
                ListPart::Items(mut items) => {
                    for (at, record) in self.records().enumerate() {
                        let mut text = String::new();
                        items.print(at, &record, &mut text)?;
                        screen.text(&text).await?;
                    }
                }
            }
        }
        Ok(())
    }
}
