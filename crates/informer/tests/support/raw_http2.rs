//! The same server as [`RawServer`](super::raw_server::RawServer), over TLS and HTTP/2: it writes any bytes instead of a TLS
//! handshake, or any frames, until the test makes it behave. Requests share connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use kube_client::Config;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::task::AbortOnDropHandle;

use super::raw_server::{Answer, Mood, Reply, Stage, TOKEN, last_bookmark, reply};

/// What the server does at its stage.
#[derive(Clone)]
pub enum Hostility {
    /// Writes these bytes as soon as a client connects.
    Tls(Answer),
    /// Writes these frames: as soon as a client has connected, or in response to a request.
    Frames(Frames),
}

/// Writes frames.
pub type Frames = Arc<dyn Fn(Wire) -> BoxFuture<'static, io::Result<()>> + Send + Sync>;

/// A connection that speaks HTTP/2, below its frames.
pub struct Wire {
    /// The stream of the request; the client's first one if there is no request yet.
    pub stream: u32,
    write: WriteHalf<TlsStream<TcpStream>>,
    /// Reads and discards everything, until the client closes the connection.
    reader: AbortOnDropHandle<()>,
}

pub struct RawHttp2 {
    address: SocketAddr,
    certificate: Vec<u8>,
    shared: Arc<Shared>,
    _accepting: AbortOnDropHandle<()>,
}

struct Shared {
    stage: Stage,
    hostility: Hostility,
    /// Whether hostile connections stay hostile when the server behaves.
    stays: bool,
    tls: TlsAcceptor,
    mood: watch::Sender<Mood>,
    /// Hostile connections that are still open.
    hostile: watch::Sender<usize>,
    authorizations: Mutex<Vec<Option<String>>>,
}

// === frames ===

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// The largest payload without other settings.
pub const PAYLOAD_MAX: usize = 16 << 10;

/// A frame whose length may be a lie.
pub fn frame_of(length: usize, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(length).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    frame_of(payload.len(), kind, flags, stream, payload)
}

/// One setting.
pub fn setting(id: u16, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

/// The client may use streams up to this one, and why the connection closes.
pub fn go_away(last: u32, reason: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), reason.to_be_bytes()].concat())
}

/// A header field that is not compressed; both parts have fewer than 127 bytes.
pub fn field(name: &str, value: &str) -> Vec<u8> {
    let (name_bytes, value_bytes) = (u8::try_from(name.len()).unwrap(), u8::try_from(value.len()).unwrap());
    [&[0, name_bytes][..], name.as_bytes(), &[value_bytes], value.as_bytes()].concat()
}

/// The header block of a response with JSON.
pub fn ok_block() -> Vec<u8> {
    // The first is `:status: 200`.
    [&[0x88][..], &field("content-type", "application/json")].concat()
}

/// The headers of a response with JSON.
pub fn ok(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &ok_block())
}

/// A part of a body, in one frame.
pub fn data(stream: u32, payload: impl AsRef<[u8]>) -> Vec<u8> {
    frame(DATA, 0, stream, payload.as_ref())
}

// === answers ===

/// These frames, which depend on the stream, and then the end of the connection.
pub fn then_closed(frames: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> Hostility {
    answer(frames, |_| Box::pin(async { Ok(()) }))
}

/// These frames, and then silence.
pub fn then_silence(frames: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> Hostility {
    answer(frames, |mut wire| {
        Box::pin(async move {
            wire.closed().await;
            Ok(())
        })
    })
}

/// These frames, and then others again and again, until the client closes the connection.
pub fn then_flood(
    frames: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static,
    again: impl Fn(u32) -> Vec<u8> + Clone + Send + Sync + 'static,
) -> Hostility {
    answer(frames, move |wire| Box::pin(wire.flood(again.clone())))
}

/// The same without reading: the client's responses to these frames are pending.
pub fn then_unread_flood(again: impl Fn(u32) -> Vec<u8> + Clone + Send + Sync + 'static) -> Hostility {
    answer(
        |_| Vec::new(),
        move |wire| {
            wire.reader.abort();
            Box::pin(wire.flood(again.clone()))
        },
    )
}

fn answer(
    frames: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static,
    then: impl Fn(Wire) -> BoxFuture<'static, io::Result<()>> + Clone + Send + Sync + 'static,
) -> Hostility {
    Hostility::Frames(Arc::new(move |mut wire: Wire| {
        let (frames, then) = (frames(wire.stream), then.clone());
        Box::pin(async move {
            wire.write(&frames).await?;
            then(wire).await
        })
    }))
}

// === impl Wire ===

impl Wire {
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write.write_all(bytes).await?;
        self.write.flush().await
    }

    /// Waits until the client closes the connection.
    pub async fn closed(&mut self) {
        let _ = (&mut self.reader).await;
    }

    async fn flood(mut self, again: impl Fn(u32) -> Vec<u8>) -> io::Result<()> {
        let again = again(self.stream);
        let again = again.repeat(((64 << 10) / again.len()).max(1));
        loop {
            self.write.write_all(&again).await?;
        }
    }
}

// === impl RawHttp2 ===

impl RawHttp2 {
    pub async fn start(stage: Stage, hostility: Hostility, stays: bool) -> Self {
        let key = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let certificate = key.cert.der().clone();
        let key = rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            stage,
            hostility,
            stays,
            tls: TlsAcceptor::from(Arc::new(tls)),
            mood: watch::Sender::new(Mood::Before),
            hostile: watch::Sender::new(0),
            authorizations: Mutex::default(),
        });
        let serving = shared.clone();
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                // A client that goes away ends its connection.
                connections.spawn(async move { drop(serving.serve(stream).await) });
            }
        });
        let certificate = certificate.to_vec();
        Self { address, certificate, shared, _accepting: AbortOnDropHandle::new(accepting) }
    }

    pub fn config(&self) -> Config {
        let mut config = Config::new(format!("https://{}", self.address).parse().unwrap());
        config.root_cert = Some(vec![self.certificate.clone()]);
        config.auth_info.token = Some(TOKEN.to_owned().into());
        config
    }

    /// What it does from now on.
    pub fn enter(&self, mood: Mood) {
        self.shared.mood.send_replace(mood);
    }

    /// Waits until the client has closed all hostile connections.
    pub async fn is_abandoned(&self) {
        self.shared.hostile.subscribe().wait_for(|open| *open == 0).await.unwrap();
    }

    /// The `authorization` of each request.
    pub fn authorizations(&self) -> Vec<Option<String>> {
        self.shared.authorizations.lock().clone()
    }
}

