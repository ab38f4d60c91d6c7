//! The runs for programs: one object for each interval.

use serde_json::{Value, json};

use super::board::Board;
use super::figures::share;
use super::watched::{Gpu, Watched};
use crate::record::GpuReading;

/// The board as one object.
pub(crate) fn to_json(board: &Board) -> Value {
    json!({
        "schema_version": 1,
        "at_ms": board.at_ms,
        "host": board.host,
        "runs": board.runs.iter().map(run).collect::<Vec<_>>(),
    })
}

fn run(run: &Watched) -> Value {
    let (view, now, rates) = (&run.view, &run.now, &run.rates);
    json!({
        "run_id": view.key.run_id,
        "element": view.key.element,
        "attempt": view.key.attempt,
        "node": view.key.node,
        "step": view.key.step,
        "job_id": view.job_id,
        "name": view.name,
        "uid": view.uid,
        "started_at_ms": view.started_at_ms,
        "sampled_at_ms": run.sampled_at_ms,
        "cpu_busy": run.cpus,
        "cpu_throttled": share(rates.cpu_throttled_us),
        "mem_bytes": now.mem_used_bytes(),
        "mem_file_bytes": now.mem_file_bytes,
        "mem_peak_bytes": view.usage.mem_peak_bytes,
        "mem_oom_kills": now.mem_oom_kills,
        "io_read_bytes_per_second": rates.io_read_bytes,
        "io_write_bytes_per_second": rates.io_write_bytes,
        "processes": now.processes,
        "threads": now.threads,
        "pressure": {
            "cpu_some": share(rates.psi_cpu_some_us),
            "mem_some": share(rates.psi_mem_some_us),
            "mem_full": share(rates.psi_mem_full_us),
            "io_some": share(rates.psi_io_some_us),
            "io_full": share(rates.psi_io_full_us),
        },
        "gpus": run.gpus.iter().map(gpu).collect::<Vec<_>>(),
        "epoch": view.progress.epochs_completed,
        "epochs": view.progress.epochs_announced,
        "last_step": view.progress.last_step,
        "events": view.events,
    })
}

fn gpu(gpu: &Gpu) -> Value {
    let reading = gpu.reading.as_ref();
    let name = Some(&gpu.facts.name).filter(|name| !name.is_empty());
    json!({
        "uuid": gpu.facts.uuid,
        "name": name,
        "mem_total_bytes": gpu.facts.mem_total_bytes,
        "answers": reading.is_some(),
        "utilisation_percent": reading.and_then(GpuReading::busy_percent),
        "mem_used_bytes": reading.and_then(|reading| reading.mem_used_bytes),
        "power_milliwatts": reading.and_then(|reading| reading.power_milliwatts),
        "temperature_celsius": reading.and_then(|reading| reading.temperature_celsius),
        "sm_clock_mhz": reading.and_then(|reading| reading.sm_clock_mhz),
        "run_processes": reading.and_then(|reading| reading.run_processes),
        "idle": gpu.is_idle(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::sample_board::board;

    #[test]
    fn figures_have_units_and_what_is_not_known_is_null() {
        let value = to_json(&board());
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
