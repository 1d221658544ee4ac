//! Label selectors in their full syntax: `a=b,c!=d,e in (f,g),!h,i,j>1`, with the error texts of Kubernetes.

use crate::objects::names::{label_key_problem, label_value_problem};
use crate::storage::Attributes;

/// Requirements that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    GreaterThan(i64),
    LessThan(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Not,
    Equals(&'a str),
    NotEquals,
    Greater,
    Less,
    Comma,
    Open,
    Close,
    End,
}

impl LabelSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let tokens = tokens(text);
        let mut parser = Parser { tokens: &tokens, at: 0 };
        parser.requirements().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, attributes: &Attributes) -> bool {
        self.0.iter().all(|requirement| {
            let value = attributes.label(&requirement.key);
            match &requirement.operator {
                Operator::Exists => value.is_some(),
                Operator::Absent => value.is_none(),
                Operator::In(values) => value.is_some_and(|value| values.iter().any(|v| v == value)),
                Operator::NotIn(values) => !value.is_some_and(|value| values.iter().any(|v| v == value)),
                Operator::GreaterThan(bound) => number(value).is_some_and(|number| number > *bound),
                Operator::LessThan(bound) => number(value).is_some_and(|number| number < *bound),
            }
        })
    }
}

impl Requirement {
    /// Refuses keys and values that no label can have.
    fn checked(self) -> Result<Self, String> {
        if let Some(detail) = label_key_problem(&self.key) {
            return Err(format!("<nil>: Invalid value: {:?}: {detail}", self.key));
        }
        if let Operator::In(values) | Operator::NotIn(values) = &self.operator {
            for (at, value) in values.iter().enumerate() {
                if let Some(detail) = label_value_problem(value) {
                    return Err(format!("values[{at}][{}]: Invalid value: {value:?}: {detail}", self.key));
                }
            }
        }
        Ok(self)
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        let (token, length) = match c {
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            ',' => (Token::Comma, 1),
            '!' if rest.starts_with("!=") => (Token::NotEquals, 2),
            '!' => (Token::Not, 1),
            '=' if rest.starts_with("==") => (Token::Equals("=="), 2),
            '=' => (Token::Equals("="), 1),
            '>' => (Token::Greater, 1),
            '<' => (Token::Less, 1),
            _ => {
                let special = |c: char| c.is_whitespace() || "(),!=<>".contains(c);
                let end = rest.find(special).unwrap_or(rest.len());
                (Token::Word(&rest[..end]), end)
            }
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    tokens.push(Token::End);
    tokens
}

struct Parser<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.at).copied().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        if self.peek() == Token::End {
            return Ok(requirements);
        }
        loop {
            let requirement = self.requirement().and_then(Requirement::checked);
            requirements.push(requirement.map_err(|error| format!("unable to parse requirement: {error}"))?);
            match self.next() {
                Token::End => return Ok(requirements),
                Token::Comma => match self.peek() {
                    Token::Word(_) | Token::Not => {}
                    other => return Err(format!("found '{}', expected: identifier after ','", text(other))),
                },
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", text(other))),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.peek() == Token::Not;
        if absent {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key.to_owned(),
            other => return Err(format!("found '{}', expected: identifier", text(other))),
        };
        if absent || matches!(self.peek(), Token::Comma | Token::End) {
            let operator = if absent { Operator::Absent } else { Operator::Exists };
            return Ok(Requirement { key, operator });
        }
        let operator = match self.next() {
            Token::Equals(_) => Operator::In(vec![self.value()?]),
            Token::NotEquals => Operator::NotIn(vec![self.value()?]),
            Token::Greater => Operator::GreaterThan(self.bound()?),
            Token::Less => Operator::LessThan(self.bound()?),
            Token::Word("in") => Operator::In(self.values()?),
            Token::Word("notin") => Operator::NotIn(self.values()?),
            other => {
                let expected = "in, notin, =, ==, !=, gt, lt";
                return Err(format!("found '{}', expected: {expected}", text(other)));
            }
        };
        Ok(Requirement { key, operator })
    }

    /// One value, which may be empty.
    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::End | Token::Comma => Ok(String::new()),
            Token::Word(word) => {
                self.next();
                Ok(word.to_owned())
            }
            other => Err(format!("found '{}', expected: identifier", text(other))),
        }
    }

    fn bound(&mut self) -> Result<i64, String> {
        let value = self.value()?;
        value.parse().map_err(|_| {
            format!(
                "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            )
        })
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            Token::Open => {}
            other => return Err(format!("found '{}' expected: '('", text(other))),
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(word) => {
                    values.push(word.to_owned());
                    match self.next() {
                        Token::Comma => {}
                        Token::Close => return Ok(values),
                        other => return Err(format!("found '{}', expected: ',' or ')'", text(other))),
                    }
                }
                Token::Comma => values.push(String::new()),
                Token::Close => {
                    values.push(String::new());
                    return Ok(values);
                }
                other => return Err(format!("found '{}', expected: ',', ')' or identifier", text(other))),
            }
        }
    }
}

fn text(token: Token<'_>) -> &str {
    match token {
        Token::Word(word) => word,
        Token::Not => "!",
        Token::Equals(text) => text,
        Token::NotEquals => "!=",
        Token::Greater => ">",
        Token::Less => "<",
        Token::Comma => ",",
        Token::Open => "(",
        Token::Close => ")",
        Token::End => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_syntax_selects() {
        let mut attributes = Attributes::builder();
        for (key, value) in [("app", "web"), ("n", "7"), ("empty", ""), ("example.com/x", "y")] {
            attributes.label(key, value);
        }
        let attributes = attributes.finish();
        for (text, expected) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("! missing", true),
            ("app=web", true),
            ("app==web", true),
            ("app = web , n = 7", true),
            ("app!=web", false),
            ("missing!=web", true),
            ("empty=", true),
            ("app in (api, web)", true),
            ("app in (api)", false),
            ("app notin (api,db)", true),
            ("missing notin (a)", true),
            ("missing in (a)", false),
            ("empty in ()", true),
            ("n>6,n<8", true),
            ("n>7", false),
            ("app>1", false),
            ("example.com/x=y", true),
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap().matches(&attributes), expected, "{text}");
        }
    }

    #[test]
    fn errors_have_the_words_of_kubernetes() {
        for (text, expected) in [
            ("a===", "unable to parse requirement: found '=', expected: identifier"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a,", "found '', expected: identifier after ','"),
            ("=a", "unable to parse requirement: found '=', expected: identifier"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap_err(), expected, "{text}");
        }
    }
}
