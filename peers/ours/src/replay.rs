//! A server that sends pods and then changes to them, as fast as the client reads them or at a rate. It serves only
//! watches, over HTTP/1.1 without TLS, at a minimal cost per event: the response of an embedded server is recorded once
//! per encoding, and a change is a copy with another resourceVersion, which is the time at which it is sent.

use std::io::{BufRead as _, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use embedded_apiserver::Server;
use kube_client::Client;
use kube_informer_conformance::raw;
use memchr::memmem;
use serde_json::json;

use crate::Outcome;
use crate::arguments::Arguments;
use crate::load::Load;
use crate::measure::{micros, report};
use crate::serve::Crowd;

const WATCH_LIST: &str =
    "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
/// Digits of a resourceVersion. Microseconds since 1970 have this many until the year 2286.
const DIGITS: usize = 16;
/// The resourceVersion that marks the last change.
pub(crate) const LAST: u64 = 9_000_000_000_000_000;
/// The number of bytes per write.
const CHUNK: usize = 64 << 10;
/// Pause before changes at a rate, so that the initial list does not add lag.
const PAUSE: Duration = Duration::from_secs(2);

/// Answers each watch with the pods, then the changes, until its standard input ends.
pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let (directory, count) = (Path::new(arguments.word(1)?), arguments.number(2)?);
    let (changes, rate) = (arguments.number(3)?, arguments.option("--rate")?);
    let server = Server::builder().start().await?;
    Crowd::fill(&server, Load::Pods, count, 50).await?;
    let client = server.client()?;
    let versions = versions(&client).await?;
    let recordings = [
        Recording::of(&client, raw::PROTOBUF, &versions).await?,
        Recording::of(&client, raw::JSON, &versions).await?,
    ];
    server.shutdown().await;

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "replay",
        "clusters": [{"name": "replay", "cluster": {"server": url}}],
        "contexts": [{"name": "replay", "context": {"cluster": "replay", "user": ""}}],
    });
    std::fs::write(directory.join("kubeconfig"), kubeconfig.to_string())?;
    report("ready", count, "objects");
    for recording in &recordings {
        let bytes = recording.changed.iter().map(|event| event.bytes.len()).sum::<usize>();
        report(&format!("bytes per change, {}", recording.media_type), bytes / recording.changed.len(), "B");
    }
    std::io::stdout().flush()?;
    // The process ends with its input, even if its parent process died.
    std::thread::spawn(|| {
        std::io::stdin().lock().lines().for_each(drop);
        std::process::exit(0);
    });
    for connection in listener.incoming() {
        // A client that disconnects is not an error.
        let _ = answer(&connection?, &recordings, changes, rate);
    }
    Ok(())
}

/// A recorded watch-list in one media type.
struct Recording {
    media_type: &'static str,
    /// The events of the initial list and its final bookmark.
    initial: Vec<u8>,
    /// The change of each pod.
    changed: Vec<Event>,
}

struct Event {
    bytes: Vec<u8>,
    version_at: usize,
}

impl Recording {
    async fn of(client: &Client, media_type: &'static str, versions: &[String]) -> Outcome<Self> {
        let mut stream = raw::watch(client, WATCH_LIST, media_type).await?;
        let mut recording = Self { media_type, initial: Vec::new(), changed: Vec::new() };
        for version in versions {
            let (event, changed) = match media_type {
                raw::PROTOBUF => {
                    let frame = stream.frame().await?.ok_or("the watch ended")?;
                    (framed(&frame), framed(&protobuf_modified(&frame)?))
                }
                _ => {
                    let mut line = stream.line().await?.ok_or("the watch ended")?;
                    let event = format!("{line}\n").into_bytes();
                    line["type"] = "MODIFIED".into();
                    (event, format!("{line}\n").into_bytes())
                }
            };
            recording.initial.extend(event);
            recording.changed.push(Event { version_at: place_of(version, &changed)?, bytes: changed });
        }
        let end = match media_type {
            raw::PROTOBUF => framed(&stream.frame().await?.ok_or("no bookmark")?),
            _ => format!("{}\n", stream.line().await?.ok_or("no bookmark")?).into_bytes(),
        };
        recording.initial.extend(end);
        Ok(recording)
    }
}

