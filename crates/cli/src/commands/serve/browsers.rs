//! What a web page in a browser on this machine may ask for: nothing.
//!
//! Without a token every process that reaches the loopback interface may look, and a browser reaches it for every page.
//! A page of another origin is recognized by its `Origin`; one whose host name was made to point here (DNS rebinding)
//! by its `Host`. With a token the name does not matter: a page does not know the token.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{HOST, ORIGIN};

use super::Served;

/// Refuses requests of foreign pages; says why.
pub(super) fn check(headers: &HeaderMap, served: &Served) -> Result<(), &'static str> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(HOST).map(host_of).unwrap_or_default();
    if served.token.is_none() && !is_own(host, &served.allowed_hosts) {
        return Err("this Host is not known here: use localhost, or start with --allowed-host\n");
    }
    match text(ORIGIN) {
        None => Ok(()),
        Some(origin) => {
            let origin = origin.split_once("://").map_or("", |(_, rest)| host_of(rest));
            let is_same = !origin.is_empty() && origin.eq_ignore_ascii_case(host);
            if is_same { Ok(()) } else { Err("requests of pages from elsewhere are refused\n") }
        }
    }
}

/// The host of `HOST`, `HOST:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`.
fn host_of(text: &str) -> &str {
    match text.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => text.rsplit_once(':').map_or(text, |(host, _)| host),
    }
}

fn is_own(host: &str, allowed: &[String]) -> bool {
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_loopback
        || host.eq_ignore_ascii_case("localhost")
        || allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_hosts_are_loopback_addresses_localhost_and_those_that_were_allowed() {
        let own = |host: &str| is_own(host_of(host), &["mirror.example".to_owned()]);
        for host in
            ["localhost", "LOCALHOST:8080", "127.0.0.1:80", "127.9.9.9", "[::1]:8080", "mirror.example:1"]
        {
            assert!(own(host), "{host}");
        }
        for host in
            ["", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "10.0.0.1", "[::2]"]
        {
            assert!(!own(host), "{host}");
        }
    }
}
