//! A response body that counts as a request on its connection until it is read to its end or dropped.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};

/// A body, and the token that counts its request.
pub(super) struct TrackedBody<B> {
    body: B,
    _token: Option<Arc<()>>,
}

impl<B> TrackedBody<B> {
    pub(super) fn new(body: B, token: Option<Arc<()>>) -> Self {
        Self { body, _token: token }
    }
}

impl<B: Body + Unpin> Body for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
