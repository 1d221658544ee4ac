//! Framing: where one object ends and the next begins, over any chunking of the input.
//!
//! Two bodies carry objects. A **watch** is an endless row of events: in JSON one `{"type": …, "object": …}` a line, in
//! protobuf frames of a four-byte length and a `WatchEvent`, whose object stands in an envelope of its own. A **list** is
//! one body with many items, which may be hundreds of megabytes long; it is never held whole, items come out one by one
//! as soon as they are there, and the list's own metadata (which JSON may put *after* the items) at the end.
//!
//! [`WatchDecoder`] and [`ListDecoder`] read both encodings. They are fed chunks as the socket gives them (`push`) and
//! asked for what is there (`next_event`, `next_item`) until that is `None`. An error about one object leaves the rest
//! readable; one that loses the framing ([`Error::is_fatal`](crate::Error::is_fatal)) ends the stream.

mod input;
mod list;
mod list_head;
mod proto;
mod watch;

pub use list::ListDecoder;
pub use list_head::ListHead;
pub use watch::{WatchDecoder, WatchEvent};
