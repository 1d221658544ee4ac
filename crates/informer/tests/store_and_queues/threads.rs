//! Readers and the writer on separate threads: every read is consistent.

use std::sync::atomic::{AtomicBool, Ordering};

use kube_informer::Index;
use kube_informer::StoredObject;
use kube_informer::building_blocks::Delta;
use kube_informer::building_blocks::Store;
use serde_json::json;

use super::support::*;

#[test]
fn promise_8_no_reader_ever_sees_half_a_batch() {
    const OBJECTS: usize = 40;
    let store = Store::new(config().index(Index::label("round", "round"))).unwrap();
    let round = |number: u64| {
        let object = move |at: usize| {
            let label = json!({"metadata": {"labels": {"round": number.to_string()}}});
            stored(pod_with(&format!("ns/{at}"), number, &label))
        };
        (0..OBJECTS).map(object).collect::<Vec<StoredObject>>()
    };
    apply(&store, round(1).iter().cloned().map(Delta::Updated));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let snapshot = store.snapshot();
                    let version = snapshot.resource_version(A).to_owned();
                    assert!(snapshot.iter().all(|object| object.resource_version() == version));
                    assert_eq!(snapshot.by_index("round", &version).unwrap().count(), OBJECTS);
                    assert_eq!(snapshot.index_values("round").unwrap().count(), 1);
                    let one =
                        store.get(&Key::new("ns", "7")).unwrap().resource_version().parse::<u64>().unwrap();
                    let version = version.parse::<u64>().unwrap();
                    assert!(last <= version && version <= one, "never back");
                    last = one;
                }
            });
        }
        for number in 2..400 {
            apply(&store, round(number).iter().cloned().map(Delta::Updated));
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(store.resource_version(A), "399");
}
