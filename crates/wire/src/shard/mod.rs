//! Sharded lists and watches: the hash, slots of equal size, and the parameter `shardSelector` (KEP-5866).
//!
//! A server that supports it returns only objects whose hash is in given ranges. The hash is the 64-bit FNV-1a of the
//! object's uid or namespace. Replicas that divide the objects among themselves divide the hashes into **slots**, and
//! each requests the ranges of its slots:
//!
//! ```
//! use kube_wire::shard::{self, ShardField, ShardSelector};
//!
//! let selector = ShardSelector::from_slots(ShardField::Uid, [1, 2], 4).unwrap();
//! let text = "shardRange(object.metadata.uid, '0x4000000000000000', '0xc000000000000000')";
//! assert_eq!(selector.to_string(), text);
//! assert_eq!(text.parse::<ShardSelector>()?, selector);
//!
//! let uid = "74a3f56c-6561-4c97-a318-2b09ce6e90f6";
//! assert_eq!(selector.selects("shop", uid), [1, 2].contains(&shard::slot(shard::hash(uid), 4)));
//! # Ok::<(), kube_wire::shard::InvalidShardSelector>(())
//! ```

mod parse;

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The field whose hash decides. Neither changes in an object's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShardField {
    /// `object.metadata.uid`: objects are distributed evenly.
    Uid,
    /// `object.metadata.namespace`: a namespace is never divided. Cluster-scoped objects all have the hash of the empty
    /// text.
    ///
    /// The upper bits of the hash depend little on the last two characters. Namespaces that differ only there
    /// (`team-01`, `team-02`) have hashes close to each other, so most of them are in one slot.
    Namespace,
}

/// The ranges of hashes that a list or watch returns: `shardSelector`.
///
/// It prints as a server prints it. A parsed selector keeps its ranges as written, because a server returns them so
/// (`metadata.shardInfo`); a constructed one has sorted ranges without overlaps, and adjacent ones are joined.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShardSelector {
    field: ShardField,
    /// At least one; none is empty. The ends are inclusive, so 2^64 needs no representation.
    ranges: Vec<RangeInclusive<u64>>,
}

/// The text is not a valid shard selector. Prints the message of a kube-apiserver; for a syntax error, only the first
/// words are the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid shard selector: {reason}")]
pub struct InvalidShardSelector {
    reason: String,
}

/// The hash of a field's text: 64-bit FNV-1a.
pub fn hash(text: &str) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    text.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// The slot of a hash among `of` slots; 0 if `of` is 0.
pub fn slot(hash: u64, of: u32) -> u32 {
    let slot = (u128::from(hash) * u128::from(of)) >> 64;
    // Less than `of`, therefore it fits.
    u32::try_from(slot).unwrap_or(u32::MAX)
}

/// The hashes of a slot: the inverse of [`slot`]. `slot` is less than `of`.
fn slot_range(slot: u32, of: u32) -> RangeInclusive<u64> {
    let start = |slot: u128| (slot << 64).div_ceil(u128::from(of));
    let last = start(u128::from(slot) + 1) - 1;
    // Both are less than 2^64.
    let bound = |hash: u128| u64::try_from(hash).unwrap_or(u64::MAX);
    bound(start(u128::from(slot)))..=bound(last)
}

// === impl ShardField ===

impl ShardField {
    /// The path in a selector.
    pub fn path(self) -> &'static str {
        match self {
            Self::Uid => "object.metadata.uid",
            Self::Namespace => "object.metadata.namespace",
        }
    }

    fn from_path(path: &str) -> Option<Self> {
        [Self::Uid, Self::Namespace].into_iter().find(|field| field.path() == path)
    }
}

impl fmt::Display for ShardField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())
    }
}

// === impl ShardSelector ===

