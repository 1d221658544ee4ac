//! JSON, newline-delimited JSON or YAML: by `format=`, or else by the header `Accept`.

use http::HeaderMap;
use http::header::ACCEPT;
use serde_json::Value;

use super::Refusal;
use super::params::Params;
use crate::output;
use crate::terminal::escape;

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Representation {
    /// One document: a `List`.
    Json,
    /// One object per line.
    Ndjson,
    /// One document per object.
    Yaml,
}

impl Representation {
    pub(super) fn take(params: &mut Params, headers: &HeaderMap) -> Result<Self, Refusal> {
        if let Some(format) = params.one("format")? {
            return match &*format {
                "json" => Ok(Self::Json),
                "ndjson" => Ok(Self::Ndjson),
                "yaml" => Ok(Self::Yaml),
                _ => {
                    Err(Refusal::bad_request(format!("unknown format {format:?}; use json, ndjson or yaml")))
                }
            };
        }
        let accepted = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        let types = accepted.split(',').map(|part| part.split(';').next().unwrap_or_default().trim());
        let mut known = types.filter_map(|media_type| match media_type {
            "application/json" => Some(Self::Json),
            "application/x-ndjson" | "application/jsonl" => Some(Self::Ndjson),
            "application/yaml" => Some(Self::Yaml),
            _ => None,
        });
        Ok(known.next().unwrap_or(Self::Json))
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::Yaml => "application/yaml",
        }
    }

    /// One object as an element of a list.
    pub(super) fn write(self, value: &Value, is_first: bool, text: &mut String) {
        match self {
            Self::Json => {
                text.push_str(if is_first { "\n" } else { ",\n" });
                text.push_str(&escape::json(&value.to_string()));
            }
            Self::Ndjson => {
                text.push_str(&escape::json(&value.to_string()));
                text.push('\n');
            }
            Self::Yaml => {
                text.push_str("---\n");
                text.push_str(&output::yaml(value));
                text.push('\n');
            }
        }
    }

    /// One object by itself.
    pub(super) fn single(self, value: &Value) -> String {
        match self {
            Self::Json => output::json(value) + "\n",
            Self::Ndjson => format!("{}\n", escape::json(&value.to_string())),
            Self::Yaml => output::yaml(value) + "\n",
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_parameter_wins_over_the_header_and_json_is_the_default() {
        let of = |query: &str, accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            Representation::take(&mut Params::parse(Some(query)).unwrap(), &headers)
        };
        assert_eq!(of("", "*/*").unwrap(), Representation::Json);
        assert_eq!(of("", "text/html, application/yaml;q=0.9").unwrap(), Representation::Yaml);
        assert_eq!(of("format=ndjson", "application/yaml").unwrap(), Representation::Ndjson);
        assert!(of("format=xml", "*/*").unwrap_err().message.contains("json, ndjson or yaml"));
    }
}
