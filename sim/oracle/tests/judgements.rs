//! Tests of the oracle: what it accepts, and which broken promise it reports.
#![allow(clippy::unwrap_used, reason = "helpers outside of test functions unwrap, too")]

use kube_informer_oracle::{
    Controller, History, Leadership, Listener, Reader, Seen, Selection, check_current, check_index,
    check_state,
};
use serde_json::{Value, json};

/// An object by uid and version: `a1` is `blue/a` at version 1 with the uid `a`. The name is the uid's first letter.
fn object(text: &str) -> Value {
    let (uid, version) = text.split_at(text.find(|char: char| char.is_ascii_digit()).unwrap());
    named(uid, &uid[..1], version.parse().unwrap())
}

fn named(uid: &str, name: &str, version: u64) -> Value {
    let labels = json!({"team": if version % 10 == 9 { "y" } else { "x" }});
    let version = version.to_string();
    json!({
        "metadata": {"namespace": "blue", "name": name, "uid": uid, "resourceVersion": version, "labels": labels},
        "data": {"value": version},
    })
}

fn selection() -> Selection {
    let fields = vec!["/data".to_owned()];
    Selection { label: Some(("team".to_owned(), "x".to_owned())), fields, ..Selection::default() }
}

/// a is created at 1 and updated at 3. b is created at 2 and deleted at 4. c is created at 5, deleted at 6 and
/// recreated with another uid at 7. d is created at 8 and leaves the selection at 19.
fn history() -> History {
    let mut history = History::default();
    history.begin_epoch(&[], 0);
    for (event, text) in [
        ("ADDED", "a1"),
        ("ADDED", "b2"),
        ("MODIFIED", "a3"),
        ("DELETED", "b4"),
        ("ADDED", "c5"),
        ("DELETED", "c6"),
        ("ADDED", "cc7"),
        ("ADDED", "d8"),
        ("MODIFIED", "d19"),
    ] {
        history.record(event, &object(text));
    }
    history
}

/// The final state of a deleted object: the version of the deletion, and the content before it.
fn deleted(text: &str, value: &str) -> Value {
    let mut last = object(text);
    last["data"]["value"] = value.into();
    last
}

#[test]
fn events_are_checked_against_the_history() {
    use Seen::{Added, Deleted, Resynced, Synced, Updated, Vanished};
    let o = object;
    for (seen, expected) in [
        (
            vec![
                Added(o("a1")),
                Updated(o("a1"), o("a3")),
                Added(o("b2")),
                Deleted(deleted("b4", "2")),
                Synced,
            ],
            None,
        ),
        (vec![Added(o("c5")), Vanished(o("c5")), Added(o("cc7"))], None),
        (vec![Added(o("a3")), Resynced(o("a3"), o("a3"))], None),
        (vec![Added(o("a2"))], Some("1")),
        (vec![Added(deleted("a1", "other"))], Some("1")),
        (vec![Added(o("d19"))], Some("1")),
        (vec![Added(o("a3")), Updated(o("a3"), o("a1"))], Some("2")),
        (vec![Added(o("a1")), Added(o("a3"))], Some("3")),
        (vec![Updated(o("a1"), o("a3"))], Some("3")),
        (vec![Added(o("c5")), Updated(o("c5"), o("cc7"))], Some("3")),
        (vec![Deleted(deleted("b4", "2"))], Some("3")),
        (vec![Added(o("a1")), Vanished(o("a3"))], Some("3")),
        (vec![Added(o("b2")), Deleted(deleted("b4", "other"))], Some("3")),
        (vec![Added(o("b2")), Deleted(o("b2"))], Some("3")),
        (vec![Added(o("a3")), Updated(o("a1"), o("a3"))], Some("5")),
        (vec![Added(o("a1")), Resynced(o("a1"), o("a3"))], Some("5")),
        (vec![Synced, Synced], Some("9")),
    ] {
        let (mut listener, history) = (Listener::new(selection(), (0, 0)), history());
        let judged = seen.iter().try_for_each(|seen| listener.receive(seen, &history));
        let broken = judged.err();
        let promise = broken.as_deref().and_then(|broken| broken.split(' ').nth(1));
        assert_eq!(promise, expected, "{seen:?}: {broken:?}");
    }
}

