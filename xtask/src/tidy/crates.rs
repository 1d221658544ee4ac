//! Which of our crates depends on which. Normal and build dependencies count, including those of one target and
//! optional ones; dependencies of tests do not.

use std::collections::BTreeMap;

use super::graph::Graph;
use super::{Problem, Repository};

pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    graph(repository).compare(repository)
}

/// The graph of the workspace's crates, by their folders; `crates/` is left out.
pub(crate) fn graph(repository: &Repository) -> Graph {
    let manifests: Vec<_> = repository.ending_with("Cargo.toml").filter_map(Manifest::read).collect();
    let folders: BTreeMap<_, _> =
        manifests.iter().map(|manifest| (manifest.name, manifest.folder())).collect();
    let mut graph = Graph::new("crates");
    for manifest in &manifests {
        graph.add_node(manifest.folder());
        for (dependency, line) in &manifest.dependencies {
            if let Some(to) = folders.get(dependency) {
                graph.add_edge(manifest.folder(), to, manifest.path, *line);
            }
        }
    }
    graph
}

struct Manifest<'a> {
    path: &'a str,
    name: &'a str,
    /// Names and lines.
    dependencies: Vec<(&'a str, usize)>,
}

impl<'a> Manifest<'a> {
    /// `None` if it is not a package, or a workspace of its own.
    fn read((path, text): (&'a str, &'a str)) -> Option<Self> {
        let (mut section, mut name, mut dependencies) = ("", None, Vec::new());
        for (line, text) in (1..).zip(text.lines()) {
            if let Some(header) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
                section = header;
                if section == "workspace" {
                    return None;
                }
                if let Some((_, dependency)) = section.rsplit_once('.').filter(|(table, _)| lists(table)) {
                    dependencies.push((dependency, line));
                }
            } else if let Some((key, value)) = text.split_once('=') {
                let key = key.trim();
                if section == "package" && key == "name" {
                    name = Some(value.trim().trim_matches('"'));
                } else if lists(section) {
                    dependencies.push((key.split('.').next().unwrap_or(key), line));
                }
            }
        }
        Some(Self { path, name: name?, dependencies })
    }

    fn folder(&self) -> &'a str {
        let folder = self.path.strip_suffix("/Cargo.toml").unwrap_or(self.path);
        folder.strip_prefix("crates/").unwrap_or(folder)
    }
}

/// Whether a section lists dependencies that count.
fn lists(section: &str) -> bool {
    let kind = section.rsplit('.').next().unwrap_or_default();
    ["dependencies", "build-dependencies"].contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_from_every_section_but_that_of_tests() {
        let repository = Repository::of([
            ("Cargo.toml", "[workspace]\n[workspace.dependencies]\nb = \"1\""),
            (
                "crates/a/Cargo.toml",
                "[package]\nname = \"a\"\n[dependencies]\nb.workspace = true\nserde = \"1\"\n\
                 [target.'cfg(unix)'.dependencies]\nc = { workspace = true }\n[dependencies.e]\npath = \"x\"\n\
                 [dev-dependencies]\nd.workspace = true\n",
            ),
            ("crates/b/Cargo.toml", "[package]\nname = \"b\""),
            ("crates/c/Cargo.toml", "[package]\nname = \"c\""),
            ("peers/d/Cargo.toml", "[package]\nname = \"d\""),
            ("crates/e/Cargo.toml", "[package]\nname = \"e\""),
            ("fuzz/Cargo.toml", "[package]\nname = \"fuzz\"\n[workspace]\n[dependencies]\na.path = \"..\""),
        ]);
        let expected = "```graph crates\na -> b, c, e\nb -> nothing\nc -> nothing\ne -> nothing\npeers/d -> nothing\n```\n";
        assert_eq!(graph(&repository).to_string(), expected);
    }
}
