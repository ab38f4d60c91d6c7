//! What the watcher looks for when it writes the record, beside what it samples: a program that hangs, memory that will not suffice,
//! what is held without work; and what others ask of it.

use std::time::Instant;

use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::signals::STOP_EARLY;
use super::stacks::stacks;
use super::watch::Watch;
use crate::foundation::clock::now_ms;
use crate::job::OnHang;
use crate::launch::{Plan, PlannedResources};
use crate::observe::monitor;
use crate::record::{Event, EventKind, NodeRecord, NodeState};

impl Watch {
    pub(super) fn tend_comment(&mut self, now: Instant) {
        if self.annotator.due().is_some_and(|due| now >= due) {
            let progress = self.progress(NodeState::Running);
            self.annotator.tend(&progress, now);
        }
    }

    pub(super) fn tend_limit(&mut self, now: Instant) {
        if self.limit.due().is_some_and(|due| now >= due) {
            let progress = self.progress(NodeState::Running);
            if let Some((kind, text)) = self.limit.tend(&progress, now) {
                self.account.note(kind, text);
            }
        }
    }

    pub(super) fn tend_scale(&mut self) {
        let is_asked = self
            .scaled
            .as_ref()
            .is_some_and(|scaled| scaled.try_recv().is_ok());
        if is_asked && let Ok(pid) = i32::try_from(self.handover.supervisor) {
            self.scaled = None;
            let _ = kill(Pid::from_raw(pid), STOP_EARLY);
        }
    }

    /// A program that seems to hang is reported, and ended where the job file says so.
    pub(super) fn look_for_hang(&mut self, record: &NodeRecord, now: Instant) {
        let plan = self.handover.context.plan.as_ref();
        let gpus = plan.and_then(|plan| plan.resources.gpus_on_node());
        if gpus.is_some() && record.gpus.is_empty() {
            return;
        }
        let Some((kind, mut text)) = self.quiet.look(record, now) else {
            return;
        };
        if kind == EventKind::Note {
            self.account.note(kind, text);
            return;
        }
        for stack in stacks(self.step.command()) {
            text.push_str("; ");
            text.push_str(&stack);
        }
        let plan = self.handover.context.plan.as_ref();
        // It hangs since the last sign of it, and not since somebody noticed.
        let silent_ms = u64::try_from(self.quiet.silent(now).as_millis()).unwrap_or(0);
        let at_ms = now_ms().saturating_sub(silent_ms);
        let hang = plan
            .and_then(|plan| plan.resume.as_ref())
            .map(|resume| resume.hang);
        // Other nodes may wait for this one's work: the node of the batch script decides.
        let ends = hang == Some(OnHang::Requeue) && self.handover.context.is_batch_node();
        self.account.note_at(Event {
            at_ms,
            kind: match ends {
                true => EventKind::HangEnded,
                false => EventKind::Hang,
            },
            detail: text,
        });
        if ends {
            // What it writes at its end says nothing.
            self.quiet.take_over(false);
            self.step.end(now);
        }
    }

    /// Whether its memory will exceed what it may have.
    pub(super) fn look_at_memory(&mut self, record: &NodeRecord) {
        let context = &self.handover.context;
        let resources = context.plan.as_ref().map(|plan| &plan.resources);
        // Nothing holds a local job to what it asked for.
        let is_held = context
            .plan
            .as_ref()
            .is_some_and(|plan| !plan.scheduler.is_local());
        let asked = resources
            .filter(|_| is_held)
            .and_then(PlannedResources::memory_on_node);
        let limit = asked.or_else(|| monitor::memory_limit(self.handover.command.pid));
        let limit = limit.into_iter().chain(record.host.mem_total_bytes).min();
        let walltime = resources.and_then(|resources| resources.walltime);
        let limits = [
            context.time_limit.map(|(end, _)| end.saturating_mul(1000)),
            walltime.map(|limit| record.started_at_ms.saturating_add(limit.0 * 1000)),
        ];
        let first = limits.into_iter().flatten().min();
        let limit_ms = record.progress.time_limit_ms.or(first);
        let likely_ms = record.progress.expected_end.map(|end| end.latest_ms);
        let end_ms = limit_ms.into_iter().chain(likely_ms).min();
        self.memory.look(record, limit, end_ms);
    }

    /// What it holds without using it is noted, and the run is ended where the site says so.
    pub(super) fn look_at_what_it_holds(&mut self, record: &NodeRecord, now: Instant) {
        let plan = self.handover.context.plan.as_ref();
        let has_gpus = plan.is_some_and(|plan| plan.resources.gpus_on_node().is_some());
        // What was handed through may have asked for more nodes.
        let is_one = std::env::var_os("SLURM_JOB_NUM_NODES").is_none_or(|nodes| nodes == "1");
        let is_alone = is_one && plan.is_some_and(Plan::is_on_one_node);
        if let Some(why) = self.holding.look(record, has_gpus, is_alone) {
            self.account.note(EventKind::IdleEnded, why);
            self.step.end(now);
        }
    }
}
