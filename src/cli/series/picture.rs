//! A series as curves of letters, a line each.

use super::Series;
use super::figure::Unit;
use super::thin::Thinned;
use super::track::Curve;
use crate::cli::bars::Bars;
use crate::foundation::units::{Bytes, display_seconds};
use crate::record::{NodeRecord, NodeState};

/// With fewer samples the overview has no curves: there is nothing to see.
const LEAST_SAMPLES: u64 = 10;
/// GPUs of a node in the overview.
const GPUS_SHOWN: usize = 8;

/// One line.
struct Line<'a> {
    name: String,
    curve: &'a Curve,
}

/// CPU, memory and the GPUs of one node; empty where there are few samples. `of` names the node where there are several.
pub(crate) fn overview(series: &Series, node: &NodeRecord, of: Option<&str>, bars: Bars) -> String {
    let Some(thinned) = series
        .thinned
        .as_ref()
        .filter(|thinned| thinned.samples >= LEAST_SAMPLES)
    else {
        return String::new();
    };
    let name = |curve: &Curve| {
        if curve.unit == Unit::Cpus {
            "CPU"
        } else {
            "memory"
        }
        .to_owned()
    };
    let mut lines: Vec<_> = thinned
        .run
        .iter()
        .map(|curve| Line {
            name: name(curve),
            curve,
        })
        .collect();
    let gpus = thinned
        .gpus
        .iter()
        .filter_map(|(uuid, curves)| Some((uuid, curves.first()?)));
    let gpus: Vec<_> = gpus
        .map(|(uuid, curve)| Line {
            name: gpu_name(uuid, node),
            curve,
        })
        .collect();
    let more = gpus.len().saturating_sub(GPUS_SHOWN);
    lines.extend(gpus.into_iter().take(GPUS_SHOWN));
    let mut text = drawn(
        &heading(thinned, of),
        &lines,
        bars,
        node.state == NodeState::Running,
    );
    if more > 0 {
        text.push_str(&format!("and {more} GPUs more: `--series`\n"));
    }
    text
}

/// Every figure of one node.
pub(crate) fn curves(series: &Series, node: &NodeRecord, of: Option<&str>, bars: Bars) -> String {
    let Some(thinned) = &series.thinned else {
        return format!(
            "\n{}no samples\n",
            of.map(|node| format!("{node}: ")).unwrap_or_default()
        );
    };
    let mut lines: Vec<_> = thinned
        .run
        .iter()
        .map(|curve| Line {
            name: curve.name.to_owned(),
            curve,
        })
        .collect();
    for (uuid, curves) in &thinned.gpus {
        let gpu = gpu_name(uuid, node);
        lines.extend(curves.iter().map(|curve| Line {
            name: format!("{gpu} {}", curve.name),
            curve,
        }));
    }
    drawn(
        &heading(thinned, of),
        &lines,
        bars,
        node.state == NodeState::Running,
    )
}

fn heading(thinned: &Thinned, of: Option<&str>) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let letter = display_seconds(thinned.interval_ms as f64 / 1000.0);
    format!("{} over time, {letter} a letter", of.unwrap_or("the run"))
}

/// `GPU 0`, or where the driver gave it no number, the beginning of its UUID.
fn gpu_name(uuid: &str, node: &NodeRecord) -> String {
    let minor = node
        .gpus
        .iter()
        .find(|gpu| gpu.gpu.uuid == uuid)
        .and_then(|gpu| gpu.gpu.minor);
    minor.map_or_else(
        || uuid.chars().take(12).collect(),
        |minor| format!("GPU {minor}"),
    )
}

