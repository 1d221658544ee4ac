//! Informers on a real kube-apiserver without faults: their objects equal the server's, field by field, for several
//! kinds, both encodings, and with and without watch-lists.

use futures::StreamExt;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Node, Pod, Secret, Service},
    rbac::v1::ClusterRole,
};
use kube_client::Client;
use kube_core::{ApiResource, DynamicObject, GroupVersionKind};
use kube_informer::{Cluster, EncodingPreference, Event, Informer, InformerBuilder, WatchList};
use kube_informer_conformance::{Programs, RealServer};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::common;
use crate::common::informers::{converges, converges_to, listed, quick};
use crate::common::webhook::Webhook;

/// One object of each kind that is compared.
const WORLD: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {tier: front}}}
- {apiVersion: v1, kind: Node, metadata: {name: node-1}, spec: {taints: [{key: a, effect: NoSchedule}]}, status: {capacity: {cpu: "4", memory: 8Gi}}}
- {apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}, data: {key: AAEC/w==}, immutable: true}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: shop, annotations: {note: "ünïcode\n"}}, data: {a: "1", empty: ""}, binaryData: {b: AAE=}}
- {apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: web}, {name: other, port: 81, targetPort: 8081}]}}
- apiVersion: v1
  kind: Pod
  metadata: {name: p, namespace: shop, labels: {app: web}, finalizers: [example.com/hold]}
  spec:
    nodeName: node-1
    activeDeadlineSeconds: 3600
    securityContext: {runAsUser: 0, fsGroup: 7}
    containers:
    - name: main
      image: registry.example.com/main:1
      env: [{name: A, value: ""}, {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
      resources: {requests: {cpu: 1500m, memory: 1Gi}, limits: {memory: "1073741824"}}
      livenessProbe: {httpGet: {path: /, port: http}, periodSeconds: 3}
      ports: [{name: http, containerPort: 8080}]
    volumes: [{name: e, emptyDir: {}}, {name: p, projected: {sources: [{configMap: {name: c, optional: true}}]}}]
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: shop}
  spec:
    replicas: 0
    selector: {matchLabels: {app: web}}
    strategy: {rollingUpdate: {maxSurge: 25%, maxUnavailable: 0}}
    template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: m}]}}
"#;

#[tokio::test]
async fn every_field_of_every_kind_equals_the_servers_in_both_encodings_with_and_without_watch_lists() {
    let programs = Programs::required();
    for streaming in [true, false] {
        let server = RealServer::builder(programs.clone()).watch_list(streaming).start().await.unwrap();
        server.kubectl_with(&["apply", "-f", "-"], WORLD).await.unwrap();
        let (cluster, client) = both(&server).await;
        for encoding in [EncodingPreference::Auto, EncodingPreference::Json] {
            // Also requested where the server does not support it.
            for watch_list in [WatchList::Auto, WatchList::On, WatchList::Off] {
                let world = World { cluster: &cluster, client: &client, encoding, watch_list };
                world.is_shown::<Namespace>("/api/v1/namespaces").await;
                world.is_shown::<Node>("/api/v1/nodes").await;
                world.is_shown::<Secret>("/api/v1/secrets").await;
                world.is_shown::<ConfigMap>("/api/v1/configmaps").await;
                world.is_shown::<Service>("/api/v1/services").await;
                world.is_shown::<Pod>("/api/v1/pods").await;
                world.is_shown::<Deployment>("/apis/apps/v1/deployments").await;
                world.is_shown::<ClusterRole>("/apis/rbac.authorization.k8s.io/v1/clusterroles").await;
            }
        }
    }
}

#[tokio::test]
async fn metadata_only_has_the_metadata_of_the_same_objects_and_follows_changes() {
    let programs = Programs::required();
    let server = RealServer::builder(programs).start().await.unwrap();
    server.kubectl_with(&["apply", "-f", "-"], WORLD).await.unwrap();
    let (cluster, client) = both(&server).await;
    let expected = async |path: &str| {
        let mut objects = listed(&client, path).await;
        objects.values_mut().for_each(|object| *object = json!({"metadata": object["metadata"]}));
        objects
    };
    for encoding in [EncodingPreference::Auto, EncodingPreference::Json] {
        let pods = Informer::<Pod>::builder(&cluster).metadata_only().reflector(quick());
        let pods = pods.encoding(encoding).start().unwrap();
        pods.synced().await.unwrap();
        converges_to(&pods, async || expected("/api/v1/pods").await).await;
        server.kubectl(&["annotate", "-n", "shop", "pod", "p", "--overwrite", "seen=yes"]).await.unwrap();
        converges_to(&pods, async || expected("/api/v1/pods").await).await;
        server.kubectl(&["annotate", "-n", "shop", "pod", "p", "seen-"]).await.unwrap();
        converges_to(&pods, async || expected("/api/v1/pods").await).await;
    }
}

