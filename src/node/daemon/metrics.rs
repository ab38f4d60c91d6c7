//! The daemon and its runs as metrics.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::node::Node;
use super::watched::{Stage, Watched};
use crate::record::Sample;
use crate::record::export::{Family, Flavour, MetricKind, Point, write_metrics};

use MetricKind::{Counter, Gauge, Info};

/// All metrics; with `runs` also those of single runs, which name job and user.
pub(super) fn families(node: &Node, runs: bool) -> Vec<Family> {
    let mut families = of_daemon(node);
    families.extend(of_gpus(node));
    if runs {
        let live: Vec<&Watched> = node
            .runs
            .values()
            .filter(|watched| watched.stage == Stage::Live)
            .collect();
        families.extend(of_runs(&live));
    }
    families
}

fn of_daemon(node: &Node) -> Vec<Family> {
    let status = node.status();
    let (cost, store) = (status.cost, &status.store);
    let version = vec![
        ("version", status.version.clone()),
        ("host", node.host().to_owned()),
    ];
    let seconds = |us: u64| real(us) / 1e6;
    vec![
        Family {
            points: vec![Point {
                labels: version,
                value: 1.0,
            }],
            ..Family::single(
                "dlrun_daemon_build",
                "",
                Info,
                1.0,
                "Version and host of the node daemon.",
            )
        },
        Family::single(
            "dlrun_daemon_cpu_seconds",
            "seconds",
            Counter,
            seconds(cost.cpu_us),
            "CPU time of the daemon.",
        ),
        Family::single(
            "dlrun_daemon_memory_bytes",
            "bytes",
            Gauge,
            real(cost.mem_rss_bytes),
            "Resident memory of the daemon.",
        ),
        Family::single(
            "dlrun_daemon_ticks",
            "",
            Counter,
            real(cost.ticks),
            "Ticks.",
        ),
        Family::single(
            "dlrun_daemon_tick_overruns",
            "",
            Counter,
            real(cost.overruns),
            "Ticks that took longer than the time between two.",
        ),
        Family::single(
            "dlrun_daemon_last_tick_seconds",
            "seconds",
            Gauge,
            seconds(cost.last_tick_us),
            "Duration of the last tick.",
        ),
        Family::single(
            "dlrun_daemon_longest_tick_seconds",
            "seconds",
            Gauge,
            seconds(cost.longest_tick_us),
            "Duration of the longest tick.",
        ),
        Family::single(
            "dlrun_daemon_runs",
            "",
            Gauge,
            real(status.runs as u64),
            "Runs under watch.",
        ),
        Family::single(
            "dlrun_daemon_store_bytes",
            "bytes",
            Gauge,
            real(store.bytes),
            "Size of the database.",
        ),
        Family::single(
            "dlrun_daemon_dropped_samples",
            "",
            Counter,
            real(store.dropped_samples),
            "Samples that the disk did not take.",
        ),
        Family::single(
            "dlrun_daemon_problems",
            "",
            Gauge,
            real(status.problems.len() as u64 + u64::from(store.error.is_some())),
            "Things that do not work; `dlrun doctor` names them.",
        ),
    ]
}

fn of_gpus(node: &Node) -> Vec<Family> {
    let Some(report) = node.gpu_report() else {
        return Vec::new();
    };
    let of = |value: &dyn Fn(&crate::record::GpuReading) -> Option<f64>| -> Vec<Point> {
        let readings = report
            .gpus
            .iter()
            .filter_map(|gpu| Some(&gpu.fresh()?.reading));
        let points = readings.filter_map(|reading| {
            Some(Point {
                labels: vec![("gpu", reading.uuid.to_string())],
                value: value(reading)?,
            })
        });
        points.collect()
    };
    let family = |name, unit, kind, help, points| Family {
        points,
        ..Family::single(name, unit, kind, 0.0, help)
    };
    vec![
        family(
            "dlrun_gpu_utilisation_ratio",
            "ratio",
            Gauge,
            "Share of the time in which a kernel ran.",
            of(&|gpu| Some(real(gpu.utilisation_percent?) / 100.0)),
        ),
        family(
            "dlrun_gpu_memory_used_bytes",
            "bytes",
            Gauge,
            "Memory in use.",
            of(&|gpu| gpu.mem_used_bytes.map(real)),
        ),
        family(
            "dlrun_gpu_power_watts",
            "watts",
            Gauge,
            "Power.",
            of(&|gpu| Some(real(gpu.power_milliwatts?) / 1e3)),
        ),
        family(
            "dlrun_gpu_energy_joules",
            "joules",
            Counter,
            "Energy since the driver was loaded.",
            of(&|gpu| Some(real(gpu.energy_millijoules?) / 1e3)),
        ),
        family(
            "dlrun_gpu_temperature_celsius",
            "celsius",
            Gauge,
            "Temperature.",
            of(&|gpu| gpu.temperature_celsius.map(real)),
        ),
        family(
            "dlrun_gpu_xid_errors",
            "",
            Counter,
            "XID errors since the daemon was started.",
            of(&|gpu| gpu.xid_errors.map(real)),
        ),
    ]
}

