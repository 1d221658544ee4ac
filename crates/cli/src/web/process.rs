//! Metrics of the process itself, under the names that every Prometheus client uses, and of its build.

use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

/// Adds `process_*` (where there is `/proc`) and `kube_informer_build_info`.
pub(super) fn register(registry: &mut Registry) {
    let build = Info::new(vec![
        ("version", env!("CARGO_PKG_VERSION")),
        ("kubernetes", kube_wire::schema::Schema::builtin().kubernetes_version()),
    ]);
    registry.register(
        "kube_informer_build",
        "The program's version, and the newest Kubernetes it knows",
        build,
    );
    registry.register_collector(Box::new(Process));
}

/// Memory that the process holds now; `None` where there is no `/proc`.
pub(super) fn resident_bytes() -> Option<u64> {
    Reading::take().map(|now| now.resident_bytes as u64)
}

/// Reads `/proc` at each scrape.
#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(now) = Reading::take() else { return Ok(()) };
        let (seconds, bytes) = (Some(&Unit::Seconds), Some(&Unit::Bytes));
        let mut put = |name, help, unit, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, unit, metric.metric_type())?)
        };
        put("process_cpu", "CPU time used", seconds, &ConstCounter::new(now.cpu_seconds))?;
        put("process_resident_memory", "Resident memory", bytes, &ConstGauge::new(now.resident_bytes))?;
        put("process_virtual_memory", "Virtual memory", bytes, &ConstGauge::new(now.virtual_bytes))?;
        put("process_open_fds", "Open file descriptors", None, &ConstGauge::new(now.open_files))?;
        put("process_max_fds", "Most file descriptors", None, &ConstGauge::new(now.files_max))?;
        put("process_start_time", "Start, since the epoch", seconds, &ConstGauge::new(now.started))
    }
}

/// The figures of this process in `/proc`.
struct Reading {
    cpu_seconds: f64,
    resident_bytes: f64,
    virtual_bytes: f64,
    open_files: f64,
    files_max: f64,
    /// In seconds since the epoch.
    started: f64,
}

impl Reading {
    /// `None` where there is no `/proc`.
    #[cfg(target_os = "linux")]
    fn take() -> Option<Self> {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let page = rustix::param::page_size() as f64;
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // Skip the program's name in parentheses, which may contain anything. The first field after it is field 3.
        let fields = stat.rsplit_once(')')?.1.split_whitespace().collect::<Vec<_>>();
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let booted = fs::read_to_string("/proc/stat").ok()?;
        let booted =
            booted.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse::<f64>().ok()?;
        let limits = fs::read_to_string("/proc/self/limits").ok()?;
        let files_max = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        let files_max = files_max.split_whitespace().next()?.parse().unwrap_or(f64::INFINITY);
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / ticks,
            resident_bytes: field(24)? * page,
            virtual_bytes: field(23)?,
            open_files: fs::read_dir("/proc/self/fd").ok()?.count() as f64,
            files_max,
            started: booted + field(22)? / ticks,
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn take() -> Option<Self> {
        None
    }
}
