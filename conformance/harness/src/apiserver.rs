//! The flags of kube-apiserver, and the check that it is ready.

use std::{net::SocketAddr, time::Duration};

use kube_client::Client;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Builder, Error,
    credentials::Credentials,
    etcd::Etcd,
    process::{POLL_INTERVAL, Process},
    raw,
};

/// The time limit of one readiness probe.
const PROBE_LIMIT: Duration = Duration::from_secs(5);
/// Paths that must succeed before a test begins. The server creates its namespaces only after `/readyz` succeeds.
const READY: [&str; 3] = ["/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-system"];

/// The flags of a server with these options.
pub(crate) fn flags(
    options: &Builder,
    credentials: &Credentials,
    etcd: &Etcd,
    address: SocketAddr,
) -> Vec<String> {
    let mut flags = vec![
        format!("--etcd-servers={}", etcd.url()),
        format!("--bind-address={}", address.ip()),
        format!("--secure-port={}", address.port()),
        // The harness binds the port too: see `RealServer`.
        "--permit-port-sharing=true".to_owned(),
        format!("--tls-cert-file={}", credentials.serving_certificate().display()),
        format!("--tls-private-key-file={}", credentials.serving_key().display()),
        format!("--token-auth-file={}", credentials.tokens().display()),
        "--authorization-mode=RBAC".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-signing-key-file={}", credentials.account_key().display()),
        format!("--service-account-key-file={}", credentials.account_public_key().display()),
        "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
        // Without this plugin pods need no service account, which only kube-controller-manager would create.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        // An endpoint must not be a loopback address, and no client finds this server by its service.
        "--endpoint-reconciler-type=none".to_owned(),
    ];
    let gates: Vec<_> = options.feature_gates.iter().map(|(name, on)| format!("{name}={on}")).collect();
    if !gates.is_empty() {
        flags.push(format!("--feature-gates={}", gates.join(",")));
    }
    flags.extend(options.flags.iter().cloned());
    flags
}

/// Waits until the server is ready for tests. Fails when it has ended or after `limit`.
pub(crate) async fn ready(process: &mut Process, client: &Client, limit: Duration) -> Result<(), Error> {
    let deadline = Instant::now() + limit;
    for path in READY {
        while let Err(seen) = probe(client, path).await {
            process.check()?;
            if Instant::now() >= deadline {
                return Err(process.not_ready(limit, seen));
            }
            sleep(POLL_INTERVAL).await;
        }
    }
    Ok(())
}

async fn probe(client: &Client, path: &str) -> Result<(), String> {
    match timeout(PROBE_LIMIT, raw::get(client, path, raw::JSON)).await {
        Ok(Ok(answer)) if answer.status.is_success() => Ok(()),
        Ok(Ok(answer)) => Err(format!("{path}: {} {}", answer.status, String::from_utf8_lossy(&answer.body))),
        Ok(Err(error)) => Err(format!("{path}: {error}")),
        Err(_) => Err(format!("{path}: no response within {PROBE_LIMIT:?}")),
    }
}
