//! How values of a type merge: one view over the table of built-in kinds and over the schema of a custom resource.
//!
//! Apply and strategic merge patch ask two questions at every path: is this value owned as a whole or by its parts,
//! and how are list elements identified? The schema table answers for built-in kinds, `x-kubernetes-list-type` and
//! similar markers for custom resources. Where neither does, the value decides.

use kube_wire::schema::{
    Cardinality, Field, ListType, MapType, Message, PatchStrategy, Scalar, Schema, Shape,
};
use serde_json::Value;

use crate::crd::{JsonType, ListKind, Structural};

/// How values of one type merge. Cheap to copy; borrows the schema.
#[derive(Debug, Clone, Copy)]
pub struct TypeView<'a>(TypeNode<'a>);

#[derive(Debug, Clone, Copy)]
enum TypeNode<'a> {
    /// An object of a built-in message type.
    Message {
        message: &'static Message,
        atomic: bool,
    },
    /// A built-in field that is a list or a map.
    Many(&'static Field),
    /// A value of a custom type. Unknown members are kept if `preserve` is set.
    Schema {
        schema: &'a Structural,
        preserve: bool,
        embedded: bool,
    },
    Scalar(ScalarKind),
    /// No schema: maps merge member by member, lists are atomic.
    Deduced,
    /// No schema; the value is owned as a whole.
    Opaque,
}

/// The required kind of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScalarKind {
    Boolean,
    Numeric,
    String,
    Untyped,
}

/// How to treat a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Atom<'a> {
    Scalar(ScalarKind),
    List(ListView<'a>),
    Map(MapView<'a>),
}

/// How a list merges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListView<'a> {
    pub(crate) elements: Elements<'a>,
    pub(crate) element: TypeView<'a>,
}

/// How list elements are identified.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Elements<'a> {
    /// They are not; the list is owned as a whole.
    Atomic,
    /// By their values.
    Set,
    /// By the keys in the schema table.
    BuiltinKeys(&'static [(&'static str, Option<&'static str>)]),
    /// By the keys in a custom schema.
    CustomKeys(&'a [String], Option<&'a Structural>),
}

/// How an object or map merges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MapView<'a> {
    pub(crate) atomic: bool,
    node: TypeNode<'a>,
}

/// A member's type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'a> {
    pub(crate) ty: TypeView<'a>,
    /// The type declares this member; it is not an arbitrary map entry.
    pub(crate) declared: bool,
}

/// How a strategic merge patch treats a member.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PatchMember {
    /// The type of the member, or of its elements.
    pub(crate) ty: TypeView<'static>,
    /// Lists are merged, not replaced.
    pub(crate) merge: bool,
    /// Objects are replaced, not merged.
    pub(crate) replace_object: bool,
    pub(crate) merge_key: Option<&'static str>,
}

// === impl TypeView ===

impl TypeView<'static> {
    /// The view of a built-in kind, e.g. `apps/v1` and `Deployment`.
    pub fn builtin(api_version: &str, kind: &str) -> Option<Self> {
        Schema::builtin().kind(api_version, kind).map(|message| Self::message(message, message.atomic))
    }

    fn message(message: &'static Message, atomic: bool) -> Self {
        Self(match message.shape {
            Shape::Object => TypeNode::Message { message, atomic },
            Shape::Time | Shape::MicroTime | Shape::Duration | Shape::Quantity | Shape::IntOrString => {
                TypeNode::Scalar(ScalarKind::Untyped)
            }
            _ => TypeNode::Opaque,
        })
    }

    /// The type of a singular field.
    fn field(field: &'static Field) -> Self {
        match field.ty.cardinality {
            Cardinality::One => Self::one(field, field.apply.map),
            Cardinality::List | Cardinality::Map => Self(TypeNode::Many(field)),
        }
    }

    /// The type of a field's value: its element type, if the field is a list or map.
    fn one(field: &'static Field, map: Option<MapType>) -> Self {
        match field.ty.message(Schema::builtin()) {
            Some(message) => Self::message(message, map.map_or(message.atomic, |map| map == MapType::Atomic)),
            None => Self(TypeNode::Scalar(match field.ty.scalar {
                Scalar::Bool => ScalarKind::Boolean,
                Scalar::String | Scalar::Bytes => ScalarKind::String,
                _ => ScalarKind::Numeric,
            })),
        }
    }

    /// How a strategic merge patch treats the member `name` of an object of this type.
    pub(crate) fn patch_member(self, name: &str) -> Option<PatchMember> {
        let field = match self.0 {
            TypeNode::Message { message, .. } => find(message, name)?,
            // Map entries are merged like other objects.
            TypeNode::Many(field) if field.ty.cardinality == Cardinality::Map => {
                let ty = TypeView::one(field, None);
                return Some(PatchMember { ty, merge: false, replace_object: false, merge_key: None });
            }
            _ => return None,
        };
        let ty = match field.ty.cardinality {
            Cardinality::Map => Self(TypeNode::Many(field)),
            Cardinality::One | Cardinality::List => Self::one(field, None),
        };
        Some(PatchMember {
            ty,
            merge: field.patch.strategy == PatchStrategy::Merge,
            replace_object: replaces_object(self, name),
            merge_key: field.patch.merge_key,
        })
    }

    /// The name of the Go type, for messages.
    pub(crate) fn type_name(self) -> &'static str {
        match self.0 {
            TypeNode::Message { message, .. } => message.name.rsplit('.').next().unwrap_or(message.name),
            _ => "",
        }
    }
}

