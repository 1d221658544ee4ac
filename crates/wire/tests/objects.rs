//! Valid and invalid objects and lists: what is read, what is rejected, and that reading the head agrees with
//! decoding.
#![allow(clippy::unwrap_used, reason = "a panic fails the test, also in helper functions")]

use bytes::Bytes;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_wire::internals::envelope::Envelope;
use kube_wire::internals::proto::Writer;
use kube_wire::internals::ser;
use kube_wire::{
    Encoding, Error, Limits, ListDecoder, ObjectReader, Projection, RawObject, TypeMeta, WatchDecoder,
};
use kube_wire::{KeptBytes, schema::Schema};
use serde_json::{Value, json};

#[test]
fn any_number_of_labels_is_read() {
    let labels =
        (0..5_000).map(|number| (number.to_string(), Value::from(""))).collect::<serde_json::Map<_, _>>();
    let value = json!({"metadata": {"name": "many", "labels": labels}});
    for (bytes, encoding) in both(&value) {
        let object = reader().read(&bytes, encoding, Some(&config_map())).unwrap();
        assert_eq!(object.head().labels().count(), 5_000);
        let bytes = object.bytes().clone();
        assert_eq!(RawObject::restore(bytes, encoding, config_map()).unwrap().head().name(), "many");
    }
}

#[test]
fn invalid_utf8_strings_do_not_fail_an_object() {
    let entry = |key: &[u8], value: &[u8]| fields(&[(1, key), (2, value)]);
    let meta = fields(&[
        (1, b"odd"),
        (11, &entry(b"good", b"yes")),
        (11, &entry(b"bad", b"a\xff")),
        (12, &entry(b"bad", b"\xff\xfe")),
        (12, &entry(kube_wire::head::INITIAL_EVENTS_END.as_bytes(), b"true")),
        (13, &fields(&[(1, b"Role"), (3, b"\xffo")])),
    ]);
    let object = reader().read(&fields(&[(1, &meta)]), Encoding::Protobuf, Some(&config_map())).unwrap();
    let head = object.head();
    assert!(head.is_initial_events_end());
    let labels = head.labels().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>();
    assert_eq!(labels, ["good=yes", "bad=a\u{fffd}"]);
    assert_eq!(head.owners().map(|owner| owner.name).collect::<Vec<_>>(), ["\u{fffd}o"]);
    // The identity of an object must be valid text.
    for number in [1, 3, 5, 6] {
        let bytes = fields(&[(1, &fields(&[(number, b"\xff")]))]);
        let error = reader().read(&bytes, Encoding::Protobuf, Some(&config_map())).unwrap_err();
        assert!(error.to_string().contains("not UTF-8"), "{error}");
    }
}

#[test]
fn an_escaped_name_is_equal_in_both_encodings_and_after_restore() {
    for name in ["R&D", "a<b>", "say \"hi\"", "back\\slash", "line\u{2028}", "\u{1}"] {
        let value =
            json!({"metadata": {"name": name, "namespace": "n&n", "uid": "u", "resourceVersion": "1"}});
        for (bytes, encoding) in both(&value) {
            // As Go writes it.
            let text = String::from_utf8_lossy(&bytes).replace('&', "\\u0026").replace('<', "\\u003c");
            let bytes = if encoding == Encoding::Json { text.as_bytes() } else { &bytes };
            let object = reader().read(bytes, encoding, Some(&config_map())).unwrap();
            let restored = RawObject::restore(object.bytes().clone(), encoding, config_map()).unwrap();
            for head in [object.head(), object.clone().detached().head(), restored.head()] {
                assert_eq!((head.namespace(), head.name()), ("n&n", name));
                assert_eq!((head.uid(), head.resource_version()), ("u", "1"));
            }
            assert_eq!(object.decode::<ConfigMap>().unwrap().metadata.name.as_deref(), Some(name));
        }
    }
}

