//! The syntax of shard selectors: a part of CEL. All of the text is parsed first, then calls and arguments are checked,
//! so that errors are found in the same order as by a kube-apiserver.

use std::ops::RangeInclusive;

use super::{ShardField, ShardSelector};

/// Maximum depth of parentheses and arguments.
const DEPTH_MAX: usize = 250;

/// 2^64, the exclusive end of the last range.
const END: &str = "0x10000000000000000";

/// Operators of comparison, longest first, and their names in CEL.
const RELATIONS: [(&str, &str); 6] =
    [("==", "_==_"), ("!=", "_!=_"), ("<=", "_<=_"), (">=", "_>=_"), ("<", "_<_"), (">", "_>_")];

/// An expression, with the details that selectors and error messages need.
enum ShardExpression<'a> {
    /// An identifier, or fields of one: `object.metadata.uid`.
    Path(String),
    /// A field of another expression, which has this kind.
    Field(u8),
    Text(&'a str),
    /// Another literal, of this Go type.
    Literal(&'static str),
    /// `a || b || …`
    Or(Vec<Self>),
    /// A function, or the name of an operator.
    Call {
        function: &'a str,
        arguments: Vec<Self>,
    },
}

struct ShardParser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

/// Parses a selector. The error has the wording of a kube-apiserver.
pub(super) fn selector(text: &str) -> Result<ShardSelector, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("empty shard selector is not allowed; omit the parameter for unfiltered lists".to_owned());
    }
    let mut parser = ShardParser { text, at: 0, depth: 0 };
    let expression = parser.or()?;
    if !parser.rest().is_empty() {
        return Err(parser.unexpected());
    }
    let mut requirements = Vec::new();
    expression.collect(&mut requirements)?;
    let field = requirements.first().map_or(ShardField::Uid, |(field, _)| *field);
    if let Some((other, _)) = requirements.iter().find(|(other, _)| *other != field) {
        let (field, other) = (field.path(), other.path());
        return Err(format!("all shard ranges must use the same field, got {field:?} and {other:?}"));
    }
    Ok(ShardSelector { field, ranges: requirements.into_iter().map(|(_, range)| range).collect() })
}

// === impl ShardParser ===

impl<'a> ShardParser<'a> {
    /// The text after white space.
    fn rest(&mut self) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let trimmed = rest.trim_start_matches(['\t', ' ', '\r', '\n', '\u{c}']);
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn accept(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.accept(token) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Takes the text while `is_part` holds; `None` if it is empty.
    fn take(&mut self, is_part: impl Fn(char) -> bool) -> Option<&'a str> {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        (!taken.is_empty()).then_some(taken)
    }

    fn identifier(&mut self) -> Result<&'a str, String> {
        let starts = self.rest().starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let name = if starts { self.take(|c| c.is_ascii_alphanumeric() || c == '_') } else { None };
        name.ok_or_else(|| self.unexpected())
    }

    fn unexpected(&mut self) -> String {
        let found = self.rest().split([' ', '\t', '\r', '\n']).next().unwrap_or_default();
        if found.is_empty() {
            return "CEL parse error: Syntax error: unexpected end of text".to_owned();
        }
        format!("CEL parse error: Syntax error: unexpected {found:?} at byte {}", self.at)
    }

    fn or(&mut self) -> Result<ShardExpression<'a>, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("CEL parse error: expression recursion limit exceeded: {DEPTH_MAX}"));
        }
        let first = self.and()?;
        let mut all = vec![first];
        while self.accept("||") {
            all.push(self.and()?);
        }
        self.depth -= 1;
        Ok(if all.len() > 1 { ShardExpression::Or(all) } else { all.remove(0) })
    }

    fn and(&mut self) -> Result<ShardExpression<'a>, String> {
        let mut expression = self.relation()?;
        while self.accept("&&") {
            self.relation()?;
            expression = ShardExpression::operator("_&&_");
        }
        Ok(expression)
    }

    fn relation(&mut self) -> Result<ShardExpression<'a>, String> {
        let mut expression = self.not()?;
        while let Some((_, name)) = RELATIONS.iter().find(|(operator, _)| self.accept(operator)) {
            self.not()?;
            expression = ShardExpression::operator(name);
        }
        Ok(expression)
    }

    fn not(&mut self) -> Result<ShardExpression<'a>, String> {
        let mut negated = false;
        while self.accept("!") {
            negated = true;
        }
        let expression = self.member()?;
        Ok(if negated { ShardExpression::operator("!_") } else { expression })
    }

    fn member(&mut self) -> Result<ShardExpression<'a>, String> {
        let mut expression = self.primary()?;
        while self.accept(".") {
            let name = self.identifier()?;
            expression = if self.accept("(") {
                ShardExpression::Call { function: name, arguments: self.arguments()? }
            } else {
                match expression {
                    ShardExpression::Path(path) => ShardExpression::Path(path + "." + name),
                    other => ShardExpression::Field(other.innermost_kind()),
                }
            };
        }
        Ok(expression)
    }

    fn primary(&mut self) -> Result<ShardExpression<'a>, String> {
        if self.accept("(") {
            let expression = self.or()?;
            self.expect(")")?;
            return Ok(expression);
        }
        for quote in ['\'', '"'] {
            let quoted = self.rest().strip_prefix(quote).and_then(|rest| rest.split_once(quote));
            if let Some((text, _)) = quoted.filter(|(text, _)| !text.contains(['\\', '\n', '\r'])) {
                self.at += text.len() + 2;
                return Ok(ShardExpression::Text(text));
            }
        }
        if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            let number = self.take(|c| c.is_ascii_alphanumeric() || c == '.').unwrap_or_default();
            return Ok(ShardExpression::Literal(number_type(number)));
        }
        let name = self.identifier()?;
        if self.accept("(") {
            return Ok(ShardExpression::Call { function: name, arguments: self.arguments()? });
        }
        Ok(match name {
            "true" | "false" => ShardExpression::Literal("bool"),
            "null" => ShardExpression::Literal("structpb.NullValue"),
            name => ShardExpression::Path(name.to_owned()),
        })
    }

    /// The arguments of a call, after its opening parenthesis.
    fn arguments(&mut self) -> Result<Vec<ShardExpression<'a>>, String> {
        let mut arguments = Vec::new();
        if self.accept(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.or()?);
            if !self.accept(",") {
                self.expect(")")?;
                return Ok(arguments);
            }
        }
    }
}

