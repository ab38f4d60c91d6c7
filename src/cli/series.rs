//! `dlrun show --series`: a line for each figure of a node.

use super::table::headed;
use crate::foundation::units::Bytes;
use crate::record::NodeRecord;
use crate::report::{Curve, Timeline, Unit};

/// The least, the mean and the greatest value of each figure; `name` is the node's where there are several.
pub(crate) fn figures(
    timeline: Option<&Timeline>,
    node: &NodeRecord,
    name: Option<&str>,
) -> String {
    let Some(timeline) = timeline else {
        let name = name.map(|name| format!("{name}: ")).unwrap_or_default();
        return format!("\n{name}no samples\n");
    };
    let row = |name: String, curve: &Curve| {
        let shown = |value: f64| value_text(curve.unit, value);
        let mean = mean_of(curve).map_or_else(String::new, shown);
        [name, shown(curve.least()), mean, shown(curve.peak())]
    };
    let run = timeline
        .run
        .iter()
        .map(|curve| row(curve.name.to_owned(), curve));
    let gpus = timeline.gpus.iter().flat_map(|(uuid, curves)| {
        let gpu = gpu_name(uuid, node);
        let named = move |curve: &Curve| row(format!("{gpu} {}", curve.name), curve);
        curves.iter().map(named)
    });
    let heads = [name.unwrap_or("FIGURE"), "LEAST", "MEAN", "GREATEST"];
    format!("\n{}", headed(heads, run.chain(gpus)))
}

/// Over all that is known; where the points are the greatest values, over the points.
fn mean_of(curve: &Curve) -> Option<f64> {
    let known: Vec<f64> = curve.value.iter().flatten().copied().collect();
    let of_points = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
    curve.mean.or(of_points)
}

/// `GPU 0`, or where the driver gave it no number, the beginning of its UUID.
fn gpu_name(uuid: &str, node: &NodeRecord) -> String {
    let gpu = node.gpus.iter().find(|gpu| gpu.gpu.uuid == uuid);
    match gpu.and_then(|gpu| gpu.gpu.minor) {
        Some(minor) => format!("GPU {minor}"),
        None => uuid.chars().take(12).collect(),
    }
}

fn value_text(unit: Unit, value: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "made of u64"
    )]
    let bytes = || Bytes(value.round() as u64);
    match unit {
        Unit::Cpus => format!("{value:.2}"),
        Unit::Share => format!("{:.1}%", value * 100.0),
        Unit::Percent => format!("{value:.0}%"),
        Unit::Bytes => bytes().to_string(),
        Unit::BytesPerSecond => format!("{}/s", bytes()),
        Unit::Milliwatts => format!("{:.0} W", value / 1000.0),
        Unit::Number => format!("{value:.0}"),
    }
}
