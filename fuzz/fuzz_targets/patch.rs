//! The three patch types on objects of built-in kinds: errors have a status, and results can be stored and read again.
#![no_main]

use embedded_apiserver::internals::apply::TypeView;
use embedded_apiserver::internals::patch::{json_patch, merge_patch, strategic_merge_patch};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const KINDS: [(&str, &str); 4] =
    [("v1", "ConfigMap"), ("v1", "Pod"), ("apps/v1", "Deployment"), ("v1", "Service")];

// The object ends at the first NUL. The patch follows.
fuzz_target!(|input: (u8, &[u8])| {
    let (kind, input) = input;
    let (api_version, kind) = KINDS[usize::from(kind) % KINDS.len()];
    let mut documents = input.splitn(2, |byte| *byte == 0).map(serde_json::from_slice::<Value>);
    let (Some(Ok(object)), Some(Ok(patch))) = (documents.next(), documents.next()) else { return };

    let types = TypeView::builtin(api_version, kind).expect("a built-in kind");
    for patched in [json_patch(&object, &patch), strategic_merge_patch(&object, &patch, types)] {
        match patched {
            Ok(patched) => can_be_stored(&patched),
            Err(error) => {
                assert!(matches!(error.code(), 400 | 413 | 422 | 500), "{error}");
                assert!(!error.message().is_empty());
            }
        }
    }
    let mut merged = object;
    merge_patch(&mut merged, &patch);
    can_be_stored(&merged);
    let mut again = merged.clone();
    merge_patch(&mut again, &patch);
    assert_eq!(merged, again, "applying a merge patch twice changes nothing");
});

/// Checks that the result of a patch stays within the parser's nesting limit.
fn can_be_stored(object: &Value) {
    let text = object.to_string();
    assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
}
