//! Parses the table. One pass indexes kinds and messages; a message's own lines are parsed on first use. Names are
//! slices of the text.
//!
//! ```text
//! kubernetes 1.37.1
//! # comment
//! kind apps/v1 Deployment k8s.io.api.apps.v1.Deployment       apiVersion (`*`: any), kind, message
//!
//! message k8s.io.api.core.v1.Volume [shape] [typemeta] [atomic]
//! 1 name string                                               number, JSON name, type, traits
//! 2 - .VolumeSource                                           inlined; `.X` is X of the same package
//! ```
//!
//! Types are written `T`, `*T` (Go pointer), `[]T`, `{}T` (map). Traits: `omitempty`, `omitzero`, `patch=strategy`,
//! `key=mergeKey`; and for server-side apply `set` or `map(key,key=default,…)` for lists that are not atomic, `atomic`
//! or `granular` for maps and messages. The text is part of the crate and a test parses all of it, so an invalid line
//! is a bug in this crate: the parser panics with the line.

use super::{
    Apply, Cardinality, Entry, Field, Kind, ListType, MapType, Message, Patch, PatchStrategy, Scalar, Schema,
    Shape, Type,
};

impl Schema {
    /// Indexes the kinds and messages, without parsing the messages.
    pub(super) fn index(text: &'static str) -> Schema {
        let mut blocks = text.split("\n\n");
        let head = blocks.next().unwrap_or_default();
        let version = head.lines().next().and_then(|line| line.strip_prefix("kubernetes "));
        let mut schema = Schema {
            version: version.unwrap_or_else(|| broken(head)),
            kinds: Box::default(),
            messages: blocks.map(entry).collect(),
        };
        let kinds = head.lines().skip(1).filter(|line| !line.starts_with('#'));
        schema.kinds = kinds.map(|line| schema.kind_in(line).unwrap_or_else(|| broken(line))).collect();
        schema
    }

    pub(super) fn parse(&'static self, entry: &'static Entry) -> Message {
        let mut traits = entry.traits.split_ascii_whitespace().peekable();
        let shape = traits.next_if(|word| word.starts_with(char::is_uppercase)).map_or(Shape::Object, shape);
        let (mut type_meta, mut atomic) = (false, false);
        for word in traits {
            match word {
                "typemeta" => type_meta = true,
                "atomic" => atomic = true,
                _ => broken(entry.traits),
            }
        }
        let fields: Box<[Field]> = entry.fields.lines().map(|line| self.field(entry.name, line)).collect();
        let by_name = self.names(&fields);
        let shown = fields.iter().enumerate().filter(|(_, field)| field.shown_when_absent());
        let shown_when_absent = shown.map(|(at, _)| at as u16).collect();
        let dense = (1..).zip(&fields).take_while(|(number, field)| *number == field.number).count() as u32;
        Message { name: entry.name, shape, type_meta, atomic, fields, by_name, shown_when_absent, dense }
    }

    fn kind_in(&self, line: &'static str) -> Option<Kind> {
        let mut words = line.strip_prefix("kind ")?.split(' ');
        let (api_version, kind, message) = (words.next()?, words.next()?, words.next()?);
        Some(Kind { api_version, kind, message, place: self.place("", message)? })
    }

    fn field(&'static self, message: &'static str, line: &'static str) -> Field {
        let mut words = line.split(' ');
        let (Some(number), Some(name), Some(ty)) = (words.next(), words.next(), words.next()) else {
            broken(line)
        };
        let (pointer, ty) = match ty.strip_prefix('*') {
            Some(ty) => (true, ty),
            None => (false, ty),
        };
        let ty = self.ty(message, ty).unwrap_or_else(|| broken(line));
        let mut field = Field {
            number: number.parse().unwrap_or_else(|_| broken(line)),
            name: if name == "-" { "" } else { name },
            ty,
            pointer,
            omit_empty: false,
            omit_zero: false,
            inline: name == "-",
            patch: Patch::default(),
            apply: self.apply_default(ty),
        };
        for word in words {
            trait_of(&mut field, word).unwrap_or_else(|| broken(line));
        }
        field
    }

    fn ty(&self, message: &str, word: &str) -> Option<Type> {
        let (cardinality, word) = if let Some(word) = word.strip_prefix("[]") {
            (Cardinality::List, word)
        } else if let Some(word) = word.strip_prefix("{}") {
            (Cardinality::Map, word)
        } else {
            (Cardinality::One, word)
        };
        let scalar = match word {
            "bool" => Scalar::Bool,
            "int32" => Scalar::Int32,
            "int64" => Scalar::Int64,
            "uint32" => Scalar::Uint32,
            "uint64" => Scalar::Uint64,
            "float" => Scalar::Float,
            "double" => Scalar::Double,
            "string" => Scalar::String,
            "bytes" => Scalar::Bytes,
            _ => Scalar::Message(self.place(message, word)?),
        };
        Some(Type { cardinality, scalar })
    }

