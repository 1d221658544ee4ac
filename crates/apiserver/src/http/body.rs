//! Response bodies: complete, a list in chunks, or a watch.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use kube_wire::Encoding;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::codec::{self, ListBody};
use crate::faults::{Script, Step};
use crate::watch::Watch;

/// The body of a response.
pub struct ApiBody {
    inner: BodyContent,
    /// The faults to inject, and the encoding of injected errors.
    faults: Option<Box<(Script, Encoding)>>,
    /// Breaks the stream once ready; `None` if the connection does that, or if there is no stream.
    broken: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

enum BodyContent {
    Whole(Option<Bytes>),
    List(Box<ListBody>),
    Watch(Box<Watch>),
    /// Sends nothing and never ends.
    Silence,
}

impl ApiBody {
    fn new(inner: BodyContent) -> Self {
        Self { inner, faults: None, broken: None }
    }

    /// Breaks the body when the token is cancelled.
    pub(crate) fn until(mut self, broken: CancellationToken) -> Self {
        if !matches!(self.inner, BodyContent::Whole(_)) {
            self.broken = Some(Box::pin(broken.cancelled_owned()));
        }
        self
    }

    /// The error of broken requests and streams.
    pub(crate) fn broken() -> io::Error {
        io::Error::new(io::ErrorKind::ConnectionReset, "connection closed by the server")
    }

    /// Adds faults to the body.
    pub(crate) fn with_faults(mut self, script: Script, encoding: Encoding) -> Self {
        self.faults = Some(Box::new((script, encoding)));
        self
    }

    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self::new(BodyContent::Whole((!bytes.is_empty()).then_some(bytes)))
    }

    /// A list: complete with a length if it is short, otherwise streamed.
    pub(crate) fn list(mut list: ListBody) -> Self {
        let first = list.next_chunk();
        match first {
            Some(chunk) if list.is_done() => Self::whole(chunk),
            Some(chunk) => Self::new(BodyContent::List(Box::new(list.put_back(chunk)))),
            None => Self::whole(Bytes::new()),
        }
    }

    pub(crate) fn watch(watch: Watch) -> Self {
        Self::new(BodyContent::Watch(Box::new(watch)))
    }
}

impl BodyContent {
    /// The next chunk. With `framed`, each chunk is one watch event, because faults count events.
    fn poll_bytes(&mut self, framed: bool, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::List(list) => Poll::Ready(list.next_chunk()),
            Self::Watch(watch) if framed => watch.poll_frame(context),
            Self::Watch(watch) => watch.poll_chunk(context),
            Self::Silence => Poll::Pending,
        }
    }
}

impl Body for ApiBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.broken.as_mut().is_some_and(|broken| broken.as_mut().poll(context).is_ready()) {
            *self = Self::new(BodyContent::Whole(None));
            return Poll::Ready(Some(Err(Self::broken())));
        }
        loop {
            let step = match &mut self.faults {
                Some(faults) => faults.0.before(),
                None => Step::Read,
            };
            let framed = self.faults.is_some();
            let step = match step {
                Step::Read => match std::task::ready!(self.inner.poll_bytes(framed, context)) {
                    None => return Poll::Ready(None),
                    Some(bytes) => match &mut self.faults {
                        Some(faults) => faults.0.after(&bytes),
                        None => Step::Send(bytes),
                    },
                },
                step => step,
            };
            match step {
                Step::Send(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Step::Error(status) => {
                    let encoding = self.faults.take().map_or(Encoding::Json, |faults| faults.1);
                    self.inner = BodyContent::Whole(Some(codec::status_event(&status, encoding)));
                }
                Step::End => {
                    self.faults = None;
                    self.inner = BodyContent::Whole(None);
                }
                Step::Break(error) => return Poll::Ready(Some(Err(error))),
                Step::Stall => {
                    self.faults = None;
                    self.inner = BodyContent::Silence;
                }
                Step::Read => {}
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.faults.is_none() && matches!(&self.inner, BodyContent::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        if self.faults.is_some() {
            return SizeHint::default();
        }
        match &self.inner {
            BodyContent::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            BodyContent::List(_) | BodyContent::Watch(_) | BodyContent::Silence => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for ApiBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiBody")
    }
}
