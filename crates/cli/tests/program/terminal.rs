//! On a terminal: colours, the progress bar, the demo's live view, and the terminal's state after the program has ended.

use std::ops::Range;
use std::time::Duration;

use pty_process::{Command, Pty, Size};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;

use crate::hostile::{paging_server, pod_list};
use crate::raw_server::RawServer;
use crate::support::{PROGRAM, World};

/// Rows and columns of a terminal that is neither narrow nor wide.
pub(crate) const USUAL: (u16, u16) = (24, 100);
/// A narrow, a usual and a wide terminal.
const SIZES: [(u16, u16); 3] = [(24, 40), USUAL, (24, 200)];

/// The program on a terminal of its own, and an emulator that shows it.
pub(crate) struct OnTerminal {
    pty: Pty,
    child: Child,
    emulator: vt100::Parser,
    /// Everything that it has written, and how much of that `until` has searched.
    pub(crate) written: String,
    seen: usize,
}

impl OnTerminal {
    pub(crate) fn start(
        world: &World,
        arguments: &[&str],
        (rows, columns): (u16, u16),
        no_colour: bool,
    ) -> Self {
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(Size::new(rows, columns)).unwrap();
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
        let emulator = vt100::Parser::new(rows, columns, 0);
        Self { pty, child, emulator, written: String::new(), seen: 0 }
    }

    /// The rows on the screen, up to the last one with text.
    fn rows(&self) -> Vec<String> {
        let screen = self.emulator.screen();
        let mut rows = screen.rows(0, screen.size().1).collect::<Vec<_>>();
        while rows.pop_if(|row| row.trim().is_empty()).is_some() {}
        rows
    }

    /// Reads until a row of the screen contains this; returns the row.
    async fn row_with(&mut self, text: &str) -> String {
        loop {
            if let Some(row) = self.rows().into_iter().rfind(|row| row.contains(text)) {
                return row;
            }
            assert!(self.read().await, "the program ended without {text:?}: {}", self.written);
        }
    }

    fn resize(&mut self, rows: u16, columns: u16) {
        self.pty.resize(Size::new(rows, columns)).unwrap();
        self.emulator.screen_mut().set_size(rows, columns);
    }

    /// No row continues in the next one.
    fn assert_not_wrapped(&self) {
        let (screen, rows) = (self.emulator.screen(), self.emulator.screen().size().0);
        assert!((0..rows).all(|row| !screen.row_wrapped(row)), "{}", screen.contents());
    }

