//! What a node did over time: small drawings, one below the other, on one clock.

use super::Html;
use super::epochs;
use crate::record::{GpuUsage, NodeRecord};
use crate::report::chart::clock::{Clock, backdrop, is_grave};
use crate::report::chart::panel::{Panel, curve as shapes, time_axis};
use crate::report::chart::ticks::values;
use crate::report::html::table::{self, number, text};
use crate::report::number::{UNKNOWN, byte_unit, duration, instant, real, seconds_between, short};
use crate::report::timeline::{Curve, Timeline, Unit};
use crate::report::{Node, Run};

/// GPUs of which each figure has a drawing of its own.
const GPUS_APART: usize = 2;
/// GPUs whose use has a drawing each.
const GPUS_DRAWN: usize = 16;
/// Rows of the table that stands for the drawings.
const ROWS: usize = 24;
/// Rows of gaps and events.
const MOST_EVENTS: usize = 100;

/// How a figure is drawn.
struct Figure {
    name: &'static str,
    title: &'static str,
    class: &'static str,
    height: u32,
    /// A curve that nowhere reaches this says nothing.
    least_peak: f64,
}

macro_rules! figures {
    ($($name:literal $title:literal $class:literal $height:literal above $least_peak:literal;)*) => {
        [$(Figure {
            name: $name,
            title: $title,
            class: $class,
            height: $height,
            least_peak: $least_peak,
        }),*]
    };
}

const OF_RUN: [Figure; 9] = figures! {
    "cpu_busy" "CPU" "cpu" 76 above 0.0;
    "cpu_throttled" "Held back by the CPU quota" "cpu" 40 above 0.005;
    "mem_used_bytes" "Memory" "memory" 76 above 0.0;
    "psi_mem_some" "Waiting for memory" "memory" 40 above 0.005;
    "io_read_bytes_per_second" "Read from storage" "read" 52 above 0.0;
    "io_write_bytes_per_second" "Written to storage" "write" 52 above 0.0;
    "psi_io_some" "Waiting for storage" "read" 40 above 0.005;
    "node_net_rx_bytes_per_second" "Received by the node" "net" 44 above 1e6;
    "node_net_tx_bytes_per_second" "Sent by the node" "net" 44 above 1e6;
};

/// The first has a drawing for each GPU where there are not too many.
const OF_GPU: [Figure; 4] = figures! {
    "utilisation_percent" "busy" "gpu" 40 above 0.0;
    "mem_used_bytes" "memory" "gpu" 44 above 0.0;
    "power_milliwatts" "power" "gpu" 44 above 0.0;
    "sm_clock_mhz" "clock" "gpu" 40 above 0.0;
};
const BUSY: &str = "utilisation_percent";
const CLOCK: &str = "sm_clock_mhz";
/// Clocks that never fall below this share of the highest are not drawn: the environment has their mean.
const STEADY_SHARE: f64 = 0.85;

/// The curves of every node that has any, and the table of gaps and events.
pub(super) fn write(html: &mut Html, place: usize, run: &Run) {
    let drawn: Vec<(usize, &Node)> = run
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| node.timeline.is_some())
        .collect();
    let spans = drawn.iter().flat_map(|(_, node)| {
        let record = &node.record;
        let of_curves = node
            .timeline
            .iter()
            .map(|timeline| (timeline.begin_ms, timeline.edge_ms(timeline.points)));
        let end_ms = record.ended_at_ms.unwrap_or(record.updated_at_ms);
        of_curves.chain(std::iter::once((record.started_at_ms, end_ms)))
    });
    let of_epochs = || {
        let nodes = run.nodes.iter().map(|node| &node.record);
        Clock::over(nodes.map(|node| {
            (
                node.started_at_ms,
                node.ended_at_ms.unwrap_or(node.updated_at_ms),
            )
        }))
    };
    let Some(clock) = Clock::over(spans).or_else(of_epochs) else {
        html.markup("<p class=\"muted\">There are no samples to draw.</p>");
        return;
    };
    for (number, node) in &drawn {
        self::node(html, place, *number, run, node, &clock, drawn.len() > 1);
    }
    if drawn.is_empty() {
        without_samples(html, place, run, &clock);
    }
    let left = run.nodes.len() - drawn.len();
    if !drawn.is_empty() && left > 0 {
        let text = format!(
            "{left} more nodes are not drawn: those without samples, and all beyond the first {}.",
            crate::report::NODES_DRAWN
        );
        html.leaf("p", &[("class", "muted")], &text);
    }
    events(html, run, &clock);
}

