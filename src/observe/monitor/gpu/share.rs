//! What of a machine's GPUs is one run's.

use super::{GpuProcess, GpuRead, GpuReport};
use crate::record::GpuReading;

impl GpuReport {
    /// The readings of one run: of the GPUs that it was `allocated`, by UUID (none where that is not known), and of those that its
    /// processes compute on. `is_ours` says whether a pid of the host is a process of the run; no other is counted.
    ///
    /// A GPU that the run has but no process of it computes on has 0 processes. A GPU that gives no answer has no
    /// reading.
    #[must_use]
    pub fn readings_of_run(
        &self,
        allocated: &[impl AsRef<str>],
        is_ours: impl Fn(u32) -> bool,
    ) -> Vec<GpuReading> {
        let is_allocated = |uuid: &str| allocated.iter().any(|own| own.as_ref() == uuid);
        let gpus = self.gpus.iter();
        gpus.filter_map(|gpu| reading(gpu.fresh()?, is_allocated, &is_ours))
            .collect()
    }
}

fn reading(
    read: &GpuRead,
    is_allocated: impl Fn(&str) -> bool,
    is_ours: impl Fn(u32) -> bool,
) -> Option<GpuReading> {
    let is_allocated = is_allocated(&read.reading.uuid);
    let Some(processes) = &read.processes else {
        return is_allocated.then(|| read.reading.clone());
    };
    let ours: Vec<&GpuProcess> = processes
        .iter()
        .filter(|process| is_ours(process.pid))
        .collect();
    if !is_allocated && ours.is_empty() {
        return None;
    }
    Some(GpuReading {
        run_processes: u64::try_from(ours.len()).ok(),
        run_mem_bytes: sum(ours.iter().map(|process| process.mem_bytes)),
        run_sm_percent: sum(ours.iter().map(|process| process.sm_percent)),
        ..read.reading.clone()
    })
}

/// The sum of what is known; `None` where there is something and nothing of it is known.
fn sum(values: impl Iterator<Item = Option<u64>> + Clone) -> Option<u64> {
    let nothing_known = values.clone().all(|value| value.is_none()) && values.clone().count() > 0;
    (!nothing_known).then(|| values.flatten().fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::observe::monitor::gpu::{GpuCondition, GpuRead, GpuState};

    fn gpu(uuid: &str, processes: Option<Vec<GpuProcess>>) -> GpuState {
        let reading = GpuReading {
            power_milliwatts: Some(1),
            ..GpuReading::of(uuid.into())
        };
        GpuState {
            facts: Arc::default(),
            last: Some(Arc::new(GpuRead { reading, processes })),
            at_ms: Some(1),
            condition: GpuCondition::Fresh,
        }
    }

    fn process(pid: u32, mem_bytes: Option<u64>, sm_percent: Option<u64>) -> GpuProcess {
        GpuProcess {
            pid,
            mem_bytes,
            sm_percent,
        }
    }

    type Seen<'a> = (&'a str, Option<u64>, Option<u64>, Option<u64>);

    fn seen(readings: &[GpuReading]) -> Vec<Seen<'_>> {
        let of = |r: &'_ GpuReading| (r.run_processes, r.run_mem_bytes, r.run_sm_percent);
        readings
            .iter()
            .map(|r| {
                let (processes, mem, sm) = of(r);
                (&*r.uuid, processes, mem, sm)
            })
            .collect()
    }

    #[test]
    fn idle_gpus_are_seen_and_other_peoples_processes_are_not() {
        let report = GpuReport {
            gpus: vec![
                gpu("idle", Some(vec![process(9, Some(100), Some(90))])),
                gpu(
                    "busy",
                    Some(vec![
                        process(1, Some(5), Some(30)),
                        process(2, None, Some(20)),
                        process(9, Some(100), Some(50)),
                    ]),
                ),
                gpu("unnamed", Some(vec![process(2, Some(7), None)])),
                gpu("foreign", Some(vec![process(9, Some(1), Some(1))])),
                gpu("silent", None),
            ],
            missing: None,
            ..GpuReport::default()
        };
        let ours = |pid| pid < 9;
        let readings = report.readings_of_run(&["idle", "busy", "silent"], ours);
        let expected = [
            ("idle", Some(0), Some(0), Some(0)),
            ("busy", Some(2), Some(5), Some(50)),
            ("unnamed", Some(1), Some(7), None),
            ("silent", None, None, None),
        ];
        assert_eq!(seen(&readings), expected);
        assert_eq!(readings[0].power_milliwatts, Some(1));
        let without_names = report.readings_of_run(&[""; 0], ours);
        let uuids: Vec<&str> = without_names.iter().map(|reading| &*reading.uuid).collect();
        assert_eq!(uuids, ["busy", "unnamed"]);
    }

    #[test]
    fn a_gpu_that_gives_no_answer_has_no_reading() {
        for condition in [
            GpuCondition::Waiting,
            GpuCondition::Stale { since_ms: 1 },
            GpuCondition::Lost { since_ms: 1 },
        ] {
            let gpus = vec![GpuState {
                condition,
                ..gpu("GPU-1", Some(vec![]))
            }];
            let report = GpuReport {
                gpus,
                missing: None,
                ..GpuReport::default()
            };
            assert!(
                report.readings_of_run(&["GPU-1"], |_| true).is_empty(),
                "{condition:?}"
            );
        }
    }
}
