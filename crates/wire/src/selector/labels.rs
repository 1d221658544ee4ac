//! Label selectors in their full syntax: `a=b,c!=d,e in (f,g),!h,i,j>1`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use serde_json::Value;

use super::{Form, InvalidSelector, Problem};
use crate::names;

/// Conditions on labels, all of which must hold: `tier=backend,env in (dev,test),!legacy`.
///
/// ```
/// use kube_wire::LabelSelector;
///
/// let selector: LabelSelector = "tier=backend, env notin (prod), !legacy".parse()?;
/// assert!(selector.matches([("tier", "backend"), ("env", "dev")]));
/// assert!(!selector.matches([("tier", "backend"), ("env", "prod")]));
/// assert_eq!("a=b=c".parse::<LabelSelector>().unwrap_err().to_string(),
///            r#"invalid label selector "a=b=c" at byte 3: found '=', expected: ',' or 'end of string'"#);
/// # Ok::<(), kube_wire::InvalidSelector>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
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
    /// Also matches objects without the label.
    NotIn(BTreeSet<String>),
    Above(i64),
    Below(i64),
}

/// A word, or one of `= == != , ( ) ! < >`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token<'a> {
    text: &'a str,
    at: usize,
}

struct SelectorParser<'a> {
    text: &'a str,
    at: usize,
}

// === impl LabelSelector ===

impl LabelSelector {
    /// The text of the `LabelSelector` of an object, such as the `spec.selector` of a Deployment. The text of an invalid
    /// selector does not parse. A selector without requirements has no text and selects everything.
    ///
    /// ```
    /// use kube_wire::LabelSelector;
    /// use serde_json::json;
    ///
    /// let selector = json!({
    ///     "matchLabels": {"app": "web"},
    ///     "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
    /// });
    /// assert_eq!(LabelSelector::text_of(&selector), "app=web,zone in (a,b)");
    /// ```
    #[must_use]
    pub fn text_of(selector: &Value) -> String {
        let labels = selector["matchLabels"].as_object().into_iter().flatten();
        let labels = labels.map(|(label, value)| format!("{label}={}", value.as_str().unwrap_or("?")));
        let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
        labels.chain(expressions.map(expression_text)).collect::<Vec<_>>().join(",")
    }

    /// Whether the selector matches an object with these labels.
    pub fn matches<'a>(&self, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> bool {
        let labels = labels.into_iter().collect::<BTreeMap<_, _>>();
        self.matches_by(|label| labels.get(label).map(|value| Cow::Borrowed(*value)))
    }

    /// Whether all objects are selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether the selector matches an object whose labels `value` returns.
    pub fn matches_by<'a>(&self, value: impl Fn(&str) -> Option<Cow<'a, str>>) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(value(&requirement.label).as_deref()))
    }
}

impl Requirement {
    /// Rejects invalid label keys and values.
    fn checked(self) -> Result<Self, Problem> {
        if let Some(detail) = names::label_key(&self.label) {
            return Err(format!("<nil>: Invalid value: {:?}: {detail}", self.label).into());
        }
        if let Condition::In(values) | Condition::NotIn(values) = &self.condition {
            for (at, value) in values.iter().enumerate() {
                if let Some(detail) = names::label_value(value) {
                    let field = format!("values[{at}][{}]", self.label);
                    return Err(format!("{field}: Invalid value: {value:?}: {detail}").into());
                }
            }
        }
        Ok(self)
    }

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
        let invalid = |problem| InvalidSelector { form: Form::Labels, text: text.to_owned(), problem };
        let requirements = SelectorParser { text, at: 0 }.requirements().map_err(invalid)?;
        Ok(Self { requirements })
    }
}

// === impl SelectorParser ===

