//! Clients that send any HTTP/2 frames: the server closes their connections or serves them, in bounded memory, and serves others.

use std::collections::BTreeMap;
use std::time::Duration;

use embedded_apiserver::Server;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::JoinHandle;

use super::support::Session;
use super::{ALLOCATED, MAPS, turn};

/// Far longer than any timeout. The clock is paused and advances when all tasks are idle.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// Fails a test that waits for something that does not happen. Nothing waits this long otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// The memory of one connection and its requests.
const CONNECTION: usize = 2 << 20;
/// The memory of a stream whose response is not read.
const STREAM: usize = 400 << 10;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// The limit on streams per connection.
const STREAMS_MAX: usize = 100;
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The beginning of a connection.
fn preface() -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, b"")].concat()
}

fn setting(id: u16, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

/// The header block of a `GET`; the path has fewer than 127 bytes.
fn get_block(path: &str) -> Vec<u8> {
    [&[0x82, 0x86, 0x04, path.len() as u8][..], path.as_bytes(), b"\x01\x09localhost"].concat()
}

fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &get_block(path))
}

fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())
}

/// The number of the nth stream of a client.
fn nth(n: usize) -> u32 {
    2 * n as u32 + 1
}

/// A frame that the server sent.
struct Received {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// Reads a frame; `None` at the end of the connection.
async fn receive(from: &mut OwnedReadHalf) -> Option<Received> {
    let mut head = [0; 9];
    from.read_exact(&mut head).await.ok()?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    from.read_exact(&mut payload).await.ok()?;
    let stream = u32::from_be_bytes(head[5..9].try_into().unwrap());
    Some(Received { kind: head[3], flags: head[4], stream, payload })
}

/// The frames that the server sent: how many of each kind and flags, and the codes of `GOAWAY` and `RST_STREAM`.
#[derive(Debug, Default)]
struct Summary {
    frames: BTreeMap<(u8, u8), usize>,
    codes: BTreeMap<(u8, u32), usize>,
}

impl Summary {
    fn add(&mut self, frame: &Received) {
        *self.frames.entry((frame.kind, frame.flags)).or_default() += 1;
        let code = match frame.kind {
            RST_STREAM => &frame.payload[..4],
            GOAWAY => &frame.payload[4..8],
            _ => return,
        };
        *self.codes.entry((frame.kind, u32::from_be_bytes(code.try_into().unwrap()))).or_default() += 1;
    }

    fn count(&self, kind: u8, flags: u8) -> usize {
        self.frames.get(&(kind, flags)).copied().unwrap_or_default()
    }

