//! The node daemon's database under 500 series at every tick.

use std::error::Error;
use std::fs;

use dlrun::record::store::{Live, NodeId, NodeStore};
use dlrun::record::{NodeState, Sample};

use crate::Effort;
use crate::busy::cpu_seconds;
use crate::list::{node_record, run_record};
use crate::measure::{median, number};
use crate::noisy::{Noisy, SERIES};
use crate::report::Row;

const BEGIN_MS: u64 = 1_760_000_000_123;
const TICKS: usize = 1_800;
/// Ticks between folds.
const FOLD: usize = 60;

/// What half an hour of 500 series took: bytes for each value, CPU time of the store for each tick.
struct Took {
    disk_bytes: f64,
    written_bytes: f64,
    cpu_ms: f64,
}

/// Half an hour at a sample each second, as one run of 500 series and as 20 runs of 25.
pub(crate) fn rows(effort: Effort) -> Result<Vec<Row>, Box<dyn Error>> {
    let samples: Vec<Sample> = {
        let mut noisy = Noisy::new(BEGIN_MS);
        (0..TICKS).map(|_| noisy.next()).collect()
    };
    let of_runs: Vec<Sample> = samples.iter().map(without_things).collect();
    let one = middle(&samples, 1, effort.of(3, 9))?;
    let many = middle(&of_runs, 20, effort.of(3, 9))?;
    let what = "500 series of a run";
    Ok(vec![
        Row::budget(
            "store",
            &format!("{what}: on disk"),
            one.disk_bytes,
            "bytes a value",
            2.5,
        )
        .detailed(format!(
            "{TICKS} ticks, folded every {FOLD}; rows with an index take 42"
        )),
        Row::budget(
            "store",
            &format!("{what}: written"),
            one.written_bytes,
            "bytes a value",
            60.0,
        )
        .detailed("by write(2), journal and checkpoints included; rows with an index take 6990"),
        Row::budget(
            "store",
            &format!("{what}: CPU of a tick"),
            one.cpu_ms,
            "ms",
            0.1,
        )
        .detailed("folds and waits for the disk included; rows with an index take 4.6"),
        Row::figure(
            "store",
            "25 series of each of 20 runs: on disk",
            many.disk_bytes,
            "bytes a value",
        )
        .detailed("18 of the 25 grow by 20 random bits, which are 2.5 bytes"),
        Row::figure(
            "store",
            "25 series of each of 20 runs: written",
            many.written_bytes,
            "bytes a value",
        ),
        Row::figure(
            "store",
            "25 series of each of 20 runs: CPU of a tick",
            many.cpu_ms,
            "ms",
        ),
    ])
}

fn without_things(sample: &Sample) -> Sample {
    Sample {
        gpus: Vec::new(),
        commands: Vec::new(),
        ..sample.clone()
    }
}

/// Medians over some half hours.
fn middle(samples: &[Sample], runs: u8, times: usize) -> Result<Took, Box<dyn Error>> {
    let taken: Vec<Took> = (0..times)
        .map(|_| half_an_hour(samples, runs))
        .collect::<Result<_, _>>()?;
    let middle = |of: fn(&Took) -> f64| median(taken.iter().map(of).collect());
    Ok(Took {
        disk_bytes: middle(|took| took.disk_bytes),
        written_bytes: middle(|took| took.written_bytes),
        cpu_ms: middle(|took| took.cpu_ms),
    })
}

fn half_an_hour(samples: &[Sample], runs: u8) -> Result<Took, Box<dyn Error>> {
    let tmp = tempfile::tempdir()?;
    let mut store = NodeStore::open(&tmp.path().join("dlrun.db"))?;
    let nodes: Vec<NodeId> = (0..runs)
        .map(|run| register(&mut store, run))
        .collect::<Result<_, _>>()?;
    let disk = store.used_bytes()?;
    let (written, cpu) = (written_bytes()?, cpu_seconds()?);
    for (tick, sample) in samples.iter().enumerate() {
        let tick_of: Vec<(NodeId, &Sample)> = nodes.iter().map(|node| (*node, sample)).collect();
        store.append(&tick_of)?;
        if (tick + 1) % FOLD == 0 {
            store.fold(&nodes)?;
        }
    }
    let values = number(usize::try_from(SERIES)? * TICKS);
    Ok(Took {
        cpu_ms: (cpu_seconds()? - cpu) * 1e3 / number(TICKS),
        written_bytes: (written_bytes()? - written) / values,
        disk_bytes: number(usize::try_from(store.used_bytes()? - disk)?) / values,
    })
}

/// Bytes that this process handed to write(2) and its like.
fn written_bytes() -> Result<f64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/self/io")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("wchar: "))
        .ok_or("no `wchar` in /proc/self/io")?;
    Ok(number(line.parse()?))
}

fn register(store: &mut NodeStore, number: u8) -> Result<NodeId, Box<dyn Error>> {
    let run = run_record(u32::from(number), BEGIN_MS, "/home/anna".into());
    let record = node_record(&run, NodeState::Running, BEGIN_MS, None);
    let boot_id = "6a1c6c2e-7a1c-4a52-9f0e-0f4d7d2c1b3a".to_owned();
    let live = Live {
        pid: 1,
        start_time_ticks: 1,
        boot_id,
        state: "{}".to_owned(),
    };
    Ok(store.register(&run, 1000, &record, &live)?)
}
