//! The same over TLS and HTTP/2: TLS handshakes that stall, invalid frames, floods of frames, and connections that end in the middle
//! of a response.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::support::raw_http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, Hostility, PAYLOAD_MAX, PING, PRIORITY,
    PUSH_PROMISE, RST_STREAM, RawHttp2, SETTINGS, WINDOW_UPDATE, data, field, frame, frame_of, go_away, ok,
    ok_block, setting, then_closed, then_flood, then_silence, then_unread_flood,
};
use super::*;

/// Where one frame or many are hostile.
struct Http2Case {
    name: &'static str,
    stage: Stage,
    /// A part of the first report.
    says: &'static str,
    memory_max: usize,
    hostility: Hostility,
    /// Whether the hostile connections stay open when the server behaves on others: the client must close them.
    stays: bool,
}

impl Http2Case {
    fn bounded(self, memory_max: usize) -> Self {
        Self { memory_max, ..self }
    }

    fn stays(self) -> Self {
        Self { stays: true, ..self }
    }
}

fn case2(name: &'static str, stage: Stage, says: &'static str, hostility: Hostility) -> Http2Case {
    Http2Case { name, stage, says, memory_max: SMALL, hostility, stays: false }
}

async fn start(server: &RawHttp2, stage: Stage) -> Client {
    let mut config = server.config();
    config.connect_timeout = Some(Duration::from_secs(1));
    // Also limits how long a connection may be busy with writes that the server does not read.
    config.write_timeout = Some(Duration::from_secs(1));
    let mut own = ClusterConfig::default();
    own.ping_after = Duration::from_secs(1);
    own.ping_timeout = Duration::from_secs(1);
    let mut reflector = quick(stage);
    if stage == Stage::Connect {
        // Later than the timeouts of connections.
        reflector.watch_answer_max = Duration::from_secs(5);
    }
    Client::start(config, own, reflector)
}

async fn run2(case: &Http2Case) -> Vec<String> {
    let server = RawHttp2::start(case.stage, case.hostility.clone(), case.stays).await;
    let mut client = start(&server, case.stage).await;
    let mut wrong = endure(&mut client, |mood| server.enter(mood), case.says, case.memory_max).await;
    wrong.extend(unauthorized(&server.authorizations()));
    if tokio::time::timeout(PATIENCE, server.is_abandoned()).await.is_err() {
        wrong.push("the client does not close the hostile connection".to_owned());
    }
    client.tasks.shutdown().await;
    wrong
}

