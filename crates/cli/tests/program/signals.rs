//! Ctrl-C and SIGTERM end every command, whatever it is doing at the moment.

use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use embedded_apiserver::{Action, Fault, Match, Verb};
use rustix::process::Signal;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::process::Child;
use tokio::sync::Notify;

use crate::raw_server::RawServer;
use crate::support::{World, peak_memory, signal};

/// Bytes of events after which a watch is looked at.
const EVENT_BYTES: u64 = 40 << 20;
/// More than the objects that the events are about, and what is being read and printed of them.
const MEMORY_MAX: usize = 100 << 20;
/// Looks in succession that must find the program idle.
const QUIET_LOOKS: u32 = 200;

/// A server whose watch never pauses: changes of a few pods, without end. `sent` counts their bytes.
async fn busy_server(sent: Arc<AtomicU64>, enough: Arc<Notify>) -> RawServer {
    RawServer::start(move |path| {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        if path != "/api/v1/namespaces/default/pods" {
            return None;
        }
        if !query.contains("watch=") {
            return Some(RawServer::json(r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}"#));
        }
        let (sent, enough) = (sent.clone(), enough.clone());
        // The initial state, and then nothing but changes.
        let synced = json!({"type": "BOOKMARK", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {
            "resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}}});
        Some(RawServer::stream(&format!("{synced}\n"), move |number| {
            let kind = if number < 10 { "ADDED" } else { "MODIFIED" };
            let event = json!({"type": kind, "object": {"apiVersion": "v1", "kind": "Pod",
                "metadata": {"namespace": "default", "name": format!("p{}", number % 10), "uid": format!("u{}", number % 10),
                    "resourceVersion": (number + 2).to_string(), "annotations": {"note": "x".repeat(4000)}},
                "status": {"phase": format!("P{number}")}}});
            let event = format!("{event}\n");
            if sent.fetch_add(event.len() as u64, Ordering::Relaxed) > EVENT_BYTES {
                enough.notify_one();
            }
            event
        }))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn g3_a_watch_whose_events_never_pause_keeps_its_memory_and_ends_at_ctrl_c() {
    for (arguments, end) in
        [(&["watch", "pods"][..], Signal::INT), (&["watch", "pods", "-o", "json"], Signal::TERM)]
    {
        let enough = Arc::new(Notify::new());
        let server = busy_server(Arc::default(), enough.clone()).await;
        let world = World::at(&server.url()).await;
        let mut watch = world.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = watch.stdout.take().unwrap();
        let mut bytes = vec![0; 1 << 16];
        // Read on while waiting: nothing but the program holds the events back.
        tokio::select! {
            () = enough.notified() => {}
            () = async { while stdout.read(&mut bytes).await.unwrap() > 0 {} } => panic!("it ended"),
        }
        let peak = peak_memory(&watch);
        signal(&watch, end);
        let drained = async { while stdout.read(&mut bytes).await.unwrap() > 0 {} };
        let (ended, ()) = tokio::join!(watch.wait(), drained);
        assert_eq!(ended.unwrap().code(), Some(0), "{arguments:?}");
        assert!(peak < MEMORY_MAX, "{arguments:?}: {} MB", peak >> 20);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g3_output_that_is_not_read_stops_reading_until_it_is_read_and_does_not_hide_signals() {
    for (arguments, resume) in [
        (&["watch", "pods"][..], true),
        (&["watch", "pods", "-o", "json"], true),
        (&["watch", "pods"], false),
    ] {
        let (sent, enough) = (Arc::<AtomicU64>::default(), Arc::new(Notify::new()));
        let server = busy_server(sent.clone(), enough.clone()).await;
        let world = World::at(&server.url()).await;
        let (reader, mut writer) = std::io::pipe().unwrap();
        // A full pipe: the first line that is printed has to wait.
        writer.write_all(&[b'.'; 1 << 16]).unwrap();
        let mut watch = world.command(arguments).stdout(writer).spawn().unwrap();
        // Everything waits: the output for its reader, the program for the output, the server for the program.
        let mut quiet_looks = 0;
        let mut sent_before = 0;
        while quiet_looks < QUIET_LOOKS {
            let sent_now = sent.load(Ordering::Relaxed);
            assert!(sent_now < EVENT_BYTES, "{arguments:?}: it reads on without printing");
            let is_quiet = sent_now == sent_before && sent_now > 0 && is_writing(&watch) && is_idle(&watch);
            quiet_looks = if is_quiet { quiet_looks + 1 } else { 0 };
            sent_before = sent_now;
            tokio::task::yield_now().await;
        }
        let peak = peak_memory(&watch);
        assert!(peak < MEMORY_MAX, "{arguments:?}: {} MB", peak >> 20);
        if resume {
            let mut stdout = tokio::net::unix::pipe::Receiver::from_owned_fd(reader.into()).unwrap();
            let mut bytes = vec![0; 1 << 16];
            while sent.load(Ordering::Relaxed) < sent_before + EVENT_BYTES / 4 {
                assert!(stdout.read(&mut bytes).await.unwrap() > 0, "{arguments:?}: it ended");
            }
            signal(&watch, Signal::TERM);
            let drained = async { while stdout.read(&mut bytes).await.unwrap() > 0 {} };
            let (ended, ()) = tokio::join!(watch.wait(), drained);
            assert_eq!(ended.unwrap().code(), Some(0), "{arguments:?}");
        } else {
            // The output is still not read.
            signal(&watch, Signal::TERM);
            assert_eq!(watch.wait().await.unwrap().code(), Some(0), "{arguments:?}");
        }
    }
}

/// Whether none of the process's threads runs or could run.
fn is_idle(child: &Child) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", child.id().unwrap())).unwrap();
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
    })
}

/// Whether one of the process's threads is in a call that writes to the standard output.
fn is_writing(child: &Child) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", child.id().unwrap())).unwrap();
    threads.flatten().any(|thread| {
        let call = std::fs::read_to_string(thread.path().join("syscall")).unwrap_or_default();
        // The call's number depends on the processor.
        matches!(call.split(' ').take(2).collect::<Vec<_>>()[..], ["1" | "64", "0x1"])
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn g3_commands_that_cannot_print_end_at_a_signal() {
    let world = World::populated().await;
    for (arguments, code) in [
        (&["get", "pods", "-A"][..], 143),
        (&["get", "pods", "-A", "-o", "yaml"], 143),
        (&["serve", "pods", "--port", "0"], 0),
        (&["apiserver"], 0),
        (&["demo", "--objects", "20"], 0),
    ] {
        let (_reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(&[b'.'; 1 << 16]).unwrap();
        let mut command = world.command(arguments);
        let mut child = command.stdout(writer).stderr(Stdio::null()).spawn().unwrap();
        drop(command);
        while !is_writing(&child) {
            tokio::task::yield_now().await;
        }
        signal(&child, Signal::TERM);
        if arguments[0] == "demo" {
            // The first one ends the demo in order, and that prints a summary.
            signal(&child, Signal::INT);
        }
        assert_eq!(child.wait().await.unwrap().code(), Some(code), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_before_the_result_is_complete_is_an_error() {
    let world = World::populated().await;
    for verb in [Verb::List, Verb::Watch] {
        world.server.faults().arm(Fault::new(Action::Hang).on(Match::verb(verb).resource("pods")));
    }
    let fired = || world.server.faults().armed().iter().map(|armed| armed.fired).sum::<u64>();
    for (arguments, codes) in [
        (&["get", "pods"][..], [130, 143]),
        (&["get", "pods", "-o", "json"], [130, 143]),
        (&["wait", "pods", "--all", "--for=delete"], [130, 143]),
        (&["watch", "pods", "--for=delete"], [130, 143]),
        // A signal is their normal end.
        (&["watch", "pods"], [0, 0]),
        (&["watch", "pods", "--timeout", "1h"], [0, 0]),
        (&["get", "pods", "--watch"], [0, 0]),
    ] {
        for (end, code) in [Signal::INT, Signal::TERM].into_iter().zip(codes) {
            let before = fired();
            let mut command = world.command(arguments);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            while fired() == before {
                tokio::task::yield_now().await;
            }
            signal(&child, end);
            let output = child.wait_with_output().await.unwrap();
            assert_eq!(output.status.code(), Some(code), "{arguments:?} {end:?}");
            let printed = [output.stdout, output.stderr].concat();
            assert_eq!(String::from_utf8_lossy(&printed), "", "{arguments:?} {end:?}");
        }
    }
}
