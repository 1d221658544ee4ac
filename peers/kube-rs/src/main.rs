//! The first synchronisation of a kube-rs reflector over the pods of all namespaces: what it costs, as one line of
//! JSON with the same names as the other peers' programs print.
//!
//! `kube-rs-peer informer --kubeconfig FILE [--watch-list]`

use std::{env, error::Error, fs, time::Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{reflector, watcher},
};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::{TimeVal, TimeValLike},
};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["informer", "--kubeconfig", path] => informer(path, false).await,
        ["informer", "--kubeconfig", path, "--watch-list"] => informer(path, true).await,
        _ => Err("usage: kube-rs-peer informer --kubeconfig FILE [--watch-list]".into()),
    }
}

async fn informer(kubeconfig: &str, streaming: bool) -> Result<(), Box<dyn Error>> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;

    let (wall, cpu) = (Instant::now(), cpu_seconds()?);
    let settings =
        if streaming { watcher::Config::default().streaming_lists() } else { watcher::Config::default() };
    let (store, writer) = reflector::store();
    let mut events = std::pin::pin!(reflector(writer, watcher(Api::<Pod>::all(client), settings)));
    loop {
        match events.next().await.ok_or("the stream ended before the first state was complete")?? {
            watcher::Event::InitDone => break,
            _ => continue,
        }
    }
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
    let cost = json!({
        "client": "kube-rs 5.0",
        "encoding": "json",
        "streaming": streaming,
        "objects": store.len(),
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        "resident_bytes": process_status("VmRSS")?,
        "resident_peak_bytes": process_status("VmHWM")?,
    });
    println!("{cost}");
    Ok(())
}

fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds = |time: TimeVal| time.num_microseconds() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// A figure in kB of /proc/self/status, in bytes.
fn process_status(name: &str) -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kilobytes = value.and_then(|value| value.split_whitespace().next()).ok_or("no such figure")?;
    Ok(kilobytes.parse::<u64>()? << 10)
}
