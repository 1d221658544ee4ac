//! Selectors as kubectl takes them: `-l` and `--field-selector`.
//!
//! They are parsed here so that a slip of the pen is an error before anything is sent, so that listers can filter by
//! them, and so that an informer can say at once that it will never see an object.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// Conditions on labels, all of which must hold: `tier=backend,env in (dev,test),!legacy`.
///
/// ```
/// use kube_informer::LabelSelector;
///
/// let selector: LabelSelector = "tier=backend, env notin (prod), !legacy".parse()?;
/// assert!(selector.matches([("tier", "backend"), ("env", "dev")]));
/// assert!(!selector.matches([("tier", "backend"), ("env", "prod")]));
/// assert_eq!("a=b=c".parse::<LabelSelector>().unwrap_err().to_string(),
///            "`a=b=c` is no label selector: `,` expected, found `=` at 3");
/// # Ok::<(), kube_informer::InvalidSelector>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// Conditions on fields, all of which must hold: `spec.nodeName=node-7,status.phase!=Running`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// The text is no selector.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{text}` is no {what} selector: {why}")]
pub struct InvalidSelector {
    what: &'static str,
    text: String,
    why: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    label: String,
    condition: Condition,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Exists,
    Absent,
    In(BTreeSet<String>),
    /// Holds for objects without the label too.
    NotIn(BTreeSet<String>),
    Above(i64),
    Below(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    path: String,
    value: String,
    equal: bool,
}

/// A word, or one of `= == != , ( ) ! < >`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token<'a> {
    text: &'a str,
    at: usize,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

// === impl LabelSelector ===

impl LabelSelector {
    /// Whether an object with these labels is selected.
    pub fn matches<'a>(&self, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> bool {
        let labels = labels.into_iter().collect::<BTreeMap<_, _>>();
        self.matches_by(|label| labels.get(label).map(|value| Cow::Borrowed(*value)))
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object is selected whose labels `value` knows.
    pub(crate) fn matches_by<'a>(&self, value: impl Fn(&str) -> Option<Cow<'a, str>>) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(value(&requirement.label).as_deref()))
    }
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.condition {
            Condition::Exists => value.is_some(),
            Condition::Absent => value.is_none(),
            Condition::In(values) => value.is_some_and(|value| values.contains(value)),
            Condition::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Condition::Above(bound) => number().is_some_and(|value| value > *bound),
            Condition::Below(bound) => number().is_some_and(|value| value < *bound),
        }
    }
}

impl FromStr for LabelSelector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        let invalid = |why| InvalidSelector { what: "label", text: text.to_owned(), why };
        let requirements = Parser { text, at: 0 }.requirements().map_err(invalid)?;
        Ok(Self { requirements })
    }
}

// === impl Parser ===

