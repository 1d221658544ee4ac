//! The walks of ARCHITECTURE.md, which follow a change and a read through the code, are short and name functions that exist.

use super::{Problem, Repository};

const MAP: &str = "ARCHITECTURE.md";
/// Where the paths of the walks begin; the first that has the file counts.
const FOLDERS: [&str; 2] = ["crates/informer/src/", "crates/"];

/// The headings of the walks, and the most stops that each may have.
const STOPS_MAX: [(&str, usize); 2] =
    [("### The path of a watch event", 18), ("### The path of `lister.get`", 6)];

pub(crate) fn check(repository: &Repository) -> Vec<Problem> {
    let lines = repository.text(MAP).unwrap_or_default().lines().zip(1..);
    let problem = |(text, line): (&str, usize)| {
        let message = missing(repository, &stop(text)?)?;
        Some(Problem::new(MAP, line, message))
    };
    lines.filter_map(problem).chain(too_long(repository)).collect()
}

/// Walks that are missing, or have too many stops.
fn too_long(repository: &Repository) -> impl Iterator<Item = Problem> {
    let map = repository.text(MAP).unwrap_or_default();
    STOPS_MAX.iter().filter_map(move |(heading, most)| {
        let at = map.lines().position(|line| line == *heading);
        let walk =
            map.lines().skip(at.map_or(usize::MAX, |at| at + 1)).take_while(|line| !line.starts_with('#'));
        let message = match walk.filter_map(stop).count() {
            0 => format!("no stops under `{heading}`"),
            stops if stops > *most => format!("{stops} stops under `{heading}`; at most {most} are allowed"),
            _ => return None,
        };
        Some(Problem::new(MAP, at.map_or(1, |at| at + 1), message))
    })
}

/// One step of a walk.
struct Stop<'a> {
    file: &'a str,
    /// `function` or `Type::function`
    function: &'a str,
}

/// Reads ``3. `FILE`: `FUNCTION` …``. Other lines are no stops.
fn stop(line: &str) -> Option<Stop<'_>> {
    let (number, rest) = line.split_once(". `")?;
    let (file, rest) = rest.split_once("`: `")?;
    let (function, _) = rest.split_once('`')?;
    number.parse::<u32>().is_ok().then_some(Stop { file, function })
}

/// What the code lacks.
fn missing(repository: &Repository, stop: &Stop<'_>) -> Option<String> {
    let Stop { file, function } = stop;
    let Some(text) = FOLDERS.iter().find_map(|folder| repository.text(&format!("{folder}{file}"))) else {
        return Some(format!("there is no file `{file}` below {}", FOLDERS.join(" or ")));
    };
    let (owner, name) = match function.rsplit_once("::") {
        Some((owner, name)) => (Some(owner), name),
        None => (None, *function),
    };
    let declares = |start: &str, end: &[char]| {
        text.match_indices(start).any(|(at, _)| text[at + start.len()..].starts_with(end))
    };
    if !declares(&format!("fn {name}"), &['(', '<']) {
        return Some(format!("`{file}` has no function `{name}`"));
    }
    let owner =
        owner.filter(|owner| !text.lines().any(|line| line.starts_with("impl") && has_word(line, owner)))?;
    Some(format!("`{file}` has no impl of `{owner}`"))
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|found| found == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_without_a_function_and_long_walks_are_reported() {
        let map = "\
### The path of a watch event
1. `a.rs`: `Store::get` reads.
2. `a.rs`: `Store::gets` reads.
3. `b.rs`: `get`
4. `wire/src/c.rs`: `parse` parses.
5. `a.rs`: `Stores::get` reads.
Text. `a.rs`: `nothing`
### The path of `lister.get`
1. `a.rs`: `get`
2. `a.rs`: `get`
3. `a.rs`: `get`
4. `a.rs`: `get`
5. `a.rs`: `get`
6. `a.rs`: `get`
7. `a.rs`: `get`";
        let repository = Repository::of([
            (MAP, map),
            ("crates/informer/src/a.rs", "impl<K> Store<K> {\n    fn get(&self) {}\n}"),
            ("crates/wire/src/c.rs", "pub fn parse<T>() {}"),
        ]);
        let found: Vec<String> = check(&repository).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "ARCHITECTURE.md:3: `a.rs` has no function `gets`",
                "ARCHITECTURE.md:4: there is no file `b.rs` below crates/informer/src/ or crates/",
                "ARCHITECTURE.md:6: `a.rs` has no impl of `Stores`",
                "ARCHITECTURE.md:8: 7 stops under `### The path of `lister.get``; at most 6 are allowed",
            ]
        );
    }
}
