//! Arbitrary custom resource definitions and objects: pruning and defaulting are idempotent, and errors have a message.
#![no_main]

use embedded_apiserver::internals::crd::{Definition, accept_names, drop_nulls, prune, set_defaults};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

// The definition ends at the first NUL. The object follows.
fuzz_target!(|input: &[u8]| {
    let mut documents = input.splitn(2, |byte| *byte == 0).map(serde_json::from_slice::<Value>);
    let Some(Ok(mut definition)) = documents.next() else { return };
    let object = documents.next().and_then(Result::ok).unwrap_or_default();
    if !definition.is_object() {
        return;
    }
    Definition::prepare(&mut definition, None);
    let parsed = match Definition::parse(&definition, None) {
        Ok(parsed) => parsed,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    accept_names(&mut definition, [], "2026-11-15T08:39:17Z");
    let _ = Definition::parse(&definition, Some(&definition.clone()));
    for version in &parsed.versions {
        let mut object = object.clone();
        prune(&mut object, &version.schema);
        let pruned = object.clone();
        assert!(prune(&mut object, &version.schema).is_empty() && object == pruned, "pruning twice");
        drop_nulls(&mut object, &version.schema);
        set_defaults(&mut object, &version.schema);
        let defaulted = object.clone();
        set_defaults(&mut object, &version.schema);
        assert_eq!(object, defaulted, "defaulting twice changes nothing");
        for error in
            version.validate(&object, Some(&object)).iter().chain(&version.validate_status(&object, None))
        {
            assert!(!error.message().is_empty());
        }
    }
});
