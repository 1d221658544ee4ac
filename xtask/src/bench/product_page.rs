//! The table of figures in README.md. Its cells are the medians in docs/benchmarks.md, so the two never disagree: a run
//! writes both, and a test compares them.

use std::path::Path;

use super::Outcome;
use super::subject::Subject::{
    self, ClientGo, ClientGoMetadata, ClientGoStripped, Floor, KubeRs, KubeRsMetadata, KubeRsStreaming,
    KubeRsStripped, Ours, OursDecoding, OursJson, OursMetadata,
};

const OPEN: &str = "<!-- figures -->\n";
const CLOSE: &str = "<!-- /figures -->";

/// A row of the table.
struct Row {
    title: &'static str,
    /// The scenario and the column in docs/benchmarks.md.
    from: (&'static str, &'static str),
    ours: Subject,
}

const fn row(title: &'static str, scenario: &'static str, column: &'static str, ours: Subject) -> Row {
    Row { title, from: (scenario, column), ours }
}

const ROWS: &[Row] = &[
    row("initial list of 50,000 pods: client CPU", "sync-50000", "client CPU", Ours),
    row("the same, each object decoded in a handler", "sync-50000", "client CPU", OursDecoding),
    row("memory after the list", "sync-50000", "memory afterwards", Ours),
    row("relist of the same pods: client CPU", "sync-50000", "relist, client CPU", Ours),
    row("peak memory during the relist", "sync-50000", "relist, peak memory", Ours),
    row("10,000 pods without a common template: memory", "sync-varied-pods", "memory afterwards", Ours),
    row("10,000 Secrets: memory", "sync-secrets", "memory afterwards", Ours),
    row("10,000 custom resources (JSON): client CPU", "sync-widgets", "client CPU", OursJson),
    row("the same: memory", "sync-widgets", "memory afterwards", OursJson),
    row("metadata of 10,000 pods: client CPU", "metadata", "client CPU", OursMetadata),
    row("the same: memory", "metadata", "memory afterwards", OursMetadata),
    row("changes as fast as the server sends them: CPU per change", "watch", "client CPU per change", Ours),
    row("the same, decoded in the handler", "watch", "client CPU per change", OursDecoding),
    row("500 changes per second: CPU per change", "watch-500", "client CPU per change", Ours),
    row("the same, decoded in the handler", "watch-500", "client CPU per change", OursDecoding),
    row("5,000 changes per second: CPU per change", "watch-5000", "client CPU per change", Ours),
    row("the same, decoded in the handler", "watch-5000", "client CPU per change", OursDecoding),
    row("5,000 changes per second: median latency", "watch-5000", "lag, p50", Ours),
    row("the same, decoded in the handler", "watch-5000", "lag, p50", OursDecoding),
    row("the 20 pods of a node, by index", "reads", "pods of one node", Ours),
    row("get one of 10,000 pods", "reads", "get", Ours),
    row("get and decode it, first read", "reads", "get and decode, first read", Ours),
    row("get and decode one of 50 pods, again", "reads", "get and decode, cached", Ours),
    row("list all pods, per pod", "reads", "list, per pod", Ours),
    row("list and decode all pods, per pod", "reads", "list and decode, per pod", Ours),
];

/// The peers' columns. A scenario has at most one of the subjects of a column, or the first one counts.
const PEERS: &[(&str, &[Subject])] = &[
    ("client-go, stripped", &[ClientGoStripped, ClientGoMetadata]),
    ("kube-rs, stripped", &[KubeRsStripped, KubeRsMetadata]),
    ("client-go", &[ClientGo]),
    ("kube-rs", &[KubeRsStreaming, KubeRs]),
    ("floor", &[Floor]),
];

/// Writes the table into README.md.
pub(super) fn write(root: &Path) -> Outcome {
    let path = root.join("README.md");
    let page = std::fs::read_to_string(&path)?;
    let document = std::fs::read_to_string(root.join("docs/benchmarks.md"))?;
    Ok(std::fs::write(path, with_table(&page, &document)?)?)
}

/// The page with the table of this document.
fn with_table(page: &str, document: &str) -> Outcome<String> {
    let parts = page.split_once(OPEN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(CLOSE)?;
        Some((before, after))
    });
    let (before, after) = parts.ok_or_else(|| format!("README.md: no {OPEN}"))?;
    Ok(format!("{before}{OPEN}{}{CLOSE}{after}", table(document)?))
}

