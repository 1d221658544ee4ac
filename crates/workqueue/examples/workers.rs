//! Three workers share a queue of sites to build. One site fails twice before it succeeds. At the end the queue is drained.
//! Run it with `cargo run -p kube-workqueue --example workers`.

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::time::Duration;

use kube_workqueue::{AddOptions, WorkQueue};
use tokio::{task::JoinSet, time::sleep};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let queue = WorkQueue::new();

    // Existing sites have a lower priority than sites that change from now on.
    for site in ["archive", "blog", "flaky", "shop"] {
        queue.add_with(site, AddOptions::new().priority(-100))?;
    }
    queue.add("shop")?; // now before the others, and still queued once
    queue.add_after("report", Duration::from_millis(50))?;

    let mut workers = JoinSet::new();
    for number in 1..=3 {
        workers.spawn(work(number, queue.clone()));
    }

    sleep(Duration::from_millis(100)).await;
    queue.shutdown_with_drain().await?;
    workers.join_all().await;
    Ok(())
}

/// Takes sites and builds them until the queue is shut down and empty. Retries failures later.
async fn work(number: usize, queue: WorkQueue<&'static str>) {
    while let Some(site) = queue.get().await {
        match build(&site, queue.num_requeues(&site)).await {
            Ok(()) => {
                println!("worker {number} built the {}", *site);
                queue.forget(&site);
            }
            Err(reason) => {
                println!("worker {number} failed to build the {}: {reason}", *site);
                if let Err(refused) = queue.add_rate_limited(*site) {
                    println!("not retried: {refused}");
                }
            }
        }
    } // dropping `site` marks it as done; until then no other worker gets it
}

async fn build(site: &str, failures: u32) -> Result<(), &'static str> {
    sleep(Duration::from_millis(10)).await;
    if site == "flaky" && failures < 2 { Err("no answer") } else { Ok(()) }
}
