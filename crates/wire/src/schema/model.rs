//! The data of schema entries, filled in by the parser.

use super::Schema;

/// One kind: its apiVersion and name, and its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kind {
    /// Group and version, e.g. `apps/v1` or `v1`; [`Kind::ANY_VERSION`] for kinds that every group has.
    pub api_version: &'static str,
    /// The kind, e.g. `Deployment`.
    pub kind: &'static str,
    /// The protobuf name of the message: see [`Schema::message`].
    pub message: &'static str,
    /// The index of that message.
    pub(super) place: u16,
}

/// One protobuf message of a Kubernetes API.
#[derive(Debug)]
#[non_exhaustive]
pub struct Message {
    /// The protobuf name, e.g. `k8s.io.api.core.v1.Pod`.
    pub name: &'static str,
    /// The JSON form of the message: an object of its fields, or one of the special forms.
    pub shape: Shape,
    /// The Go type embeds `TypeMeta`: its JSON starts with `kind` and `apiVersion` (omitted when empty), which
    /// protobuf contains only in the envelope of the outermost message.
    pub type_meta: bool,
    /// Server-side apply owns the message as a whole wherever it occurs, also as an element of a list or map. For
    /// single fields, [`Field::apply`] takes precedence.
    pub atomic: bool,
    /// The fields, in ascending order of their numbers; for messages with a special shape, those of the protobuf
    /// definition. Numbers are mostly dense from 1, which [`Message::field`] relies on for speed.
    pub fields: Box<[Field]>,
    /// The JSON names, sorted, each with the index of the field that leads to it: the field itself, or an inlined
    /// message that contains it at some depth.
    pub(super) by_name: Box<[(&'static str, u16)]>,
    /// Indexes into `fields` of those that JSON shows even if protobuf omits them: see [`Field::shown_when_absent`].
    /// There are few, so readers need not check all fields.
    pub(crate) shown_when_absent: Box<[u16]>,
    /// How many fields are at the position of their number: field `n` at index `n - 1`.
    pub(crate) dense: u32,
}

/// One field of a [`Message`].
// In this order and alignment, everything up to the patch strategy shares a cache line: a decoder needs no more.
#[derive(Debug)]
#[repr(C, align(32))]
#[non_exhaustive]
pub struct Field {
    /// The JSON name; empty when the field is inlined.
    pub name: &'static str,
    /// The protobuf field number.
    pub number: u32,
    /// The type of the field, or of its elements.
    pub ty: Type,
    /// The Go field is a pointer: absent means `nil`, and a present value is written even if zero.
    pub pointer: bool,
    /// JSON omits the field if it is `false`, `0`, `""`, `nil` or an empty list or map (never for a struct).
    pub omit_empty: bool,
    /// JSON omits the field if it is the zero value of its type, including structs.
    pub omit_zero: bool,
    /// JSON shows the message's fields among the fields of the message that contains it.
    pub inline: bool,
    /// How a strategic merge patch treats the field.
    pub patch: Patch,
    /// How server-side apply treats the field.
    pub apply: Apply,
}

/// The type of a field: cardinality and element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Type {
    /// One value, a list of them, or a map from strings to them.
    pub cardinality: Cardinality,
    /// The value's type.
    pub scalar: Scalar,
}

/// How many values a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cardinality {
    /// One value.
    One,
    /// A list: a repeated field.
    List,
    /// A map with string keys: a repeated field of entries `{key = 1, value = 2}`.
    Map,
}

/// Type of a single value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A boolean.
    Bool,
    /// A 32-bit signed integer (varint).
    Int32,
    /// A 64-bit signed integer (varint).
    Int64,
    /// A 32-bit unsigned integer (varint).
    Uint32,
    /// A 64-bit unsigned integer (varint).
    Uint64,
    /// A 32-bit float.
    Float,
    /// A 64-bit float.
    Double,
    /// A string.
    String,
    /// Bytes; base64 in JSON.
    Bytes,
    /// Another message, by its index in the table: see [`Schema::message_at`].
    Message(u16),
}

/// The JSON form of a message. Everything except [`Shape::Object`] is special.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// An object with the message's fields.
    Object,
    /// `metav1.Time`: `{seconds = 1, nanos = 2}`, an RFC 3339 string with whole seconds; the zero time is `null`.
    Time,
    /// `metav1.MicroTime`: like `Time`, with six fractional digits.
    MicroTime,
    /// `metav1.Duration`: `{duration = 1}` in nanoseconds, in JSON a string as Go prints it (`1h0m0s`).
    Duration,
    /// `resource.Quantity`: `{string = 1}`, a string.
    Quantity,
    /// `intstr.IntOrString`: `{type = 1, intVal = 2, strVal = 3}`, a number or a string.
    IntOrString,
    /// `runtime.RawExtension`, `metav1.FieldsV1`, apiextensions' `JSON`: `{raw = 1}` with JSON text, embedded
    /// unchanged; `null` if absent. In the `object` of a protobuf `WatchEvent`, it is an object in its protobuf
    /// envelope instead.
    RawJson,
    /// A named list of strings (`metav1.Verbs`, `ExtraValue`): `{items = 1}`, an array of strings.
    StringList,
    /// `JSONSchemaPropsOrBool`: `{allows = 1, schema = 2}`, the schema if present (Go then sets `allows` too),
    /// otherwise the boolean.
    SchemaOrBool,
    /// `JSONSchemaPropsOrArray`: `{schema = 1, jSONSchemas = 2}`, an array of schemas, otherwise one schema, or
    /// `null`.
    SchemaOrArray,
    /// `JSONSchemaPropsOrStringArray`: `{schema = 1, property = 2}`, an array of strings, otherwise a schema, or
    /// `null`.
    SchemaOrStrings,
}

