//! The environment of a run in words: what it ran on and in.

use super::Run;
use super::number::{bytes, count, instant, real, seconds_between, short};
use crate::record::{
    ContainerRecord, Followed, FollowedScore, GpuUsage, Identity, NodeRecord, Straggler,
};

/// Nodes that are named one by one.
const NODES_NAMED: usize = 16;

/// A time of day with its zone.
fn utc(at_ms: u64) -> String {
    format!("{} UTC", instant(at_ms))
}

/// Names with what is known of each.
type Facts = Vec<(&'static str, String)>;

fn known<const N: usize>(facts: [(&'static str, Option<String>); N]) -> Facts {
    let known = |(name, value): (&'static str, Option<String>)| Some((name, value?));
    facts.into_iter().filter_map(known).collect()
}

/// What a run is, and its status.
pub(super) fn of_run(run: &Run) -> Facts {
    let Run { record, status, .. } = run;
    let identity = record.identity.as_ref();
    let mut nodes = run.nodes.iter().map(|node| &node.record);
    let mut last_words = nodes.clone().map(|node| &node.last_words);
    let last_words = last_words.find(|words| words.len() > 1);
    let attempt = nodes.clone().map(|node| node.key.attempt).max();
    let attempt = attempt.filter(|attempt| *attempt > 0);
    let requeued = attempt.map(|attempt| format!("{} (it was requeued)", attempt + 1));
    let all_starts = run.all_starts.map(|all| all.to_string());
    let mut scheduler = record.scheduler.as_str().to_owned();
    if let Some(job) = &record.job_id {
        scheduler = format!("{scheduler}, job {job}");
    }
    let python = identity.and_then(Identity::python_environment);
    let submitted = format!("{} by {}", utc(record.submitted_at_ms), record.user);
    known([
        ("run", Some(record.run_id.to_string())),
        ("state", Some(state(run))),
        (
            "cause",
            status.cause.as_ref().map(|cause| cause.text.clone()),
        ),
        ("said last", last_words.map(|words| words.join("\n"))),
        ("command", identity.and_then(Identity::command_line)),
        ("directory", Some(record.workdir.clone())),
        ("job file", record.job_file.clone()),
        ("python", python.map(str::to_owned)),
        ("commit", identity.and_then(Identity::commit_text)),
        ("asked for", identity.map(|identity| identity.asked.text())),
        (
            "ran in",
            nodes.find_map(|node| node.conditions.place_text()),
        ),
        ("submitted", Some(submitted)),
        ("started", status.started_at_ms.map(utc)),
        ("ended", status.ended_at_ms.map(utc)),
        ("memory forecast", memory_forecast(run)),
        (
            "followed",
            followed(run).map(|(followed, score)| followed.text(score.as_ref())),
        ),
        ("attempt", all_starts.or(requeued)),
        ("scheduler", Some(scheduler)),
        ("nodes", Some(node_names(run))),
        ("ranks", ranks(run)),
    ])
}

/// The state as text; of a running job, that it is still running.
pub(super) fn state(run: &Run) -> String {
    let state = run.status.state.as_str();
    if run.is_going_on() {
        let measured = run.nodes.iter().map(|node| node.record.updated_at_ms).max();
        let until = measured.map(|at| format!(", measured until {}", utc(at)));
        let until = until.unwrap_or_default();
        return format!("{state}: all figures are of the time so far{until}");
    }
    match run.status.exit.filter(|exit| !exit.is_success()) {
        Some(exit) => format!("{state}, exit code {}", exit.shell_code()),
        None => state.to_owned(),
    }
}

/// The advice on the run before that it follows, and what came of it.
pub(super) fn followed(run: &Run) -> Option<(&Followed, Option<FollowedScore>)> {
    let followed = run.record.followed()?;
    let took = run.insight.took(&run.status);
    Some((followed, followed.score(took, run.status.state)))
}

/// When the memory of a running job will exceed its limit, and of one that is over whether it did, for each node with a forecast.
fn memory_forecast(run: &Run) -> Option<String> {
    let of_node = |node: &crate::report::Node| {
        let forecast = node.record.progress.memory_forecast.as_ref()?;
        let ahead = forecast.lasting_text(utc).filter(|_| run.is_going_on());
        let text = ahead.or_else(|| forecast.scored_text(utc))?;
        Some(match run.nodes.len() {
            1 => text,
            _ => format!("{}: {text}", node.record.key.node),
        })
    };
    let texts: Vec<String> = run
        .nodes
        .iter()
        .filter_map(of_node)
        .take(NODES_NAMED)
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn ranks(run: &Run) -> Option<String> {
    let ranks = run.nodes.iter().flat_map(|node| &node.record.ranks);
    let world = ranks.clone().map(|rank| rank.world_size).max()?;
    let slowest = Straggler::among(ranks)
        .filter(Straggler::stands_out)
        .map(|slowest| format!("; {slowest}"));
    Some(format!("{world}{}", slowest.unwrap_or_default()))
}

fn node_names(run: &Run) -> String {
    let names = run.nodes.iter().map(|node| &*node.record.key.node);
    let names: Vec<&str> = names.collect();
    let shown = names[..names.len().min(NODES_NAMED)].join(", ");
    match names.len() {
        0 => format!("{} asked for, no record of any", run.record.nodes),
        count if count > NODES_NAMED => format!("{shown} and {} more", count - NODES_NAMED),
        _ => shown,
    }
}

/// What it ran on and in, each fact with what is known of it.
pub(super) fn environment(run: &Run) -> Facts {
    let nodes: Vec<&NodeRecord> = run.nodes.iter().map(|node| &node.record).collect();
    let setting = &run.insight.setting;
    let each = |of: &dyn Fn(&NodeRecord) -> Option<String>| each(&nodes, of);
    let clock = setting.gpu_clock_mhz;
    let others = setting.others_cpus_busy;
    known([
        ("image", image(run, &nodes)),
        ("image digest", digest(run, &nodes)),
        (
            "container runtime",
            each(&|node| node.container.as_ref()?.runtime_text()),
        ),
        ("framework", setting.framework.clone()),
        ("software", each(&|node| node.conditions.software_text())),
        ("compiler", setting.compiler.clone()),
        ("training", training(run)),
        ("CPU", each(&|node| node.host.cpu_model.clone())),
        ("CPUs of a node", each(&|node| node.host.cpus.map(count))),
        ("CPUs usable", each(&usable)),
        (
            "memory of a node",
            each(&|node| Some(bytes(real(node.host.mem_total_bytes?)))),
        ),
        ("GPUs", gpus(&nodes)),
        (
            "GPU driver",
            each(&|node| node.gpus.first()?.gpu.driver.clone()),
        ),
        (
            "GPU clock",
            clock.map(|mhz| format!("{mhz:.0} MHz on average")),
        ),
        ("storage", storage(run, &nodes)),
        (
            "other load",
            others.map(|cpus| format!("{} CPUs busy", short(cpus))),
        ),
        (
            "OMP_NUM_THREADS",
            each(&|node| node.host.omp_num_threads.clone()),
        ),
        ("kernel", each(&|node| node.host.kernel.clone())),
        ("cgroup", each(&|node| node.cgroup.clone())),
        ("dlrun", Some(run.record.dlrun_version.clone())),
    ])
}

/// A fact of the nodes: each value once, in the order of the nodes.
fn each(nodes: &[&NodeRecord], of: impl Fn(&NodeRecord) -> Option<String>) -> Option<String> {
    let mut values: Vec<String> = Vec::new();
    for value in nodes.iter().filter_map(|node| of(node)) {
        if values.len() < NODES_NAMED && !values.contains(&value) {
            values.push(value);
        }
    }
    (!values.is_empty()).then(|| values.join("; "))
}

fn image(run: &Run, nodes: &[&NodeRecord]) -> Option<String> {
    let name = |image: &crate::record::RunImage| match &image.name {
        Some(name) => format!("{name} ({})", image.source),
        None => image.source.clone(),
    };
    each(nodes, |node| {
        node.container
            .as_ref()
            .map(|container| name(&container.image))
    })
    .or_else(|| run.record.image.as_ref().map(name))
    .or_else(|| (!nodes.is_empty()).then(|| "none".to_owned()))
}

fn digest(run: &Run, nodes: &[&NodeRecord]) -> Option<String> {
    let of = |container: &ContainerRecord| {
        let uuid = || {
            Some(format!(
                "UUID {}",
                container.identity.as_ref()?.uuid.as_ref()?
            ))
        };
        container.image.digest.clone().or_else(uuid)
    };
    let known = each(nodes, |node| of(node.container.as_ref()?));
    let is_contained =
        run.record.image.is_some() || nodes.iter().any(|node| node.container.is_some());
    known
        .or_else(|| run.record.image.as_ref()?.digest.clone())
        .or_else(|| is_contained.then(|| "not known".to_owned()))
}

fn training(run: &Run) -> Option<String> {
    let workload = &run.record.workload;
    let counted = |number: Option<u64>, before: &str, after: &str| {
        number.map(|number| format!("{before}{}{after}", count(number)))
    };
    let words = [
        workload.model.clone(),
        counted(workload.parameters, "", " parameters"),
        workload.dataset.clone(),
        counted(workload.samples, "", " samples an epoch"),
        counted(workload.flops_per_sample, "", " FLOPs a sample"),
        counted(workload.batch_size, "batch ", ""),
        workload.precision.clone(),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn usable(node: &NodeRecord) -> Option<String> {
    let conditions = &node.conditions;
    let cpus = conditions.cpus_effective.map(short);
    let cpus = cpus.or_else(|| node.host.cpus_allowed.map(count))?;
    Some(match &conditions.affinity {
        Some(list) => format!("{cpus} ({list})"),
        None => cpus,
    })
}

fn gpus(nodes: &[&NodeRecord]) -> Option<String> {
    each(nodes, |node| {
        let mut models: Vec<(&GpuUsage, usize)> = Vec::new();
        for usage in &node.gpus {
            let mut known = models.iter_mut();
            match known.find(|(known, _)| known.gpu.name == usage.gpu.name) {
                Some((_, count)) => *count += 1,
                None => models.push((usage, 1)),
            }
        }
        let text = |(usage, count): (&GpuUsage, usize)| {
            let memory = usage.gpu.mem_total_bytes.map(|total| bytes(real(total)));
            let memory = memory.map_or_else(String::new, |memory| format!(", {memory}"));
            format!("{count} × {}{memory}", usage.gpu.name)
        };
        let texts: Vec<String> = models.into_iter().map(text).collect();
        (!texts.is_empty()).then(|| texts.join(" and "))
    })
}

fn storage(run: &Run, nodes: &[&NodeRecord]) -> Option<String> {
    let seen = each(nodes, |node| {
        let storage = node.conditions.storage.iter();
        let texts: Vec<String> = storage
            .map(|storage| format!("{} on {}", storage.of, storage.class))
            .collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    });
    let chosen = run.record.storage.as_ref();
    let chosen = chosen.map(|(name, class)| format!("{name} ({})", class.as_str()));
    let texts: Vec<String> = chosen.into_iter().chain(seen).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// From start to end, or to the last that is known of it, in seconds.
pub(super) fn wall_seconds(run: &Run) -> Option<f64> {
    let measured = run
        .nodes
        .iter()
        .filter_map(|node| node.record.usage.wall_seconds)
        .reduce(f64::max);
    let marked = run
        .status
        .started_at_ms
        .zip(run.status.ended_at_ms)
        .map(|(from, to)| seconds_between(from, to));
    marked.or(measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobState;
    use crate::record::{GpuFacts, StorageClass};
    use crate::report::tests::{BEGIN_MS, timed};

    fn value(facts: &[(&'static str, String)], name: &str) -> Option<String> {
        facts
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.clone())
    }

    #[test]
    fn what_is_known_is_told_and_what_is_not_is_left_out() {
        let mut run = timed(&[3.5, 2.5]);
        let node = &mut run.nodes[0].record;
        let gpu = GpuFacts {
            name: "NVIDIA H200".into(),
            mem_total_bytes: Some(141 << 30),
            ..GpuFacts::default()
        };
        node.gpus = vec![GpuUsage::of(gpu.clone()), GpuUsage::of(gpu)];
        node.conditions.storage = vec![StorageClass {
            of: "workdir".into(),
            class: "nfs4".into(),
        }];
        node.conditions.affinity = Some("0-7".into());
        node.conditions.cpus_effective = Some(7.5);
        let facts = environment(&run);
        assert_eq!(
            value(&facts, "GPUs").as_deref(),
            Some("2 × NVIDIA H200, 141 GiB")
        );
        assert_eq!(value(&facts, "CPUs usable").as_deref(), Some("7.5 (0-7)"));
        assert_eq!(value(&facts, "storage").as_deref(), Some("workdir on nfs4"));
        assert_eq!(
            (value(&facts, "kernel"), value(&facts, "image digest")),
            (None, None)
        );
        run.record.image = Some(crate::record::RunImage {
            source: "/i.sif".into(),
            name: None,
            digest: None,
        });
        let facts = environment(&run);
        assert_eq!(value(&facts, "image digest").as_deref(), Some("not known"));
    }

    #[test]
    fn memory_forecast_is_ahead_while_it_runs_and_scored_afterwards() {
        let mut run = timed(&[3.5]);
        assert_eq!(value(&of_run(&run), "memory forecast"), None);
        let end = crate::record::ExpectedEnd {
            at_ms: BEGIN_MS + 2_400_000,
            earliest_ms: BEGIN_MS + 2_100_000,
            latest_ms: BEGIN_MS + 2_700_000,
        };
        let mut forecast = crate::record::MemoryForecast {
            gpu: None,
            limit_bytes: 64 << 30,
            made_at_ms: BEGIN_MS,
            first: end,
            exceeds: Some(end),
            exceeded_at_ms: None,
        };
        run.status.state = JobState::Running;
        run.nodes[0].record.progress.memory_forecast = Some(forecast.clone());
        let ahead = "memory may exceed the limit of 64GiB at about 2025-11-20 15:26:40 UTC (2025-11-20 15:21:40 UTC to \
                     2025-11-20 15:31:40 UTC) if it keeps growing";
        assert_eq!(
            value(&of_run(&run), "memory forecast").as_deref(),
            Some(ahead)
        );
        run.status.state = JobState::Completed;
        assert_eq!(value(&of_run(&run), "memory forecast"), None);
        forecast.exceeds = None;
        run.nodes[0].record.progress.memory_forecast = Some(forecast.clone());
        let over = value(&of_run(&run), "memory forecast");
        assert!(over.is_some_and(|text| text.ends_with("at 2025-11-20 15:26:40 UTC; it did not")));
        forecast.exceeded_at_ms = Some(BEGIN_MS + 2_500_000);
        run.nodes[0].record.progress.memory_forecast = Some(forecast);
        let over = value(&of_run(&run), "memory forecast");
        assert!(over.is_some_and(|text| text.ends_with("; it did at 2025-11-20 15:28:20 UTC")));
    }

    #[test]
    fn a_run_that_goes_on_says_so() {
        let mut run = timed(&[3.5]);
        assert_eq!(state(&run), "completed");
        run.status.state = JobState::Running;
        run.nodes[0].record.updated_at_ms = BEGIN_MS + 5_000;
        let text =
            "running: all figures are of the time so far, measured until 2025-11-20 14:46:45 UTC";
        assert_eq!(state(&run), text);
        run.status.state = JobState::Failed;
        run.status.exit = Some(crate::record::ExitStatus::Signal(9));
        assert_eq!(state(&run), "failed, exit code 137");
        run.nodes.clear();
        assert_eq!(
            value(&of_run(&run), "nodes").as_deref(),
            Some("1 asked for, no record of any")
        );
    }
}