/// The resourceVersions of all pods, in the order in which a watch sends them.
async fn versions(client: &Client) -> Outcome<Vec<String>> {
    let list = raw::get(client, "/api/v1/pods", raw::JSON).await?.json();
    let items = list["items"].as_array().ok_or("no list")?.iter();
    Ok(items.filter_map(|pod| Some(pod["metadata"]["resourceVersion"].as_str()?.to_owned())).collect())
}

/// A frame after its length.
fn framed(frame: &[u8]) -> Vec<u8> {
    let mut framed = (frame.len() as u32).to_be_bytes().to_vec();
    framed.extend(frame);
    framed
}

/// An event of type ADDED as one of type MODIFIED.
fn protobuf_modified(frame: &[u8]) -> Outcome<Vec<u8>> {
    let object = frame.strip_prefix(b"\x0a\x05ADDED").ok_or("expected an ADDED event")?;
    Ok([b"\x0a\x08MODIFIED", object].concat())
}

/// The position of an event's resourceVersion.
fn place_of(version: &str, event: &[u8]) -> Outcome<usize> {
    let mut places = memmem::find_iter(event, version.as_bytes());
    match (version.len(), places.next(), places.next()) {
        (DIGITS, Some(place), None) => Ok(place),
        found => Err(format!("expected resourceVersion {version} once in an event: {found:?}").into()),
    }
}

/// Answers one connection. Requests other than a watch get 404.
fn answer(connection: &TcpStream, recordings: &[Recording], changes: u64, rate: Option<u64>) -> Outcome {
    connection.set_nodelay(true)?;
    let mut lines = BufReader::new(connection).lines();
    let request = lines.next().ok_or("no request")??;
    let mut headers = Vec::new();
    for line in lines.by_ref() {
        match line?.to_ascii_lowercase() {
            line if line.is_empty() => break,
            line => headers.push(line),
        }
    }
    let mut output = connection;
    if !request.contains("watch=") {
        let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#;
        let head = format!(
            "HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        return Ok(output.write_all((head + body).as_bytes())?);
    }
    let protobuf = headers.iter().any(|line| line.starts_with("accept:") && line.contains("protobuf"));
    let recording = &recordings[usize::from(!protobuf)];
    let media_type = if protobuf { format!("{};stream=watch", raw::PROTOBUF) } else { raw::JSON.to_owned() };
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ntransfer-encoding: chunked\r\n\r\n");
    output.write_all(head.as_bytes())?;
    for part in recording.initial.chunks(CHUNK) {
        chunk(output, part)?;
    }
    send_changes(output, recording, changes, rate)?;
    // The connection stays open until the client closes it.
    let _ = lines.next();
    Ok(())
}

fn send_changes(output: &TcpStream, recording: &Recording, changes: u64, rate: Option<u64>) -> Outcome {
    let (mut version, mut pending) = (0, Vec::with_capacity(2 * CHUNK));
    if rate.is_some() {
        std::thread::sleep(PAUSE);
    }
    let (began, began_micros) = (Instant::now(), micros());
    for (number, event) in (0..changes).zip(recording.changed.iter().cycle()) {
        let mut sent = micros();
        if let Some(rate) = rate {
            let due = Duration::from_micros(number * 1_000_000 / rate);
            if let Some(early) = due.checked_sub(began.elapsed()) {
                chunk(output, &pending)?;
                pending.clear();
                std::thread::sleep(early);
                sent = micros();
            } else {
                // The lag of a slow client counts from the time at which the change was due.
                sent = began_micros + due.as_micros() as u64;
            }
        }
        version = if number + 1 == changes { LAST } else { sent.max(version + 1) };
        let at = pending.len() + event.version_at;
        pending.extend_from_slice(&event.bytes);
        pending[at..at + DIGITS].copy_from_slice(version.to_string().as_bytes());
        if pending.len() >= CHUNK {
            chunk(output, &pending)?;
            pending.clear();
        }
    }
    chunk(output, &pending)
}

fn chunk(mut output: &TcpStream, data: &[u8]) -> Outcome {
    if data.is_empty() {
        return Ok(()); // An empty chunk would end the response.
    }
    output.write_all(format!("{:x}\r\n", data.len()).as_bytes())?;
    output.write_all(data)?;
    Ok(output.write_all(b"\r\n")?)
}
