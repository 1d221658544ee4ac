//! Keys: how they print, parse, sort, and name a cluster.

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube_core::metadata::PartialObjectMetaExt as _;
use kube_core::{DynamicObject, ObjectMeta};
use kube_informer::Key;
use serde_json::json;

#[test]
fn a_key_is_namespace_and_name_or_name() {
    let key: Key = "web/api".parse().unwrap();
    assert_eq!((key.namespace(), key.name()), ("web", "api"));
    assert_eq!(key, Key::new("web", "api"));
    let key: Key = "node-7".parse().unwrap();
    assert_eq!((key.namespace(), key.name(), key.to_string().as_str()), ("", "node-7", "node-7"));
    for bad in ["", "/", "a/", "/b", "a/b/c", "//b", "//a/b", "a//", "a//b/", "a//b//"] {
        assert!(bad.parse::<Key>().unwrap_err().to_string().contains("namespace/name"), "{bad}");
    }
}

#[test]
fn a_typed_partial_or_dynamic_object_has_a_key() {
    let metadata = |namespace: Option<&str>, name: Option<&str>| ObjectMeta {
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        ..ObjectMeta::default()
    };
    let map = ConfigMap { metadata: metadata(Some("web"), Some("settings")), ..ConfigMap::default() };
    assert_eq!(Key::of(&map), Key::new("web", "settings"));
    let node = Node { metadata: metadata(None, Some("node-7")), ..Node::default() };
    assert_eq!(Key::of(&node).as_str(), "node-7");
    // An object that is about to be created may have neither.
    assert_eq!(Key::of(&ConfigMap::default()), Key::new("", ""));
    let dynamic: DynamicObject =
        serde_json::from_value(json!({"metadata": {"namespace": "web", "name": "a"}})).unwrap();
    assert_eq!(Key::of(&dynamic).as_str(), "web/a");
    let partial = map.metadata.into_response_partial::<ConfigMap>();
    assert_eq!(Key::of(&partial).as_str(), "web/settings");
}

#[test]
fn a_cluster_can_have_any_name_and_is_replaced_or_removed() {
    let key = Key::new("", "system:node:a");
    assert_eq!((key.cluster(), key.namespace(), key.name()), (None, "", "system:node:a"));
    for cluster in ["east", "arn:aws:eks:eu-west-1:1:cluster/prod", "a//b", "a/"] {
        let there = key.in_cluster(cluster);
        assert_eq!((there.cluster(), there.namespace(), there.name()), (Some(cluster), "", "system:node:a"));
        assert_eq!(there.in_cluster("west").as_str(), "west//system:node:a");
        assert_eq!(there.in_cluster(""), key);
    }
}

proptest::proptest! {
    #[test]
    fn a_key_survives_printing_and_parsing(
        cluster in "|[a-z/:.-]{1,12}",
        namespace in "|[a-z][a-z0-9-]{0,9}",
        name in "[a-z][a-z0-9.:-]{0,9}",
    ) {
        let key = Key::new(&namespace, &name).in_cluster(&cluster);
        let parsed: Key = key.to_string().parse().unwrap();
        assert_eq!(parsed, key);
        assert_eq!(parsed.cluster().unwrap_or_default(), cluster);
        assert_eq!((parsed.namespace(), parsed.name()), (&*namespace, &*name));
    }

    #[test]
    fn keys_without_a_cluster_are_ordered_as_their_text(
        a in "([a-z.-]{1,4}/)?[a-z.-]{1,4}",
        b in "([a-z.-]{1,4}/)?[a-z.-]{1,4}",
    ) {
        let key = |text: &str| text.parse::<Key>().unwrap();
        assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
    }
}