#[tokio::test]
async fn selectors_match_like_the_server_and_objects_come_and_go_with_their_labels() {
    let (server, client) = common::server().await;
    common::create(&client, &["a", "b", "c"]).await;
    let cluster = Cluster::from_config(server.config().await.unwrap()).unwrap();
    let selected = "/api/v1/configmaps?labelSelector=shop%3Dyes&fieldSelector=metadata.name%21%3Db";
    let maps = Informer::<ConfigMap>::builder(&cluster).reflector(quick());
    let maps = maps.labels("shop=yes").fields("metadata.name!=b").start().unwrap();
    maps.synced().await.unwrap();
    converges(&maps, &client, selected).await;
    assert_eq!(maps.lister().count(), 2);
    let mut events = maps.subscribe();
    server.kubectl(&["label", "configmap", "a", "shop-"]).await.unwrap();
    converges(&maps, &client, selected).await;
    server.kubectl(&["label", "configmap", "a", "shop=yes"]).await.unwrap();
    converges(&maps, &client, selected).await;
    let mut received = Vec::new();
    while received.len() < 5 {
        received.push(match events.next().await.unwrap() {
            Event::Added { object, .. } => format!("+{}", object.name()),
            Event::Updated { new, .. } => format!("~{}", new.name()),
            Event::Deleted { last, .. } => format!("-{}", last.name()),
            Event::Synced => "synced".to_owned(),
        });
    }
    received[..2].sort();
    assert_eq!(received, ["+a", "+c", "synced", "-a", "+a"]);
}

#[tokio::test]
async fn one_informer_over_several_namespaces_has_exactly_their_objects() {
    let (server, client) = common::server().await;
    for namespace in ["one", "two", "three"] {
        server.kubectl(&["create", "namespace", namespace]).await.unwrap();
        server.kubectl(&["create", "configmap", "c", "-n", namespace]).await.unwrap();
    }
    let cluster = Cluster::from_config(server.config().await.unwrap()).unwrap();
    let maps = Informer::<ConfigMap>::builder(&cluster).namespaces(["one", "two"]).reflector(quick());
    let maps = maps.start().unwrap();
    maps.synced().await.unwrap();
    let expected = async || {
        let mut objects = listed(&client, "/api/v1/namespaces/one/configmaps").await;
        objects.append(&mut listed(&client, "/api/v1/namespaces/two/configmaps").await);
        objects
    };
    converges_to(&maps, expected).await;
    server.kubectl(&["delete", "configmap", "c", "-n", "one"]).await.unwrap();
    server.kubectl(&["create", "configmap", "d", "-n", "two"]).await.unwrap();
    server.kubectl(&["create", "configmap", "d", "-n", "three"]).await.unwrap();
    converges_to(&maps, expected).await;
    assert_eq!(maps.lister().count(), 2);
}

#[tokio::test]
async fn the_store_follows_a_custom_resource_whose_defaults_change_while_it_is_watched() {
    let (server, client) = common::server().await;
    let widgets = "/apis/example.com/v1/widgets";
    define(&server, json!({"size": {"type": "integer", "default": 1}})).await;
    for name in ["a", "b"] {
        let widget =
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {}});
        server.kubectl_with(&["create", "-f", "-"], &widget.to_string()).await.unwrap();
    }
    let cluster = Cluster::from_config(server.config().await.unwrap()).unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let mirror = Informer::<DynamicObject>::dynamic(&cluster, &resource).reflector(quick()).start().unwrap();
    mirror.synced().await.unwrap();
    converges(&mirror, &client, widgets).await;
    let spec = |name: &str| {
        let key = format!("default/{name}").parse().unwrap();
        mirror.lister().get(&key).unwrap().decode().unwrap().data["spec"].clone()
    };
    assert_eq!(spec("a"), json!({"size": 1}));

    // The widgets do not change; the server applies other defaults to them from now on.
    let changed =
        json!({"size": {"type": "integer", "default": 1}, "colour": {"type": "string", "default": "red"}});
    define(&server, changed).await;
    while listed(&client, widgets).await["default/a"]["spec"].get("colour").is_none() {}
    converges(&mirror, &client, widgets).await;
    assert_eq!(spec("a"), json!({"size": 1, "colour": "red"}));
    assert_eq!(spec("b"), json!({"size": 1, "colour": "red"}));
}

