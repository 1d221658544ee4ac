//! Label, field and shard selectors: parsed from user input and from requests, matched and printed.
#![no_main]

use kube_wire::shard::ShardSelector;
use kube_wire::{FieldSelector, LabelSelector};
use libfuzzer_sys::fuzz_target;

const LABELS: [(&str, &str); 4] =
    [("a", "b"), ("tier", "backend"), ("example.com/size", "10"), ("empty", "")];

fuzz_target!(|text: &str| {
    match text.parse::<LabelSelector>() {
        Ok(selector) => {
            selector.matches(LABELS);
            assert!(!selector.is_empty() || selector.matches([]));
        }
        Err(error) => assert!(!error.to_string().is_empty() && !error.kubernetes_message().is_empty()),
    }
    for parsed in [text.parse::<FieldSelector>(), FieldSelector::from_request(text)] {
        match parsed {
            Ok(selector) => {
                let printed = selector.to_string();
                assert_eq!(FieldSelector::from_request(&printed).as_ref(), Ok(&selector), "{printed:?}");
                selector.may_select("default", "web");
                selector.matches_by(|path| if path == "spec.nodeName" { "node-7" } else { "" });
            }
            Err(error) => assert!(!error.to_string().is_empty() && !error.kubernetes_message().is_empty()),
        }
    }
    match text.parse::<ShardSelector>() {
        Ok(selector) => {
            let printed = selector.to_string();
            assert_eq!(printed.parse::<ShardSelector>().as_ref(), Ok(&selector), "{printed:?}");
            let selected = |hash: u64| selector.ranges().iter().any(|range| range.contains(&hash));
            let bounds = selector.ranges().iter().flat_map(|range| [*range.start(), *range.end()]);
            for hash in bounds.flat_map(|bound| [bound.wrapping_sub(1), bound, bound.wrapping_add(1)]) {
                assert_eq!(selector.matches(hash), selected(hash), "{printed:?} at {hash:#x}");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
