//! Service account tokens: signed on request, verified on use.
//!
//! A token contains all its claims, as on a kube-apiserver, so none has to be stored. The signing key is private to
//! this server and exists only as long as the server does.

use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};

use super::{Outcome, Shown, Target, Writer, meta};
use crate::api::Api;
use crate::clock::Chance;
use crate::crd::FieldError;
use crate::http::Status;

/// The issuer, and the default audience.
const ISSUER: &str = "https://kubernetes.default.svc";
/// Default validity of a token.
const VALID_SECONDS: i64 = 3600;
const VALID_SECONDS_MIN: i64 = 600;
const VALID_SECONDS_MAX: i64 = 1 << 32;

/// Signs tokens.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    /// Created when the first token is requested: most servers never sign one.
    key: OnceLock<hmac::Key>,
}

/// The user of a request, as in `UserInfo`.
#[derive(Clone, Debug)]
pub(crate) struct User {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: Value,
}

// === impl Tokens ===

impl Tokens {
    /// Signs claims, as a JSON Web Token.
    fn sign(&self, claims: &Value, chance: &Chance) -> String {
        let key = self.key.get_or_init(|| hmac::Key::new(hmac::HMAC_SHA256, &chance.key()));
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({"alg": "HS256", "typ": "JWT"})), part(claims));
        let signature = hmac::sign(key, signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// The claims of a token signed by this server.
    fn open(&self, token: &str) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        hmac::verify(self.key.get()?, signed.as_bytes(), &signature).ok()?;
        let (_, claims) = signed.split_once('.')?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}

// === impl User ===

impl User {
    /// The user of every request without a service account token.
    pub(super) fn administrator() -> Self {
        let groups = ["system:masters", "system:authenticated"].map(str::to_owned).into();
        Self { name: "admin".to_owned(), uid: String::new(), groups, extra: Value::Null }
    }

    fn service_account(namespace: &str, claims: &Value) -> Self {
        let kubernetes = &claims["kubernetes.io"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let account = &kubernetes["serviceaccount"];
        let mut extra = json!({
            "authentication.kubernetes.io/credential-id": [format!("JTI={}", text(&claims["jti"]))],
        });
        for kind in ["pod", "node"] {
            for field in ["name", "uid"].iter().filter(|field| kubernetes[kind][**field].is_string()) {
                extra[format!("authentication.kubernetes.io/{kind}-{field}")] =
                    json!([kubernetes[kind][*field]]);
            }
        }
        Self {
            name: format!("system:serviceaccount:{namespace}:{}", text(&account["name"])),
            uid: text(&account["uid"]),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
            extra,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The `UserInfo` form.
    pub(super) fn to_value(&self) -> Value {
        let mut value = json!({"username": self.name, "groups": self.groups});
        if !self.uid.is_empty() {
            value["uid"] = self.uid.clone().into();
        }
        if !self.extra.is_null() {
            value["extra"] = self.extra.clone();
        }
        value
    }
}

/// The audiences in a spec, or the server's own.
pub(super) fn audiences(spec: &Value) -> Vec<String> {
    let named = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let named: Vec<String> = named.map(str::to_owned).collect();
    if named.is_empty() { vec![ISSUER.to_owned()] } else { named }
}

impl Api {
    /// The service account of a token, if the token is valid for this server.
    pub(crate) fn service_account(&self, token: &str) -> Option<User> {
        self.authenticate(token, &[ISSUER.to_owned()]).ok().map(|(user, _)| user)
    }

    /// The user of a token, and the requested audiences that it is valid for.
    pub(super) fn authenticate(&self, token: &str, wanted: &[String]) -> Result<(User, Vec<String>), String> {
        let claims = self.tokens.open(token).ok_or("invalid bearer token")?;
        let meant = audiences(&json!({"audiences": claims["aud"]}));
        let shared: Vec<String> =
            wanted.iter().filter(|audience| meant.contains(audience)).cloned().collect();
        if shared.is_empty() {
            return Err(format!(
                "invalid bearer token, token audiences {meant:?} is invalid for the target audiences {wanted:?}"
            ));
        }
        if claims["exp"].as_u64().unwrap_or(0) <= self.clock.unix_seconds() {
            return Err("invalid bearer token, service account token has expired".to_owned());
        }
        let namespace = claims["kubernetes.io"]["namespace"].as_str().unwrap_or_default();
        let bound = &claims["kubernetes.io"];
        self.check_bound(&bound["serviceaccount"], "serviceaccounts", namespace)?;
        self.check_bound(&bound["pod"], "pods", namespace)?;
        self.check_bound(&bound["secret"], "secrets", namespace)?;
        // A pod's token names the pod's node but is not bound to it.
        if bound["pod"].is_null() {
            self.check_bound(&bound["node"], "nodes", namespace)?;
        }
        Ok((User::service_account(namespace, &claims), shared))
    }

    /// Checks that an object to which a token is bound still exists. A reference without a uid is not checked.
    fn check_bound(&self, reference: &Value, plural: &str, namespace: &str) -> Result<(), String> {
        let Some(uid) = reference["uid"].as_str() else { return Ok(()) };
        let name = reference["name"].as_str().unwrap_or_default();
        let found = self.core_target(plural, namespace, name).and_then(|target| self.get(&target).ok());
        match found {
            Some(found) if found.attributes.uid() == uid => Ok(()),
            _ => Err("invalid bearer token, service account token has been invalidated".to_owned()),
        }
    }

    fn core_target(&self, plural: &str, namespace: &str, name: &str) -> Option<Target> {
        let resource = self.registry().find("", "v1", plural)?.clone();
        let namespace = if resource.namespaced() { namespace } else { "" };
        Some(Target {
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
        })
    }
}

impl Writer<'_> {
    /// Answers a `TokenRequest`.
    pub(super) fn request_token(&self, target: &Target, request: &Value) -> Result<Outcome, Status> {
        let account = self.get(&target.named(&target.name))?;
        let spec = &request["spec"];
        let seconds = valid_seconds(&spec["expirationSeconds"])?;
        let audiences = audiences(spec);
        let mut claims = json!({
            "serviceaccount": {"name": target.name, "uid": account.attributes.uid()},
            "namespace": target.namespace,
        });
        self.bind_token(target, &spec["boundObjectRef"], &mut claims)?;
        let now = self.clock.unix_seconds();
        let claims = json!({
            "iss": ISSUER, "sub": format!("system:serviceaccount:{}:{}", target.namespace, target.name),
            "aud": audiences, "iat": now, "nbf": now, "exp": now.saturating_add(seconds),
            "jti": self.chance.uid(), "kubernetes.io": claims,
        });
        let expires = self.clock.timestamp_in(Duration::from_secs(seconds));
        let mut answer = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "metadata": {
                "name": target.name, "namespace": target.namespace, "uid": account.attributes.uid(),
                "creationTimestamp": self.clock.timestamp(),
            },
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": spec["boundObjectRef"]},
            "status": {"token": self.tokens.sign(&claims, &self.chance), "expirationTimestamp": expires},
        });
        meta::meta_mut(&mut answer);
        Ok(Outcome::created(Shown::Other(answer)))
    }

