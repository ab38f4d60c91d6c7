//! `dlrun bench node`: what this kind of node can do.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::node_jobs;
use crate::app::error::{Error, Kind};
use crate::app::gpus::settled;
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::cli::args::BenchNode;
use crate::cli::table::{fitted, table};
use crate::foundation::clock::now_ms;
use crate::foundation::diagnostic::printable;
use crate::foundation::units::Bytes;
use crate::node::bench::{Step, Wanted, measure};
use crate::observe::monitor::{
    cpus_effective, host_facts, memory_available, node_busy_us, node_stolen_us, own_cpu_us,
};
use crate::record::{GpuFacts, HostFacts, NodeBench, NodeFigures, PastCache, Spread, TargetRecord};

/// How long the node is watched before anything is measured.
const LOOK: Duration = Duration::from_secs(1);
/// Others that keep more than this part of the CPUs busy are no rest.
const BUSY_PART: f64 = 0.05;
/// On small machines the kernel's own work would be more than that part.
const BUSY_CPUS: f64 = 0.2;

/// Runs the verb; the exit code says whether the figures were kept.
pub(crate) fn run(session: &Session, args: &BenchNode) -> Result<u8, Error> {
    if args.submit {
        return node_jobs::run(session, args);
    }
    let host = host_facts(None);
    let allowed = cpus_effective(std::process::id()).unwrap_or(1.0);
    let gpus = gpus(session);
    let bench = measured(session, args, allowed)?;
    let figures = NodeFigures {
        core_gflops: bench.core_gflops.best,
        node_gflops: bench.node_gflops.best,
        memory_gb_per_second: bench.memory_gb_per_second.best,
        disk_mb_per_second: bench.disk.as_ref().map(|disk| disk.mb_per_second.median),
        measured_at_ms: now_ms(),
    };
    let doubts = doubts(&host, &bench);
    let kept = match host.fingerprint() {
        Some(fingerprint) if doubts.is_empty() || args.force => {
            let target = TargetRecord {
                format: TargetRecord::FORMAT,
                fingerprint,
                host: host.clone(),
                figures,
                bench: bench.clone(),
                gpus: gpus.clone(),
                dlrun_version: env!("CARGO_PKG_VERSION").to_owned(),
            };
            Some(session.state()?.write_target(&target)?)
        }
        _ => None,
    };
    for doubt in &doubts {
        session.warning(doubt);
    }
    let found = Found {
        host,
        figures,
        bench,
        gpus,
        doubts,
        kept,
    };
    session.answer(&found.to_json(), &found.to_text())?;
    Ok(if found.kept.is_some() {
        0
    } else {
        Kind::TryAgain.code()
    })
}

/// All that was found out.
struct Found {
    host: HostFacts,
    figures: NodeFigures,
    bench: NodeBench,
    gpus: Vec<GpuFacts>,
    /// Why the figures may not be those of such nodes.
    doubts: Vec<String>,
    /// The file that has them.
    kept: Option<PathBuf>,
}

/// Looks at the node, measures, and says what else was going on.
fn measured(session: &Session, args: &BenchNode, allowed: f64) -> Result<NodeBench, Error> {
    let (directory, is_last) = directory(session, args);
    if !is_last && !directory.is_dir() {
        let error = Error::new(
            Kind::Missing,
            format!("`--dir`: {} is no directory", directory.display()),
        );
        return Err(error.hinted("without `--dir` reading is measured in the state directory"));
    }
    let available = memory_available(std::process::id());
    if let Some((asked, available)) = args
        .arrays
        .zip(available)
        .filter(|(asked, available)| asked.0 > available / 2)
    {
        let message = format!(
            "`--arrays`: {asked} is more than half of the {} that are free",
            Bytes(available)
        );
        return Err(Error::new(Kind::Usage, message)
            .hinted("without it they are as large as the caches want them"));
    }
    let mut display = Display::new(session.output);
    display.now("looking whether the node is at rest", false);
    let before = Others::now();
    std::thread::sleep(LOOK);
    let idle = before.busy_since();
    let wanted = Wanted {
        cpus: whole(allowed),
        available_bytes: available.unwrap_or(1 << 30),
        arrays_bytes: args.arrays.map(|bytes| bytes.0),
        directory: (!args.no_disk).then_some(directory.as_path()),
        file_bytes: args.file.0,
    };
    let mut bench =
        measure(&wanted, &mut |step| display.now(words(step), false)).map_err(|error| {
            Error::new(Kind::TryAgain, error)
                .hinted("limits on memory or on processes may be in the way (`ulimit -a`)")
        })?;
    let during = before.busy_since();
    // What others did before it began they will have done on.
    bench.others_cpus_busy = idle
        .others
        .into_iter()
        .chain(during.others)
        .reduce(f64::max);
    bench.cpus_stolen = during.stolen;
    Ok(bench)
}

