//! Shared code of the informers' tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube_informer::testing::ScriptedSource;
use kube_informer::{Event, Informer, InformerBuilder, Subscription};
use serde_json::{Value, json};

pub fn informer(source: &ScriptedSource) -> InformerBuilder<Pod> {
    Informer::from_source(Arc::new(source.clone())).reflector(super::listing()).memory(super::memory())
}

pub fn on_node(name: &str, node: &str) -> Value {
    json!({"metadata": {"namespace": "web", "name": name}, "spec": {"nodeName": node, "containers": []}})
}

/// Asserts the next events, one per line, in their `Debug` format.
pub async fn expect_events(events: &mut Subscription<Pod>, lines: &[&str]) {
    for line in lines {
        let event = events.next().await.expect("the stream is open");
        assert_eq!(format!("{event:?}"), *line);
    }
}

/// Runs everything that is ready, without advancing time.
pub async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// The state of a listener. Panics on events that contradict earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerView {
    /// uid and resourceVersion by key.
    pub objects: BTreeMap<String, (String, String)>,
    pub synced: bool,
}

impl ListenerView {
    pub fn receive(&mut self, event: &Event<Pod>) {
        let state = |object: &kube_informer::Object<Pod>| {
            (object.uid().to_owned(), object.resource_version().to_owned())
        };
        match event {
            Event::Added { object, .. } => {
                let before = self.objects.insert(object.key().to_string(), state(object));
                assert_eq!(before, None, "{event:?}: it was there already");
            }
            Event::Updated { old, new, .. } => {
                let before = self.objects.insert(new.key().to_string(), state(new));
                assert_eq!(before, Some(state(old)), "{event:?}: `old` is the last received state");
                assert_eq!(old.uid(), new.uid(), "{event:?}: an update concerns one object");
            }
            Event::Deleted { last, .. } => {
                let before = self.objects.remove(&last.key().to_string());
                assert_eq!(
                    before.expect("it was there").0,
                    last.uid(),
                    "{event:?}: the object that was there"
                );
            }
            Event::Synced => {
                assert!(!self.synced, "synced is received once");
                self.synced = true;
            }
        }
    }

    /// The server's state.
    pub fn of(source: &ScriptedSource) -> Self {
        let state = |object: &kube_wire::RawObject| {
            let head = object.head();
            let key = kube_informer::Key::of_head(&head).to_string();
            (key, (head.uid().to_owned(), head.resource_version().to_owned()))
        };
        Self { objects: source.objects().iter().map(state).collect(), synced: true }
    }
}
