//! `{:?}` of objects and of everything that contains them prints keys and counts, never their content.

use std::fmt::Debug;
use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use kube_informer::Cluster;
use kube_informer::Informer;
use kube_informer::building_blocks::{
    DeltaFifo, DeltaFifoConfig, Fifo, FifoConfig, ListPart, Replace, Sink, Store, StoreConfig, StoreSink,
};
use kube_informer::testing::ScriptedSource;
use kube_informer::{Index, Scope};
use kube_wire::{
    Encoding, FieldPath, Limits, ListDecoder, ObjectReader, Projection, RawObject, TypeMeta, WatchDecoder,
    WatchEvent,
};
use serde_json::{Value, json};

const PLANTED: &str = "cGxhbnRlZC1zZWNyZXQ=";

fn secret() -> Value {
    json!({"kind": "Secret", "apiVersion": "v1", "data": {"pw": PLANTED}, "metadata": {"namespace": "web", "name": "s",
        "uid": "u", "resourceVersion": "1", "annotations": {"copy": PLANTED}, "labels": {"app": "web"}}})
}

fn reader() -> ObjectReader {
    ObjectReader::new(Projection::default(), Limits::default()).expect(TypeMeta::new("v1", "Secret"))
}

fn raw() -> RawObject {
    reader().read(secret().to_string().as_bytes(), Encoding::Json, None).unwrap()
}

/// Panics if the planted text is printed, as text or as a list of bytes.
#[track_caller]
fn check(value: &(impl Debug + ?Sized)) {
    let printed = format!("{value:?}");
    let as_bytes = format!("{:?}", &PLANTED.as_bytes()[..8]);
    for planted in [PLANTED, as_bytes.trim_matches(['[', ']'])] {
        assert!(!printed.contains(planted), "{printed}");
    }
}

#[test]
fn readers_and_decoders_print_no_content() {
    let object = raw();
    check(&object);
    check(&object.head());
    check(&object.head().labels());
    check(&object.kept());
    check(&WatchEvent::Added(object.clone()));
    check(&ListPart::Item(object));
    let mut reader = reader().in_blocks();
    reader.read(secret().to_string().as_bytes(), Encoding::Json, None).unwrap();
    check(&reader);

    let event = format!("{}\n", json!({"type": "ADDED", "object": secret()}));
    let list =
        json!({"kind": "SecretList", "apiVersion": "v1", "metadata": {}, "items": [secret(), secret()]})
            .to_string();
    for end in [event.len(), event.len() - 5] {
        let mut decoder = WatchDecoder::new(Encoding::Json, self::reader());
        decoder.push(event.as_bytes()[..end].to_vec().into());
        check(&decoder);
        decoder.next_event();
        check(&decoder);
    }
    for end in [list.len(), list.len() - 20] {
        let mut decoder = ListDecoder::new(Encoding::Json, self::reader());
        decoder.push(list.as_bytes()[..end].to_vec().into());
        check(&decoder);
        decoder.next_item();
        check(&decoder);
    }
    // In protobuf, an incomplete frame.
    let mut decoder = WatchDecoder::new(Encoding::Protobuf, self::reader());
    let frame = [&[0, 0, 0, 200][..], PLANTED.as_bytes()].concat();
    decoder.push(frame.into());
    check(&decoder);
    decoder.next_event();
    check(&decoder);
}

#[test]
fn a_part_of_an_object_prints_no_content() {
    let object = raw();
    let part = "data".parse::<FieldPath>().unwrap().first(object.head()).unwrap();
    assert!(part.is_some());
    check(&part);
}

#[test]
fn queues_print_no_content() {
    let index = Index::field("pw", "data.pw");
    let store = Arc::new(Store::new(StoreConfig::default().index(index)).unwrap());
    check_queue(&StoreSink::new(Fifo::new(FifoConfig::default()), store));
    check_queue(&DeltaFifo::new(DeltaFifoConfig::default()));
}

fn check_queue<Q: Sink<Replace: Debug> + Debug>(queue: &Q) {
    let mut replace = queue.begin_replace(Scope(0)).now_or_never().unwrap().unwrap();
    replace.put(raw()).unwrap();
    check(&replace);
    replace.commit("1").now_or_never().unwrap().unwrap();
    check(queue);
}

#[tokio::test]
async fn informers_and_their_events_print_no_content() {
    let source = ScriptedSource::new("v1", "Secret");
    source.put(secret());
    check(&source);
    check(&source.checkpoint());
    let index = Index::field("pw", "data.pw");
    let informer = Informer::<Value>::from_source(Arc::new(source)).index(&index).start().unwrap();
    let mut events = informer.subscribe();
    informer.synced().await.unwrap();
    check(&events.next().await);
    check(&events);
    check(&informer);
    check(&informer.lister());
    check(&informer.lister().list());
    check(&informer.status());
    let view = informer.lister().view();
    check(&view);
    check(view.snapshot());
    check(&view.snapshot().clone().into_objects());
    assert_eq!(view.snapshot().by_index(&index, PLANTED).unwrap().count(), 1);
}

#[tokio::test]
async fn clients_print_no_credentials() {
    let mut config =
        kube_client::Config::new("http://user:cGxhbnRlZC1zZWNyZXQ%3D@127.0.0.1:1".parse().unwrap());
    config.auth_info.token = Some(PLANTED.to_owned().into());
    config.proxy_url = Some(format!("http://user:{PLANTED}@127.0.0.1:1").parse().unwrap());
    let clients = Cluster::from_config(config);
    check(&clients);
    let request = http::Request::get("/api").body(kube_client::client::Body::empty()).unwrap();
    if let Ok(clients) = clients {
        check(&clients.client().send(request).await.map(|_| ()));
    }
}
