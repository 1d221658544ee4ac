//! All output goes through a [`Screen`]: lines to the standard output, remarks to the standard error, and on a terminal a
//! status below them that is redrawn in place.
//!
//! Text is [escaped](escape) here, so nothing that a server sends can control the terminal. A [thread](writer) writes, and
//! the program awaits it: blocked output stops the program without blocking signals. Only a [`FullScreen`] changes the
//! terminal's mode. Dropping the [`Screen`] removes the status and shows the cursor, however the command ends.

pub(crate) mod escape;
mod full_screen;
mod line;
mod writer;

use std::io::{self, IsTerminal};
use std::time::Duration;

use anstream::AutoStream;

pub(crate) use full_screen::{FullScreen, Input};
pub(crate) use line::Line;

use crate::failure::Failure;
use writer::{Stream, Writer};

/// Maximum number of bytes that are collected before they are written.
const PENDING_BYTES_MAX: usize = 1 << 16;
/// How long dropping a screen waits until its last bytes are written.
const LAST_WRITE_TIME_MAX: Duration = Duration::from_secs(1);

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColourChoice {
    /// On a terminal, unless $NO_COLOR is set; $CLICOLOR and $CLICOLOR_FORCE are respected.
    #[default]
    Auto,
    Always,
    Never,
}

/// A colour by meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Good,
    Changed,
    Bad,
    Odd,
    Faint,
}

/// The stream that shows the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusOn {
    Stdout,
    Stderr,
}

/// The program's output.
pub(crate) struct Screen {
    writer: Writer,
    /// Pending output, in order.
    pending: Vec<(Stream, Vec<u8>)>,
    is_terminal: bool,
    status_on: Option<StatusOn>,
    /// The lines of the status.
    status: Vec<Line>,
    /// The lines that are on the terminal now; empty while other output is printed.
    shown: Vec<Line>,
    colours: bool,
}

// === impl Colour ===

impl Colour {
    fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Changed => "33",
            Self::Bad => "31",
            Self::Odd => "35",
            Self::Faint => "2",
        }
    }
}

// === impl ColourChoice ===

impl ColourChoice {
    fn colours(self) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never,
        }
    }
}

// === impl Screen ===

impl Screen {
    /// Output with a status line if the stream is a terminal.
    pub(crate) fn new(choice: ColourChoice, status_on: StatusOn) -> Self {
        let terminal = match status_on {
            StatusOn::Stdout => io::stdout().is_terminal(),
            StatusOn::Stderr => io::stderr().is_terminal(),
        };
        Self {
            writer: Writer::start(),
            pending: Vec::new(),
            is_terminal: io::stdout().is_terminal(),
            status_on: terminal.then_some(status_on),
            status: Vec::new(),
            shown: Vec::new(),
            colours: choice.colours(),
        }
    }

    /// Whether there is a terminal for a status line.
    pub(crate) fn has_status(&self) -> bool {
        self.status_on.is_some()
    }

    /// The columns that a line of the status can fill.
    pub(crate) fn status_width(&self) -> usize {
        fitting_width()
    }

    /// Prints a line; it may be held until the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// If the reader has exited, or the output cannot be written.
    pub(crate) async fn line(&mut self, line: impl Into<Line>) -> Result<(), Failure> {
        let line = line.into();
        self.hide_status();
        let colours = self.colours;
        let out = self.pending_on(Stream::Stdout);
        line.render(colours, out);
        out.push(b'\n');
        self.write_if_full().await
    }

    /// Prints a row of columns. On a terminal it is cut to the terminal's width.
    ///
    /// # Errors
    /// As [`line`](Self::line).
    pub(crate) async fn row(&mut self, row: Line) -> Result<(), Failure> {
        if self.is_terminal { self.line(row.fit(width())).await } else { self.line(row).await }
    }

    /// Prints a line, cut to the width of the terminal if there is one with a status.
    ///
    /// # Errors
    /// As [`line`](Self::line).
    pub(crate) async fn fitting_line(&mut self, line: Line) -> Result<(), Failure> {
        match self.status_on {
            Some(_) => self.line(line.cut(fitting_width())).await,
            None => self.line(line).await,
        }
    }