#[test]
fn objects_of_any_nesting_depth_are_read() {
    let deep = [&"[".repeat(1_000)[..], &"]".repeat(1_000)].concat();
    let text =
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","aaa":{deep},"metadata":{{"name":"deep"}}}}"#);
    let object = reader().read(text.as_bytes(), Encoding::Json, None).unwrap();
    assert_eq!(object.head().name(), "deep");
    assert_eq!(object.decode::<ConfigMap>().unwrap().metadata.name.as_deref(), Some("deep"));
    // Decoding it to a value is limited.
    assert!(object.decode::<Value>().unwrap_err().to_string().contains("recursion limit"));
}

#[test]
fn an_object_allowed_by_a_raised_limit_can_be_decoded() {
    let value = json!({"metadata": {"name": "large"}, "data": {"d": "x".repeat(9 << 20)}});
    let bytes = ser::to_vec(&value, Schema::builtin().kind("v1", "ConfigMap").unwrap()).unwrap();
    let mut reader = reader_with(Limits::default().object_bytes_max(16 << 20));
    let object = reader.read(&bytes, Encoding::Protobuf, Some(&config_map())).unwrap();
    let decoded: ConfigMap = object.decode().unwrap();
    assert_eq!(decoded.data.unwrap()["d"].len(), 9 << 20);
    assert_eq!(object.decode::<Value>().unwrap()["data"], value["data"]);
    let data = "data".parse::<kube_wire::FieldPath>().unwrap().first(object.head()).unwrap().unwrap();
    assert_eq!(data.to_value().unwrap(), value["data"]);
}

#[test]
fn duplicate_metadata_is_rejected_in_both_encodings() {
    let meta = fields(&[(1, b"a")]);
    let bytes = fields(&[(1, &meta), (2, b""), (1, &meta)]);
    let text = br#"{"metadata":{"name":"a"},"data":{},"metadata":{"name":"a"}}"#;
    for (bytes, encoding) in [(&bytes[..], Encoding::Protobuf), (text, Encoding::Json)] {
        let error = reader().read(bytes, encoding, Some(&config_map())).unwrap_err();
        assert!(error.to_string().contains("duplicate metadata"), "{error}");
    }
}

#[test]
fn invalid_kept_bytes_are_errors_and_never_panic() {
    for text in ["", "{", "}", "[]", "null", "\"", " {}", "{}x"] {
        let bytes = Bytes::from_static(text.as_bytes());
        let restored = RawObject::restore(bytes.clone(), Encoding::Json, config_map());
        assert!(restored.is_err(), "{text}");
        let kept = KeptBytes { bytes: &bytes, encoding: Encoding::Json, type_meta: &config_map() };
        assert!(kept.decode::<Value>().is_err(), "{text}");
    }
    let empty = RawObject::restore(Bytes::from_static(b"{}"), Encoding::Json, config_map()).unwrap();
    assert_eq!(empty.decode::<Value>().unwrap(), json!({"apiVersion": "v1", "kind": "ConfigMap"}));
}

#[test]
fn an_oversized_head_of_a_protobuf_list_is_fatal() {
    let large = "x".repeat(200);
    let raw = fields(&[(1, &fields(&[(2, large.as_bytes())]))]);
    for (kind, raw) in [("ConfigMapList", &raw[..]), (&large, b"")] {
        let mut body = Vec::new();
        Envelope { api_version: "v1", kind, raw }.seal(&mut body);
        let mut list =
            ListDecoder::new(Encoding::Protobuf, reader_with(Limits::default().object_bytes_max(100)));
        list.push(body.into());
        let error = list.next_item().unwrap().unwrap_err();
        assert!(error.is_fatal(), "{error}");
        assert!(list.next_item().is_none());
        assert_eq!(list.finish().unwrap_err(), error);
    }
}

