//! `GET /api/v1/counts/RESOURCE?by=PATH`: how many objects have each value of a field, or each pair of values of two fields.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use kube_informer::StoredObject;
use kube_informer::building_blocks::Snapshot;
use kube_wire::path::PathReader;
use kube_wire::{FieldPath, TypeMeta};
use serde_json::{Value, json};

use super::listing::{check_synced, parse_paths, path_reader, read_permit};
use super::params::Params;
use super::selection::Selection;
use super::{Refusal, Served, routes};

/// Most paths to group by.
const PATHS_MAX: usize = 2;
/// Groups of a response: by default, and at most.
const GROUPS: usize = 100;
const GROUPS_MAX: usize = 10_000;
/// Most groups that are counted separately; objects of further groups are counted together.
const GROUPS_COUNTED_MAX: usize = 100_000;
/// Most bytes of the values of these groups.
const GROUP_BYTES_MAX: usize = 16 << 20;
/// The maximum number of values that are counted of one field of one object.
const VALUES_MAX: usize = 32;

/// The values that identify a group; `None` for objects without the field.
type GroupKey = Vec<Option<String>>;

/// Groups while they are counted.
#[derive(Default)]
struct Counts {
    groups: HashMap<GroupKey, usize>,
    /// Of the values of the groups.
    bytes: usize,
    objects: usize,
    /// Objects of groups that are not counted separately.
    others: usize,
}

pub(super) async fn counts(
    State(served): State<Arc<Served>>,
    Path(resource): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let mirrors = served.mirrors_of(&resource)?;
    let mut params = Params::parse(query.as_deref())?;
    let selection = Selection::take(&mut params, &mirrors)?;
    let by = params.all("by");
    let limit = params.number("limit", GROUPS_MAX)?.unwrap_or(GROUPS);
    params.finish()?;
    if by.len() > PATHS_MAX {
        return Err(Refusal::bad_request(format!("cannot group by more than {PATHS_MAX} paths")));
    }
    let paths = parse_paths(&by, &mirrors)?;
    let permit = read_permit(&served)?;
    check_synced(&mirrors)?;
    let type_meta = mirrors[0].1.selected.kind.resource.type_meta();
    let snapshots: Vec<_> =
        mirrors.iter().map(|(_, mirror)| mirror.informer.lister().view().snapshot().clone()).collect();
    let by: Vec<_> = paths.iter().map(ToString::to_string).collect();
    let counted = tokio::task::spawn_blocking(move || {
        let counts = Counts::of(&snapshots, &selection, &paths, &type_meta);
        drop(permit);
        counts
    });
    let counts = counted.await.map_err(|_| Refusal::unavailable("the request was cancelled"))??;
    Ok(routes::json(&counts.report(&resource, &by, limit)))
}

impl Counts {
    fn of(
        snapshots: &[Snapshot],
        selection: &Selection,
        paths: &[FieldPath],
        type_meta: &TypeMeta,
    ) -> Result<Self, Refusal> {
        let selector = selection.selector(type_meta)?;
        let readers = paths.iter().map(|path| path_reader(path, type_meta)).collect::<Result<Vec<_>, _>>()?;
        let mut counts = Self::default();
        for snapshot in snapshots {
            for object in selection.candidates(snapshot)?.filter(|object| selector.selects(object)) {
                counts.add(&object, &readers);
            }
        }
        Ok(counts)
    }

    fn add(&mut self, object: &StoredObject, readers: &[PathReader]) {
        self.objects += 1;
        if readers.is_empty() {
            return;
        }
        let values: Vec<_> = readers.iter().map(|reader| field_values(object, reader)).collect();
        let mut keys: Vec<Vec<&Option<String>>> = vec![Vec::new()];
        for values in &values {
            keys = keys
                .iter()
                .flat_map(|key| values.iter().map(|value| [&key[..], &[value]].concat()))
                .collect();
        }
        for key in keys {
            // Only one key at a time is copied: values can be large.
            self.count(key.into_iter().cloned().collect());
        }
    }

