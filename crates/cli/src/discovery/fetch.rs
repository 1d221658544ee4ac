//! Requests the kinds of a server: two requests with aggregated discovery, or one per group and version on older servers.

use kube_informer::building_blocks::Resource;
use serde::Deserialize;
use serde_json::Value;

use super::{Catalogue, Kind};
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::request::{self, RequestError};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

pub(super) async fn catalogue(cluster: &Cluster) -> Result<Catalogue, Failure> {
    let cannot = "cannot discover the server's kinds";
    let mut catalogue = Catalogue::default();
    for root in ["/api", "/apis"] {
        let answer = request::get(cluster, root, AGGREGATED).await.map_err(|error| error.failure(cannot))?;
        if answer["kind"] == "APIGroupDiscoveryList" {
            catalogue.add_aggregated(read(answer)?);
            continue;
        }
        for group_version in group_versions(&answer) {
            let path = format!("{root}/{group_version}");
            match request::get(cluster, &path, "application/json").await {
                Ok(list) => catalogue.add_legacy(&group_version, read(list)?),
                Err(RequestError::Status(status)) if status.code != 401 => {
                    catalogue.broken.push(group_version);
                }
                Err(error) => return Err(error.failure(cannot)),
            }
        }
    }
    Ok(catalogue)
}

/// `["v1"]` of `/api`; of `/apis` each group's versions, the preferred one first.
fn group_versions(answer: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(versions) = answer["versions"].as_array() {
        return versions.iter().filter_map(text).collect();
    }
    let mut found = Vec::new();
    for group in answer["groups"].as_array().into_iter().flatten() {
        let preferred = text(&group["preferredVersion"]["groupVersion"]);
        let versions = group["versions"].as_array().into_iter().flatten();
        let others = versions.filter_map(|version| text(&version["groupVersion"]));
        let others = others.filter(|version| Some(version) != preferred.as_ref()).collect::<Vec<_>>();
        found.extend(preferred.into_iter().chain(others));
    }
    found
}

fn read<T: serde::de::DeserializeOwned>(answer: Value) -> Result<T, Failure> {
    serde_json::from_value(answer)
        .map_err(|error| Failure::Other(format!("cannot read the server's discovery response: {error}")))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Aggregated {
    items: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    #[serde(default)]
    metadata: Named,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    version: String,
    #[serde(default)]
    resources: Vec<AggregatedResource>,
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    resource: String,
    #[serde(default)]
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
}

#[derive(Deserialize)]
struct ResponseKind {
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
struct Legacy {
    #[serde(default)]
    resources: Vec<LegacyResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyResource {
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    kind: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
}

impl Catalogue {
    fn add_aggregated(&mut self, list: Aggregated) {
        for group in list.items {
            let name = group.metadata.name;
            for version in group.versions {
                if version.resources.is_empty() && version.freshness == "Stale" {
                    self.broken.push(format!("{name}/{}", version.version));
                }
                for found in version.resources {
                    let kind = found.response_kind.map(|kind| kind.kind).unwrap_or_default();
                    self.kinds.push(Kind {
                        resource: Resource::new(&name, &version.version, &found.resource, &kind),
                        singular: found.singular_resource,
                        short_names: found.short_names,
                        categories: found.categories,
                        namespaced: found.scope == "Namespaced",
                        verbs: found.verbs,
                    });
                }
            }
        }
    }

    fn add_legacy(&mut self, group_version: &str, list: Legacy) {
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        for found in list.resources {
            // Subresources such as `pods/status` are not kinds.
            if found.name.contains('/') {
                continue;
            }
            self.kinds.push(Kind {
                resource: Resource::new(group, version, &found.name, &found.kind),
                singular: found.singular_name,
                short_names: found.short_names,
                categories: found.categories,
                namespaced: found.namespaced,
                verbs: found.verbs,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_forms_of_discovery_give_the_same_kinds() {
        let mut aggregated = Catalogue::default();
        aggregated.add_aggregated(
            read(json!({"items": [{"metadata": {"name": "apps"}, "versions": [{"version": "v1", "freshness": "Current",
                "resources": [{"resource": "deployments", "responseKind": {"group": "", "version": "", "kind": "Deployment"},
                "scope": "Namespaced", "singularResource": "deployment", "verbs": ["list", "watch"],
                "shortNames": ["deploy"], "categories": ["all"]}]}]}]}))
            .unwrap(),
        );
        let mut legacy = Catalogue::default();
        legacy.add_legacy(
            "apps/v1",
            read(json!({"resources": [
                {"name": "deployments", "singularName": "deployment", "namespaced": true, "kind": "Deployment",
                 "verbs": ["list", "watch"], "shortNames": ["deploy"], "categories": ["all"]},
                {"name": "deployments/status", "singularName": "", "namespaced": true, "kind": "Deployment", "verbs": ["get"]},
            ]}))
            .unwrap(),
        );
        assert_eq!(aggregated.kinds, legacy.kinds);
        assert_eq!(aggregated.kinds[0].qualified(), "deployments.apps");
    }

    #[test]
    fn a_group_that_does_not_answer_is_listed_as_broken() {
        let mut catalogue = Catalogue::default();
        catalogue.add_aggregated(
            read(json!({"items": [{"metadata": {"name": "metrics.k8s.io"},
                "versions": [{"version": "v1beta1", "freshness": "Stale"}]}]}))
            .unwrap(),
        );
        assert_eq!(catalogue.broken, ["metrics.k8s.io/v1beta1"]);
    }

    #[test]
    fn the_preferred_version_comes_first() {
        let groups = json!({"groups": [{"name": "autoscaling",
            "versions": [{"groupVersion": "autoscaling/v1"}, {"groupVersion": "autoscaling/v2"}],
            "preferredVersion": {"groupVersion": "autoscaling/v2"}}]});
        assert_eq!(group_versions(&groups), ["autoscaling/v2", "autoscaling/v1"]);
        assert_eq!(group_versions(&json!({"versions": ["v1"]})), ["v1"]);
    }
}
