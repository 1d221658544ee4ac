//! HTTP proxies: a `CONNECT` tunnel, with the user and password from the proxy's address.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use percent_encoding::percent_decode_str;

/// A connector through an HTTP proxy.
pub(super) fn tunnel<C>(url: &Uri, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(url.clone(), connector);
    match authorization(url) {
        Some(header) => tunnel.with_auth(header),
        None => tunnel,
    }
}

/// `http::Uri` does not decode escapes, so `p%40ss` must become `p@ss` before it is sent.
fn authorization(url: &Uri) -> Option<HeaderValue> {
    let (user, _) = url.authority()?.as_str().rsplit_once('@')?;
    let user = percent_decode_str(user).collect::<Vec<_>>();
    let mut header = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(user))).ok()?;
    header.set_sensitive(true);
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxys_user_and_password_are_unescaped() {
        let header = |url: &'static str| authorization(&Uri::from_static(url));
        let expected = format!("Basic {}", STANDARD.encode("user:p@ss"));
        assert_eq!(header("http://user:p%40ss@proxy:3128").unwrap(), expected.as_str());
        assert_eq!(header("http://proxy:3128"), None);
    }
}
