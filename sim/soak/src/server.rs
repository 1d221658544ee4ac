//! Runs the embedded server in its own process, so that the measured memory is that of the clients only. Each line on
//! standard input is a command. The process ends at the end of the input.

use std::io::BufRead as _;
use std::path::Path;
use std::time::Duration;

use embedded_apiserver::{Action, Backup, Fault, Match, Restart, Server, Verb};

use crate::Outcome;
use crate::clients::USER_AGENT;

/// The commands that can be chosen at random. `heal` ends their faults.
pub(crate) const COMMANDS: [&str; 16] = [
    "cut",
    "compact",
    "lose-history",
    "backup",
    "restore",
    "refuse",
    "list-500",
    "list-429",
    "list-html",
    "list-slow",
    "watch-410",
    "watch-cut",
    "watch-silent",
    "watch-duplicate",
    "watch-truncated",
    "write-lost",
];

pub(crate) async fn run(kubeconfig: &Path) -> Outcome {
    let server = Server::builder().tls().start().await?;
    std::fs::write(kubeconfig, server.kubeconfig().ok_or("the server has no kubeconfig")?)?;
    println!("ready");
    let (sender, mut commands) = tokio::sync::mpsc::channel(16);
    let reading = tokio::task::spawn_blocking(move || {
        std::io::stdin().lock().lines().map_while(Result::ok).try_for_each(|line| sender.blocking_send(line))
    });
    let mut backup = None;
    while let Some(command) = commands.recv().await {
        obey(&server, &command, &mut backup).await?;
        println!("done {command}");
    }
    // The parent process has exited.
    let _ = reading.await?;
    server.shutdown().await;
    Ok(())
}

async fn obey(server: &Server, command: &str, backup: &mut Option<Backup>) -> Outcome {
    let strike = |verb, action| {
        // Faults do not apply to the checks and the writer.
        server.faults().arm(Fault::new(action).on(Match::verb(verb).user_agent(USER_AGENT)).times(2));
    };
    let status = |code, reason: &str| Action::Status {
        code,
        reason: reason.to_owned(),
        message: "as planned".to_owned(),
        retry_after_seconds: 0,
    };
    match command {
        "heal" => server.faults().clear(),
        "cut" => server.disconnect_all(),
        "compact" => server.compact(),
        "lose-history" => server.restart(&Restart::HistoryLost),
        "backup" => *backup = Some(server.backup()),
        "restore" => {
            if let Some(backup) = backup.take() {
                server.restart(&Restart::FromBackup(backup));
            }
        }
        "refuse" => {
            server.refuse_connections().await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            server.accept_connections().await?;
        }
        "list-500" => strike(Verb::List, status(500, "InternalError")),
        "list-429" => strike(Verb::List, Action::Overloaded { retry_after_seconds: 1 }),
        "list-html" => strike(Verb::List, Action::Html { code: 200 }),
        "list-slow" => strike(Verb::List, Action::Delay(Duration::from_secs(2))),
        "watch-410" => strike(Verb::Watch, Action::Expired),
        "watch-cut" => strike(Verb::Watch, Action::CutAfterEvents(5)),
        "watch-silent" => strike(Verb::Watch, Action::StallAfterEvents(5)),
        "watch-duplicate" => strike(Verb::Watch, Action::DuplicateEvent(3)),
        "watch-truncated" => strike(Verb::Watch, Action::TruncateEvent(3)),
        "write-lost" => strike(Verb::Patch, Action::CutAfterBytes(0)),
        other => return Err(format!("unknown command {other:?}").into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_command_is_known() {
        let server = Server::builder().start().await.unwrap();
        let mut backup = None;
        for command in COMMANDS.iter().filter(|command| **command != "refuse").chain(&["heal"]) {
            obey(&server, command, &mut backup).await.unwrap();
        }
        assert!(obey(&server, "nonsense", &mut backup).await.is_err());
    }
}
