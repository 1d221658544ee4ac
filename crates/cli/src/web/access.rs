//! Access control: clients with the token or, without a token, processes on this machine; never web pages of other origins.
//!
//! Any page in a browser can send requests to the loopback interface. `Origin` and `Sec-Fetch-Site` show that a request comes from a
//! page of another origin. `Host` shows that a page made its own host name resolve to this machine (DNS rebinding). It is not checked
//! on all addresses of a machine (`0.0.0.0`, `::`), unless `--allowed-host` names the hosts: the addresses and names of such a machine
//! are unknown, and a page of another origin does not know the token, which these addresses require. The page's own files need no
//! token: they hold no data.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{AUTHORIZATION, HOST, ORIGIN};

use super::Refusal;

/// The access rules.
#[derive(Clone, Default)]
pub(crate) struct Access {
    /// The token that clients must send.
    token: Option<String>,
    /// Accepted values of `Host`, in addition to loopback names and addresses.
    allowed_hosts: Vec<String>,
    /// The address on which the server listens, if it is a single one.
    address: Option<IpAddr>,
    /// Whether any `Host` is accepted.
    accepts_any_host: bool,
}

impl Access {
    /// The rules of a server that listens on an address. It answers requests to the address itself: no page can make a name of its
    /// own look like an address.
    pub(crate) fn new(token: Option<String>, allowed_hosts: Vec<String>, address: IpAddr) -> Self {
        let accepts_any_host = token.is_some() && address.is_unspecified() && allowed_hosts.is_empty();
        let address = Some(address).filter(|address| !address.is_unspecified());
        Self { token, allowed_hosts, address, accepts_any_host }
    }

    /// Refuses requests of foreign pages.
    pub(super) fn check_origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let host = text(HOST).unwrap_or_default();
        if !self.accepts_any_host && !self.is_own(host_of(host)) {
            let own = self.address.map_or_else(|| "localhost".to_owned(), |address| address.to_string());
            return Err(Refusal::forbidden(format!("unknown Host: use {own}, or start with --allowed-host")));
        }
        let Some(origin) = text(ORIGIN) else { return Ok(()) };
        let origin = origin.split_once("://").map_or("", |(_, authority)| authority);
        if origin.is_empty() || !origin.eq_ignore_ascii_case(host) {
            return Err(Refusal::forbidden("requests of pages from another origin are refused"));
        }
        Ok(())
    }

    fn is_own(&self, host: &str) -> bool {
        let is_own_address = |address: IpAddr| address.is_loopback() || Some(address) == self.address;
        host.parse().is_ok_and(is_own_address)
            || host.eq_ignore_ascii_case("localhost")
            || self.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))
    }

    /// Refuses requests that a page of another site makes without an `Origin`, such as an image or a script.
    pub(super) fn check_site(headers: &HeaderMap) -> Result<(), Refusal> {
        let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
        if site.is_none_or(|site| [&b"same-origin"[..], b"none"].contains(&site)) {
            return Ok(());
        }
        Err(Refusal::forbidden("requests of pages from another origin are refused"))
    }

    /// Refuses clients without the token.
    pub(super) fn check_token(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(token) = &self.token else { return Ok(()) };
        let given = headers.get(AUTHORIZATION).and_then(|header| {
            // The scheme is case-insensitive.
            let (scheme, given) = header.as_bytes().split_at_checked(b"Bearer ".len())?;
            scheme.eq_ignore_ascii_case(b"Bearer ").then_some(given)
        });
        // Compared in constant time.
        let is_right = given.is_some_and(|given| {
            given.len() == token.len()
                && given.iter().zip(token.bytes()).fold(0, |seen, (a, b)| seen | (a ^ b)) == 0
        });
        if is_right {
            Ok(())
        } else {
            Err(Refusal::unauthorized("send the token: Authorization: Bearer …"))
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

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn own_hosts_are_loopback_addresses_localhost_and_allowed_names() {
        let access = Access { allowed_hosts: vec!["mirror.example".to_owned()], ..Access::default() };
        let own = |host: &str| access.is_own(host_of(host));
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

    #[test]
    fn any_host_is_accepted_only_on_all_addresses_with_a_token_and_without_allowed_hosts() {
        let token = Some("t".to_owned());
        let named = vec!["mirror.example".to_owned()];
        let address = |text: &str| text.parse().unwrap();
        let loopback = Access::new(token.clone(), Vec::new(), address("127.0.0.1"));
        let remote = Access::new(token.clone(), Vec::new(), address("192.0.2.7"));
        let remote_named = Access::new(token.clone(), named.clone(), address("192.0.2.7"));
        let everywhere = Access::new(token.clone(), Vec::new(), address("0.0.0.0"));
        let everywhere_v6 = Access::new(token.clone(), Vec::new(), address("::"));
        let everywhere_named = Access::new(token.clone(), named.clone(), address("0.0.0.0"));
        let remote_v6 = Access::new(token, named, address("2001:db8::7"));
        for (access, host, is_answered) in [
            (&loopback, "localhost:8080", true),
            (&loopback, "evil.example", false),
            (&remote, "localhost", true),
            (&remote, "192.0.2.7:8080", true),
            (&remote, "192.0.2.8:8080", false),
            (&remote, "any.example", false),
            (&remote_named, "mirror.example:80", true),
            (&remote_named, "localhost", true),
            (&remote_named, "evil.example", false),
            (&remote_named, "192.0.2.7:8080", true),
            (&remote_named, "192.0.2.8:8080", false),
            (&remote_v6, "[2001:db8::7]:8080", true),
            (&remote_v6, "[2001:DB8:0::7]:8080", true),
            (&remote_v6, "192.0.2.7:8080", false),
            (&everywhere, "any.example", true),
            (&everywhere_v6, "any.example", true),
            (&everywhere_named, "127.0.0.1:8080", true),
            (&everywhere_named, "evil.example", false),
            (&everywhere_named, "0.0.0.0:8080", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            let checked = access.check_origin(&headers);
            assert_eq!(checked.is_ok(), is_answered, "{host}, address: {:?}", access.address);
        }
    }

    #[test]
    fn an_origin_is_ours_only_with_the_same_host_and_port() {
        let check = |origin: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("localhost:8080"));
            headers.insert(ORIGIN, HeaderValue::from_str(origin).unwrap());
            Access::default().check_origin(&headers).is_ok()
        };
        assert!(check("http://localhost:8080") && check("http://LOCALHOST:8080"));
        for origin in ["http://localhost:9090", "http://localhost", "http://evil.example", "null", ""] {
            assert!(!check(origin), "{origin}");
        }
    }

    #[test]
    fn pages_of_other_sites_are_refused_and_programs_are_not() {
        let check = |site: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(site) = site {
                headers.insert("sec-fetch-site", HeaderValue::from_static(site));
            }
            Access::check_site(&headers).is_ok()
        };
        assert!(check(None) && check(Some("same-origin")) && check(Some("none")));
        assert!(!check(Some("cross-site")) && !check(Some("same-site")));
    }
}
