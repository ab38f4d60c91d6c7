//! `dlrun bench node`: what this kind of node can do.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::app::error::{Error, Kind};
use crate::app::gpus::settled;
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::cli::args::BenchNode;
use crate::cli::table::{fitted, table};
use crate::foundation::clock::now_ms;
use crate::foundation::units::Bytes;
use crate::node::bench::{Wanted, measure};
use crate::observe::monitor::{
    cpus_effective, host_facts, memory_available, node_cpu_us, own_cpu_us,
};
use crate::record::{GpuFacts, HostFacts, NodeBench, NodeFigures, TargetRecord};

/// How long the node is watched before anything is measured.
const LOOK: Duration = Duration::from_secs(1);
/// A node is not idle where others keep more than this part of its CPUs busy.
const BUSY_PART: f64 = 0.05;
/// On small machines the kernel's own work would be more than that part.
const BUSY_CPUS: f64 = 0.2;

/// Runs the verb; the exit code says whether the figures were kept.
pub(crate) fn run(session: &Session, args: &BenchNode) -> Result<u8, Error> {
    let host = host_facts(None);
    let gpus = gpus(session);
    let bench = measured(session, args)?;
    let figures = NodeFigures {
        core_gflops: bench.core_gflops.best,
        node_gflops: bench.node_gflops.best,
        memory_gb_per_second: bench.memory_gb_per_second.best,
        disk_mb_per_second: None,
        measured_at_ms: now_ms(),
    };
    let mut found = Found {
        fingerprint: host.fingerprint(),
        doubts: doubts(&host, &bench),
        host,
        figures,
        bench,
        gpus,
        kept_in: None,
    };
    if let Some(fingerprint) = &found.fingerprint
        && (found.doubts.is_empty() || args.force)
    {
        let target = TargetRecord {
            format: TargetRecord::FORMAT,
            fingerprint: fingerprint.clone(),
            host: found.host.clone(),
            figures,
            bench: found.bench.clone(),
            gpus: found.gpus.clone(),
            dlrun_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let path = session.state()?.write_target(&target)?;
        found.kept_in = Some(path.to_string_lossy().into_owned());
    }
    for doubt in &found.doubts {
        session.warning(doubt);
    }
    session.answer(&found, &found.to_text())?;
    Ok(match found.kept_in {
        Some(_) => 0,
        None => Kind::TryAgain.code(),
    })
}

/// All that was found out.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Found {
    fingerprint: Option<String>,
    host: HostFacts,
    figures: NodeFigures,
    bench: NodeBench,
    gpus: Vec<GpuFacts>,
    /// Why the figures may not be typical of such nodes.
    doubts: Vec<String>,
    kept_in: Option<String>,
}

/// Looks at the node, measures, and says what else was going on.
fn measured(session: &Session, args: &BenchNode) -> Result<NodeBench, Error> {
    let mut display = Display::new(session.output);
    display.now("checking that the node is idle", false);
    let before = Clocks::now();
    std::thread::sleep(LOOK);
    let (others_before, _) = before.busy_since();
    let wanted = Wanted {
        cpus: whole(cpus_effective(std::process::id()).unwrap_or(1.0)),
        available_bytes: memory_available(std::process::id()).unwrap_or(1 << 30),
        arrays_bytes: args.arrays.map(|bytes| bytes.0),
    };
    display.now("measuring cores and memory", false);
    let mut bench = measure(&wanted).map_err(|error| {
        Error::new(Kind::TryAgain, error)
            .hinted("limits on memory or on processes may be in the way (`ulimit -a`)")
    })?;
    let (others, stolen) = before.busy_since();
    // Others will have continued what they did before the measurement.
    bench.others_cpus_busy = others_before.into_iter().chain(others).reduce(f64::max);
    bench.cpus_stolen = stolen;
    Ok(bench)
}

/// Whole CPUs of those that may be kept busy: with a part of one more a quota would stop all of them now and then.
fn whole(cpus: f64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at least 1, and far below 2^32"
    )]
    let whole = cpus.clamp(1.0, 1e6) as usize;
    whole
}

