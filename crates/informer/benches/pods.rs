//! Pods in protobuf, as a server would send them, for benchmarks: any number, all different.
#![allow(dead_code, reason = "each benchmark uses a part")]

use kube_wire::internals::proto::Writer;
use kube_wire::{Encoding, Limits, ObjectReader, Projection, RawObject, TypeMeta};

/// Pods per node, and so per value of the index over nodes.
pub(crate) const PODS_PER_NODE: usize = 50;

/// Reads pods from their messages, as a source would.
pub(crate) struct PodReader(ObjectReader, TypeMeta);

impl PodReader {
    pub(crate) fn new() -> Self {
        let reader = ObjectReader::new(Projection::default(), Limits::default());
        Self(reader, TypeMeta::new("v1", "Pod"))
    }

    pub(crate) fn read(&mut self, message: &[u8]) -> RawObject {
        self.0.read(message, Encoding::Protobuf, Some(&self.1)).expect("a pod is readable")
    }
}

pub(crate) fn namespace(at: usize) -> String {
    format!("namespace-{}", at % 500)
}

pub(crate) fn name(at: usize) -> String {
    format!("app-{}-7d9f8b6c5d-{at:07}", at / 50)
}

pub(crate) fn node(at: usize) -> String {
    format!("node-{}", at / PODS_PER_NODE)
}

/// A pod with little more than a head: about 200 bytes.
pub(crate) fn small_pod(at: usize, version: u64) -> Vec<u8> {
    let spec = message(|spec| text(spec, 10, &node(at)));
    message(|pod| {
        Writer::new(pod).bytes_field(1, &metadata(at, version));
        Writer::new(pod).bytes_field(2, &spec);
    })
}

/// A pod with two containers: about 3.3 KB, a third of it `managedFields`.
pub(crate) fn whole_pod(at: usize, version: u64) -> Vec<u8> {
    let env = |number: usize| {
        message(|env| {
            text(env, 1, &format!("VARIABLE_NUMBER_{number}"));
            text(env, 2, &format!("value-{number}-of-{at}.some-service.namespace.svc.cluster.local"));
        })
    };
    let container = |number: usize| {
        message(|container| {
            text(container, 1, &format!("container-{number}"));
            text(container, 2, &format!("registry.example.com/team/application-{number}:v1.{version}"));
            (0..4).for_each(|number| Writer::new(container).bytes_field(7, &env(number)));
        })
    };
    let spec = message(|spec| {
        (0..2).for_each(|number| Writer::new(spec).bytes_field(2, &container(number)));
        text(spec, 3, "Always");
        text(spec, 9, "default");
        text(spec, 10, &node(at));
    });
    let container_status = |number: usize| {
        message(|status| {
            text(status, 1, &format!("container-{number}"));
            text(status, 6, &format!("registry.example.com/team/application-{number}:v1.{version}"));
            text(status, 7, &format!("registry.example.com/team/application@sha256:{at:064x}"));
            text(status, 8, &format!("containerd://{at:064x}"));
        })
    };
    let status = message(|status| {
        text(status, 1, "Running");
        text(status, 5, "10.0.0.1");
        text(status, 6, &format!("10.1.{}.{}", at / 250 % 250, at % 250));
        (0..2).for_each(|number| Writer::new(status).bytes_field(8, &container_status(number)));
    });
    let managed = message(|managed| {
        text(managed, 1, "kube-controller-manager");
        text(managed, 2, "Update");
        text(managed, 3, "v1");
        text(managed, 6, "FieldsV1");
        let fields = message(|fields| text(fields, 1, &r#"{"f:metadata":{"f:labels":{".":{}}}}"#.repeat(30)));
        Writer::new(managed).bytes_field(7, &fields);
    });
    let mut meta = metadata(at, version);
    Writer::new(&mut meta).bytes_field(17, &managed);
    message(|pod| {
        Writer::new(pod).bytes_field(1, &meta);
        Writer::new(pod).bytes_field(2, &spec);
        Writer::new(pod).bytes_field(3, &status);
    })
}

/// A message as a watch event, in its frame.
pub(crate) fn watch_frame(event_type: &str, pod: &[u8]) -> Vec<u8> {
    let type_meta = message(|meta| {
        text(meta, 1, "v1");
        text(meta, 2, "Pod");
    });
    let mut raw = b"k8s\0".to_vec();
    Writer::new(&mut raw).bytes_field(1, &type_meta);
    Writer::new(&mut raw).bytes_field(2, pod);
    text(&mut raw, 3, "");
    text(&mut raw, 4, "");
    let object = message(|object| Writer::new(object).bytes_field(1, &raw));
    let event = message(|event| {
        text(event, 1, event_type);
        Writer::new(event).bytes_field(2, &object);
    });
    let mut frame = u32::try_from(event.len()).expect("an event is small").to_be_bytes().to_vec();
    frame.extend(event);
    frame
}

fn metadata(at: usize, version: u64) -> Vec<u8> {
    let label = |key: &str, value: &str| {
        message(|entry| {
            text(entry, 1, key);
            text(entry, 2, value);
        })
    };
    message(|meta| {
        text(meta, 1, &name(at));
        text(meta, 3, &namespace(at));
        text(meta, 5, &format!("{at:08x}-5d1f-4c55-9a3f-2f6d1a7c9b00"));
        text(meta, 6, &version.to_string());
        Writer::new(meta).bytes_field(11, &label("app", &format!("app-{}", at / 50)));
        Writer::new(meta).bytes_field(11, &label("pod-template-hash", "7d9f8b6c5d"));
    })
}

fn message(fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    fill(&mut bytes);
    bytes
}

fn text(message: &mut Vec<u8>, number: u32, text: &str) {
    Writer::new(message).bytes_field(number, text.as_bytes());
}
