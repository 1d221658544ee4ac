//! Owner references, read from the bytes during iteration.

use std::borrow::Cow;

use super::text;
use crate::Encoding;
use crate::error::Result;
use crate::json;
use crate::proto::Reader;

/// The owner references of an object. Protobuf strings that are not UTF-8 are handled as in [`Labels`](super::Labels).
#[derive(Clone, Debug)]
pub struct Owners<'a>(OwnerSource<'a>);

/// One owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnerReference<'a> {
    /// apiVersion of the owner.
    pub api_version: Cow<'a, str>,
    /// Kind of the owner.
    pub kind: Cow<'a, str>,
    /// Name of the owner, in the object's namespace or cluster-scoped.
    pub name: Cow<'a, str>,
    /// Uid of the owner.
    pub uid: Cow<'a, str>,
    /// Whether this owner is the managing controller.
    pub controller: bool,
    /// Whether a foreground deletion of the owner waits for this object.
    pub block_owner_deletion: bool,
}

#[derive(Clone, Debug)]
enum OwnerSource<'a> {
    Json(json::Elements<'a>),
    Protobuf(Reader<'a>),
}

/// Field of `ObjectMeta` that holds the owner references.
pub(super) const OWNERS: u32 = 13;

impl<'a> Owners<'a> {
    /// Reads the bytes from [`Head::owner_bytes`](super::Head::owner_bytes), which may be stored apart from their
    /// object.
    pub fn new(bytes: &'a [u8], encoding: Encoding) -> Self {
        Self(match encoding {
            Encoding::Json => OwnerSource::Json(json::Elements::new(bytes)),
            Encoding::Protobuf => OwnerSource::Protobuf(Reader::new(bytes)),
        })
    }

    /// The owner that is the managing controller, if any.
    pub fn controller(&self) -> Option<OwnerReference<'a>> {
        self.clone().find(|owner| owner.controller)
    }
}

impl<'a> Iterator for Owners<'a> {
    type Item = OwnerReference<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        // Malformed references were rejected when the object was read; here they end the iteration.
        match &mut self.0 {
            OwnerSource::Json(elements) => from_json(elements.next()?.ok()?).ok(),
            OwnerSource::Protobuf(reader) => loop {
                let tag = reader.tag().ok()??;
                if tag.number == OWNERS {
                    return from_protobuf(reader.expect_bytes(tag).ok()?).ok();
                }
                reader.skip(tag.wire_type).ok()?;
            },
        }
    }
}

pub(super) fn from_protobuf(bytes: &[u8]) -> Result<OwnerReference<'_>> {
    let mut owner = OwnerReference::default();
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => owner.kind = text(reader.expect_bytes(tag)?),
            3 => owner.name = text(reader.expect_bytes(tag)?),
            4 => owner.uid = text(reader.expect_bytes(tag)?),
            5 => owner.api_version = text(reader.expect_bytes(tag)?),
            6 => owner.controller = reader.expect_varint(tag)? != 0,
            7 => owner.block_owner_deletion = reader.expect_varint(tag)? != 0,
            _ => reader.skip(tag.wire_type)?,
        }
    }
    Ok(owner)
}

pub(crate) fn from_json(value: json::Value<'_>) -> Result<OwnerReference<'_>> {
    let mut owner = OwnerReference::default();
    for member in json::Members::new(value.bytes()) {
        let (name, value) = member?;
        let text = match &*name {
            "kind" => &mut owner.kind,
            "name" => &mut owner.name,
            "uid" => &mut owner.uid,
            "apiVersion" => &mut owner.api_version,
            "controller" => {
                owner.controller = value.bytes() == b"true";
                continue;
            }
            "blockOwnerDeletion" => {
                owner.block_owner_deletion = value.bytes() == b"true";
                continue;
            }
            _ => continue,
        };
        *text = value.as_string()?.unwrap_or_default();
    }
    Ok(owner)
}
