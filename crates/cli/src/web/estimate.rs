//! Estimates from a sample how much memory the objects of a mirror would take as decoded values.
//!
//! The sample is decoded to `serde_json::Value`, whose heap use is added up: strings by their length, lists and maps by their
//! elements. Allocator overhead is left out, so the estimate is low rather than high.
//!
//! Few objects often take most of the memory, so an object's chance to be in the sample grows with its size, and its weight in the
//! sum is the inverse of that chance. The sample depends only on the objects and their order: the same snapshot has the same estimate.

use kube_informer::StoredObject;
use kube_informer::building_blocks::Snapshot;
use serde_json::Value;

/// Objects that are decoded for one estimate. Fewer objects are decoded completely.
const SAMPLE_OBJECTS: usize = 256;
/// Most stored bytes that are decoded for one estimate. Beyond it, the sample is smaller.
const SAMPLE_BYTES_MAX: usize = 8 << 20;
/// The smallest sample.
const SAMPLE_OBJECTS_MIN: usize = 8;
/// Added to the size of each object: even the smallest one takes some memory when it is decoded.
const OBJECT_BYTES: usize = 1000;
/// Nodes of a B-tree are about two thirds full.
const MAP_SLACK: f64 = 1.5;

/// The estimated bytes of all objects as decoded values.
pub(super) fn decoded_bytes(snapshot: &Snapshot) -> u64 {
    if snapshot.len() <= SAMPLE_OBJECTS && snapshot.stored_bytes() <= SAMPLE_BYTES_MAX {
        return snapshot.iter().map(decoded).sum();
    }
    let mut count = SAMPLE_OBJECTS;
    let mut sampled = sample(snapshot, count);
    let bytes = |sampled: &[Sampled<'_>]| sampled.iter().map(|one| one.object.stored_bytes()).sum::<usize>();
    while bytes(&sampled) > SAMPLE_BYTES_MAX && count > SAMPLE_OBJECTS_MIN {
        count /= 2;
        sampled = sample(snapshot, count);
    }
    sampled.iter().map(|one| decoded(one.object) as f64 * one.weight).sum::<f64>() as u64
}

/// An object of the sample, and how many objects it stands for.
struct Sampled<'s> {
    object: &'s StoredObject,
    weight: f64,
}

/// Lays the objects end to end by size, and takes those at this many equidistant points. A large object can be at several points.
fn sample(snapshot: &Snapshot, count: usize) -> Vec<Sampled<'_>> {
    let size = |object: &StoredObject| (object.stored_bytes() + OBJECT_BYTES) as f64;
    let total = snapshot.stored_bytes() + snapshot.len() * OBJECT_BYTES;
    let step = total as f64 / count as f64;
    let (mut sampled, mut end, mut next) = (Vec::new(), 0.0, step / 2.0);
    for object in snapshot.iter() {
        end += size(object);
        let mut points = 0.0;
        while next < end {
            points += 1.0;
            next += step;
        }
        if points > 0.0 {
            sampled.push(Sampled { object, weight: points * step / size(object) });
        }
    }
    sampled
}

fn decoded(object: &StoredObject) -> u64 {
    object.decode::<Value>().map_or(0, |value| size_of::<Value>() as u64 + heap_bytes(&value))
}

fn heap_bytes(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(|item| size_of::<Value>() as u64 + heap_bytes(item)).sum(),
        Value::Object(members) => {
            let slots = members.len() * (size_of::<String>() + size_of::<Value>());
            let content = members.iter().map(|(name, value)| name.len() as u64 + heap_bytes(value));
            (slots as f64 * MAP_SLACK) as u64 + content.sum::<u64>()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing;
    use super::*;

    #[tokio::test]
    async fn the_estimate_is_near_the_sum_over_all_objects() {
        // Text that does not compress: a linear congruential generator.
        let mut state = 1_u64;
        let mut text = |length: usize| {
            let mut character = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                char::from(b'a' + (state >> 60) as u8)
            };
            (0..length).map(|_| character()).collect::<String>()
        };
        for (count, large_period, large) in
            [(200, 7, 5000), (1500, 1, 0), (1500, 40, 20_000), (1500, 500, 500_000)]
        {
            let map = |number: usize| {
                let length = if number % large_period == 3 { large } else { 10 + number % 300 };
                json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": text(length)},
                    "metadata": {"namespace": "default", "name": format!("map-{number}")}})
            };
            let (_server, served) = testing::config_maps((0..count).map(map).collect()).await;
            let view = served.mirrors[0].informer.lister().view();
            let exact = view.snapshot().iter().map(decoded).sum::<u64>();
            let estimate = decoded_bytes(view.snapshot());
            assert!(estimate.abs_diff(exact) <= exact / 10, "{count} {large}: {estimate} instead of {exact}");
            assert_eq!(estimate, decoded_bytes(view.snapshot()));
        }
    }

    #[test]
    fn larger_values_are_estimated_larger() {
        assert_eq!(heap_bytes(&json!("12345")), 5);
        let one = heap_bytes(&json!({"name": "x"}));
        assert!(one > 5 && heap_bytes(&json!([{"name": "x"}, {"name": "x"}])) > 2 * one);
    }
}