async fn run_all2(cases: &[Http2Case]) {
    let _turn = TURN.lock().await;
    let mut wrong = Vec::new();
    for case in cases {
        let found = run2(case).await;
        wrong.extend(found.into_iter().map(|what| format!("{:?}: {}: {what}", case.stage, case.name)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// === answers ===

fn nothing(_: u32) -> Vec<u8> {
    Vec::new()
}

fn reset(stream: u32, reason: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &reason.to_be_bytes())
}

/// The headers of a response, which do not end.
fn open_headers(stream: u32) -> Vec<u8> {
    frame(HEADERS, 0, stream, &ok_block())
}

/// As many headers as one frame has capacity for.
fn many_headers(stream: u32) -> Vec<u8> {
    let header = field("x-header", "some value");
    frame(CONTINUATION, 0, stream, &header.repeat(PAYLOAD_MAX / header.len()))
}

/// A frame of headers that decode to 4,000 times their size: one large header is referenced again and again.
fn packed_headers(stream: u32) -> Vec<u8> {
    // A new entry of the table, whose value has 4,000 bytes (0x7f, then the rest in 7-bit digits).
    let rest = 4000 - 127;
    let entry = [&[0x40, 1, b'x', 0x7f, (rest & 0x7f) as u8 | 0x80, (rest >> 7) as u8][..], &[b'y'; 4000]];
    let entry = entry.concat();
    let references = vec![0xbe; PAYLOAD_MAX - entry.len() - ok_block().len()];
    frame(HEADERS, END_HEADERS, stream, &[ok_block(), entry, references].concat())
}

/// The beginning of a body: a list with one pod, or an event, which do not end.
fn beginning(stage: Stage) -> String {
    match stage {
        Stage::Watch | Stage::WatchList => "{\"type\":\"MODIFIED\",\"object\":{\"spec\":\"".to_owned(),
        _ => {
            let list = list("10", &[pod("a", "9")]).to_string();
            list[..list.find("]").unwrap()].to_owned() + ",{\"spec\":\""
        }
    }
}

/// Frames that break a response before, within or after its headers, but not the whole connection.
fn of_streams(stage: Stage) -> Vec<Http2Case> {
    let stalled = match stage {
        Stage::WatchList => "timed out after 500ms waiting for the bookmark that ends",
        // A ping is not answered.
        Stage::Watch => "connection broken: error reading a body from connection: ",
        _ => "nothing received for 1.2s",
    };
    let begun = move |stream| [ok(stream), data(stream, beginning(stage))].concat();
    vec![
        case2(
            "RST_STREAM",
            stage,
            "stream broken: http2 error: stream error received: unexpected internal error",
            then_silence(|stream| reset(stream, 2)),
        ),
        case2(
            "refused stream",
            stage,
            "stream broken: http2 error: stream error received: refused stream",
            then_silence(|stream| reset(stream, 7)),
        ),
        case2(
            "RST_STREAM flood",
            stage,
            "stream error received: stream no longer needed",
            then_flood(ok, |stream| reset(stream, 8)),
        ),
        case2(
            "RST_STREAM in the middle",
            stage,
            "stream error received: unexpected internal error",
            then_silence(move |stream| [begun(stream), reset(stream, 2)].concat()),
        ),
        case2(
            "RST_STREAM without an error in the middle",
            stage,
            "",
            then_silence(move |stream| [begun(stream), reset(stream, 0)].concat()),
        ),
        case2(
            "trailers without an end",
            stage,
            "too_many_continuations",
            then_flood(
                move |stream| [begun(stream), frame(HEADERS, END_STREAM, stream, &field("x", "y"))].concat(),
                many_headers,
            ),
        ),
        case2(
            "END_STREAM in the middle",
            stage,
            "cannot read the rest of the stream: truncated JSON ",
            then_silence(move |stream| [begun(stream), frame(DATA, END_STREAM, stream, b"")].concat()),
        ),
        case2(
            "connection closed in the middle",
            stage,
            "connection broken: error reading a body from connection: ",
            then_closed(begun),
        ),
        case2(
            "GOAWAY in the middle",
            stage,
            "connection broken: error reading a body from connection: ",
            then_closed(move |stream| [begun(stream), go_away(stream, 0)].concat()),
        ),
        case2(
            "GOAWAY with an error in the middle",
            stage,
            "connection broken: error reading a body from connection: ",
            then_closed(move |stream| [begun(stream), go_away(stream, 2)].concat()),
        ),
        case2(
            "GOAWAY that excludes the stream",
            stage,
            "connection error received: detected excessive load",
            then_silence(move |stream| [begun(stream), go_away(stream - 1, 11)].concat()),
        ),
        case2(
            "DATA beyond the window",
            stage,
            "",
            then_flood(begun, |stream| data(stream, [b'x'; PAYLOAD_MAX])),
        )
        .bounded(ONE_OBJECT),
        case2(
            "frame announced and never sent",
            stage,
            stalled,
            then_silence(move |stream| {
                [begun(stream), frame_of(PAYLOAD_MAX, DATA, 0, stream, b"xx")].concat()
            }),
        )
        .stays(),
        case2(
            "more than content-length",
            stage,
            "stream error detected: unspecific protocol error",
            then_silence(|stream| {
                let block = [ok_block(), field("content-length", "5")].concat();
                [frame(HEADERS, END_HEADERS, stream, &block), data(stream, "{\"kind\":\"Pod\"")].concat()
            }),
        ),
    ]
}

/// Frames that break a connection, or keep it busy.
fn of_connections(stage: Stage) -> Vec<Http2Case> {
    let silent = match stage {
        Stage::Watch => "timed out after 500ms waiting for the response to the watch",
        _ => "nothing received for 1.2s",
    };
    vec![
        case2(
            "endless CONTINUATION",
            stage,
            "too_many_continuations",
            then_flood(open_headers, many_headers),
        ),
        case2(
            "endless empty CONTINUATION",
            stage,
            "too_many_continuations",
            then_flood(open_headers, |stream| frame(CONTINUATION, 0, stream, b"")),
        ),
        case2(
            "large header list",
            stage,
            "stream broken: http2 error: stream error detected: ",
            then_silence(|stream| {
                let mut last = many_headers(stream);
                last[4] = END_HEADERS;
                [open_headers(stream), many_headers(stream), last].concat()
            }),
        ),
        case2("header bomb", stage, "header_list_way_too_large", then_silence(packed_headers)),
        case2(
            "invalid header block",
            stage,
            "connection broken: http2 error: connection error detected: unspecific protocol error",
            then_silence(|stream| frame(HEADERS, END_HEADERS, stream, &[0xff; 100])),
        ),
        case2(
            "headers without a status",
            stage,
            "stream broken: http2 error: stream error detected: unspecific protocol error",
            then_silence(|stream| {
                frame(HEADERS, END_HEADERS, stream, &field("content-type", "application/json"))
            }),
        ),
        case2(
            "DATA before headers",
            stage,
            "connection broken: http2 error: connection error detected: unspecific protocol error",
            then_silence(|stream| data(stream, "{}")),
        ),
        case2(
            "endless informational headers",
            stage,
            silent,
            then_flood(nothing, |stream| frame(HEADERS, END_HEADERS, stream, &[0x08, 3, b'1', b'0', b'3'])),
        )
        .stays()
        .bounded(BURST),
        case2("empty DATA flood", stage, "too_many_data_frames", then_flood(ok, |stream| data(stream, ""))),
        case2(
            "RST_STREAM of unused streams",
            stage,
            "connection broken: http2 error: connection error detected: unspecific protocol error",
            then_flood(nothing, |stream| reset(stream + 1000, 8)),
        ),
        case2(
            "response to a stream of the server",
            stage,
            "connection broken: http2 error: connection error detected: unspecific protocol error",
            then_silence(|_| ok(2)),
        ),
        case2(
            "PUSH_PROMISE",
            stage,
            "connection broken: http2 error: connection error detected: unspecific protocol error",
            then_silence(|stream| {
                frame(PUSH_PROMISE, END_HEADERS, stream, &[&2_u32.to_be_bytes()[..], &ok_block()].concat())
            }),
        ),
        case2(
            "frame that is too long",
            stage,
            "connection error detected: frame with invalid size",
            then_silence(|stream| [ok(stream), frame_of((1 << 24) - 1, DATA, 0, stream, b"x")].concat()),
        ),
        case2(
            "WINDOW_UPDATE beyond the largest window",
            stage,
            "connection error detected: flow-control protocol violated",
            then_flood(nothing, |_| frame(WINDOW_UPDATE, 0, 0, &0x7fff_ffff_u32.to_be_bytes())),
        ),
        case2(
            "GOAWAY before the response",
            stage,
            "connection broken: http2 error: connection error received: ",
            then_closed(|_| go_away(0, 0)),
        ),
        case2("GOAWAY flood", stage, silent, then_flood(nothing, |stream| go_away(stream, 0))),
        case2(
            "GOAWAY of increasing streams",
            stage,
            "connection broken: http2 error: connection error detected: unspecific protocol error",
            then_silence(|stream| {
                [go_away(stream, 0), frame(GOAWAY, 0, 0, &[(stream + 2).to_be_bytes(), [0; 4]].concat())]
                    .concat()
            }),
        ),
        case2("PING flood", stage, silent, then_flood(nothing, |_| frame(PING, 0, 0, &[1; 8]))).stays(),
        case2("PING flood whose answers are not read", stage, silent, {
            then_unread_flood(|_| frame(PING, 0, 0, &[1; 8]))
        })
        .stays(),
        case2("SETTINGS flood", stage, silent, then_flood(nothing, |_| setting(4, 1 << 20))).stays(),
        case2("SETTINGS flood whose answers are not read", stage, silent, {
            then_unread_flood(|_| setting(4, 1 << 20))
        })
        .stays(),
        case2(
            "flood of unknown frames",
            stage,
            silent,
            then_flood(nothing, |stream| {
                [frame(0xaa, 0, stream, &[1; 100]), frame(PRIORITY, 0, stream, &[0, 0, 0, 0, 1])].concat()
            }),
        )
        .stays(),
        case2("silence", stage, silent, then_silence(nothing)).stays(),
    ]
}

/// Before the first request on a connection.
fn of_handshakes() -> Vec<Http2Case> {
    let stage = Stage::Connect;
    // A ping is not answered.
    let silent = "stream broken: ";
    let connect = "cannot connect to the API server: ";
    // A handshake record of TLS 1.2, with a ServerHello that announces 4 MB.
    let record: &'static [u8] = Box::leak(
        [&[0x16, 3, 3, 0x40, 0, 2, 0x40, 0, 0][..], &[3; PAYLOAD_MAX - 4]].concat().into_boxed_slice(),
    );
    let settings = |_| frame(SETTINGS, 0, 0, b"");
    vec![
        case2("TLS: silence", stage, connect, Hostility::Tls(bytes_then_silence("", ""))).stays(),
        case2("TLS: closed", stage, connect, Hostility::Tls(bytes("", ""))),
        case2("TLS: endless handshake", stage, connect, Hostility::Tls(endless_of("", record))),
        case2("TLS: silence after ServerHello", stage, connect, server_hello(true)).stays(),
        case2("TLS: closed after ServerHello", stage, connect, server_hello(false)),
        case2("closed", stage, "connection broken: ", then_closed(nothing)),
        case2("no SETTINGS", stage, silent, then_silence(nothing)).stays(),
        case2(
            "HTTP/1",
            stage,
            "connection error detected: frame with invalid size",
            then_silence(|_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        ),
        case2("no streams allowed", stage, silent, then_silence(|_| setting(3, 0))).stays(),
        case2(
            "invalid window",
            stage,
            "connection broken: http2 error: connection error detected: ",
            then_silence(|_| setting(4, u32::MAX)),
        ),
        case2(
            "invalid frame size",
            stage,
            "connection broken: http2 error: connection error detected: ",
            then_silence(|_| setting(5, 0)),
        ),
        case2("SETTINGS flood", stage, silent, then_flood(settings, |_| setting(1, u32::MAX))).stays(),
    ]
}

/// A ServerHello of a real handshake, and then silence or the end.
fn server_hello(is_silent: bool) -> Hostility {
    let key = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let certificate = key.cert.der().clone();
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let tls = Arc::new(tls);
    Hostility::Tls(Arc::new(move |mut stream: tokio::net::TcpStream| {
        let tls = tls.clone();
        Box::pin(async move {
            let mut server = rustls::ServerConnection::new(tls).unwrap();
            let mut hello = vec![0; 16 << 10];
            let count = stream.read(&mut hello).await?;
            server.read_tls(&mut &hello[..count])?;
            server.process_new_packets().unwrap();
            let mut records = Vec::new();
            server.write_tls(&mut records)?;
            let first = 5 + usize::from(u16::from_be_bytes([records[3], records[4]]));
            stream.write_all(&records[..first]).await?;
            if is_silent {
                let _first = stream.read_u8().await?;
            }
            Ok(())
        })
    }))
}

#[tokio::test]
async fn promise_1_hostile_tls_and_http2_handshakes_are_reported_survived_and_bounded() {
    run_all2(&of_handshakes()).await;
}

#[tokio::test]
async fn promise_1_hostile_http2_frames_are_reported_survived_and_bounded() {
    let cases = [Stage::List, Stage::Page, Stage::WatchList, Stage::Watch].into_iter().flat_map(of_streams);
    run_all2(&cases.collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn promise_1_hostile_http2_connections_are_reported_survived_and_bounded() {
    let cases = [Stage::List, Stage::Watch].into_iter().flat_map(of_connections);
    run_all2(&cases.collect::<Vec<_>>()).await;
}

/// A server that shuts down sends GOAWAY, and then completes its responses.
#[tokio::test]
async fn a_response_that_is_completed_after_goaway_is_accepted() {
    let _turn = TURN.lock().await;
    for stage in [Stage::List, Stage::Watch] {
        let body = match stage {
            Stage::Watch => event("MODIFIED", &pod("b", "12")),
            _ => list("12", &[pod("a", "9"), pod("b", "12")]).to_string(),
        };
        let (first, second) = body.split_at(50);
        let (first, second) = (first.to_owned(), second.to_owned());
        let hostility = then_silence(move |stream| {
            let end = frame(DATA, END_STREAM, stream, b"");
            [ok(stream), data(stream, &first), go_away(stream, 0), data(stream, &second), end].concat()
        });
        let server = RawHttp2::start(stage, hostility, true).await;
        let mut client = start(&server, stage).await;
        client.has(&state_in(Mood::Before)).await;
        server.enter(Mood::Hostile);
        let mut expected = state_in(Mood::Before);
        expected.insert("web/b".to_owned(), "12".to_owned());
        let stored = client.states.wait_for(|states| states.last() == Some(&expected));
        tokio::time::timeout(PATIENCE, stored).await.expect("not stored").unwrap();
        server.enter(Mood::After);
        client.has(&state_in(Mood::After)).await;
        tokio::time::timeout(PATIENCE, server.is_abandoned()).await.expect("a connection is still open");
        client.tasks.shutdown().await;
        while let Ok(report) = client.reports.try_recv() {
            assert!(report.contains("410 Expired"), "{stage:?}: {report}");
        }
    }
}

/// A write whose body the server never accepts: the caller's timeout removes the connection.
#[tokio::test]
async fn a_write_whose_window_never_opens_does_not_block_the_next_one() {
    let _turn = TURN.lock().await;
    let server = RawHttp2::start(Stage::Connect, then_silence(|_| setting(4, 0)), true).await;
    let client = Cluster::from_config(server.config()).unwrap().client();
    let put = || {
        let body = kube_client::client::Body::from(vec![b' '; 1 << 20]);
        let request = http::Request::put("/api/v1/namespaces/web/pods/a").body(body).unwrap();
        let client = client.clone();
        async move { client.send(request).await.map(|answer| answer.status().as_u16()) }
    };
    server.enter(Mood::Hostile);
    let baseline = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    assert!(tokio::time::timeout(LIST_IDLE_MAX, put()).await.is_err(), "no window is open");
    server.enter(Mood::After);
    assert_eq!(tokio::time::timeout(PATIENCE, put()).await.expect("blocked").unwrap(), 200);
    tokio::time::timeout(PATIENCE, server.is_abandoned()).await.expect("a connection is still open");
    let held = MEMORY.peak_usage().saturating_sub(baseline);
    assert!(held < SMALL + (2 << 20), "{} KiB", held >> 10);
}
