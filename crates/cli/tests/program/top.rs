//! `top` on a terminal of several sizes: what is on the screen, what keys do, and the terminal afterwards.

use std::time::Duration;

use embedded_apiserver::Server;
use pty_process::{Command, Pty, Size};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;

use crate::support::{PROGRAM, World};

/// The program on a terminal that a terminal emulator shows.
struct Top {
    pty: Pty,
    child: Child,
    emulator: vt100::Parser,
    written: Vec<u8>,
}

/// Longest wait for the screen to show something.
const WAIT_MAX: Duration = Duration::from_secs(60);

impl Top {
    fn start(world: &World, arguments: &[&str], (rows, columns): (u16, u16), no_colour: bool) -> Self {
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(Size::new(rows, columns)).unwrap();
        let mut command = Command::new(PROGRAM)
            .arg("top")
            .args(arguments)
            .env_clear()
            .env("KUBECONFIG", world.kubeconfig())
            .env("HOME", world.directory.path())
            .env("TERM", "xterm-256color")
            .kill_on_drop(true);
        if no_colour {
            command = command.env("NO_COLOR", "1");
        }
        let child = command.spawn(pts).unwrap();
        Self { pty, child, emulator: vt100::Parser::new(rows, columns, 0), written: Vec::new() }
    }

    fn screen(&self) -> String {
        self.emulator.screen().contents()
    }

    /// Reads until the screen shows this.
    async fn until(&mut self, shown: impl Fn(&str) -> bool) -> String {
        let wait = async {
            while !shown(&self.screen()) {
                assert!(self.read().await, "the program ended: {}", self.screen());
            }
        };
        if tokio::time::timeout(WAIT_MAX, wait).await.is_err() {
            panic!("the screen shows: {}", self.screen());
        }
        self.screen()
    }

    async fn until_shows(&mut self, text: &str) -> String {
        self.until(|screen| screen.contains(text)).await
    }

    async fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.pty.read(&mut bytes).await {
            Ok(count) if count > 0 => {
                self.emulator.process(&bytes[..count]);
                self.written.extend_from_slice(&bytes[..count]);
                true
            }
            _ => false,
        }
    }

    async fn press(&mut self, keys: &str) {
        self.pty.write_all(keys.as_bytes()).await.unwrap();
    }

    fn resize(&mut self, rows: u16, columns: u16) {
        self.pty.resize(Size::new(rows, columns)).unwrap();
        self.emulator.screen_mut().set_size(rows, columns);
    }

    /// Reads to the end; returns the exit code.
    async fn end(&mut self) -> Option<i32> {
        while self.read().await {}
        self.child.wait().await.unwrap().code()
    }

    /// The alternate screen is left, and the cursor is shown.
    fn assert_terminal_is_restored(&self) {
        let screen = self.emulator.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "{}", self.screen());
    }
}

const ENTER: &str = "\r";
const ESC: &str = "\x1b";

