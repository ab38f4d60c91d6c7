//! Whether the GPUs of this machine can be read.

use std::path::Path;

use super::Finding;
use crate::app::gpus::settled;
use crate::observe::monitor::{GpuCondition, GpuReport, GpuState};

const CHECK: &str = "gpus";

/// Asks the driver, and waits for it a little.
pub(super) fn finding(library: Option<&Path>) -> Finding {
    settled(library).map_or_else(
        || Finding::ok(CHECK, "no NVIDIA driver is loaded here"),
        |report| report_finding(&report),
    )
}

fn report_finding(report: &GpuReport) -> Finding {
    if let Some(missing) = &report.missing {
        return Finding::warning(CHECK, missing, "see `nvidia-smi`; GPUs are not measured");
    }
    let is_well = |gpu: &&GpuState| gpu.condition == GpuCondition::Fresh;
    let (well, ill): (Vec<_>, Vec<_>) = report.gpus.iter().partition(is_well);
    if !ill.is_empty() || !report.refused.is_empty() {
        let silent = ill
            .iter()
            .map(|gpu| format!("{} gives no answer", gpu.facts.uuid));
        let text: Vec<String> = silent.chain(report.refused.iter().cloned()).collect();
        return Finding::problem(
            CHECK,
            text.join(", "),
            "see `nvidia-smi`; the node may need a restart",
        );
    }
    let whole: Vec<_> = well
        .iter()
        .filter(|gpu| gpu.facts.parent.is_none())
        .collect();
    let slices = well.len() - whole.len();
    let Some(first) = whole.first() else {
        return Finding::ok(CHECK, "the driver shows no GPU");
    };
    let driver = first
        .facts
        .driver
        .as_deref()
        .map(|version| format!(", driver {version}"))
        .unwrap_or_default();
    let slices = if slices > 0 {
        format!(", {slices} MIG slices")
    } else {
        String::new()
    };
    let forbidden = match report.forbidden {
        0 => String::new(),
        count => format!("; {count} more that you may not read"),
    };
    Finding::ok(
        CHECK,
        format!(
            "{} x {}{slices}{driver}{forbidden}",
            whole.len(),
            first.facts.name
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::app::doctor::Level;
    use crate::record::GpuFacts;

    fn gpu(uuid: &str, parent: Option<&str>, condition: GpuCondition) -> GpuState {
        let facts = GpuFacts {
            uuid: uuid.into(),
            name: "NVIDIA H200".into(),
            parent: parent.map(str::to_owned),
            driver: Some("580.1".into()),
            ..GpuFacts::default()
        };
        GpuState {
            facts: Arc::new(facts),
            last: None,
            at_ms: None,
            condition,
        }
    }

    #[test]
    fn gpus_are_counted_and_what_is_ill_is_named() {
        let fresh = GpuCondition::Fresh;
        let mut gpus = vec![
            gpu("GPU-1", None, fresh),
            gpu("MIG-1", Some("GPU-1"), fresh),
            gpu("GPU-2", None, fresh),
        ];
        let report = |gpus: &[GpuState]| {
            report_finding(&GpuReport {
                gpus: gpus.to_vec(),
                ..GpuReport::default()
            })
        };
        let well = report(&gpus);
        assert_eq!(
            well,
            Finding::ok(CHECK, "2 x NVIDIA H200, 1 MIG slices, driver 580.1")
        );
        let refused = vec!["GPU 2 cannot be read: the GPU is lost".to_owned()];
        let one = report_finding(&GpuReport {
            gpus: gpus.clone(),
            refused,
            ..GpuReport::default()
        });
        assert_eq!(
            (one.level, one.text.as_str()),
            (Level::Problem, "GPU 2 cannot be read: the GPU is lost")
        );
        let shared = report_finding(&GpuReport {
            gpus: gpus.clone(),
            forbidden: 2,
            ..GpuReport::default()
        });
        assert!(
            shared.level == Level::Ok && shared.text.ends_with("; 2 more that you may not read")
        );
        gpus.push(gpu("GPU-3", None, GpuCondition::Lost { since_ms: 1 }));
        gpus.push(gpu("GPU-4", None, GpuCondition::Waiting));
        let ill = report(&gpus);
        assert_eq!(
            (ill.level, ill.text.as_str()),
            (
                Level::Problem,
                "GPU-3 gives no answer, GPU-4 gives no answer"
            )
        );
        let missing = report_finding(&GpuReport {
            missing: Some("no driver".into()),
            ..GpuReport::default()
        });
        assert_eq!(
            (missing.level, missing.text.as_str()),
            (Level::Warning, "no driver")
        );
        assert_eq!(report(&[]).level, Level::Ok);
    }

    #[test]
    fn a_library_that_is_none_is_told() {
        let found = finding(Some(Path::new("/nonexistent/libnvidia-ml.so.1")));
        assert_eq!(found.level, Level::Warning, "{found:?}");
        assert!(
            found.text.contains("/nonexistent/libnvidia-ml.so.1"),
            "{found:?}"
        );
    }
}
