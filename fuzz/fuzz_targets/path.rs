//! A field path and an object: the path survives printing, and reads the same values from the whole object and from a
//! projection that keeps only this path.
#![no_main]

use kube_wire::{Encoding, FieldPath, Limits, ObjectReader, Projection, TypeMeta};
use libfuzzer_sys::fuzz_target;

// The path ends at the first NUL. The object follows.
fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (Ok(text), object) = (std::str::from_utf8(&input[..end]), input.get(end + 1..).unwrap_or_default())
    else {
        return;
    };
    let path = match text.parse::<FieldPath>() {
        Ok(path) => path,
        Err(error) => {
            assert!(error.to_string().len() < 4 * text.len() + 500);
            return;
        }
    };
    let printed = path.to_string();
    assert_eq!(printed.parse::<FieldPath>().as_ref().ok(), Some(&path), "{printed:?}");

    let read = |projection| {
        let mut reader = ObjectReader::new(projection, Limits::default()).expect(TypeMeta::new("v1", "Pod"));
        let object = reader.read(object, Encoding::Json, None).ok()?;
        let values = path.values(object.head()).ok()?;
        Some(values.iter().map(|value| format!("{:?}", value.to_value().ok())).collect::<Vec<_>>())
    };
    let whole = read(Projection::everything());
    if let Ok(kept) = Projection::keeping([&*printed])
        && let (Some(whole), Some(kept)) = (whole, read(kept))
    {
        assert_eq!(whole, kept, "{printed}");
    }
    let _ = Projection::dropping([&*printed]).map(read);
});