    fn code(&self, kind: u8, code: u32) -> usize {
        self.codes.get(&(kind, code)).copied().unwrap_or_default()
    }
}

async fn connect(server: &Server) -> (OwnedReadHalf, OwnedWriteHalf) {
    let stream = TcpStream::connect(server.address().unwrap()).await.unwrap();
    // Otherwise every second small write waits for an acknowledgement.
    stream.set_nodelay(true).unwrap();
    stream.into_split()
}

/// Writes a beginning, and then more as often as requested or until the server closes the connection.
fn send(
    mut to: OwnedWriteHalf,
    beginning: Vec<u8>,
    again: impl Fn(usize) -> Vec<u8> + Send + Sync + 'static,
    times: usize,
) -> JoinHandle<(OwnedWriteHalf, std::io::Result<()>)> {
    tokio::spawn(async move {
        let sent = async {
            to.write_all(&beginning).await?;
            let mut buffer = Vec::new();
            for n in 0..times {
                buffer.extend_from_slice(&again(n));
                if buffer.len() > 16 << 10 || n + 1 == times {
                    to.write_all(&buffer).await?;
                    buffer.clear();
                }
            }
            Ok(())
        };
        let sent = sent.await;
        (to, sent)
    })
}

/// The same, and reads until the server closes the connection or the frames suffice. Also returns how much memory that took.
async fn flood(
    server: &Server,
    beginning: Vec<u8>,
    again: impl Fn(usize) -> Vec<u8> + Send + Sync + 'static,
    times: usize,
    suffices: impl Fn(&Summary) -> bool,
) -> (Summary, usize) {
    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    let (mut from, to) = connect(server).await;
    let sending = send(to, beginning, again, times);
    let summary = read(&mut from, suffices).await;
    let held = ALLOCATED.peak_usage().saturating_sub(before);
    drop(from);
    let _ = sending.await.unwrap();
    (summary, held)
}

async fn read(from: &mut OwnedReadHalf, suffices: impl Fn(&Summary) -> bool) -> Summary {
    let mut summary = Summary::default();
    let reading = async {
        while !suffices(&summary) {
            let Some(frame) = receive(from).await else { return };
            summary.add(&frame);
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("the server is silent"));
    summary
}

async fn still_serves(server: &Server) {
    let (mut from, mut to) = connect(server).await;
    to.write_all(&[preface(), get(1, "/livez")].concat()).await.unwrap();
    let answered = async {
        while let Some(frame) = receive(&mut from).await {
            if frame.kind == HEADERS && frame.stream == 1 {
                // `:status: 200`
                return frame.payload[0] == 0x88;
            }
        }
        false
    };
    assert!(tokio::time::timeout(PATIENCE, answered).await.unwrap(), "the server does not serve others");
}

/// A server with a list of some 10 MB.
async fn server() -> Session {
    let session = Session::new(Server::start().await.unwrap());
    let feed = session.server.feed("", "v1", "configmaps").unwrap();
    for n in 0..1000 {
        let version = (n + 100).to_string();
        let metadata = json!({"name": format!("m-{n}"), "namespace": "default", "uid": version, "resourceVersion": version});
        feed.put(&json!({"metadata": metadata, "data": {"padding": "x".repeat(10_000)}})).unwrap();
    }
    session
}

#[tokio::test]
async fn a_client_that_opens_and_resets_streams_is_disconnected() {
    let _turn = turn().await;
    let session = server().await;
    let rapid = |n| [get(nth(n), MAPS), reset(nth(n))].concat();
    let (summary, held) = flood(&session.server, preface(), rapid, 20_000, |_| false).await;
    assert_eq!(summary.code(GOAWAY, ENHANCE_YOUR_CALM), 1, "{summary:?}");
    assert!(held < CONNECTION, "{held} bytes");
    still_serves(&session.server).await;
    // A window beyond the largest one, for which the server resets the stream.
    let invalid =
        |n| [get(nth(n), MAPS), frame(WINDOW_UPDATE, 0, nth(n), &0x7fff_ffff_u32.to_be_bytes())].concat();
    let (summary, held) = flood(&session.server, preface(), invalid, 20_000, |_| false).await;
    assert_eq!(summary.code(GOAWAY, ENHANCE_YOUR_CALM), 1, "{summary:?}");
    assert!(held < CONNECTION, "{held} bytes");
    still_serves(&session.server).await;
    session.server.shutdown().await;
}

#[tokio::test]
async fn streams_that_are_reset_after_their_response_began_are_released() {
    const TIMES: usize = 600;
    let _turn = turn().await;
    let session = server().await;
    let (mut from, mut to) = connect(&session.server).await;
    // While the window of the connection is closed, h2 keeps about 470 bytes of each stream that waits for it, even after its reset.
    let opened = frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes());
    to.write_all(&[preface(), opened].concat()).await.unwrap();
    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    for n in 0..TIMES {
        let path = if n % 2 == 0 { MAPS } else { "/api/v1/configmaps?watch=1" };
        to.write_all(&get(nth(n), path)).await.unwrap();
        let mut seen = Vec::new();
        loop {
            let Some(frame) = receive(&mut from).await else { panic!("closed after {n} streams: {seen:?}") };
            seen.push((frame.kind, frame.flags, frame.stream, frame.payload.len()));
            if frame.kind == HEADERS && frame.stream == nth(n) {
                break;
            }
        }
        to.write_all(&reset(nth(n))).await.unwrap();
    }
    let held = ALLOCATED.peak_usage().saturating_sub(before);
    assert!(held < CONNECTION, "{held} bytes");
    still_serves(&session.server).await;
    session.server.shutdown().await;
}

#[tokio::test]
async fn floods_of_headers_are_refused() {
    let _turn = turn().await;
    let session = server().await;
    let open = [preface(), frame(HEADERS, END_STREAM, 1, &get_block("/livez"))].concat();
    let field = b"\0\x08x-header\x05value";
    let many = field.repeat((16 << 10) / field.len());
    // A header of 4,000 bytes, and references to it, each of one byte.
    let rest = 4000 - 127;
    let entry = [&[0x40, 1, b'x', 0x7f, (rest & 0x7f) as u8 | 0x80, (rest >> 7) as u8][..], &[b'y'; 4000]];
    let bomb = [get_block("/livez"), entry.concat(), vec![0xbe; 12_000]].concat();
    let continuation = frame(CONTINUATION, 0, 1, &many);
    let mut last = continuation.clone();
    last[4] = END_HEADERS;
    let large = [open.clone(), continuation.clone(), last].concat();
    let cases: Vec<(&str, Vec<u8>, Vec<u8>)> = vec![
        ("endless", open.clone(), continuation),
        ("endless empty frames", open, frame(CONTINUATION, 0, 1, b"")),
        ("large list", large, frame(PING, 0, 0, &[0; 8])),
        (
            "bomb",
            [preface(), frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb)].concat(),
            frame(PING, 0, 0, &[0; 8]),
        ),
    ];
    for (name, beginning, again) in cases {
        let is_answered = |summary: &Summary| summary.frames.keys().any(|(kind, _)| *kind == HEADERS);
        let (summary, held) =
            flood(&session.server, beginning, move |_| again.clone(), 10_000, is_answered).await;
        assert!(held < CONNECTION, "{name}: {held} bytes");
        let is_closed = summary.codes.iter().any(|((kind, code), _)| *kind == GOAWAY && *code != 0);
        // A list that is only a little too large is answered with 431.
        assert_eq!(is_closed, name != "large list", "{name}: {summary:?}");
        assert_eq!(
            summary.count(HEADERS, END_HEADERS | END_STREAM),
            usize::from(!is_closed),
            "{name}: {summary:?}"
        );
        still_serves(&session.server).await;
    }
    session.server.shutdown().await;
}

