//! What a run's records say of its container, GPUs, quotas and memory that ran out: the part of `show` that most
//! runs have little of.

use super::insight::energy_text;
use super::table::Rows;
use crate::app::times::local_time;
use crate::foundation::units::{Bytes, counted, display_seconds};
use crate::record::{
    ContainerRecord, Event, EventKind, GpuUsage, NodeRecord, RankRecord, RunImage, Straggler,
    TrialRecord, Usage,
};

/// Image, runtime and flags, those of the first node. `planned` is what the submission knew.
pub(super) fn add_container(planned: Option<&RunImage>, nodes: &[NodeRecord], rows: &mut Rows) {
    let records: Vec<(&str, &ContainerRecord)> = nodes
        .iter()
        .filter_map(|node| Some((&*node.key.node, node.container.as_ref()?)))
        .collect();
    let image = records.first().map(|(_, first)| &first.image).or(planned);
    rows.add_known("container", image.map(image_text));
    let entry = records.first().map(|(_, first)| entry_text(first));
    rows.add_known("runtime", entry);
    for (node, record) in &records {
        let missing = record.gpu_missing.as_ref();
        rows.add_known("GPU MISSING", missing.map(|why| format!("{node}: {why}")));
    }
}

/// What the trial before the command chose.
pub(super) fn add_trial(nodes: &[NodeRecord], rows: &mut Rows) {
    let trial = nodes.iter().find_map(|node| node.trial.as_ref());
    rows.add_known("trial", trial.map(trial_text));
}

/// `inductor takes 24 ms a step, no compiler takes 31 ms (70 s; inductor begins after 12 s, then 2.1 s)`
fn trial_text(trial: &TrialRecord) -> String {
    let chosen = trial.ways.get(trial.chosen);
    let passes = chosen.map_or(&[][..], |way| &way.passes);
    let begins: Vec<String> = passes
        .iter()
        .filter_map(|pass| pass.first_seconds.map(display_seconds))
        .collect();
    let first = match begins.is_empty() {
        true => String::new(),
        false => format!("; its first step ended after {}", begins.join(", then ")),
    };
    format!(
        "{} (in {}{first})",
        trial.why,
        display_seconds(trial.seconds)
    )
}

/// What became of the time limit while the job ran.
pub(super) fn add_limits(nodes: &[NodeRecord], rows: &mut Rows) {
    for event in nodes.iter().flat_map(|node| &node.events) {
        let what = match event.kind {
            EventKind::LimitRaised => "raised",
            EventKind::LimitKept => "not raised",
            _ => continue,
        };
        let at = local_time(event.at_ms);
        rows.add("time limit", format!("{what} at {at}: {}", event.detail));
    }
}

/// Nodes that did not pass their check.
pub(super) fn add_unfit(nodes: &[NodeRecord], rows: &mut Rows) {
    for node in nodes {
        for event in node.events.iter().filter(|event| event.kind.is_of_node()) {
            let text = format!("{}: {}", node.key.node, event.detail);
            rows.add_known("NODE UNFIT", Some(text));
        }
    }
}

/// The last silence of each node in which the program seemed to hang.
pub(super) fn add_hangs(nodes: &[NodeRecord], rows: &mut Rows) {
    for node in nodes {
        let hang = |event: &&Event| matches!(event.kind, EventKind::Hang | EventKind::HangEnded);
        let last = node.events.iter().rev().find(hang);
        let text = |event: &Event| {
            let (name, at) = (&node.key.node, local_time(event.at_ms));
            format!("{name}, {at}: {}", event.detail)
        };
        rows.add_known("hang", last.map(text));
    }
}

fn image_text(image: &RunImage) -> String {
    let digest = image.digest.as_ref().map(|digest| {
        let shown = digest.find(':').map_or(12, |at| at + 13);
        format!(", {}", digest.get(..shown).unwrap_or(digest))
    });
    let digest = digest.unwrap_or_default();
    match &image.name {
        Some(name) => format!("{name} ({}{digest})", image.source),
        None => format!("{}{digest}", image.source),
    }
}

/// `apptainer 1.4.5: --nv, --pwd`
fn entry_text(record: &ContainerRecord) -> String {
    let runtime = record.runtime_text();
    let runtime = runtime.unwrap_or_else(|| "none was started".to_owned());
    let flags = record.flags.iter().map(|reason| &*reason.flag);
    let flags: Vec<&str> = flags.filter(|flag| flag.starts_with('-')).collect();
    match &record.unasked {
        Some(why) => format!("{runtime}, with the flags of the submission: {why}"),
        None if flags.is_empty() => runtime,
        None => format!("{runtime}: {}", flags.join(", ")),
    }
}

/// Rows of the whole run, then of each node.
pub(super) fn add_rows(usage: &Usage, nodes: &[NodeRecord], rows: &mut Rows) {
    let throttled = usage.cpu_throttled_seconds.filter(|seconds| *seconds > 0.0);
    let throttled = throttled.map(display_seconds);
    rows.add_known(
        "CPU quota",
        throttled.map(|time| format!("kept it from running for {time}")),
    );
    let kills = usage.mem_oom_kills.filter(|kills| *kills > 0);
    rows.add_known(
        "OOM kills",
        kills.map(|kills| format!("{kills}, by the kernel for want of memory")),
    );
    for node in nodes {
        for gpu in &node.gpus {
            let text = gpu_text(gpu, node.usage.wall_seconds);
            rows.add(of_node("GPU", node, nodes), text);
        }
    }
    for node in nodes {
        rows.add_known(&of_node("cgroup", node, nodes), node.cgroup.as_deref());
    }
}

