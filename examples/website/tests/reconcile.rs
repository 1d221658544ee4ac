//! Unit tests of the reconcile: called directly, on an embedded server.
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use embedded_apiserver::{Action as FaultAction, Fault, Match, Server, Verb};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube_client::Api;
use kube_informer::Informer;
use kube_informer_controller::testing::TestContext;
use kube_informer_controller::{Action, Context, EventRecorder, EventType};
use serde_json::{Value, json};
use website_operator::Website;
use website_operator::reconcile::{Data, Directory, FINALIZER, reconcile};
use website_operator::website::definition;

/// A reconcile of one website with these fields.
async fn with_site(metadata: Value, spec: Value, status: Value) -> (Server, TestContext<Data>, Data) {
    let mut site = json!({"apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": "blog", "namespace": "web"},
                          "spec": {"host": "blog.example.com", "html": "hello"}, "status": status});
    for (field, values) in [("metadata", metadata), ("spec", spec)] {
        site[field].as_object_mut().unwrap().extend(values.as_object().unwrap().clone());
    }
    let server = Server::builder().without_socket().seed(1).crds([definition()]);
    let server = server.objects([site]).start().await.unwrap();
    let websites = Informer::<Website>::builder(server.client().unwrap()).start().unwrap();
    websites.synced().await.unwrap();
    let data = Data { directory: Directory::default(), events: EventRecorder::for_test() };
    (server, Context::for_test(data.clone()).main(&websites), data)
}

fn writes(test: &TestContext<Data>) -> Vec<String> {
    test.take_writes().iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_new_website_gets_a_finalizer_children_and_a_status() {
    let (_server, test, data) = with_site(json!({}), json!({}), json!({})).await;
    assert_eq!(test.reconcile(reconcile, "web/blog").await.unwrap(), Action::Done);
    assert_eq!(
        writes(&test),
        [
            "PATCH /apis/example.com/v1/namespaces/web/websites/blog",
            "PATCH /api/v1/namespaces/web/configmaps/blog",
            "PATCH /api/v1/namespaces/web/services/blog",
            "PATCH /apis/apps/v1/namespaces/web/deployments/blog",
            "PATCH /apis/example.com/v1/namespaces/web/websites/blog/status",
        ]
    );
    assert_eq!(data.directory.entries()["web/blog"], "blog.example.com");
    let events = data.events.pending();
    assert_eq!((events.len(), events[0].1.reason()), (1, "Reconciled"));
}

#[tokio::test]
async fn an_invalid_website_gets_a_status_and_no_children() {
    let metadata = json!({"finalizers": [FINALIZER]});
    let (_server, test, data) = with_site(metadata, json!({"replicas": -1}), json!({})).await;
    let error = test.reconcile(reconcile, "web/blog").await.unwrap_err();
    assert!(
        error.is_terminal() && error.to_string() == "invalid replicas -1: must not be negative",
        "{error}"
    );
    assert_eq!(writes(&test), ["PATCH /apis/example.com/v1/namespaces/web/websites/blog/status"]);
    assert_eq!(data.events.pending()[0].1.event_type(), EventType::Warning);
}

#[tokio::test]
async fn a_status_that_is_up_to_date_is_not_written() {
    let metadata = json!({"finalizers": [FINALIZER]});
    let status = json!({"observedGeneration": 1, "readyReplicas": 0});
    let (_server, test, data) = with_site(metadata, json!({}), status).await;
    assert_eq!(test.reconcile(reconcile, "web/blog").await.unwrap(), Action::Done);
    assert!(
        writes(&test).iter().all(|write| !write.ends_with("/status")) && data.events.pending().is_empty()
    );
    assert_eq!(test.reconcile(reconcile, "web/unknown").await.unwrap(), Action::Done);
}

#[tokio::test]
async fn a_deleted_website_is_cleaned_up_and_released() {
    let metadata = json!({"finalizers": [FINALIZER]});
    let (server, test, data) = with_site(metadata, json!({}), json!({})).await;
    assert_eq!(test.reconcile(reconcile, "web/blog").await.unwrap(), Action::Done);
    let client = server.client().unwrap();
    let sites = Api::<Website>::namespaced(client.clone(), "web");
    let deleting = sites.delete("blog", &Default::default()).await.unwrap().unwrap_left();
    let websites = test.context(&"web/blog".parse().unwrap()).informer::<Website>().unwrap();
    websites.wait_for(&deleting).await.unwrap();
    test.take_writes();

    assert_eq!(test.reconcile(reconcile, "web/blog").await.unwrap(), Action::Done);
    assert_eq!(
        writes(&test),
        [
            "DELETE /api/v1/namespaces/web/configmaps/blog",
            "DELETE /api/v1/namespaces/web/services/blog",
            "DELETE /apis/apps/v1/namespaces/web/deployments/blog",
            "PATCH /apis/example.com/v1/namespaces/web/websites/blog",
        ]
    );
    assert!(data.directory.entries().is_empty());
    assert!(sites.get_opt("blog").await.unwrap().is_none(), "the finalizer is removed");
    assert!(Api::<ConfigMap>::namespaced(client.clone(), "web").get_opt("blog").await.unwrap().is_none());
    assert!(Api::<Service>::namespaced(client.clone(), "web").get_opt("blog").await.unwrap().is_none());
    assert!(Api::<Deployment>::namespaced(client, "web").get_opt("blog").await.unwrap().is_none());
}

#[tokio::test]
async fn a_website_stays_until_its_cleanup_succeeds() {
    let metadata = json!({"finalizers": [FINALIZER]});
    let (server, test, _) = with_site(metadata, json!({}), json!({})).await;
    let sites = Api::<Website>::namespaced(server.client().unwrap(), "web");
    let deleting = sites.delete("blog", &Default::default()).await.unwrap().unwrap_left();
    let websites = test.context(&"web/blog".parse().unwrap()).informer::<Website>().unwrap();
    websites.wait_for(&deleting).await.unwrap();

    server.faults().arm(Fault::new(FaultAction::Html { code: 503 }).on(Match::verb(Verb::Delete)).once());
    let error = test.reconcile(reconcile, "web/blog").await.unwrap_err();
    assert!(!error.is_terminal(), "it is retried: {error}");
    assert!(sites.get("blog").await.is_ok());
    assert_eq!(test.reconcile(reconcile, "web/blog").await.unwrap(), Action::Done);
    assert!(sites.get_opt("blog").await.unwrap().is_none());
}