    /// Reads until this text is written, after the last text that was waited for. Returns everything in between, and the text.
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
            // A character may be cut in two. This is harmless, because the texts to find are ASCII.
            Ok(count) if count > 0 => {
                self.emulator.process(&bytes[..count]);
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
    let mut coloured = OnTerminal::start(&world, &["watch", "pods"], USUAL, false);
    coloured.until("\x1b[32mADDED\x1b[0m").await;
    coloured.until("api-2").await;
    world.set_phase("default", "api-1", "Running").await;
    coloured.until("\x1b[33mMODIFIED\x1b[0m").await;
    assert_eq!(coloured.ctrl_c().await, Some(0));
    coloured.assert_left_as_it_was();

    let mut plain = OnTerminal::start(&world, &["watch", "pods"], USUAL, true);
    plain.until("api-2").await;
    assert!(!plain.written.contains("\x1b[32m"), "{}", plain.written);
    assert_eq!(plain.ctrl_c().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_progress_bar_shows_the_initial_list_until_it_is_complete() {
    use embedded_apiserver::{Action, Fault, Match, Verb};

    let world = World::populated().await;
    for size in SIZES {
        // The watch is not answered until the bar was seen.
        let hang = world.server.faults().arm(Fault::new(Action::Hang).on(Match::verb(Verb::Watch)));
        let mut watch = OnTerminal::start(&world, &["watch", "pods"], size, false);
        watch.until("0 of 2 objects").await;
        let row = watch.row_with("0 of 2 objects").await;
        assert!(row.starts_with('░') && row.chars().count() < usize::from(size.1), "{row}");
        assert!(watch.written.contains("\x1b[?25l"), "the cursor is hidden meanwhile");
        world.server.faults().disarm(hang);
        world.server.disconnect_all();
        watch.until("api-2").await;
        while watch.written.rfind("\x1b[?25l") > watch.written.rfind("\x1b[?25h") {
            assert!(watch.read().await, "the bar stays: {}", watch.written);
        }
        watch.assert_left_as_it_was();
        assert!(!watch.rows().iter().any(|row| row.contains('░')), "{:?}", watch.rows());
        assert_eq!(watch.ctrl_c().await, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_count_its_objects_delays_neither_a_watch_nor_its_time_limit() {
    use embedded_apiserver::{Action, Fault, Match, Verb};

    let world = World::populated().await;
    // The initial state is streamed, so only the numbers of objects are missing.
    world.server.faults().arm(Fault::new(Action::Hang).on(Match::verb(Verb::List).resource("pods")));
    let mut watch = OnTerminal::start(&world, &["watch", "pods"], USUAL, true);
    watch.until("api-2").await;
    assert_eq!(watch.ctrl_c().await, Some(0));
    watch.assert_left_as_it_was();
    let mut watch = OnTerminal::start(&world, &["watch", "pods", "--timeout", "100ms"], USUAL, true);
    while watch.read().await {}
    assert_eq!(watch.child.wait().await.unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_watch_are_cut_to_the_width_of_the_terminal() {
    let world = World::populated().await;
    for (number, (rows, columns)) in SIZES.into_iter().enumerate() {
        let label = |text: String| json!({"metadata": {"labels": {"long": text}}});
        let path = "/api/v1/namespaces/shop/pods/web-1";
        let text = |round: usize| format!("n{number}r{round}-{}", "x".repeat(30));
        world.patch(path, label(text(0))).await;
        let mut watch = OnTerminal::start(&world, &["watch", "pods", "-A"], (rows, columns), true);
        watch.row_with("web-1").await;
        world.patch(path, label(text(1))).await;
        let row = watch.row_with("MODIFIED").await;
        // The row needs about 130 columns.
        assert_eq!(row.ends_with('…'), columns < 200, "{row}");
        assert!(row.chars().count() <= columns.into(), "{row}");
        // Later rows have the new width.
        watch.resize(rows, 60);
        world.patch(path, label(text(2))).await;
        while watch.rows().iter().filter(|row| row.contains("MODIFIED")).count() < 2 {
            assert!(watch.read().await, "{}", watch.written);
        }
        let row = watch.row_with("MODIFIED").await;
        assert!(row.ends_with('…') && row.chars().count() == 60, "{row}");
        watch.assert_not_wrapped();
        assert_eq!(watch.ctrl_c().await, Some(0));
        watch.assert_left_as_it_was();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn get_watch_prints_rows_at_every_size() {
    let world = World::populated().await;
    for (number, size) in SIZES.into_iter().enumerate() {
        let arguments = ["get", "pods", "-A", "-w", "--show-labels", "--output-watch-events"];
        let mut get = OnTerminal::start(&world, &arguments, size, true);
        let fits = |row: &str, columns: u16| row.chars().count() <= columns.into();
        let titles = get.row_with("EVENT").await;
        let row = get.row_with("web-1").await;
        assert!(row.starts_with("ADDED") && fits(&titles, size.1) && fits(&row, size.1), "{titles}\n{row}");
        let phase = ["Running", "Failed", "Succeeded"][number];
        world.set_phase("shop", "web-1", phase).await;
        let row = get.row_with("MODIFIED").await;
        assert!(row.contains("shop") && fits(&row, size.1), "{row}");
        // The row needs about 70 columns.
        let is_cut = size.1 < 70;
        assert_eq!((row.ends_with('…'), row.contains("app=web")), (is_cut, !is_cut), "{row}");
        // Later rows have the new width.
        get.resize(size.0, 60);
        world.set_phase("shop", "web-1", "Pending").await;
        while get.rows().iter().filter(|row| row.contains("MODIFIED")).count() < 2 {
            assert!(get.read().await, "{}", get.written);
        }
        let row = get.row_with("MODIFIED").await;
        assert!(fits(&row, 60), "{row}");
        get.assert_not_wrapped();
        assert_eq!(get.ctrl_c().await, Some(0));
        get.assert_left_as_it_was();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_takes_long_shows_its_progress() {
    use embedded_apiserver::{Action, Fault, Match, Verb};

    let world = World::populated().await;
    world.server.faults().arm(Fault::new(Action::Hang).on(Match::verb(Verb::List).resource("pods")));
    for size in SIZES {
        let mut get = OnTerminal::start(&world, &["get", "pods", "-o", "name"], size, false);
        assert_eq!(get.row_with("reading the initial state").await, "reading the initial state: 0 objects");
        get.assert_not_wrapped();
        assert_eq!(get.ctrl_c().await, Some(130));
        get.assert_left_as_it_was();
    }
}

/// A page of a server's table of pods.
fn table_of_pods(numbers: Range<u32>, next: &str) -> String {
    let row = |number: u32| json!({"cells": [format!("pod-{number:03}")]});
    let column =
        json!({"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0});
    let rows = numbers.map(row).collect::<Vec<_>>();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1", "continue": next},
        "columnDefinitions": [column], "rows": rows})
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_several_pages_shows_its_progress_at_every_size() {
    // The second page takes long enough for the progress after the first one to be seen.
    let server = RawServer::start(|path| {
        let (path, query) = path.split_once('?')?;
        let is_first = !query.contains("continue=");
        (path == "/api/v1/namespaces/default/pods").then(|| match is_first {
            true => RawServer::json(table_of_pods(0..500, "second")),
            false => RawServer::delayed(Duration::from_secs(1), RawServer::json(table_of_pods(500..501, ""))),
        })
    })
    .await;
    let world = World::at(&server.url()).await;
    for size in SIZES {
        let mut get = OnTerminal::start(&world, &["get", "pods"], size, true);
        get.row_with("500 objects").await;
        // The number has a line of its own if the terminal is narrow.
        match size.1 {
            40 => assert_eq!(get.rows(), ["reading pods in namespace default", "500 objects"]),
            _ => assert_eq!(get.rows(), ["reading pods in namespace default  500 objects"]),
        }
        get.assert_not_wrapped();
        assert!(!get.written.contains("NAME"), "the columns are as wide as the rows of all pages need");
        while get.read().await {}
        assert_eq!(get.child.wait().await.unwrap().code(), Some(0));
        assert_eq!(get.written.matches("pod-").count(), 501);
        assert!(get.rows().iter().all(|row| !row.contains("objects")), "{:?}", get.rows());
        get.assert_left_as_it_was();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_progress_of_a_list_counts_the_objects_that_have_arrived() {
    // Its list never ends, so the count grows until Ctrl-C.
    let server = paging_server(pod_list).await;
    let world = World::at(&server.url()).await;
    let mut get = OnTerminal::start(&world, &["get", "pods", "-o", "name"], USUAL, false);
    let mut counts = vec![0];
    while counts.len() < 4 {
        let row = get.row_with("reading the initial state: ").await;
        let count = row.split(' ').rev().nth(1).and_then(|word| word.parse::<u64>().ok());
        if let Some(count) = count.filter(|count| row.ends_with(" objects") && Some(count) != counts.last()) {
            assert!(Some(&count) > counts.last(), "{count} after {counts:?}");
            counts.push(count);
        }
        assert!(get.read().await, "it ended: {}", get.written);
    }
    assert_eq!(get.ctrl_c().await, Some(130));
    get.assert_left_as_it_was();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_progress_bar_of_a_watch_grows_with_the_objects_that_arrive() {
    use embedded_apiserver::{Action, Fault, Match, Verb};

    let world = World::populated().await;
    let watches = Match::verb(Verb::Watch).resource("pods");
    world.server.faults().arm(Fault::new(Action::StallAfterEvents(1)).on(watches));
    let mut watch = OnTerminal::start(&world, &["watch", "pods"], USUAL, false);
    let row = watch.row_with("1 of 2 objects").await;
    assert!(row.starts_with('█') && row.contains('░') && row.contains("50 %"), "{row}");
    assert_eq!(watch.ctrl_c().await, Some(0));
    watch.assert_left_as_it_was();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_has_a_footer_and_restores_the_terminal() {
    let world = World::new().await;
    let arguments = ["demo", "--objects", "150", "--rate", "50"];
    let mut demo = OnTerminal::start(&world, &arguments, USUAL, false);
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

#[tokio::test(flavor = "multi_thread")]
async fn the_footer_of_the_demo_fits_every_size_and_follows_a_resize() {
    let world = World::new().await;
    let arguments = ["demo", "--objects", "150", "--rate", "50"];
    for (rows, columns) in SIZES {
        let mut demo = OnTerminal::start(&world, &arguments, (rows, columns), false);
        let lines = footer(&mut demo).await;
        // As many lines as the width requires.
        let expected = if columns == 40 { 4..=8 } else { 2..=3 };
        assert!(expected.contains(&lines.len()), "{lines:#?}");
        demo.resize(rows, 60);
        while demo.rows().iter().any(|row| row.chars().count() > 60) {
            assert!(demo.read().await, "{}", demo.written);
        }
        let lines = footer(&mut demo).await;
        assert!(lines.iter().all(|line| line.chars().count() < 60), "{lines:#?}");
        assert_eq!(demo.ctrl_c().await, Some(0));
        demo.assert_left_as_it_was();
    }
}

/// Reads until the footer is complete at the bottom of the screen; returns its lines.
async fn footer(demo: &mut OnTerminal) -> Vec<String> {
    loop {
        let rows = demo.rows();
        // Nodes are the first kind.
        let first = rows.iter().rposition(|row| row.split("  ").any(|part| part.ends_with(" nodes")));
        let lines = first.map(|first| rows[first..].to_vec()).unwrap_or_default();
        let text = lines.join("  ");
        if [" pods", " MB mirrored", " resident, server included)", " events/s", "lag ", "live"]
            .iter()
            .all(|part| text.contains(part))
        {
            let screen = demo.emulator.screen();
            let from = rows.len() - lines.len();
            let wraps = |row: usize| screen.row_wrapped(u16::try_from(row).unwrap());
            assert!(!(from..rows.len()).any(wraps), "{lines:#?}");
            return lines;
        }
        assert!(demo.read().await, "the footer is incomplete: {}", demo.written);
    }
}
