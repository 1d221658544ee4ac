//! A full-screen view on the alternate screen of the terminal, with keys read one by one.
//!
//! Frames are rendered into a buffer and written by the [thread](super::writer) that writes all output, so a terminal that
//! is stopped with Ctrl-S does not block signals. Dropping the view restores the terminal, however the command ends.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::style::force_color_output;
use ratatui::crossterm::terminal::{self, EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::{Frame, Terminal};
use tokio::sync::mpsc;

use super::writer::{Stream, Writer};
use super::{ColourChoice, LAST_WRITE_TIME_MAX, gone};
use crate::failure::Failure;

/// Maximum number of keys that wait to be handled.
const KEYS_MAX: usize = 64;
/// How often the thread that reads keys checks whether it should end.
const KEY_WAIT: Duration = Duration::from_millis(100);

/// What the user did.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Input {
    Key(KeyEvent),
    Resized,
}

/// The full-screen view.
pub(crate) struct FullScreen {
    terminal: Terminal<CrosstermBackend<FrameBuffer>>,
    buffer: FrameBuffer,
    writer: Writer,
    inputs: mpsc::Receiver<Input>,
    ended: Arc<AtomicBool>,
    pub(crate) colours: bool,
}

/// The bytes of the next frame.
#[derive(Clone, Default)]
struct FrameBuffer(Arc<Mutex<Vec<u8>>>);

impl FullScreen {
    /// Switches the terminal to the alternate screen.
    ///
    /// # Errors
    /// If the standard input or output is not a terminal.
    pub(crate) fn enter(colours: ColourChoice) -> Result<Self, Failure> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(Failure::Usage(
                "top needs a terminal; in a pipe, use `watch` or `serve` instead".to_owned(),
            ));
        }
        let cannot = |error: io::Error| Failure::other("cannot prepare the terminal", &error);
        // `colours` decides. With $NO_COLOR, crossterm would drop the colours of `--color always`.
        force_color_output(true);
        let mut buffer = FrameBuffer::default();
        let terminal = Terminal::new(CrosstermBackend::new(buffer.clone())).map_err(cannot)?;
        terminal::enable_raw_mode().map_err(cannot)?;
        let (sender, inputs) = mpsc::channel(KEYS_MAX);
        let ended = Arc::<AtomicBool>::default();
        let view = Self {
            terminal,
            buffer: buffer.clone(),
            writer: Writer::start(),
            inputs,
            ended,
            colours: colours.colours(),
        };
        execute!(buffer, EnterAlternateScreen, Hide).map_err(cannot)?;
        let ended = view.ended.clone();
        let reader = std::thread::Builder::new().name("keys".to_owned());
        reader.spawn(move || read_keys(&sender, &ended)).map_err(cannot)?;
        Ok(view)
    }

    /// The next key or resize; `None` if the terminal is gone.
    ///
    /// # Cancel safety
    /// Dropping the future loses no input.
    pub(crate) async fn input(&mut self) -> Option<Input> {
        self.inputs.recv().await
    }

    /// Draws a frame. Only differences to the last frame are written.
    ///
    /// # Errors
    /// If the terminal cannot be written to.
    pub(crate) async fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        self.terminal.draw(draw).map_err(|error| gone(&error))?;
        let bytes = self.buffer.take();
        self.writer.write(vec![(Stream::Stdout, bytes)]).await.map_err(|error| gone(&error))
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // A terminal that is gone cannot be restored.
        let _ = execute!(self.buffer, LeaveAlternateScreen, Show);
        self.writer.write_within(vec![(Stream::Stdout, self.buffer.take())], LAST_WRITE_TIME_MAX);
        let _ = terminal::disable_raw_mode();
    }
}

impl FrameBuffer {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for FrameBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn read_keys(inputs: &mpsc::Sender<Input>, ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) {
        let input = match event::poll(KEY_WAIT) {
            Ok(false) => continue,
            Ok(true) => event::read(),
            Err(_) => return,
        };
        let input = match input {
            Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Input::Key(key),
            Ok(Event::Resize(..)) => Input::Resized,
            Ok(_) => continue,
            Err(_) => return,
        };
        if inputs.blocking_send(input).is_err() {
            return;
        }
    }
}