fn of_runs(runs: &[&Watched]) -> Vec<Family> {
    let of = |value: &dyn Fn(&Sample) -> Option<f64>| -> Vec<Point> {
        let points = runs.iter().filter_map(|watched| {
            Some(Point {
                labels: labels(watched),
                value: value(watched.last()?)?,
            })
        });
        points.collect()
    };
    let family = |name, unit, kind, help, points| Family {
        points,
        ..Family::single(name, unit, kind, 0.0, help)
    };
    let idle = runs.iter().flat_map(|watched| {
        watched.memory.gpus.iter().map(|gpu| {
            let mut labels = labels(watched);
            labels.push(("gpu", gpu.gpu.uuid.clone()));
            Point {
                labels,
                value: gpu.idle_seconds,
            }
        })
    });
    vec![
        family(
            "dlrun_run_cpu_seconds",
            "seconds",
            Counter,
            "CPU time of the run on this node.",
            of(&|sample| Some(real(sample.cpu_user_us? + sample.cpu_system_us?) / 1e6)),
        ),
        family(
            "dlrun_run_memory_bytes",
            "bytes",
            Gauge,
            "Memory that the run holds.",
            of(&|sample| sample.mem_used_bytes().map(real)),
        ),
        family(
            "dlrun_run_io_read_bytes",
            "bytes",
            Counter,
            "Bytes read from storage.",
            of(&|sample| sample.io_read_bytes.map(real)),
        ),
        family(
            "dlrun_run_io_written_bytes",
            "bytes",
            Counter,
            "Bytes written to storage.",
            of(&|sample| sample.io_write_bytes.map(real)),
        ),
        family(
            "dlrun_run_gpu_idle_seconds",
            "seconds",
            Counter,
            "Time in which no process of the run was on its GPU.",
            idle.collect(),
        ),
    ]
}

/// A run by its job, which is what people know, and its user.
fn labels(watched: &Watched) -> Vec<(&'static str, String)> {
    let job = watched
        .job_id()
        .map(|job| job.0.clone())
        .unwrap_or_default();
    vec![
        ("run", watched.key.run_id.to_string()),
        ("job", job),
        ("uid", watched.uid.to_string()),
    ]
}

#[expect(
    clippy::cast_precision_loss,
    reason = "metrics are floating-point numbers by definition"
)]
fn real(value: u64) -> f64 {
    value as f64
}

/// Writes the text file in the background; while one writing hangs, no other begins.
pub(super) fn write_textfile(path: &Path, families: Vec<Family>) {
    static WRITING: AtomicBool = AtomicBool::new(false);
    if WRITING.swap(true, Ordering::Relaxed) {
        return;
    }
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || {
        if let Err(error) = replace(&path, &families) {
            tracing::warn!(path = %path.display(), %error, "the metrics' text file was not written");
        }
        WRITING.store(false, Ordering::Relaxed);
    });
}

/// The collector must never see half a file: written beside it, then renamed. Everybody may read it, as they may the port.
fn replace(path: &Path, families: &[Family]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let _ = fs::remove_file(&beside);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&beside)?;
    // The collector is another user; the umask of the service is none of its business.
    file.set_permissions(Permissions::from_mode(0o644))?;
    let mut writer = BufWriter::new(file);
    write_metrics(&mut writer, Flavour::Prometheus, families)?;
    writer.flush()?;
    fs::rename(&beside, path)
}
