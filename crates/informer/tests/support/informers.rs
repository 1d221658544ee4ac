//! What the informers' tests share.

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

/// The next events, as many as there are lines, each as it prints.
pub async fn hear(events: &mut Subscription<Pod>, lines: &[&str]) {
    for line in lines {
        let event = events.next().await.expect("the stream goes on");
        assert_eq!(format!("{event:?}"), *line);
    }
}

/// Lets everything that can happen at this moment happen, without time passing.
pub async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// What somebody who only listens knows. Panics at events that contradict what was heard before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// uid and resourceVersion by key.
    pub objects: BTreeMap<String, (String, String)>,
    pub synced: bool,
}

impl Told {
    pub fn hear(&mut self, event: &Event<Pod>) {
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
                assert_eq!(before, Some(state(old)), "{event:?}: `old` is what was heard last");
                assert_eq!(old.uid(), new.uid(), "{event:?}: an update is of one object");
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
                assert!(!self.synced, "synced is heard once");
                self.synced = true;
            }
        }
    }

    /// What the server has.
    pub fn of(source: &ScriptedSource) -> Self {
        let state = |object: &kube_wire::RawObject| {
            let head = object.head();
            let key = kube_informer::Key::of(&head).to_string();
            (key, (head.uid().to_owned(), head.resource_version().to_owned()))
        };
        Self { objects: source.objects().iter().map(state).collect(), synced: true }
    }
}
