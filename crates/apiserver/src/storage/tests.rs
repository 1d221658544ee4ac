//! History, buffers and watches of a collection.

use super::*;

fn storage(history: usize, buffer: usize) -> (Storage, CollectionId) {
    let window = Window {
        history_events_max: history,
        history_bytes_max: usize::MAX,
        watch_buffer_events_max: buffer,
        watch_buffer_bytes_max: usize::MAX,
    };
    let storage = Storage::new(window);
    let id = storage.open();
    (storage, id)
}

fn draft(text: &str) -> Draft {
    Draft { bytes: text.as_bytes().into(), attributes: Attributes::default() }
}

fn put(storage: &Storage, id: CollectionId, key: &str, text: &str) -> u64 {
    let expect = storage.get(id, key).map_or(Expect::Absent, |object| Expect::Revision(object.revision));
    storage.commit(id, key, expect, WriteKind::Put, |_| draft(text)).unwrap().revision
}

fn delete(storage: &Storage, id: CollectionId, key: &str) -> u64 {
    let expect = Expect::Revision(storage.get(id, key).unwrap().revision);
    storage.commit(id, key, expect, WriteKind::Delete, |_| draft("gone")).unwrap().revision
}

fn texts(page: &Page) -> Vec<String> {
    page.objects.iter().map(|object| String::from_utf8(object.bytes.to_vec()).unwrap()).collect()
}

fn all(at: Option<u64>) -> ListQuery<'static> {
    ListQuery { prefix: "", start: "", limit: 0, at, filter: None, counted: true }
}

#[test]
fn all_collections_share_one_revision_counter() {
    let (storage, a) = storage(10, 10);
    let b = storage.open();
    assert_eq!(
        [put(&storage, a, "x", "1"), put(&storage, b, "x", "2"), put(&storage, a, "x", "3")],
        [2, 3, 4]
    );
    assert_eq!((storage.revision(a), storage.revision(b)), (4, 4));
}

#[test]
fn a_write_for_another_state_is_rejected_and_changes_nothing() {
    let (storage, id) = storage(10, 10);
    let revision = put(&storage, id, "x", "1");
    for expect in [Expect::Absent, Expect::Revision(revision + 1)] {
        assert_eq!(storage.commit(id, "x", expect, WriteKind::Put, |_| draft("2")).unwrap_err(), Mismatch);
    }
    assert_eq!(storage.revision(id), revision);
}

#[test]
fn lists_at_an_exact_revision_are_read_from_history() {
    let (storage, id) = storage(10, 10);
    let first = put(&storage, id, "b", "b1");
    let second = put(&storage, id, "a", "a1");
    let third = put(&storage, id, "b", "b2");
    let fourth = delete(&storage, id, "a");
    let fifth = put(&storage, id, "a", "a2");
    let at = |revision| texts(&storage.list(id, &all(Some(revision))).unwrap());
    assert_eq!(at(1), Vec::<String>::new());
    assert_eq!(at(first), ["b1"]);
    assert_eq!(at(second), ["a1", "b1"]);
    assert_eq!(at(third), ["a1", "b2"]);
    assert_eq!(at(fourth), ["b2"]);
    assert_eq!(at(fifth), ["a2", "b2"]);
}

#[test]
fn pages_show_one_revision_during_writes() {
    let (storage, id) = storage(100, 10);
    for at in 0..5 {
        put(&storage, id, &format!("ns/{at}"), &format!("{at}"));
    }
    put(&storage, id, "other/0", "no");
    let query = ListQuery { prefix: "ns/", start: "", limit: 2, at: None, filter: None, counted: true };
    let first = storage.list(id, &query).unwrap();
    assert_eq!((texts(&first), first.remaining), (vec!["0".to_owned(), "1".to_owned()], Some(3)));
    delete(&storage, id, "ns/2");
    put(&storage, id, "ns/25", "new");
    let token = ContinueToken::after(&first.more_after.unwrap(), "ns/", first.revision);
    let start = token.start_key("ns/");
    let query =
        ListQuery { prefix: "ns/", start: &start, limit: 2, at: token.revision, filter: None, counted: true };
    // The second time there is no cached count, and the result is the same.
    for _ in 0..2 {
        let second = storage.list(id, &query).unwrap();
        assert_eq!((texts(&second), second.remaining), (vec!["2".to_owned(), "3".to_owned()], Some(1)));
    }
}

