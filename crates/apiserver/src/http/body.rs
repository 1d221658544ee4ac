//! Bodies of answers: all at once, a list a chunk at a time, or a watch.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::codec::ListBody;
use crate::watch::Watch;

/// The body of an answer.
pub struct ApiBody(Inner);

enum Inner {
    Whole(Option<Bytes>),
    List(Box<ListBody>),
    Watch(Box<Watch>),
}

impl ApiBody {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self(Inner::Whole((!bytes.is_empty()).then_some(bytes)))
    }

    /// A list: whole if it is short, so that it has a length; otherwise as it is read.
    pub(crate) fn list(mut list: ListBody) -> Self {
        let first = list.next_chunk();
        match first {
            Some(chunk) if list.is_done() => Self::whole(chunk),
            Some(chunk) => Self(Inner::List(Box::new(list.put_back(chunk)))),
            None => Self::whole(Bytes::new()),
        }
    }

    pub(crate) fn watch(watch: Watch) -> Self {
        Self(Inner::Watch(Box::new(watch)))
    }
}

impl Body for ApiBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let frame = match &mut self.0 {
            Inner::Whole(bytes) => Poll::Ready(bytes.take()),
            Inner::List(list) => Poll::Ready(list.next_chunk()),
            Inner::Watch(watch) => watch.poll_frame(context),
        };
        frame.map(|frame| frame.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Inner::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Inner::List(_) | Inner::Watch(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for ApiBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiBody")
    }
}
