//! Informers used from several threads concurrently: starting, listening, leaving, reading and writing in random order.

use crate::support;

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube_informer::Index;
use kube_informer::testing::ScriptedSource;
use kube_informer::{Event, Informer, Key};
use parking_lot::Mutex;
use support::informers::*;
use tokio::sync::Notify;

/// Writes objects from another thread, two changes per name.
fn write(source: &ScriptedSource, names: std::ops::Range<usize>) -> std::thread::JoinHandle<()> {
    let source = source.clone();
    std::thread::spawn(move || {
        for name in names {
            source.put(on_node(&format!("pod-{name}"), "node-7"));
            source.put(on_node(&format!("pod-{name}"), "node-8"));
            if name % 3 == 0 {
                source.delete(&format!("web/pod-{name}"));
            }
        }
    })
}

/// Waits until the store has caught up with the server.
async fn caught_up(pods: &Informer<Pod>, source: &ScriptedSource) {
    source.put(on_node("last", "node-9"));
    pods.wait_until(&Key::new("web", "last"), |pod| pod.is_some()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn handlers_join_and_leave_concurrently_while_changes_arrive() {
    let source = ScriptedSource::new("v1", "Pod");
    let pods = informer(&source).start().unwrap();
    let writers = [write(&source, 0..300), write(&source, 300..600)];
    let comers = (0..4).map(|_| {
        let pods = pods.clone();
        tokio::spawn(async move {
            for round in 0..40 {
                let view = Arc::new(Mutex::new(ListenerView::default()));
                let shared = view.clone();
                let handle = pods
                    .add_handler(move |event: Event<Pod>| {
                        shared.lock().receive(&event);
                        std::future::ready(())
                    })
                    .unwrap();
                if round % 2 == 0 {
                    handle.synced().await.unwrap();
                    assert!(view.lock().synced);
                }
                handle.remove();
                handle.remove();
                handle.removed().await;
                let after = view.lock().clone();
                tokio::task::yield_now().await;
                assert_eq!(*view.lock(), after, "nothing is received after the last call");
            }
        })
    });
    let comers = comers.collect::<Vec<_>>();
    // Two handlers of the same kind are two listeners.
    let (first, second) =
        (Arc::new(Mutex::new(ListenerView::default())), Arc::new(Mutex::new(ListenerView::default())));
    let done = Arc::new(Notify::new());
    for view in [&first, &second] {
        let (view, done) = (view.clone(), done.clone());
        pods.add_handler(move |event: Event<Pod>| {
            view.lock().receive(&event);
            done.notify_one();
            std::future::ready(())
        })
        .unwrap()
        .detach();
    }
    for comer in comers {
        comer.await.unwrap();
    }
    for writer in writers {
        writer.join().unwrap();
    }
    caught_up(&pods, &source).await;
    let served = ListenerView::of(&source);
    while *first.lock() != served || *second.lock() != served {
        done.notified().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn informers_start_and_stop_while_others_listen_and_read() {
    let source = ScriptedSource::new("v1", "Pod");
    let writer = write(&source, 0..200);
    let by_node = Index::field("node", "spec.nodeName");
    let lives = (0..8).map(|life| {
        let (source, by_node) = (source.clone(), by_node.clone());
        tokio::spawn(async move {
            for round in 0..20 {
                let pods = informer(&source).start().unwrap();
                // Every operation works on an informer that has not begun.
                let mut events = pods.subscribe();
                let lister = pods.lister();
                pods.add_index(&by_node).unwrap();
                if (life + round) % 3 == 0 {
                    pods.synced().await.unwrap();
                    let view = lister.view();
                    let on_nodes = ["node-7", "node-8", "node-9"]
                        .map(|node| view.by_index(&by_node, node).unwrap().len());
                    assert_eq!(
                        on_nodes.iter().sum::<usize>(),
                        view.iter().count(),
                        "a view shows one moment"
                    );
                }
                if (life + round) % 2 == 0 {
                    pods.shutdown().await;
                    while events.next().await.is_some() {}
                    assert!(pods.add_handler(async |_: Event<Pod>| ()).is_err());
                }
            }
        })
    });
    for life in lives.collect::<Vec<_>>() {
        life.await.unwrap();
    }
    writer.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_reader_sees_an_untransformed_object() {
    let source = ScriptedSource::new("v1", "Pod");
    for name in 0..50 {
        source.put(on_node(&format!("old-{name}"), "node-7"));
    }
    let pods = informer(&source)
        .transform(|pod: &mut Pod| pod.spec.get_or_insert_default().node_name = Some("hidden".to_owned()))
        .start()
        .unwrap();
    let writers = [write(&source, 0..200), write(&source, 200..400)];
    let is_hidden = |pod: &Pod| pod.spec.as_ref().unwrap().node_name.as_deref() == Some("hidden");
    let readers = (0..3).map(|_| {
        let pods = pods.clone();
        tokio::spawn(async move {
            let mut events = pods.subscribe();
            while let Some(event) = events.next().await {
                let Some(object) = event.object() else { continue };
                assert!(is_hidden(&object.decode().unwrap()), "{event:?}");
                let shown = pods.lister().list();
                assert!(shown.iter().take(5).all(|pod| is_hidden(&pod.decode().unwrap())));
                if object.name() == "last" {
                    return;
                }
            }
        })
    });
    let readers = readers.collect::<Vec<_>>();
    for writer in writers {
        writer.join().unwrap();
    }
    caught_up(&pods, &source).await;
    for reader in readers {
        reader.await.unwrap();
    }
}
