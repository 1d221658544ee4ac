//! The repository's chores: `cargo xtask <chore>`.

fn main() {}
