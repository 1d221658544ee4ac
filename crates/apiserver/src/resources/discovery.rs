//! Discovery of the served resources, in the legacy form (one document per group and version) and the aggregated form.

use serde_json::{Value, json};

use super::{Registry, Resource};

/// `/api`: versions of the core group.
pub(crate) fn core_versions(address: &str) -> Value {
    let address = json!({"clientCIDR": "0.0.0.0/0", "serverAddress": address});
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]})
}

/// `/apis`: all groups except the core group.
pub(crate) fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> = group_names(registry).iter().map(|name| group_entry(registry, name)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`.
pub(crate) fn group(registry: &Registry, name: &str) -> Option<Value> {
    if name.is_empty() || !group_names(registry).contains(&name) {
        return None;
    }
    let mut group = group_entry(registry, name);
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

/// `/api/v1`, `/apis/GROUP/VERSION`.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut entries = Vec::new();
    for resource in of_version(registry, group, version) {
        let mut entry = json!({
            "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced(),
            "kind": resource.kind, "verbs": resource.verbs,
        });
        add_names(&mut entry, resource);
        if !resource.storage_hash.is_empty() {
            entry["storageVersionHash"] = resource.storage_hash.clone().into();
        }
        entries.push(entry);
        for subresource in &resource.subresources {
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, subresource.name), "singularName": "",
                "namespaced": resource.namespaced(), "kind": resource.kind, "verbs": subresource.verbs,
            });
            if let Some((group, version, kind)) = &subresource.kind {
                entry["kind"] = kind.clone().into();
                if !version.is_empty() {
                    entry["group"] = group.clone().into();
                    entry["version"] = version.clone().into();
                }
            }
            entries.push(entry);
        }
    }
    if entries.is_empty() {
        return None;
    }
    let group_version = super::api_version(group, version);
    let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": entries});
    // The core group is served by older code that omits its own version.
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Some(list)
}

/// `/api` and `/apis` aggregated: the core group, or all others.
pub(crate) fn aggregated(registry: &Registry, core: bool) -> Value {
    let names = if core { vec![""] } else { group_names(registry) };
    let items: Vec<Value> = names.iter().map(|name| aggregated_group(registry, name)).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

/// `/`: the served paths.
pub(crate) fn paths(registry: &Registry) -> Value {
    let mut paths: Vec<String> =
        ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]
            .map(str::to_owned)
            .into();
    for group in group_names(registry) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions(registry, group).iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.sort();
    json!({"paths": paths})
}

fn aggregated_group(registry: &Registry, group: &str) -> Value {
    let versions: Vec<Value> = versions(registry, group)
        .iter()
        .map(|version| {
            let resources: Vec<Value> =
                of_version(registry, group, version).map(aggregated_resource).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(resource: &Resource) -> Value {
    let kind = |kind: &str| json!({"group": "", "version": "", "kind": kind});
    // Built-in groups omit the group and version of their own kinds; custom ones include them.
    let own = if resource.is_custom() {
        json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
    } else {
        kind(&resource.kind)
    };
    let mut entry = json!({
        "resource": resource.plural, "responseKind": own,
        "scope": if resource.namespaced() { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular, "verbs": resource.verbs,
    });
    add_names(&mut entry, resource);
    let subresources: Vec<Value> = resource
        .subresources
        .iter()
        .map(|subresource| {
            let kind = subresource.kind.as_ref().map_or_else(
                || own.clone(),
                |(group, version, kind)| json!({"group": group, "version": version, "kind": kind}),
            );
            json!({"subresource": subresource.name, "responseKind": kind, "verbs": subresource.verbs})
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

fn add_names(entry: &mut Value, resource: &Resource) {
    if !resource.short_names.is_empty() {
        entry["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        entry["categories"] = resource.categories.clone().into();
    }
}

fn group_entry(registry: &Registry, name: &str) -> Value {
    let versions: Vec<Value> = versions(registry, name)
        .iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"name": name, "preferredVersion": versions.first(), "versions": versions})
}

fn group_names(registry: &Registry) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for resource in registry.iter().filter(|resource| !resource.group.is_empty()) {
        if !names.contains(&resource.group.as_str()) {
            names.push(&resource.group);
        }
    }
    names
}

/// The versions of a group, preferred first.
fn versions<'a>(registry: &'a Registry, group: &str) -> Vec<&'a str> {
    let mut versions: Vec<&str> = Vec::new();
    for resource in registry.iter().filter(|resource| resource.group == group) {
        if !versions.contains(&resource.version.as_str()) {
            versions.push(&resource.version);
        }
    }
    versions.sort_by(|a, b| priority(b).cmp(&priority(a)));
    versions
}

fn of_version<'a>(registry: &'a Registry, group: &str, version: &str) -> impl Iterator<Item = &'a Resource> {
    registry
        .iter()
        .map(|resource| &**resource)
        .filter(move |resource| resource.group == group && resource.version == version)
}

/// Kubernetes' order of versions: `v2` before `v1` before `v1beta2` before `v1alpha1` before `other`.
pub(super) fn priority(version: &str) -> (u8, u64, u64, std::cmp::Reverse<&str>) {
    let other = (0, 0, 0, std::cmp::Reverse(version));
    let Some(rest) = version.strip_prefix('v') else { return other };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let Ok(major) = rest[..digits].parse() else { return other };
    let suffix = &rest[digits..];
    let (level, minor) = if suffix.is_empty() {
        (3, Ok(0))
    } else if let Some(minor) = suffix.strip_prefix("beta") {
        (2, minor.parse())
    } else if let Some(minor) = suffix.strip_prefix("alpha") {
        (1, minor.parse())
    } else {
        return other;
    };
    minor.map_or(other, |minor| (level, major, minor, std::cmp::Reverse("")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_from_stable_to_unknown() {
        let mut versions = ["foo10", "v1alpha1", "v2", "v1beta1", "v11beta2", "foo1", "v10", "v1"];
        versions.sort_by(|a, b| priority(b).cmp(&priority(a)));
        assert_eq!(versions, ["v10", "v2", "v1", "v11beta2", "v1beta1", "v1alpha1", "foo1", "foo10"]);
    }
}
