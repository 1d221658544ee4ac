//! Access control: bearer tokens, and protection against web pages that send requests through a visitor's browser.
//!
//! A page on the internet can send requests to a server on the visitor's machine. It can read the responses only if
//! its own host name resolves to that machine (DNS rebinding); the browser then sends that name as the `Host`. The
//! page cannot choose its headers freely: `Origin` and `Sec-Fetch-Site` identify its site. Therefore a server without
//! a token accepts only its own host names, and every server rejects pages of other sites. In-process requests involve
//! no browser.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, Method};

use super::admin;
use super::service::RequestHead;
use super::status::Status;
use crate::api::{Api, Options};

/// How a request reached the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Through the tower service.
    InProcess,
    /// Through a socket that only this machine can reach.
    Loopback,
    /// Through a socket that other machines can reach.
    Network,
}

/// Paths that need no token, because a kube-apiserver serves them to anonymous users.
const PUBLIC: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// Health probe paths, served under any host name.
const PROBES: &[&str] = &["/healthz", "/livez", "/readyz"];

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Rejects requests that fail access control. `authority` is that of the request's target, if it has one.
pub(super) fn check(
    api: &Api,
    arrival: Arrival,
    head: &RequestHead,
    authority: Option<&Authority>,
) -> Result<(), Status> {
    let options = &api.options;
    if arrival != Arrival::InProcess && !is_probe(&head.path) {
        let host = authority.map(Authority::as_str).or_else(|| head.header(HOST));
        if options.token.is_none() {
            check_host(options, arrival, host)?;
        }
        check_page(options, &head.headers, host)?;
    }
    check_token(api, head)
}

/// Whether a web page sent a write without a `Content-Type`. For a JSON type, a browser would first have asked the server
/// for permission (a CORS preflight). Other clients may omit the header: `kubectl create --raw` does, and a kube-apiserver
/// then expects JSON.
pub(super) fn is_untyped_page(head: &RequestHead) -> bool {
    let page = [ORIGIN, FETCH_SITE, FETCH_MODE].iter().any(|name| head.headers.contains_key(name));
    page && !matches!(head.method, Method::GET | Method::HEAD) && !head.headers.contains_key(CONTENT_TYPE)
}

/// The request's bearer token.
pub(super) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    std::str::from_utf8(bearer(headers.get(AUTHORIZATION)?.as_bytes())?).ok()
}

/// Accepts the server's own token everywhere, and service account tokens everywhere except on the fault endpoints.
fn check_token(api: &Api, head: &RequestHead) -> Result<(), Status> {
    let Some(token) = &api.options.token else { return Ok(()) };
    let Some(given) = head.headers.get(AUTHORIZATION) else {
        let public = PUBLIC.contains(&head.path.as_str());
        return if public { Ok(()) } else { Err(Status::unauthorized()) };
    };
    let given = bearer(given.as_bytes()).ok_or_else(Status::unauthorized)?;
    if is_same(given, token.as_bytes()) {
        return Ok(());
    }
    let account = std::str::from_utf8(given).ok().and_then(|given| api.service_account(given));
    match account {
        Some(account) if admin::is_asked(api, head) => Err(Status::forbidden_path(account.name(), head)),
        Some(_) => Ok(()),
        None => Err(Status::unauthorized()),
    }
}

/// The token of a `Bearer` authorization.
fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, token) = authorization.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then_some(token)
}

/// Compares in time that depends only on the lengths.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differences = a.iter().zip(b).fold(0, |seen, (a, b)| std::hint::black_box(seen | (a ^ b)));
    a.len() == b.len() && differences == 0
}

/// A request without a `Host` does not come from a browser.
fn check_host(options: &Options, arrival: Arrival, authority: Option<&str>) -> Result<(), Status> {
    let Some(authority) = authority else { return Ok(()) };
    let known = host(authority).is_some_and(|host| {
        let address = address(host);
        // DNS rebinding needs a name: after it, the browser still sends that name as the `Host`, not an address.
        let reachable = arrival == Arrival::Network && address.is_some();
        reachable || is_loopback(host, address) || is_allowed(options, host)
    });
    if known { Ok(()) } else { Err(Status::foreign_host(authority)) }
}

fn check_page(options: &Options, headers: &HeaderMap, authority: Option<&str>) -> Result<(), Status> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let origin = text(ORIGIN);
    let page = origin.and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
    if page.and_then(host).is_some_and(|host| is_allowed(options, host)) {
        return Ok(());
    }
    let same = match (page, authority) {
        (Some(page), Some(authority)) => page.eq_ignore_ascii_case(authority),
        _ => origin.is_none(),
    };
    let crossed = matches!(text(FETCH_SITE), Some("cross-site" | "same-site"));
    if same && !crossed { Ok(()) } else { Err(Status::foreign_origin(origin.unwrap_or("another site"))) }
}

/// The host of `host`, `host:port` or `[address]:port`; `None` for anything else.
fn host(authority: &str) -> Option<&str> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (authority, ""),
    };
    let plain = !host.is_empty() && !host.contains(['@', '/', ' ']);
    (plain && port.bytes().all(|byte| byte.is_ascii_digit())).then_some(host)
}

fn address(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => host.parse().ok().map(IpAddr::V6),
        None => host.parse().ok().map(IpAddr::V4),
    }
}

fn is_loopback(host: &str, address: Option<IpAddr>) -> bool {
    if let Some(address) = address {
        return address.to_canonical().is_loopback();
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

fn is_allowed(options: &Options, host: &str) -> bool {
    options.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))
}

fn is_probe(path: &str) -> bool {
    PROBES
        .iter()
        .any(|probe| path.strip_prefix(probe).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}