#[test]
fn the_error_of_an_unreadable_object_names_it() {
    let meta = |namespace: &[u8], broken: &[u8]| {
        let names = fields(&[(1, b"web"), (2, b""), (3, namespace)]);
        fields(&[(1, &[&names, broken].concat())])
    };
    let bad_label = fields(&[(11, b"\x0a\xff")]);
    for (bytes, encoding, key) in [
        (meta(b"shop", &bad_label), Encoding::Protobuf, Some(("shop", "web"))),
        (meta(b"", &bad_label), Encoding::Protobuf, Some(("", "web"))),
        // Truncated.
        (meta(b"shop", &bad_label)[..15].to_vec(), Encoding::Protobuf, Some(("shop", "web"))),
        (meta(b"shop", &bad_label)[..12].to_vec(), Encoding::Protobuf, None),
        (fields(&[(1, &fields(&[(1, b"web")]))])[..6].to_vec(), Encoding::Protobuf, None),
        (meta(b"\xff", b""), Encoding::Protobuf, None),
        (b"\xff".to_vec(), Encoding::Protobuf, None),
        (
            br#"{"metadata":{"labels":7,"name":"R\u0026D","namespace":"shop"}}"#.into(),
            Encoding::Json,
            Some(("shop", "R&D")),
        ),
        (br#"{"metadata":{"labels":7,"name":"web"}}"#.into(), Encoding::Json, Some(("", "web"))),
        (
            br#"{"metadata":{"name":"web","namespace":"shop"},"spec":{"#.into(),
            Encoding::Json,
            Some(("shop", "web")),
        ),
        (br#"{"metadata":{"name":"web","namespace":"shop","#.into(), Encoding::Json, Some(("shop", "web"))),
        (br#"{"metadata":{"name":"web","namespace":"sh"#.into(), Encoding::Json, None),
        (br#"{"metadata":{"name":"web","#.into(), Encoding::Json, None),
        (br#"{"metadata":{"name":"#.into(), Encoding::Json, None),
        (b"nonsense".into(), Encoding::Json, None),
    ] {
        let error = reader().read(&bytes, encoding, Some(&config_map())).unwrap_err();
        assert_eq!(error.key(), key, "{error}");
        assert!(!error.is_fatal());
        if encoding == Encoding::Protobuf {
            let mut envelope = Vec::new();
            Envelope { api_version: "v1", kind: "ConfigMap", raw: &bytes }.seal(&mut envelope);
            assert_eq!(reader().read_envelope(&envelope).unwrap_err().key(), key);
        }
    }
}

#[test]
fn the_error_of_an_oversized_object_names_it_and_the_rest_is_read() {
    let object = |name: &str, bytes: usize| json!({"metadata": {"name": name, "namespace": "shop"}, "data": {"d": "x".repeat(bytes)}});
    let objects = [object("a", 1), object("large", 30_000), object("b", 1)].map(|object| both(&object));
    let expected = ["a", "too large: shop/large", "b"];
    let reader = || reader_with(Limits::default().object_bytes_max(10_000));
    for (at, encoding) in [Encoding::Json, Encoding::Protobuf].into_iter().enumerate() {
        let bodies = objects.each_ref().map(|object| &object[at].0);
        let (list, watch) = match encoding {
            Encoding::Json => {
                let texts = bodies.map(|body| std::str::from_utf8(body).unwrap());
                (
                    format!(r#"{{"kind":"ConfigMapList","apiVersion":"v1","items":[{}]}}"#, texts.join(","))
                        .into_bytes(),
                    texts
                        .map(|text| format!("{{\"type\":\"DELETED\",\"object\":{text}}}\n"))
                        .concat()
                        .into_bytes(),
                )
            }
            Encoding::Protobuf => {
                let (mut list, mut watch) = (Vec::new(), Vec::new());
                let raw = fields(&bodies.map(|body| (2, &body[..])));
                Envelope { api_version: "v1", kind: "ConfigMapList", raw: &raw }.seal(&mut list);
                for raw in bodies {
                    let mut envelope = Vec::new();
                    Envelope { api_version: "v1", kind: "ConfigMap", raw }.seal(&mut envelope);
                    let event = fields(&[(1, b"DELETED"), (2, &fields(&[(1, &envelope)]))]);
                    watch.extend_from_slice(&(event.len() as u32).to_be_bytes());
                    watch.extend_from_slice(&event);
                }
                (list, watch)
            }
        };
        for chunk_len in [1, 100, 7_000, 1 << 20] {
            let mut decoder = ListDecoder::new(encoding, reader());
            let mut found = Vec::new();
            for chunk in list.chunks(chunk_len) {
                decoder.push(chunk.to_vec().into());
                found.extend(std::iter::from_fn(|| decoder.next_item()).map(named));
            }
            decoder.finish().unwrap();
            assert_eq!(found, expected, "a list in {encoding:?} in chunks of {chunk_len}");
            let mut decoder = WatchDecoder::new(encoding, reader());
            let mut found = Vec::new();
            for chunk in watch.chunks(chunk_len) {
                decoder.push(chunk.to_vec().into());
                let events = std::iter::from_fn(|| decoder.next_event()).inspect(|event| {
                    if let Err(error) = event {
                        assert_eq!(error.event_type(), Some("DELETED"), "{error}");
                    }
                });
                found.extend(events.map(|event| named(event.map(|event| event.object().unwrap().clone()))));
            }
            decoder.finish().unwrap();
            assert_eq!(found, expected, "a watch in {encoding:?} in chunks of {chunk_len}");
        }
    }
}

/// An object's name, or the name in its error.
fn named(object: Result<RawObject, Error>) -> String {
    match object {
        Ok(object) => object.head().name().to_owned(),
        Err(error) => {
            let (namespace, name) = error.key().unwrap();
            assert!(error.to_string().starts_with("shop/large: limit on object size"), "{error}");
            assert!(!error.is_fatal());
            format!("too large: {namespace}/{name}")
        }
    }
}

/// The object in both encodings.
fn both(value: &Value) -> [(Vec<u8>, Encoding); 2] {
    let message = Schema::builtin().kind("v1", "ConfigMap").unwrap();
    // In Go's order, which is not serde_json's.
    let (metadata, data) = (&value["metadata"], &value["data"]);
    let text = format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{metadata},"data":{data}}}"#);
    [(text.into_bytes(), Encoding::Json), (ser::to_vec(value, message).unwrap(), Encoding::Protobuf)]
}

/// A message of these fields.
fn fields(fields: &[(u32, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    fields.iter().for_each(|(number, value)| Writer::new(&mut bytes).bytes_field(*number, value));
    bytes
}

fn reader() -> ObjectReader {
    reader_with(Limits::default())
}

fn reader_with(limits: Limits) -> ObjectReader {
    ObjectReader::new(Projection::default(), limits)
}

fn config_map() -> TypeMeta {
    TypeMeta::new("v1", "ConfigMap")
}

#[test]
fn the_implausible_length_of_a_watch_frame_is_fatal_immediately() {
    // JSON with the content type of protobuf, a length bomb, and the smallest text.
    for begins in [br#"{"ty"#.as_slice(), &[0xff; 4], b" \0\0\0"] {
        let reader = ObjectReader::new(Projection::default(), Limits::default());
        let mut watch = WatchDecoder::new(Encoding::Protobuf, reader);
        watch.push(Bytes::copy_from_slice(begins));
        let error = watch.next_event().expect("not more bytes are needed").unwrap_err();
        assert!(error.is_fatal(), "{error}");
        assert!(error.to_string().contains("the length is implausible; is it another encoding?"), "{error}");
    }
    // A length that exceeds only the limit concerns one event.
    let reader = ObjectReader::new(Projection::default(), Limits::default());
    let mut watch = WatchDecoder::new(Encoding::Protobuf, reader);
    watch.push(Bytes::from_static(&[0x1f, 0xff, 0xff, 0xff]));
    assert!(watch.next_event().is_none());
    watch.push(Bytes::from(vec![0; 4 << 10]));
    assert!(!watch.next_event().unwrap().unwrap_err().is_fatal());
}