fn node(
    html: &mut Html,
    place: usize,
    number: usize,
    run: &Run,
    node: &Node,
    clock: &Clock,
    is_one_of_several: bool,
) {
    let Some(timeline) = &node.timeline else {
        return;
    };
    if is_one_of_several {
        html.leaf("h4", &[], &format!("Node {}", node.record.key.node));
    }
    let (id, behind) = (format!("r{place}n{number}"), format!("r{place}n{number}b"));
    let progress = run.progress();
    html.element("figure", &[], |html| {
        html.leaf("figcaption", &[], &caption(clock, timeline));
        let epochs = progress.map_or(&[][..], |progress| &progress.epochs);
        backdrop(html, &behind, clock, epochs, &node.record);
        // The epochs of the run stand above the first of its nodes.
        let first = run.nodes.iter().position(|node| node.timeline.is_some()) == Some(number);
        if first {
            epochs::panels(run, clock, &id, &behind)
                .iter()
                .for_each(|panel| panel.write(html));
        }
        for (count, drawing) in drawings(run, node, timeline).iter().enumerate() {
            drawing
                .panel(clock, timeline, format!("{id}p{count}"), &behind)
                .write(html);
        }
        time_axis(html, clock);
        data(html, clock, node, timeline, &drawings(run, node, timeline));
    });
}

/// Epochs alone, where no samples are kept.
fn without_samples(html: &mut Html, place: usize, run: &Run, clock: &Clock) {
    html.markup(
        "<p class=\"muted\">There are no samples: CPU, memory, storage and GPUs cannot be drawn.</p>",
    );
    let (Some(node), Some(progress)) = (run.nodes.first(), run.progress()) else {
        return;
    };
    let (id, behind) = (format!("r{place}n"), format!("r{place}nb"));
    let panels = epochs::panels(run, clock, &id, &behind);
    if panels.is_empty() {
        return;
    }
    html.element("figure", &[], |html| {
        backdrop(html, &behind, clock, &progress.epochs, &node.record);
        panels.iter().for_each(|panel| panel.write(html));
        time_axis(html, clock);
    });
}

fn caption(clock: &Clock, timeline: &Timeline) -> String {
    format!(
        "Time since {} UTC. {} samples, drawn in {} points of {}. Shaded: every other epoch; tinted: warm-up; grey: gaps in the \
         samples; upright lines: events.",
        instant(clock.begin_ms),
        crate::report::number::count(timeline.samples),
        timeline.points,
        duration(real(timeline.interval_ms) / 1e3),
    )
}

/// One curve with what is written about it.
struct Drawing<'a> {
    title: String,
    figure: &'a Figure,
    curve: std::borrow::Cow<'a, Curve>,
    /// A value in the unit of the curve that it is held against, and what that is.
    limit: Option<(f64, &'static str)>,
}

fn drawings<'a>(run: &Run, node: &'a Node, timeline: &'a Timeline) -> Vec<Drawing<'a>> {
    let mut drawings = Vec::new();
    for figure in &OF_RUN {
        let Some(curve) = timeline
            .curve(figure.name)
            .filter(|curve| curve.peak() >= figure.least_peak)
        else {
            continue;
        };
        let limit = limit_of_run(figure.name, run, &node.record);
        drawings.push(Drawing {
            title: figure.title.to_owned(),
            figure,
            curve: std::borrow::Cow::Borrowed(curve),
            limit,
        });
    }
    drawings.extend(of_gpus(node, timeline));
    drawings
}

