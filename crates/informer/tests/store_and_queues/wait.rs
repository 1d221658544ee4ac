//! Waiting for a write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use kube_informer::Key;
use kube_informer::StoredObject;
use tokio::task::yield_now;

use super::support::*;

fn key() -> Key {
    "web/api".parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_write_is_seen_when_its_object_has_reached_the_version() {
    let store = Arc::new(new_store());
    put(&store, pod("web/api", 5));
    assert!(store.wait_for(A, &key(), "5").now_or_never().is_some(), "no wait for a stored version");
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
async fn a_write_is_seen_when_the_scope_has_reached_the_version() {
    let store = Arc::new(new_store());
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.wait_for(A, &key(), "8").await }
    });
    yield_now().await;
    apply(&store, [bookmark(B, "100")]);
    yield_now().await;
    assert!(!waiting.is_finished(), "another scope does not count");
    apply(&store, [bookmark(A, "8")]);
    assert_eq!(
        waiting.await.unwrap().map(|object| object.is_some()),
        Ok(false),
        "it was deleted, or is not selected"
    );
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_when_the_server_regresses() {
    let store = Arc::new(new_store());
    replace(&store, A, vec![pod("web/api", 5)], "10");
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.wait_for(A, &key(), "12").await }
    });
    yield_now().await;
    replace(&store, A, vec![pod("web/api", 3)], "4");
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!((error.key.clone(), error.resource_version.as_str()), (key(), "12"));
    assert!(error.to_string().contains("12 of `web/api`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_object_state_or_deletion_can_be_awaited() {
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

#[tokio::test(start_paused = true)]
async fn promise_11_a_commit_wakes_only_the_callers_it_concerns() {
    let store = Arc::new(new_store());
    put(&store, pod("web/api", 1));
    let (waiting, for_polls) = counted({
        let store = store.clone();
        async move { store.wait_for(A, &key(), "500").await }
    });
    let waiting = tokio::spawn(waiting);
    let checks = Arc::<AtomicUsize>::default();
    let (until, until_polls) = counted({
        let (store, checks) = (store.clone(), checks.clone());
        async move {
            let is_wanted = |object: Option<&StoredObject>| {
                checks.fetch_add(1, Ordering::Relaxed);
                object.filter(|object| object.resource_version() == "300").map(drop)
            };
            store.wait_until(&key(), is_wanted).await;
        }
    });
    let until = tokio::spawn(until);
    yield_now().await;
    // Changes of other objects, and of other scopes.
    for version in 2..200 {
        put(&store, pod(&format!("web/other-{version}"), version));
        apply(&store, [bookmark(B, "1000")]);
        yield_now().await;
    }
    let polls = || (for_polls.load(Ordering::Relaxed), until_polls.load(Ordering::Relaxed));
    assert_eq!((polls(), checks.load(Ordering::Relaxed)), ((1, 1), 1), "no waiter was woken");
    put(&store, pod("web/api", 300));
    until.await.unwrap();
    assert_eq!((polls(), checks.load(Ordering::Relaxed)), ((2, 2), 2), "both waiters check their object");
    apply(&store, [bookmark(A, "499")]);
    yield_now().await;
    assert_eq!(polls().0, 2, "the scope has not reached the version yet");
    apply(&store, [bookmark(A, "500")]);
    assert_eq!(waiting.await.unwrap().unwrap().unwrap().resource_version(), "300");
}

#[tokio::test(start_paused = true)]
async fn a_condition_is_checked_once_per_state_for_any_commit_size() {
    let store = Arc::new(new_store());
    replace(&store, A, vec![pod("web/api", 1)], "10");
    let checks = Arc::<AtomicUsize>::default();
    let (until, polled) = counted({
        let (store, checks) = (store.clone(), checks.clone());
        async move {
            let is_gone = |object: Option<&StoredObject>| {
                checks.fetch_add(1, Ordering::Relaxed);
                object.is_none().then_some(())
            };
            store.wait_until(&key(), is_gone).await;
        }
    });
    let until = tokio::spawn(until);
    yield_now().await;
    for round in 0..3_u64 {
        let others = (0..2_000).map(|number| pod(&format!("web/other-{number}"), 20 + round));
        replace(&store, A, others.chain([pod("web/api", 1)]).collect(), &(20 + round).to_string());
        yield_now().await;
    }
    assert_eq!(checks.load(Ordering::Relaxed), 1);
    assert!(polled.load(Ordering::Relaxed) <= 4);
    replace(&store, A, vec![], "30");
    until.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn callers_that_never_wait_let_other_tasks_run() {
    let store = new_store();
    put(&store, pod("web/api", 5));
    let turns = Arc::<AtomicUsize>::default();
    let count = turns.clone();
    let bystander = tokio::spawn(async move {
        loop {
            count.fetch_add(1, Ordering::Relaxed);
            yield_now().await;
        }
    });
    for _ in 0..2_000 {
        store.wait_for(A, &key(), "5").await.unwrap();
    }
    assert!(turns.load(Ordering::Relaxed) >= 10, "{turns:?} turns");
    bystander.abort();
}