impl<'a> TypeView<'a> {
    /// The view of a custom resource with this schema.
    pub fn custom(schema: &'a Structural) -> Self {
        Self(TypeNode::Schema { schema, preserve: schema.preserve_unknown, embedded: true })
    }

    /// The view of a value of unknown type.
    pub fn deduced() -> Self {
        Self(TypeNode::Deduced)
    }

    /// The message of the view, if it is an object of a built-in kind.
    pub(crate) fn message_behind(self) -> Option<&'static Message> {
        match self.0 {
            TypeNode::Message { message, .. } => Some(message),
            _ => None,
        }
    }

    /// How to treat a value of this type. The value decides if the type does not.
    pub(crate) fn atom(self, value: Option<&Value>) -> Atom<'a> {
        match self.0 {
            TypeNode::Message { atomic, .. } => Atom::Map(MapView { atomic, node: self.0 }),
            TypeNode::Many(field) if field.ty.cardinality == Cardinality::List => {
                Atom::List(ListView { elements: elements(field), element: TypeView::one(field, None) })
            }
            TypeNode::Many(field) => {
                Atom::Map(MapView { atomic: field.apply.map == Some(MapType::Atomic), node: self.0 })
            }
            TypeNode::Schema { schema, .. } => match schema.ty {
                JsonType::Object => self.schema_map(schema),
                JsonType::Array => self.schema_list(schema),
                JsonType::Boolean => Atom::Scalar(ScalarKind::Boolean),
                JsonType::Integer | JsonType::Number => Atom::Scalar(ScalarKind::Numeric),
                JsonType::String if schema.constraints.format.is_none() => Atom::Scalar(ScalarKind::String),
                JsonType::String => Atom::Scalar(ScalarKind::Untyped),
                JsonType::Any => match value {
                    None | Some(Value::Null | Value::Object(_)) => self.schema_map(schema),
                    Some(Value::Array(_)) => self.schema_list(schema),
                    Some(_) => Atom::Scalar(ScalarKind::Untyped),
                },
            },
            TypeNode::Scalar(kind) => Atom::Scalar(kind),
            TypeNode::Deduced | TypeNode::Opaque => {
                let atomic = matches!(self.0, TypeNode::Opaque);
                match value {
                    None | Some(Value::Null | Value::Object(_)) => {
                        Atom::Map(MapView { atomic, node: self.0 })
                    }
                    Some(Value::Array(_)) => {
                        let element = TypeView(TypeNode::Opaque);
                        Atom::List(ListView { elements: Elements::Atomic, element })
                    }
                    Some(_) => Atom::Scalar(ScalarKind::Untyped),
                }
            }
        }
    }

    fn schema_map(self, schema: &'a Structural) -> Atom<'a> {
        Atom::Map(MapView { atomic: schema.atomic_map, node: self.0 })
    }

    fn schema_list(self, schema: &'a Structural) -> Atom<'a> {
        let items = schema.items.as_deref();
        let elements = match &schema.list {
            ListKind::Atomic => Elements::Atomic,
            ListKind::Set => Elements::Set,
            ListKind::Map(keys) => Elements::CustomKeys(keys, items),
        };
        let element = items.map_or(TypeView(TypeNode::Opaque), |items| self.inner(items));
        Atom::List(ListView { elements, element })
    }

    /// The view of a schema nested in this one.
    fn inner(self, schema: &'a Structural) -> Self {
        let preserved = matches!(self.0, TypeNode::Schema { preserve: true, .. });
        let preserve = preserved || schema.preserve_unknown;
        Self(TypeNode::Schema { schema, preserve, embedded: schema.embedded_resource })
    }
}

// === impl MapView ===

impl<'a> MapView<'a> {
    /// The type of a member; `None` if the type does not allow it.
    pub(crate) fn field(self, name: &str) -> Option<Member<'a>> {
        let declared = |ty| Some(Member { ty, declared: true });
        let entry = |ty| Some(Member { ty, declared: false });
        match self.node {
            TypeNode::Message { message, .. } => match find(message, name) {
                Some(field) => declared(TypeView::field(field)),
                None if message.type_meta && is_type_meta(name) => {
                    declared(TypeView(TypeNode::Scalar(ScalarKind::String)))
                }
                None => None,
            },
            TypeNode::Many(field) => entry(TypeView::one(field, None)),
            TypeNode::Schema { schema, preserve, embedded } => {
                if embedded && name == "metadata" {
                    return declared(object_meta());
                }
                if let Some(property) = schema.properties.get(name) {
                    return declared(TypeView(self.node).inner(property));
                }
                if embedded && is_type_meta(name) {
                    return declared(TypeView(TypeNode::Scalar(ScalarKind::String)));
                }
                match schema.additional.as_deref() {
                    Some(additional) => entry(TypeView(self.node).inner(additional)),
                    None if preserve || schema.properties.is_empty() => entry(TypeView(TypeNode::Deduced)),
                    None => None,
                }
            }
            TypeNode::Deduced => entry(TypeView(TypeNode::Deduced)),
            TypeNode::Opaque | TypeNode::Scalar(_) => entry(TypeView(TypeNode::Opaque)),
        }
    }
}