#[test]
fn the_window_expires_lists_and_new_watches_but_not_open_ones() {
    let (storage, id) = storage(2, 10);
    let mut cursor = storage.watch(id, 1).unwrap();
    let revisions: Vec<u64> = (0..4).map(|at| put(&storage, id, "x", &format!("{at}"))).collect();
    assert_eq!(storage.watch(id, revisions[0]).unwrap_err(), Compacted { oldest: revisions[1] });
    assert_eq!(storage.list(id, &all(Some(revisions[0]))).unwrap_err(), Compacted { oldest: revisions[1] });
    assert!(storage.watch(id, revisions[1]).is_ok());
    let mut events = Vec::new();
    assert_eq!(storage.read(&mut cursor, 100, &mut events), Ok(revisions[3]));
    assert_eq!(events.iter().map(|event| event.revision).collect::<Vec<_>>(), revisions);
}

#[test]
fn a_reader_beyond_its_buffer_lags() {
    let (storage, id) = storage(100, 3);
    let mut cursor = storage.watch(id, 1).unwrap();
    for at in 0..4 {
        put(&storage, id, "x", &format!("{at}"));
    }
    assert_eq!(storage.read(&mut cursor, 100, &mut Vec::new()), Err(Lagged));
}

#[test]
fn compaction_keeps_the_current_state_listable() {
    let (storage, id) = storage(100, 100);
    put(&storage, id, "x", "1");
    let last = put(&storage, id, "x", "2");
    storage.compact(u64::MAX);
    assert_eq!(storage.watch(id, last - 1).unwrap_err(), Compacted { oldest: last });
    assert_eq!(texts(&storage.list(id, &all(Some(last))).unwrap()), ["2"]);
    assert!(storage.watch(id, last).is_ok());
}

#[test]
fn a_watch_from_the_future_receives_nothing_before_its_revision() {
    let (storage, id) = storage(100, 100);
    let mut cursor = storage.watch(id, 3).unwrap();
    let revisions: Vec<u64> = (0..4).map(|at| put(&storage, id, "x", &format!("{at}"))).collect();
    let mut events = Vec::new();
    storage.read(&mut cursor, 100, &mut events).unwrap();
    assert_eq!(events.iter().map(|event| event.revision).collect::<Vec<_>>(), revisions[2..]);
}

#[test]
fn a_fed_collection_has_its_own_revision() {
    let (storage, fed) = storage(10, 10);
    let other = storage.open();
    storage.feed(fed, "x", WriteKind::Put, 100, draft("1")).unwrap();
    put(&storage, other, "y", "1");
    assert_eq!((storage.revision(fed), storage.revision(other)), (100, 101));
    let refused = storage.feed(fed, "x", WriteKind::Put, 100, draft("2"));
    assert_eq!(refused, Err(OutOfOrder { given: 100, last: 100 }));
    storage.feed_bookmark(fed, 150).unwrap();
    assert_eq!(storage.revision(fed), 150);
}

#[test]
fn a_restart_loses_history_and_may_restore_a_snapshot() {
    let (storage, id) = storage(10, 10);
    let first = put(&storage, id, "x", "1");
    let backup = storage.snapshot();
    put(&storage, id, "x", "2");
    let mut cursor = storage.watch(id, first).unwrap();
    storage.restart(Some(&backup));
    assert_eq!(storage.read(&mut cursor, 10, &mut Vec::new()), Err(Lagged));
    assert_eq!(storage.revision(id), first);
    assert_eq!(texts(&storage.list(id, &all(None)).unwrap()), ["1"]);
    assert_eq!(storage.watch(id, first - 1).unwrap_err(), Compacted { oldest: first });
}

#[test]
fn dependents_are_found_by_their_owners_uid() {
    let (storage, id) = storage(10, 10);
    let mut attributes = Attributes::builder();
    attributes.owner("owner-1");
    let draft = Draft { bytes: Box::default(), attributes: attributes.finish() };
    storage.commit(id, "ns/child", Expect::Absent, WriteKind::Put, |_| draft).unwrap();
    let found = storage.dependents("owner-1");
    assert_eq!(found, [Dependent { collection: id, key: "ns/child".into() }]);
    put(&storage, id, "ns/child", "no owner any more");
    assert_eq!(storage.dependents("owner-1"), []);
}
