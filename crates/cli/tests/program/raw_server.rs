//! A server that answers what a test wants, byte for byte; discovery is answered as a small API server would.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

type Writing = Pin<Box<dyn Future<Output = std::io::Result<()>> + Send>>;
/// Writes an answer.
pub(crate) type Answer = Box<dyn FnOnce(TcpStream) -> Writing + Send>;

/// The running server; it ends with the test.
pub(crate) struct RawServer {
    address: std::net::SocketAddr,
}

const DISCOVERY: [(&str, &str); 3] = [
    ("/api", r#"{"kind":"APIVersions","versions":["v1"]}"#),
    ("/apis", r#"{"kind":"APIGroupList","groups":[]}"#),
    (
        "/api/v1",
        r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list","watch"]}]}"#,
    ),
];

impl RawServer {
    /// Starts it. A path (with its query) that `answers` leaves out is answered as by a small API server, or with 404.
    pub(crate) async fn start(answers: impl Fn(&str) -> Option<Answer> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answers = Arc::new(answers);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let answers = answers.clone();
                tokio::spawn(async move {
                    // A client that goes away ends its answer.
                    let _ = serve(stream, &*answers).await;
                });
            }
        });
        Self { address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A complete answer.
    pub(crate) fn json(body: impl Into<String>) -> Answer {
        let body = body.into();
        Box::new(move |mut stream| {
            Box::pin(async move {
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(body.as_bytes()).await
            })
        })
    }

    /// An answer that begins later.
    pub(crate) fn delayed(time: Duration, answer: Answer) -> Answer {
        Box::new(move |stream| {
            Box::pin(async move {
                tokio::time::sleep(time).await;
                answer(stream).await
            })
        })
    }

    /// An answer that never ends: a beginning, and then the same again and again, as fast as it is read.
    pub(crate) fn endless(beginning: &str, again: &str) -> Answer {
        let again = again.repeat((1 << 16) / again.len() + 1);
        Self::stream(beginning, move |_| again.clone())
    }

    /// An answer made of pieces that never ends.
    pub(crate) fn stream(beginning: &str, piece: impl Fn(u64) -> String + Send + 'static) -> Answer {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
        let beginning = format!("{head}{beginning}");
        Box::new(move |mut stream| {
            Box::pin(async move {
                stream.write_all(beginning.as_bytes()).await?;
                for number in 0.. {
                    stream.write_all(piece(number).as_bytes()).await?;
                }
                Ok(())
            })
        })
    }
}

async fn serve(
    stream: TcpStream,
    answers: &(dyn Fn(&str) -> Option<Answer> + Send + Sync),
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    reader.read_line(&mut request).await?;
    let mut header = String::new();
    while reader.read_line(&mut header).await? > 2 {
        header.clear();
    }
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let known = DISCOVERY.iter().find(|(known, _)| *known == path).map(|(_, body)| RawServer::json(*body));
    let mut stream = reader.into_inner();
    match answers(&path).or(known) {
        Some(answer) => answer(stream).await,
        None => {
            stream
                .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .await
        }
    }
}
