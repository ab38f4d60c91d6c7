//! Whether a running start asks for more nodes: they are free, nobody waits for them, and the time that they save is worth another
//! start.

use super::Start;
use crate::app::error::Error;
use crate::app::session::Session;
use crate::foundation::clock::now_ms;
use crate::record::rundir::Scale;
use crate::record::{NodeRecord, summarise_epochs};
use crate::scheduler::script;

/// The time saved is more than so many times what another start costs: Slurm may give fewer nodes, and the training may gain less.
const WORTH: f64 = 3.0;
/// What the scheduler takes to start a job that has its nodes, in seconds.
const START_SECONDS: f64 = 60.0;

/// Looks once, and asks for what is worth it.
pub(crate) fn grow(session: &Session) -> Result<u8, Error> {
    let start = Start::open(session)?;
    if let Some(nodes) = start.worth_it() {
        start.run.write_scale(&Scale {
            nodes,
            asked_at_ms: now_ms(),
            grows: true,
        })?;
    }
    Ok(0)
}

impl Start<'_> {
    fn worth_it(&self) -> Option<u32> {
        let reading = self.run.outcome(self.attempt);
        let begun = reading.outcome.attempt.as_ref();
        if self.run.scale_since(begun).is_some() || self.cancel_asked() {
            return None;
        }
        let (now, own) = (now_ms(), self.nodes());
        let most = self.plan.elastic.as_ref()?.nodes.1.checked_sub(own)?;
        let node = reading.outcome.nodes.iter().find(|node| {
            let progress = &node.progress;
            progress.expected_end.is_some() && !progress.epochs.is_empty()
        })?;
        let cost = self.cost_of_a_start(node)?;
        // At its time limit the run gets what is free anyway.
        let limit = self.context.time_limit.map(|(end, _)| end * 1000);
        let end = node.progress.expected_end?.earliest_ms;
        let left = seconds(
            limit
                .map_or(end, |limit| limit.min(end))
                .saturating_sub(now),
        );
        // Before the scheduler is asked: all that there may be has to be worth it.
        if most == 0 || !pays(left, cost, own, own + most) {
            return None;
        }
        let scheduler = self.session.scheduler(self.plan.scheduler).ok()?;
        let mut plan = self.plan.clone();
        plan.resources.depends.clear();
        plan.resources.begin = None;
        let free = scheduler.free_nodes(&plan, &script::render(&plan), most)?;
        pays(left, cost, own, own + free).then_some(own + free)
    }

    /// What another start costs, in seconds: saving, being started, and all before the first epoch and in it that the others do not
    /// have. `None`: not known yet.
    fn cost_of_a_start(&self, node: &NodeRecord) -> Option<f64> {
        let first = node.progress.epochs.first()?.ended_at_ms?;
        let steady = summarise_epochs(&node.progress, None)?.steady_seconds;
        let begin = seconds(first.checked_sub(node.started_at_ms)?) - steady;
        let saves = self.ends().into_iter().filter_map(|end| end.save_seconds);
        let lead = self.context.time_limit.map(|(_, lead)| lead * 1000);
        let save = saves.reduce(f64::max).or_else(|| lead.map(seconds));
        Some(begin.max(0.0) + save.unwrap_or_default() + START_SECONDS)
    }
}

/// Whether `left` seconds on `own` nodes, were they as many times fewer on more, save what another start costs.
fn pays(left: f64, cost: f64, own: u32, more: u32) -> bool {
    let saved = left * (1.0 - f64::from(own) / f64::from(more.max(1)));
    saved > WORTH * cost
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_nodes_pay_only_if_they_save_three_times_what_a_start_costs() {
        // Twice the nodes save half an hour of an hour.
        assert!(pays(3600.0, 590.0, 2, 4));
        assert!(!pays(3600.0, 610.0, 2, 4));
        assert!(!pays(3600.0, 1.0, 2, 2));
    }
}