impl<'a> Parser<'a> {
    fn requirements(mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        if self.peek().text.is_empty() {
            return Ok(requirements);
        }
        loop {
            requirements.push(self.requirement()?);
            let token = self.next();
            match token.text {
                "" => return Ok(requirements),
                "," => {}
                _ => return Err(token.instead_of("`,`")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        if self.peek().text == "!" {
            self.next();
            return Ok(Requirement { label: self.label()?, condition: Condition::Absent });
        }
        let label = self.label()?;
        let operator = self.peek();
        let condition = match operator.text {
            "" | "," => return Ok(Requirement { label, condition: Condition::Exists }),
            "=" | "==" | "!=" => {
                self.next();
                let value = BTreeSet::from([self.value()?]);
                if operator.text == "!=" { Condition::NotIn(value) } else { Condition::In(value) }
            }
            "in" | "notin" => {
                self.next();
                let values = self.values()?;
                if operator.text == "in" { Condition::In(values) } else { Condition::NotIn(values) }
            }
            "<" | ">" => {
                self.next();
                let bound = self.next();
                let number = bound.text.parse().map_err(|_| bound.instead_of("a whole number"))?;
                if operator.text == ">" { Condition::Above(number) } else { Condition::Below(number) }
            }
            // As after any complete condition.
            _ => return Err(operator.instead_of("`=`, `!=`, `in`, `notin`, `<`, `>` or `,`")),
        };
        Ok(Requirement { label, condition })
    }

    fn label(&mut self) -> Result<String, String> {
        let token = self.next();
        if !token.is_word() {
            return Err(token.instead_of("a label's name"));
        }
        check_label_name(token.text)?;
        Ok(token.text.to_owned())
    }

    /// A value, which may be empty: `a=,b` and `a in (,x)`.
    fn value(&mut self) -> Result<String, String> {
        let token = self.peek();
        if matches!(token.text, "" | "," | ")") {
            return Ok(String::new());
        }
        if !token.is_word() {
            return Err(token.instead_of("a value"));
        }
        self.next();
        check_label_value(token.text)?;
        Ok(token.text.to_owned())
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let open = self.next();
        if open.text != "(" {
            return Err(open.instead_of("`(`"));
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value()?);
            let token = self.next();
            match token.text {
                ")" => return Ok(values),
                "," => {}
                _ => return Err(token.instead_of("`,` or `)`")),
            }
        }
    }

    fn peek(&self) -> Token<'a> {
        let rest = &self.text[self.at..];
        let at = self.at + (rest.len() - rest.trim_start().len());
        let rest = &self.text[at..];
        let is_special = |c: char| "=!,()<>".contains(c);
        let len = match rest.chars().next() {
            Some('=' | '!') if rest[1..].starts_with('=') => 2,
            Some(first) if is_special(first) => 1,
            _ => rest.find(|c: char| is_special(c) || c.is_whitespace()).unwrap_or(rest.len()),
        };
        Token { text: &rest[..len], at }
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at = token.at + token.text.len();
        token
    }
}

impl Token<'_> {
    fn is_word(self) -> bool {
        !self.text.is_empty() && !self.text.starts_with(['=', '!', ',', '(', ')', '<', '>'])
    }

    fn instead_of(self, expected: &str) -> String {
        match self.text {
            "" => format!("{expected} expected at its end"),
            text => format!("{expected} expected, found `{text}` at {}", self.at),
        }
    }
}

fn check_label_name(name: &str) -> Result<(), String> {
    let (prefix, short) = name.rsplit_once('/').map_or((None, name), |(prefix, short)| (Some(prefix), short));
    if prefix.is_some_and(|prefix| prefix.is_empty() || prefix.len() > 253 || prefix.contains('/')) {
        return Err(format!("`{name}` is no label's name: its prefix is no domain name"));
    }
    if short.is_empty() || !is_label_text(short) {
        return Err(format!("`{name}` is no label's name: {LABEL_TEXT}"));
    }
    Ok(())
}

fn check_label_value(value: &str) -> Result<(), String> {
    match is_label_text(value) {
        true => Ok(()),
        false => Err(format!("`{value}` is no label's value: {LABEL_TEXT}")),
    }
}

const LABEL_TEXT: &str =
    "up to 63 letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit";

fn is_label_text(text: &str) -> bool {
    let ends = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63
        && text.starts_with(ends)
        && text.ends_with(ends)
        && text.chars().all(|c| ends(c) || "-_.".contains(c))
}

// === impl FieldSelector ===

impl FieldSelector {
    /// Whether the selector can still select an object of this namespace and name. Other fields are the server's affair.
    pub(crate) fn may_select(&self, namespace: &str, name: &str) -> bool {
        self.requirements.iter().all(|requirement| {
            let found = match requirement.path.as_str() {
                "metadata.name" => name,
                "metadata.namespace" => namespace,
                _ => return true,
            };
            (found == requirement.value) == requirement.equal
        })
    }
}

impl FromStr for FieldSelector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        let invalid = |why| InvalidSelector { what: "field", text: text.to_owned(), why };
        let terms = split_terms(text);
        let requirements = terms.iter().filter(|term| !term.is_empty()).map(|term| field_requirement(term));
        Ok(Self { requirements: requirements.collect::<Result<_, _>>().map_err(invalid)? })
    }
}

