//! Kinds of hardware out of runs.

use super::*;
use crate::job::RunId;
use crate::learn::model::{Doubts, Situation};

fn run(queue: Option<&str>, hardware: Hardware) -> Observation {
    Observation {
        run_id: RunId::from_random([1; 10]),
        element: 0,
        attempt: 0,
        at_ms: 1,
        scheduler: SchedulerKind::Slurm,
        queue: queue.map(str::to_owned),
        situation: Situation {
            hardware,
            ..Situation::default()
        },
        epoch_seconds: None,
        epochs: 0,
        between_seconds: None,
        outside_seconds: None,
        wall_seconds: None,
        memory_bytes: None,
        doubts: Doubts::default(),
    }
}

fn cpu(name: &str, allowed: f64) -> Hardware {
    let (cpus, allowed) = (Some(64.0), Some(allowed));
    Hardware {
        cpu_model: Some(name.to_owned()),
        cpus,
        allowed,
        threads: allowed,
        ..Hardware::default()
    }
}

fn gpu(name: &str, gpus: u32) -> Hardware {
    Hardware {
        gpu_model: Some(name.to_owned()),
        gpus,
        ..cpu("EPYC", 8.0)
    }
}

fn seen(runs: &[(Option<&str>, Hardware, usize)]) -> HardwareMet {
    let mut usual = HardwareMet::default();
    for (queue, hardware, times) in runs {
        (0..*times).for_each(|_| usual.add(&run(*queue, hardware.clone())));
    }
    usual
}

fn met(usual: &HardwareMet, queues: &[Option<&str>], on_gpus: bool) -> (Vec<(String, u64)>, bool) {
    let met = usual.met(SchedulerKind::Slurm, queues, on_gpus);
    let name = |kind: &Kind| {
        let hardware = &kind.hardware;
        let name = if on_gpus {
            hardware.gpu_model.clone()
        } else {
            hardware.cpu_model.clone()
        };
        (name.expect("it has one"), kind.runs)
    };
    (met.kinds.iter().map(name).collect(), met.of_queue)
}

#[test]
fn kinds_are_counted_by_queue_and_device() {
    let usual = seen(&[
        (Some("a"), cpu("EPYC", 8.0), 3),
        (Some("a"), cpu("Xeon", 8.0), 5),
        (None, cpu("EPYC", 8.0), 4),
        (Some("g"), gpu("A100", 1), 2),
        (Some("g"), gpu("A100", 4), 3),
        (Some("g"), gpu("V100", 1), 4),
    ]);
    let named = |kinds: &[(&str, u64)], of_queue: bool| {
        (
            kinds
                .iter()
                .map(|(name, runs)| ((*name).to_owned(), *runs))
                .collect(),
            of_queue,
        )
    };
    assert_eq!(
        met(&usual, &[Some("a")], false),
        named(&[("Xeon", 5), ("EPYC", 3)], true)
    );
    assert_eq!(
        met(&usual, &[None, Some("a")], false),
        named(&[("EPYC", 7), ("Xeon", 5)], true)
    );
    assert_eq!(
        met(&usual, &[Some("g")], true),
        named(&[("A100", 5), ("V100", 4)], true)
    );
    assert_eq!(
        met(&usual, &[Some("g")], false),
        named(&[("EPYC", 9)], true),
        "the nodes are the same"
    );
    assert_eq!(
        met(&usual, &[Some("new")], false),
        named(&[("EPYC", 7), ("Xeon", 5)], false)
    );
    assert_eq!(
        met(&usual, &[Some("a")], true),
        named(&[("A100", 5), ("V100", 4)], false)
    );
    assert_eq!(
        usual.met(SchedulerKind::Torque, &[None], false),
        Met::default()
    );
}

#[test]
fn one_confined_run_tells_that_jobs_are_confined() {
    let slurm = SchedulerKind::Slurm;
    let free = seen(&[(None, cpu("EPYC", 64.0), 3)]);
    assert_eq!(
        (free.confines(slurm), free.confines(SchedulerKind::Torque)),
        (Some(false), None)
    );
    let some = seen(&[
        (None, cpu("EPYC", 64.0), 3),
        (Some("a"), cpu("Xeon", 4.0), 1),
    ]);
    assert_eq!(some.confines(slurm), Some(true));
    let silent = Hardware {
        allowed: None,
        ..cpu("EPYC", 64.0)
    };
    assert_eq!(seen(&[(None, silent, 3)]).confines(slurm), None);
}
