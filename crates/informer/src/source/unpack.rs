//! A gzip body, decompressed while it is read.
//!
//! Memory is bounded: the output has pieces of a fixed size. The total is limited by
//! [`unpacked_bytes_max`](super::ClusterConfig::unpacked_bytes_max), because a few kilobytes can expand to gigabytes.

use std::io::{self, BufRead, Read};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use flate2::bufread::GzDecoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderValue, Request, Response};
use http_body::{Body, Frame, SizeHint};
use tower::BoxError;

/// Size of the output pieces.
const PIECE_BYTES: usize = 64 << 10;

/// The settings of compressed lists: see [`ClusterConfig::compress_lists`](super::ClusterConfig::compress_lists).
#[derive(Clone, Copy)]
pub(super) struct Compression {
    /// Most uncompressed bytes of one answer.
    pub(super) unpacked_bytes_max: u64,
}

/// A response exceeds the limit after decompression.
#[derive(Debug, thiserror::Error)]
#[error(
    "response too large: more than {allowed} bytes uncompressed; raise `ClusterConfig::unpacked_bytes_max` if this is expected"
)]
pub(super) struct TooLarge {
    allowed: u64,
}

/// A body as received, or decompressed.
pub(super) enum Unpack<B> {
    Uncompressed(B),
    Gzip(Box<Gzip<B>>),
}

pub(super) struct Gzip<B> {
    body: B,
    decoder: GzDecoder<Input>,
    piece: Vec<u8>,
    unpacked: u64,
    allowed: u64,
    ended: bool,
}

/// Compressed data that was not read yet. While it is empty and the body has not ended, reading returns `WouldBlock`.
#[derive(Debug, Default)]
struct Input {
    data: Bytes,
    is_last: bool,
}

// === impl Compression ===

impl Compression {
    pub(super) fn ask<B>(request: &mut Request<B>) {
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    }

    /// Decompresses the body of a gzip response. Others are unchanged.
    pub(super) fn unpack<B>(self, mut answer: Response<B>) -> Response<Unpack<B>> {
        let is_gzip = answer.headers().get(CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip");
        if is_gzip {
            answer.headers_mut().remove(CONTENT_ENCODING);
            answer.headers_mut().remove(CONTENT_LENGTH);
        }
        answer.map(|body| match is_gzip {
            true => Unpack::Gzip(Box::new(Gzip::new(body, self.unpacked_bytes_max))),
            false => Unpack::Uncompressed(body),
        })
    }
}

// === impl Unpack ===

impl<B> Body for Unpack<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            Self::Uncompressed(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Self::Gzip(gzip) => gzip.poll(cx).map(|piece| Some(piece.transpose()?.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Uncompressed(body) => body.is_end_stream(),
            Self::Gzip(gzip) => gzip.ended,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Uncompressed(body) => body.size_hint(),
            Self::Gzip(_) => SizeHint::default(),
        }
    }
}

// === impl Gzip ===

impl<B> Gzip<B> {
    fn new(body: B, allowed: u64) -> Self {
        let decoder = GzDecoder::new(Input::default());
        Self { body, decoder, piece: vec![0; PIECE_BYTES], unpacked: 0, allowed, ended: false }
    }
}

impl<B> Gzip<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BoxError>> {
        while !self.ended {
            match self.decoder.read(&mut self.piece) {
                Ok(0) => self.ended = true,
                Ok(len) => {
                    self.unpacked += len as u64;
                    if self.unpacked > self.allowed {
                        self.ended = true;
                        return Poll::Ready(Err(TooLarge { allowed: self.allowed }.into()));
                    }
                    return Poll::Ready(Ok(Some(Bytes::copy_from_slice(&self.piece[..len]))));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::task::ready!(self.poll_input(cx))?;
                }
                Err(error) => {
                    self.ended = true;
                    return Poll::Ready(Err(error.into()));
                }
            }
        }
        Poll::Ready(Ok(None))
    }

    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        let input = self.decoder.get_mut();
        match frame.transpose().map_err(Into::into)? {
            Some(frame) => input.data = frame.into_data().unwrap_or_default(),
            None => input.is_last = true,
        }
        Poll::Ready(Ok(()))
    }
}

// === impl Input ===

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.data.is_empty() && !self.is_last {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(&self.data)
    }

    fn consume(&mut self, amount: usize) {
        self.data.advance(amount);
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.fill_buf()?.read(buffer)?;
        self.consume(len);
        Ok(len)
    }
}
