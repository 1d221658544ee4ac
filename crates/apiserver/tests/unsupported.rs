//! Unsupported features whose configuration the server stores: writes that configure them or are subject to them get a
//! warning, and a strict server rejects them.

use crate::support;

use embedded_apiserver::{Server, Unsupported};
use serde_json::{Value, json};
use support::{Answer, Session};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// A request, and a part of the expected warning; `None` for no warning.
type Step = (&'static str, String, Value, Option<&'static str>);

async fn session(unsupported: Unsupported) -> Session {
    Session::new(Server::builder().without_socket().unsupported(unsupported).start().await.unwrap())
}

async fn send(session: &Session, method: &str, path: &str, body: &Value) -> Answer {
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    session.request(method, path, &[("content-type", content_type)], body.to_string().into()).await
}

fn warnings(answer: &Answer) -> String {
    let values = answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap());
    values.collect::<Vec<_>>().join("; ")
}

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}});
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

fn definition(plural: &str, schema: &Value, conversion: &Value) -> Value {
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}});
    json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": plural.to_uppercase()},
                 "conversion": conversion, "versions": [version("v1", true), version("v1beta1", false)]},
    })
}

fn custom(plural: &str, version: &str, name: &str) -> Value {
    json!({"apiVersion": format!("example.com/{version}"), "kind": plural.to_uppercase(), "metadata": {"name": name}})
}

fn rule(group: &str, resource: &str, operations: &[&str]) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": operations, "resources": [resource]})
}

/// Objects that configure features, ordered so that none is subject to an earlier one.
fn configurations() -> Vec<(String, Value, &'static str)> {
    let ruled = json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": [{"rule": "true"}]}}});
    let open = json!({"type": "object"});
    let none = json!({"strategy": "None"});
    let webhook = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://example.com"}}});
    let client = json!({"url": "https://example.com"});
    let validating = json!({
        "name": "v.example.com", "clientConfig": client, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [rule("", "configmaps", &["UPDATE", "DELETE"])], "objectSelector": {"matchLabels": {"checked": "yes"}},
    });
    let ruleless = json!({"name": "n.example.com", "clientConfig": client, "sideEffects": "None", "admissionReviewVersions": ["v1"]});
    let mutating = json!({
        "name": "m.example.com", "clientConfig": client, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [rule("apps", "*/scale", &["*"])],
        "namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["default"]}]},
    });
    let policy = json!({"matchConstraints": {"resourceRules": [rule("", "secrets", &["CREATE"])]}, "validations": [{"expression": "false"}]});
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let named = |name: &str| json!({"metadata": {"name": name}});
    let with = |name: &str, member: &str, value: Value| {
        let mut object = named(name);
        object[member] = value;
        object
    };
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"});
    let cluster_role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"});
    let mut secured = named("secured");
    secured["metadata"]["labels"] = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let budget = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    vec![
        (CRDS.into(), definition("ruled", &ruled, &none), "CEL validation rules"),
        (CRDS.into(), definition("converted", &open, &webhook), "conversion webhooks"),
        (
            format!("{ADMISSION}/validatingwebhookconfigurations"),
            with("v", "webhooks", json!([ruleless, validating])),
            "admission webhooks",
        ),
        (
            format!("{ADMISSION}/mutatingwebhookconfigurations"),
            with("m", "webhooks", json!([mutating])),
            "admission webhooks",
        ),
        (format!("{ADMISSION}/validatingadmissionpolicies"), with("p", "spec", policy), "admission policies"),
        (
            format!("{ADMISSION}/validatingadmissionpolicybindings"),
            with("b", "spec", json!({"policyName": "p", "validationActions": ["Deny"]})),
            "admission policies",
        ),
        (
            format!("{ADMISSION}/mutatingadmissionpolicies"),
            with("mp", "spec", json!({})),
            "admission policies",
        ),
        (
            format!("{ADMISSION}/mutatingadmissionpolicybindings"),
            with("mb", "spec", json!({"policyName": "none"})),
            "admission policies",
        ),
        (format!("{rbac}/namespaces/default/roles"), named("r"), "RBAC permissions"),
        (format!("{rbac}/clusterroles"), named("r"), "RBAC permissions"),
        (format!("{rbac}/namespaces/default/rolebindings"), with("rb", "roleRef", role), "RBAC permissions"),
        (format!("{rbac}/clusterrolebindings"), with("rb", "roleRef", cluster_role), "RBAC permissions"),
        (
            "/api/v1/namespaces/kube-system/resourcequotas".into(),
            with("q", "spec", json!({"hard": {"count/configmaps": "1", "requests.cpu": "1"}})),
            "resource quotas",
        ),
        (
            "/api/v1/namespaces/kube-public/limitranges".into(),
            with("l", "spec", json!({"limits": []})),
            "limit ranges",
        ),
        ("/api/v1/namespaces".into(), secured, "pod security levels"),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets".into(),
            with("web", "spec", budget),
            "disruption budgets",
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses".into(),
            with("high", "value", json!(1000)),
            "pod classes",
        ),
        (
            "/apis/node.k8s.io/v1/runtimeclasses".into(),
            with("sandbox", "handler", json!("runsc")),
            "pod classes",
        ),
        ("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas".into(), named("f"), "priority and fairness"),
    ]
}

