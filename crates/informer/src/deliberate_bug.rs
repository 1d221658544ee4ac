//! Bugs that the simulator must find.
//!
//! `cargo xtask sim --bugs` builds with `--cfg deliberate_bug` and switches on one bug after the other, to measure whether the
//! simulation would notice it. Other builds do not contain them.

#[cfg(deliberate_bug)]
pub(crate) fn is_on(name: &str) -> bool {
    static CHOSEN: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("DELIBERATE_BUG").ok());
    CHOSEN.as_deref() == Some(name)
}

#[cfg(not(deliberate_bug))]
#[inline(always)]
pub(crate) const fn is_on(_: &str) -> bool {
    false
}

/// Whether the bug of this name is switched on.
macro_rules! deliberate_bug {
    ($name:literal) => {
        $crate::deliberate_bug::is_on($name)
    };
}