#[test]
fn a_sync_without_an_unchanged_object_is_reported() {
    let history = history();
    let mut listener = Listener::new(selection(), (0, 3));
    listener.receive(&Seen::Synced, &history).unwrap_err();
    let mut listener = Listener::new(selection(), (0, 2));
    listener.receive(&Seen::Synced, &history).unwrap();
}

#[test]
fn missing_and_reordered_changes_of_a_watch_are_reported() {
    let history = history();
    let follow = |texts: &[&str]| {
        let mut listener = Listener::new(selection(), (0, 0));
        texts.iter().try_for_each(|text| listener.follow(&object(text), &history))
    };
    follow(&["b2", "a3", "b4", "c5"]).unwrap();
    follow(&["a3", "c5"]).unwrap_err();
    follow(&["a3", "b2"]).unwrap_err();
    follow(&["cc7", "d8", "d19"]).unwrap();
}

#[test]
fn inconsistent_and_regressing_views_are_reported() {
    let history = history();
    let mut reader = Reader::new(selection());
    reader.view("", 2, &[object("a1"), object("b2")], &history).unwrap();
    reader.view("", 3, &[object("a3")], &history).unwrap_err();
    reader.view("", 5, &[object("a3"), object("c5")], &history).unwrap();
    reader.view("", 4, &[object("a3")], &history).unwrap_err();
    check_state(&[object("a3"), object("cc7")], &history, &selection()).unwrap();
    check_state(&[object("a3")], &history, &selection()).unwrap_err();
    check_state(&[object("a3"), object("cc7"), object("b2")], &history, &selection()).unwrap_err();
}

#[test]
fn a_store_behind_a_reported_state_is_reported() {
    let history = history();
    let check = |state: &str, stored: Option<&str>| {
        check_current("4", (&object(state), stored.map(object).as_ref()), &selection(), &history)
    };
    check("a1", Some("a3")).unwrap();
    check("b2", None).unwrap();
    check("a3", Some("a1")).unwrap_err();
    check("a3", None).unwrap_err();
}

#[test]
fn an_index_that_differs_from_its_view_is_reported() {
    let view = [object("a1"), object("d19")];
    check_index("team", "x", &[object("a1")], &view).unwrap();
    check_index("team", "x", &[], &view).unwrap_err();
    check_index("team", "x", &view, &view).unwrap_err();
    check_index("team", "x", &[object("a1"), object("a1")], &view).unwrap_err();
}

#[test]
fn concurrent_reconciles_missed_own_writes_and_wrong_mirrors_are_reported() {
    let history = history();
    let mut controller = Controller::new(selection());
    controller.begins("blue/a", 0, 0, &history).unwrap();
    controller.begins("blue/a", 0, 0, &history).unwrap_err();
    controller.ends("blue/a");
    controller.wrote("blue/a", 30, 1_000);
    controller.begins("blue/a", 29, 500, &history).unwrap_err();
    controller.ends("blue/a");
    controller.wrote("blue/a", 30, 1_000);
    controller.begins("blue/a", 29, 1_000, &history).unwrap();

    let mirror = |text: &str, of: &str| {
        let mut mirror = object(text);
        mirror["metadata"]["annotations"] = json!({ (Controller::VERSION_OF): of });
        mirror
    };
    controller.converged(&[mirror("a30", "3"), mirror("c31", "7")], &history).unwrap();
    controller.converged(&[mirror("a30", "1"), mirror("c31", "7")], &history).unwrap_err();
    controller.converged(&[mirror("a30", "3")], &history).unwrap_err();
    let orphan = mirror("b32", "2");
    controller.converged(&[mirror("a30", "3"), mirror("c31", "7"), orphan], &history).unwrap_err();
}

#[test]
fn two_leaders_and_repeated_tokens_are_reported() {
    let mut leadership = Leadership::default();
    leadership.converged().unwrap_err();
    leadership.begins("one", "t1").unwrap();
    leadership.converged().unwrap();
    leadership.ends("one");
    leadership.begins("two", "t2").unwrap();
    leadership.begins("one", "t3").unwrap_err();
    leadership.ends("one");
    leadership.ends("two");
    leadership.begins("one", "t2").unwrap_err();
}
