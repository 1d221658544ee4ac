//! Tests of the oracle: what it accepts, and which broken promise it reports.
#![allow(clippy::unwrap_used, reason = "helpers outside of test functions unwrap, too")]

use kube_informer_oracle::{
    Controller, History, Leadership, Listener, Reader, Seen, Selection, Trust, check_current, check_index,
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
    let (mut reader, trust) = (Reader::new(selection()), Trust::default());
    reader.view(("", 2), &[object("a1"), object("b2")], &trust, &history).unwrap();
    reader.view(("", 3), &[object("a3")], &trust, &history).unwrap_err();
    reader.view(("", 5), &[object("a3"), object("c5")], &trust, &history).unwrap();
    reader.view(("", 4), &[object("a3")], &trust, &history).unwrap_err();
    let check = |objects: &[Value]| check_state(objects, &selection(), &trust, &history);
    assert!(check(&[object("a3"), object("cc7")]).unwrap().is_empty());
    check(&[object("a3")]).unwrap_err();
    check(&[object("a3"), object("cc7"), object("b2")]).unwrap_err();
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
    // The mirror b, written at 2, was deleted at 4 by another client.
    controller.wrote("blue/b", 2, 1_000);
    controller.begins("blue/b", 0, 500, &history).unwrap();

    let mirror = |text: &str, of: &str| {
        let mut mirror = object(text);
        mirror["metadata"]["annotations"] = json!({ (Controller::VERSION_OF): of });
        mirror
    };
    let converged = |mirrors: &[Value], excused: &[&str]| {
        let excused = excused.iter().map(|key| (*key).to_owned()).collect();
        controller.converged(mirrors, &excused, &history)
    };
    converged(&[mirror("a30", "3"), mirror("c31", "7")], &[]).unwrap();
    converged(&[mirror("a30", "1"), mirror("c31", "7")], &[]).unwrap_err();
    converged(&[mirror("a30", "3")], &[]).unwrap_err();
    converged(&[mirror("a30", "3"), mirror("c31", "7"), mirror("b32", "2")], &[]).unwrap_err();
    converged(&[mirror("a30", "1"), mirror("c31", "7")], &["blue/a"]).unwrap();
    converged(&[mirror("a30", "1"), mirror("c31", "6")], &["blue/a"]).unwrap_err();
}

/// Adds the controller's finalizer to an object.
fn kept(text: &str) -> Value {
    let mut object = object(text);
    object["metadata"]["finalizers"] = json!([Controller::FINALIZER]);
    object
}

#[test]
fn missing_late_and_repeated_cleanups_are_reported() {
    let mut history = History::default();
    history.begin_epoch(&[kept("a1"), kept("b2")], 2);
    let controller = || Controller::new(selection());
    controller().applies(&kept("a1"), &history).unwrap();
    controller().applies(&object("a1"), &history).unwrap_err();

    let mut once = controller();
    once.cleans_up(&kept("a1"), &history).unwrap();
    once.cleans_up(&kept("a1"), &history).unwrap_err();
    let mut restarted = controller();
    restarted.cleans_up(&kept("a1"), &history).unwrap();
    restarted.starts();
    restarted.cleans_up(&kept("a1"), &history).unwrap();
    let mut applied_again = controller();
    applied_again.cleans_up(&kept("a1"), &history).unwrap();
    applied_again.applies(&kept("a1"), &history).unwrap();
    let mut outdated = controller();
    outdated.cleans_up(&kept("a1"), &history).unwrap();

    history.record("MODIFIED", &object("a3"));
    outdated.starts();
    outdated.applies(&kept("a1"), &history).unwrap();
    outdated.cleans_up(&kept("b2"), &history).unwrap();
    history.record("DELETED", &kept("b4"));
    restarted.cleans_up(&kept("b2"), &history).unwrap_err();
    applied_again.cleans_up(&kept("b2"), &history).unwrap_err();
    controller().cleans_up(&kept("a1"), &history).unwrap_err();
}

#[test]
fn a_restore_that_an_informer_must_notice_excuses_nothing() {
    // Both epochs have a and b. The first one deletes b at 4; the second one changes b at 4, and creates c at 5.
    let mut history = History::default();
    history.begin_epoch(&[object("a3"), object("b2")], 3);
    history.record("DELETED", &object("b4"));
    history.record("BOOKMARK", &object("x6"));
    let resume = |lists: bool, history: &mut History| {
        let mut trust = Trust::default();
        history.begin_epoch(&[object("a3"), object("b2")], 3);
        history.record("MODIFIED", &object("b4"));
        history.record("ADDED", &object("c5"));
        if lists {
            trust.listed("", history);
        }
        trust.resumed("", Some(6), &selection(), history)
    };
    // The informer has received the deletion of b, which the server contradicts: it must notice.
    assert!(resume(false, &mut history).is_empty());
    // It has listed in the new epoch.
    assert!(resume(true, &mut history).is_empty());
}