    /// Prints text of several lines unchanged; on a terminal it is escaped.
    ///
    /// # Errors
    /// As [`line`](Self::line).
    pub(crate) async fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.hide_status();
        let escaped = self.is_terminal.then(|| escape::lines(text));
        let text = escaped.as_deref().unwrap_or(text);
        self.pending_on(Stream::Stdout).extend_from_slice(text.as_bytes());
        self.write_if_full().await
    }

    /// Writes all pending output, with the status below it.
    ///
    /// # Errors
    /// As [`line`](Self::line).
    pub(crate) async fn flush(&mut self) -> Result<(), Failure> {
        self.show_status();
        self.write().await
    }

    /// Whether the reader has exited, checked without printing. `false` where the platform cannot tell.
    pub(crate) fn reader_has_gone(&self) -> bool {
        #[cfg(unix)]
        {
            use rustix::event::{PollFd, PollFlags, Timespec, poll};
            let stdout = rustix::stdio::stdout();
            let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
            let polled = poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
            polled.is_ok() && asked[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL)
        }
        #[cfg(not(unix))]
        false
    }

    /// Prints a remark to the standard error, after all earlier output.
    ///
    /// # Errors
    /// As [`line`](Self::line).
    pub(crate) async fn remark(&mut self, text: &str) -> Result<(), Failure> {
        self.hide_status();
        let remark = format!("kube-informer: {}\n", escape::lines(text));
        self.pending_on(Stream::Stderr).extend_from_slice(remark.as_bytes());
        self.flush().await
    }

    /// Replaces the status, with the next [`flush`](Self::flush).
    pub(crate) fn status(&mut self, lines: impl IntoIterator<Item = Line>) {
        if self.status_on.is_none() {
            return;
        }
        let width = fitting_width();
        let lines = lines.into_iter().map(|line| line.cut(width)).collect::<Vec<_>>();
        if lines != self.shown {
            self.hide_status();
            self.status = lines;
        }
    }

    /// Removes the status, with the next [`flush`](Self::flush).
    pub(crate) fn clear_status(&mut self) {
        self.status.clear();
        self.hide_status();
    }

    fn show_status(&mut self) {
        let Some(stream) = self.status_on.map(Stream::from) else { return };
        if self.status.is_empty() || !self.shown.is_empty() {
            return;
        }
        self.shown.clone_from(&self.status);
        let mut text = Vec::new();
        // The cursor is hidden while there is a status, because it would jump.
        text.extend_from_slice(b"\x1b[?25l");
        for (at, line) in self.shown.iter().enumerate() {
            if at > 0 {
                text.push(b'\n');
            }
            line.render(self.colours, &mut text);
        }
        self.pending_on(stream).extend_from_slice(&text);
    }

    fn hide_status(&mut self) {
        let Some(stream) = self.status_on.map(Stream::from) else { return };
        if self.shown.is_empty() {
            return;
        }
        let up = self.shown.len() - 1;
        let up = if up > 0 { format!("\x1b[{up}A") } else { String::new() };
        self.pending_on(stream).extend_from_slice(format!("\r{up}\x1b[J\x1b[?25h").as_bytes());
        self.shown.clear();
    }

    /// The buffer for a stream, after all earlier output.
    fn pending_on(&mut self, stream: Stream) -> &mut Vec<u8> {
        let at = match self.pending.last() {
            Some((last, _)) if *last == stream => self.pending.len() - 1,
            _ => {
                self.pending.push((stream, Vec::new()));
                self.pending.len() - 1
            }
        };
        &mut self.pending[at].1
    }

    async fn write_if_full(&mut self) -> Result<(), Failure> {
        let bytes: usize = self.pending.iter().map(|(_, bytes)| bytes.len()).sum();
        if bytes < PENDING_BYTES_MAX { Ok(()) } else { self.write().await }
    }

    async fn write(&mut self) -> Result<(), Failure> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let pieces = std::mem::take(&mut self.pending);
        self.writer.write(pieces).await.map_err(|error| gone(&error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear_status();
        if !self.pending.is_empty() {
            self.writer.write_within(std::mem::take(&mut self.pending), LAST_WRITE_TIME_MAX);
        }
    }
}

impl From<StatusOn> for Stream {
    fn from(status_on: StatusOn) -> Self {
        match status_on {
            StatusOn::Stdout => Self::Stdout,
            StatusOn::Stderr => Self::Stderr,
        }
    }
}

/// A closed pipe (`| head`) ends the program without an error; anything else (a full disk) is an error.
fn gone(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::Other(format!("cannot write to the standard output: {error}")),
    }
}

/// The usable width of the terminal: a line that fills it would wrap and could not be redrawn.
fn fitting_width() -> usize {
    width().saturating_sub(1)
}

/// The width of the terminal in columns.
fn width() -> usize {
    #[cfg(unix)]
    for stream in [rustix::stdio::stdout(), rustix::stdio::stderr()] {
        if let Ok(size) = rustix::termios::tcgetwinsize(stream)
            && size.ws_col > 0
        {
            return size.ws_col.into();
        }
    }
    std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).unwrap_or(80)
}
