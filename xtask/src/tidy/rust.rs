//! Rust source for the rules: the modules of a crate, the items of a module, the tokens of an item. Tokens are enough:
//! rules need names and paths, and a token stream also has the arguments of macros.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::{Problem, Repository};

/// A module that is compiled outside of tests.
#[derive(Debug)]
pub(crate) struct Module {
    /// Its path in the crate; empty for the root.
    pub(crate) path: Vec<String>,
    /// The file it is in.
    pub(crate) file: String,
    /// Without modules and without what only tests compile.
    pub(crate) items: Vec<Item>,
}

/// An item: its attributes, and everything else up to its `;` or its braces.
#[derive(Debug)]
pub(crate) struct Item {
    attributes: Vec<TokenStream>,
    pub(crate) tokens: Vec<TokenTree>,
}

/// All modules of a crate that are compiled outside of tests, the root first.
pub(crate) fn modules(repository: &Repository, root: &str) -> Result<Vec<Module>, Problem> {
    let mut walk = Walk { repository, modules: Vec::new() };
    walk.file(root, &[])?;
    Ok(walk.modules)
}

struct Walk<'a> {
    repository: &'a Repository,
    modules: Vec<Module>,
}

impl Walk<'_> {
    fn file(&mut self, file: &str, path: &[String]) -> Result<(), Problem> {
        let folder = match file.rsplit_once('/') {
            Some((folder, "lib.rs" | "main.rs" | "mod.rs")) => folder,
            _ => file.trim_end_matches(".rs"),
        };
        let text = self.repository.text(file).ok_or_else(|| Problem::new(file, 1, "missing file"))?;
        self.body(file, folder, path, lex(file, text)?)
    }

    fn body(&mut self, file: &str, folder: &str, path: &[String], body: TokenStream) -> Result<(), Problem> {
        let (mut own, mut children) = (Vec::new(), Vec::new());
        for item in items(body).into_iter().filter(|item| !item.is_test_only()) {
            match item.module() {
                Some(child) => children.push(child),
                None => own.push(item),
            }
        }
        self.modules.push(Module { path: path.to_owned(), file: file.to_owned(), items: own });
        for (name, line, body) in children {
            let path: Vec<String> = path.iter().chain([&name]).cloned().collect();
            let folder = format!("{folder}/{name}");
            if let Some(body) = body {
                self.body(file, &folder, &path, body)?;
                continue;
            }
            let places = [format!("{folder}.rs"), format!("{folder}/mod.rs")];
            let Some(place) = places.iter().find(|place| self.repository.text(place).is_some()) else {
                return Err(Problem::new(file, line, format!("no file for module `{name}`")));
            };
            self.file(place, &path)?;
        }
        Ok(())
    }
}

/// The tokens of a file.
pub(crate) fn lex(file: &str, text: &str) -> Result<TokenStream, Problem> {
    text.parse().map_err(|error: proc_macro2::LexError| {
        Problem::new(file, error.span().start().line, format!("cannot read tokens: {error}"))
    })
}

/// The items of a module's body. Inner attributes count as attributes of the first item.
fn items(body: TokenStream) -> Vec<Item> {
    let mut items = Vec::new();
    let (mut attributes, mut tokens) = (Vec::new(), Vec::new());
    let mut rest = body.into_iter().peekable();
    while let Some(token) = rest.next() {
        if tokens.is_empty() && is_punct(&token, '#') {
            let _ = rest.next_if(|token| is_punct(token, '!'));
            if let Some(TokenTree::Group(attribute)) = rest.next() {
                attributes.push(attribute.stream());
            }
            continue;
        }
        let ends = is_punct(&token, ';')
            || matches!(&token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        tokens.push(token);
        if ends {
            let (attributes, tokens) = (std::mem::take(&mut attributes), std::mem::take(&mut tokens));
            items.push(Item { attributes, tokens });
        }
    }
    items
}

impl Item {
    /// Whether it is compiled for this crate's own unit tests only.
    fn is_test_only(&self) -> bool {
        self.attributes.iter().any(|attribute| {
            let text: String = attribute.to_string().split_whitespace().collect();
            text == "cfg(test)" || text.starts_with("cfg(all(test,") || text == "cfg(doctest)"
        })
    }

    /// The name, line and, if it is here, body of a module.
    fn module(&self) -> Option<(String, usize, Option<TokenStream>)> {
        let (keyword, at) = self.keyword()?;
        if keyword != "mod" {
            return None;
        }
        let (name, line) = ident(self.tokens.get(at + 1)?)?;
        let body = match self.tokens.get(at + 2) {
            Some(TokenTree::Group(body)) => Some(body.stream()),
            _ => None,
        };
        Some((name, line, body))
    }

    /// The name and line of the type or trait that it declares.
    pub(crate) fn declared_type(&self) -> Option<(String, usize)> {
        let (keyword, at) = self.keyword()?;
        if !["struct", "enum", "union", "trait", "type"].contains(&&*keyword) {
            return None;
        }
        ident(self.tokens.get(at + 1)?)
    }

    /// Whether it is a `use` declaration.
    pub(crate) fn is_use(&self) -> bool {
        self.keyword().is_some_and(|(keyword, _)| keyword == "use")
    }

    /// The first word after visibility and `unsafe`, and its place.
    fn keyword(&self) -> Option<(String, usize)> {
        let mut words = self.tokens.iter().enumerate().filter_map(|(at, token)| Some((ident(token)?.0, at)));
        words.find(|(word, _)| word != "pub" && word != "unsafe")
    }
}

/// A word and its line.
pub(crate) fn ident(token: &TokenTree) -> Option<(String, usize)> {
    match token {
        TokenTree::Ident(ident) => Some((ident.to_string(), ident.span().start().line)),
        _ => None,
    }
}

pub(crate) fn is_punct(token: &TokenTree, char: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == char)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "//! Doc.\n#![allow(x)]\npub mod one;\nmod two { pub(crate) mod three; struct In; }\n\
                        #[cfg(test)]\nmod tests;";

    #[test]
    fn modules_are_followed_through_files_and_braces_but_not_into_tests() {
        let repository = Repository::of([
            ("a/src/lib.rs", ROOT),
            ("a/src/one/mod.rs", "mod deep;\n#[cfg(any(test, feature = \"x\"))]\npub struct One { a: u8 }"),
            ("a/src/one/deep.rs", "#[cfg(test)]\nmod tests { struct Hidden; }"),
            ("a/src/two/three.rs", "pub(in crate::two) unsafe trait Three { type Inner; }"),
        ]);
        let modules = modules(&repository, "a/src/lib.rs").unwrap();
        let found = modules.iter().map(|module| {
            let types = module.items.iter().filter_map(Item::declared_type).map(|(name, _)| name);
            [module.path.join("::"), module.file.clone(), types.collect::<Vec<_>>().join(" ")]
        });
        let expected = [
            ["", "a/src/lib.rs", ""],
            ["one", "a/src/one/mod.rs", "One"],
            ["one::deep", "a/src/one/deep.rs", ""],
            ["two", "a/src/lib.rs", "In"],
            ["two::three", "a/src/two/three.rs", "Three"],
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_module_without_a_file_is_reported_where_it_is_declared() {
        let repository = Repository::of([("a/src/lib.rs", "//! Doc.\nmod gone;")]);
        let problem = modules(&repository, "a/src/lib.rs").unwrap_err();
        assert_eq!(problem.to_string(), "a/src/lib.rs:2: no file for module `gone`");
    }
}
