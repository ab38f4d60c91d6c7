//! What a node did over time: small drawings, one below the other, on one clock.

use super::{Html, epochs, phases, table};
use crate::record::{GpuUsage, NodeRecord};
use crate::report::chart::clock::Clock;
use crate::report::chart::panel::{Panel, axis_below, curve};
use crate::report::chart::ticks::values;
use crate::report::insight::{Request, effective_cpus};
use crate::report::number::{byte_unit, duration, instant, real, seconds_between, short};
use crate::report::timeline::{Curve, Timeline, Unit};
use crate::report::{Node, Run};

/// GPUs of which each figure has its own drawing; of more only how busy each is.
const GPUS_APART: usize = 2;
/// GPUs whose use has a drawing each.
const GPUS_DRAWN: usize = 16;
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

/// The curves of every node that has any, the epochs above the first of them, and the table of gaps and events.
pub(super) fn write(html: &mut Html, run: &Run) {
    let spans = run.nodes.iter().flat_map(|node| {
        let (record, curves) = (&node.record, node.timeline.iter());
        let curves = curves.map(|its| (its.begin_ms, its.edge_ms(its.points)));
        let end_ms = record.ended_at_ms.unwrap_or(record.updated_at_ms);
        // Epochs of earlier starts lie before it.
        let first = record.progress.epochs.first();
        let begin_ms = first.and_then(|first| first.ended_at_ms);
        let begin_ms = begin_ms.map_or(record.started_at_ms, |at| at.min(record.started_at_ms));
        curves.chain([(begin_ms, end_ms)])
    });
    let Some(clock) = Clock::over(spans) else {
        html.paragraph("muted", "There are no samples to draw.");
        return;
    };
    let is_drawn = |node: &&Node| node.timeline.is_some();
    let mut nodes: Vec<&Node> = run.nodes.iter().filter(is_drawn).collect();
    if nodes.is_empty() {
        let text = "There are no samples: CPU, memory, storage and GPUs cannot be drawn.";
        html.paragraph("muted", text);
        nodes.extend(run.nodes.first());
    }
    for (number, node) in nodes.iter().enumerate() {
        if nodes.len() > 1 {
            html.leaf("h4", &[], &format!("Node {}", node.record.key.node));
        }
        self::node(html, run, node, &clock, number == 0);
    }
    let left = run.nodes.len() - nodes.len();
    if is_drawn(&nodes[0]) && left > 0 {
        let text = format!(
            "{left} more nodes are not drawn: those without samples, and all beyond the first {}.",
            crate::report::NODES_DRAWN
        );
        html.paragraph("muted", &text);
    }
    events(html, run, &clock);
}

fn node(html: &mut Html, run: &Run, node: &Node, clock: &Clock, has_epochs: bool) {
    let mut panels = Vec::new();
    if has_epochs {
        panels.extend(epochs::panels(run, clock));
    }
    panels.extend(phases::panel(&node.phases, clock));
    if let Some(timeline) = &node.timeline {
        let drawings = drawings(run, node, timeline);
        let drawings = drawings.iter();
        panels.extend(drawings.map(|drawing| drawing.panel(clock, timeline)));
    }
    if panels.is_empty() {
        return;
    }
    html.element("figure", &[], |html| {
        if let Some(timeline) = &node.timeline {
            html.leaf("figcaption", &[], &caption(clock, timeline));
        }
        panels.iter().for_each(|panel| panel.write(html));
        axis_below(html, &clock.ticks);
    });
}

