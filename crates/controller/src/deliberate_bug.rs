//! Bugs that the simulator must find.
//!
//! `cargo xtask sim --bugs` builds with `--cfg deliberate_bug` and switches on one bug after the other, to measure whether the
//! simulation would notice it. Other builds do not contain them.

/// Whether the bug of this name is switched on.
#[cfg(deliberate_bug)]
pub(crate) fn deliberate_bug(name: &str) -> bool {
    static CHOSEN: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("DELIBERATE_BUG").ok());
    CHOSEN.as_deref() == Some(name)
}

/// No bug is switched on.
#[cfg(not(deliberate_bug))]
#[inline(always)]
pub(crate) const fn deliberate_bug(_: &str) -> bool {
    false
}
