//! `demo` in a pipe: uncoloured lines, injected faults, and the comparison at the end.

use crate::support::{World, run, start};

#[tokio::test(flavor = "multi_thread")]
async fn a_demo_with_chaos_ends_with_a_mirror_that_equals_the_server() {
    let world = World::new().await;
    let ended = world.run(&["demo", "--seconds", "4", "--chaos", "--objects", "200", "--rate", "100"]).await;
    assert_eq!(ended.code, 0, "{ended:?}");
    for part in [
        "API server on http://127.0.0.1:",
        "created 200 objects in",
        "200 objects mirrored in",
        "\n!!! ",
        "\n--- ",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    for event in ["\nADDED", "\nMODIFIED", "\nDELETED"] {
        assert!(ended.stdout.contains(event), "{event}: {}", ended.stdout);
    }
    let last = ended.stdout.lines().last().unwrap();
    assert!(
        last.starts_with("the mirror equals the server: ") && last.ends_with("same resourceVersions"),
        "{last}"
    );
    assert!(!ended.stdout.contains('\x1b'), "no colours in a pipe");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demos_kubeconfig_works_for_other_programs_and_is_removed_at_the_end() {
    let world = World::new().await;
    let mut demo = start(world.command(&["demo", "--objects", "100"]));
    let line = demo.line_with(&["kubectl --kubeconfig"]).await;
    let file = line.split_whitespace().nth(2).unwrap().to_owned();
    demo.line_with(&["mirrored"]).await;
    let get = world.command(&["get", "deploy", "-A", "-o", "name", "--kubeconfig", &file]);
    assert!(run(get).await.stdout.contains("deployment.apps/api"));
    // Ctrl-C ends it in order, with the proof.
    demo.interrupt();
    demo.line_with(&["the mirror equals the server"]).await;
    assert_eq!(demo.child.wait().await.unwrap().code(), Some(0));
    assert!(!std::path::Path::new(&file).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_can_be_interrupted_while_it_creates_objects() {
    let world = World::new().await;
    let mut demo = start(world.command(&["demo", "--objects", "10000000"]));
    demo.line_with(&["kubectl --kubeconfig"]).await;
    assert_eq!(demo.end().await, 0);
}
