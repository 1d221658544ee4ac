//! kubectl's templates and paths on arbitrary objects: reading from values and from bytes terminates without a panic.
#![no_main]
#![allow(dead_code)]

use kube_wire::{Encoding, Limits, ObjectReader, Projection, TypeMeta};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

#[path = "../../crates/cli/src/output/jsonpath/mod.rs"]
mod jsonpath;

// The template ends at the first NUL. The object follows.
fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let Ok(text) = std::str::from_utf8(&input[..end]) else { return };
    let bytes = input.get(end + 1..).unwrap_or_default();
    let object = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    if let Ok(template) = jsonpath::Template::parse(text) {
        template.print(&object);
    }
    let Ok(path) = jsonpath::Path::parse(text) else { return };
    let texts = path.texts(&object);
    let type_meta = TypeMeta::new("v1", "Pod");
    let mut reader = ObjectReader::new(Projection::everything(), Limits::default()).expect(type_meta.clone());
    let Ok(read) = reader.read(bytes, Encoding::Json, None) else { return };
    if let (Some(path), Ok(decoded)) = (path.reader(&type_meta), read.decode::<Value>()) {
        let found = path.values(read.head()).unwrap_or_default();
        let _ = (found, decoded, texts);
    }
});