fn drawn(heading: &str, lines: &[Line<'_>], bars: Bars, is_running: bool) -> String {
    let width = lines
        .iter()
        .map(|line| line.name.chars().count())
        .max()
        .unwrap_or(0);
    let mut text = format!("\n{heading}\n");
    for Line { name, curve } in lines {
        text.push_str(&format!(
            "{name:width$}  {}  {}\n",
            letters(curve, bars),
            figures(curve, is_running)
        ));
    }
    text
}

/// A letter for each point, blank where nothing is known. Shares and percent have the whole as their height, all else the
/// highest point.
fn letters(curve: &Curve, bars: Bars) -> String {
    let most = match curve.unit {
        Unit::Percent => 100.0,
        Unit::Share => 1.0,
        _ => curve.peak(),
    };
    curve
        .values
        .iter()
        .map(|value| value.map_or(' ', |value| bars.of(value, most)))
        .collect()
}

/// What the curve comes to, and its last point where it grows.
fn figures(curve: &Curve, is_running: bool) -> String {
    let shown = |value: f64| value_text(curve.unit, value);
    let mean = curve
        .mean
        .map(|mean| format!("mean {}, ", shown(mean)))
        .unwrap_or_default();
    let last = curve
        .values
        .last()
        .copied()
        .flatten()
        .filter(|_| is_running);
    let last = last
        .map(|last| format!(", now {}", shown(last)))
        .unwrap_or_default();
    format!("{mean}peak {}{last}", shown(curve.peak()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::series::figure::Choice;
    use crate::cli::series::read::Row;
    use crate::cli::series::thin::Thinner;
    use crate::cli::series::track::Axis;
    use crate::job::RunId;
    use crate::record::{
        Gap, GpuFacts, GpuReading, GpuUsage, HostFacts, MeasureKey, Progress, Sample, Usage,
        WatcherCost, decode_columns, encode_segments,
    };

    fn node(gpus: u32) -> NodeRecord {
        let facts = |minor| GpuFacts {
            uuid: format!("GPU-{minor}"),
            minor: Some(minor),
            ..GpuFacts::default()
        };
        let run_id = RunId::from_random([7; 10]);
        NodeRecord {
            format: NodeRecord::FORMAT,
            last_words: Vec::new(),
            key: MeasureKey {
                run_id,
                element: 0,
                attempt: 0,
                node: "n1".into(),
                step: 0,
            },
            job_id: None,
            state: NodeState::Ended,
            started_at_ms: 0,
            ended_at_ms: None,
            updated_at_ms: 600_000,
            exit: None,
            output: None,
            host: HostFacts::default(),
            conditions: crate::record::Conditions::default(),
            usage: Usage::default(),
            progress: Progress::default(),
            segments: 1,
            gaps: vec![Gap {
                from_ms: 200_000,
                to_ms: 280_000,
                why: "restart".into(),
            }],
            missing: Vec::new(),
            watcher: WatcherCost::default(),
            cgroup: None,
            container: None,
            gpus: (0..gpus).map(|minor| GpuUsage::of(facts(minor))).collect(),
            events: Vec::new(),
        }
    }

    /// Ten minutes: the CPUs are busier and busier, the memory is full from the second minute on, the GPUs work two minutes
    /// and rest one; nothing was measured between 200 s and 280 s.
    fn series(node: &NodeRecord, choice: Choice, points: usize, seconds: u64) -> Series {
        let mut thinner = Thinner::new(Axis::new(0, seconds * 1000, points), choice, &node.gaps);
        let mut samples = Vec::new();
        for second in (0..=seconds).filter(|second| !(201..280).contains(second)) {
            let gpu = |usage: &GpuUsage| GpuReading {
                utilisation_percent: Some(if second % 180 < 120 { 97 } else { 0 }),
                power_milliwatts: Some(350_000),
                ..GpuReading::of(usage.gpu.uuid.as_str().into())
            };
            samples.push(Sample {
                at_ms: second * 1000,
                cpu_user_us: Some(second * second * 10_000),
                cpu_system_us: Some(second * 100_000),
                mem_rss_bytes: Some(if second < 120 { second << 26 } else { 8 << 30 }),
                io_read_bytes: (second % 5 == 0).then_some(second << 20),
                cpu_throttled_us: Some(second * 250_000),
                gpus: node.gpus.iter().map(gpu).collect(),
                ..Sample::default()
            });
        }
        for bytes in encode_segments(&samples) {
            let block = decode_columns(&bytes, |name| choice.wants(name)).expect("a segment");
            let rows = (0..).zip(&block.at_ms).map(|(row, at_ms)| Row {
                at_ms: *at_ms,
                block: 0,
                row,
            });
            let rows: Vec<Row> = rows.collect();
            thinner.take(&[block], &rows);
        }
        Series {
            thinned: Some(thinner.finish()),
            sampled: None,
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_overview_in_blocks() {
        let node = node(2);
        let series = series(&node, Choice::Overview, 48, 600);
        insta::assert_snapshot!(overview(&series, &node, None, Bars::Blocks));
    }

    #[test]
    fn the_overview_in_plain_letters() {
        let node = node(0);
        let series = series(&node, Choice::Overview, 48, 600);
        insta::assert_snapshot!(overview(&series, &node, Some("n1"), Bars::Ascii));
    }

    #[test]
    fn a_curve_for_every_column() {
        let node = node(1);
        insta::assert_snapshot!(curves(
            &series(&node, Choice::All, 100, 600),
            &node,
            None,
            Bars::Blocks
        ));
    }

    #[test]
    fn a_short_run_has_no_overview() {
        let node = node(0);
        assert_eq!(
            overview(
                &series(&node, Choice::Overview, 8, 8),
                &node,
                None,
                Bars::Ascii
            ),
            ""
        );
        assert_ne!(
            overview(
                &series(&node, Choice::Overview, 9, 9),
                &node,
                None,
                Bars::Ascii
            ),
            ""
        );
        let none = Series {
            thinned: None,
            sampled: None,
            notes: Vec::new(),
        };
        assert_eq!(overview(&none, &node, None, Bars::Ascii), "");
        assert_eq!(
            curves(&none, &node, Some("n1"), Bars::Ascii),
            "\nn1: no samples\n"
        );
    }

    #[test]
    fn of_many_gpus_eight_are_shown_and_a_line_fits_a_terminal() {
        let node = node(11);
        let text = overview(
            &series(&node, Choice::Overview, 48, 600),
            &node,
            None,
            Bars::Ascii,
        );
        assert_eq!(
            text.lines().filter(|line| line.starts_with("GPU ")).count(),
            8,
            "{text}"
        );
        assert!(text.ends_with("and 3 GPUs more: `--series`\n"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
