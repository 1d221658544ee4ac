//! The children of a website: functions from the website to the desired objects.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, PodSpec, PodTemplateSpec, Service,
    ServicePort, ServiceSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::{ObjectMeta, ResourceExt as _};

use crate::Website;

/// The label of all children, which the operator's informers select.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "website-operator");

/// All children of a website.
#[derive(Clone, Debug, PartialEq)]
pub struct Children {
    /// The page.
    pub config_map: ConfigMap,
    /// The web server.
    pub deployment: Deployment,
    /// The address.
    pub service: Service,
}

impl Children {
    /// The desired children. [`Context::apply`](kube_informer_controller::Context::apply) adds the owner reference.
    pub fn of(site: &Website) -> Self {
        let name = site.name_any();
        let labels = BTreeMap::from([("example.com/website".to_owned(), name.clone())]);
        let metadata = || {
            let mut labels = labels.clone();
            labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
            ObjectMeta {
                name: Some(name.clone()),
                namespace: site.namespace(),
                labels: Some(labels),
                ..ObjectMeta::default()
            }
        };
        let data = BTreeMap::from([("index.html".to_owned(), site.spec.html.clone())]);
        Self {
            config_map: ConfigMap { metadata: metadata(), data: Some(data), ..ConfigMap::default() },
            deployment: Deployment {
                metadata: metadata(),
                spec: DeploymentSpec {
                    replicas: Some(site.spec.replicas),
                    selector: LabelSelector {
                        match_labels: Some(labels.clone()),
                        ..LabelSelector::default()
                    },
                    template: PodTemplateSpec {
                        metadata: Some(ObjectMeta { labels: Some(labels.clone()), ..ObjectMeta::default() }),
                        spec: Some(pod(&name)),
                    },
                    ..DeploymentSpec::default()
                },
                ..Deployment::default()
            },
            service: Service {
                metadata: metadata(),
                spec: Some(ServiceSpec {
                    selector: Some(labels.clone()),
                    ports: Some(vec![ServicePort { port: 80, ..ServicePort::default() }]),
                    ..ServiceSpec::default()
                }),
                ..Service::default()
            },
        }
    }
}

fn pod(config_map: &str) -> PodSpec {
    let page = Volume {
        name: "page".to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: config_map.to_owned(),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    };
    let mount = VolumeMount {
        name: "page".to_owned(),
        mount_path: "/usr/share/nginx/html".to_owned(),
        ..VolumeMount::default()
    };
    let server = Container {
        name: "web".to_owned(),
        image: Some("nginx:1.29".to_owned()),
        ports: Some(vec![ContainerPort { container_port: 80, ..ContainerPort::default() }]),
        volume_mounts: Some(vec![mount]),
        ..Container::default()
    };
    PodSpec { containers: vec![server], volumes: Some(vec![page]), ..PodSpec::default() }
}
