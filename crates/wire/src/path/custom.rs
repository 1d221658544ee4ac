//! Checks paths against the schema of a custom resource, as compiling checks them against that of a built-in kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::compile::{misfit, unfit};
use super::{FieldPath, Segment};
use crate::TypeMeta;
use crate::error::Result;

/// The fields that a CustomResourceDefinition describes. A path to any other field is an error. Cloning is cheap.
///
/// The API server removes other fields from every object, so such a path would never lead to a value. Where the schema allows any
/// field (`x-kubernetes-preserve-unknown-fields`), every path is valid. Paths into `metadata` are checked as for every kind.
///
/// ```
/// use kube_wire::path::CustomSchema;
/// use kube_wire::{FieldPath, TypeMeta};
/// use serde_json::json;
///
/// // The `openAPIV3Schema` of a version.
/// let schema = json!({"type": "object", "properties": {
///     "spec": {"type": "object", "properties": {"host": {"type": "string"}}},
/// }});
/// let schema = CustomSchema::new(&TypeMeta::new("example.com/v1", "Website"), &schema);
///
/// schema.check(&"spec.host".parse()?)?;
/// assert_eq!(
///     schema.check(&"spec.hots".parse()?).unwrap_err().to_string(),
///     "invalid field path `spec.hots`: `spec` has no member `hots` (Website of example.com/v1)"
/// );
/// # Ok::<(), kube_wire::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CustomSchema {
    type_meta: TypeMeta,
    root: Arc<FieldShape>,
}

/// What a value may contain.
#[derive(Debug)]
enum FieldShape {
    /// Members by name. With `any`, other members exist, too.
    Object {
        members: BTreeMap<Box<str>, FieldShape>,
        any: bool,
    },
    Map(Box<FieldShape>),
    List(Box<FieldShape>),
    Scalar,
    /// The schema does not say.
    Unknown,
}

static UNKNOWN: FieldShape = FieldShape::Unknown;

// === impl CustomSchema ===

impl CustomSchema {
    /// From the `openAPIV3Schema` of a version of a CustomResourceDefinition.
    pub fn new(type_meta: &TypeMeta, open_api_v3_schema: &Value) -> Self {
        Self { type_meta: type_meta.clone(), root: Arc::new(FieldShape::new(open_api_v3_schema)) }
    }

    /// Checks that objects have the field.
    ///
    /// # Errors
    /// [`Error::Path`](crate::Error::Path) if the schema has no such field, or the field has another type (for example a list used as a
    /// map).
    pub fn check(&self, path: &FieldPath) -> Result<()> {
        match path.segments() {
            [Segment::Member(name)] if matches!(&**name, "apiVersion" | "kind") => return Ok(()),
            // A definition may only restrict it.
            [Segment::Member(name), ..] if **name == *"metadata" => return path.compile(None).map(drop),
            _ => {}
        }
        let mut node = &*self.root;
        for (at, segment) in path.segments().iter().enumerate() {
            if let (FieldShape::List(element), Segment::Where(filter)) = (node, segment) {
                let compared = element.enter(&Segment::Member(filter.key.clone()));
                compared.map_err(|why| unfit(path, at + 1, &self.explain(why)))?;
            }
            node = node.enter(segment).map_err(|why| unfit(path, at, &self.explain(why)))?;
        }
        Ok(())
    }

    fn explain(&self, why: Misfit) -> String {
        match why {
            Misfit::Type(why) => why.to_owned(),
            Misfit::Member(name) => {
                let (kind, api_version) = (self.type_meta.kind(), self.type_meta.api_version());
                format!("has no member `{name}` ({kind} of {api_version})")
            }
        }
    }
}

/// Why a value has nothing at a segment.
enum Misfit {
    /// It has another type.
    Type(&'static str),
    /// It has no member of this name.
    Member(Box<str>),
}

// === impl FieldShape ===

impl FieldShape {
    fn new(schema: &Value) -> Self {
        if schema["x-kubernetes-int-or-string"] == true {
            return Self::Scalar;
        }
        match schema["type"].as_str() {
            Some("object") => Self::object(schema),
            Some("array") => Self::List(Box::new(Self::new(&schema["items"]))),
            Some(_) => Self::Scalar,
            None => Self::Unknown,
        }
    }