/// Where reading is measured, and whether that is where it is when nobody says.
fn directory(session: &Session, args: &BenchNode) -> (PathBuf, bool) {
    match &args.dir {
        Some(dir) => (dir.clone(), false),
        None => {
            let state = session.settings.state_dir();
            (
                if state.is_dir() {
                    state.to_owned()
                } else {
                    std::env::temp_dir()
                },
                true,
            )
        }
    }
}

fn words(step: Step) -> &'static str {
    match step {
        Step::Core => "measuring one core",
        Step::Node => "measuring all cores",
        Step::Memory => "measuring memory bandwidth",
        Step::Disk => "measuring reading",
    }
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

/// CPU time of the node, of this process and of the hypervisor at some time.
struct Others {
    at: Instant,
    own_us: u64,
    node_us: Option<u64>,
    stolen_us: Option<u64>,
}

/// CPUs that were not this process's, on average.
#[derive(Clone, Copy)]
struct Busy {
    others: Option<f64>,
    stolen: Option<f64>,
}

impl Others {
    fn now() -> Self {
        Self {
            at: Instant::now(),
            own_us: own_cpu_us(),
            node_us: node_busy_us(),
            stolen_us: node_stolen_us(),
        }
    }

    fn busy_since(&self) -> Busy {
        let now = Self::now();
        let span = now.at - self.at;
        let cpus = |us: u64| Duration::from_micros(us).as_secs_f64() / span.as_secs_f64();
        let node = now
            .node_us
            .zip(self.node_us)
            .map(|(now, before)| now.saturating_sub(before));
        let own = now.own_us.saturating_sub(self.own_us);
        let stolen = now
            .stolen_us
            .zip(self.stolen_us)
            .map(|(now, before)| now.saturating_sub(before));
        Busy {
            others: node.map(|node| cpus(node.saturating_sub(own))),
            stolen: stolen.map(cpus),
        }
    }
}

/// Why the figures may not be those of such nodes at rest.
fn doubts(host: &HostFacts, bench: &NodeBench) -> Vec<String> {
    let mut doubts = Vec::new();
    #[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 CPUs")]
    let cpus = host.cpus.unwrap_or(1) as f64;
    let allowed = (cpus * BUSY_PART).max(BUSY_CPUS);
    let mut busy = |cpus: Option<f64>, what: &str| {
        if let Some(cpus) = cpus.filter(|cpus| *cpus > allowed) {
            doubts.push(format!(
                "{what} kept {cpus:.1} CPUs busy: the node can do more than was measured"
            ));
        }
    };
    busy(bench.others_cpus_busy, "others");
    busy(bench.cpus_stolen, "other virtual machines");
    if let Some(all) = host.cpus.filter(|all| u64::from(bench.cpus_used) < *all) {
        doubts.push(format!(
            "only {} of the node's {all} CPUs may be used here",
            bench.cpus_used
        ));
    }
    if host.fingerprint().is_none() {
        doubts.push(
            "the kernel does not tell what CPU this is, so the figures have no place".to_owned(),
        );
    }
    doubts
}

/// The GPUs of this machine by their driver; a driver that fails is told.
fn gpus(session: &Session) -> Vec<GpuFacts> {
    let Some(report) = settled(session.settings.nvml_library()) else {
        return Vec::new();
    };
    if let Some(missing) = &report.missing {
        session.warning(&format!("GPUs are left out: {missing}"));
    }
    report
        .gpus
        .iter()
        .map(|gpu| GpuFacts::clone(&gpu.facts))
        .collect()
}

impl Found {
    fn to_json(&self) -> Value {
        let Self {
            host,
            figures,
            bench,
            gpus,
            doubts,
            kept,
        } = self;
        json!({
            "fingerprint": host.fingerprint(),
            "host": host,
            "figures": figures,
            "bench": bench,
            "gpus": gpus,
            "doubts": doubts,
            "kept_in": kept.as_deref().map(Path::to_string_lossy),
        })
    }