/// CPU time of this process, of the node and of the hypervisor at some time, in microseconds.
struct Clocks {
    at: Instant,
    own_us: u64,
    node_us: Option<u64>,
    stolen_us: Option<u64>,
}

impl Clocks {
    fn now() -> Self {
        let (node_us, stolen_us) = node_cpu_us().unzip();
        Self {
            at: Instant::now(),
            own_us: own_cpu_us(),
            node_us,
            stolen_us,
        }
    }

    /// CPUs that others kept busy since then, and that the hypervisor took, on average.
    fn busy_since(&self) -> (Option<f64>, Option<f64>) {
        let now = Self::now();
        let span = (now.at - self.at).as_secs_f64();
        let cpus = |us: u64| Duration::from_micros(us).as_secs_f64() / span;
        let node = now.node_us.zip(self.node_us);
        let own_us = now.own_us.saturating_sub(self.own_us);
        let others = node.map(|(now, then)| now.saturating_sub(then).saturating_sub(own_us));
        let stolen = now.stolen_us.zip(self.stolen_us);
        let stolen = stolen.map(|(now, then)| now.saturating_sub(then));
        (others.map(cpus), stolen.map(cpus))
    }
}

/// Why the figures may not be those of such nodes at rest.
fn doubts(host: &HostFacts, bench: &NodeBench) -> Vec<String> {
    let mut doubts = Vec::new();
    #[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 CPUs")]
    let cpus = host.cpus.unwrap_or(1) as f64;
    let allowed = (cpus * BUSY_PART).max(BUSY_CPUS);
    for (cpus, who) in [
        (bench.others_cpus_busy, "others"),
        (bench.cpus_stolen, "other virtual machines"),
    ] {
        let busy = cpus.filter(|cpus| *cpus > allowed);
        doubts.extend(busy.map(|cpus| {
            format!("{who} kept {cpus:.1} CPUs busy: the node can do more than was measured")
        }));
    }
    let used = bench.cpus_used;
    let more = host.cpus.filter(|all| u64::from(used) < *all);
    doubts.extend(more.map(|all| format!("only {used} of the node's {all} CPUs may be used here")));
    if host.fingerprint().is_none() {
        let text = "the kernel does not say what CPU this is, so the figures cannot be kept";
        doubts.push(text.to_owned());
    }
    doubts
}

/// The GPUs of this machine by their driver; a driver that fails is reported.
fn gpus(session: &Session) -> Vec<GpuFacts> {
    let Some(report) = settled(session.settings.nvml_library()) else {
        return Vec::new();
    };
    if let Some(missing) = &report.missing {
        session.warning(&format!("GPUs are left out: {missing}"));
    }
    let gpus = report.gpus.iter();
    gpus.map(|gpu| GpuFacts::clone(&gpu.facts)).collect()
}

impl Found {
    fn to_text(&self) -> String {
        let bench = &self.bench;
        let mut rows = table();
        let threads = format!("{} threads, ", bench.cpus_used);
        let arrays = format!("triad over {}, {threads}", mebibytes(bench.arrays_bytes));
        let cores = format!("{}, ", bench.instructions);
        for (what, spread, unit, how) in [
            ("one core", &bench.core_gflops, "Gflop/s", cores),
            ("all cores", &bench.node_gflops, "Gflop/s", threads),
            ("memory", &bench.memory_gb_per_second, "GB/s", arrays),
        ] {
            let percent = spread.spread_ratio * 100.0;
            rows.add_row([
                what.to_owned(),
                format!("{:.1} {unit}", spread.best),
                format!("{how}best of {}, within {percent:.1} %", spread.repeats),
            ]);
        }
        for gpu in self.gpus.iter().filter(|gpu| gpu.parent.is_none()) {
            let memory = gpu.mem_total_bytes.map(mebibytes);
            rows.add_row(["GPU", &gpu.name, &memory.unwrap_or_default()]);
        }
        let kind = self.fingerprint.as_ref().unwrap_or(&self.host.hostname);
        let mut text = format!("{kind}\n{}", fitted(rows));
        let notes = bench.notes.iter();
        text.extend(notes.map(|note| format!("note: {note}\n")));
        text + &match &self.kept_in {
            Some(path) => format!("kept in {path}\n"),
            None => "not kept; `--force` keeps it anyway\n".to_owned(),
        }
    }
}

