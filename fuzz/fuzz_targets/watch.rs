//! The body of a watch in either encoding: the decoder does not panic, and the events do not depend on the chunk size.
#![no_main]

use bytes::Bytes;
use kube_wire::{Encoding, Limits, ObjectReader, Projection, WatchDecoder};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, u8, &[u8])| {
    let (protobuf, chunk, body) = input;
    let encoding = if protobuf { Encoding::Protobuf } else { Encoding::Json };
    let whole = read(encoding, body.len().max(1), body);
    assert_eq!(read(encoding, usize::from(chunk).max(1), body), whole);
});

fn read(encoding: Encoding, chunk: usize, body: &[u8]) -> Vec<String> {
    let limits = Limits::default().object_bytes_max(1 << 16);
    let mut watch = WatchDecoder::new(encoding, ObjectReader::new(Projection::default(), limits));
    let mut seen = Vec::new();
    for chunk in body.chunks(chunk) {
        watch.push(Bytes::copy_from_slice(chunk));
        while let Some(event) = watch.next_event() {
            match event {
                Ok(event) => seen.push(format!("{event:?}")),
                Err(error) if error.is_fatal() => {
                    seen.push("lost".to_owned());
                    return seen;
                }
                Err(_) => seen.push("bad".to_owned()),
            }
        }
    }
    seen.push(format!("{}", watch.finish().is_ok()));
    seen
}
