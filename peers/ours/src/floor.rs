//! The floor: receives the same bytes as an informer and discards them. No client can be cheaper on this connection.

use std::time::Instant;

use http::{Request, header};
use http_body_util::BodyExt as _;
use kube_informer::Cluster;
use kube_informer_conformance::raw::PROTOBUF;

use crate::Outcome;
use crate::arguments::Arguments;
use crate::load::Load;
use crate::measure::{cpu_seconds, peak, report, resident};

/// Lists all objects in protobuf. With `--watch N`: receives N changes after the initial list, and reports their cost.
pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let client = Cluster::from_config(arguments.config().await?)?.client();
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let Some(changes) = arguments.option("--watch")? else {
        let load = Load::of(arguments)?;
        let path = format!("{}/{}?resourceVersion=0", load.root(), load.resource().2);
        let request = Request::get(path).header(header::ACCEPT, PROTOBUF);
        let mut body = client.send(request.body(Vec::new().into())?).await?.into_body();
        let mut received = 0;
        while let Some(frame) = body.frame().await {
            received += frame?.into_data().map_or(0, |data| data.len());
        }
        report("wall", began.elapsed().as_secs_f64(), "s");
        report("cpu", cpu_seconds() - cpu, "s");
        report("peak", peak()?, "B");
        report("steady", resident()?, "B");
        report("received", received, "B");
        return Ok(());
    };
    let objects = arguments.option("--objects")?.ok_or("--objects is missing")?;
    let path = "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let request = Request::get(path).header(header::ACCEPT, PROTOBUF);
    let mut body = client.send(request.body(Vec::new().into())?).await?.into_body();
    let mut frames = Frames::default();
    let mut begun = (began, cpu);
    // The initial list ends with a bookmark. Counting starts at the first change.
    let (first, last) = (objects + 2, objects + 1 + changes);
    while frames.complete < last {
        let data = body.frame().await.ok_or("the watch ended")??.into_data().unwrap_or_default();
        let before = frames.complete;
        frames.pass(&data);
        if before < first && frames.complete >= first {
            begun = (Instant::now(), cpu_seconds());
        }
    }
    let (wall, cpu) = (begun.0.elapsed().as_secs_f64(), cpu_seconds() - begun.1);
    report("changes per second", changes as f64 / wall, "1/s");
    report("cpu per change", cpu / changes as f64 * 1e6, "µs");
    Ok(())
}

/// Counts frames without reading them.
#[derive(Default)]
struct Frames {
    complete: u64,
    /// The bytes received so far of the next frame's length.
    head: Vec<u8>,
    missing: usize,
}

impl Frames {
    fn pass(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            if self.missing > 0 {
                let taken = self.missing.min(data.len());
                data = &data[taken..];
                self.missing -= taken;
                self.complete += u64::from(self.missing == 0);
                continue;
            }
            let taken = (4 - self.head.len()).min(data.len());
            self.head.extend_from_slice(&data[..taken]);
            data = &data[taken..];
            if let Some(length) = self.head.first_chunk() {
                self.missing = u32::from_be_bytes(*length) as usize;
                self.head.clear();
            }
        }
    }
}
