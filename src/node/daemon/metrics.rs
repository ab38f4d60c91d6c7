//! The daemon and its runs as metrics.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::node::Node;
use super::watched::Watched;
use crate::record::export::{Family, Flavour, MetricKind, Point, write_metrics};
use crate::record::{GpuReading, Sample, hangs};

use MetricKind::{Counter, Gauge, Info};

/// All metrics; with `runs` also those of single runs, which name job and user.
pub(super) fn families(node: &Node, runs: bool) -> Vec<Family> {
    let mut families = daemon_families(node);
    families.extend(gpu_families(node));
    if runs {
        let runs = node.live().collect::<Vec<_>>();
        families.extend(run_families(&runs));
        families.extend(trouble_families(&runs));
    }
    families
}

/// What the name of a family with a unit ends in.
const UNITS: [&str; 6] = ["seconds", "bytes", "ratio", "watts", "joules", "celsius"];

fn family(
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    points: impl IntoIterator<Item = Point>,
) -> Family {
    let unit = UNITS.into_iter().find(|unit| name.ends_with(unit));
    Family {
        name: name.into(),
        help,
        unit: unit.unwrap_or_default(),
        kind,
        points: points.into_iter().collect(),
    }
}

fn daemon_families(node: &Node) -> Vec<Family> {
    let status = node.status();
    let (cost, store) = (status.cost, &status.store);
    let labels = vec![
        ("version", status.version.clone()),
        ("host", node.host.clone()),
    ];
    let build = Point { labels, value: 1.0 };
    let help = "Version and host of the node daemon.";
    let mut families = vec![family("dlrun_daemon_build", Info, help, [build])];
    let mut one = |name, kind, value, help| {
        let labels = Vec::new();
        families.push(family(name, kind, help, [Point { labels, value }]));
    };
    let (cpu, memory) = (seconds(cost.cpu_us), real(cost.mem_rss_bytes));
    let (last, longest) = (seconds(cost.last_tick_us), seconds(cost.longest_tick_us));
    let problems = status.problems.len() as u64 + u64::from(store.error.is_some());
    let help = "CPU time of the daemon.";
    one("dlrun_daemon_cpu_seconds", Counter, cpu, help);
    let help = "Resident memory of the daemon.";
    one("dlrun_daemon_memory_bytes", Gauge, memory, help);
    one("dlrun_daemon_ticks", Counter, real(cost.ticks), "Ticks.");
    let help = "Ticks that took longer than the time between two.";
    one(
        "dlrun_daemon_tick_overruns",
        Counter,
        real(cost.overruns),
        help,
    );
    let help = "Duration of the last tick.";
    one("dlrun_daemon_last_tick_seconds", Gauge, last, help);
    let help = "Duration of the longest tick.";
    one("dlrun_daemon_longest_tick_seconds", Gauge, longest, help);
    let help = "Runs under watch.";
    one("dlrun_daemon_runs", Gauge, real(status.runs as u64), help);
    let help = "Size of the database.";
    one("dlrun_daemon_store_bytes", Gauge, real(store.bytes), help);
    let help = "Samples that the disk did not take.";
    let dropped = real(store.dropped_samples);
    one("dlrun_daemon_dropped_samples", Counter, dropped, help);
    let help = "Starts of runs before which the node did not pass its check, since the daemon was started.";
    let failed = real(node.checks_failed);
    one("dlrun_node_check_failures", Counter, failed, help);
    let help = "Things that do not work; `dlrun doctor` names them.";
    one("dlrun_daemon_problems", Gauge, real(problems), help);
    families
}

