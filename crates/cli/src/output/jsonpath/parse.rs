//! Parses templates.

use serde_json::Value;

use super::{Comparison, Node, Operand, Step};

pub(super) fn template(text: &str) -> Result<Vec<Node>, String> {
    // The innermost open range is last; the first is the template itself.
    let mut open: Vec<(Vec<Step>, Vec<Node>)> = vec![(Vec::new(), Vec::new())];
    let mut rest = text;
    while !rest.is_empty() {
        let brace = rest.find('{').unwrap_or(rest.len());
        if brace > 0 {
            push(&mut open, Node::Text(rest[..brace].to_owned()));
            rest = &rest[brace..];
            continue;
        }
        let inside_len = closing_brace(&rest[1..])?;
        let inside = rest[1..=inside_len].trim();
        rest = &rest[inside_len + 2..];
        if inside == "end" {
            let Some((path, body)) = open.pop().filter(|_| !open.is_empty()) else {
                return Err("{end} without {range}".to_owned());
            };
            push(&mut open, Node::Range(path, body));
        } else if let Some(over) =
            inside.strip_prefix("range").filter(|over| over.starts_with(char::is_whitespace))
        {
            open.push((path(over.trim())?, Vec::new()));
        } else if inside.starts_with(['"', '\'']) {
            let mut cursor = Cursor { rest: inside };
            let text = cursor.quoted()?;
            cursor.end()?;
            push(&mut open, Node::Text(text));
        } else {
            push(&mut open, Node::Path(path(inside)?));
        }
    }
    match (open.len(), open.pop()) {
        (1, Some((_, nodes))) => Ok(nodes),
        _ => Err("{range} without {end}".to_owned()),
    }
}

/// A whole text that is one path.
pub(super) fn path(text: &str) -> Result<Vec<Step>, String> {
    let mut cursor = Cursor { rest: text };
    let steps = cursor.path()?;
    cursor.end()?;
    Ok(steps)
}

fn push(open: &mut [(Vec<Step>, Vec<Node>)], node: Node) {
    if let Some((_, nodes)) = open.last_mut() {
        nodes.push(node);
    }
}

/// The number of bytes before the closing brace; braces in quotes do not count.
fn closing_brace(text: &str) -> Result<usize, String> {
    let (mut quote, mut escaped) = (None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (_, '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '}') => return Ok(at),
            _ => {}
        }
    }
    Err(if quote.is_some() { "a quote is not closed" } else { "a brace is not closed" }.to_owned())
}

/// The rest of the text to parse.
struct Cursor<'t> {
    rest: &'t str,
}

impl Cursor<'_> {
    fn path(&mut self) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        if self.take("$") {
            steps.push(Step::Root);
        } else {
            self.take("@");
        }
        loop {
            if self.take("..") {
                steps.push(Step::Descend);
                if !self.rest.starts_with(['[', '*']) {
                    steps.push(self.field()?);
                } else if self.take("*") {
                    steps.push(Step::Every);
                }
            } else if self.take(".") {
                if self.take("*") {
                    steps.push(Step::Every);
                } else if self.rest.starts_with('[') {
                    // `.['name']` is the same as `['name']`.
                } else if !self.rest.is_empty() || !steps.is_empty() {
                    steps.push(self.field()?);
                }
            } else if self.take("[") {
                steps.push(self.bracket()?);
            } else {
                return Ok(steps);
            }
        }
    }

    fn field(&mut self) -> Result<Step, String> {
        let (mut name, mut escaped, mut end) = (String::new(), false, self.rest.len());
        for (at, c) in self.rest.char_indices() {
            if escaped {
                escaped = false;
            } else if c == '\\' {
                escaped = true;
                continue;
            } else if ".[]()=!<>,".contains(c) || c.is_whitespace() {
                end = at;
                break;
            }
            name.push(c);
        }
        if name.is_empty() {
            return Err(self.expected("the name of a field"));
        }
        self.rest = &self.rest[end..];
        Ok(Step::Field(name))
    }

    fn bracket(&mut self) -> Result<Step, String> {
        if self.take("?(") {
            let filter = self.filter()?;
            self.expect(")")?;
            self.expect("]")?;
            return Ok(filter);
        }
        let mut steps = vec![self.bracket_item()?];
        while self.take(",") {
            steps.push(self.bracket_item()?);
        }
        self.expect("]")?;
        Ok(if steps.len() == 1 { steps.remove(0) } else { Step::Union(steps) })
    }

    fn bracket_item(&mut self) -> Result<Step, String> {
        self.blanks();
        let step = if self.take("*") {
            Step::Every
        } else if self.rest.starts_with(['"', '\'']) {
            Step::Field(self.quoted()?)
        } else {
            let from = self.integer();
            if self.take(":") {
                let to = self.integer();
                let by = if self.take(":") { self.integer() } else { None };
                Step::Slice { from, to, by }
            } else {
                Step::Index(from.ok_or_else(|| self.expected("an index, a name in quotes, * or ?( )"))?)
            }
        };
        self.blanks();
        Ok(step)
    }

    fn filter(&mut self) -> Result<Step, String> {
        let left = self.operand()?;
        self.blanks();
        let comparisons = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        for (sign, comparison) in comparisons {
            if self.take(sign) {
                let right = self.operand()?;
                self.blanks();
                return Ok(Step::Filter { left, compare: Some((comparison, right)) });
            }
        }
        Ok(Step::Filter { left, compare: None })
    }

    fn operand(&mut self) -> Result<Operand, String> {
        self.blanks();
        if self.rest.starts_with(['"', '\'']) {
            return Ok(Operand::Literal(Value::String(self.quoted()?)));
        }
        if self.rest.starts_with(['@', '$', '.']) {
            return Ok(Operand::Path(self.path()?));
        }
        let end = self.rest.find(|c: char| ")=!<> ".contains(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        let literal =
            serde_json::from_str::<Value>(word).ok().filter(|value| !value.is_object() && !value.is_array());
        let literal =
            literal.ok_or_else(|| self.expected("@.path, a text in quotes, a number, true or false"))?;
        self.rest = rest;
        Ok(Operand::Literal(literal))
    }

    fn quoted(&mut self) -> Result<String, String> {
        let mut characters = self.rest.char_indices();
        let quote = characters.next().map(|(_, quote)| quote);
        let (mut text, mut escaped) = (String::new(), false);
        for (at, c) in characters {
            match c {
                _ if escaped => {
                    escaped = false;
                    text.push(match c {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        other => other,
                    });
                }
                '\\' => escaped = true,
                c if Some(c) == quote => {
                    self.rest = &self.rest[at + c.len_utf8()..];
                    return Ok(text);
                }
                c => text.push(c),
            }
        }
        Err("a quote is not closed".to_owned())
    }

    fn integer(&mut self) -> Option<i64> {
        let digits = self.rest.strip_prefix('-').unwrap_or(self.rest);
        let sign = self.rest.len() - digits.len();
        let end = sign + digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let number = self.rest[..end].parse().ok()?;
        self.rest = &self.rest[end..];
        Some(number)
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        self.blanks();
        if self.take(text) { Ok(()) } else { Err(self.expected(text)) }
    }

    fn end(&mut self) -> Result<(), String> {
        self.blanks();
        if self.rest.is_empty() { Ok(()) } else { Err(self.expected("the end")) }
    }

    fn expected(&self, what: &str) -> String {
        let found = if self.rest.is_empty() { "the end".to_owned() } else { format!("{:?}", self.rest) };
        format!("expected {what}, found {found}")
    }
}