/// Writes that are subject to configured features, each next to one that is not.
fn checked() -> Vec<Step> {
    let things =
        |plural: &str, version: &str| format!("/apis/example.com/{version}/namespaces/default/{plural}");
    let namespaced = |namespace: &str, plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
    let labelled = json!({"metadata": {"name": "checked", "labels": {"checked": "yes"}}});
    let named = |name: &str| json!({"metadata": {"name": name}});
    let plain = || pod("plain", &json!({}));
    vec![
        (
            "POST",
            things("ruled", "v1"),
            custom("ruled", "v1", "a"),
            Some("CustomResourceDefinition \"ruled.example.com\" would have applied"),
        ),
        ("DELETE", format!("{}/a", things("ruled", "v1")), json!({}), None),
        ("POST", things("converted", "v1"), custom("converted", "v1", "a"), None),
        (
            "POST",
            things("converted", "v1beta1"),
            custom("converted", "v1beta1", "b"),
            Some("conversion webhooks are not supported"),
        ),
        ("POST", MAPS.into(), labelled, None),
        (
            "PATCH",
            format!("{MAPS}/checked"),
            json!({"data": {"a": "b"}}),
            Some("ValidatingWebhookConfiguration \"v\""),
        ),
        ("DELETE", format!("{MAPS}/checked"), json!({}), Some("ValidatingWebhookConfiguration \"v\"")),
        ("POST", MAPS.into(), json!({"metadata": {"name": "again", "labels": {"checked": "yes"}}}), None),
        ("DELETE", MAPS.into(), json!({}), Some("ValidatingWebhookConfiguration \"v\"")),
        ("POST", MAPS.into(), named("other"), None),
        ("PATCH", format!("{MAPS}/other"), json!({"data": {"a": "b"}}), None),
        ("POST", namespaced("default", "secrets"), named("s"), Some("ValidatingAdmissionPolicy \"p\"")),
        (
            "PATCH",
            format!("{}/s", namespaced("default", "secrets")),
            json!({"metadata": {"labels": {"a": "b"}}}),
            None,
        ),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".into(),
            json!({"spec": {}}),
            Some("RBAC permissions are not supported"),
        ),
        ("POST", namespaced("kube-system", "configmaps"), named("counted"), Some("ResourceQuota \"q\"")),
        (
            "POST",
            namespaced("kube-system", "secrets"),
            named("policy-only"),
            Some("ValidatingAdmissionPolicy \"p\""),
        ),
        (
            "POST",
            namespaced("kube-system", "services"),
            json!({"metadata": {"name": "uncounted"}, "spec": {"ports": [{"port": 1}]}}),
            None,
        ),
        ("POST", namespaced("kube-system", "pods"), plain(), Some("ResourceQuota \"q\"")),
        ("POST", namespaced("kube-public", "pods"), plain(), Some("LimitRange \"l\"")),
        ("POST", namespaced("secured", "pods"), plain(), Some("Namespace \"secured\"")),
        ("POST", namespaced("secured", "configmaps"), named("c"), None),
        ("POST", PODS.into(), plain(), None),
        (
            "POST",
            PODS.into(),
            pod("first", &json!({"priorityClassName": "high"})),
            Some("PriorityClass \"high\""),
        ),
        (
            "POST",
            PODS.into(),
            pod("boxed", &json!({"runtimeClassName": "sandbox"})),
            Some("RuntimeClass \"sandbox\""),
        ),
        ("POST", format!("{PODS}/plain/eviction"), named("plain"), Some("PodDisruptionBudget \"web\"")),
    ]
}

