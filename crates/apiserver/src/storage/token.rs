//! The `continue` token of a paged list, in the form of a kube-apiserver: base64 of a JSON object with the list's
//! revision and the next key. A revision of −1 means the current revision; expired tokens are exchanged for such a
//! token.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use serde::{Deserialize, Serialize};

/// The position at which a list continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContinueToken {
    /// The list's revision; `None` for an inconsistent continuation.
    pub(crate) revision: Option<u64>,
    /// The next key.
    pub(crate) start: String,
}

/// Why a token was rejected, in the wording of a kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("continue key is not valid: {0}")]
pub(crate) struct TokenError(String);

#[derive(Deserialize, Serialize)]
struct TokenJson<'a> {
    v: &'a str,
    rv: i64,
    start: &'a str,
}

#[derive(Deserialize)]
struct WireOwned {
    #[serde(default)]
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

/// As lenient as Go's decoder.
const BASE64: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

const VERSION: &str = "meta.k8s.io/v1";
const NO_REVISION: i64 = -1;
/// Longer than any key: names have at most 253 characters, namespaces 63.
const LENGTH_MAX: usize = 4096;

impl ContinueToken {
    /// The token that continues after `last`, a key under `prefix`.
    pub(crate) fn after(last: &str, prefix: &str, revision: u64) -> Self {
        let relative = last.strip_prefix(prefix).unwrap_or(last);
        Self { revision: Some(revision), start: format!("/{relative}\0") }
    }

    /// The next key, under `prefix`.
    pub(crate) fn start_key(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.start.trim_start_matches('/'))
    }

    /// The same position at the current revision.
    pub(crate) fn inconsistent(&self) -> Self {
        Self { revision: None, start: self.start.trim_start_matches('/').to_owned() }
    }

    pub(crate) fn encode(&self) -> String {
        let rv = self.revision.map_or(NO_REVISION, |revision| i64::try_from(revision).unwrap_or(i64::MAX));
        let wire = TokenJson { v: VERSION, rv, start: &self.start };
        // Serializing a string and a number cannot fail.
        BASE64.encode(serde_json::to_vec(&wire).unwrap_or_default())
    }

    pub(crate) fn decode(text: &str) -> Result<Self, TokenError> {
        if text.len() > LENGTH_MAX {
            return Err(TokenError(format!("longer than {LENGTH_MAX} bytes")));
        }
        let bytes =
            BASE64.decode(text.trim_end_matches('=')).map_err(|error| TokenError(error.to_string()))?;
        let wire: WireOwned =
            serde_json::from_slice(&bytes).map_err(|error| TokenError(reason(&bytes, &error)))?;
        if wire.v != VERSION {
            return Err(TokenError(format!("server does not recognize this encoded version \"{}\"", wire.v)));
        }
        if wire.start.is_empty() || (wire.rv <= 0 && wire.rv != NO_REVISION) {
            return Err(TokenError(
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)".to_owned(),
            ));
        }
        if wire.start.contains("..") {
            return Err(TokenError(format!("{:?}", wire.start)));
        }
        Ok(Self { revision: u64::try_from(wire.rv).ok(), start: wire.start })
    }
}

/// Go's wording for invalid JSON: clients show it, and users search for it.
fn reason(bytes: &[u8], error: &serde_json::Error) -> String {
    match bytes.first() {
        None => "unexpected end of JSON input".to_owned(),
        Some(b'{') => error.to_string(),
        Some(&byte) if byte.is_ascii_graphic() => {
            format!("invalid character '{}' looking for beginning of value", char::from(byte))
        }
        Some(&byte) => format!("invalid character '\\u{byte:04x}' looking for beginning of value"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_match_a_real_server() {
        let token = ContinueToken::after("cap/cm-1", "cap/", 6259);
        let text = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NjI1OSwic3RhcnQiOiIvY20tMVx1MDAwMCJ9";
        assert_eq!(token.encode(), text);
        assert_eq!(ContinueToken::decode(text), Ok(token));
    }

    #[test]
    fn an_expired_token_is_exchanged_for_an_inconsistent_one() {
        let expired = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NjMzNywic3RhcnQiOiIvY20tMFx1MDAwMCJ9";
        let fresh = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiY20tMFx1MDAwMCJ9";
        let token = ContinueToken::decode(expired).unwrap().inconsistent();
        assert_eq!(token.encode(), fresh);
        assert_eq!(token.start_key("cap/"), "cap/cm-0\0");
    }

    #[test]
    fn invalid_tokens_are_rejected_with_the_real_message() {
        let error = ContinueToken::decode("garbage").unwrap_err();
        let expected =
            "continue key is not valid: invalid character '\\u0081' looking for beginning of value";
        assert_eq!(error.to_string(), expected);
    }
}
