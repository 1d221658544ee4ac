//! The public API stays small enough to maintain for years: the listing of a crate's default features has a limit.

use super::{Problem, Repository};

/// Listings with the most lines that each may have.
const LIMITS: [(&str, usize); 1] = [("api/kube-informer.txt", 250)];

pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let too_long = |(path, lines_max): (&str, usize)| match repository.text(path)?.lines().count() {
        lines if lines > lines_max => {
            let message =
                format!("{lines} lines of public API, at most {lines_max} are allowed; hide or merge items");
            Some(Problem::new(path, lines_max + 1, message))
        }
        _ => None,
    };
    LIMITS.into_iter().filter_map(too_long).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_over_its_limit_is_reported() {
        let (path, lines_max) = LIMITS[0];
        let listing = |lines| "pub fn f()\n".repeat(lines);
        assert_eq!(check(&Repository::of([(path, &*listing(lines_max))])), []);
        let problems = check(&Repository::of([(path, &*listing(lines_max + 1))]));
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].line, lines_max + 1);
    }
}