    fn to_text(&self) -> String {
        let Self {
            host,
            figures,
            bench,
            gpus,
            kept,
            ..
        } = self;
        let mut rows = table();
        let threads = format!(
            "{} thread{}",
            bench.cpus_used,
            if bench.cpus_used == 1 { "" } else { "s" }
        );
        let of = |spread: &Spread| {
            format!(
                "best of {}, within {:.1} %",
                spread.repeats,
                spread.spread_ratio * 100.0
            )
        };
        let core = format!("{}, {}", bench.instructions, of(&bench.core_gflops));
        rows.add_row([
            "one core",
            &format!("{:.1} Gflop/s", figures.core_gflops),
            &core,
        ]);
        let node = format!("{threads}, {}", of(&bench.node_gflops));
        rows.add_row([
            "all cores",
            &format!("{:.1} Gflop/s", figures.node_gflops),
            &node,
        ]);
        let memory = format!(
            "triad over {}, {threads}, {}",
            Bytes(bench.arrays_bytes >> 20 << 20),
            of(&bench.memory_gb_per_second)
        );
        rows.add_row([
            "memory",
            &format!("{:.1} GB/s", figures.memory_gb_per_second),
            &memory,
        ]);
        match &bench.disk {
            Some(disk) => {
                let how = match disk.past_cache {
                    PastCache::Direct => "past the page cache (O_DIRECT)",
                    PastCache::Advised => "forgotten by the page cache before",
                };
                let kind = disk
                    .file_system
                    .as_deref()
                    .unwrap_or("a file system unknown here");
                let text = format!(
                    "{} on {kind}, {how}, median of {}",
                    Bytes(disk.file_bytes),
                    disk.mb_per_second.repeats
                );
                rows.add_row([
                    "reading",
                    &format!("{:.0} MB/s", disk.mb_per_second.median),
                    &text,
                ]);
            }
            None => {
                rows.add_row(["reading", "-", ""]);
            }
        }
        for (count, gpu) in alike(gpus) {
            let memory = gpu
                .mem_total_bytes
                .map(|bytes| Bytes(bytes >> 20 << 20).to_string())
                .unwrap_or_default();
            let clock = gpu
                .sm_clock_max_mhz
                .map(|mhz| format!("{mhz} MHz"))
                .unwrap_or_default();
            rows.add_row([
                "GPU",
                &format!("{count} x {}", gpu.name),
                &format!("{memory} {clock}"),
            ]);
        }
        let of = host.fingerprint().unwrap_or_else(|| host.hostname.clone());
        let mut text = format!("{of}\n{}", fitted(rows));
        for note in &bench.notes {
            text.push_str(&format!("note: {note}\n"));
        }
        text.push_str(&match kept {
            Some(path) => format!("kept in {}\n", path.display()),
            None => "not kept; `--force` keeps it all the same\n".to_owned(),
        });
        printable(&text)
    }
}

/// Whole GPUs, those of one name together.
fn alike(gpus: &[GpuFacts]) -> Vec<(usize, &GpuFacts)> {
    let mut found: Vec<(usize, &GpuFacts)> = Vec::new();
    for gpu in gpus.iter().filter(|gpu| gpu.parent.is_none()) {
        match found.iter_mut().find(|(_, known)| known.name == gpu.name) {
            Some((count, _)) => *count += 1,
            None => found.push((1, gpu)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

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
            disk: None,
            notes: vec!["reading was not measured".into()],
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
            kept: None,
        };
        let text = found.to_text();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(lines[0], "EPYC; 2 CPUs; ? GiB");
        assert_eq!(
            lines[1],
            "one core   118.2 Gflop/s    avx2+fma, best of 5, within 50.0 %"
        );
        assert_eq!(
            lines[3],
            "memory     38.0 GB/s        triad over 256MiB, 2 threads, best of 5, within 50.0 %"
        );
        assert_eq!(lines[5], "GPU        2 x NVIDIA H100  80GiB 1980 MHz");
        assert_eq!(
            lines[6..],
            [
                "note: reading was not measured",
                "not kept; `--force` keeps it all the same"
            ]
        );
        let value = found.to_json();
        assert_eq!(
            (&value["figures"]["core_gflops"], &value["kept_in"]),
            (&json!(118.25), &Value::Null)
        );
        assert_eq!(value["bench"]["memory_gb_per_second"]["best"], json!(2.0));
    }
}
