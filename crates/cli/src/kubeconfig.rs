//! Validates a kubeconfig before any request is sent: every error names the file, the entry and the remedy.
//!
//! kube-client reports a missing file without its path, and treats a context whose user is missing as anonymous.

use std::path::Path;

use kube_client::config::Kubeconfig;

use crate::failure::Failure;
use crate::suggest;

/// Names given on the command line, which override those of the current context.
pub(crate) struct Chosen<'a> {
    pub(crate) context: Option<&'a str>,
    pub(crate) cluster: Option<&'a str>,
    pub(crate) user: Option<&'a str>,
}

/// Checks that the names lead to entries, and that the files that those entries name can be read.
///
/// # Errors
/// [`Failure::NoCluster`] with the file, the field and a remedy. `file` says where the kubeconfig came from.
pub(crate) fn check(kubeconfig: &Kubeconfig, chosen: &Chosen<'_>, file: &str) -> Result<(), Failure> {
    let contexts = || kubeconfig.contexts.iter().map(|context| context.name.as_str());
    let clusters = || kubeconfig.clusters.iter().map(|cluster| cluster.name.as_str());
    let users = || kubeconfig.auth_infos.iter().map(|user| user.name.as_str());
    defined("context", chosen.context, contexts())?;
    defined("cluster", chosen.cluster, clusters())?;
    defined("user", chosen.user, users())?;

    let current = kubeconfig.current_context.as_deref().filter(|name| !name.is_empty());
    if chosen.context.is_none()
        && let Some(name) = current
        && !contexts().any(|known| known == name)
    {
        return Err(invalid(
            file,
            &format!("current-context names {name:?}, which is not defined"),
            contexts(),
        ));
    }
    let context_name = chosen.context.or(current).unwrap_or_default();
    let context = kubeconfig.contexts.iter().find(|context| context.name == context_name);
    let context = context.and_then(|context| context.context.as_ref());

    let cluster_name = chosen.cluster.or(context.map(|context| context.cluster.as_str())).unwrap_or_default();
    let user_name = chosen.user.or(context.and_then(|context| context.user.as_deref())).unwrap_or_default();
    if context.is_some() && !clusters().any(|known| known == cluster_name) {
        let what = format!("context {context_name:?} names cluster {cluster_name:?}, which is not defined");
        return Err(invalid(file, &what, clusters()));
    }
    if !user_name.is_empty() && !users().any(|known| known == user_name) {
        let what = format!("context {context_name:?} names user {user_name:?}, which is not defined");
        return Err(invalid(file, &what, users()));
    }

    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == cluster_name);
    if let Some(cluster) = cluster.and_then(|cluster| cluster.cluster.as_ref()) {
        let at = |field: &str| format!("clusters[{cluster_name:?}].{field}");
        if cluster.server.as_deref().unwrap_or_default().trim().is_empty() {
            return Err(Failure::NoCluster(format!(
                "invalid kubeconfig {file}: {} is missing",
                at("server")
            )));
        }
        // Data takes precedence over a file.
        if cluster.certificate_authority_data.is_none() {
            readable(file, &at("certificate-authority"), cluster.certificate_authority.as_deref())?;
        }
    }
    let user = kubeconfig.auth_infos.iter().find(|user| user.name == user_name);
    if let Some(user) = user.and_then(|user| user.auth_info.as_ref()) {
        let at = |field: &str| format!("users[{user_name:?}].{field}");
        if user.client_certificate_data.is_none() {
            readable(file, &at("client-certificate"), user.client_certificate.as_deref())?;
        }
        if user.client_key_data.is_none() {
            readable(file, &at("client-key"), user.client_key.as_deref())?;
        }
        if user.token.is_none() {
            readable(file, &at("tokenFile"), user.token_file.as_deref())?;
        }
    }
    Ok(())
}

/// A name from the command line.
fn defined<'a>(what: &str, name: Option<&str>, known: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
    let known = known.collect::<Vec<_>>();
    let Some(name) = name.filter(|name| !known.contains(name)) else { return Ok(()) };
    let hint = hint(name, &known).unwrap_or_else(|| format!("it has no {what}s"));
    Err(Failure::NoCluster(format!("the kubeconfig has no {what} {name:?}; {hint}")))
}

fn invalid<'a>(file: &str, what: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    let known = known.collect::<Vec<_>>();
    let hint = hint("", &known).unwrap_or_else(|| "no such entries are defined".to_owned());
    Failure::NoCluster(format!("invalid kubeconfig {file}: {what}; {hint}"))
}

/// A suggestion for a name.
fn hint(name: &str, known: &[&str]) -> Option<String> {
    match suggest::nearest(name, known.iter().copied()) {
        Some(nearest) if !name.is_empty() => Some(format!("did you mean {nearest}?")),
        _ if known.is_empty() => None,
        _ => Some(format!("defined: {}", known.iter().take(20).copied().collect::<Vec<_>>().join(", "))),
    }
}

fn readable(file: &str, field: &str, path: Option<&str>) -> Result<(), Failure> {
    let Some(path) = path.filter(|path| !path.is_empty()) else { return Ok(()) };
    let opened = std::fs::File::open(Path::new(path)).and_then(|file| file.metadata());
    let why = match opened {
        Ok(metadata) if metadata.is_dir() => "it is a directory".to_owned(),
        Ok(_) => return Ok(()),
        Err(error) => error.to_string(),
    };
    Err(Failure::NoCluster(format!("invalid kubeconfig {file}: {field}: cannot read {path}: {why}")))
}
