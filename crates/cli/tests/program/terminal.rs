//! On a terminal: colours, the progress bar, the demo's live view, and a terminal that is left as it was.

use pty_process::{Command, Pty, Size};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;

use crate::support::{PROGRAM, World};

/// The program on a terminal of its own.
pub(crate) struct OnTerminal {
    pty: Pty,
    child: Child,
    /// All that it has written, and how much of that was looked at.
    pub(crate) written: String,
    seen: usize,
}

impl OnTerminal {
    pub(crate) fn start(world: &World, arguments: &[&str], no_colour: bool) -> Self {
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(Size::new(24, 100)).unwrap();
        let mut command = Command::new(PROGRAM)
            .args(arguments)
            .env_clear()
            .env("KUBECONFIG", world.kubeconfig())
            .env("HOME", world.directory.path())
            .env("TERM", "xterm")
            .kill_on_drop(true);
        if no_colour {
            command = command.env("NO_COLOR", "1");
        }
        let child = command.spawn(pts).unwrap();
        Self { pty, child, written: String::new(), seen: 0 }
    }

    /// Reads until this was written behind what was waited for before; gives what came up to it.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.written[self.seen..].find(text) {
                let (from, to) = (self.seen, self.seen + at + text.len());
                self.seen = to;
                return self.written[from..to].to_owned();
            }
            assert!(self.read().await, "it ended without {text:?}: {}", self.written);
        }
    }

    /// False at the end.
    pub(crate) async fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.pty.read(&mut bytes).await {
            // A character may be cut in two; what is looked for is ASCII.
            Ok(count) if count > 0 => {
                self.written.push_str(&String::from_utf8_lossy(&bytes[..count]));
                true
            }
            _ => false,
        }
    }

    /// What Ctrl-C sends; gives the exit code.
    pub(crate) async fn ctrl_c(&mut self) -> Option<i32> {
        self.pty.write_all(b"\x03").await.unwrap();
        while self.read().await {}
        self.child.wait().await.unwrap().code()
    }

    /// The cursor is shown, and no status is left below what was printed.
    pub(crate) fn assert_left_as_it_was(&self) {
        let (hidden, shown) = (self.written.rfind("\x1b[?25l"), self.written.rfind("\x1b[?25h"));
        assert!(hidden <= shown, "the cursor stays hidden: {}", self.written);
        let erased = self.written.rfind("\x1b[J");
        assert!(hidden <= erased, "the status stays: {}", self.written);
        assert!(!self.written.contains("\x1b[?1049h"), "the screen is the user's");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_coloured_on_a_terminal_unless_no_color_is_set() {
    let world = World::populated().await;
    let mut coloured = OnTerminal::start(&world, &["watch", "pods"], false);
    coloured.until("\x1b[32mADDED\x1b[0m").await;
    coloured.until("api-2").await;
    world.set_phase("default", "api-1", "Running").await;
    coloured.until("\x1b[33mMODIFIED\x1b[0m").await;
    assert_eq!(coloured.ctrl_c().await, Some(0));
    coloured.assert_left_as_it_was();

    let mut plain = OnTerminal::start(&world, &["watch", "pods"], true);
    plain.until("api-2").await;
    assert!(!plain.written.contains("\x1b[32m"), "{}", plain.written);
    assert_eq!(plain.ctrl_c().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_initial_state_has_a_progress_bar_that_goes_when_it_is_there() {
    use embedded_apiserver::{Action, Fault, Match, Verb};

    let world = World::populated().await;
    // The watch is not answered until the bar was seen.
    let hang = world.server.faults().arm(Fault::new(Action::Hang).on(Match::verb(Verb::Watch)));
    let mut watch = OnTerminal::start(&world, &["watch", "pods"], false);
    watch.until("0 of 2 objects").await;
    assert!(watch.written.contains("\x1b[?25l"), "the cursor is hidden meanwhile");
    world.server.faults().disarm(hang);
    world.server.disconnect_all();
    watch.until("api-2").await;
    while watch.written.rfind("\x1b[?25l") > watch.written.rfind("\x1b[?25h") {
        assert!(watch.read().await, "the bar stays: {}", watch.written);
    }
    watch.assert_left_as_it_was();
    assert_eq!(watch.ctrl_c().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_live_view_of_the_demo_has_a_footer_and_leaves_the_terminal_as_it_was() {
    let world = World::new().await;
    let mut demo = OnTerminal::start(&world, &["demo", "--objects", "150", "--rate", "50"], false);
    demo.until("objects mirrored in").await;
    demo.until("events/s").await;
    let footer = demo.until("live").await;
    assert!(footer.contains("  lag "), "{footer}");
    for part in [" nodes", " deployments", " replicasets", " pods", " MB mirrored", "\x1b[33mMODIFIED"] {
        while !demo.written.contains(part) {
            assert!(demo.read().await, "{part}: {}", demo.written);
        }
    }
    assert_eq!(demo.ctrl_c().await, Some(0));
    assert!(demo.written.contains("the mirror equals the server"), "{}", demo.written);
    demo.assert_left_as_it_was();
}
