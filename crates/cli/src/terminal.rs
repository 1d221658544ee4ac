//! What is printed, and where: lines to the standard output, remarks to the standard error, and on a terminal a status line
//! below them that is redrawn in place.
//!
//! The terminal is never put into another mode; all that has to be undone is the status line and the hidden cursor, and that
//! happens when the [`Screen`] is dropped, however the command ends. So Ctrl-C leaves the terminal as it was.

use std::io::{self, BufWriter, IsTerminal, Write};

use crate::failure::Failure;

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColourChoice {
    /// On a terminal, unless $NO_COLOR is set.
    #[default]
    Auto,
    Always,
    Never,
}

/// A colour, by what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Good,
    Changed,
    Bad,
    Odd,
    Faint,
}

/// Puts colours around text, or does not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint(bool);

/// Where the status line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusOn {
    Stdout,
    Stderr,
}

/// The program's output.
pub(crate) struct Screen {
    out: BufWriter<io::Stdout>,
    status_on: Option<StatusOn>,
    /// The lines of the status, and those of them that are on the terminal now: none while something is printed.
    status: String,
    shown: String,
    pub(crate) paint: Paint,
}

// === impl Paint ===

impl Paint {
    pub(crate) fn new(choice: ColourChoice) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        Self(match choice {
            ColourChoice::Always => true,
            ColourChoice::Never => false,
            ColourChoice::Auto => {
                io::stdout().is_terminal()
                    && !set("NO_COLOR")
                    && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
            }
        })
    }

    pub(crate) fn colour(self, text: &str, colour: Colour) -> String {
        if !self.0 || text.is_empty() {
            return text.to_owned();
        }
        let code = match colour {
            Colour::Good => "32",
            Colour::Changed => "33",
            Colour::Bad => "31",
            Colour::Odd => "35",
            Colour::Faint => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

// === impl Screen ===

impl Screen {
    /// Output with a status line, if that is a terminal.
    pub(crate) fn new(choice: ColourChoice, status_on: StatusOn) -> Self {
        let terminal = match status_on {
            StatusOn::Stdout => io::stdout().is_terminal(),
            StatusOn::Stderr => io::stderr().is_terminal(),
        };
        Self {
            out: BufWriter::with_capacity(1 << 16, io::stdout()),
            status_on: terminal.then_some(status_on),
            status: String::new(),
            shown: String::new(),
            paint: Paint::new(choice),
        }
    }

    /// Whether there is a terminal for a status line.
    pub(crate) fn has_status(&self) -> bool {
        self.status_on.is_some()
    }

    /// Prints a line; it may wait for [`flush`](Self::flush).
    ///
    /// # Errors
    /// If nobody reads any more.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.text(line)?;
        self.text("\n")
    }

    /// Prints a line, cut to the width of the terminal if there is one with a status.
    ///
    /// # Errors
    /// If nobody reads any more.
    pub(crate) fn fitting_line(&mut self, line: &str) -> Result<(), Failure> {
        match self.status_on {
            Some(_) => self.line(&cut(line, width())),
            None => self.line(line),
        }
    }

    /// Prints text as it is.
    ///
    /// # Errors
    /// If nobody reads any more.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.hide_status();
        self.out.write_all(text.as_bytes()).map_err(|error| gone(&error))
    }

    /// Sends what was printed, and shows the status below it again.
    ///
    /// # Errors
    /// If nobody reads any more.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|error| gone(&error))?;
        self.show_status();
        Ok(())
    }

    /// Whether nobody reads any more, found out without printing anything. (Where that cannot be told: no.)
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

    /// A remark beside the output, on the standard error.
    pub(crate) fn remark(&mut self, text: &str) {
        self.hide_status();
        // What was printed before comes before. Whether anybody reads it is found out by the next line.
        let _ = self.out.flush();
        remark(text);
        self.show_status();
    }

    /// Shows these lines below everything else, in place of those shown before.
    pub(crate) fn status(&mut self, lines: &str) {
        if self.status_on.is_none() {
            return;
        }
        let width = width();
        let lines = lines.lines().map(|line| cut(line, width)).collect::<Vec<_>>().join("\n");
        if lines != self.shown {
            self.hide_status();
            self.status = lines;
            self.show_status();
        }
    }

    /// Takes the status away for good.
    pub(crate) fn clear_status(&mut self) {
        self.status.clear();
        self.hide_status();
    }

    fn show_status(&mut self) {
        if self.status.is_empty() || !self.shown.is_empty() {
            return;
        }
        self.shown.clone_from(&self.status);
        // The cursor would jump about: it is hidden while there is a status.
        self.control(&format!("\x1b[?25l{}", self.shown));
    }

    fn hide_status(&mut self) {
        if self.shown.is_empty() {
            return;
        }
        let up = self.shown.lines().count().saturating_sub(1);
        let up = if up > 0 { format!("\x1b[{up}A") } else { String::new() };
        self.control(&format!("\r{up}\x1b[J\x1b[?25h"));
        self.shown.clear();
    }

    fn control(&mut self, text: &str) {
        // A terminal that has gone shows nothing; the next line finds out.
        let _ = match self.status_on {
            Some(StatusOn::Stdout) => {
                let written = self.out.write_all(text.as_bytes());
                written.and_then(|()| self.out.flush())
            }
            Some(StatusOn::Stderr) => {
                let _ = self.out.flush();
                let mut error = io::stderr().lock();
                error.write_all(text.as_bytes()).and_then(|()| error.flush())
            }
            None => Ok(()),
        };
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear_status();
        let _ = self.out.flush();
    }
}

/// A line on the standard error.
#[expect(clippy::print_stderr, reason = "a program says what went wrong")]
pub(crate) fn remark(text: &str) {
    eprintln!("kube-informer: {text}");
}

/// A reader that has gone (`| head`) ends the program; anything else (a full disk) is an error.
fn gone(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::Other(format!("writing to the standard output: {error}")),
    }
}

/// Columns of the terminal.
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

/// At most so many characters, colours not counted: a line that wraps could not be redrawn.
fn cut(line: &str, width: usize) -> String {
    let (mut cut, mut seen, mut escape) = (String::new(), 0, false);
    for c in line.chars() {
        if c == '\x1b' {
            escape = true;
        } else if escape {
            escape = !c.is_ascii_alphabetic();
        } else {
            seen += 1;
            if seen >= width {
                // Colours end here.
                return if line.contains('\x1b') { cut + "\x1b[0m" } else { cut };
            }
        }
        cut.push(c);
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_to_the_terminal_without_counting_colours() {
        assert_eq!(cut("abcdef", 80), "abcdef");
        assert_eq!(cut("abcdef", 4), "abc");
        assert_eq!(cut("\x1b[32mab\x1b[0mcdef", 4), "\x1b[32mab\x1b[0mc\x1b[0m");
        assert_eq!(cut("äöüß", 4), "äöü");
    }
}