    /// Adds a token's bound object to the claims.
    fn bind_token(&self, account: &Target, reference: &Value, claims: &mut Value) -> Result<(), Status> {
        if reference.is_null() {
            return Ok(());
        }
        let text = |name: &str| reference[name].as_str().unwrap_or_default();
        let (claim, plural) = match (text("apiVersion"), text("kind")) {
            ("v1", "Pod") => ("pod", "pods"),
            ("v1", "Secret") => ("secret", "secrets"),
            ("v1", "Node") => ("node", "nodes"),
            (version, kind) => {
                let slash = if version.contains('/') { "" } else { "/" };
                let message = format!("cannot bind token to object of type {slash}{version}, Kind={kind}");
                return Err(Status::bad_request(message));
            }
        };
        let Some(bound) = self.core_target(plural, &account.namespace, text("name")) else { return Ok(()) };
        let stored = self.get(&bound)?;
        if claim == "pod" {
            let pod = self.value(&bound, &stored);
            if pod["spec"]["serviceAccountName"] != account.name.as_str() {
                let message = format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    account.name
                );
                return Err(Status::bad_request(message));
            }
            self.add_node_claim(&pod, claims);
        }
        let uid = stored.attributes.uid();
        if !text("uid").is_empty() && text("uid") != uid {
            let why = format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have \
                 been deleted and then recreated",
                text("uid")
            );
            return Err(Status::conflict(&bound.resource, &bound.name, &why));
        }
        claims[claim] = json!({"name": bound.name, "uid": uid});
        Ok(())
    }

    /// Adds the node that the pod is assigned to.
    fn add_node_claim(&self, pod: &Value, claims: &mut Value) {
        let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) else { return };
        claims["node"] = json!({"name": node});
        let found = self.core_target("nodes", "", node).and_then(|target| self.get(&target).ok());
        if let Some(found) = found {
            claims["node"]["uid"] = found.attributes.uid().into();
        }
    }
}

/// The validity of a requested token.
fn valid_seconds(asked: &Value) -> Result<u64, Status> {
    let seconds = if asked.is_null() { Some(VALID_SECONDS) } else { asked.as_i64() };
    let detail = match seconds {
        Some(seconds) if (VALID_SECONDS_MIN..=VALID_SECONDS_MAX).contains(&seconds) => {
            return Ok(seconds.unsigned_abs());
        }
        Some(seconds) if seconds < VALID_SECONDS_MIN => "may not specify a duration less than 10 minutes",
        Some(_) => "may not specify a duration larger than 2^32 seconds",
        None => "must be a whole number of seconds",
    };
    let error = FieldError::invalid("spec.expirationSeconds", asked.clone(), detail);
    Err(Status::invalid_kind("authentication.k8s.io", "TokenRequest", "", &[error]))
}
