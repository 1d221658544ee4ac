//! The public API stays small enough to maintain for years: the listing of a crate's default features has a limit, and so has
//! the number of names at its root.

use super::{Problem, Repository};

/// The listing of the crate that most users need.
const LISTING: &str = "api/kube-informer.txt";
const LINES_MAX: usize = 250;
/// Names at the root, without re-exported crates.
const NAMES_MAX: usize = 40;

pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let Some(listing) = repository.text(LISTING) else {
        return vec![Problem::new(LISTING, 1, "the listing is missing; run `cargo xtask api`".to_owned())];
    };
    let mut problems = Vec::new();
    let mut limit = |count: usize, max: usize, line: usize, what: &str| {
        if count > max {
            let message = format!("{count} {what}, at most {max} are allowed; hide or merge items");
            problems.push(Problem::new(LISTING, line, message));
        }
    };
    limit(listing.lines().count(), LINES_MAX, LINES_MAX + 1, "lines of public API");
    limit(listing.lines().filter(|line| is_root_name(line)).count(), NAMES_MAX, 1, "names at the root");
    problems
}

/// Whether a line declares a type, trait, module or function at the root.
fn is_root_name(line: &str) -> bool {
    let declaration = line.trim_start_matches("#[non_exhaustive] ").strip_prefix("pub ");
    let Some((kind, path)) = declaration.and_then(|text| text.split_once(" kube_informer::")) else {
        return false;
    };
    let path = path.split(['(', '=', ' ']).next().unwrap_or_default();
    ["struct", "enum", "trait", "mod", "fn", "type"].contains(&kind) && !path.contains("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_over_a_limit_is_reported() {
        let check = |listing: String| check(&Repository::of([(LISTING, &*listing)]));
        let methods = |lines| "pub fn kube_informer::Key<K>::get(kube_informer::Key)\n".repeat(lines);
        assert_eq!(check(methods(LINES_MAX)), []);
        let problems = check(methods(LINES_MAX + 1));
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].line, LINES_MAX + 1);
        let names = |lines| {
            "#[non_exhaustive] pub struct kube_informer::Key<K>\npub use kube_informer::kube_core\n"
                .repeat(lines)
        };
        assert_eq!(check(names(NAMES_MAX)), []);
        assert_eq!(check(names(NAMES_MAX + 1)).len(), 1);
        assert_eq!(super::check(&Repository::of([])).len(), 1, "no listing");
    }
}