#[test]
fn an_excuse_covers_one_state_until_the_key_changes() {
    let mut history = History::default();
    history.begin_epoch(&[object("a3"), object("b2")], 3);
    history.record("DELETED", &object("b4"));
    let mut trust = Trust::default();
    // Only the list shows that b is gone.
    trust.listed("", &history);
    history.begin_epoch(&[object("a3"), object("b2")], 3);
    history.record("MODIFIED", &object("b4"));
    history.record("ADDED", &object("c5"));
    let check = |objects: &[Value], trust: &Trust, history: &History| {
        check_state(objects, &selection(), trust, history).map(|keys| keys.into_iter().collect::<Vec<_>>())
    };
    check(&[object("a3")], &trust, &history).unwrap_err();
    let excused = trust.resumed("", Some(6), &selection(), &history);
    assert_eq!(excused.into_iter().collect::<Vec<_>>(), ["blue/b", "blue/c"]);
    assert_eq!(check(&[object("a3")], &trust, &history).unwrap(), ["blue/b", "blue/c"]);
    assert_eq!(check(&[object("a3"), object("c5")], &trust, &history).unwrap(), ["blue/b"]);
    check(&[object("a3"), object("b2")], &trust, &history).unwrap_err();
    check(&[object("c5")], &trust, &history).unwrap_err();
    history.record("MODIFIED", &object("b7"));
    check(&[object("a3")], &trust, &history).unwrap_err();
    assert_eq!(check(&[object("a3"), object("b7")], &trust, &history).unwrap(), ["blue/c"]);
}

#[test]
fn a_resume_excuses_what_differs_when_the_server_reaches_its_version() {
    let mut history = History::default();
    history.begin_epoch(&[object("a3")], 3);
    history.record("BOOKMARK", &object("x6"));
    let mut trust = Trust::default();
    trust.listed("", &history);
    history.begin_epoch(&[object("a3")], 3);
    assert!(trust.resumed("", Some(6), &selection(), &history).is_empty());
    history.record("ADDED", &object("c5"));
    history.record("BOOKMARK", &object("x6"));
    // The informer verifies a in its namespace.
    let excused = trust.resumed("blue", Some(6), &selection(), &history);
    assert_eq!(excused.into_iter().collect::<Vec<_>>(), ["blue/c"]);
    check_state(&[object("a3")], &selection(), &trust, &history).unwrap();
}

#[test]
fn a_list_whose_pages_are_of_two_epochs_excuses_what_differs() {
    let mut history = History::default();
    history.begin_epoch(&[object("a3"), object("b4")], 4);
    let mut trust = Trust::default();
    trust.listed("", &history);
    history.begin_epoch(&[object("b2")], 3);
    history.record("ADDED", &object("c4"));
    let excused = trust.resumed("", None, &selection(), &history);
    assert_eq!(excused.into_iter().collect::<Vec<_>>(), ["blue/a", "blue/b", "blue/c"]);
    check_state(&[object("a3"), object("b2"), object("c4")], &selection(), &trust, &history).unwrap();
    check_state(&[object("b3"), object("c4")], &selection(), &trust, &history).unwrap_err();
}

#[test]
fn an_excuse_outlasts_changes_outside_of_the_selection() {
    let mut history = History::default();
    history.begin_epoch(&[object("a3"), object("b2")], 3);
    history.record("BOOKMARK", &object("x10"));
    let mut trust = Trust::default();
    trust.listed("", &history);
    history.begin_epoch(&[object("a3"), object("b2")], 3);
    // b leaves the selection, and is deleted. A watch that resumes at 10 reports neither.
    history.record("MODIFIED", &object("b9"));
    history.record("BOOKMARK", &object("x10"));
    let excused = trust.resumed("", Some(10), &selection(), &history);
    assert_eq!(excused.into_iter().collect::<Vec<_>>(), ["blue/b"]);
    let check = |history: &History| check_state(&[object("a3"), object("b2")], &selection(), &trust, history);
    check(&history).unwrap();
    history.record("DELETED", &object("b11"));
    check(&history).unwrap();
    history.record("ADDED", &object("b12"));
    check(&history).unwrap_err();
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
