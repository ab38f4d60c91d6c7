//! Nodes that a start lost, and how the next one keeps off them.

use std::collections::BTreeSet;

use super::Start;
use crate::foundation::diagnostic::chain;
use crate::launch::hosts;
use crate::record::{AttemptEnd, AttemptRecord};
use crate::scheduler::{Scheduler, adapter_for, script};

/// What the next start is to keep off, or why it does not; each as the end of a sentence.
pub(super) type Exclusion = Result<Vec<String>, String>;

impl Start<'_> {
    /// The list of this start's nodes, as its scheduler writes it.
    pub(super) fn hosts(&self) -> Option<String> {
        std::env::var("SLURM_JOB_NODELIST").ok()
    }

    /// The nodes of a start that its scheduler has out of order now, each with its state.
    pub(super) fn lost_nodes(&self, start: Option<&AttemptRecord>) -> Vec<(String, String)> {
        let list = start.and_then(|start| start.hosts.as_deref());
        let found = list.and_then(|list| {
            let scheduler = self.session.scheduler(self.plan.scheduler).ok()?;
            scheduler.out_of_order(list)
        });
        found.unwrap_or_default()
    }

    /// All that the starts of this run lost.
    fn lost_by_now(&self, end: &AttemptEnd) -> Vec<String> {
        let before = self.ends();
        let all = before.iter().chain([end]).flat_map(|end| &end.lost_nodes);
        let all: BTreeSet<&String> = all.collect();
        all.into_iter().cloned().collect()
    }

    /// What the next start is to keep off; `None`: no node was lost.
    pub(super) fn exclusion(
        &self,
        scheduler: &dyn Scheduler,
        end: &AttemptEnd,
    ) -> Option<Exclusion> {
        let lost = self.lost_by_now(end);
        (!lost.is_empty()).then(|| {
            self.may_exclude(scheduler, &lost)
                .map(|()| lost.clone())
                .map_err(|why| used_again(&lost, &why))
        })
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
                "without it the job could not run ({})",
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
        let Some(exclusion) = exclusion else { return };
        let text = exclusion.map_or_else(
            |why| why,
            |nodes| {
                let asked = self.job().map(|job| scheduler.exclude(&job, &nodes));
                match asked {
                    Ok(Some(Ok(()))) => kept_off(&nodes),
                    Ok(Some(Err(error))) => used_again(&nodes, &chain(&error).join(": ")),
                    Ok(None) => used_again(&nodes, "a waiting job cannot be changed"),
                    Err(error) => used_again(&nodes, &error.message()),
                }
            },
        );
        self.note_exclusion(&text, end);
    }

    /// Adds what becomes of lost nodes to why the run continues.
    pub(super) fn note_exclusion(&self, text: &str, end: &mut AttemptEnd) {
        self.session.output.job_note(text);
        end.why = format!("{}; {text}", end.why);
    }

    /// Says in the job's output that it is again on nodes that an earlier start lost.
    pub(super) fn say_lost_before(&self, ends: &[AttemptEnd]) {
        let own = self
            .hosts()
            .and_then(|list| hosts(&list))
            .unwrap_or_default();
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

/// That the nodes are kept off, for the end of a sentence.
pub(super) fn kept_off(nodes: &[String]) -> String {
    format!("the next start keeps off {}", nodes.join(", "))
}

fn used_again(nodes: &[String], why: &str) -> String {
    format!("{} may be used again: {why}", nodes.join(", "))
}

/// `n4 is DOWN+NOT_RESPONDING`, behind what shows that a node was lost.
pub(super) fn with_states(evidence: String, lost: &[(String, String)]) -> String {
    let states = lost
        .iter()
        .map(|(name, state)| format!("{name} is {state}"));
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
        let states = [("n4".to_owned(), "DOWN".to_owned())];
        assert_eq!(with_states("lost".to_owned(), &states), "lost; n4 is DOWN");
    }
}
