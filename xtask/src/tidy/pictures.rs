//! The pictures in the documentation show the current page: `cargo xtask browser --pictures` writes a checksum of the
//! page's files next to them, and this rule compares it.

use super::{Problem, Repository};

const ASSETS: &str = "crates/cli/assets/";
/// Has the checksum of the files that the pictures show.
pub(crate) const CHECKSUM: &str = "docs/pictures/checksum.txt";

pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let current = checksum(repository);
    match repository.text(CHECKSUM) {
        Some(taken) if taken.trim() == current => Vec::new(),
        _ => {
            let message =
                format!("the pictures are older than {ASSETS}; run `cargo xtask browser --pictures`");
            vec![Problem::new(CHECKSUM, 1, message)]
        }
    }
}

/// A checksum of the page's files: FNV-1a over paths and texts.
pub(crate) fn checksum(repository: &Repository) -> String {
    let files = repository.ending_with("").filter(|(path, _)| path.starts_with(ASSETS));
    let bytes = files.flat_map(|(path, text)| path.bytes().chain([0]).chain(text.bytes()).chain([0]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_an_older_page_are_reported() {
        let page = ("crates/cli/assets/app.js", "draw()");
        let taken = checksum(&Repository::of([page]));
        assert_eq!(check(&Repository::of([page, (CHECKSUM, &format!("{taken}\n"))])), []);
        let changed = ("crates/cli/assets/app.js", "draw(1)");
        for files in [Repository::of([changed, (CHECKSUM, &taken)]), Repository::of([page])] {
            assert_eq!(check(&files).len(), 1);
        }
        let other = ("crates/cli/src/main.rs", "fn main() {}");
        assert_eq!(check(&Repository::of([page, other, (CHECKSUM, &taken)])), []);
    }
}