fn gpu_families(node: &Node) -> Vec<Family> {
    let Some(report) = node.gpu_report() else {
        return Vec::new();
    };
    let of = |name, kind, help, value: fn(&GpuReading) -> Option<f64>| {
        let readings = report
            .gpus
            .iter()
            .filter_map(|gpu| Some(&gpu.fresh()?.reading));
        let point = |reading: &GpuReading| {
            let labels = vec![("gpu", reading.uuid.to_string())];
            let value = value(reading)?;
            Some(Point { labels, value })
        };
        family(name, kind, help, readings.filter_map(point))
    };
    let use_of_time = "Share of the time in which a kernel ran.";
    let energy = "Energy since the driver was loaded.";
    let xids = "XID errors since the daemon was started.";
    vec![
        of("dlrun_gpu_utilisation_ratio", Gauge, use_of_time, |gpu| {
            Some(real(gpu.utilisation_percent?) / 100.0)
        }),
        of(
            "dlrun_gpu_memory_used_bytes",
            Gauge,
            "Memory in use.",
            |gpu| gpu.mem_used_bytes.map(real),
        ),
        of("dlrun_gpu_power_watts", Gauge, "Power.", |gpu| {
            Some(real(gpu.power_milliwatts?) / 1e3)
        }),
        of("dlrun_gpu_energy_joules", Counter, energy, |gpu| {
            Some(real(gpu.energy_millijoules?) / 1e3)
        }),
        of(
            "dlrun_gpu_temperature_celsius",
            Gauge,
            "Temperature.",
            |gpu| gpu.temperature_celsius.map(real),
        ),
        of("dlrun_gpu_xid_errors", Counter, xids, |gpu| {
            gpu.xid_errors.map(real)
        }),
    ]
}

fn run_families(runs: &[&Watched]) -> Vec<Family> {
    let of = |name, kind, help, value: fn(&Sample) -> Option<f64>| {
        let point = |watched: &&Watched| {
            let value = value(watched.last.as_ref()?)?;
            let labels = labels(watched);
            Some(Point { labels, value })
        };
        family(name, kind, help, runs.iter().filter_map(point))
    };
    let idle = runs.iter().flat_map(|watched| {
        watched.memory.gpus.iter().map(|gpu| {
            let mut labels = labels(watched);
            labels.push(("gpu", gpu.gpu.uuid.clone()));
            let value = gpu.idle_seconds;
            Point { labels, value }
        })
    });
    let ends = runs.iter().filter_map(|watched| {
        let labels = labels(watched);
        let value = real(watched.record.progress.expected_end?.at_ms) / 1e3;
        Some(Point { labels, value })
    });
    let iterations = runs.iter().filter_map(|watched| {
        let activity = watched.record.progress.activity.as_ref()?;
        let labels = labels(watched);
        let value = activity.iteration?.seconds;
        Some(Point { labels, value })
    });
    let phases = runs.iter().flat_map(|watched| {
        let activity = watched.record.progress.activity.iter();
        activity.flat_map(|activity| &activity.phases).map(|time| {
            let mut labels = labels(watched);
            labels.push(("phase", time.phase.as_str().to_owned()));
            let value = time.seconds;
            Point { labels, value }
        })
    });
    let hanging = runs.iter().map(|watched| {
        let labels = labels(watched);
        let value = f64::from(u8::from(hangs(&watched.record.events).is_some()));
        Point { labels, value }
    });
    let ends_help = "When its training ends by its own epochs or steps, Unix time.";
    let hanging_help = "1 while its program seems to hang.";
    let idle_help = "Time in which no process of the run was on its GPU.";
    let cpu = "CPU time of the run on this node.";
    let memory = "Memory that the run holds.";
    let (read, written) = ("Bytes read from storage.", "Bytes written to storage.");
    vec![
        of("dlrun_run_cpu_seconds", Counter, cpu, |sample| {
            Some(seconds(sample.cpu_user_us? + sample.cpu_system_us?))
        }),
        of("dlrun_run_memory_bytes", Gauge, memory, |sample| {
            sample.mem_used_bytes().map(real)
        }),
        of("dlrun_run_io_read_bytes", Counter, read, |sample| {
            sample.io_read_bytes.map(real)
        }),
        of("dlrun_run_io_written_bytes", Counter, written, |sample| {
            sample.io_write_bytes.map(real)
        }),
        family("dlrun_run_gpu_idle_seconds", Counter, idle_help, idle),
        family(
            "dlrun_run_expected_end_timestamp_seconds",
            Gauge,
            ends_help,
            ends,
        ),
        family(
            "dlrun_run_iteration_seconds",
            Gauge,
            "Time of an iteration, by its log or by the period of its signals.",
            iterations,
        ),
        family(
            "dlrun_run_phase_seconds",
            Gauge,
            "Time in each phase so far.",
            phases,
        ),
        family("dlrun_run_hanging", Gauge, hanging_help, hanging),
    ]
}

