//! Objects as values, as stored bytes and in wire form.
//!
//! Built-in kinds are stored as the protobuf message that Go would write, kinds without one (custom resources) as
//! compact JSON; both without apiVersion and kind. A protobuf response is the stored bytes in an envelope, and a JSON
//! response is transcoded directly from the message. Values (`serde_json::Value`) exist only during a write.

mod frame;
mod list;
mod metadata;
mod show;
mod unknown;

use kube_wire::internals::de::{Deserializer, UnknownFields};
use kube_wire::internals::ser::Serializer;
use kube_wire::schema::{Message, Schema};
use serde::Deserialize as _;
use serde_json::{Map, Value};

pub(crate) use frame::{bookmark, status_event, watch_event};
pub(crate) use list::{ListBody, ListMeta};
pub(crate) use show::{object, other, status};
pub(crate) use unknown::unknown_fields;

use crate::convert;
use crate::resources::{Flavour, Resource};
use crate::selector::selectable_fields;
use crate::storage::{Attributes, Draft};

/// How a collection's objects are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// As this protobuf message.
    Protobuf(&'static Message),
    /// As JSON.
    Json,
}

/// An object that does not match its kind.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Misfit(String);

impl Form {
    /// The form of a built-in kind.
    pub(crate) fn of(api_version: &str, kind: &str) -> Self {
        Schema::builtin().kind(api_version, kind).map_or(Self::Json, Self::Protobuf)
    }

    pub(crate) fn message(self) -> Option<&'static Message> {
        match self {
            Self::Protobuf(message) => Some(message),
            Self::Json => None,
        }
    }
}

/// Encodes a value of the resource's kind for storage.
pub(crate) fn encode(resource: &Resource, value: &Value) -> Result<Draft, Misfit> {
    let bytes = encode_bytes(resource, value)?;
    Ok(Draft { bytes: bytes.into_boxed_slice(), attributes: attributes(resource, value) })
}

/// Only the stored bytes.
pub(crate) fn encode_bytes(resource: &Resource, value: &Value) -> Result<Vec<u8>, Misfit> {
    let converted;
    let value = match resource.flavour {
        Flavour::Events => {
            converted = convert::events_to_core(value);
            &converted
        }
        _ => value,
    };
    match resource.form {
        Form::Protobuf(message) => {
            let mut bytes = Vec::with_capacity(512);
            let serializer = Serializer::new(message).unknown_fields(UnknownFields::Skip);
            serializer.serialize_into(value, &mut bytes).map_err(|error| Misfit(error.to_string()))?;
            bytes.shrink_to_fit();
            Ok(bytes)
        }
        Form::Json => {
            let members = value.as_object().into_iter().flatten();
            let stored: std::collections::BTreeMap<&String, &Value> =
                members.filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind")).collect();
            serde_json::to_vec(&stored).map_err(|error| Misfit(error.to_string()))
        }
    }
}

/// Decodes stored bytes to a value in the resource's version, with apiVersion and kind.
pub(crate) fn decode(resource: &Resource, bytes: &[u8]) -> Value {
    // The stored bytes were encoded here.
    let mut value = match resource.form {
        Form::Protobuf(message) => Value::deserialize(Deserializer::new(bytes, message))
            .unwrap_or_else(|_| Value::Object(Map::new())),
        Form::Json => serde_json::from_slice(bytes).unwrap_or_else(|_| Value::Object(Map::new())),
    };
    if matches!(resource.flavour, Flavour::Events) {
        value = convert::events_from_core(&value);
    }
    if let Some(object) = value.as_object_mut() {
        object.insert("apiVersion".to_owned(), resource.api_version.clone().into());
        object.insert("kind".to_owned(), resource.kind.clone().into());
    }
    value
}

fn attributes(resource: &Resource, value: &Value) -> Attributes {
    let mut attributes = Attributes::builder();
    let metadata = &value["metadata"];
    attributes.uid(metadata["uid"].as_str().unwrap_or_default());
    for (name, value) in metadata["labels"].as_object().into_iter().flatten() {
        attributes.label(name, value.as_str().unwrap_or_default());
    }
    for owner in metadata["ownerReferences"].as_array().into_iter().flatten() {
        attributes.owner(owner["uid"].as_str().unwrap_or_default());
    }
    let converted;
    let core = match resource.flavour {
        Flavour::Events => {
            converted = convert::events_to_core(value);
            &converted
        }
        _ => value,
    };
    selectable_fields(resource, core, |path, value| attributes.field(path, value));
    attributes.finish()
}
