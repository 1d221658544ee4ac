//! Keys: how they print, parse, sort, and name a cluster.
#![allow(clippy::unwrap_used, reason = "what cannot be is a test's failure")]

use kube_informer::Key;

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