/// Splits at commas that no backslash stands before.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c| {
        let splits = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        splits
    })
    .collect()
}

fn field_requirement(term: &str) -> Result<FieldRequirement, String> {
    let Some(at) = term.find(['=', '!']) else {
        return Err(format!("`{term}` has none of `=`, `==` and `!=`"));
    };
    let (path, rest) = term.split_at(at);
    let (equal, value) = if let Some(value) = rest.strip_prefix("!=") {
        (false, value)
    } else if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
        (true, value)
    } else {
        return Err(format!("`{term}` has none of `=`, `==` and `!=`"));
    };
    if path.trim().is_empty() {
        return Err(format!("`{term}` names no field"));
    }
    Ok(FieldRequirement { path: path.trim().to_owned(), value: unescape(value)?, equal })
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(format!(r"`\{other}` is no escape: write `\\`, `\,` or `\=`"));
                }
            },
            '=' => return Err(format!(r"`{value}` holds an `=`: write `\=`")),
            c => plain.push(c),
        }
    }
    Ok(plain)
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.requirements.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let operator = if requirement.equal { "=" } else { "!=" };
            let value = requirement.value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
            write!(f, "{comma}{}{operator}{value}", requirement.path)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str, labels: &[(&'static str, &'static str)]) -> bool {
        selector.parse::<LabelSelector>().unwrap().matches(labels.iter().copied())
    }

    #[test]
    fn label_selectors_select_as_kubectls_do() {
        let labels = &[("tier", "backend"), ("example.com/rank", "7"), ("empty", "")];
        for yes in [
            "",
            " ",
            "tier",
            "tier=backend",
            "tier==backend",
            "tier = backend",
            "tier!=front",
            "absent!=x",
            "!absent",
            "tier in (backend)",
            "tier in ( front , backend )",
            "tier notin (front)",
            "absent notin (a,b)",
            "example.com/rank>6",
            "example.com/rank < 8",
            "tier=backend,!absent,empty=",
            "empty in (,x)",
            "in notin (x)",
        ] {
            assert!(selects(yes, labels), "{yes}");
        }
        for no in [
            "absent",
            "tier=front",
            "tier!=backend",
            "!tier",
            "tier in (front,db)",
            "tier notin (backend)",
            "example.com/rank>7",
            "tier<8",
            "absent=",
            "absent>1",
            "tier=backend,absent",
        ] {
            assert!(!selects(no, labels), "{no}");
        }
    }

    #[test]
    fn bad_label_selectors_are_told_apart() {
        for (bad, why) in [
            ("a=b=c", "`,` expected, found `=` at 3"),
            (",a", "a label's name expected, found `,` at 0"),
            ("a,", "a label's name expected at its end"),
            ("a b", "`=`, `!=`, `in`, `notin`, `<`, `>` or `,` expected, found `b` at 2"),
            ("a in b", "`(` expected, found `b` at 5"),
            ("a in (b", "`,` or `)` expected at its end"),
            ("a>x", "a whole number expected, found `x` at 2"),
            ("a!b", "`=`, `!=`, `in`, `notin`, `<`, `>` or `,` expected, found `!` at 1"),
            ("-a", "`-a` is no label's name"),
            ("/a", "its prefix is no domain name"),
            ("a=b_", "`b_` is no label's value"),
            ("ä=b", "`ä` is no label's name"),
        ] {
            let error = bad.parse::<LabelSelector>().unwrap_err().to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn field_selectors_are_read_with_their_escapes() {
        let selector: FieldSelector =
            r"metadata.name=web,spec.x!=a\,b\=c,status.phase==Running".parse().unwrap();
        assert_eq!(selector.to_string(), r"metadata.name=web,spec.x!=a\,b\=c,status.phase=Running");
        assert!(selector.may_select("any", "web") && !selector.may_select("any", "api"));
        for bad in ["metadata.name", "=x", "a!b", r"a=\x", "a=b=c"] {
            assert!(bad.parse::<FieldSelector>().is_err(), "{bad}");
        }
    }
}
