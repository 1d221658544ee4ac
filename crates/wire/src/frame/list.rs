//! The items of a list, in either encoding.

use bytes::Bytes;

use super::ListHead;
use super::proto::ListItems;
use crate::error::Result;
use crate::json;
use crate::object::{ObjectReader, RawObject};
use crate::{Encoding, TypeMeta};

/// Reads the items of a list from its body, in chunks of any size, without holding the whole body.
///
/// ```
/// use kube_wire::{Encoding, Limits, ListDecoder, ObjectReader, Projection};
///
/// let reader = ObjectReader::new(Projection::default(), Limits::default());
/// let mut list = ListDecoder::new(Encoding::Json, reader);
/// list.push(r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":["#.into());
/// assert!(list.next_item().is_none());
/// list.push(r#"{"metadata":{"name":"web"}},{"metadata":{"name":"db"}}]}"#.into());
/// assert_eq!(list.next_item().unwrap()?.head().name(), "web");
/// assert_eq!(list.next_item().unwrap()?.type_meta().to_string(), "v1/Pod");
/// assert!(list.next_item().is_none());
/// assert_eq!(list.finish()?.resource_version, "7");
/// # Ok::<(), kube_wire::Error>(())
/// ```
#[derive(Debug)]
pub struct ListDecoder {
    reader: ObjectReader,
    items: ItemDecoder,
    /// The items' type according to the list's kind, once known.
    item_type: Option<TypeMeta>,
}

#[derive(Debug)]
enum ItemDecoder {
    Json(json::ListBody),
    Protobuf(ListItems),
}

impl ListDecoder {
    /// A decoder for a body in this encoding; `reader` reads its items.
    pub fn new(encoding: Encoding, reader: ObjectReader) -> Self {
        let items = match encoding {
            Encoding::Json => ItemDecoder::Json(json::ListBody::new(reader.limits())),
            Encoding::Protobuf => ItemDecoder::Protobuf(ListItems::new(reader.limits())),
        };
        Self { reader, items, item_type: None }
    }

    /// Adds a chunk of the body. Read all available items before adding the next chunk.
    pub fn push(&mut self, chunk: Bytes) {
        match &mut self.items {
            ItemDecoder::Json(body) => body.push(chunk),
            ItemDecoder::Protobuf(items) => items.push(chunk),
        }
    }

    /// The next item; `None` until one is available.
    ///
    /// # Errors
    /// Concerns one item, unless [`Error::is_fatal`](crate::Error::is_fatal) returns true: then the rest is
    /// unreadable.
    pub fn next_item(&mut self) -> Option<Result<RawObject>> {
        let Self { reader, items, item_type } = self;
        let (encoding, item) = match items {
            ItemDecoder::Json(body) => (Encoding::Json, body.next()?),
            ItemDecoder::Protobuf(items) => (Encoding::Protobuf, items.next()?),
        };
        Some(item.and_then(|(head, bytes)| {
            if item_type.is_none() {
                *item_type = TypeMeta::new(&head.api_version, &head.kind).item_of_list();
            }
            reader.read(bytes, encoding, item_type.as_ref())
        }))
    }

    /// The list's head so far. Complete only at the end: JSON may put it after the items.
    pub fn head(&self) -> &ListHead {
        match &self.items {
            ItemDecoder::Json(body) => body.head(),
            ItemDecoder::Protobuf(items) => &items.head,
        }
    }

    /// Ends the body and returns the list's head.
    ///
    /// # Errors
    /// If the body is incomplete.
    pub fn finish(self) -> Result<ListHead> {
        match self.items {
            ItemDecoder::Json(body) => body.finish(),
            ItemDecoder::Protobuf(items) => items.finish(),
        }
    }
}