/// Memory that will not suffice, and what runs hold without work.
fn trouble_families(runs: &[&Watched]) -> Vec<Family> {
    let exceeds = runs.iter().filter_map(|watched| {
        let forecast = watched.record.progress.memory_forecast.as_ref()?;
        let mut labels = labels(watched);
        labels.push(("gpu", forecast.gpu.clone().unwrap_or_default()));
        let value = real(forecast.exceeds?.at_ms) / 1e3;
        Some(Point { labels, value })
    });
    let held_since = runs.iter().flat_map(|watched| {
        let held = watched.record.progress.held.clone().unwrap_or_default();
        // Of CPUs there is one point without a GPU.
        let cpus = held.since_ms.filter(|_| held.gpus.is_empty());
        let cpus = cpus.map(|since_ms| (String::new(), since_ms));
        held.gpus
            .into_iter()
            .chain(cpus)
            .map(move |(gpu, since_ms)| {
                let mut labels = labels(watched);
                labels.push(("gpu", gpu));
                let value = real(since_ms) / 1e3;
                Point { labels, value }
            })
    });
    vec![
        family(
            "dlrun_run_memory_exceeded_timestamp_seconds",
            Gauge,
            "When the memory of the run, or of its GPU, will exceed its limit, Unix time.",
            exceeds,
        ),
        family(
            "dlrun_run_held_since_timestamp_seconds",
            Gauge,
            "Since when a GPU of the run, or without GPUs its CPUs, did no work, Unix time.",
            held_since,
        ),
    ]
}

fn seconds(us: u64) -> f64 {
    real(us) / 1e6
}

/// A run by its job, which is what people know, and its user.
fn labels(watched: &Watched) -> Vec<(&'static str, String)> {
    let job = watched.record.job_id.as_ref();
    vec![
        ("run", watched.key.run_id.to_string()),
        ("job", job.map_or_else(String::new, |job| job.0.clone())),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::daemon::watched::{Memory, watched};
    use crate::record::{ExpectedEnd, Held, MemoryForecast};

    /// The points of the run: the GPU and the value of each.
    fn points(watched: &Watched, name: &str) -> Vec<(String, f64)> {
        let mut families = run_families(&[watched]);
        families.extend(trouble_families(&[watched]));
        let family = families.into_iter().find(|family| family.name == name);
        let points = family.expect("it is among them").points.into_iter();
        let gpu = |(name, value): &(&str, String)| (*name == "gpu").then(|| value.clone());
        points
            .map(|point| {
                let gpu = point.labels.iter().find_map(gpu);
                (gpu.unwrap_or_default(), point.value)
            })
            .collect()
    }

    #[test]
    fn what_is_wrong_with_a_run_has_its_points() {
        let mut watched = watched(Memory::default());
        let (held, memory) = (
            "dlrun_run_held_since_timestamp_seconds",
            "dlrun_run_memory_exceeded_timestamp_seconds",
        );
        assert_eq!(points(&watched, held), []);
        assert_eq!(points(&watched, memory), []);
        assert_eq!(points(&watched, "dlrun_run_hanging")[0].1, 0.0);
        let end = ExpectedEnd {
            at_ms: 90_000,
            earliest_ms: 80_000,
            latest_ms: 99_000,
        };
        let progress = &mut watched.record.progress;
        progress.held = Some(Held {
            since_ms: Some(60_500),
            ..Held::default()
        });
        progress.memory_forecast = Some(MemoryForecast {
            gpu: Some("GPU-b".into()),
            limit_bytes: 1,
            made_at_ms: 1,
            first: end,
            exceeds: Some(end),
            exceeded_at_ms: None,
        });
        assert_eq!(points(&watched, held), [(String::new(), 60.5)]);
        assert_eq!(points(&watched, memory), [("GPU-b".to_owned(), 90.0)]);
        let progress = &mut watched.record.progress;
        let gpus = progress.held.as_mut().map(|held| &mut held.gpus);
        gpus.expect("held")
            .extend([("GPU-a".into(), 60_500), ("GPU-b".into(), 9000)]);
        progress.memory_forecast.as_mut().expect("made").exceeds = None;
        let both = [("GPU-a".to_owned(), 60.5), ("GPU-b".to_owned(), 9.0)];
        assert_eq!(points(&watched, held), both);
        assert_eq!(points(&watched, memory), []);
    }
}
