//! A kubeconfig for the server, for programs that read one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// One cluster, one user, one context, all named `embedded`.
pub(super) fn render(url: &str, ca_pem: Option<&str>, token: Option<&str>) -> String {
    let ca = ca_pem.map(|pem| format!("    certificate-authority-data: {}\n", STANDARD.encode(pem)));
    // Without credentials, kubectl would prompt for a user name and a password.
    let user = format!("{{token: {:?}}}", token.unwrap_or("none"));
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: embedded\n  cluster:\n    server: {url}\n{}users:\n- name: \
         embedded\n  user: {user}\ncontexts:\n- name: embedded\n  context: {{cluster: embedded, user: embedded, \
         namespace: default}}\ncurrent-context: embedded\n",
        ca.unwrap_or_default()
    )
}