/// The name of a row, with the node's where there are several.
pub(super) fn of_node(name: &str, node: &NodeRecord, nodes: &[NodeRecord]) -> String {
    match nodes.len() {
        0 | 1 => name.to_owned(),
        _ => format!("{name} {}", node.key.node),
    }
}

/// One line for the ranks of a distributed training: how many there are, and what one of them used.
pub(super) fn add_ranks(nodes: &[NodeRecord], rows: &mut Rows) {
    let all = nodes.iter().flat_map(|node| &node.ranks);
    let ranks: Vec<&RankRecord> = all.filter(|rank| rank.rank < rank.world_size).collect();
    let Some(world) = ranks.iter().map(|rank| rank.world_size).max() else {
        return;
    };
    let mut parts = vec![format!(
        "{world} on {}",
        counted(nodes.len() as u64, "node")
    )];
    let are_agents = ranks
        .iter()
        .all(|rank| rank.role.as_deref() == Some("agent"));
    let each = if are_agents { "each agent" } else { "each" };
    let cpu: Vec<f64> = ranks.iter().filter_map(|rank| rank.cpu_seconds).collect();
    if let Some((least, most)) = cpu
        .iter()
        .copied()
        .reduce(f64::min)
        .zip(cpu.iter().copied().reduce(f64::max))
    {
        parts.push(format!(
            "{} to {} of CPU time {each}",
            display_seconds(least),
            display_seconds(most)
        ));
    }
    let peak = ranks
        .iter()
        .filter_map(|rank| Some((rank.mem_peak_bytes?, rank.rank)))
        .max();
    parts.extend(peak.map(|(peak, rank)| match are_agents {
        true => format!("{} at most in one", Bytes(peak)),
        false => format!("{} at most, in rank {rank}", Bytes(peak)),
    }));
    let slowest = Straggler::among(ranks.iter().copied()).filter(Straggler::stands_out);
    parts.extend(slowest.map(|slowest| slowest.to_string()));
    rows.add("ranks", parts.join(", "));
}

/// How one GPU was used, on one line.
fn gpu_text(usage: &GpuUsage, wall_seconds: Option<f64>) -> String {
    let gpu = &usage.gpu;
    let name = [&gpu.name, &gpu.uuid];
    let name = name[usize::from(gpu.name.is_empty())];
    let mut parts = vec![match gpu.minor {
        Some(minor) => format!("{name} ({minor})"),
        None => name.clone(),
    }];
    let busy = usage.utilisation_mean_percent;
    parts.extend(busy.map(|percent| format!("{percent:.0}% busy on average")));
    let peak = usage.mem_peak_bytes;
    parts.extend(peak.map(|peak| format!("{} at most", Bytes(peak))));
    parts.extend(usage.energy_joules.map(energy_text));
    if usage.idle_seconds > 0.0 {
        // Readings begin and end a little beside the run.
        let wall = wall_seconds.unwrap_or_default().max(usage.idle_seconds);
        let percent = usage.idle_seconds / wall * 100.0;
        parts.push(format!("idle {percent:.0}% of the time"));
    }
    if usage.throttled_seconds > 0.0 {
        let time = display_seconds(usage.throttled_seconds);
        parts.push(format!("throttled for {time}"));
    }
    if usage.xid_errors > 0 {
        parts.push(format!("{} XID errors", usage.xid_errors));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{GpuFacts, MeasureKey, NodeState};

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
            time_stop: None,
            trial: None,
            ranks: Vec::new(),
            events: Vec::new(),
        }
    }

    fn shown(usage: &Usage, nodes: &[NodeRecord]) -> Vec<[String; 2]> {
        let mut rows = Rows::default();
        add_rows(usage, nodes, &mut rows);
        rows.all().to_vec()
    }

    #[test]
    fn a_run_without_any_of_it_has_no_row() {
        let usage = Usage {
            cpu_throttled_seconds: Some(0.0),
            mem_oom_kills: Some(0),
            ..Usage::default()
        };
        assert!(shown(&usage, &[node("n1")]).is_empty());
    }

    #[test]
    fn a_time_limit_that_was_raised_or_kept_has_a_row() {
        let event = |kind, detail: &str| Event {
            at_ms: 0,
            kind,
            detail: detail.to_owned(),
        };
        let mut batch = node("n1");
        batch.events = vec![
            event(EventKind::OomKill, "no limit of time"),
            event(EventKind::LimitRaised, "it is 02:00:00 now"),
            event(EventKind::LimitKept, "Access/permission denied"),
        ];
        let mut rows = Rows::default();
        add_limits(&[node("n0"), batch], &mut rows);
        let [raised, kept] = rows.all() else {
            panic!("{:?}", rows.all());
        };
        assert_eq!([&raised[0], &kept[0]], ["time limit", "time limit"]);
        assert!(raised[1].starts_with("raised at ") && raised[1].ends_with(": it is 02:00:00 now"));
        assert!(kept[1].starts_with("not raised at ") && kept[1].ends_with("denied"));
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
                .map(|[name, _]| name)
                .collect()
        };
        assert_eq!(
            names(&nodes),
            ["CPU quota", "OOM kills", "cgroup n1", "cgroup n2"]
        );
        assert_eq!(names(&nodes[..1]), ["CPU quota", "OOM kills", "cgroup"]);
    }

    #[test]
    fn an_image_is_told_with_the_beginning_of_its_digest() {
        let mut image = RunImage {
            source: "/i/tf.sif".into(),
            name: Some("tf".into()),
            digest: Some(format!("sha256:{}", "ab".repeat(32))),
        };
        assert_eq!(image_text(&image), "tf (/i/tf.sif, sha256:abababababab)");
        image.digest = Some("é".into());
        image.name = None;
        assert_eq!(image_text(&image), "/i/tf.sif, é");
    }
}
