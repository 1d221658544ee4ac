//! The columns of `-L` and `--show-labels`.

use serde_json::Value;

const NONE: &str = "<none>";

/// The titles of the columns: of a label, the part after the slash, as in kubectl.
pub(crate) fn titles(labels: &[String], show_labels: bool) -> Vec<String> {
    let title = |label: &String| label.rsplit('/').next().unwrap_or_default().to_uppercase();
    labels.iter().map(title).chain(show_labels.then(|| "LABELS".to_owned())).collect()
}

/// The cells of an object with all these labels. A missing label is an empty cell, as in kubectl.
pub(crate) fn cells(all: &Value, labels: &[String], show_labels: bool) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut cells = labels.iter().map(|label| text(&all[label.as_str()])).collect::<Vec<_>>();
    if show_labels {
        let all = all.as_object().into_iter().flatten();
        cells.push(joined(all.map(|(name, value)| (name.clone(), text(value))).collect()));
    }
    cells
}

/// `a=1,b=2`, in the order of the names.
fn joined(mut labels: Vec<(String, String)>) -> String {
    labels.sort();
    let labels = labels.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
    if labels.is_empty() { NONE.to_owned() } else { labels.join(",") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_shown_as_in_kubectl() {
        let all = json!({"b": "2", "a": "1", "example.com/tier": "web"});
        let labels = ["example.com/tier".to_owned(), "missing".to_owned()];
        assert_eq!(titles(&labels, true), ["TIER", "MISSING", "LABELS"]);
        assert_eq!(cells(&all, &labels, true), ["web", "", "a=1,b=2,example.com/tier=web"]);
        assert_eq!(cells(&Value::Null, &[], true), ["<none>"]);
        assert!(cells(&all, &[], false).is_empty() && titles(&[], false).is_empty());
    }
}