fn of_gpus<'a>(node: &'a Node, timeline: &'a Timeline) -> Vec<Drawing<'a>> {
    let usage = |uuid: &str| node.record.gpus.iter().find(|usage| usage.gpu.uuid == uuid);
    let apart = timeline.gpus.len() <= GPUS_APART;
    let mut drawings = Vec::new();
    for figure in &OF_GPU {
        let curves = timeline.of_gpus(figure.name);
        let is_steady = |curve: &&Curve| curve.least() > STEADY_SHARE * curve.peak();
        if curves.iter().map(|(_, curve)| curve).all(is_steady) && figure.name == CLOCK {
            continue;
        }
        if apart || (figure.name == BUSY && curves.len() <= GPUS_DRAWN) {
            for (number, (uuid, curve)) in curves.into_iter().enumerate() {
                let limit = usage(uuid).and_then(|usage| limit_of_gpu(figure.name, usage));
                let title = format!("{} {}", gpu_name(number, usage(uuid)), figure.title);
                drawings.push(Drawing {
                    title,
                    figure,
                    curve: std::borrow::Cow::Borrowed(curve),
                    limit,
                });
            }
            continue;
        }
        let of_all: Vec<&Curve> = curves.iter().map(|(_, curve)| *curve).collect();
        if let Some(curve) = Curve::envelope(&of_all) {
            let title = format!("{} of {} GPUs", capitalised(figure.title), of_all.len());
            let limit = curves
                .first()
                .and_then(|(uuid, _)| limit_of_gpu(figure.name, usage(uuid)?));
            drawings.push(Drawing {
                title,
                figure,
                curve: std::borrow::Cow::Owned(curve),
                limit,
            });
        }
    }
    drawings
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn gpu_name(number: usize, usage: Option<&GpuUsage>) -> String {
    match usage.and_then(|usage| usage.gpu.minor) {
        Some(minor) => format!("GPU {minor}"),
        None => format!("GPU {number}"),
    }
}

fn limit_of_run(name: &str, run: &Run, node: &NodeRecord) -> Option<(f64, &'static str)> {
    match name {
        "cpu_busy" => {
            let allowed = || node.host.cpus_allowed.or(node.host.cpus).map(real);
            node.conditions
                .cpus_effective
                .or_else(allowed)
                .map(|cpus| (cpus, "usable"))
        }
        "mem_used_bytes" => {
            let asked = run
                .request
                .as_ref()
                .and_then(|request| request.memory_per_node_bytes());
            let asked = asked.map(|memory| (real(memory), "asked for"));
            asked.or_else(|| {
                node.host
                    .mem_total_bytes
                    .map(|total| (real(total), "of the node"))
            })
        }
        _ => None,
    }
}

fn limit_of_gpu(name: &str, usage: &GpuUsage) -> Option<(f64, &'static str)> {
    match name {
        "utilisation_percent" => Some((100.0, "")),
        "mem_used_bytes" => usage
            .gpu
            .mem_total_bytes
            .map(|total| (real(total), "there")),
        "power_milliwatts" => usage
            .gpu
            .power_limit_watts
            .map(|watts| (f64::from(watts) * 1e3, "allowed")),
        "sm_clock_mhz" => usage
            .gpu
            .sm_clock_max_mhz
            .map(|mhz| (f64::from(mhz), "possible")),
        _ => None,
    }
}

impl Drawing<'_> {
    /// What the values are divided by, and the unit that they have then.
    fn unit(&self) -> (f64, String) {
        let peak = self.curve.peak();
        match self.curve.unit {
            Unit::Cpus => (1.0, "CPUs busy".to_owned()),
            Unit::Share => (0.01, "% of the time".to_owned()),
            Unit::Percent => (1.0, "%".to_owned()),
            Unit::Milliwatts => (1e3, "W".to_owned()),
            Unit::Number => (
                1.0,
                if self.curve.name.ends_with("mhz") {
                    "MHz".to_owned()
                } else {
                    String::new()
                },
            ),
            Unit::Bytes => {
                let (factor, unit) = byte_unit(peak);
                (factor, unit.to_owned())
            }
            Unit::BytesPerSecond => {
                let (factor, unit) = byte_unit(peak);
                (factor, format!("{unit}/s"))
            }
        }
    }

    fn panel<'a>(
        &self,
        clock: &Clock,
        timeline: &Timeline,
        id: String,
        behind: &'a str,
    ) -> Panel<'a> {
        let (per, unit) = self.unit();
        let (peak, limit) = (
            self.curve.peak() / per,
            self.limit.map(|(limit, _)| limit / per),
        );
        // A limit far above would press the curve to the ground: then it is only said.
        let near = limit.filter(|limit| *limit <= 2.5 * peak || self.curve.unit == Unit::Percent);
        let mut ticks = values(self.curve.least() / per, peak.max(near.unwrap_or(0.0)));
        if self.curve.unit == Unit::Percent && peak <= 100.0 {
            ticks = values(0.0, 100.0);
        }
        let said = self.said(per, &unit);
        let at = self
            .curve
            .peak_place()
            .map(|place| clock.since(timeline.edge_ms(place)));
        let at = at.map_or_else(String::new, |at| {
            format!(" The highest is {at} after the start.")
        });
        Panel {
            id,
            title: self.title.clone(),
            said: said.clone(),
            description: format!("{said}, {unit}.{at}"),
            unit,
            class: self.figure.class,
            height: self.figure.height,
            shapes: shapes(clock, timeline, &self.curve, &ticks, per),
            limit: near.filter(|_| self.curve.unit != Unit::Percent),
            ticks,
            backdrop: Some(behind),
            marks: Vec::new(),
        }
    }

    fn said(&self, per: f64, unit: &str) -> String {
        let mean = self
            .curve
            .mean
            .map_or_else(String::new, |mean| format!("mean {} · ", short(mean / per)));
        let limit = match self.limit {
            Some((limit, "")) => format!(" of {}", short(limit / per)),
            // In the unit of the peak a large limit may have many digits.
            Some((limit, what)) if unit.ends_with('B') => {
                format!(" of {} {what}", crate::report::number::bytes(limit))
            }
            Some((limit, what)) => format!(" of {} {what}", short(limit / per)),
            None => String::new(),
        };
        format!("{mean}peak {}{limit}", short(self.curve.peak() / per))
    }
}

