//! Server-side apply of arbitrary configurations by two managers: field sets survive a round trip, and applying twice
//! changes nothing.
#![no_main]

use embedded_apiserver::internals::apply::{FieldSet, FieldWrite, TypeView, apply, record_update};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const KINDS: [(&str, &str); 4] =
    [("v1", "ConfigMap"), ("v1", "Pod"), ("apps/v1", "Deployment"), ("v1", "Service")];

// Three documents, separated by NUL: the configurations of the first and the second manager, and an update.
fuzz_target!(|input: (u8, bool, &[u8])| {
    let (kind, force, input) = input;
    let types = match KINDS.get(usize::from(kind)) {
        Some((api_version, kind)) => TypeView::builtin(api_version, kind).expect("a built-in kind"),
        None => TypeView::deduced(),
    };
    let mut documents = input.splitn(3, |byte| *byte == 0).map(serde_json::from_slice::<Value>);
    let (Some(Ok(first)), Some(Ok(second))) = (documents.next(), documents.next()) else { return };
    if !first.is_object() || !second.is_object() {
        return;
    }
    let write = |manager| FieldWrite {
        manager,
        api_version: "v1",
        subresource: "",
        reset: &[],
        now: "2026-11-15T08:39:17Z",
        types,
    };
    let Ok(made) = apply(None, &first, &write("one"), false) else { return };
    owned(&made);
    let again = apply(Some(&made), &first, &write("one"), false);
    assert_eq!(again.ok().as_ref(), Some(&made), "applying twice changes nothing");
    let applied = match apply(Some(&made), &second, &write("two"), force) {
        Ok(applied) => applied,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            made
        }
    };
    owned(&applied);
    if let Some(Ok(mut updated)) = documents.next()
        && updated.is_object()
    {
        record_update(Some(&applied), &mut updated, &write("three"));
        owned(&updated);
    }
});

/// Checks that the field sets of all managers survive a round trip.
fn owned(object: &Value) {
    for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let fields = &entry["fieldsV1"];
        let set = FieldSet::from_fields_v1(fields).expect("a field set");
        assert_eq!(FieldSet::from_fields_v1(&set.to_fields_v1()).ok().as_ref(), Some(&set));
    }
}
