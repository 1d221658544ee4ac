//! The credentials of one server, as files in its temporary directory: a certificate authority and a serving
//! certificate for the loopback address, a key for service-account tokens, a static token per user, and a kubeconfig
//! with a context per user. Tokens are random, because every program of the machine can reach the port.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::json;

use crate::Error;

/// The user in `system:masters`, which every server has.
pub(crate) const ADMIN: &str = "admin";

/// A user with a static token.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
    token: String,
}

impl User {
    pub(crate) fn new(name: &str, groups: &[&str]) -> Result<Self, Error> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(|error| Error::io("create a token")(error.into()))?;
        let token = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { name: name.to_owned(), groups: groups.iter().map(|&g| g.to_owned()).collect(), token })
    }
}

/// The files, each at a fixed place in the server's directory.
#[derive(Debug)]
pub(crate) struct Credentials {
    directory: PathBuf,
}

impl Credentials {
    /// Creates keys and certificates.
    pub(crate) fn create(directory: &Path) -> Result<Self, Error> {
        let this = Self { directory: directory.to_owned() };
        let mut authority = CertificateParams::new(Vec::<String>::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "conformance authority");
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let serving_key = KeyPair::generate()?;
        let names = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc"].map(String::from);
        let serving = CertificateParams::new(names)?.signed_by(&serving_key, &authority)?;
        let accounts = KeyPair::generate()?;

        write(&this.authority(), &authority.pem())?;
        write(&this.serving_certificate(), &serving.pem())?;
        write(&this.serving_key(), &serving_key.serialize_pem())?;
        write(&this.account_key(), &accounts.serialize_pem())?;
        write(&this.account_public_key(), &accounts.public_key_pem())?;
        Ok(this)
    }

    /// Writes the tokens that the server reads at its next start.
    pub(crate) fn write_tokens<'a>(&self, users: impl Iterator<Item = &'a User>) -> Result<(), Error> {
        let lines = users.map(|User { name, groups, token }| {
            format!("{token},{name},uid-of-{name},\"{}\"\n", groups.join(","))
        });
        write(&self.tokens(), &lines.collect::<String>())
    }

    /// Writes the kubeconfig with a context per user; the administrator's is current. It is JSON, which is valid YAML.
    pub(crate) fn write_kubeconfig(&self, port: u16, users: &[User]) -> Result<(), Error> {
        let cluster = json!({
            "server": format!("https://127.0.0.1:{port}"),
            "certificate-authority": self.authority(),
        });
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": ADMIN,
            "clusters": [{ "name": "conformance", "cluster": cluster }],
            "users": users.iter().map(|u| json!({ "name": u.name, "user": { "token": u.token } })).collect::<Vec<_>>(),
            "contexts": users.iter().map(|u| {
                json!({ "name": u.name, "context": { "cluster": "conformance", "user": u.name } })
            }).collect::<Vec<_>>(),
        });
        write(&self.kubeconfig(), &config.to_string())
    }

    pub(crate) fn authority(&self) -> PathBuf {
        self.directory.join("ca.crt")
    }
    pub(crate) fn serving_certificate(&self) -> PathBuf {
        self.directory.join("serving.crt")
    }
    pub(crate) fn serving_key(&self) -> PathBuf {
        self.directory.join("serving.key")
    }
    pub(crate) fn account_key(&self) -> PathBuf {
        self.directory.join("accounts.key")
    }
    pub(crate) fn account_public_key(&self) -> PathBuf {
        self.directory.join("accounts.pub")
    }
    pub(crate) fn tokens(&self) -> PathBuf {
        self.directory.join("tokens.csv")
    }
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(Error::io(format!("write {}", path.display())))
}
