//! Whether a job follows the advice on the run before it.

use crate::app::insight;
use crate::app::session::Session;
use crate::app::track::{Tracker, plan_of};
use crate::job::{self, Asked, JobState, StorageClass};
use crate::launch::{Plan, PlannedResources};
use crate::record::{Followed, Identity, RunRecord};
use crate::report::insight::Advice;

/// The advice on the run before of the same workload that this run follows; `None` unless the advised lines are all that differs.
pub(crate) fn followed(session: &Session, record: &RunRecord, plan: &Plan) -> Option<Followed> {
    let now = record
        .identity
        .as_ref()
        .filter(|_| record.array.is_none())?;
    // Most jobs differ in more or in nothing: only for others the samples of the run before are read.
    let mut tracker = Tracker::open(session).ok()?;
    let last = tracker.store.last_of(&now.key).ok()??;
    let run = tracker.state.run(&last).ok()?;
    let past = run.read_run().ok()?;
    let then = past.identity.filter(|then| may_follow(then, now))?;
    let has_changed_storage = past.storage != record.storage;
    let has_changed = has_changed_storage || then.asked != now.asked;
    let is_here = past.scheduler == record.scheduler && past.submit_host == record.submit_host;
    if !is_here || !has_changed || past.array.is_some() {
        return None;
    }
    let mut before = tracker.look_at(&last, false).ok()?;
    if !before.status.state.is_final() || before.status.state == JobState::Unknown {
        return None;
    }
    let old = plan_of(&run)?;
    let insight = insight::read(session, &run, &mut before);
    let advice: Vec<&Advice> = insight
        .advice
        .iter()
        .filter(|advice| {
            is_done(advice, &plan.resources, class(plan))
                && !is_done(advice, &old.resources, class(&old))
        })
        .collect();
    let lines: Vec<&str> = advice
        .iter()
        .filter_map(|advice| advice.paste.as_deref())
        .flat_map(str::lines)
        .collect();
    let keys: Vec<&str> = lines
        .iter()
        .filter_map(|line| Some(line.split_once(" = ")?.0))
        .collect();
    let is_all = with_lines(&then, now, &keys) == like(now)
        && (!has_changed_storage || keys.contains(&"prefer"));
    let saves = advice.iter().filter_map(|advice| advice.saves_at_most);
    (is_all && !lines.is_empty()).then(|| Followed {
        run_id: last,
        lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        saves_at_most: saves.reduce(f64::max),
        before: insight.took(&before.status),
    })
}

fn class(plan: &Plan) -> Option<StorageClass> {
    plan.storage.as_ref().map(|storage| storage.class)
}

/// An identity without what was followed.
fn like(identity: &Identity) -> Identity {
    Identity {
        followed: None,
        ..identity.clone()
    }
}

/// The run before, as it would be with these keys of this run.
fn with_lines(before: &Identity, now: &Identity, keys: &[&str]) -> Identity {
    let mut made = like(before);
    let (asked, of) = (&mut made.asked, &now.asked);
    for key in keys {
        match *key {
            "walltime" => asked.walltime_seconds = of.walltime_seconds,
            "memory" | "memory_per_cpu" => asked.memory_bytes = of.memory_bytes,
            "cpus_per_task" => asked.cpus_per_task = of.cpus_per_task,
            "gpus_per_node" => {
                (asked.gpus_per_node, asked.gpus) = (of.gpus_per_node.clone(), of.gpus)
            }
            _ => {}
        }
    }
    made
}

fn may_follow(then: &Identity, now: &Identity) -> bool {
    let all = ["walltime", "memory", "cpus_per_task", "gpus_per_node"];
    with_lines(then, now, &all) == like(now)
}

/// Whether a plan has the lines of a piece of advice.
fn is_done(advice: &Advice, planned: &PlannedResources, class: Option<StorageClass>) -> bool {
    let (Some(table), Some(paste)) = (advice.table, &advice.paste) else {
        return false;
    };
    let text = format!("[run]\ncommand = [\"true\"]\n[{table}]\n{paste}\n");
    let Ok(spec) = job::parse(&text) else {
        return false;
    };
    fn is_as<T: PartialEq>(advised: Option<Asked<T>>, planned: Option<T>) -> bool {
        advised.is_none_or(|advised| planned.map(Asked::Value) == Some(advised))
    }
    let asked = &spec.resources;
    let plain = |gpus: &Option<String>| gpus.is_none() || *gpus == planned.gpus_per_node;
    is_as(asked.walltime, planned.walltime)
        && is_as(asked.memory, planned.memory)
        && is_as(
            asked.memory_per_cpu.map(Asked::Value),
            planned.memory_per_cpu,
        )
        && is_as(asked.cpus_per_task, planned.cpus_per_task)
        && plain(&asked.gpus_per_node)
        && spec
            .storage
            .is_none_or(|preferred| Some(preferred) == class)
}