#[tokio::test]
async fn the_store_follows_a_custom_resource_whose_conversion_changes_while_it_is_watched() {
    let (server, client) = common::server().await;
    let webhook = Webhook::start().await;
    let widgets = "/apis/example.com/v2/widgets";
    define_converted(&server, json!({"strategy": "None"})).await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 3}});
    server.kubectl_with(&["create", "-f", "-"], &widget.to_string()).await.unwrap();
    let cluster = Cluster::from_config(server.config().await.unwrap()).unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v2", "Widget"));
    let mirror = Informer::<DynamicObject>::dynamic(&cluster, &resource).reflector(quick()).start().unwrap();
    mirror.synced().await.unwrap();
    converges(&mirror, &client, widgets).await;
    let key = "default/a".parse().unwrap();
    let spec = || mirror.lister().get(&key).unwrap().decode().unwrap().data["spec"].clone();
    assert_eq!(spec(), json!({"size": 3}));

    // The widget does not change; from now on the webhook converts it.
    define_converted(&server, webhook.conversion()).await;
    while listed(&client, widgets).await["default/a"]["spec"].get("replicas").is_none() {}
    converges(&mirror, &client, widgets).await;
    assert_eq!(spec(), json!({"replicas": 3}));
    let patch = ["patch", "widgets.v1.example.com", "a", "--type=merge", "-p", r#"{"spec":{"size":4}}"#];
    server.kubectl(&patch).await.unwrap();
    converges(&mirror, &client, widgets).await;
    assert_eq!(spec(), json!({"replicas": 4}));
}

/// Defines widgets in two versions, the first of which is stored.
async fn define_converted(server: &RealServer, conversion: serde_json::Value) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version =
        |name: &str| json!({"name": name, "served": true, "storage": name == "v1", "schema": schema});
    apply_definition(server, json!([version("v1"), version("v2")]), conversion).await;
}

/// Defines widgets whose spec has these properties.
async fn define(server: &RealServer, properties: serde_json::Value) {
    let spec = json!({"type": "object", "properties": properties});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    apply_definition(server, json!([version]), json!({"strategy": "None"})).await;
}

/// Defines widgets and waits until they are served.
async fn apply_definition(server: &RealServer, versions: serde_json::Value, conversion: serde_json::Value) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": versions, "conversion": conversion,
        },
    });
    server.kubectl_with(&["apply", "-f", "-"], &definition.to_string()).await.unwrap();
    server.kubectl(&["wait", "--for=condition=established", "crd/widgets.example.com"]).await.unwrap();
}

async fn both(server: &RealServer) -> (Cluster, Client) {
    let cluster = Cluster::from_config(server.config().await.unwrap()).unwrap();
    (cluster, server.client().await.unwrap())
}

/// A server's objects, and the settings of the informers that read them.
struct World<'a> {
    cluster: &'a Cluster,
    client: &'a Client,
    encoding: EncodingPreference,
    watch_list: WatchList,
}

impl World<'_> {
    /// Checks that a typed and a dynamic informer equal the server, and that every object decodes.
    async fn is_shown<K>(&self, path: &str)
    where
        K: kube_core::Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
        K::Scope: 'static,
    {
        let typed = self.equals(Informer::<K>::builder(self.cluster), path).await;
        typed.lister().list().iter().for_each(|object| drop(object.decode().unwrap()));
        let resource = ApiResource::erase::<K>(&());
        let dynamic = self.equals(Informer::dynamic(self.cluster, &resource), path).await;
        assert!(dynamic.lister().count() > 0, "{path}");
    }

    async fn equals<K: DeserializeOwned + Send + Sync + 'static>(
        &self,
        builder: InformerBuilder<K>,
        path: &str,
    ) -> Informer<K> {
        let mut config = quick();
        config.watch_list = self.watch_list;
        let informer = builder.encoding(self.encoding).reflector(config).start().unwrap();
        informer.synced().await.unwrap();
        converges(&informer, self.client, path).await;
        informer
    }
}