    fn count(&mut self, key: GroupKey) {
        if let Some(count) = self.groups.get_mut(&key) {
            *count += 1;
            return;
        }
        let bytes = key.iter().flatten().map(String::len).sum::<usize>();
        if self.groups.len() >= GROUPS_COUNTED_MAX || self.bytes + bytes > GROUP_BYTES_MAX {
            self.others += 1;
            return;
        }
        self.bytes += bytes;
        self.groups.insert(key, 1);
    }

    /// The most frequent groups first.
    fn report(self, resource: &str, by: &[String], limit: usize) -> Value {
        let total = self.groups.len();
        let mut groups: Vec<_> = self.groups.into_iter().collect();
        groups.sort_unstable_by(|(a, more), (b, fewer)| fewer.cmp(more).then_with(|| a.cmp(b)));
        let omitted: usize = groups.iter().skip(limit).map(|(_, count)| count).sum();
        groups.truncate(limit);
        let groups: Vec<_> =
            groups.into_iter().map(|(values, count)| json!({"values": values, "count": count})).collect();
        json!({
            "resource": resource,
            "by": by,
            "objects": self.objects,
            "groupCount": total,
            "ungrouped": self.others,
            "omitted": omitted,
            "groups": groups,
        })
    }
}

/// The distinct values of a field; a single `None` if it is absent.
fn field_values(object: &StoredObject, reader: &PathReader) -> BTreeSet<Option<String>> {
    let mut values = BTreeSet::new();
    // An object whose bytes cannot be read has no values.
    let _ = object.for_each_field(reader, |value| {
        if values.len() < VALUES_MAX {
            values.extend(value.text().map(|text| Some(text.into_owned())));
        }
    });
    if values.is_empty() {
        values.insert(None);
    }
    values
}

#[cfg(test)]
mod tests {
    use kube_wire::{Encoding, Limits, ObjectReader, Projection};

    use super::*;

    fn pod(node: &str, images: &[&str]) -> StoredObject {
        let containers: Vec<_> = images.iter().map(|image| json!({"name": image, "image": image})).collect();
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"nodeName": node, "containers": containers}});
        let mut reader = ObjectReader::new(Projection::default(), Limits::default());
        let pod = reader.read(pod.to_string().as_bytes(), Encoding::Json, None).unwrap();
        StoredObject::new(kube_informer::Scope::default(), pod).unwrap()
    }

    #[test]
    fn the_values_of_groups_are_bounded_in_bytes() {
        let reader = path_reader(&"spec.nodeName".parse().unwrap(), &TypeMeta::new("v1", "Pod")).unwrap();
        let readers = [reader];
        let node = |number: usize| format!("{number:02}{}", "x".repeat(1 << 20));
        let mut counts = Counts::default();
        for number in (0..40).chain(0..40) {
            counts.add(&pod(&node(number), &[]), &readers);
        }
        counts.add(&pod("small", &[]), &readers);
        let report = counts.report("pods", &["spec.nodeName".to_owned()], GROUPS_MAX);
        let groups = report["groups"].as_array().unwrap();
        let counted: u64 = groups.iter().map(|group| group["count"].as_u64().unwrap()).sum();
        assert_eq!((&report["objects"], counted + report["ungrouped"].as_u64().unwrap()), (&json!(81), 81));
        assert!((10..=16).contains(&(groups.len() - 1)), "{} groups of 1 MiB", groups.len());
        assert!(groups.iter().any(|group| *group == json!({"values": ["small"], "count": 1})));
    }

    #[test]
    fn an_object_counts_once_per_distinct_pair_of_values() {
        let type_meta = TypeMeta::new("v1", "Pod");
        let reader = |path: &str| path_reader(&path.parse().unwrap(), &type_meta).unwrap();
        let readers = [reader("spec.nodeName"), reader("spec.containers[*].image")];
        let mut counts = Counts::default();
        for pod in [pod("n1", &["a", "b", "a"]), pod("n1", &["a"]), pod("n2", &[])] {
            counts.add(&pod, &readers);
        }
        let report = counts.report("pods", &["x".to_owned(), "y".to_owned()], 2);
        assert_eq!(report["objects"], 3);
        assert_eq!((&report["groupCount"], &report["omitted"]), (&json!(3), &json!(1)));
        assert_eq!(
            report["groups"],
            json!([
                {"values": ["n1", "a"], "count": 2},
                {"values": ["n1", "b"], "count": 1},
            ])
        );
    }
}
