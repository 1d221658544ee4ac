//! Suggestions for misspelled names.

/// The candidate nearest to the written name, if one is near enough.
pub(crate) fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase();
    let limit = 1 + written.chars().count() / 4;
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&written, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_recognised_and_another_word_is_not() {
        let known = ["pods", "deployments", "nodes"];
        assert_eq!(nearest("pdos", known), Some("pods"));
        assert_eq!(nearest("Deploymets", known), Some("deployments"));
        assert_eq!(nearest("node", known), Some("nodes"));
        assert_eq!(nearest("gateway", known), None);
    }
}
