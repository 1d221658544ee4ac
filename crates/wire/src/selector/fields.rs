//! Field selectors: `spec.nodeName=node-1,status.phase!=Running`.

use std::fmt;
use std::str::FromStr;

use super::{Form, InvalidSelector};

/// Conditions on fields, all of which must hold: `spec.nodeName=node-7,status.phase!=Running`.
///
/// ```
/// use kube_wire::FieldSelector;
///
/// let selector: FieldSelector = "metadata.name=web, status.phase!=Running".parse()?;
/// assert!(selector.may_select("default", "web") && !selector.may_select("default", "api"));
/// assert_eq!(selector.to_string(), "metadata.name=web,status.phase!=Running");
/// # Ok::<(), kube_wire::InvalidSelector>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    path: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// Whether all objects are selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether the selector can match an object with this namespace and name. Only a server can check other fields.
    pub fn may_select(&self, namespace: &str, name: &str) -> bool {
        self.requirements.iter().all(|requirement| match requirement.path.as_str() {
            "metadata.name" => requirement.holds(name),
            "metadata.namespace" => requirement.holds(namespace),
            _ => true,
        })
    }

    /// Whether the selector matches an object whose fields `value` returns.
    #[doc(hidden)]
    pub fn matches_by<'v>(&self, value: impl Fn(&str) -> &'v str) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(value(&requirement.path)))
    }

    /// Parses the selector of a request: unlike [`from_str`](FromStr::from_str), it keeps paths as written.
    ///
    /// # Errors
    /// If the text is not a valid selector.
    #[doc(hidden)]
    pub fn from_request(text: &str) -> Result<Self, InvalidSelector> {
        let terms = split_terms(text).filter(|term| !term.is_empty());
        Ok(Self { requirements: terms.map(|term| requirement(text, term)).collect::<Result<_, _>>()? })
    }

    /// The same selector with other paths.
    ///
    /// # Errors
    /// The first error of `map`.
    #[doc(hidden)]
    pub fn try_map_paths<E>(mut self, map: impl Fn(&str) -> Result<String, E>) -> Result<Self, E> {
        for requirement in &mut self.requirements {
            requirement.path = map(&requirement.path)?;
        }
        Ok(self)
    }
}

impl FieldRequirement {
    fn holds(&self, value: &str) -> bool {
        (value == self.value) == self.equal
    }
}

impl FromStr for FieldSelector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        Self::from_request(text)?.try_map_paths(|path| match path.trim() {
            "" => Err(invalid(Form::FieldTerm, text, "empty field path".to_owned())),
            path => Ok(path.to_owned()),
        })
    }
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

/// Splits at commas that are not escaped with a backslash.
fn split_terms(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |c| {
        let splits = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        splits
    })
}

fn requirement(text: &str, term: &str) -> Result<FieldRequirement, InvalidSelector> {
    let Some((path, equal, value)) = split_operator(term) else {
        return Err(invalid(Form::FieldTerm, text, format!("can't understand '{term}'")));
    };
    let value = unescape(value).map_err(|reason| invalid(Form::FieldValue, text, reason))?;
    Ok(FieldRequirement { path: path.to_owned(), value, equal })
}

fn split_operator(term: &str) -> Option<(&str, bool, &str)> {
    let (path, rest) = term.split_at(term.find(['=', '!'])?);
    let operators = [("!=", false), ("==", true), ("=", true)];
    operators.iter().find_map(|(operator, equal)| Some((path, *equal, rest.strip_prefix(operator)?)))
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
                    return Err(format!("invalid escape sequence: \\{other}"));
                }
            },
            ',' | '=' => return Err(format!("unescaped character in value: {}", u32::from(c))),
            c => plain.push(c),
        }
    }
    Ok(plain)
}

fn invalid(form: Form, text: &str, reason: String) -> InvalidSelector {
    InvalidSelector { form, text: text.to_owned(), problem: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_selectors_are_read_with_their_escapes() {
        let selector: FieldSelector =
            r"metadata.name=web,spec.x!=a\,b\=c,status.phase==Running".parse().unwrap();
        assert_eq!(selector.to_string(), r"metadata.name=web,spec.x!=a\,b\=c,status.phase=Running");
        assert!(selector.may_select("any", "web") && !selector.may_select("any", "api"));
        let value = |path: &str| if path == "spec.x" { "a,b=c" } else { "web" };
        assert!(!selector.matches_by(value));
        assert!(r"metadata.name=web,spec.x=a\,b\=c".parse::<FieldSelector>().unwrap().matches_by(value));
    }

    #[test]
    fn invalid_field_selectors_have_a_message_for_each_side() {
        for (text, client, server) in [
            ("a", "can't understand 'a'", "invalid selector: 'a'; can't understand 'a'"),
            ("a!b", "can't understand 'a!b'", "invalid selector: 'a!b'; can't understand 'a!b'"),
            (r"a=\x", r"invalid escape sequence: \x", r"invalid field selector: invalid escape sequence: \x"),
            (
                "a=b=c",
                "unescaped character in value: 61",
                "invalid field selector: unescaped character in value: 61",
            ),
        ] {
            let error = text.parse::<FieldSelector>().unwrap_err();
            assert_eq!(error.to_string(), format!("invalid field selector {text:?}: {client}"));
            assert_eq!(error.kubernetes_message(), server);
        }
        let error = "=x".parse::<FieldSelector>().unwrap_err();
        assert_eq!(error.to_string(), r#"invalid field selector "=x": empty field path"#);
        assert!(FieldSelector::from_request("=x").is_ok(), "a server looks the empty path up");
    }
}
