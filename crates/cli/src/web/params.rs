//! The parameters of a query. A misspelt filter must not match everything, so an unknown parameter is an error.

use super::Refusal;

/// Most parameters of one request: the page asks for the informers of 40 rows.
const PARAMS_MAX: usize = 64;

/// The parameters that no reader has taken yet.
#[derive(Debug)]
pub(super) struct Params {
    left: Vec<(String, String)>,
    known: Vec<&'static str>,
}

impl Params {
    pub(super) fn parse(query: Option<&str>) -> Result<Self, Refusal> {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let left: Vec<(String, String)> =
            pairs.take(PARAMS_MAX + 1).map(|(name, value)| (name.into(), value.into())).collect();
        if left.len() > PARAMS_MAX {
            return Err(Refusal::bad_request(format!("more than {PARAMS_MAX} parameters")));
        }
        Ok(Self { left, known: Vec::new() })
    }

    /// Every value of a parameter that may be repeated.
    pub(super) fn all(&mut self, name: &'static str) -> Vec<String> {
        self.known.push(name);
        let taken = self.left.extract_if(.., |(found, _)| *found == name);
        taken.map(|(_, value)| value).collect()
    }

    /// The value of a parameter; an empty one counts as absent.
    pub(super) fn one(&mut self, name: &'static str) -> Result<Option<String>, Refusal> {
        let mut values = self.all(name);
        match values.len() {
            0 | 1 => Ok(values.pop().filter(|value| !value.is_empty())),
            _ => Err(Refusal::bad_request(format!("parameter {name:?} is given more than once"))),
        }
    }

    /// A number up to a limit.
    pub(super) fn number(&mut self, name: &'static str, max: usize) -> Result<Option<usize>, Refusal> {
        self.one(name)?.map(|text| parse_number(name, &text, max)).transpose()
    }

    /// Numbers up to a limit, from a parameter that may be repeated.
    pub(super) fn numbers(&mut self, name: &'static str, max: usize) -> Result<Vec<usize>, Refusal> {
        self.all(name).iter().map(|text| parse_number(name, text, max)).collect()
    }

    /// Refuses the parameters that were not taken.
    pub(super) fn finish(self) -> Result<(), Refusal> {
        match self.left.first() {
            None => Ok(()),
            Some((name, _)) => Err(Refusal::bad_request(format!(
                "unknown parameter {name:?}; use {}",
                self.known.join(", ")
            ))),
        }
    }
}

fn parse_number(name: &str, text: &str, max: usize) -> Result<usize, Refusal> {
    match text.parse() {
        Ok(number) if number <= max => Ok(number),
        _ => Err(Refusal::bad_request(format!("invalid {name} {text:?}: give a number from 0 to {max}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_repeated_and_invalid_parameters_are_refused() {
        let mut params = Params::parse(Some("a=1&b=x&b=y&c=&d=9")).unwrap();
        assert_eq!(params.one("a").unwrap().as_deref(), Some("1"));
        assert_eq!(params.all("b"), ["x", "y"]);
        assert_eq!(params.one("c").unwrap(), None);
        assert!(params.finish().unwrap_err().message.contains("\"d\"; use a, b, c"));
        let mut params = Params::parse(Some("a=1&a=2&n=11&m=x")).unwrap();
        assert!(params.one("a").is_err());
        assert!(params.number("n", 10).unwrap_err().message.contains("from 0 to 10"));
        assert!(params.number("m", 10).is_err());
        let mut params = Params::parse(Some("n=3&n=0&m=1&m=11")).unwrap();
        assert_eq!(params.numbers("n", 10).unwrap(), [3, 0]);
        assert!(params.numbers("m", 10).unwrap_err().message.contains("invalid m \"11\""));
        assert!(Params::parse(Some(&"a=1&".repeat(PARAMS_MAX + 1))).is_err());
    }
}
