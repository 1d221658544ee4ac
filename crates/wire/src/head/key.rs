//! Identifies an unreadable object for its error.
//!
//! Works on a best-effort basis: the object may be malformed elsewhere, or only the start of an oversized one may be
//! available. A wrong key would be worse than none, so an object counts as cluster-scoped only if all of its metadata
//! was available.

use std::borrow::Cow;

use crate::Encoding;
use crate::envelope::{MAGIC, RAW};
use crate::error::Result;
use crate::json;
use crate::proto::{Reader, WireType};

/// Namespace and name.
pub(crate) type Key = (Box<str>, Box<str>);

/// Longer names are left out of errors.
const NAME_BYTES_MAX: usize = 4 << 10;

/// The key of an object, from its complete or truncated text or message.
#[cold]
pub(crate) fn of(object: &[u8], encoding: Encoding) -> Option<Key> {
    let (namespace, name) = match encoding {
        Encoding::Json => in_text(object)?,
        Encoding::Protobuf => in_message(object)?,
    };
    let fits = !name.is_empty() && namespace.len().max(name.len()) <= NAME_BYTES_MAX;
    fits.then(|| (namespace.into(), name.into()))
}

/// Like `of`, for an object in an envelope.
pub(crate) fn in_envelope(envelope: &[u8]) -> Option<Key> {
    of(field(envelope.strip_prefix(&MAGIC)?, RAW).ok()??.0, Encoding::Protobuf)
}

/// Like `of`, for the object of a watch event, from its complete or truncated text or message.
pub(crate) fn in_event(event: &[u8], encoding: Encoding) -> Option<Key> {
    match encoding {
        Encoding::Json => of(json::member(event, "object")?, encoding),
        Encoding::Protobuf => in_envelope(field(field(event, 2).ok()??.0, 1).ok()??.0),
    }
}

/// The type of a watch event, from its complete or truncated text or message.
pub(crate) fn event_type(event: &[u8], encoding: Encoding) -> Option<Cow<'_, str>> {
    match encoding {
        Encoding::Json => json::Value::new(json::member(event, "type")?).as_string().ok()?,
        Encoding::Protobuf => match field(event, 1).ok()?? {
            (event_type, true) => std::str::from_utf8(event_type).ok().map(Cow::Borrowed),
            _ => None,
        },
    }
}

fn in_text(text: &[u8]) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let meta = json::member(text, "metadata")?;
    let string = |value| json::Value::new(value).as_string().ok()?;
    let namespace = match json::member(meta, "namespace") {
        Some(namespace) => string(namespace)?,
        // Scanned to its end.
        None if json::Members::new(meta).all(|member| member.is_ok()) => Cow::Borrowed(""),
        None => return None,
    };
    Some((namespace, string(json::member(meta, "name")?)?))
}

fn in_message(message: &[u8]) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let (meta, meta_whole) = field(message, 1).ok()??;
    let namespace = match field(meta, 3).ok()? {
        Some((namespace, true)) => namespace,
        None if meta_whole => &[],
        _ => return None,
    };
    let (name, true) = field(meta, 1).ok()?? else { return None };
    let string = |bytes| std::str::from_utf8(bytes).ok().map(Cow::Borrowed);
    Some((string(namespace)?, string(name)?))
}

/// The available part of the first field with this number, and whether it is complete.
fn field(message: &[u8], wanted: u32) -> Result<Option<(&[u8], bool)>> {
    let mut reader = Reader::new(message);
    while let Some(tag) = reader.tag()? {
        if (tag.number, tag.wire_type) != (wanted, WireType::Len) {
            reader.skip(tag.wire_type)?;
            continue;
        }
        let len = reader.varint()?;
        let rest = &message[reader.position()..];
        let whole = usize::try_from(len).ok().and_then(|len| rest.get(..len));
        return Ok(Some((whole.unwrap_or(rest), whole.is_some())));
    }
    Ok(None)
}