impl ShardSelector {
    /// Selects the hashes in these ranges; `None` if they contain none.
    pub fn new(field: ShardField, ranges: impl IntoIterator<Item = RangeInclusive<u64>>) -> Option<Self> {
        let mut sorted: Vec<_> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        sorted.sort_by_key(|range| *range.start());
        let mut joined: Vec<RangeInclusive<u64>> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match joined.last_mut() {
                Some(last) if *range.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => joined.push(range),
            }
        }
        (!joined.is_empty()).then_some(Self { field, ranges: joined })
    }

    /// Selects the hashes of these [slots](slot); `None` without slots. Numbers of `of` or more are ignored.
    pub fn from_slots(field: ShardField, slots: impl IntoIterator<Item = u32>, of: u32) -> Option<Self> {
        let slots = slots.into_iter().filter(|slot| *slot < of);
        Self::new(field, slots.map(|slot| slot_range(slot, of)))
    }

    /// The field whose hash decides.
    pub fn field(&self) -> ShardField {
        self.field
    }

    /// The selected hashes, with inclusive ends.
    pub fn ranges(&self) -> &[RangeInclusive<u64>] {
        &self.ranges
    }

    /// Whether the [`hash`] of the field is selected.
    pub fn matches(&self, hash: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(&hash))
    }

    /// Whether an object is selected. The namespace of a cluster-scoped object is empty.
    pub fn selects(&self, namespace: &str, uid: &str) -> bool {
        self.matches(hash(match self.field {
            ShardField::Uid => uid,
            ShardField::Namespace => namespace,
        }))
    }
}

impl fmt::Display for ShardSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, range) in self.ranges.iter().enumerate() {
            let or = if at > 0 { " || " } else { "" };
            let (start, end) = (range.start(), u128::from(*range.end()) + 1);
            write!(f, "{or}shardRange({}, '0x{start:016x}', '0x{end:016x}')", self.field)?;
        }
        Ok(())
    }
}

impl FromStr for ShardSelector {
    type Err = InvalidShardSelector;

