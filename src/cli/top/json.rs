//! The runs for programs: one object for each interval.

use serde::Serialize;

use super::board::Board;
use super::figures::share;
use super::watched::{Gpu, Watched};
use crate::job::{JobId, RunId};
use crate::record::{Activity, Event, ExpectedEnd, GpuReading, Held, MemoryForecast, StepMark};

/// The board as one object.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct BoardAnswer<'a> {
    at_ms: u64,
    host: &'a str,
    runs: Vec<WatchedRun<'a>>,
    schema_version: u32,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WatchedRun<'a> {
    activity: Option<Activity>,
    attempt: u32,
    cpu_busy: Option<f64>,
    cpu_throttled: Option<f64>,
    element: u32,
    epoch: u64,
    epochs: Option<u64>,
    events: &'a [Event],
    expected_end: Option<ExpectedEnd>,
    gpus: Vec<WatchedGpu<'a>>,
    held: Option<&'a Held>,
    io_read_bytes_per_second: Option<u64>,
    io_write_bytes_per_second: Option<u64>,
    job_id: Option<&'a JobId>,
    last_step: Option<&'a StepMark>,
    mem_bytes: Option<u64>,
    mem_file_bytes: Option<u64>,
    mem_oom_kills: Option<u64>,
    memory_forecast: Option<&'a MemoryForecast>,
    mem_peak_bytes: Option<u64>,
    name: &'a str,
    node: &'a str,
    pressure: Pressure,
    processes: Option<u64>,
    run_id: &'a RunId,
    sampled_at_ms: Option<u64>,
    started_at_ms: u64,
    step: u32,
    threads: Option<u64>,
    uid: u32,
}

/// Parts of a second that something waited for.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Pressure {
    cpu_some: Option<f64>,
    io_full: Option<f64>,
    io_some: Option<f64>,
    mem_full: Option<f64>,
    mem_some: Option<f64>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WatchedGpu<'a> {
    answers: bool,
    idle: Option<bool>,
    mem_total_bytes: Option<u64>,
    mem_used_bytes: Option<u64>,
    name: Option<&'a str>,
    power_milliwatts: Option<u64>,
    run_processes: Option<u64>,
    sm_clock_mhz: Option<u64>,
    temperature_celsius: Option<u64>,
    utilisation_percent: Option<f64>,
    uuid: &'a str,
}

impl<'a> BoardAnswer<'a> {
    /// What is on the board.
    pub(crate) fn new(board: &'a Board) -> Self {
        Self {
            at_ms: board.at_ms,
            host: &board.host,
            runs: board.runs.iter().map(WatchedRun::new).collect(),
            schema_version: 1,
        }
    }
}

impl<'a> WatchedRun<'a> {
    fn new(run: &'a Watched) -> Self {
        let (view, now, rates) = (&run.view, &run.now, &run.rates);
        Self {
            activity: run.activity(),
            attempt: view.key.attempt,
            cpu_busy: run.cpus,
            cpu_throttled: share(rates.cpu_throttled_us),
            element: view.key.element,
            epoch: view.progress.epochs_done(),
            epochs: view.progress.epochs_announced,
            events: &view.events,
            expected_end: view.progress.expected_end,
            gpus: run.gpus.iter().map(WatchedGpu::new).collect(),
            held: view.progress.held.as_ref(),
            io_read_bytes_per_second: rates.io_read_bytes,
            io_write_bytes_per_second: rates.io_write_bytes,
            job_id: view.job_id.as_ref(),
            last_step: view.progress.last_step.as_ref(),
            mem_bytes: now.mem_used_bytes(),
            mem_file_bytes: now.mem_file_bytes,
            mem_oom_kills: now.mem_oom_kills,
            memory_forecast: view.progress.memory_forecast.as_ref(),
            mem_peak_bytes: view.usage.mem_peak_bytes,
            name: &view.name,
            node: &view.key.node,
            pressure: Pressure {
                cpu_some: share(rates.psi_cpu_some_us),
                io_full: share(rates.psi_io_full_us),
                io_some: share(rates.psi_io_some_us),
                mem_full: share(rates.psi_mem_full_us),
                mem_some: share(rates.psi_mem_some_us),
            },
            processes: now.processes,
            run_id: &view.key.run_id,
            sampled_at_ms: run.sampled_at_ms,
            started_at_ms: view.started_at_ms,
            step: view.key.step,
            threads: now.threads,
            uid: view.uid,
        }
    }
}

impl<'a> WatchedGpu<'a> {
    fn new(gpu: &'a Gpu) -> Self {
        let reading = gpu.reading.as_ref();
        Self {
            answers: reading.is_some(),
            idle: gpu.is_idle(),
            mem_total_bytes: gpu.facts.mem_total_bytes,
            mem_used_bytes: reading.and_then(|reading| reading.mem_used_bytes),
            name: Some(gpu.facts.name.as_str()).filter(|name| !name.is_empty()),
            power_milliwatts: reading.and_then(|reading| reading.power_milliwatts),
            run_processes: reading.and_then(|reading| reading.run_processes),
            sm_clock_mhz: reading.and_then(|reading| reading.sm_clock_mhz),
            temperature_celsius: reading.and_then(|reading| reading.temperature_celsius),
            utilisation_percent: reading.and_then(GpuReading::busy_percent),
            uuid: &gpu.facts.uuid,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::cli::top::tests_board::board;

    #[test]
    fn figures_have_units_and_what_is_not_known_is_null() {
        let board = board();
        let value = serde_json::to_value(BoardAnswer::new(&board)).expect("JSON");
        assert_eq!(value["host"], "node01");
        let resnet = &value["runs"][1];
        assert_eq!(
            (&resnet["name"], &resnet["cpu_busy"]),
            (&"resnet".into(), &7.5.into())
        );
        assert_eq!(resnet["io_read_bytes_per_second"], 20 << 20);
        assert_eq!(
            (&resnet["epoch"], &resnet["epochs"]),
            (&3.into(), &90.into())
        );
        assert_eq!(
            (&resnet["cpu_throttled"], &resnet["mem_oom_kills"]),
            (&0.25.into(), &1.into())
        );
        assert_eq!(
            (&resnet["gpus"][0]["idle"], &resnet["gpus"][1]["idle"]),
            (&false.into(), &true.into())
        );
        assert_eq!(resnet["gpus"][2]["answers"], false);
        assert_eq!(resnet["gpus"][2]["utilisation_percent"], Value::Null);
        assert_eq!(resnet["events"][0]["kind"], "oom_kill");
        let idle = &value["runs"][2];
        assert_eq!(
            (&idle["cpu_busy"], &idle["io_read_bytes_per_second"]),
            (&0.0.into(), &Value::Null)
        );
        assert_eq!(idle["pressure"]["cpu_some"], Value::Null);
    }
}
