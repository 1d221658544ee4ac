//! Reading the schema table: valid lines, invalid lines, and the messages of kinds.

use std::sync::LazyLock;

use super::*;

fn message(name: &str) -> &'static Message {
    Schema::builtin().message(name).unwrap_or_else(|| panic!("no message {name}"))
}

fn field(message_name: &str, field: &str) -> &'static Field {
    message(message_name).field_named(field).unwrap_or_else(|| panic!("{message_name} has no {field}"))
}

/// A field's type as in the table, with the full name of a message.
fn type_of(field: &Field) -> String {
    let prefix = match field.ty.cardinality {
        Cardinality::One if field.pointer => "*",
        Cardinality::One => "",
        Cardinality::List => "[]",
        Cardinality::Map => "{}",
    };
    let scalar = match field.ty.message(Schema::builtin()) {
        Some(message) => message.name.to_owned(),
        None => format!("{:?}", field.ty.scalar),
    };
    format!("{prefix}{scalar}")
}

#[test]
fn every_line_of_the_table_parses() {
    let schema = Schema::builtin();
    assert_eq!(schema.messages().len(), schema.messages.len());
    let fields: usize = schema.messages().map(|message| message.fields.len()).sum();
    assert!(fields > 4000, "{fields} fields");
    for kind in schema.kinds() {
        assert!(schema.message(kind.message).is_some(), "{kind:?} has no message");
    }
}

#[test]
fn the_table_is_sorted_for_binary_search() {
    let schema = Schema::builtin();
    assert!(schema.messages.windows(2).all(|pair| pair[0].name < pair[1].name));
    assert!(schema.kinds.windows(2).all(|k| (k[0].api_version, k[0].kind) < (k[1].api_version, k[1].kind)));
    for message in schema.messages() {
        assert!(message.fields.windows(2).all(|pair| pair[0].number < pair[1].number), "{}", message.name);
        assert!(message.by_name.windows(2).all(|pair| pair[0].0 < pair[1].0), "{}", message.name);
    }
}

#[test]
fn fields_are_found_by_number_and_name_despite_gaps() {
    for message in Schema::builtin().messages() {
        for field in &message.fields {
            assert!(
                std::ptr::eq(message.field(field.number).unwrap(), field),
                "{} {}",
                message.name,
                field.number
            );
            if !field.inline {
                assert!(
                    std::ptr::eq(message.field_named(field.name).unwrap(), field),
                    "{} {}",
                    message.name,
                    field.name
                );
            }
        }
        for absent in [0, u32::MAX, message.fields.last().map_or(1, |last| last.number + 1)] {
            assert!(message.field(absent).is_none(), "{} {absent}", message.name);
        }
        assert!(message.field_towards("").is_none() && message.field_towards("no such field").is_none());
    }
}

#[test]
fn apply_traits_match_the_field_type() {
    for message in Schema::builtin().messages() {
        for field in &message.fields {
            let at = format!("{}.{}", message.name, field.name);
            match field.ty.cardinality {
                Cardinality::List => assert!(field.apply.list.is_some() && field.apply.map.is_none(), "{at}"),
                Cardinality::Map => assert!(field.apply.list.is_none() && field.apply.map.is_some(), "{at}"),
                Cardinality::One => {
                    let shape = field.ty.message(Schema::builtin()).map(|message| message.shape);
                    assert!(shape != Some(Shape::Object) || field.apply.map.is_some(), "{at}");
                    assert!(shape.is_some() || field.apply == Apply::default(), "{at}");
                }
            }
            let Some(ListType::Map(keys)) = &field.apply.list else { continue };
            let element =
                field.ty.message(Schema::builtin()).unwrap_or_else(|| panic!("{at} has keys but no fields"));
            for (key, _) in keys {
                assert!(element.field_towards(key).is_some(), "{at} has a key {key} that its elements lack");
            }
        }
    }
}

#[test]
fn looking_up_a_kind_parses_only_its_message() {
    static FRESH: LazyLock<Schema> =
        LazyLock::new(|| Schema::index(include_str!("../../schema/kubernetes.txt")));
    let parsed =
        || FRESH.messages.iter().filter(|entry| entry.parsed.get().is_some()).map(|entry| entry.name);

    assert_eq!(parsed().count(), 0);
    let pod = FRESH.kind("v1", "Pod").unwrap();
    assert_eq!(parsed().collect::<Vec<_>>(), ["k8s.io.api.core.v1.Pod"]);
    pod.field_named("metadata").unwrap().ty.message(&FRESH).unwrap();
    assert_eq!(parsed().count(), 2);
}