/// A field's treatment in a strategic merge patch (struct tags `patchStrategy`, `patchMergeKey`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Patch {
    /// The type's strategy; [`PatchStrategy::Replace`] if it has none.
    pub strategy: PatchStrategy,
    /// `retainKeys`: keys absent from the patch's `$retainKeys` list are removed.
    pub retain_keys: bool,
    /// The key by which elements of a merged list are matched; `None` for lists of scalars.
    pub merge_key: Option<&'static str>,
}

/// Strategy of a strategic merge patch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatchStrategy {
    /// The patch's value replaces the old one (objects still merge).
    #[default]
    Replace,
    /// Lists are merged by their key.
    Merge,
}

/// A field's treatment by server-side apply. A message of arbitrary JSON ([`Shape::RawJson`] and the `SchemaOr…`
/// shapes) has both parts; unless it is atomic, the JSON below it decides: objects are granular, lists atomic.
///
/// An element of a list or map is atomic if its message is: [`Message::atomic`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Apply {
    /// For lists: how elements are identified. `None` if the field is not a list.
    pub list: Option<ListType>,
    /// For maps and objects: merged member by member, or owned as a whole. `None` if it is neither.
    pub map: Option<MapType>,
}

/// How server-side apply identifies list elements.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListType {
    /// The list is owned as a whole.
    Atomic,
    /// The elements are scalars, and each is owned separately.
    Set,
    /// The elements are objects, matched by these keys; a key with a default may be absent
    /// (the default is JSON text, e.g. `"TCP"` with its quotes).
    Map(Box<[(&'static str, Option<&'static str>)]>),
}

/// How server-side apply owns a map or an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapType {
    /// Each member is owned separately.
    Granular,
    /// It is owned as a whole.
    Atomic,
}

// === impl Kind ===

impl Kind {
    /// Stands for an apiVersion: the kind exists under every one (`DeleteOptions`, `WatchEvent`, …).
    pub const ANY_VERSION: &'static str = "*";
}

// === impl Message ===

impl Message {
    /// The field with this protobuf number.
    #[inline]
    pub fn field(&self, number: u32) -> Option<&Field> {
        self.fields.get(self.index_of(number)?)
    }

    /// Index into `fields` of the field with this protobuf number.
    #[inline]
    pub(crate) fn index_of(&self, number: u32) -> Option<usize> {
        let guess = number.wrapping_sub(1);
        if guess < self.dense {
            return Some(guess as usize);
        }
        self.fields.binary_search_by_key(&number, |field| field.number).ok()
    }

    /// The message's own field with this JSON name (not a field of an inlined message).
    pub fn field_named(&self, name: &str) -> Option<&Field> {
        self.field_towards(name).filter(|field| !field.inline)
    }

    /// The field that leads to this JSON name: the field with this name or, if [`Field::inline`] is set, an inlined
    /// message that contains it. In that case repeat the call on the inlined message, which may inline others.
    ///
    /// ```
    /// # use kube_wire::schema::Schema;
    /// let schema = Schema::builtin();
    /// let volume = schema.message("k8s.io.api.core.v1.Volume").expect("built in");
    ///
    /// assert_eq!(volume.field_towards("name").map(|field| field.number), Some(1));
    /// // `emptyDir` is next to `name` in JSON but inside field 2 in protobuf.
    /// let through = volume.field_towards("emptyDir").expect("a kind of volume");
    /// assert!(through.inline);
    /// let source = through.ty.message(schema).expect("what is inlined is a message");
    /// assert_eq!(source.field_towards("emptyDir").map(|field| field.number), Some(2));
    /// ```
    pub fn field_towards(&self, name: &str) -> Option<&Field> {
        let at = self.by_name.binary_search_by_key(&name, |&(name, _)| name).ok()?;
        self.fields.get(usize::from(self.by_name[at].1))
    }

    /// Index into `fields` of the field that leads to this JSON name. `after` is where the last search ended: members
    /// mostly arrive in the order of their names, so the next one is near.
    pub(crate) fn index_towards(&self, name: &str, after: &mut usize) -> Option<usize> {
        let ahead = self.by_name.get(*after..).unwrap_or_default();
        let at = match ahead.iter().position(|(candidate, _)| *candidate == name) {
            Some(distance) => *after + distance,
            None => self.by_name.binary_search_by_key(&name, |&(name, _)| name).ok()?,
        };
        *after = at + 1;
        Some(usize::from(self.by_name[at].1))
    }
}

impl Field {
    /// Whether JSON shows the field if protobuf omits it: as `null` if it is nil, otherwise as zero. A struct is never
    /// empty, and an inlined one shows its own fields.
    pub(crate) fn shown_when_absent(&self) -> bool {
        let is_struct = !self.pointer
            && self.ty.cardinality == Cardinality::One
            && matches!(self.ty.scalar, Scalar::Message(_));
        self.inline || !(self.omit_zero || (self.omit_empty && !is_struct))
    }
}

impl Type {
    /// The message that this type refers to, if any.
    #[inline]
    pub fn message(self, schema: &'static Schema) -> Option<&'static Message> {
        match self.scalar {
            Scalar::Message(at) => Some(schema.message_at(at)),
            _ => None,
        }
    }
}