/// The curves as numbers.
fn data(
    html: &mut Html,
    clock: &Clock,
    node: &Node,
    timeline: &Timeline,
    drawings: &[Drawing<'_>],
) {
    let each = timeline.points.div_ceil(ROWS).max(1);
    let heads: Vec<(f64, String)> = drawings
        .iter()
        .map(|drawing| {
            let (per, unit) = drawing.unit();
            (per, format!("{}, {unit}", drawing.title))
        })
        .collect();
    let columns: Vec<table::Column<'_>> = std::iter::once(text("From"))
        .chain(heads.iter().map(|(_, head)| number(head)))
        .collect();
    let row = |place: usize| {
        let begin = place * each;
        let of = |(drawing, (per, _)): (&Drawing<'_>, &(f64, String))| {
            let part = |values: &[Option<f64>]| -> Vec<f64> {
                values
                    .iter()
                    .skip(begin)
                    .take(each)
                    .flatten()
                    .copied()
                    .collect()
            };
            let (known, peak) = (part(&drawing.curve.value), part(&drawing.curve.high));
            let Some(peak) = peak.into_iter().reduce(f64::max) else {
                return UNKNOWN.to_owned();
            };
            let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
            format!("{} ({})", short(mean / per), short(peak / per))
        };
        let first = clock.since(timeline.edge_ms(begin));
        std::iter::once(first)
            .chain(drawings.iter().zip(&heads).map(of))
            .collect()
    };
    let rows: Vec<Vec<String>> = (0..timeline.points.div_ceil(each)).map(row).collect();
    html.element("details", &[], |html| {
        html.markup("<summary>The curves as numbers</summary>");
        let span = duration(real(timeline.interval_ms) * each as f64 / 1e3);
        let caption = format!(
            "{}: mean and, in brackets, the highest reading of each {span}",
            node.record.key.node
        );
        table::write(html, &caption, &columns, &rows);
    });
}

/// Gaps and events of all nodes, in the order of their times.
fn events(html: &mut Html, run: &Run, clock: &Clock) {
    let mut rows: Vec<(u64, Vec<String>)> = Vec::new();
    for record in run.nodes.iter().map(|node| &node.record) {
        let row = |at_ms: u64, what: String, why: &str| {
            let shown = seconds_between(clock.begin_ms, at_ms);
            (
                at_ms,
                vec![
                    duration(shown),
                    instant(at_ms),
                    record.key.node.clone(),
                    what,
                    why.to_owned(),
                ],
            )
        };
        rows.extend(record.gaps.iter().map(|gap| {
            row(
                gap.from_ms,
                format!(
                    "gap of {}",
                    duration(seconds_between(gap.from_ms, gap.to_ms))
                ),
                &gap.why,
            )
        }));
        rows.extend(record.events.iter().map(|event| {
            let mark = if is_grave(event.kind) { " (!)" } else { "" };
            row(
                event.at_ms,
                format!("{}{mark}", event.kind.as_str().replace('_', " ")),
                &event.detail,
            )
        }));
    }
    if rows.is_empty() {
        return;
    }
    rows.sort();
    let more = rows.len().saturating_sub(MOST_EVENTS);
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .take(MOST_EVENTS)
        .map(|(_, row)| row)
        .collect();
    html.markup("<h3>Gaps and events</h3>");
    let columns = [
        number("After"),
        number("UTC"),
        text("Node"),
        text("What"),
        text("Why"),
    ];
    table::write(html, "What happened, in the order of time", &columns, &rows);
    if more > 0 {
        html.leaf(
            "p",
            &[("class", "muted")],
            &format!("{more} more are in the records."),
        );
    }
}
