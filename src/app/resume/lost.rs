//! Nodes that a start lost, and how the next one keeps off them.

use std::collections::BTreeSet;

use super::Start;
use crate::foundation::diagnostic::chain;
use crate::launch::hosts;
use crate::record::{AttemptEnd, AttemptRecord};
use crate::scheduler::{BrokenNode, Scheduler, adapter_for, script};

/// What the next start is to keep off, or why it does not; each as the end of a sentence.
pub(super) type Exclusion = Result<Vec<String>, String>;

impl Start<'_> {
    /// The list of this job's nodes.
    pub(super) fn hosts(&self) -> Option<String> {
        if !self.kept.is_empty() {
            return Some(self.kept.join(","));
        }
        adapter_for(self.plan.scheduler).nodes_of_this_job()
    }

    /// The nodes of this start: those of its job; with spare ones as many as are asked for. The batch script's own is always among them;
    /// those that are dead come last, before them those that an earlier start lost or that are to be drained.
    pub(super) fn in_use(&self, ends: &[AttemptEnd]) -> Option<String> {
        let list = self.hosts();
        if self.plan.resources.spares == 0 {
            return list;
        }
        let lost: BTreeSet<&String> = ends.iter().flat_map(|end| &end.lost_nodes).collect();
        let broken = self.out_of_order(list.as_deref());
        let harm = |node: &String| {
            let broken = broken.iter().find(|broken| broken.name == *node);
            let is_dead = broken.is_some_and(|broken| broken.is_dead);
            u8::from(is_dead) * 2 + u8::from(broken.is_some() || lost.contains(node))
        };
        let chosen = self.best(list.as_deref(), harm);
        chosen.map_or(list, |(nodes, _)| Some(nodes.join(",")))
    }

    /// Whether the job still has enough nodes without those that this start lost; the node of the batch script cannot be one of them.
    pub(super) fn has_spares(&self, lost: &BTreeSet<String>) -> bool {
        let before = self.ends();
        let before: BTreeSet<&String> = before.iter().flat_map(|end| &end.lost_nodes).collect();
        let own = &self.context.node;
        let harm =
            |node: &String| u8::from(lost.contains(node) || node != own && before.contains(node));
        let best = self.best(self.hosts().as_deref(), harm);
        self.plan.resources.spares > 0 && best.is_some_and(|(_, harm)| harm == 0)
    }

    /// As many of a list's nodes as the ranks use, in its order: the batch script's own and the least harmed others; with the harm of
    /// the worst. `None`: they cannot be read, or are too few.
    fn best(&self, list: Option<&str>, harm: impl Fn(&String) -> u8) -> Option<(Vec<String>, u8)> {
        let mut all: Vec<(usize, String)> = hosts(list?)?.into_iter().enumerate().collect();
        all.sort_by_key(|(_, node)| (*node != self.context.node, harm(node)));
        all.truncate(self.plan.resources.nodes as usize);
        all.sort_unstable();
        let is_enough = all.len() == self.plan.resources.nodes as usize;
        let worst = all.iter().map(|(_, node)| harm(node)).max()?;
        is_enough.then(|| (all.into_iter().map(|(_, node)| node).collect(), worst))
    }

    /// The nodes of a start that its scheduler has out of order now.
    pub(super) fn lost_nodes(&self, start: Option<&AttemptRecord>) -> Vec<BrokenNode> {
        self.out_of_order(start.and_then(|start| start.hosts.as_deref()))
    }

    fn out_of_order(&self, list: Option<&str>) -> Vec<BrokenNode> {
        let found = list.and_then(|list| {
            let scheduler = self.session.scheduler(self.plan.scheduler).ok()?;
            scheduler.out_of_order(list)
        });
        found.unwrap_or_default()
    }

    /// What the next start is to keep off: all that the run lost, not only this start.
    pub(super) fn exclusion(
        &self,
        scheduler: &dyn Scheduler,
        end: &AttemptEnd,
    ) -> Option<Exclusion> {
        let before = self.ends();
        let all = before.iter().chain([end]).flat_map(|end| &end.lost_nodes);
        let all: BTreeSet<&String> = all.collect();
        let lost: Vec<String> = all.into_iter().cloned().collect();
        (!lost.is_empty()).then(|| self.may_exclude(scheduler, &lost).map(|()| lost))
    }

    /// Whether the run has another place: a job that keeps off the only nodes that suit it waits for ever.
    fn may_exclude(&self, scheduler: &dyn Scheduler, lost: &[String]) -> Result<(), String> {
        if !self.plan.exclude_lost_nodes {
            return Err("the setting `resume.exclude_nodes` is off".to_owned());
        }
        let mut plan = self.plan.clone();
        plan.resources.depends.clear();
        plan.resources.begin = None;
        plan.resources.exclude = Some(beside(plan.resources.exclude.as_deref(), lost));
        match scheduler.test(&plan, &script::render(&plan)) {
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(format!(
                "the job could not run anywhere else ({})",
                chain(&error).join(": ")
            )),
            None => Err(format!(
                "{} has no option that keeps a job off a node",
                adapter_for(plan.scheduler).name()
            )),
        }
    }

    /// Keeps the job, which waits again, off the nodes, and notes what became of that.
    pub(super) fn exclude(
        &self,
        scheduler: &dyn Scheduler,
        exclusion: Option<Exclusion>,
        end: &mut AttemptEnd,
    ) {
        let exclude =
            |nodes: Vec<String>| match self.job().map(|job| scheduler.exclude(&job, &nodes)) {
                Ok(Some(Ok(()))) => Ok(nodes),
                Ok(Some(Err(error))) => Err(chain(&error).join(": ")),
                Ok(None) => Err("a waiting job cannot be changed".to_owned()),
                Err(error) => Err(error.message()),
            };
        self.note_exclusion(exclusion.map(|exclusion| exclusion.and_then(exclude)), end);
    }

    /// Adds what becomes of the nodes that the start lost to why the run continues.
    pub(super) fn note_exclusion(&self, exclusion: Option<Exclusion>, end: &mut AttemptEnd) {
        let lost = end.lost_nodes.join(", ");
        let text = match exclusion {
            Some(_) if lost.is_empty() => return,
            None => return,
            Some(Ok(_)) => format!("the next start keeps off {lost}"),
            Some(Err(why)) => format!("{lost} may be used again: {why}"),
        };
        self.session.output.job_note(&text);
        end.why = format!("{}; {text}", end.why);
    }

    /// Says in the job's output that it is again on nodes that an earlier start lost.
    pub(super) fn say_lost_before(&self, own: Option<&str>, ends: &[AttemptEnd]) {
        let own = own.and_then(hosts).unwrap_or_default();
        for (number, end) in ends.iter().enumerate() {
            let again = end.lost_nodes.iter().filter(|lost| own.contains(*lost));
            let again: Vec<&str> = again.map(String::as_str).collect();
            if !again.is_empty() {
                let text = format!(
                    "start {} of this run lost {}, where this one runs again",
                    number + 1,
                    again.join(", ")
                );
                self.session.output.job_warning(&text);
            }
        }
    }
}

/// A list of nodes with others that are not in it behind it.
pub(super) fn beside(list: Option<&str>, more: &[String]) -> String {
    let known = list.and_then(hosts).unwrap_or_default();
    let new = more.iter().filter(|node| !known.contains(node)).cloned();
    let list = list.map(str::to_owned).into_iter();
    list.chain(new).collect::<Vec<_>>().join(",")
}

/// `n4 is DOWN+NOT_RESPONDING`, behind what shows that a node was lost.
pub(super) fn with_states(evidence: String, lost: &[BrokenNode]) -> String {
    let states = lost
        .iter()
        .map(|node| format!("{} is {}", node.name, node.state));
    std::iter::once(evidence)
        .chain(states)
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_nodes_are_added_to_the_list_once() {
        let lost = ["n4".to_owned(), "n9".to_owned()];
        assert_eq!(beside(None, &lost), "n4,n9");
        assert_eq!(beside(Some("n[1-4]"), &lost), "n[1-4],n9");
        let states = [BrokenNode {
            name: "n4".to_owned(),
            state: "DOWN".to_owned(),
            is_dead: true,
        }];
        assert_eq!(with_states("lost".to_owned(), &states), "lost; n4 is DOWN");
    }
}
