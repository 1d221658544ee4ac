//! A column, a sort key or a part of a template that reads one path of each object.

use kube_wire::TypeMeta;
use kube_wire::path::{FieldValue, PathReader};

use super::jsonpath::Path;
use super::record::Record;
use crate::failure::Failure;

/// A path compiled for objects of a few types. It is read from the bytes where that gives the same result as the decoded
/// object; otherwise the object is decoded.
pub(crate) struct PathColumn {
    path: Path,
    readers: Vec<(TypeMeta, PathReader)>,
}

impl PathColumn {
    pub(crate) fn new(path: Path, types: &[TypeMeta]) -> Self {
        let reader = |type_meta: &TypeMeta| Some((type_meta.clone(), path.reader(type_meta)?));
        let readers = types.iter().filter_map(reader).collect();
        Self { path, readers }
    }

    /// The texts of all values, as kubectl prints them: strings without quotes, everything else as JSON.
    ///
    /// # Errors
    /// If the object's bytes are malformed.
    pub(crate) fn texts(&self, record: &Record<'_>) -> Result<Vec<String>, Failure> {
        let of_type = |(type_meta, _): &&(TypeMeta, PathReader)| type_meta == record.object().type_meta();
        let Some((_, reader)) = self.readers.iter().find(of_type).filter(|_| !record.is_masked()) else {
            return Ok(self.path.texts(record.value()));
        };
        let (mut texts, mut failed) = (Vec::new(), None);
        let read = record.object().for_each_field(reader, |value| match text(value) {
            Ok(text) => texts.push(text),
            Err(error) => failed = Some(error),
        });
        match read.err().or(failed) {
            None => Ok(texts),
            Some(error) => Err(Failure::Other(format!("cannot read {}: {error}", record.object().key()))),
        }
    }

    /// The cell of a column: all texts, separated by commas; `<none>` without a value.
    ///
    /// # Errors
    /// As [`texts`](Self::texts).
    pub(crate) fn cell(&self, record: &Record<'_>) -> Result<String, Failure> {
        let texts = self.texts(record)?;
        Ok(if texts.is_empty() { "<none>".to_owned() } else { texts.join(",") })
    }
}

fn text(value: FieldValue<'_>) -> Result<String, kube_wire::Error> {
    Ok(match value {
        FieldValue::Null => String::new(),
        FieldValue::Fragment(fragment) => fragment.to_value()?.to_string(),
        scalar => scalar.text().unwrap_or_default().into_owned(),
    })
}
