//! Which module of kube-informer imports which: the paths that begin at the crate's root, in any item, by `crate::` or
//! `super::`. A name that the root re-exports counts as its module's. Unit tests and the root do not count.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};

use super::graph::Graph;
use super::rust::{self, Item, Module, ident, is_punct};
use super::{Problem, Repository};

const ROOT: &str = "crates/informer/src/lib.rs";

pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    match graph(repository) {
        Ok(graph) => graph.compare(repository),
        Err(problem) => vec![problem],
    }
}

/// The graph of the modules at the root.
pub(crate) fn graph(repository: &Repository) -> Result<Graph, Problem> {
    let modules = rust::modules(repository, ROOT)?;
    let names = RootNames::new(&modules);
    let mut graph = Graph::new("modules of kube-informer");
    for module in &modules {
        let Some(from) = module.path.first() else { continue };
        graph.add_node(from);
        let mut found = Vec::new();
        for item in &module.items {
            root_paths(&item.tokens, module.path.len(), &mut found);
        }
        for (name, line) in found {
            let to = names.module(&name);
            if to != from {
                graph.add_edge(from, to, &module.file, line);
            }
        }
    }
    Ok(graph)
}

/// The names of the root and the modules that they lead to.
struct RootNames {
    modules: BTreeMap<String, String>,
}

impl RootNames {
    fn new(modules: &[Module]) -> Self {
        let mut names = BTreeMap::new();
        for module in modules {
            match &module.path[..] {
                [] => {
                    for item in module.items.iter().filter(|item| item.is_use()) {
                        re_exports(item, &mut names);
                    }
                }
                [name] => {
                    names.insert(name.clone(), name.clone());
                }
                _ => {}
            }
        }
        Self { modules: names }
    }

    fn module<'a>(&'a self, name: &str) -> &'a str {
        self.modules.get(name).map_or("root", String::as_str)
    }
}

/// Every word of a `use` declaration, under its first segment: more than the names that it imports, which is harmless.
fn re_exports(item: &Item, names: &mut BTreeMap<String, String>) {
    let mut segments =
        item.tokens.iter().skip_while(|token| ident(token).is_none_or(|(word, _)| word != "use"));
    segments.next();
    let Some((first, _)) = segments.find_map(ident) else { return };
    let mut words = Vec::new();
    for token in segments {
        collect_words(token, &mut words);
    }
    for word in words {
        names.entry(word).or_insert_with(|| first.clone());
    }
}

fn collect_words(token: &TokenTree, words: &mut Vec<String>) {
    match token {
        TokenTree::Group(group) => group.stream().into_iter().for_each(|token| collect_words(&token, words)),
        token => words.extend(ident(token).map(|(word, _)| word)),
    }
}

/// Names directly under the root that paths lead to, with their lines. `depth` is that of the module.
fn root_paths(tokens: &[TokenTree], depth: usize, found: &mut Vec<(String, usize)>) {
    let mut rest = tokens;
    while let [token, tail @ ..] = rest {
        rest = tail;
        match token {
            TokenTree::Group(group) => root_paths(&Vec::from_iter(group.stream()), depth, found),
            TokenTree::Ident(word) if word == "crate" => first_names(tail, found),
            TokenTree::Ident(word) if word == "super" => {
                let (mut ups, mut path) = (1, tail);
                while let [a, b, next, tail @ ..] = path
                    && is_punct(a, ':')
                    && is_punct(b, ':')
                    && ident(next).is_some_and(|(word, _)| word == "super")
                {
                    (ups, path) = (ups + 1, tail);
                }
                rest = path;
                if ups == depth {
                    first_names(path, found);
                }
            }
            _ => {}
        }
    }
}

/// The names after `::`: one, or the first of each path in braces.
fn first_names(path: &[TokenTree], found: &mut Vec<(String, usize)>) {
    let [a, b, next, ..] = path else { return };
    if !is_punct(a, ':') || !is_punct(b, ':') {
        return;
    }
    match next {
        TokenTree::Group(group) => found.extend(firsts(group.stream())),
        next => found.extend(ident(next)),
    }
}

fn firsts(list: TokenStream) -> Vec<(String, usize)> {
    let tokens = Vec::from_iter(list);
    tokens.split(|token| is_punct(token, ',')).filter_map(|path| ident(path.first()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_from_the_root_are_edges_and_paths_within_a_module_are_not() {
        let repository = Repository::of([
            (
                ROOT,
                "mod key;\nmod queue;\nmod store;\npub use key::{Key, bad::InvalidKey as Invalid};\npub struct Top;",
            ),
            ("crates/informer/src/key.rs", "fn f() { crate::store::here(); }"),
            ("crates/informer/src/queue.rs", "use super::{Invalid, store::Store};\nuse self::inner::X;"),
            (
                "crates/informer/src/store/mod.rs",
                "mod apply;\n#[cfg(test)]\nmod tests { use crate::queue::Q; }",
            ),
            ("crates/informer/src/store/apply.rs", "use super::Own;\nmacro!(super::super::Top);"),
        ]);
        let expected =
            "```graph modules of kube-informer\nkey -> store\nqueue -> key, store\nstore -> root\n```\n";
        assert_eq!(graph(&repository).unwrap().to_string(), expected);
    }
}
