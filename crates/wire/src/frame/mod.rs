//! Framing: finds the boundaries of objects in input of any chunk size.
//!
//! Two kinds of body contain objects. A **watch** is an endless sequence of events: in JSON one `{"type": …, "object":
//! …}` per line, in protobuf frames of a four-byte length and a `WatchEvent` whose object has its own envelope. A
//! **list** is one body with many items, which may be hundreds of megabytes long. It is never held as a whole: items
//! are returned one by one as they arrive, and the list's own metadata (which JSON may put *after* the items) at the
//! end.
//!
//! [`WatchDecoder`] and [`ListDecoder`] read both encodings. Push chunks as they arrive (`push`), and call
//! `next_event` or `next_item` until it returns `None`. An error in one object leaves the rest readable; an error that
//! loses the framing ([`Error::is_fatal`](crate::Error::is_fatal)) ends the stream.

mod input;
mod list;
mod list_head;
mod proto;
mod watch;

pub use list::ListDecoder;
pub use list_head::ListHead;
pub use watch::{WatchDecoder, WatchEvent};
