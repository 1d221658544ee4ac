//! Waiting for a write.

use std::sync::Arc;

use futures::FutureExt;
use kube_informer::Key;
use kube_informer::store::{StoredObject, WaitError, Write};
use tokio::task::yield_now;

use super::support::*;

fn key() -> Key {
    "web/api".parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_write_is_in_when_its_object_has_reached_the_version() {
    let store = Arc::new(new_store());
    put(&store, pod("web/api", 5));
    assert!(store.wait_for(A, &key(), "5").now_or_never().is_some(), "no wait for what is there");
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.wait_for(A, &key(), "8").await }
    });
    for version in [6, 7] {
        put(&store, pod("web/api", version));
        yield_now().await;
        assert!(!waiting.is_finished());
    }
    put(&store, pod("web/api", 9));
    assert_eq!(waiting.await.unwrap().unwrap().unwrap().resource_version(), "9");
}

#[tokio::test(start_paused = true)]
async fn a_write_is_in_when_the_scope_has_reached_the_version() {
    let store = Arc::new(new_store());
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.wait_for(A, &key(), "8").await }
    });
    yield_now().await;
    store.write([Write::Bookmark(B, "100")]);
    yield_now().await;
    assert!(!waiting.is_finished(), "another scope says nothing");
    store.write([Write::Bookmark(A, "8")]);
    assert_eq!(
        waiting.await.unwrap().map(|object| object.is_some()),
        Ok(false),
        "it was deleted, or is not selected"
    );
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_when_the_server_goes_back_in_time() {
    let store = Arc::new(new_store());
    replace(&store, A, vec![pod("web/api", 5)], "10");
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.wait_for(A, &key(), "12").await }
    });
    yield_now().await;
    replace(&store, A, vec![pod("web/api", 3)], "4");
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error, WaitError::NewEpoch { key: key(), resource_version: "12".to_owned() });
    assert!(error.to_string().contains("12 of `web/api`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn one_may_wait_until_an_object_is_as_wanted_or_gone() {
    let store = Arc::new(new_store());
    let gone = tokio::spawn({
        let store = store.clone();
        async move {
            let key = key();
            let second =
                |object: Option<&StoredObject>| object.filter(|o| o.resource_version() == "2").cloned();
            let seen = store.wait_until(&key, second).await;
            store.wait_until(&key, |object| object.is_none().then_some(())).await;
            seen.resource_version().to_owned()
        }
    });
    for version in [1, 2] {
        put(&store, pod("web/api", version));
        yield_now().await;
    }
    delete(&store, pod("web/api", 3));
    assert_eq!(gone.await.unwrap(), "2");
}
