//! Objects read into shared blocks of memory.
#![allow(clippy::unwrap_used, reason = "a panic fails the test, also in helper functions")]

use kube_wire::{Encoding, Limits, ObjectReader, Projection, RawObject, WatchDecoder};

fn reader() -> ObjectReader {
    ObjectReader::new(Projection::default(), Limits::default())
}

fn text(name: &str, data: usize) -> String {
    format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}"}},"data":{{"d":"{}"}}}}"#,
        "x".repeat(data)
    )
}

fn read(reader: &mut ObjectReader, text: &str) -> RawObject {
    reader.read(text.as_bytes(), Encoding::Json, None).unwrap()
}

#[test]
fn an_object_is_equal_in_and_outside_a_block() {
    let (mut apart, mut together) = (reader(), reader().in_blocks());
    let texts = (0..300).map(|number| text(&format!("map-{number}"), number * 7)).collect::<Vec<_>>();
    // All are held at the same time, across several blocks.
    let objects = texts.iter().map(|text| read(&mut together, text)).collect::<Vec<_>>();
    for (text, object) in texts.iter().zip(objects) {
        let expected = read(&mut apart, text);
        assert!(object.is_in_block() && !expected.is_in_block());
        assert_eq!(object.bytes(), expected.bytes());
        assert_eq!(object.head().name(), expected.head().name());
        let detached = object.clone().detached();
        assert!(!detached.is_in_block());
        assert_eq!(detached.bytes(), expected.bytes());
        assert_ne!(detached.bytes().as_ptr(), object.bytes().as_ptr());
        let pointer = detached.bytes().as_ptr();
        assert_eq!(detached.detached().bytes().as_ptr(), pointer, "it has memory of its own already");
    }
}

#[test]
fn a_block_is_reused_when_its_objects_are_dropped() {
    let mut reader = reader().in_blocks();
    let addresses = (0..2000).map(|_| read(&mut reader, &text("map", 1000)).bytes().as_ptr().addr());
    let (least, most) = addresses.fold((usize::MAX, 0), |(least, most), at| (least.min(at), most.max(at)));
    assert!(most - least < 64 << 10, "two megabytes went through one block");
}

#[test]
fn a_large_object_has_its_own_memory() {
    assert!(!read(&mut reader().in_blocks(), &text("map", 20_000)).is_in_block());
}

#[test]
fn a_watch_reads_into_blocks_until_its_initial_state_is_complete() {
    let mut watch = WatchDecoder::new(Encoding::Json, reader().in_blocks());
    for (event_type, in_block) in
        [("ADDED", true), ("ADDED", true), ("BOOKMARK", true), ("ADDED", false), ("MODIFIED", false)]
    {
        watch.push(format!("{{\"type\":\"{event_type}\",\"object\":{}}}\n", text("map", 10)).into());
        let event = watch.next_event().unwrap().unwrap();
        assert_eq!(event.object().unwrap().is_in_block(), in_block, "{event:?}");
    }
}
