//! Objects that a server starts with: from files, directories and typed values.

use std::path::Path;

use embedded_apiserver::Server;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_client::Api;
use kube_core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::json;

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

const OBJECTS: &str = "
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: one, namespace: shop}
status: {ready: true}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: settings, namespace: web}
  data: {colour: red}
";

/// A directory with these files, removed when dropped.
struct Directory(std::path::PathBuf);

impl Directory {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        for (file, text) in files {
            std::fs::write(path.join(file), text).unwrap();
        }
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[tokio::test]
async fn a_directory_is_loaded_in_any_order_with_status_and_namespaces() {
    // The object comes before its definition.
    let files =
        [("a-objects.yaml", OBJECTS), ("b-definition.yml", DEFINITION), ("README.md", "not: [a manifest")];
    let directory = Directory::new("manifests-directory", &files);
    let server = Server::builder().without_socket().objects(&*directory.0).start().await.unwrap();
    let client = server.client().unwrap();
    let widgets = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let widget =
        Api::<DynamicObject>::namespaced_with(client.clone(), "shop", &widgets).get("one").await.unwrap();
    assert_eq!(widget.data["status"], json!({"ready": true}));
    let map = Api::<ConfigMap>::namespaced(client.clone(), "web").get("settings").await.unwrap();
    assert_eq!(map.data.unwrap()["colour"], "red");
    assert!(Api::<Namespace>::all(client).get("shop").await.is_ok());
}

#[tokio::test]
async fn definitions_are_loaded_from_a_file_or_a_directory() {
    let directory = Directory::new("manifests-definitions", &[("definition.yaml", DEFINITION)]);
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}});
    for path in [directory.0.clone(), directory.0.join("definition.yaml")] {
        // The objects are named first.
        let builder = Server::builder().without_socket().objects([widget.clone()]).crds(path);
        let server = builder.start().await.unwrap();
        let widgets = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
        let widgets = Api::<DynamicObject>::default_namespaced_with(server.client().unwrap(), &widgets);
        assert!(widgets.get("one").await.is_ok());
    }
}

#[tokio::test]
async fn typed_values_keep_their_status() {
    let deployment = serde_json::from_value::<Deployment>(json!({
        "metadata": {"name": "api", "namespace": "web"},
        "spec": {"selector": {"matchLabels": {"app": "api"}},
                 "template": {"metadata": {"labels": {"app": "api"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
        "status": {"readyReplicas": 2},
    }));
    let server = Server::builder().without_socket().objects([deployment.unwrap()]).start().await.unwrap();
    let api = Api::<Deployment>::namespaced(server.client().unwrap(), "web");
    assert_eq!(api.get("api").await.unwrap().status.unwrap().ready_replicas, Some(2));
}

#[tokio::test]
async fn invalid_manifests_fail_the_start_and_name_the_file() {
    let directory = Directory::new("manifests-invalid", &[("bad.yaml", "a: [1"), ("map.yaml", OBJECTS)]);
    let start = async |path: &Path, as_crds: bool| {
        let builder = Server::builder().without_socket();
        let builder = if as_crds { builder.crds(path) } else { builder.objects(path) };
        builder.start().await.map(drop).unwrap_err().to_string()
    };
    let bad = directory.0.join("bad.yaml");
    let error = start(&bad, false).await;
    assert!(error.starts_with(&format!("cannot load {}: ", bad.display())), "{error}");
    let map = directory.0.join("map.yaml");
    let error = start(&map, true).await;
    assert!(error.ends_with("not a CustomResourceDefinition; add it with `objects`"), "{error}");
    let error = start(&map, false).await;
    assert!(error.contains("(Widget one): unknown kind Widget of example.com/v1"), "{error}");
    let missing = directory.0.join("missing.yaml");
    assert!(start(&missing, false).await.contains("missing.yaml"));
}

#[tokio::test(start_paused = true)]
async fn requested_bookmarks_carry_the_current_revision() {
    use futures::StreamExt as _;
    use kube_client::api::{WatchEvent, WatchParams};

    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let server = Server::builder().without_socket().objects([map("a")]).start().await.unwrap();
    let client = server.client().unwrap();
    let before = server.revision().to_string();
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let mut watch = maps.watch(&WatchParams::default(), &before).await.unwrap().boxed();
    // A change of another kind moves the revision, and causes no event here.
    let namespace = serde_json::from_value(json!({"metadata": {"name": "other"}})).unwrap();
    Api::<Namespace>::all(client).create(&Default::default(), &namespace).await.unwrap();
    server.send_bookmarks();
    let event = watch.next().await.unwrap().unwrap();
    let WatchEvent::Bookmark(bookmark) = event else { panic!("{event:?}") };
    assert_eq!(bookmark.metadata.resource_version, server.revision().to_string());
}
