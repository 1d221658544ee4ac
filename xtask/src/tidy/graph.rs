//! A dependency graph, as the code has it and as ARCHITECTURE.md lists it. The listing is a fenced block whose info
//! string is `graph` and the graph's name, with one line per node: `cli -> apiserver, informer`. Both must be equal: an
//! edge that the code no longer has is as wrong as a missing one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Problem, Repository};

const MAP: &str = "ARCHITECTURE.md";

/// Edges, each with the file and line that shows it first.
#[derive(Debug)]
pub(crate) struct Graph {
    /// As in the info string of its block.
    name: &'static str,
    nodes: BTreeMap<String, BTreeMap<String, (String, usize)>>,
}

impl Graph {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, nodes: BTreeMap::new() }
    }

    pub(crate) fn add_node(&mut self, node: &str) {
        self.nodes.entry(node.to_owned()).or_default();
    }

    pub(crate) fn add_edge(&mut self, from: &str, to: &str, file: &str, line: usize) {
        let edges = self.nodes.entry(from.to_owned()).or_default();
        edges.entry(to.to_owned()).or_insert_with(|| (file.to_owned(), line));
    }

    /// The differences between the code and the map.
    pub(crate) fn compare(&self, repository: &Repository) -> Vec<Problem> {
        let Some(listed) = repository.text(MAP).and_then(|text| Listing::find(text, self.name)) else {
            let message =
                format!("no block ```graph {}; print it with `cargo xtask tidy --print-graph`", self.name);
            return vec![Problem::new(MAP, 1, message)];
        };
        let mut problems = Vec::new();
        for (node, edges) in &self.nodes {
            let Some((_, allowed)) = listed.nodes.get(node) else {
                problems.push(Problem::new(
                    MAP,
                    listed.line,
                    format!("`{node}` is missing in this graph; add it"),
                ));
                continue;
            };
            for (to, (file, line)) in edges.iter().filter(|(to, _)| !allowed.contains(*to)) {
                let message = format!(
                    "{node} depends on {to}, which the graph in {MAP} does not have; remove the dependency or add the edge"
                );
                problems.push(Problem::new(file, *line, message));
            }
        }
        for (node, (line, allowed)) in &listed.nodes {
            let Some(edges) = self.nodes.get(node) else {
                problems.push(Problem::new(MAP, *line, format!("`{node}` does not exist; remove it")));
                continue;
            };
            for to in allowed.iter().filter(|to| !edges.contains_key(*to)) {
                problems.push(Problem::new(
                    MAP,
                    *line,
                    format!("{node} does not depend on {to}; remove the edge"),
                ));
            }
        }
        problems
    }
}

/// The block for the map.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "```graph {}", self.name)?;
        for (node, edges) in &self.nodes {
            let edges: Vec<&str> = edges.keys().map(String::as_str).collect();
            writeln!(
                f,
                "{node} -> {}",
                if edges.is_empty() { "nothing".to_owned() } else { edges.join(", ") }
            )?;
        }
        writeln!(f, "```")
    }
}

/// A block of the map.
struct Listing {
    line: usize,
    /// Each node's line and edges.
    nodes: BTreeMap<String, (usize, BTreeSet<String>)>,
}

impl Listing {
    fn find(text: &str, name: &str) -> Option<Self> {
        let mut lines = (1..).zip(text.lines());
        let fence = format!("```graph {name}");
        let (line, _) = lines.find(|(_, text)| *text == fence)?;
        let nodes = lines.take_while(|(_, text)| *text != "```").map(|(line, text)| {
            let (node, edges) = text.split_once("->").unwrap_or((text, ""));
            let edges = edges.split(',').map(str::trim).filter(|edge| !["", "nothing"].contains(edge));
            (node.trim().to_owned(), (line, edges.map(str::to_owned).collect()))
        });
        Some(Self { line, nodes: nodes.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> Graph {
        let mut graph = Graph::new("crates");
        graph.add_edge("cli", "wire", "cli/Cargo.toml", 7);
        graph.add_edge("cli", "informer", "cli/Cargo.toml", 8);
        graph.add_node("wire");
        graph
    }

    fn compared(block: &str) -> Vec<String> {
        let repository = Repository::of([(MAP, block)]);
        graph().compare(&repository).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_printed_graph_matches_the_map() {
        assert_eq!(graph().to_string(), "```graph crates\ncli -> informer, wire\nwire -> nothing\n```\n");
        assert_eq!(compared(&graph().to_string()), [""; 0]);
    }

    #[test]
    fn edges_are_reported_in_both_directions() {
        let problems = compared("```graph crates\ncli -> wire, controller\nold -> wire\n```\n");
        let expected = [
            "cli/Cargo.toml:8: cli depends on informer",
            "ARCHITECTURE.md:1: `wire` is missing",
            "ARCHITECTURE.md:2: cli does not depend on controller",
            "ARCHITECTURE.md:3: `old` does not exist",
        ];
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.starts_with(expected), "{problem}");
        }
        assert!(compared("no block")[0].contains("no block ```graph crates"));
    }
}