#[test]
fn the_table_has_a_kubernetes_version() {
    let version: Vec<u32> =
        Schema::builtin().kubernetes_version().split('.').map(|part| part.parse().unwrap()).collect();
    assert!(version.len() == 3 && version >= vec![1, 36, 0], "{version:?}");
}

#[test]
fn messages_are_found_by_kind() {
    for (api_version, kind, message) in [
        ("v1", "Pod", Some("k8s.io.api.core.v1.Pod")),
        ("v1", "PodList", Some("k8s.io.api.core.v1.PodList")),
        ("v1", "List", Some("k8s.io.api.core.v1.List")),
        ("v1", "Status", Some("k8s.io.apimachinery.pkg.apis.meta.v1.Status")),
        ("v1", "APIResourceList", Some("k8s.io.apimachinery.pkg.apis.meta.v1.APIResourceList")),
        ("apps/v1", "Deployment", Some("k8s.io.api.apps.v1.Deployment")),
        ("batch/v1", "CronJob", Some("k8s.io.api.batch.v1.CronJob")),
        ("autoscaling/v1", "Scale", Some("k8s.io.api.autoscaling.v1.Scale")),
        ("admission.k8s.io/v1", "AdmissionReview", Some("k8s.io.api.admission.v1.AdmissionReview")),
        (
            "apidiscovery.k8s.io/v2",
            "APIGroupDiscoveryList",
            Some("k8s.io.api.apidiscovery.v2.APIGroupDiscoveryList"),
        ),
        ("imagepolicy.k8s.io/v1alpha1", "ImageReview", Some("k8s.io.api.imagepolicy.v1alpha1.ImageReview")),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            Some("k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"),
        ),
        (
            "apiregistration.k8s.io/v1",
            "APIService",
            Some("k8s.io.kube_aggregator.pkg.apis.apiregistration.v1.APIService"),
        ),
        (
            "meta.k8s.io/v1",
            "PartialObjectMetadataList",
            Some("k8s.io.apimachinery.pkg.apis.meta.v1.PartialObjectMetadataList"),
        ),
        // Clients send DeleteOptions under the apiVersion of the deleted resource.
        ("apps/v1", "DeleteOptions", Some("k8s.io.apimachinery.pkg.apis.meta.v1.DeleteOptions")),
        ("example.com/v1", "WatchEvent", Some("k8s.io.apimachinery.pkg.apis.meta.v1.WatchEvent")),
        ("meta.k8s.io/v1", "Table", None), // has no protobuf form
        ("apps/v1", "Pod", None),
        ("example.com/v1", "Widget", None),
        ("", "", None),
    ] {
        let found = Schema::builtin().kind(api_version, kind).map(|message| message.name);
        assert_eq!(found, message, "{api_version} {kind}");
    }
}

#[test]
fn fields_have_the_types_of_the_go_structs() {
    const META: &str = "k8s.io.apimachinery.pkg.apis.meta.v1";
    const CORE: &str = "k8s.io.api.core.v1";
    for (message, name, number, ty) in [
        ("k8s.io.api.core.v1.Pod", "spec", 2, format!("{CORE}.PodSpec")),
        ("k8s.io.api.core.v1.PodSpec", "containers", 2, format!("[]{CORE}.Container")),
        ("k8s.io.api.core.v1.PodSpec", "terminationGracePeriodSeconds", 4, "*Int64".into()),
        ("k8s.io.api.core.v1.PodSpec", "nodeSelector", 7, "{}String".into()),
        ("k8s.io.api.core.v1.PodSpec", "hostNetwork", 11, "Bool".into()),
        (
            "k8s.io.api.core.v1.PodSpec",
            "overhead",
            32,
            "{}k8s.io.apimachinery.pkg.api.resource.Quantity".into(),
        ),
        ("k8s.io.api.core.v1.Secret", "data", 2, "{}Bytes".into()),
        ("k8s.io.api.certificates.v1.CertificateSigningRequestStatus", "certificate", 2, "Bytes".into()),
        (
            "k8s.io.api.authentication.v1.UserInfo",
            "extra",
            4,
            "{}k8s.io.api.authentication.v1.ExtraValue".into(),
        ),
        ("k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta", "uid", 5, "String".into()),
        ("k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta", "creationTimestamp", 8, format!("{META}.Time")),
        ("k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta", "deletionTimestamp", 9, format!("*{META}.Time")),
        ("k8s.io.apimachinery.pkg.apis.meta.v1.APIResource", "verbs", 4, format!("*{META}.Verbs")),
        // The struct tag says "bytes"; on the wire it is a double.
        (
            "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps",
            "maximum",
            9,
            "*Double".into(),
        ),
        (
            "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps",
            "$ref",
            3,
            "*String".into(),
        ),
        (
            "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps",
            "properties",
            29,
            "{}k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps".into(),
        ),
    ] {
        let field = field(message, name);
        assert_eq!((field.number, type_of(field)), (number, ty), "{message}.{name}");
    }
}