fn caption(clock: &Clock, timeline: &Timeline) -> String {
    format!(
        "Time since {} UTC. {} samples, drawn in {} points of {}.",
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
    curve: &'a Curve,
    /// A value in the unit of the curve that it is compared with, and what that is.
    limit: Option<(f64, &'static str)>,
}

fn drawings<'a>(run: &Run, node: &'a Node, timeline: &'a Timeline) -> Vec<Drawing<'a>> {
    let of_run = OF_RUN.iter().filter_map(|figure| {
        let curve = timeline.run.get(figure.name)?;
        (curve.peak() >= figure.least_peak).then(|| Drawing {
            title: figure.title.to_owned(),
            figure,
            curve,
            limit: limit_of_run(figure.name, run, &node.record),
        })
    });
    let of_gpus = OF_GPU
        .iter()
        .flat_map(|figure| of_gpus(figure, node, timeline));
    of_run.chain(of_gpus).collect()
}

/// The drawings of one figure, one of each GPU.
fn of_gpus<'a>(figure: &'a Figure, node: &'a Node, timeline: &'a Timeline) -> Vec<Drawing<'a>> {
    let usage = |uuid: &str| node.record.gpus.iter().find(|usage| usage.gpu.uuid == uuid);
    let curves = timeline.of_gpus(figure.name);
    if figure.name != BUSY && timeline.gpus.len() > GPUS_APART {
        return Vec::new();
    }
    let each = curves.into_iter().take(GPUS_DRAWN).enumerate();
    let drawing = |(number, (uuid, curve)): (usize, (&str, &'a Curve))| {
        let minor = usage(uuid).and_then(|usage| usage.gpu.minor);
        let name = minor.map_or_else(|| number.to_string(), |minor| minor.to_string());
        Drawing {
            title: format!("GPU {name} {}", figure.title),
            figure,
            curve,
            limit: usage(uuid).and_then(|usage| limit_of_gpu(figure.name, usage)),
        }
    };
    each.map(drawing).collect()
}

fn limit_of_run(name: &str, run: &Run, node: &NodeRecord) -> Option<(f64, &'static str)> {
    let host = &node.host;
    match name {
        "cpu_busy" => effective_cpus(node).map(|cpus| (cpus, "usable")),
        "mem_used_bytes" => {
            let asked = run
                .request
                .as_ref()
                .and_then(Request::memory_per_node_bytes);
            let asked = asked.map(|bytes| (real(bytes), "asked for"));
            asked.or_else(|| Some((real(host.mem_total_bytes?), "of the node")))
        }
        _ => None,
    }
}

fn limit_of_gpu(name: &str, usage: &GpuUsage) -> Option<(f64, &'static str)> {
    let gpu = &usage.gpu;
    Some(match name {
        "utilisation_percent" => (100.0, ""),
        "mem_used_bytes" => (real(gpu.mem_total_bytes?), "there"),
        "power_milliwatts" => (f64::from(gpu.power_limit_watts?) * 1e3, "allowed"),
        "sm_clock_mhz" => (f64::from(gpu.sm_clock_max_mhz?), "possible"),
        _ => return None,
    })
}

impl Drawing<'_> {
    /// What the values are divided by, and the unit that they have then.
    fn unit(&self) -> (f64, String) {
        let (bytes, byte_unit) = byte_unit(self.curve.peak());
        let (per, unit) = match self.curve.unit {
            Unit::Cpus => (1.0, "CPUs busy"),
            Unit::Share => (0.01, "% of the time"),
            Unit::Percent => (1.0, "%"),
            Unit::Milliwatts => (1e3, "W"),
            Unit::Number if self.figure.name.ends_with("mhz") => (1.0, "MHz"),
            Unit::Number => (1.0, ""),
            Unit::Bytes => (bytes, byte_unit),
            Unit::BytesPerSecond => return (bytes, format!("{byte_unit}/s")),
        };
        (per, unit.to_owned())
    }

    fn panel(&self, clock: &Clock, timeline: &Timeline) -> Panel {
        let (per, unit) = self.unit();
        let (peak, is_percent) = (self.curve.peak() / per, self.curve.unit == Unit::Percent);
        // A limit far above would press the curve to the ground: then it is only written.
        let limit = self.limit.map(|(limit, _)| limit / per);
        let near = limit.filter(|limit| *limit <= 2.5 * peak && !is_percent);
        let ticks = if is_percent && peak <= 100.0 {
            values(0.0, 100.0)
        } else {
            values(self.curve.least() / per, peak.max(near.unwrap_or(0.0)))
        };
        let summary = self.summary(per, &unit);
        let span = |place| (timeline.edge_ms(place), timeline.edge_ms(place + 1));
        Panel {
            title: self.title.clone(),
            summary,
            unit,
            class: self.figure.class,
            height: self.figure.height,
            shapes: curve(clock, span, self.curve, &ticks, per),
            limit: near,
            ticks,
        }
    }

    fn summary(&self, per: f64, unit: &str) -> String {
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

/// Gaps and events of all nodes, in the order of their times.
fn events(html: &mut Html, run: &Run, clock: &Clock) {
    let mut found: Vec<(u64, &str, String, &str)> = Vec::new();
    for record in run.nodes.iter().map(|node| &node.record) {
        let node = record.key.node.as_str();
        found.extend(record.gaps.iter().map(|gap| {
            let length = duration(seconds_between(gap.from_ms, gap.to_ms));
            (
                gap.from_ms,
                node,
                format!("gap of {length}"),
                gap.why.as_str(),
            )
        }));
        found.extend(record.events.iter().map(|event| {
            let what = event.kind.as_str().replace('_', " ");
            (event.at_ms, node, what, event.detail.as_str())
        }));
    }
    if found.is_empty() {
        return;
    }
    found.sort();
    let more = found.len().saturating_sub(MOST_EVENTS);
    let row = |(at_ms, node, what, why): (u64, &str, String, &str)| {
        let (node, why) = (node.to_owned(), why.to_owned());
        vec![clock.since(at_ms), instant(at_ms), node, what, why]
    };
    let rows: Vec<Vec<String>> = found.into_iter().take(MOST_EVENTS).map(row).collect();
    html.markup("<h3>Gaps and events</h3>");
    let heads = ["After", "UTC", "Node", "What", "Why"];
    table::write(html, "What happened, in the order of time", &heads, &rows);
    if more > 0 {
        html.paragraph("muted", &format!("{more} more are in the records."));
    }
}