/// The Go type of a number.
fn number_type(text: &str) -> &'static str {
    let is_hexadecimal = text.starts_with("0x");
    match text {
        text if text.ends_with(['u', 'U']) => "uint64",
        text if text.contains('.') || (!is_hexadecimal && text.contains(['e', 'E'])) => "float64",
        _ => "int64",
    }
}

// === impl ShardExpression ===

impl<'a> ShardExpression<'a> {
    /// Operators other than `||` are errors, whatever their operands.
    fn operator(name: &'a str) -> Self {
        Self::Call { function: name, arguments: Vec::new() }
    }

    /// The number of the kind in CEL's syntax tree.
    fn kind(&self) -> u8 {
        match self {
            Self::Or(_) | Self::Call { .. } => 1,
            Self::Path(path) if !path.contains('.') => 3,
            Self::Text(_) | Self::Literal(_) => 5,
            Self::Path(_) | Self::Field(_) => 7,
        }
    }

    /// The kind of the expression whose field this is; its own kind if it is not a field.
    fn innermost_kind(&self) -> u8 {
        if let Self::Field(kind) = self { *kind } else { self.kind() }
    }

    /// Appends the field and range of each call, from left to right.
    fn collect(&self, found: &mut Vec<(ShardField, RangeInclusive<u64>)>) -> Result<(), String> {
        match self {
            Self::Or(alternatives) => {
                alternatives.iter().try_for_each(|alternative| alternative.collect(found))
            }
            Self::Call { function: "shardRange", arguments } => {
                found.push(requirement(arguments)?);
                Ok(())
            }
            Self::Call { function, .. } => {
                Err(format!("unsupported function {function:?}; only shardRange() and || are allowed"))
            }
            other => Err(format!(
                "unexpected expression kind {}; expected shardRange() call or || operator",
                other.kind()
            )),
        }
    }

    /// The text of a bound.
    fn bound(&self, name: &str) -> Result<&'a str, String> {
        let text = match self {
            Self::Text(text) => *text,
            Self::Literal(found) => return Err(format!("{name} must be a string literal, got {found}")),
            other => {
                let kind = other.kind();
                return Err(format!(
                    "{name} must be a string literal (e.g. '0xff'), got expression kind {kind}"
                ));
            }
        };
        let Some(hex) = text.strip_prefix("0x") else {
            return Err(format!("{name} must have '0x' prefix, got {text:?}"));
        };
        let digits = hex.len();
        if digits == 0 {
            return Err(format!("{name}: hex value is required after '0x'"));
        }
        if digits > 17 {
            return Err(format!("{name}: hex value too long ({digits} chars, max 17): {hex:?}"));
        }
        if let Some(other) = hex.chars().find(|c| !matches!(c, '0'..='9' | 'a'..='f')) {
            return Err(format!("{name}: invalid hex character {:?} in {text:?}", other.to_string()));
        }
        if digits == 17 && text != END {
            return Err(format!("{name}: 17-digit hex value must be '{END}' (2^64), got {text:?}"));
        }
        if digits < 16 {
            let padded = format!("0x{hex:0>16}");
            return Err(format!(
                "{name} must be a 0x-prefixed 16-digit hex value, got {text:?} (did you mean {padded:?}?)"
            ));
        }
        Ok(text)
    }
}

/// The field and the range of a call.
fn requirement(arguments: &[ShardExpression<'_>]) -> Result<(ShardField, RangeInclusive<u64>), String> {
    let [path, start, end] = arguments else {
        return Err(format!("shardRange() requires exactly 3 arguments, got {}", arguments.len()));
    };
    let ShardExpression::Path(path) = path else {
        return Err(format!(
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind {}",
            path.innermost_kind()
        ));
    };
    let field = ShardField::from_path(path).ok_or_else(|| {
        format!("unsupported field path {path:?}; supported: object.metadata.uid, object.metadata.namespace")
    })?;
    let (start, end) = (start.bound("hexStart")?, end.bound("hexEnd")?);
    match (number(start), number(end).checked_sub(1)) {
        (first, Some(last)) if first <= last => {
            // Less than 2^64.
            let hash = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
            Ok((field, hash(first)..=hash(last)))
        }
        _ => Err(format!("shard range start {start} must be less than end {end}")),
    }
}

/// The number of a valid bound.
fn number(bound: &str) -> u128 {
    bound.strip_prefix("0x").and_then(|hex| u128::from_str_radix(hex, 16).ok()).unwrap_or(0)
}