impl<'a> SelectorParser<'a> {
    fn requirements(mut self) -> Result<Vec<Requirement>, Problem> {
        let mut requirements = Vec::new();
        if self.peek().text.is_empty() {
            return Ok(requirements);
        }
        loop {
            requirements.push(self.requirement().and_then(Requirement::checked).map_err(|problem| {
                Problem { reason: format!("unable to parse requirement: {}", problem.reason), ..problem }
            })?);
            let token = self.next();
            match token.text {
                "" => return Ok(requirements),
                "," => {
                    let next = self.peek();
                    if !next.is_word() && next.text != "!" {
                        return Err(next.instead_of("identifier after ','"));
                    }
                }
                _ => return Err(token.instead_of("',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, Problem> {
        if self.peek().text == "!" {
            self.next();
            return Ok(Requirement { label: self.word()?, condition: Condition::Absent });
        }
        let label = self.word()?;
        if matches!(self.peek().text, "" | ",") {
            return Ok(Requirement { label, condition: Condition::Exists });
        }
        let operator = self.next();
        let condition = match operator.text {
            "=" | "==" => Condition::In(BTreeSet::from([self.value()?])),
            "!=" => Condition::NotIn(BTreeSet::from([self.value()?])),
            "in" => Condition::In(self.values()?),
            "notin" => Condition::NotIn(self.values()?),
            ">" => Condition::Above(self.bound()?),
            "<" => Condition::Below(self.bound()?),
            _ => return Err(operator.instead_of("in, notin, =, ==, !=, gt, lt")),
        };
        Ok(Requirement { label, condition })
    }

    fn word(&mut self) -> Result<String, Problem> {
        let token = self.next();
        if token.is_word() { Ok(token.text.to_owned()) } else { Err(token.instead_of("identifier")) }
    }

    /// A value, which may be empty: `a=,b`.
    fn value(&mut self) -> Result<String, Problem> {
        if matches!(self.peek().text, "" | ",") { Ok(String::new()) } else { self.word() }
    }

    fn bound(&mut self) -> Result<i64, Problem> {
        let value = self.value()?;
        let why = "for 'Gt', 'Lt' operators, the value must be an integer";
        value.parse().map_err(|_| format!("values[0]: Invalid value: {value:?}: {why}").into())
    }

    /// Values in parentheses, any of which may be empty: `(,x)`.
    fn values(&mut self) -> Result<BTreeSet<String>, Problem> {
        let open = self.next();
        if open.text != "(" {
            let reason = format!("found '{}' expected: '('", open.text);
            return Err(Problem { reason, at: Some(open.at) });
        }
        let mut values = BTreeSet::new();
        loop {
            let mut token = self.next();
            if token.is_word() {
                values.insert(token.text.to_owned());
                token = self.next();
                if !matches!(token.text, "," | ")") {
                    return Err(token.instead_of("',' or ')'"));
                }
            } else if matches!(token.text, "," | ")") {
                values.insert(String::new());
            } else {
                return Err(token.instead_of("',', ')' or identifier"));
            }
            if token.text == ")" {
                return Ok(values);
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

    fn instead_of(self, expected: &str) -> Problem {
        Problem { reason: format!("found '{}', expected: {expected}", self.text), at: Some(self.at) }
    }
}

/// The text of one of the `matchExpressions`.
fn expression_text(expression: &Value) -> String {
    let key = expression["key"].as_str().unwrap_or_default();
    let operator = expression["operator"].as_str().unwrap_or_default();
    let values: Vec<_> = expression["values"].as_array().into_iter().flatten().collect();
    let list = values.iter().map(|value| value.as_str().unwrap_or("?")).collect::<Vec<_>>().join(",");
    match (operator, values.as_slice()) {
        ("Exists", []) => key.to_owned(),
        ("DoesNotExist", []) => format!("!{key}"),
        ("In", [_, ..]) => format!("{key} in ({list})"),
        ("NotIn", [_, ..]) => format!("{key} notin ({list})"),
        // The API server rejects these, and so does the parser.
        _ => format!("{key} {operator} ({list})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str, labels: &[(&'static str, &'static str)]) -> bool {
        selector.parse::<LabelSelector>().unwrap().matches(labels.iter().copied())
    }

    #[test]
    fn label_selectors_match_like_kubectl() {
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
            "empty in ()",
            "! absent",
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
    fn invalid_label_selectors_have_the_kubernetes_message() {
        for (bad, at, why) in [
            ("a=b=c", 3, "found '=', expected: ',' or 'end of string'"),
            (",a", 0, "unable to parse requirement: found ',', expected: identifier"),
            ("a,", 2, "found '', expected: identifier after ','"),
            ("a===", 3, "unable to parse requirement: found '=', expected: identifier"),
            ("a b", 2, "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a!b", 1, "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
            ("a in b", 5, "unable to parse requirement: found 'b' expected: '('"),
            ("a in (b", 7, "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a in (=", 6, "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ] {
            let error = bad.parse::<LabelSelector>().unwrap_err();
            assert_eq!(error.kubernetes_message(), why, "{bad}");
            assert_eq!(error.to_string(), format!("invalid label selector {bad:?} at byte {at}: {why}"));
        }
        for (bad, why) in [
            (
                "a>x",
                "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            ("-a", "<nil>: Invalid value: \"-a\": name part must consist of"),
            ("/a", "<nil>: Invalid value: \"/a\": prefix part must be non-empty"),
            ("a=b_", "values[0][a]: Invalid value: \"b_\": a valid label must be"),
        ] {
            let error = bad.parse::<LabelSelector>().unwrap_err().to_string();
            let start = format!("invalid label selector {bad:?}: unable to parse requirement: {why}");
            assert!(error.starts_with(&start), "{error}");
        }
    }
}
