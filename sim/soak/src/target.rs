//! The server under test: the embedded one in its own process, or a real kube-apiserver behind a proxy.

use std::process::Stdio;
use std::time::Duration;

use kube_client::Config;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_informer_conformance::{Programs, Proxy, RealServer};
use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::Outcome;
use crate::server::COMMANDS;

pub(crate) enum Target {
    Embedded(Box<Embedded>),
    Real { server: Box<RealServer>, proxy: Proxy },
}

pub(crate) struct Embedded {
    // Killed when it is dropped.
    _process: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    directory: tempfile::TempDir,
}

impl Target {
    pub(crate) async fn start(real: bool) -> Outcome<Self> {
        if real {
            let server = RealServer::builder(Programs::find()?).start().await?;
            let proxy = Proxy::start(server.address()).await?;
            return Ok(Self::Real { server: Box::new(server), proxy });
        }
        let directory = tempfile::tempdir()?;
        let mut process = Command::new(std::env::current_exe()?)
            .arg("serve")
            .arg(directory.path().join("kubeconfig"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let commands = process.stdin.take().ok_or("the server has no standard input")?;
        let answers = process.stdout.take().ok_or("the server has no standard output")?;
        let mut answers = BufReader::new(answers).lines();
        answers
            .next_line()
            .await?
            .filter(|line| line == "ready")
            .ok_or("the embedded server did not start")?;
        Ok(Self::Embedded(Box::new(Embedded { _process: process, commands, answers, directory })))
    }

    /// The configuration of clients that no network fault applies to.
    pub(crate) async fn config(&self) -> Outcome<Config> {
        match self {
            Self::Embedded(embedded) => {
                let kubeconfig = Kubeconfig::read_from(embedded.directory.path().join("kubeconfig"))?;
                Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
            }
            Self::Real { server, .. } => Ok(server.config().await?),
        }
    }

    /// The configuration of the clients under test.
    pub(crate) async fn faulty_config(&self) -> Outcome<Config> {
        let config = self.config().await?;
        Ok(match self {
            Self::Embedded(_) => config,
            Self::Real { proxy, .. } => proxy.before(config),
        })
    }

    /// Injects a fault and returns its name.
    pub(crate) async fn disturb(&mut self, random: &mut StdRng) -> Outcome<&'static str> {
        match self {
            Self::Embedded(embedded) => {
                let command = COMMANDS[random.random_range(0..COMMANDS.len())];
                embedded.command(command).await?;
                Ok(command)
            }
            Self::Real { server, proxy } => match random.random_range(0..5) {
                0 => {
                    proxy.cut_after(Some(random.random_range(0..100_000)));
                    Ok("cut after some bytes")
                }
                1 => {
                    server.etcd_compact(None).await?;
                    proxy.cut();
                    Ok("compact and cut")
                }
                2 => {
                    proxy.close();
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    proxy.open();
                    Ok("no connections for two seconds")
                }
                3 => {
                    server.freeze()?;
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    server.thaw()?;
                    Ok("frozen for three seconds")
                }
                _ => {
                    proxy.cut();
                    Ok("cut")
                }
            },
        }
    }

    /// Ends all faults.
    pub(crate) async fn heal(&mut self) -> Outcome {
        match self {
            Self::Embedded(embedded) => embedded.command("heal").await,
            Self::Real { proxy, .. } => {
                proxy.cut_after(None);
                proxy.open();
                Ok(())
            }
        }
    }
}

impl Embedded {
    async fn command(&mut self, command: &str) -> Outcome {
        self.commands.write_all(format!("{command}\n").as_bytes()).await?;
        let answer = self.answers.next_line().await?.ok_or("the embedded server exited")?;
        match answer.strip_prefix("done ") == Some(command) {
            true => Ok(()),
            false => Err(format!("unexpected answer to {command:?}: {answer:?}").into()),
        }
    }
}
