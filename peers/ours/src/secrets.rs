//! Secrets like those of a cluster: a certificate with its key, or passwords. Their random data does not compress.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::pods::{hexadecimal, uid};

/// Sizes of a certificate and its key.
const CERTIFICATE_BYTES: usize = 1_600;
const KEY_BYTES: usize = 1_200;
const PASSWORD_BYTES: usize = 24;

/// The Secret with a number. It is the same in every run. One of three is a certificate.
pub(crate) fn secret(number: u64, namespaces: u64) -> Value {
    let random = &mut StdRng::seed_from_u64(number);
    let app = format!("app-{}", number / 3);
    let (own_uid, release) = (uid(random), hexadecimal(random, 8));
    let (kind, name, data) = if number.is_multiple_of(3) {
        let data = json!({"tls.crt": bytes(random, CERTIFICATE_BYTES), "tls.key": bytes(random, KEY_BYTES)});
        ("kubernetes.io/tls", "tls", data)
    } else {
        let data = json!({
            "username": bytes(random, 12), "password": bytes(random, PASSWORD_BYTES), "token": bytes(random, PASSWORD_BYTES),
        });
        ("Opaque", "login", data)
    };
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": format!("{app}-{name}-{number}"),
            "namespace": format!("team-{}", number % namespaces),
            "uid": own_uid,
            "creationTimestamp": "2025-10-09T08:15:30Z",
            "labels": {"app.kubernetes.io/name": app, "app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": app, "example.com/release": release},
        },
        "type": kind,
        "data": data,
    })
}

fn bytes(random: &mut StdRng, count: usize) -> String {
    STANDARD.encode((0..count).map(|_| random.random::<u8>()).collect::<Vec<_>>())
}
