//! What a run's records say of GPUs, quotas, memory that ran out, and events: the part of `show` that most runs have
//! little of.

use crate::app::times::local_time;
use crate::foundation::units::{Bytes, display_seconds};
use crate::record::{Event, GpuUsage, NodeRecord, Usage};

/// Events that are shown; of more the last.
const EVENTS_SHOWN: usize = 5;

/// Rows of the whole run, then of each node.
pub(super) fn rows(usage: &Usage, nodes: &[NodeRecord], row: &mut impl FnMut(&str, String)) {
    if let Some(throttled) = usage.cpu_throttled_seconds.filter(|seconds| *seconds > 0.0) {
        row(
            "CPU quota",
            format!("kept it from running for {}", display_seconds(throttled)),
        );
    }
    if let Some(kills @ 1..) = usage.mem_oom_kills {
        row(
            "OOM kills",
            format!("{kills}, by the kernel for want of memory"),
        );
    }
    for node in nodes {
        for gpu in &node.gpus {
            row(
                &of_node("GPU", node, nodes),
                gpu_text(gpu, node.usage.wall_seconds),
            );
        }
    }
    for node in nodes {
        if let Some(cgroup) = &node.cgroup {
            row(&of_node("cgroup", node, nodes), cgroup.clone());
        }
    }
    event_rows(nodes, row);
}

/// The name of a row, with the node's where there are several.
fn of_node(name: &str, node: &NodeRecord, nodes: &[NodeRecord]) -> String {
    if nodes.len() > 1 {
        format!("{name} {}", node.key.node)
    } else {
        name.to_owned()
    }
}

/// How one GPU was used, on one line.
fn gpu_text(usage: &GpuUsage, wall_seconds: Option<f64>) -> String {
    let gpu = &usage.gpu;
    let name = if gpu.name.is_empty() {
        &gpu.uuid
    } else {
        &gpu.name
    };
    let mut words = vec![match gpu.minor {
        Some(minor) => format!("{name} ({minor})"),
        None => name.clone(),
    }];
    words.extend(
        usage
            .utilisation_mean_percent
            .map(|percent| format!("{percent:.0}% busy on average")),
    );
    words.extend(
        usage
            .mem_peak_bytes
            .map(|peak| format!("{} at most", Bytes(peak))),
    );
    words.extend(usage.energy_joules.map(energy_text));
    if usage.idle_seconds > 0.0 {
        // Readings begin and end a little beside the run.
        let share = wall_seconds
            .filter(|wall| *wall > 0.0)
            .map(|wall| (usage.idle_seconds / wall).min(1.0));
        words.push(match share {
            Some(share) => format!("idle {:.0}% of the time", share * 100.0),
            None => format!("idle for {}", display_seconds(usage.idle_seconds)),
        });
    }
    if usage.throttled_seconds > 0.0 {
        words.push(format!(
            "throttled for {}",
            display_seconds(usage.throttled_seconds)
        ));
    }
    if usage.xid_errors > 0 {
        words.push(format!("{} XID errors", usage.xid_errors));
    }
    words.join(", ")
}

fn energy_text(joules: f64) -> String {
    match joules {
        ..10_000.0 => format!("{joules:.0} J"),
        10_000.0..360_000.0 => format!("{:.1} kJ", joules / 1e3),
        _ => format!("{:.2} kWh", joules / 3.6e6),
    }
}