#[test]
fn special_messages_have_their_shapes() {
    for (name, shape, fields) in [
        ("k8s.io.apimachinery.pkg.apis.meta.v1.Time", Shape::Time, &["seconds", "nanos"][..]),
        ("k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime", Shape::MicroTime, &["seconds", "nanos"]),
        ("k8s.io.apimachinery.pkg.apis.meta.v1.Duration", Shape::Duration, &["duration"]),
        ("k8s.io.apimachinery.pkg.api.resource.Quantity", Shape::Quantity, &["string"]),
        (
            "k8s.io.apimachinery.pkg.util.intstr.IntOrString",
            Shape::IntOrString,
            &["type", "intVal", "strVal"],
        ),
        ("k8s.io.apimachinery.pkg.runtime.RawExtension", Shape::RawJson, &["raw"]),
        ("k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1", Shape::RawJson, &["raw"]),
        ("k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON", Shape::RawJson, &["raw"]),
        ("k8s.io.apimachinery.pkg.apis.meta.v1.Verbs", Shape::StringList, &["items"]),
        ("k8s.io.api.authorization.v1.ExtraValue", Shape::StringList, &["items"]),
        (
            "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
            Shape::SchemaOrBool,
            &["allows", "schema"],
        ),
        (
            "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
            Shape::SchemaOrArray,
            &["schema", "jSONSchemas"],
        ),
        (
            "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
            Shape::SchemaOrStrings,
            &["schema", "property"],
        ),
        ("k8s.io.api.core.v1.PodOS", Shape::Object, &["name"]),
    ] {
        let message = message(name);
        assert_eq!(message.shape, shape, "{name}");
        assert_eq!(message.fields.iter().map(|field| field.name).collect::<Vec<_>>(), fields, "{name}");
    }
}

#[test]
fn json_omits_what_go_omits() {
    const META: &str = "k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    for (message, name, omit_empty, omit_zero) in [
        (META, "name", true, false),
        (META, "creationTimestamp", true, true),
        (META, "deletionTimestamp", true, false),
        ("k8s.io.api.core.v1.PodSpec", "containers", false, false),
        ("k8s.io.api.core.v1.PodList", "items", false, false),
        // A struct is never empty in Go: `"status": {}`.
        ("k8s.io.api.core.v1.Pod", "status", true, false),
    ] {
        let field = field(message, name);
        assert_eq!((field.omit_empty, field.omit_zero), (omit_empty, omit_zero), "{message}.{name}");
    }
}

#[test]
fn only_kinds_embed_type_meta() {
    for (name, type_meta) in [
        ("k8s.io.api.core.v1.Pod", true),
        ("k8s.io.api.core.v1.PodList", true),
        ("k8s.io.apimachinery.pkg.apis.meta.v1.Status", true),
        ("k8s.io.apimachinery.pkg.apis.meta.v1.WatchEvent", false),
        ("k8s.io.api.core.v1.PodSpec", false),
        ("k8s.io.api.core.v1.ObjectReference", false), // has fields of its own called kind and apiVersion
    ] {
        assert_eq!(message(name).type_meta, type_meta, "{name}");
    }
}

#[test]
fn inlined_messages_are_reached_through_their_field() {
    let schema = Schema::builtin();
    for (name, json, numbers) in [
        ("k8s.io.api.core.v1.Volume", "name", &[1][..]),
        ("k8s.io.api.core.v1.Volume", "configMap", &[2, 19]),
        ("k8s.io.api.core.v1.PersistentVolumeSpec", "hostPath", &[2, 3]),
        ("k8s.io.api.core.v1.Probe", "httpGet", &[1, 2]),
        ("k8s.io.api.core.v1.EphemeralContainer", "image", &[1, 2]),
        ("k8s.io.api.core.v1.SecretKeySelector", "name", &[1, 1]),
        // Two levels: NamedRuleWithOperations holds RuleWithOperations holds Rule.
        ("k8s.io.api.admissionregistration.v1.NamedRuleWithOperations", "apiGroups", &[2, 2, 1]),
    ] {
        let (mut at, mut path) = (message(name), Vec::new());
        loop {
            let field = at.field_towards(json).unwrap_or_else(|| panic!("{name} has no {json}"));
            path.push(field.number);
            if !field.inline {
                assert_eq!(field.name, json);
                break;
            }
            at = field.ty.message(schema).unwrap();
        }
        assert_eq!(path, numbers, "{name} {json}");
        assert_eq!(message(name).field_named(json).is_some(), numbers.len() == 1, "{name} {json}");
    }
}

