//! One object of any built-in kind: reads its head, projection and fields, decodes it and encodes it again.
#![no_main]

use kube_wire::internals::ser;
use kube_wire::schema::Schema;
use kube_wire::{Encoding, FieldPath, Limits, ObjectReader, Projection, TypeMeta};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, bool, &[u8])| {
    let (kind, protobuf, body) = input;
    let kinds = Schema::builtin().kinds().collect::<Vec<_>>();
    // 0 selects the kind that the object names.
    let kind = kind.checked_sub(1).map(|kind| &kinds[usize::from(kind) % kinds.len()]);
    let encoding = if protobuf { Encoding::Protobuf } else { Encoding::Json };
    for projection in [
        Projection::default(),
        Projection::everything(),
        Projection::dropping(["spec.containers[*].env", "metadata.annotations['a']"]).unwrap(),
        Projection::keeping(["status.phase"]).unwrap(),
    ] {
        let mut reader = ObjectReader::new(projection, Limits::default());
        if let Some(kind) = kind {
            reader = reader.expect(TypeMeta::new(kind.api_version, kind.kind));
        }
        let Ok(object) = reader.read(body, encoding, None) else { continue };
        let head = object.head();
        let _ = (head.labels().count(), head.owners().count(), format!("{head:?}"));
        for path in ["spec.nodeName", "status.conditions[?type=Ready].status", "metadata.labels['app']"] {
            let path: FieldPath = path.parse().unwrap();
            let _ = path.values(head);
        }
        let Ok(value) = object.decode::<serde_json::Value>() else { continue };
        let type_meta = object.type_meta();
        if let Some(message) = Schema::builtin().kind(type_meta.api_version(), type_meta.kind()) {
            let _ = ser::to_vec(&value, message);
        }
    }
});