/// How many events there were, and the last of them.
fn event_rows(nodes: &[NodeRecord], row: &mut impl FnMut(&str, String)) {
    let mut events: Vec<(&NodeRecord, &Event)> = nodes
        .iter()
        .flat_map(|node| node.events.iter().map(move |event| (node, event)))
        .collect();
    events.sort_by_key(|(_, event)| event.at_ms);
    let older = events.len().saturating_sub(EVENTS_SHOWN);
    for (place, (node, event)) in events.iter().skip(older).enumerate() {
        let name = match (place, older) {
            (0, 0) => "events".to_owned(),
            (0, older) => format!("events ({older} older)"),
            _ => String::new(),
        };
        let at = of_node("", node, nodes);
        let detail = if event.detail.is_empty() {
            String::new()
        } else {
            format!(": {}", event.detail)
        };
        row(
            &name,
            format!(
                "{}{at} {}{detail}",
                local_time(event.at_ms),
                event.kind.as_str()
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{EventKind, GpuFacts, MeasureKey, NodeState};

    fn node(name: &str) -> NodeRecord {
        NodeRecord {
            format: 1,
            last_words: Vec::new(),
            key: MeasureKey {
                run_id: "a".repeat(16).parse().expect("an id"),
                element: 0,
                attempt: 0,
                node: name.into(),
                step: 0,
            },
            job_id: None,
            state: NodeState::Ended,
            started_at_ms: 0,
            ended_at_ms: None,
            updated_at_ms: 0,
            exit: None,
            output: None,
            host: Default::default(),
            conditions: crate::record::Conditions::default(),
            usage: Usage {
                wall_seconds: Some(100.0),
                ..Usage::default()
            },
            progress: Default::default(),
            segments: 0,
            gaps: Vec::new(),
            missing: Vec::new(),
            watcher: Default::default(),
            cgroup: None,
            container: None,
            gpus: Vec::new(),
            events: Vec::new(),
        }
    }

    fn shown(usage: &Usage, nodes: &[NodeRecord]) -> Vec<(String, String)> {
        let mut found = Vec::new();
        rows(usage, nodes, &mut |name, text| {
            found.push((name.to_owned(), text))
        });
        found
    }

    #[test]
    fn a_run_without_any_of_it_has_no_row() {
        let usage = Usage {
            cpu_throttled_seconds: Some(0.0),
            mem_oom_kills: Some(0),
            ..Usage::default()
        };
        assert_eq!(shown(&usage, &[node("n1")]), []);
    }

    #[test]
    fn a_gpu_is_one_line() {
        let facts = GpuFacts {
            uuid: "GPU-1".into(),
            name: "NVIDIA H200".into(),
            minor: Some(2),
            ..GpuFacts::default()
        };
        let usage = GpuUsage {
            utilisation_mean_percent: Some(87.4),
            mem_peak_bytes: Some(120 << 30),
            energy_joules: Some(1_800_000.0),
            idle_seconds: 12.0,
            throttled_seconds: 3.0,
            xid_errors: 2,
            ..GpuUsage::of(facts)
        };
        assert_eq!(
            gpu_text(&usage, Some(100.0)),
            "NVIDIA H200 (2), 87% busy on average, 120GiB at most, 0.50 kWh, idle 12% of the time, \
             throttled for 3.00 s, 2 XID errors"
        );
        let bare = GpuUsage::of(GpuFacts {
            uuid: "MIG-1".into(),
            ..GpuFacts::default()
        });
        assert_eq!(gpu_text(&bare, None), "MIG-1");
    }

    #[test]
    fn energies_have_a_unit_of_their_size() {
        assert_eq!(
            [900.0, 90_000.0, 3.6e6].map(energy_text),
            ["900 J", "90.0 kJ", "1.00 kWh"]
        );
    }

    #[test]
    fn quota_kills_and_cgroups_have_rows() {
        let usage = Usage {
            cpu_throttled_seconds: Some(2.5),
            mem_oom_kills: Some(1),
            ..Usage::default()
        };
        let mut nodes = [node("n1"), node("n2")];
        nodes
            .iter_mut()
            .for_each(|node| node.cgroup = Some("/slurm/job_1".into()));
        let names = |nodes: &[NodeRecord]| -> Vec<String> {
            shown(&usage, nodes)
                .into_iter()
                .map(|(name, _)| name)
                .collect()
        };
        assert_eq!(
            names(&nodes),
            ["CPU quota", "OOM kills", "cgroup n1", "cgroup n2"]
        );
        assert_eq!(names(&nodes[..1]), ["CPU quota", "OOM kills", "cgroup"]);
    }

    #[test]
    fn the_last_events_of_all_nodes_are_shown_in_order() {
        let mut nodes = [node("n1"), node("n2")];
        for at in 0..7_u64 {
            let event = Event {
                at_ms: 1000 * at,
                kind: EventKind::Xid,
                detail: format!("number {at}"),
            };
            nodes[usize::from(at % 2 == 0)].events.push(event);
        }
        let found = shown(&Usage::default(), &nodes);
        assert_eq!(found.len(), EVENTS_SHOWN);
        assert_eq!(
            (found[0].0.as_str(), found[1].0.as_str()),
            ("events (2 older)", "")
        );
        assert!(
            found[0].1.ends_with("n2 xid: number 2") && found[4].1.ends_with("n2 xid: number 6"),
            "{found:?}"
        );
        nodes[0].events.clear();
        nodes[1].events.truncate(1);
        assert_eq!(shown(&Usage::default(), &nodes)[0].0, "events");
    }
}
