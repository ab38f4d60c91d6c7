//! What a run's files mean: brings plan, records and samples together for [`crate::report::insight`].

use crate::app::series::Series;
use crate::app::session::Session;
use crate::app::site::queue_limit;
use crate::app::track::{Tracked, plan_of};
use crate::job::JobState;
use crate::record::rundir::RunDir;
use crate::report::insight::{Insight, NodeView, Request, RunView, Sampled, derive};

/// Nodes whose samples are read unasked: each costs the reading of its whole series.
const NODES_READ: usize = 4;

/// What was asked for, by the plan that is kept with the run. The limit of the queue is looked up where a longer time limit
/// may be advised.
pub(crate) fn request(session: &Session, run: &RunDir, tracked: &Tracked) -> Option<Request> {
    let plan = plan_of(run)?;
    let asked = plan.resources;
    let is_cut_off = tracked.status.state == JobState::Timeout;
    let limit = is_cut_off.then(|| queue_limit(session, plan.scheduler, asked.queue.as_deref()));
    Some(Request {
        scheduler: plan.scheduler,
        nodes: asked.nodes,
        tasks_per_node: asked.tasks_per_node,
        launcher: plan.launcher,
        cpus_per_task: asked.cpus_per_task,
        gpus_per_node: asked.gpus_per_node,
        gpus_per_task: asked.gpus_per_task,
        memory_bytes: asked.memory.map(|bytes| bytes.0),
        memory_per_cpu_bytes: asked.memory_per_cpu.map(|bytes| bytes.0),
        walltime_seconds: asked.walltime.map(|walltime| walltime.0),
        queue: asked.queue,
        queue_walltime_seconds: limit.flatten(),
        storage: plan.storage.map(|storage| storage.class),
        exclusive: asked.exclusive,
        is_array: asked.array.is_some(),
    })
}

/// What follows from the run's files. `sampled` is what the samples of its nodes say, in their order; nodes beyond it were
/// not read.
pub(crate) fn insight(
    tracked: &Tracked,
    request: Option<&Request>,
    sampled: Vec<Option<Sampled>>,
) -> Insight {
    let unread = std::iter::repeat_with(|| None);
    let nodes = tracked
        .reading
        .outcome
        .nodes
        .iter()
        .zip(sampled.into_iter().chain(unread));
    let nodes = nodes
        .map(|(record, sampled)| NodeView { record, sampled })
        .collect();
    derive(&RunView {
        run: &tracked.record,
        status: &tracked.status,
        request,
        nodes,
    })
}

/// The same with the samples of its first nodes read.
pub(crate) fn read(session: &Session, run: &RunDir, tracked: &mut Tracked) -> Insight {
    let mut notes = Vec::new();
    let nodes = tracked.reading.outcome.nodes.iter_mut().take(NODES_READ);
    let sampled: Vec<Option<Sampled>> = nodes
        .map(|node| {
            let series = Series::read(run, node, None);
            series.put_activity(node);
            notes.extend(series.notes);
            series.sampled
        })
        .collect();
    tracked.reading.notes.extend(notes);
    insight(tracked, request(session, run, tracked).as_ref(), sampled)
}