fn table(document: &str) -> Outcome<String> {
    let mut text = "| | this library |".to_owned();
    text.extend(PEERS.iter().map(|(title, _)| format!(" {title} |")));
    text += &format!("\n|---|---|{}\n", "---|".repeat(PEERS.len()));
    for row in ROWS {
        let (scenario, column) = row.from;
        let section =
            section(document, scenario).ok_or_else(|| format!("docs/benchmarks.md: no {scenario}"))?;
        let ours = cell(section, column, &[row.ours]).ok_or_else(|| {
            format!("docs/benchmarks.md: {scenario} has no “{column}” of {}", row.ours.label())
        })?;
        text += &format!("| {} | {ours} |", row.title);
        for (_, subjects) in PEERS {
            let value = cell(section, column, subjects);
            let wins = value.is_some_and(|value| *subjects != [Floor] && magnitude(value) < magnitude(ours));
            text += &match value {
                Some(value) if wins => format!(" **{value}** |"),
                value => format!(" {} |", value.unwrap_or_default()),
            };
        }
        text.push('\n');
    }
    Ok(text)
}

/// The part of the document between the comments of a scenario.
fn section<'a>(document: &'a str, scenario: &str) -> Option<&'a str> {
    let (_, rest) = document.split_once(&format!("<!-- bench {scenario} -->"))?;
    Some(rest.split_once("<!-- /bench")?.0)
}

/// The median of the first of these subjects that a section has; `None` if it has none, or was not measured.
fn cell<'a>(section: &'a str, column: &str, subjects: &[Subject]) -> Option<&'a str> {
    let mut rows = section.lines().filter_map(|line| line.strip_prefix("| ")).map(|line| line.split(" | "));
    // The header begins with an empty cell, the other rows with a label.
    let number = 1 + rows.next()?.position(|title| title.trim_matches(['|', ' ']) == column)?;
    let labels: Vec<_> = subjects.iter().map(|subject| subject.label()).collect();
    let rows: Vec<Vec<&str>> = rows.map(Iterator::collect).collect();
    let found = labels.iter().find_map(|label| rows.iter().find(|row| row.first() == Some(label)))?;
    let value = found.get(number)?.trim_end_matches([' ', '|']);
    let median = value.split_once(" (").map_or(value, |(median, _)| median);
    let median = median.split_once(", ").map_or(median, |(median, _)| median);
    (median != "–").then_some(median)
}

/// The value of a figure, for comparison with others of its kind.
fn magnitude(figure: &str) -> f64 {
    let (number, unit) = figure.split_once(' ').unwrap_or((figure, ""));
    let unit = match unit {
        "ns" => 1e-9,
        "µs" => 1e-6,
        "ms" => 1e-3,
        _ => 1.0,
    };
    number.parse().unwrap_or(f64::INFINITY) * unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::go::root;

    #[test]
    fn the_readme_has_the_figures_of_the_document() {
        let page = std::fs::read_to_string(root().join("README.md")).unwrap();
        let document = std::fs::read_to_string(root().join("docs/benchmarks.md")).unwrap();
        assert_eq!(with_table(&page, &document).unwrap(), page, "run `cargo xtask bench --readme`");
    }

    #[test]
    fn cells_are_medians_and_better_figures_of_peers_are_bold() {
        let section = "\n| | get | by index |\n|---| --- | --- |\n| ours, protobuf | 93.1 ns (91.7 ns – 93.2 ns) | 0.51 µs |\n\
                       | client-go, protobuf | 22.5 ns (21.0 ns – 49.6 ns), **0.24×** | – |\n";
        assert_eq!(cell(section, "get", &[Ours]), Some("93.1 ns"));
        assert_eq!(cell(section, "by index", &[Ours]), Some("0.51 µs"));
        assert_eq!(cell(section, "get", &[KubeRs, ClientGo]), Some("22.5 ns"));
        assert_eq!(cell(section, "by index", &[ClientGo]), None);
        assert_eq!(cell(section, "get", &[Floor]), None);
        assert!(magnitude("0.51 µs") < magnitude("600 ns") && magnitude("1.2 s") > magnitude("80 ms"));
    }
}
