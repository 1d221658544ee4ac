//! The body of a list in either encoding: the decoder does not panic, and the items do not depend on the chunk size.
#![no_main]

use bytes::Bytes;
use kube_wire::{Encoding, Limits, ListDecoder, ObjectReader, Projection, TypeMeta};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, u8, &[u8])| {
    let (protobuf, chunk, body) = input;
    let encoding = if protobuf { Encoding::Protobuf } else { Encoding::Json };
    let whole = read(encoding, body.len().max(1), body);
    assert_eq!(read(encoding, usize::from(chunk).max(1), body), whole);
});

fn read(encoding: Encoding, chunk: usize, body: &[u8]) -> Vec<String> {
    let limits = Limits::default().object_bytes_max(1 << 16);
    let reader = ObjectReader::new(Projection::default(), limits).expect(TypeMeta::new("v1", "Pod"));
    let mut list = ListDecoder::new(encoding, reader);
    let mut seen = Vec::new();
    for chunk in body.chunks(chunk) {
        list.push(Bytes::copy_from_slice(chunk));
        while let Some(item) = list.next_item() {
            match item {
                Ok(item) => seen.push(format!("{item:?}")),
                Err(error) if error.is_fatal() => {
                    seen.push("lost".to_owned());
                    return seen;
                }
                Err(_) => seen.push("bad".to_owned()),
            }
        }
    }
    seen.push(format!("{:?}", list.finish().ok()));
    seen
}