#[tokio::test(flavor = "multi_thread")]
async fn kinds_and_changes_are_shown_at_every_size() {
    let world = World::populated().await;
    for (rows, columns) in [(24, 80), (50, 200), (10, 40), (3, 10)] {
        let mut top = Top::start(&world, &["pods,deploy,secrets"], (rows, columns), false);
        if rows < 10 {
            // Too small to read, but it runs and ends.
            top.until(|screen| !screen.trim().is_empty()).await;
        } else {
            let screen = top.until(|screen| screen.contains("KIND") && screen.contains("pods")).await;
            assert!(screen.lines().count() <= rows.into(), "{screen}");
            top.until_shows("deployments.apps").await;
        }
        if rows >= 24 {
            let screen = top.until(|screen| screen.matches(" live").count() == 3).await;
            for part in
                ["OBJECTS▼", "MEMORY", "EVENTS/S", "LAG", "STATE", "3 kinds  5 objects", "?: help", "changes"]
            {
                assert!(screen.contains(part), "{part}: {screen}");
            }
            let phase = if rows == 24 { "Running" } else { "Failed" };
            world.set_phase("default", "api-1", phase).await;
            let screen = top.until_shows("MODIFIED").await;
            assert!(screen.contains("pod default/api-1  status.phase:"), "{screen}");
        }
        top.press("q").await;
        assert_eq!(top.end().await, Some(0));
        top.assert_terminal_is_restored();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_open_sort_and_filter() {
    let world = World::populated().await;
    let mut top = Top::start(&world, &["pods,deploy,secrets"], (30, 100), false);
    top.until(|screen| screen.matches("live").count() == 3).await;
    let order = |screen: &str| {
        let at = |kind: &str| screen.find(kind).unwrap();
        (at("pods ") < at("deployments.apps"), at("secrets") < at("pods "))
    };
    assert_eq!(order(&top.screen()), (true, false), "most objects first: {}", top.screen());
    top.press("r").await;
    top.until_shows("OBJECTS▲").await;
    top.until(|screen| order(screen) == (false, true)).await;
    top.press("r").await;
    top.press("s").await;
    top.until_shows("MEMORY▼").await;

    top.press("?").await;
    top.until_shows("sort by the next column").await;
    top.press("?").await;
    top.until(|screen| !screen.contains("sort by the next column")).await;

    top.press("/dep").await;
    top.until(|screen| screen.contains("filter: dep_") && !screen.contains("secrets ")).await;
    top.press(ENTER).await;
    top.until_shows("filter: dep ").await;
    top.press(ESC).await;
    top.until(|screen| !screen.contains("filter:") && screen.contains("secrets ")).await;

    // Kinds, objects, one object, and back.
    top.press("/pods").await;
    top.press(ENTER).await;
    top.until(|screen| !screen.contains("secrets ")).await;
    top.press(ENTER).await;
    let screen = top.until_shows("RESTARTS").await;
    assert!(screen.contains("shop") && screen.contains("web-1") && screen.contains("0/1"), "{screen}");
    top.press("/web").await;
    top.until(|screen| !screen.contains("api-1")).await;
    top.press(ENTER).await;
    top.press(ENTER).await;
    let screen = top.until_shows("nodeName: node-7").await;
    assert!(screen.contains("pods shop/web-1"), "{screen}");
    world.set_phase("shop", "web-1", "Succeeded").await;
    top.press("G").await;
    top.until_shows("phase: Succeeded").await;
    world.delete("/api/v1/namespaces/shop/pods/web-1").await;
    top.press("g").await;
    top.until_shows("# deleted").await;
    top.press(ESC).await;
    top.until_shows("api-1").await;
    top.press(ESC).await;
    top.until_shows("EVENTS/S").await;
    top.press("\x03").await;
    assert_eq!(top.end().await, Some(0));
    top.assert_terminal_is_restored();
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_an_object_and_the_help_are_shown_at_every_size() {
    let world = World::populated().await;
    for (rows, columns) in [(24, 80), (50, 200), (10, 40), (3, 10)] {
        let mut top = Top::start(&world, &["pods", "-A"], (rows, columns), false);
        let is_readable = rows >= 10;
        let lines = usize::from(rows);
        if is_readable {
            top.until(|screen| screen.contains("pods") && screen.contains(" 3 ")).await;
        } else {
            top.until(|screen| !screen.trim().is_empty()).await;
        }
        // The objects, with the selected row reversed.
        top.press(ENTER).await;
        if is_readable {
            let screen = top.until(|screen| screen.contains("api-1") && screen.contains("web-1")).await;
            assert!(screen.contains("NAME") && screen.lines().count() <= lines, "{screen}");
            assert_eq!(screen.contains("RESTARTS"), columns >= 80, "{screen}");
            // Changes are listed if there is room for them.
            let phase = if rows == 24 { "Running" } else { "Failed" };
            world.set_phase("default", "api-2", phase).await;
            let shows_changes = rows >= 24;
            if shows_changes {
                top.until_shows("MODIFIED").await;
            }
            assert_eq!(top.screen().contains("changes"), shows_changes, "{}", top.screen());
        }
        // One object, from its beginning to its end.
        top.press(ENTER).await;
        if is_readable {
            let screen = top.until_shows("kind: Pod").await;
            assert!(screen.lines().count() <= lines && screen.contains("?: help"), "{screen}");
            top.press("G").await;
            let screen = top.until_shows("phase: Pending").await;
            assert_eq!(screen.contains("kind: Pod"), rows == 50, "a short screen is scrolled: {screen}");
            top.press("g").await;
            top.until_shows("kind: Pod").await;
        }
        // The help is as large as fits, and covers the rest only while it is open.
        top.press("?").await;
        if is_readable {
            let screen = top.until_shows("keys").await;
            let shown = ["↑ ↓ j k", "PgUp PgDn", "Home End g G", "Enter → l", "Esc ← Backspace"];
            assert!(shown.iter().all(|keys| screen.contains(keys)), "{screen}");
            assert_eq!(screen.contains("q Ctrl-C Ctrl-D"), rows >= 24, "{screen}");
            let help = screen.lines().filter(|line| line.contains('│'));
            assert!(help.clone().count() > 5, "{screen}");
            help.for_each(|line| assert!(line.chars().count() <= columns.into(), "{screen}"));
            top.press("?").await;
            top.until(|screen| !screen.contains("keys") && screen.contains("kind: Pod")).await;
        } else {
            top.press("?").await;
        }
        // Back to the kinds.
        top.press(ESC).await;
        if is_readable {
            top.until(|screen| screen.contains("web-1") && !screen.contains("kind: Pod")).await;
        }
        top.press(ESC).await;
        if is_readable {
            // A narrow screen has fewer columns, but none is cut off.
            let screen = top.until(|screen| screen.contains("OBJECTS▼")).await;
            assert!(screen.contains("STATE") && screen.contains("live"), "{screen}");
            assert_eq!(screen.contains("EVENTS/S"), columns >= 80, "{screen}");
        }
        top.press("q").await;
        assert_eq!(top.end().await, Some(0));
        top.assert_terminal_is_restored();
    }
}

/// The position of a text on the screen.
fn at(screen: &str, text: &str) -> usize {
    screen.find(text).unwrap_or_else(|| panic!("{text:?} is not on the screen: {screen}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn space_pauses_the_changes_and_loses_none() {
    let world = World::populated().await;
    let mut top = Top::start(&world, &["pods"], (30, 120), false);
    top.until_shows(" live").await;
    top.press(" ").await;
    top.until_shows("changes (paused, 0 new)").await;
    world.set_phase("default", "api-1", "Running").await;
    world.set_phase("default", "api-2", "Failed").await;
    let screen = top.until_shows("changes (paused, 2 new)").await;
    assert!(!screen.contains("MODIFIED"), "{screen}");
    top.press(" ").await;
    let screen = top.until(|screen| screen.matches("MODIFIED").count() == 2).await;
    for change in ["api-1  status.phase: Pending → Running", "api-2  status.phase: Pending → Failed"] {
        assert!(screen.contains(change), "{change}: {screen}");
    }
    assert!(!screen.contains("paused"), "{screen}");
    top.press("q").await;
    assert_eq!(top.end().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_selected_row_stays_selected_when_rows_move() {
    let world = World::populated().await;
    let mut top = Top::start(&world, &["pods,configmaps"], (30, 100), false);
    top.until(|screen| screen.matches(" live").count() == 2).await;
    assert!(at(&top.screen(), "pods ") < at(&top.screen(), "configmaps "), "{}", top.screen());
    // More ConfigMaps than pods: the kinds change places.
    for number in 0..5 {
        let map = json!({"metadata": {"name": format!("m{number}")}});
        world.create("/api/v1/namespaces/default/configmaps", map).await;
    }
    top.until(|screen| at(screen, "configmaps ") < at(screen, "pods ")).await;
    top.press(ENTER).await;
    let screen = top.until_shows("RESTARTS").await;
    assert!(screen.contains("api-1"), "{screen}");

    // An object that is inserted above the selected one.
    top.press("j").await;
    world.create_pod("default", "aaa-1", "node-7").await;
    top.until(|screen| screen.lines().any(|line| line.contains("aaa-1") && line.contains("0/1"))).await;
    top.press(ENTER).await;
    let screen = top.until_shows("kind: Pod").await;
    assert!(screen.contains("pods default/api-2"), "{screen}");
    top.press(ESC).await;
    top.until_shows("RESTARTS").await;

    // The selected object is deleted: the next one takes its place.
    world.delete("/api/v1/namespaces/default/pods/api-2").await;
    top.until(|screen| !screen.lines().take(8).any(|line| line.contains("api-2"))).await;
    top.press(ENTER).await;
    top.until_shows("pods shop/web-1").await;
    top.press("q").await;
    assert_eq!(top.end().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_sorted_by_each_column() {
    let world = World::populated().await;
    world.set_phase("default", "api-2", "Failed").await;
    let mut top = Top::start(&world, &["pods"], (30, 100), false);
    top.until_shows(" live").await;
    top.press(ENTER).await;
    let order = |screen: &str| {
        // Above the list of changes.
        let rows = screen.lines().take_while(|line| !line.contains("changes"));
        let name = |line: &str| ["api-1", "api-2", "web-1"].into_iter().find(|name| line.contains(*name));
        rows.filter_map(name).collect::<Vec<_>>().join(" ")
    };
    for (keys, title, expected) in [
        ("", "NAMESPACE▲", "api-1 api-2 web-1"),
        ("r", "NAMESPACE▼", "web-1 api-2 api-1"),
        ("rs", "NAME▲", "api-1 api-2 web-1"),
        ("s", "READY▲", "api-1 api-2 web-1"),
        ("s", "STATUS▲", "api-2 api-1 web-1"),
        ("s", "RESTARTS▲", "api-1 api-2 web-1"),
        ("s", "AGE▲", "api-1 api-2 web-1"),
        ("s", "NAMESPACE▲", "api-1 api-2 web-1"),
    ] {
        top.press(keys).await;
        let screen = top.until_shows(title).await;
        // Pods that were created within a second have the same age.
        if title != "AGE▲" {
            assert_eq!(order(&screen), expected, "{title}: {screen}");
        }
    }
    // Sorted by status, a change moves the object.
    top.press("sss").await;
    top.until(|screen| screen.contains("STATUS▲") && order(screen) == "api-2 api-1 web-1").await;
    world.set_phase("shop", "web-1", "Failed").await;
    top.until(|screen| order(screen) == "api-2 web-1 api-1").await;
    top.press("q").await;
    assert_eq!(top.end().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectls_copy_of_an_object_is_masked_everywhere() {
    let world = World::new().await;
    let applied = "kubectl.kubernetes.io/last-applied-configuration";
    let map = json!({"metadata": {"name": "m", "annotations": {applied: "{hunter2}"}}, "data": {"a": "b"}});
    world.create("/api/v1/namespaces/default/configmaps", map).await;
    let mut top = Top::start(&world, &["configmaps"], (30, 200), false);
    top.until_shows(" live").await;
    let path = "/api/v1/namespaces/default/configmaps/m";
    world.patch(path, json!({"metadata": {"annotations": {applied: "{hunter22}"}}})).await;
    top.until_shows("last-applied-configuration: *** → ***").await;
    top.press(ENTER).await;
    top.until_shows("DATA").await;
    top.press(ENTER).await;
    top.until_shows("last-applied-configuration: \"***\"").await;
    top.press("q").await;
    assert_eq!(top.end().await, Some(0));
    assert!(!String::from_utf8_lossy(&top.written).contains("hunter"), "{}", top.screen());
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_secrets_and_control_characters_are_not_shown() {
    let world = World::populated().await;
    let map = json!({"metadata": {"name": "m"}, "data": {"text": "a\u{1b}]0;owned\u{7}"}});
    world.create("/api/v1/namespaces/default/configmaps", map).await;
    for (kind, expected) in [("secrets", "password: '***'"), ("configmaps", "owned")] {
        let mut top = Top::start(&world, &[kind, "-n", "default"], (40, 120), false);
        top.until_shows("live").await;
        top.press(ENTER).await;
        top.until(|screen| screen.contains("login") || screen.contains(" 1 ")).await;
        top.press(ENTER).await;
        top.until(|screen| screen.contains("***") || screen.contains(expected)).await;
        top.press("q").await;
        assert_eq!(top.end().await, Some(0));
        let written = String::from_utf8_lossy(&top.written);
        assert!(!written.contains("aHVudGVyMg") && !written.contains("\u{1b}]0;"), "{written}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_help_lists_all_keys() {
    let world = World::populated().await;
    let mut top = Top::start(&world, &["pods"], (24, 80), false);
    top.until_shows("live").await;
    top.press("h").await;
    let screen = top.until_shows("Ctrl-D").await;
    for keys in
        ["↑ ↓ j k", "PgUp PgDn", "Home End g G", "Enter → l", "Esc ← Backspace", "? h", "q Ctrl-C Ctrl-D"]
    {
        assert!(screen.contains(keys), "{keys}: {screen}");
    }
    top.press("h").await;
    top.until(|screen| !screen.contains("Ctrl-D")).await;
    top.press("\x04").await;
    assert_eq!(top.end().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resized_terminal_is_drawn_again() {
    let world = World::populated().await;
    let mut top = Top::start(&world, &["pods"], (30, 100), false);
    top.until_shows("live").await;
    top.resize(12, 60);
    top.until(|screen| screen.lines().nth(11).is_some_and(|line| line.contains("?: help"))).await;
    assert!(!top.screen().contains("changes"), "{}", top.screen());
    top.resize(40, 120);
    top.until(|screen| screen.lines().nth(39).is_some_and(|line| line.contains("?: help"))).await;
    top.until_shows("changes").await;
    top.press("q").await;
    assert_eq!(top.end().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn colours_follow_the_flag_and_then_the_environment() {
    let world = World::populated().await;
    for (flags, no_colour, is_coloured) in [
        (&[][..], false, true),
        (&[], true, false),
        (&["--color", "auto"], true, false),
        (&["--color", "always"], true, true),
        (&["--color", "never"], false, false),
    ] {
        let mut top = Top::start(&world, &[&["pods"], flags].concat(), (24, 80), no_colour);
        top.until_shows("live").await;
        top.press("q").await;
        assert_eq!(top.end().await, Some(0));
        let written = String::from_utf8_lossy(&top.written);
        assert_eq!(written.contains("\x1b[38;5;2"), is_coloured, "{flags:?} {no_colour}: {written:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_objects_can_be_scrolled() {
    let world = World::new().await;
    for number in 0..60 {
        let map = json!({"metadata": {"name": format!("m{number:02}")}});
        world.create("/api/v1/namespaces/default/configmaps", map).await;
    }
    let mut top = Top::start(&world, &["configmaps"], (16, 60), false);
    top.until_shows(" 60 ").await;
    top.press(ENTER).await;
    top.until_shows("m00").await;
    top.press("G").await;
    top.until(|screen| screen.contains("m59") && !screen.contains("m00")).await;
    top.press("\x1b[5~").await;
    top.until(|screen| !screen.contains("m59")).await;
    top.press("g").await;
    top.until_shows("m00").await;
    top.press("q").await;
    assert_eq!(top.end().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_whose_watch_breaks_is_shown_as_degraded_and_signals_restore_the_terminal() {
    let world = World::with(Server::builder()).await;
    world.create_pod("default", "api-1", "node-1").await;
    let mut top = Top::start(&world, &["pods"], (24, 100), false);
    top.until_shows("live").await;
    world.server.refuse_connections().await;
    top.until_shows("degraded").await;
    world.server.accept_connections().await.unwrap();
    top.until(|screen| screen.contains("live") && !screen.contains("degraded")).await;
    crate::support::signal(&top.child, rustix::process::Signal::TERM);
    assert_eq!(top.end().await, Some(0));
    top.assert_terminal_is_restored();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_is_rejected() {
    let world = World::new().await;
    let ended = world.run(&["top"]).await;
    assert!(ended.code == 2 && ended.stderr.contains("top needs a terminal"), "{ended:?}");
}