#[tokio::test]
async fn responses_without_a_window_take_bounded_memory() {
    const REQUESTS: usize = 500;
    let _turn = turn().await;
    let session = server().await;
    let refused = |summary: &Summary| summary.code(RST_STREAM, REFUSED_STREAM);
    let all = |summary: &Summary| summary.count(HEADERS, END_HEADERS) + refused(summary) == REQUESTS;
    let beginning = [preface(), setting(4, 0)].concat();
    let (summary, held) = flood(&session.server, beginning, |n| get(nth(n), MAPS), REQUESTS, all).await;
    assert_eq!(refused(&summary), REQUESTS - STREAMS_MAX, "{summary:?}");
    assert!(held < STREAMS_MAX * STREAM, "{held} bytes");
    still_serves(&session.server).await;
    session.server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_never_read_takes_bounded_memory_and_is_closed() {
    let _turn = turn().await;
    let session = server().await;
    // Windows are the largest ones, for streams and for the connection.
    let opened = frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes());
    let opened = [preface(), setting(4, (1 << 31) - 1), opened].concat();
    let watch = [preface(), get(1, "/api/v1/pods?watch=1&timeoutSeconds=1000000000")].concat();
    let cases: [(&str, Vec<u8>, fn(usize) -> Vec<u8>, usize, usize); 3] = [
        ("lists", opened, |n| get(nth(n), MAPS), STREAMS_MAX, STREAMS_MAX * STREAM),
        ("PING", watch.clone(), |_| frame(PING, 0, 0, &[1; 8]), usize::MAX, CONNECTION),
        ("SETTINGS", watch, |_| setting(4, 1 << 20), usize::MAX, CONNECTION),
    ];
    for (name, beginning, again, times, limit) in cases {
        let (from, to) = connect(&session.server).await;
        let before = ALLOCATED.current_usage();
        ALLOCATED.reset_peak_usage();
        let sending = send(to, beginning, again, times);
        // It also stops reading.
        let sent = tokio::time::timeout(LONG, sending).await;
        let (to, _) = sent.unwrap_or_else(|_| panic!("{name}: the connection is still open")).unwrap();
        tokio::time::sleep(LONG).await; // paused time: nothing sleeps
        let held = ALLOCATED.peak_usage().saturating_sub(before);
        let kept = ALLOCATED.current_usage().saturating_sub(before);
        assert!(held < limit, "{name}: {held} bytes");
        assert!(kept < CONNECTION / 4, "{name}: {kept} bytes kept for a closed connection");
        drop((from, to));
    }
    session.server.shutdown().await;
}

#[tokio::test]
async fn floods_of_pings_and_settings_are_answered_in_bounded_memory() {
    const TIMES: usize = 100_000;
    let _turn = turn().await;
    let session = server().await;
    for (name, kind, again) in
        [("PING", PING, frame(PING, 0, 0, &[1; 8])), ("SETTINGS", SETTINGS, setting(4, 1 << 20))]
    {
        let answered = |summary: &Summary| summary.count(kind, ACK) >= TIMES;
        let (summary, held) =
            flood(&session.server, preface(), move |_| again.clone(), TIMES, answered).await;
        assert!(answered(&summary), "{name}: {summary:?}");
        assert!(held < CONNECTION, "{name}: {held} bytes");
        still_serves(&session.server).await;
    }
    session.server.shutdown().await;
}