// === impl Elements ===

impl Elements<'_> {
    /// The names of the keys, each with its default.
    pub(crate) fn keys(&self) -> Vec<(&str, Option<Value>)> {
        match self {
            Self::Atomic | Self::Set => Vec::new(),
            Self::BuiltinKeys(keys) => keys
                .iter()
                .map(|&(name, default)| (name, default.and_then(|text| serde_json::from_str(text).ok())))
                .collect(),
            Self::CustomKeys(keys, items) => keys
                .iter()
                .map(|name| {
                    let property = items.and_then(|items| items.properties.get(name));
                    (name.as_str(), property.and_then(|property| property.default.clone()))
                })
                .collect(),
        }
    }
}

fn elements(field: &'static Field) -> Elements<'static> {
    match &field.apply.list {
        Some(ListType::Set) => Elements::Set,
        Some(ListType::Map(keys)) => Elements::BuiltinKeys(keys),
        _ => Elements::Atomic,
    }
}

fn find(message: &'static Message, name: &str) -> Option<&'static Field> {
    let mut field = message.field_towards(name)?;
    while field.inline {
        field = field.ty.message(Schema::builtin())?.field_towards(name)?;
    }
    Some(field)
}

fn is_type_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind")
}

fn object_meta() -> TypeView<'static> {
    match Schema::builtin().message("k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta") {
        Some(message) => TypeView::message(message, false),
        // Every table has ObjectMeta. Without it, metadata would merge member by member, which is nearly the same.
        None => TypeView(TypeNode::Deduced),
    }
}

/// The only object in the built-in kinds that a strategic merge patch replaces (`patchStrategy:"replace"`). The table
/// does not distinguish "replace" from unspecified, which means merge for all other objects.
fn replaces_object(ty: TypeView<'static>, name: &str) -> bool {
    name == "selector"
        && ty.message_behind().is_some_and(|m| m.name == "k8s.io.api.policy.v1.PodDisruptionBudgetSpec")
}
