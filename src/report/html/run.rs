//! All that a report says of one run.

use super::table::{self, pairs};
use super::{Html, label, timelines};
use crate::record::AttemptSeen;
use crate::report::insight::{Compared, NodeUsed, Timing};
use crate::report::number::{
    UNKNOWN, bytes, count, duration, instant, or_unknown, percent, real, seconds_between, short,
};
use crate::report::{Run, facts};

/// Lines of a list.
const MOST_ITEMS: usize = 200;

/// Writes the section of a run.
pub(super) fn write(html: &mut Html, place: usize, run: &Run, is_one_of_several: bool) {
    let id = format!("run{}", place + 1);
    let title = if is_one_of_several {
        label(place, run)
    } else {
        "The run".to_owned()
    };
    html.section(&id, &title, |html| {
        if run.is_going_on() {
            html.paragraph("remark", &format!("This run is {}.", facts::state(run)));
        }
        pairs(html, &facts::of_run(run));
        starts(html, run);
        html.markup("<h3>In short</h3>");
        pairs(html, &in_short(run).0);
        limits(html, run);
        advice(html, run);
        html.markup("<h3>Over time</h3>");
        timelines::write(html, run);
        asked(html, run);
        html.markup("<h3>Environment</h3>");
        pairs(html, &facts::environment(run));
        unknown(html, run);
    });
}

/// The starts of a run that may continue.
fn starts(html: &mut Html, run: &Run) {
    let noted = run.attempts.iter().filter(|one| one.record.is_some());
    let rows: Vec<Vec<String>> = noted.map(start_cells).collect();
    if rows.is_empty() {
        return;
    }
    let heads = [
        "Start", "Began", "Ran for", "Ended", "Then", "From", "Saved in",
    ];
    html.markup("<h3>Starts</h3>");
    table::write(html, "One line for each start of the run", &heads, &rows);
}

fn start_cells(one: &AttemptSeen) -> Vec<String> {
    let ran = one.started_at_ms.zip(one.ended_at_ms);
    let ran = ran.map(|(from, to)| seconds_between(from, to));
    let number = one.attempt.map(|attempt| (attempt + 1).to_string());
    let begun = one.started_at_ms.map(|at| format!("{} UTC", instant(at)));
    let [verdict, next, from, saved] = one.noted();
    let cells = [number, begun, ran.map(duration), verdict, next, from, saved];
    cells
        .map(|cell| cell.unwrap_or_else(|| UNKNOWN.to_owned()))
        .into()
}