impl Shared {
    async fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let is_hostile = self.stage == Stage::Connect && *self.mood.borrow() == Mood::Hostile;
        if is_hostile && let Hostility::Tls(answer) = &self.hostility {
            return self.be_hostile(answer(stream)).await;
        }
        let (read, write) = tokio::io::split(self.tls.accept(stream).await?);
        if is_hostile && let Hostility::Frames(frames) = &self.hostility {
            let reader = AbortOnDropHandle::new(tokio::spawn(copy_or_discard(read, tokio::io::sink())));
            return self.be_hostile(frames(Wire { stream: 1, write, reader })).await;
        }
        let (near, far) = tokio::io::duplex(4 * PAYLOAD_MAX);
        let (from_server, to_server) = tokio::io::split(far);
        let reader = AbortOnDropHandle::new(tokio::spawn(copy_or_discard(read, to_server)));
        let writer = AbortOnDropHandle::new(tokio::spawn(copy(from_server, write)));
        let stream = self.behave(near).await;
        // All frames of the server that behaved are sent.
        let write = writer.await?;
        let Some(stream) = stream else { return Ok(()) };
        match &self.hostility {
            Hostility::Frames(frames) => self.be_hostile(frames(Wire { stream, write, reader })).await,
            Hostility::Tls(_) => Ok(()),
        }
    }

    /// Serves until the hostile answer to the request on this stream is due.
    async fn behave(&self, connection: tokio::io::DuplexStream) -> Option<u32> {
        let mut server = h2::server::Builder::new();
        let mut server = server.max_concurrent_streams(100).handshake::<_, Bytes>(connection).await.ok()?;
        let mut mood = self.mood.subscribe();
        // The mood of the responses: a connection that shuts down announces that before its watches end.
        let announced = watch::Sender::new(*mood.borrow_and_update());
        let mut answers = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = server.accept() => accepted,
                _ = mood.changed() => {
                    // The next request then needs another connection.
                    if self.stage == Stage::Connect {
                        server.graceful_shutdown();
                    }
                    announced.send_replace(*mood.borrow_and_update());
                    continue;
                }
            };
            let (request, mut respond) = accepted?.ok()?;
            let authorization = request.headers().get("authorization");
            let authorization = authorization.and_then(|value| value.to_str().ok()).map(str::to_owned);
            self.authorizations.lock().push(authorization);
            let now = *announced.borrow();
            let (code, body, is_watch) =
                match reply(self.stage, now, request.uri().query().unwrap_or_default()) {
                    Reply::Hostile => return Some(respond.stream_id().as_u32()),
                    Reply::Whole(code, body) => (code, body.to_string(), false),
                    Reply::Watch(events) => ("200 OK", events, true),
                };
            let head =
                http::Response::builder().status(&code[..3]).header("content-type", "application/json");
            let mut mood = announced.subscribe();
            answers.spawn(async move {
                let mut body_to = respond.send_response(head.body(()).unwrap(), false)?;
                body_to.send_data(body.into(), !is_watch)?;
                if is_watch {
                    let _ = mood.wait_for(|later| *later != now).await;
                    body_to.send_data(last_bookmark().into(), true)?;
                }
                Ok::<_, h2::Error>(())
            });
        }
    }

    async fn be_hostile(&self, answer: BoxFuture<'static, io::Result<()>>) -> io::Result<()> {
        self.hostile.send_modify(|open| *open += 1);
        let mut mood = self.mood.subscribe();
        let ended = tokio::select! {
            ended = answer => ended,
            _ = mood.wait_for(|now| *now == Mood::After), if !self.stays => Ok(()),
        };
        self.hostile.send_modify(|open| *open -= 1);
        ended
    }
}

/// Copies what the client sends, until it closes the connection. Discards it once the other side is gone.
async fn copy_or_discard(
    mut from: ReadHalf<TlsStream<TcpStream>>,
    mut to: impl tokio::io::AsyncWrite + Unpin,
) {
    let mut buffer = vec![0; PAYLOAD_MAX];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let _ = to.write_all(&buffer[..count]).await;
    }
    let _ = to.shutdown().await;
}

/// Copies to the end. Returns the writer.
async fn copy(
    mut from: impl tokio::io::AsyncRead + Unpin,
    mut to: WriteHalf<TlsStream<TcpStream>>,
) -> WriteHalf<TlsStream<TcpStream>> {
    let _ = tokio::io::copy(&mut from, &mut to).await;
    to
}