    fn from_str(text: &str) -> Result<Self, InvalidShardSelector> {
        parse::selector(text).map_err(|reason| InvalidShardSelector { reason })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges() -> impl Strategy<Value = Vec<RangeInclusive<u64>>> {
        let bound = prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), 0..20u64];
        let range = (bound.clone(), bound).prop_map(|(a, b)| a.min(b)..=a.max(b));
        prop::collection::vec(range, 1..8)
    }

    fn field() -> impl Strategy<Value = ShardField> {
        prop_oneof![Just(ShardField::Uid), Just(ShardField::Namespace)]
    }

    proptest! {
        #[test]
        fn a_selector_is_read_as_printed(field in field(), ranges in ranges()) {
            let joined = ShardSelector::new(field, ranges.clone()).unwrap();
            let written = ShardSelector { field, ranges };
            for selector in [joined, written] {
                prop_assert_eq!(selector.to_string().parse::<ShardSelector>(), Ok(selector));
            }
        }

        #[test]
        fn joining_ranges_selects_the_same_hashes(ranges in ranges(), hash in any::<u64>()) {
            let joined = ShardSelector::new(ShardField::Uid, ranges.clone()).unwrap();
            prop_assert!(joined.ranges.windows(2).all(|pair| pair[0].end() + 1 < *pair[1].start()));
            let bounds = ranges.iter().flat_map(|range| [*range.start(), *range.end()]);
            for near in bounds.chain([hash]) {
                for hash in [near.wrapping_sub(1), near, near.wrapping_add(1)] {
                    prop_assert_eq!(joined.matches(hash), ranges.iter().any(|range| range.contains(&hash)));
                }
            }
        }

        #[test]
        fn each_hash_is_in_exactly_one_slot(hash in any::<u64>(), of in 1..200u32) {
            let selects = |slot| ShardSelector::from_slots(ShardField::Uid, [slot], of).unwrap().matches(hash);
            let slots: Vec<u32> = (0..of).filter(|slot| selects(*slot)).collect();
            prop_assert_eq!(slots, [slot(hash, of)]);
        }

        #[test]
        fn slots_adjoin_and_cover_all_hashes(of in 1..=u32::MAX, at in any::<prop::sample::Index>()) {
            let at = u32::try_from(at.index(of as usize)).unwrap();
            let range = slot_range(at, of);
            prop_assert_eq!((slot(*range.start(), of), slot(*range.end(), of)), (at, at));
            match at + 1 == of {
                true => prop_assert_eq!(*range.end(), u64::MAX),
                false => prop_assert_eq!(range.end() + 1, *slot_range(at + 1, of).start()),
            }
        }

        #[test]
        fn no_text_panics(text in "(shardRange|object|[.]|[(),|&=!' ]|metadata|uid|0x|[0-9a-f]{16}|\\PC){0,40}") {
            let _ = text.parse::<ShardSelector>();
        }
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn adjacent_slots_are_joined() {
        let slots = |slots: &[u32], of| {
            ShardSelector::from_slots(ShardField::Namespace, slots.iter().copied(), of).map(|s| s.to_string())
        };
        let all = "shardRange(object.metadata.namespace, '0x0000000000000000', '0x10000000000000000')";
        assert_eq!(slots(&[2, 0, 1], 3).unwrap(), all);
        assert_eq!(
            slots(&[3, 0, 1, 0], 4).unwrap(),
            "shardRange(object.metadata.namespace, '0x0000000000000000', '0x8000000000000000') || \
             shardRange(object.metadata.namespace, '0xc000000000000000', '0x10000000000000000')"
        );
        assert_eq!(slots(&[], 4), None);
        assert_eq!(slots(&[4], 4), None);
        assert_eq!(slots(&[0], 0), None);
        assert_eq!(slot(u64::MAX, 0), 0);
    }

    #[test]
    fn namespaces_with_a_common_prefix_are_close_to_each_other() {
        let slots = |names: &dyn Fn(u32) -> String| {
            let slots = (0..100).map(|n| slot(hash(&names(n)), 64));
            slots.collect::<std::collections::BTreeSet<u32>>().len()
        };
        assert!(slots(&|n| format!("team-{n:02}")) <= 2);
        assert!(slots(&|n| format!("{n:02}-team")) > 40);
    }

    #[test]
    fn white_space_is_free_and_ranges_stay_as_written() {
        let text = " shardRange( object.metadata.uid,'0x8000000000000000' ,\t\"0x9000000000000000\" )||(shardRange(\
                    object . metadata.uid, '0x0000000000000000', '0x8000000000000000') ) ";
        let selector: ShardSelector = text.parse().unwrap();
        let printed = "shardRange(object.metadata.uid, '0x8000000000000000', '0x9000000000000000') || \
                       shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
        assert_eq!(selector.to_string(), printed);
        assert_eq!(selector.ranges().len(), 2);
    }

    #[test]
    fn errors_have_the_words_of_a_kube_apiserver() {
        let (uid, all) = ("object.metadata.uid", "'0x0000000000000000', '0x10000000000000000'");
        let kind = |kind: u8| {
            format!("unexpected expression kind {kind}; expected shardRange() call or || operator")
        };
        let function =
            |name: &str| format!("unsupported function {name:?}; only shardRange() and || are allowed");
        let path = |kind: u8| {
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind "
                .to_owned()
                + &kind.to_string()
        };
        let ok = format!("shardRange({uid}, {all})");
        let short = "hexStart must be a 0x-prefixed 16-digit hex value, got \"0x1\" (did you mean \
                     \"0x0000000000000001\"?)";
        let long = "hexEnd: hex value too long (18 chars, max 17): \"000000000000000000\"";
        let above =
            "hexEnd: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x20000000000000000\"";
        let start = "'0x0000000000000000'";
        for (text, reason) in [
            (
                String::new(),
                "empty shard selector is not allowed; omit the parameter for unfiltered lists".into(),
            ),
            ("nonsense".into(), kind(3)),
            ("a.b".into(), kind(7)),
            ("'a'".into(), kind(5)),
            ("invalid(a)".into(), function("invalid")),
            (format!("{ok} && {ok}"), function("_&&_")),
            (format!("{ok} || {ok} && {ok}"), function("_&&_")),
            (format!("{ok} == {ok}"), function("_==_")),
            (format!("!{ok}"), function("!_")),
            ("shardRange()".into(), "shardRange() requires exactly 3 arguments, got 0".into()),
            (format!("shardRange({uid}, '0x1')"), "shardRange() requires exactly 3 arguments, got 2".into()),
            (format!("shardRange('{uid}', {all})"), path(5)),
            (format!("shardRange(f(), {all})"), path(1)),
            (format!("shardRange(f().uid, {all})"), path(1)),
            (
                format!("shardRange(uid, {all})"),
                "unsupported field path \"uid\"; supported: object.metadata.uid, object.metadata.namespace"
                    .into(),
            ),
            (format!("shardRange({uid}, 0, 8)"), "hexStart must be a string literal, got int64".into()),
            (format!("shardRange({uid}, 1u, 8)"), "hexStart must be a string literal, got uint64".into()),
            (format!("shardRange({uid}, 1.5, 8)"), "hexStart must be a string literal, got float64".into()),
            (format!("shardRange({uid}, true, 8)"), "hexStart must be a string literal, got bool".into()),
            (
                format!("shardRange({uid}, {start}, x)"),
                "hexEnd must be a string literal (e.g. '0xff'), got expression kind 3".into(),
            ),
            (format!("shardRange({uid}, '1', '0x1')"), "hexStart must have '0x' prefix, got \"1\"".into()),
            (format!("shardRange({uid}, '0x', '0x1')"), "hexStart: hex value is required after '0x'".into()),
            (format!("shardRange({uid}, '0x1', '0x2')"), short.into()),
            (format!("shardRange({uid}, {start}, '0x000000000000000000')"), long.into()),
            (format!("shardRange({uid}, {start}, '0x20000000000000000')"), above.into()),
            (
                format!("shardRange({uid}, {start}, '0xA000000000000000')"),
                "hexEnd: invalid hex character \"A\" in \"0xA000000000000000\"".into(),
            ),
            (
                format!("shardRange({uid}, '0x10000000000000000', '0x10000000000000000')"),
                "shard range start 0x10000000000000000 must be less than end 0x10000000000000000".into(),
            ),
        ] {
            let error = text.parse::<ShardSelector>().unwrap_err();
            assert_eq!(error.to_string(), format!("invalid shard selector: {reason}"), "{text}");
        }
    }

    #[test]
    fn syntax_errors_name_the_position() {
        for (text, reason) in [
            ("shardRange(", "unexpected end of text"),
            ("shardRange(a b)", "unexpected \"b)\" at byte 13"),
            ("a ||", "unexpected end of text"),
            ("a 'x", "unexpected \"'x\" at byte 2"),
            ("a.", "unexpected end of text"),
            ("(a", "unexpected end of text"),
            ("ä", "unexpected \"ä\" at byte 0"),
        ] {
            let error = text.parse::<ShardSelector>().unwrap_err().to_string();
            assert_eq!(error, format!("invalid shard selector: CEL parse error: Syntax error: {reason}"));
        }
        let deep = "(".repeat(100_000);
        let error = deep.parse::<ShardSelector>().unwrap_err().to_string();
        assert!(error.ends_with("expression recursion limit exceeded: 250"), "{error}");
        let long = format!("a{}", ".a".repeat(100_000));
        assert!(long.parse::<ShardSelector>().unwrap_err().to_string().contains("kind 7"));
        assert!("!".repeat(100_000).parse::<ShardSelector>().is_err());
    }
}