    /// The index of a referenced message: `.Name` if both are in one package, otherwise its full name.
    fn place(&self, from: &str, reference: &str) -> Option<u16> {
        let package = if reference.starts_with('.') { &from[..from.rfind('.')?] } else { "" };
        let name = || package.bytes().chain(reference.bytes());
        let at = self.messages.binary_search_by(|entry| entry.name.bytes().cmp(name())).ok()?;
        u16::try_from(at).ok()
    }

    /// The default for server-side apply: lists are atomic, maps and objects granular. A message that is a scalar in JSON has
    /// neither default. A message of arbitrary JSON has both, because its value may be a list or a map.
    fn apply_default(&self, ty: Type) -> Apply {
        const LIST: Apply = Apply { list: Some(ListType::Atomic), map: None };
        const MAP: Apply = Apply { list: None, map: Some(MapType::Granular) };
        const ANY: Apply = Apply { list: Some(ListType::Atomic), map: Some(MapType::Granular) };
        const VALUE: Apply = Apply { list: None, map: None };
        match (ty.cardinality, ty.scalar) {
            (Cardinality::List, _) => LIST,
            (Cardinality::Map, _) => MAP,
            (Cardinality::One, Scalar::Message(at)) => match self.shape_at(at) {
                Shape::Object => MAP,
                Shape::StringList => LIST,
                Shape::Time | Shape::MicroTime | Shape::Duration | Shape::Quantity | Shape::IntOrString => {
                    VALUE
                }
                Shape::RawJson | Shape::SchemaOrBool | Shape::SchemaOrArray | Shape::SchemaOrStrings => ANY,
            },
            (Cardinality::One, _) => VALUE,
        }
    }

    /// The shape of a message, without parsing its fields.
    fn shape_at(&self, at: u16) -> Shape {
        let word = self.messages[usize::from(at)].traits.split(' ').next().unwrap_or_default();
        if word.starts_with(char::is_uppercase) { shape(word) } else { Shape::Object }
    }

    /// All JSON names of a message, including those of inlined ones, each with the field that leads to it.
    fn names(&'static self, fields: &[Field]) -> Box<[(&'static str, u16)]> {
        let mut names = Vec::with_capacity(fields.len());
        for (at, field) in (0..).zip(fields) {
            // Follow only inlined messages: other references can be circular.
            let inlined = if field.inline { field.ty.message(self) } else { None };
            match inlined {
                Some(inlined) => names.extend(inlined.by_name.iter().map(|&(name, _)| (name, at))),
                None => names.push((field.name, at)),
            };
        }
        names.sort_unstable();
        names.into()
    }
}

fn entry(block: &'static str) -> Entry {
    let (head, fields) = block.split_once('\n').unwrap_or((block, ""));
    let Some(head) = head.strip_prefix("message ") else { broken(head) };
    let (name, traits) = head.split_once(' ').unwrap_or((head, ""));
    Entry { name, traits, fields, parsed: Default::default() }
}

fn shape(word: &str) -> Shape {
    match word {
        "Time" => Shape::Time,
        "MicroTime" => Shape::MicroTime,
        "Duration" => Shape::Duration,
        "Quantity" => Shape::Quantity,
        "IntOrString" => Shape::IntOrString,
        "RawJson" => Shape::RawJson,
        "StringList" => Shape::StringList,
        "SchemaOrBool" => Shape::SchemaOrBool,
        "SchemaOrArray" => Shape::SchemaOrArray,
        "SchemaOrStrings" => Shape::SchemaOrStrings,
        _ => broken(word),
    }
}

/// Adds one trait to a field.
fn trait_of(field: &mut Field, word: &'static str) -> Option<()> {
    match word {
        "omitempty" => field.omit_empty = true,
        "omitzero" => field.omit_zero = true,
        "set" => field.apply.list = Some(ListType::Set),
        "atomic" => field.apply.map = Some(MapType::Atomic),
        "granular" => field.apply.map = Some(MapType::Granular),
        _ => {
            if let Some(strategies) = word.strip_prefix("patch=") {
                for strategy in strategies.split(',') {
                    match strategy {
                        "merge" => field.patch.strategy = PatchStrategy::Merge,
                        "replace" => field.patch.strategy = PatchStrategy::Replace,
                        "retainKeys" => field.patch.retain_keys = true,
                        _ => return None,
                    }
                }
            } else if let Some(key) = word.strip_prefix("key=") {
                field.patch.merge_key = Some(key);
            } else {
                let keys = word.strip_prefix("map(")?.strip_suffix(')')?;
                field.apply.list = Some(ListType::Map(keys.split(',').map(list_key).collect()));
            }
        }
    }
    Some(())
}

fn list_key(key: &'static str) -> (&'static str, Option<&'static str>) {
    match key.split_once('=') {
        Some((key, default)) => (key, Some(default)),
        None => (key, None),
    }
}

/// The text is part of the crate, and tests parse every line of it.
fn broken(line: &str) -> ! {
    panic!("invalid line in the schema table: {line:?}")
}
