//! The thread that writes to the standard output and the standard error.
//!
//! A write can block indefinitely: a full pipe, a terminal stopped with Ctrl-S. It blocks only this thread. The program
//! awaits it, so signals keep working and nothing further is read meanwhile.

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use tokio::sync::oneshot;

/// An output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// A handle to the thread, which ends with the last handle.
#[derive(Clone)]
pub(super) struct Writer {
    jobs: Sender<Job>,
}

struct Job {
    pieces: Vec<(Stream, Vec<u8>)>,
    done: Box<dyn FnOnce(io::Result<()>) + Send>,
}

impl Writer {
    pub(super) fn start() -> Self {
        let (jobs, received) = mpsc::channel();
        // Without a thread every write reports a closed pipe.
        let _ = std::thread::Builder::new().name("output".to_owned()).spawn(move || run(&received));
        Self { jobs }
    }

    /// Writes all pieces in order and flushes.
    ///
    /// # Cancel safety
    /// If dropped, the pieces are still written, unless the program ends first.
    pub(super) async fn write(&self, pieces: Vec<(Stream, Vec<u8>)>) -> io::Result<()> {
        let (done, written) = oneshot::channel();
        self.send(pieces, move |result| {
            let _ = done.send(result);
        });
        written.await.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
    }

    /// Writes all pieces, but waits no longer than this.
    pub(super) fn write_within(&self, pieces: Vec<(Stream, Vec<u8>)>, time_max: Duration) {
        let (done, written) = mpsc::channel();
        self.send(pieces, move |_| {
            let _ = done.send(());
        });
        let _ = written.recv_timeout(time_max);
    }

    fn send(&self, pieces: Vec<(Stream, Vec<u8>)>, done: impl FnOnce(io::Result<()>) + Send + 'static) {
        // If the thread is gone, the job is dropped together with the sender that its caller waits for.
        let _ = self.jobs.send(Job { pieces, done: Box::new(done) });
    }
}

fn run(jobs: &Receiver<Job>) {
    while let Ok(Job { pieces, done }) = jobs.recv() {
        done(pieces.iter().try_for_each(|(stream, bytes)| match stream {
            Stream::Stdout => put(&mut io::stdout().lock(), bytes),
            // A missing standard error does not end the program.
            Stream::Stderr => put(&mut io::stderr().lock(), bytes).or(Ok(())),
        }));
    }
}

fn put(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.flush()
}