fn mebibytes(bytes: u64) -> String {
    Bytes(bytes >> 20 << 20).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Spread;

    fn bench(cpus_used: u32, others: Option<f64>, stolen: Option<f64>) -> NodeBench {
        let spread = Spread {
            best: 2.0,
            median: 1.5,
            spread_ratio: 0.5,
            repeats: 5,
        };
        NodeBench {
            cpus_used,
            seconds: 9.5,
            others_cpus_busy: others,
            cpus_stolen: stolen,
            instructions: "avx2+fma".into(),
            core_gflops: spread,
            node_gflops: spread,
            memory_gb_per_second: spread,
            arrays_bytes: 1 << 28,
            last_level_cache_bytes: None,
            notes: vec!["caches may have helped".into()],
        }
    }

    fn host(cpus: u64) -> HostFacts {
        HostFacts {
            cpu_model: Some("EPYC".into()),
            cpus: Some(cpus),
            ..HostFacts::default()
        }
    }

    #[test]
    fn a_node_that_is_not_at_rest_or_not_whole_is_doubted() {
        let count = |cpus, bench: &NodeBench| doubts(&host(cpus), bench).len();
        assert_eq!(count(2, &bench(2, Some(0.1), Some(0.0))), 0);
        assert_eq!(count(2, &bench(2, None, None)), 0);
        assert_eq!(count(2, &bench(2, Some(0.3), None)), 1);
        assert_eq!(count(128, &bench(128, Some(3.0), Some(3.0))), 0);
        assert_eq!(count(128, &bench(128, Some(7.0), Some(7.0))), 2);
        let part = doubts(&host(128), &bench(16, None, None));
        assert_eq!(part, ["only 16 of the node's 128 CPUs may be used here"]);
        assert_eq!(
            doubts(&HostFacts::default(), &bench(1, None, None)).len(),
            1
        );
    }

    #[test]
    fn parts_of_a_cpu_are_not_used() {
        assert_eq!([0.5, 1.0, 1.9, 64.0].map(whole), [1, 1, 1, 64]);
        assert_eq!(whole(f64::NAN.max(1.0)), 1);
    }

    #[test]
    fn what_was_measured_is_told_with_its_units_and_gpus_together() {
        let gpu = |uuid: &str, parent: Option<&str>| GpuFacts {
            uuid: uuid.into(),
            name: "NVIDIA H100".into(),
            mem_total_bytes: Some(80 << 30),
            sm_clock_max_mhz: Some(1980),
            parent: parent.map(str::to_owned),
            ..GpuFacts::default()
        };
        let found = Found {
            fingerprint: host(2).fingerprint(),
            host: host(2),
            figures: NodeFigures {
                core_gflops: 118.25,
                node_gflops: 236.0,
                memory_gb_per_second: 38.0,
                disk_mb_per_second: None,
                measured_at_ms: 1,
            },
            bench: bench(2, Some(0.0), None),
            gpus: vec![
                gpu("GPU-1", None),
                gpu("MIG-1", Some("GPU-1")),
                gpu("GPU-2", None),
            ],
            doubts: Vec::new(),
            kept_in: None,
        };
        let text = found.to_text();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(lines[0], "EPYC; 2 CPUs; ? GiB");
        assert_eq!(
            lines[1],
            "one core   2.0 Gflop/s  avx2+fma, best of 5, within 50.0 %"
        );
        assert_eq!(
            lines[3],
            "memory     2.0 GB/s     triad over 256MiB, 2 threads, best of 5, within 50.0 %"
        );
        assert_eq!(lines[4..6], ["GPU        NVIDIA H100  80GiB"; 2]);
        assert_eq!(
            lines[6..],
            [
                "note: caches may have helped",
                "not kept; `--force` keeps it anyway"
            ]
        );
    }
}