#[test]
fn patches_merge_by_the_keys_of_the_go_structs() {
    use PatchStrategy::{Merge, Replace};
    for (message, name, strategy, retain_keys, merge_key) in [
        ("k8s.io.api.core.v1.PodSpec", "containers", Merge, false, Some("name")),
        ("k8s.io.api.core.v1.PodSpec", "volumes", Merge, true, Some("name")),
        ("k8s.io.api.core.v1.PodSpec", "tolerations", Replace, false, None),
        ("k8s.io.api.core.v1.Container", "ports", Merge, false, Some("containerPort")),
        ("k8s.io.api.core.v1.ServiceSpec", "ports", Merge, false, Some("port")),
        ("k8s.io.api.apps.v1.DeploymentSpec", "strategy", Replace, true, None),
        ("k8s.io.api.apps.v1.DeploymentStatus", "conditions", Merge, false, Some("type")),
        ("k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers", Merge, false, None),
        ("k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta", "ownerReferences", Merge, false, Some("uid")),
        ("k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta", "managedFields", Replace, false, None),
    ] {
        assert_eq!(
            field(message, name).patch,
            Patch { strategy, retain_keys, merge_key },
            "{message}.{name}"
        );
    }
}

#[test]
fn lists_are_applied_by_their_keys_and_defaults() {
    const META: &str = "k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    const CRD: &str = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1";
    let map = |keys: &[(&'static str, Option<&'static str>)]| ListType::Map(keys.into());
    for (message, name, list) in [
        ("k8s.io.api.core.v1.PodSpec", "containers", map(&[("name", Some("\"\""))])),
        ("k8s.io.api.core.v1.PodSpec", "tolerations", ListType::Atomic),
        ("k8s.io.api.core.v1.Container", "args", ListType::Atomic),
        (
            "k8s.io.api.core.v1.Container",
            "ports",
            map(&[("containerPort", Some("0")), ("protocol", Some("\"TCP\""))]),
        ),
        (
            "k8s.io.api.core.v1.ServiceSpec",
            "ports",
            map(&[("port", Some("0")), ("protocol", Some("\"TCP\""))]),
        ),
        (META, "finalizers", ListType::Set),
        (META, "ownerReferences", map(&[("uid", Some("\"\""))])),
        (META, "managedFields", ListType::Atomic),
        (&format!("{CRD}.CustomResourceDefinitionStatus"), "conditions", map(&[("type", Some("\"\""))])),
        (&format!("{CRD}.JSONSchemaProps"), "required", ListType::Atomic),
        (&format!("{CRD}.JSONSchemaProps"), "x-kubernetes-validations", map(&[("rule", Some("\"\""))])),
        (
            "k8s.io.kube_aggregator.pkg.apis.apiregistration.v1.APIServiceStatus",
            "conditions",
            map(&[("type", Some("\"\""))]),
        ),
        ("k8s.io.api.core.v1.PodList", "items", ListType::Atomic),
    ] {
        assert_eq!(field(message, name).apply, Apply { list: Some(list), map: None }, "{message}.{name}");
    }
}

#[test]
fn maps_and_objects_are_applied_by_member_unless_atomic() {
    use MapType::{Atomic, Granular};
    for (message, name, map) in [
        ("k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta", "labels", Some(Granular)),
        ("k8s.io.api.core.v1.Pod", "spec", Some(Granular)),
        ("k8s.io.api.core.v1.PodSpec", "nodeSelector", Some(Atomic)),
        ("k8s.io.api.core.v1.PodSpec", "hostNetwork", None),
        ("k8s.io.api.core.v1.ServicePort", "targetPort", None),
        ("k8s.io.api.apps.v1.DeploymentSpec", "selector", Some(Atomic)),
        // ObjectReference is atomic, but not here.
        ("k8s.io.api.core.v1.PersistentVolumeSpec", "claimRef", Some(Granular)),
        ("k8s.io.api.core.v1.EndpointAddress", "targetRef", Some(Atomic)),
    ] {
        assert_eq!(field(message, name).apply.map, map, "{message}.{name}");
    }
    // A list element is atomic by its message: it has no field with a trait.
    assert!(message("k8s.io.api.core.v1.LocalObjectReference").atomic);
    assert!(!message("k8s.io.api.core.v1.Container").atomic);
}