/// The figures that say most: name, value, and what is written beside it. What is not known is left out.
#[derive(Default)]
struct Figures(Vec<(&'static str, String)>);

impl Figures {
    fn add(&mut self, name: &'static str, value: Option<String>, more: &str) {
        let text = |value: String| format!("{value} {more}").trim_end().to_owned();
        self.0.extend(value.map(|value| (name, text(value))));
    }
}

fn in_short(run: &Run) -> Figures {
    let mut figures = Figures::default();
    figures.add("ran for", facts::wall_seconds(run).map(duration), "");
    if let Some(timing) = run.timing() {
        timed(&mut figures, timing);
    }
    used(&mut figures, run);
    figures
}

fn timed(figures: &mut Figures, timing: &Timing) {
    // Several counts have no plan together.
    let more = match timing.epochs_planned {
        _ if timing.restarts > 0 => {
            format!("in all; the count began again {} times", timing.restarts)
        }
        Some(planned) => format!("of {} planned", count(planned)),
        None => String::new(),
    };
    figures.add("epochs", Some(count(timing.epochs_completed)), &more);
    if let Some(times) = &timing.epochs {
        let warm = if times.is_warmup {
            ", warm-up only"
        } else {
            ""
        };
        let more = format!("median of {}, {}{warm}", times.count, times.source.as_str());
        figures.add("steady epoch", Some(duration(times.median_seconds)), &more);
        let apart = times.longer_apart().map(duration);
        figures.add("from one to the next", apart, "by the clock");
        let before = times.before_seconds.map(duration);
        figures.add(
            "epoch before the count began again",
            before,
            "another training",
        );
        figures.add("p95 of epochs", times.p95_seconds.map(duration), "");
        let first = times.first_seconds.map(duration);
        figures.add("first epoch", first, "warm-up in it");
    }
    if let Some(steps) = timing.steps {
        let (source, p95) = (steps.source.as_str(), duration(steps.p95_seconds));
        let more = format!("median, {source}; p95 {p95}");
        figures.add("step", Some(duration(steps.median_seconds)), &more);
        figures.add(
            "data wait",
            steps.data_wait_ratio.map(percent),
            "of step time, as the program states it",
        );
    }
    if let Some(rate) = timing.samples_per_second {
        let from = match rate.from {
            "epoch_samples" => "as the program counts them",
            "workload_samples" => "by the job file",
            "steps" => "steps times the batch",
            other => other,
        };
        figures.add("samples a second", Some(short(rate.value)), from);
    }
    let stated = timing.throughput_stated.as_ref();
    let stated = stated.map(|stated| format!("{} {}", short(stated.value), stated.unit));
    figures.add("rate as printed", stated, "");
    let evaluation = timing.evaluation_seconds.map(duration);
    figures.add("evaluation", evaluation, "of an epoch");
    let checkpoints = timing.checkpoint_seconds.map(duration);
    figures.add("checkpoints", checkpoints, "of an epoch");
}

/// What was used, over all nodes.
fn used(figures: &mut Figures, run: &Run) {
    let used = &run.insight.used;
    let most = |of: fn(&NodeUsed) -> Option<f64>| used.nodes.iter().filter_map(of).reduce(f64::max);
    let sum = |of: fn(&NodeUsed) -> Option<u64>| {
        let known = used.nodes.iter().filter_map(of).map(real);
        known.reduce(|a, b| a + b).map(bytes)
    };
    let each = if used.nodes.len() > 1 {
        "on the busiest node"
    } else {
        "on average"
    };
    let busy = used.gpu_busy_mean_percent.map(|busy| percent(busy / 100.0));
    let gpus = format!("of {} GPUs, on average", used.gpus_allocated);
    let idle = (used.gpus_idle > 0).then(|| used.gpus_idle.to_string());
    let energy = used.gpu_energy_joules.map(joules);
    let efficiency = used.cpu_efficiency_ratio.map(percent);
    let memory = most(|node| node.mem_peak_bytes.map(real)).map(bytes);
    figures.add(
        "CPUs busy",
        most(|node| node.cpus_busy_mean).map(short),
        each,
    );
    figures.add("CPU efficiency", efficiency, "of the CPUs it was given");
    let mut records = run.nodes.iter().map(|node| &node.record);
    let is_sure = records.all(|record| record.sure_memory_peak().is_some());
    let of_memory = match is_sure {
        true => "most on a node",
        false => "most seen on a node; the peak is not known",
    };
    figures.add("memory", memory, of_memory);
    figures.add("read", sum(|node| node.io_read_bytes), "from storage");
    figures.add("written", sum(|node| node.io_write_bytes), "to storage");
    figures.add("GPUs busy", busy, &gpus);
    figures.add("idle GPUs", idle, "given and never used");
    let held = run.nodes.iter();
    let held = held.filter_map(|node| node.record.progress.held.as_ref());
    let [gpus_held, nodes_held] = held.fold([0.0, 0.0], |sums, held| {
        [sums[0] + held.gpu_seconds, sums[1] + held.node_seconds]
    });
    let long = |seconds: f64| (seconds > 0.0).then(|| duration(seconds));
    figures.add("GPUs without work", long(gpus_held), "added up over GPUs");
    figures.add(
        "nodes without work",
        long(nodes_held),
        "added up over nodes",
    );
    figures.add("GPU energy", energy, "nothing else is measured");
}

/// Kilojoules, or kilowatt-hours of much.
fn joules(joules: f64) -> String {
    match joules {
        joules if joules >= 3.6e6 => format!("{} kWh", short(joules / 3.6e6)),
        joules => format!("{} kJ", short(joules / 1e3)),
    }
}

/// What was asked for against what was used.
fn asked(html: &mut Html, run: &Run) {
    let asked = run.insight.compared.iter();
    let asked = asked.filter(|compared| compared.asked.is_some());
    let rows: Vec<Vec<String>> = asked.map(compared_cells).collect();
    if rows.is_empty() {
        return;
    }
    html.markup("<h3>Asked for and used</h3>");
    let heads = ["What", "Asked for", "Used", "Used of it"];
    table::write(
        html,
        "Of several nodes the one that used most",
        &heads,
        &rows,
    );
}

/// One line of what was asked for and used.
fn compared_cells(compared: &Compared) -> Vec<String> {
    let (name, shown): (&str, fn(f64) -> String) = match compared.what {
        "cpus" => ("CPUs of a node", short),
        "memory_bytes" => ("memory of a node", bytes),
        "gpus" => ("GPUs of a node", short),
        "walltime_seconds" => ("time limit", duration),
        other => (other, short),
    };
    vec![
        name.to_owned(),
        or_unknown(compared.asked, shown),
        or_unknown(compared.used, shown),
        or_unknown(compared.ratio, percent),
    ]
}

fn limits(html: &mut Html, run: &Run) {
    let mut texts: Vec<String> = Vec::new();
    for limit in run.insight.limits.iter().take(MOST_ITEMS) {
        let text = limit.text.clone();
        texts.push(match run.nodes.len() {
            0 | 1 => text,
            _ => format!("{}: {text}", limit.node),
        });
    }
    if texts.is_empty() {
        return;
    }
    html.markup("<h3>What limited it</h3>");
    html.element("ul", &[("class", "advice")], |html| {
        texts.iter().for_each(|text| html.leaf("li", &[], text));
    });
}

fn advice(html: &mut Html, run: &Run) {
    if run.insight.advice.is_empty() {
        return;
    }
    html.markup("<h3>Advice for the next run</h3>");
    html.element("ul", &[("class", "advice")], |html| {
        for advice in &run.insight.advice {
            html.element("li", &[], |html| {
                html.text(&advice.text);
                if let Some(paste) = &advice.paste {
                    let table = advice
                        .table
                        .map_or_else(String::new, |table| format!("[{table}]\n"));
                    html.element("pre", &[("tabindex", "0")], |html| {
                        html.lines(&format!("{table}{paste}"))
                    });
                }
            });
        }
    });
}

fn unknown(html: &mut Html, run: &Run) {
    let rows = not_measured(run);
    if rows.is_empty() {
        return;
    }
    html.markup("<h3>What could not be measured</h3>");
    table::write(html, "What is missing, and why", &["What", "Why"], &rows);
}

/// What is missing: what the insight lacks, what the nodes could not read, what could not be read of their records.
fn not_measured(run: &Run) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut add = |what: &str, why: &str| {
        let row = vec![what.to_owned(), why.to_owned()];
        if rows.len() < MOST_ITEMS && !rows.contains(&row) {
            rows.push(row);
        }
    };
    for unmeasured in &run.insight.unmeasured {
        add(&unmeasured.what.replace('_', " "), &unmeasured.why);
    }
    for node in &run.nodes {
        let name = |what: &str| {
            if run.nodes.len() > 1 {
                format!("{}: {what}", node.record.key.node)
            } else {
                what.to_owned()
            }
        };
        node.record
            .missing
            .iter()
            .for_each(|missing| add(&name(&missing.what), &missing.why));
    }
    run.notes.iter().for_each(|note| add(&note.what, &note.why));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energies_have_the_unit_of_their_size() {
        assert_eq!(
            [0.0, 12.0, 9.2e5, 7.2e6].map(joules),
            ["0 kJ", "0.012 kJ", "920 kJ", "2 kWh"]
        );
    }
}
