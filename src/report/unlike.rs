//! What is unlike between runs: why their times may not be compared in silence.

use std::collections::BTreeMap;

use super::Run;
use crate::report::insight::{Difference, unlike as differences};

/// A condition that is not the same of all runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unlike {
    /// Which, as a key: `gpu_models`.
    pub(super) what: String,
    /// Each value with the runs that have it, by their places in the report; that of the first run first.
    pub(super) values: Vec<(String, Vec<usize>)>,
}

/// Conditions in which a run differs from the first.
pub(super) fn unlike(runs: &[Run]) -> Vec<Unlike> {
    let Some((first, others)) = runs.split_first() else {
        return Vec::new();
    };
    let found: Vec<Vec<Difference>> = others
        .iter()
        .map(|other| differences(&first.insight.setting, &other.insight.setting))
        .collect();
    let mut named: BTreeMap<&str, String> = BTreeMap::new();
    let mut order = Vec::new();
    for difference in found.iter().flatten() {
        if named
            .insert(&difference.what, difference.first.clone())
            .is_none()
        {
            order.push(difference.what.as_str());
        }
    }
    let each = |what: &str| {
        let of_first = named[what].clone();
        let mut values = vec![(of_first.clone(), vec![0])];
        for (place, differences) in (1..).zip(&found) {
            let own = differences
                .iter()
                .find(|difference| difference.what == what);
            let value = own.map_or(&of_first, |difference| &difference.second);
            match values.iter_mut().find(|(known, _)| known == value) {
                Some((_, runs)) => runs.push(place),
                None => values.push((value.clone(), vec![place])),
            }
        }
        Unlike {
            what: what.to_owned(),
            values,
        }
    };
    order.into_iter().map(each).collect()
}

/// The name of a condition for people.
pub(super) fn condition_text(what: &str) -> String {
    if let Some(name) = what.strip_prefix("arguments.") {
        return match name.strip_prefix('#') {
            Some(place) => format!("argument {place}"),
            None => format!("argument {name}"),
        };
    }
    let known = match what {
        "git" => "git commit",
        "asked" => "asked for",
        "cpu_models" => "CPU model",
        "cpus_effective" => "CPUs usable on a node",
        "omp_num_threads" => "OMP_NUM_THREADS",
        "gpu_models" => "GPUs",
        "gpu_drivers" => "GPU driver",
        "gpu_clock_mhz" => "GPU clock, MHz",
        "others_cpus_busy" => "CPUs kept busy by others",
        "model" => "network",
        "dataset" => "data set",
        "samples" => "samples of an epoch",
        "batch_size" => "batch size",
        "time_source" => "source of the times",
        "is_warmup" => "figures of warm-up alone",
        other => return other.replace('_', " "),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{derived, timed};

    #[test]
    fn each_value_is_told_with_its_runs() {
        let with = |threads: Option<&str>, batch_size| {
            let mut run = timed(&[3.5, 2.5, 2.6]);
            run.nodes[0].record.host.omp_num_threads = threads.map(str::to_owned);
            run.record.workload.batch_size = batch_size;
            derived(run)
        };
        let runs = [
            with(Some("8"), Some(64)),
            with(Some("8"), Some(96)),
            with(None, Some(64)),
        ];
        let found = unlike(&runs);
        let texts = |unlike: &Unlike| {
            let values = unlike
                .values
                .iter()
                .map(|(value, runs)| format!("{value}: {runs:?}"));
            format!(
                "{}: {}",
                condition_text(&unlike.what),
                values.collect::<Vec<_>>().join(", ")
            )
        };
        let texts: Vec<String> = found.iter().map(texts).collect();
        assert_eq!(
            texts,
            [
                "batch size: 64: [0, 2], 96: [1]",
                "OMP_NUM_THREADS: 8: [0, 1], unknown: [2]"
            ]
        );
        assert_eq!(unlike(&runs[..1]), []);
        assert_eq!(unlike(&[]), []);
    }
}