#[tokio::test]
async fn writes_that_configure_a_missing_feature_are_warned_about() {
    let session = session(Unsupported::Warn).await;
    for (path, object, feature) in configurations() {
        let answer = send(&session, "POST", &path, &object).await;
        let text = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.code, 201, "{path}: {text}");
        assert!(
            warnings(&answer).contains(&format!("299 - \"{feature} are not supported: the ")),
            "{path}: {:?}",
            answer.headers
        );
    }
}

#[tokio::test]
async fn writes_subject_to_a_missing_feature_are_warned_about() {
    let session = session(Unsupported::Warn).await;
    for (path, object, _) in configurations() {
        send(&session, "POST", &path, &object).await;
    }
    for (method, path, body, warning) in checked() {
        let answer = send(&session, method, &path, &body).await;
        assert!(answer.code < 300, "{method} {path}: {}", String::from_utf8_lossy(&answer.body));
        let found = warnings(&answer).replace("\\\"", "\"");
        match warning {
            Some(warning) => {
                assert!(found.contains(warning), "{method} {path}: {found:?} should contain {warning:?}");
            }
            None => assert_eq!(found, "", "{method} {path}"),
        }
    }
}

#[tokio::test]
async fn a_strict_server_rejects_configuring_a_missing_feature() {
    let session = session(Unsupported::Refuse).await;
    for (path, object, feature) in configurations() {
        let answer = send(&session, "POST", &path, &object).await;
        let status: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!((answer.code, &status["reason"]), (501, &json!("NotImplemented")), "{path}: {status}");
        assert!(
            status["message"].as_str().unwrap().contains(&format!("{feature} are not supported")),
            "{status}"
        );
        let name = object["metadata"]["name"].as_str().unwrap();
        assert_eq!(
            send(&session, "GET", &format!("{path}/{name}"), &json!({})).await.code,
            404,
            "{path}/{name} is stored"
        );
    }
    let answer = send(&session, "POST", MAPS, &json!({"metadata": {"name": "ordinary"}})).await;
    assert_eq!((answer.code, warnings(&answer).as_str()), (201, ""));
}

#[tokio::test]
async fn a_strict_server_rejects_writes_subject_to_a_missing_feature() {
    let session = session(Unsupported::Refuse).await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    session.json("POST", accounts, json!({"metadata": {"name": "robot"}})).await;
    let request = session.json("POST", &format!("{accounts}/robot/token"), json!({})).await;
    let bearer = format!("Bearer {}", request["status"]["token"].as_str().unwrap());
    let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
    let map = json!({"metadata": {"name": "m"}}).to_string();
    let answer = session.request("POST", MAPS, &headers, map.into()).await;
    assert_eq!(answer.code, 501, "{}", String::from_utf8_lossy(&answer.body));
    let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(send(&session, "POST", review, &json!({"spec": {}})).await.code, 501);
    let answer = send(&session, "POST", PODS, &pod("p", &json!({"priorityClassName": "high"}))).await;
    assert_eq!(answer.code, 501);
    assert_eq!(send(&session, "GET", &format!("{PODS}/p"), &json!({})).await.code, 404);
}

#[tokio::test]
async fn requests_for_a_deprecated_version_are_warned_about() {
    let session = session(Unsupported::Warn).await;
    let mut crd = definition("olds", &json!({"type": "object"}), &json!({"strategy": "None"}));
    crd["spec"]["versions"][1]["deprecated"] = true.into();
    session.json("POST", CRDS, crd).await;
    let path = "/apis/example.com/v1beta1/namespaces/default/olds";
    let expected = "299 - \"example.com/v1beta1 OLDS is deprecated; use example.com/v1 OLDS\"";
    assert_eq!(warnings(&send(&session, "POST", path, &custom("olds", "v1beta1", "a")).await), expected);
    assert_eq!(warnings(&send(&session, "GET", path, &json!({})).await), expected);
    assert_eq!(
        warnings(&send(&session, "GET", "/apis/example.com/v1/namespaces/default/olds", &json!({})).await),
        ""
    );
}

#[test]
fn the_documentation_lists_exactly_these_features() {
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/embedded-server.md"))
        .unwrap();
    let (_, table) =
        docs.split_once("| feature | configured by | what does not happen |\n|---|---|---|\n").unwrap();
    let listed: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
    let expected: Vec<String> = Unsupported::features()
        .map(|(name, configured_by, missing)| format!("| {name} | {configured_by} | {missing} |"))
        .collect();
    assert_eq!(listed, expected, "docs/embedded-server.md should have\n{}", expected.join("\n"));
}