    fn object(schema: &Value) -> Self {
        let any = schema["x-kubernetes-preserve-unknown-fields"] == true;
        let properties = schema["properties"].as_object().into_iter().flatten();
        let mut members = properties
            .map(|(name, member)| (name.as_str().into(), Self::new(member)))
            .collect::<BTreeMap<_, _>>();
        if schema["x-kubernetes-embedded-resource"] == true {
            for name in ["apiVersion", "kind"] {
                members.insert(name.into(), Self::Scalar);
            }
            members.insert("metadata".into(), Self::Unknown);
        }
        // A schema has properties or additional properties, not both.
        match &schema["additionalProperties"] {
            Value::Null | Value::Bool(false) => Self::Object { members, any },
            Value::Bool(true) => Self::Map(Box::new(Self::Unknown)),
            value => Self::Map(Box::new(Self::new(value))),
        }
    }

    /// The value behind a segment.
    fn enter(&self, segment: &Segment) -> Result<&Self, Misfit> {
        let why = match (self, segment) {
            (Self::Unknown, _) => return Ok(&UNKNOWN),
            (Self::Object { members, any }, Segment::Member(name)) => {
                return match members.get(name) {
                    Some(member) => Ok(member),
                    None if *any => Ok(&UNKNOWN),
                    None => Err(Misfit::Member(name.clone())),
                };
            }
            (Self::Map(value), Segment::Member(_))
            | (Self::List(value), Segment::Each | Segment::At(_) | Segment::Where(_)) => return Ok(value),
            (Self::Object { .. }, _) => misfit::OBJECT,
            (Self::Map(_), _) => misfit::MAP,
            (Self::List(_), _) => misfit::LIST,
            (Self::Scalar, _) => misfit::SCALAR,
        };
        Err(Misfit::Type(why))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> CustomSchema {
        let spec = json!({"type": "object", "properties": {
            "host": {"type": "string"},
            "port": {"x-kubernetes-int-or-string": true},
            "routes": {"type": "array", "items": {"type": "object", "properties": {"path": {"type": "string"}}}},
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                     "properties": {"known": {"type": "string"}}},
            "untyped": {"x-kubernetes-preserve-unknown-fields": true},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true},
            "anything": {"type": "object", "additionalProperties": true},
        }});
        let schema = json!({"type": "object", "properties": {"metadata": {"type": "object"}, "spec": spec}});
        CustomSchema::new(&TypeMeta::new("example.com/v1", "Website"), &schema)
    }

    #[test]
    fn described_fields_are_valid() {
        for path in [
            "apiVersion",
            "metadata.labels['app']",
            "metadata.ownerReferences[*].uid",
            "spec",
            "spec.port",
            "spec.routes[*].path",
            "spec.routes[?path=x].path",
            "spec.env.HOME",
            "spec.free.known",
            "spec.free.unknown.deeper[0]",
            "spec.untyped.x[*]",
            "spec.template.kind",
            "spec.template.metadata.name",
            "spec.anything.x.y",
        ] {
            assert_eq!(schema().check(&path.parse().unwrap()), Ok(()), "{path}");
        }
    }

    #[test]
    fn other_fields_are_errors() {
        for (path, why) in [
            ("sepc.host", "the object has no member `sepc` (Website of example.com/v1)"),
            ("spec.hots", "`spec` has no member `hots` (Website of example.com/v1)"),
            ("spec.host.name", "`spec.host` is a scalar: it has neither members nor elements"),
            ("spec.port.name", "`spec.port` is a scalar: it has neither members nor elements"),
            (
                "spec.routes.path",
                "`spec.routes` is a list: choose elements with `[*]`, `[0]` or `[?name=text]`",
            ),
            (
                "spec.routes[?pth=x].path",
                "`spec.routes[?pth=x]` has no member `pth` (Website of example.com/v1)",
            ),
            ("spec[0]", "`spec` is an object: name one of its members"),
            ("spec.env[*]", "`spec.env` is a map: name one of its keys"),
            ("spec.env.HOME.x", "`spec.env.HOME` is a scalar: it has neither members nor elements"),
            ("spec.free.known.x", "`spec.free.known` is a scalar: it has neither members nor elements"),
            ("spec.template.spec", "`spec.template` has no member `spec` (Website of example.com/v1)"),
        ] {
            let error = schema().check(&path.parse().unwrap()).unwrap_err().to_string();
            assert_eq!(error, format!("invalid field path `{path}`: {why}"));
        }
        let error = schema().check(&"metadata.nmae".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("`metadata` has no member `nmae`"), "{error}");
    }
}
