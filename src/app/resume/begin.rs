//! What a start begins with.

use std::path::Path;
use std::time::Duration;

use super::decide::over_limits;
use super::lost::with_states;
use super::{Start, hours_of, is_newer};
use crate::app::error::Error;
use crate::foundation::clock::now_ms;
use crate::foundation::diagnostic::chain;
use crate::job::{JobState, ResumeOn, SaveSignal};
use crate::launch::{hosts, tasks_of_nodes};
use crate::record::rundir::{Attempt, Reading};
use crate::record::{AttemptEnd, AttemptRecord, Checkpoint, Next, Verdict};
use crate::scheduler::adapter_for;

/// How long before the time limit a program is asked to save where nothing is known of it, and without a signal, in seconds.
const LEAD: f64 = 120.0;
const LEAD_WITHOUT_SIGNAL: f64 = 60.0;
/// Bounds of the lead, in seconds.
const LEADS: (f64, f64) = (60.0, 1800.0);

impl Start<'_> {
    /// The lines for the batch script.
    pub(super) fn begin(&self) -> Result<String, Error> {
        let standing = self.standing();
        let mut ends = self.ends();
        if let Some(stop) = self.what_is_over() {
            return Ok(stop);
        }
        if let Some(last) = self.before.last()
            && last
                .outcome
                .attempt
                .as_ref()
                .is_none_or(|attempt| attempt.end.is_none())
        {
            ends.push(self.fill_in(last)?);
        }
        if let Some(why) = self.why_not_to_start(&ends) {
            return Ok(format!("stop={why}\nok\n"));
        }
        let found = self.newest();
        // Without a checkpoint of its own a start begins as the first one did.
        let own = found.as_ref().filter(|_| self.attempt.attempt > 0);
        let from = match own
            .map(|own| own.path.clone())
            .map_or_else(|| self.asked_from(), |own| Ok(Some(own)))
        {
            Ok(from) => from,
            Err(why) => return Ok(format!("stop={why}\ncode=66\nok\n")),
        };
        let hosts = self.in_use(&ends);
        let record = AttemptRecord {
            format: AttemptRecord::FORMAT,
            found: found.clone(),
            from: from.clone(),
            nodes: Some(self.nodes()),
            hosts: hosts.clone(),
            scale_asked_at_ms: self.run.scale().map(|scale| scale.asked_at_ms),
            end: None,
        };
        let noted = self.run.write_attempt(self.attempt, &record);
        if let Err(error) = noted {
            self.session.warning(&format!(
                "what this start begins with is not recorded: {}",
                chain(&error).join(": ")
            ));
        }
        self.say_start(from.as_deref(), found.as_ref());
        self.say_lost_before(hosts.as_deref(), &ends);
        let mut lines = String::new();
        if let Some(path) = from {
            lines += &format!("DLRUN_RESUME_FROM={path}\n");
        }
        if let Some(left) = self.left_seconds(standing) {
            let lead = self.lead(&ends, left);
            let end = now_ms() / 1000 + left;
            lines += &format!("DLRUN_END={end}\nDLRUN_TIME_LEFT={left}\nDLRUN_LEAD={lead}\n");
        }
        if let Some(hosts) = hosts.filter(|_| self.plan.resources.spares > 0) {
            lines += &format!("use={hosts}\n");
        }
        lines += &self.kept_lines();
        Ok(lines + &self.size_lines() + "ok\n")
    }

    /// The variables of a job that gave nodes back, as Slurm's own script has them, which it writes then.
    fn kept_lines(&self) -> String {
        // PBS takes the others out of its list of nodes.
        if self.kept.is_empty() || self.plan.scheduler.is_pbs() {
            return String::new();
        }
        let (count, list) = (self.kept.len(), self.kept.join(","));
        let tasks = self.plan.resources.tasks_per_node;
        let all = u64::from(tasks) * count as u64;
        let mut lines = format!(
            "SLURM_JOB_NUM_NODES={count}\nSLURM_NNODES={count}\nSLURM_JOB_NODELIST={list}\nSLURM_NODELIST={list}\n\
             SLURM_TASKS_PER_NODE={tasks}(x{count})\nSLURM_NTASKS={all}\nSLURM_NPROCS={all}\n"
        );
        if let Some(cpus) = self.kept_cpus() {
            lines += &format!("SLURM_JOB_CPUS_PER_NODE={cpus}\n");
        }
        lines
    }

    /// The CPUs of each node that is left, from those of all: `16(x3),8`.
    fn kept_cpus(&self) -> Option<String> {
        let before = hosts(&adapter_for(self.plan.scheduler).nodes_of_this_job()?)?;
        let cpus = tasks_of_nodes(&std::env::var("SLURM_JOB_CPUS_PER_NODE").ok()?)?;
        let of = |node: &String| {
            let at = before.iter().position(|known| known == node)?;
            Some(cpus.get(at)?.to_string())
        };
        let kept: Option<Vec<String>> = self.kept.iter().map(of).collect();
        Some(kept?.join(","))
    }

    /// The checkpoint that the job file names for the first start.
    fn asked_from(&self) -> Result<Option<String>, String> {
        let Some(from) = &self.resume.from else {
            return Ok(None);
        };
        let path = Path::new(&self.plan.workdir).join(from);
        match path.exists() {
            true => Ok(Some(path.to_string_lossy().into_owned())),
            false => Err(format!("`resume.from`: {} does not exist", path.display())),
        }
    }

    /// Says in the job's output what the start begins with, where that is not plain.
    fn say_start(&self, from: Option<&str>, found: Option<&Checkpoint>) {
        let number = self.attempt.attempt + 1;
        let text = match (from, found) {
            (Some(path), _) => format!("it continues from {path}"),
            (None, Some(found)) => format!(
                "checkpoints that exist already, such as {}, are not used; `resume.from` names one to begin with",
                found.path
            ),
            (None, None) if number == 1 => return,
            (None, None) => format!(
                "there is no checkpoint of this run ({}): it begins at the beginning",
                self.resume.checkpoints.join(", ")
            ),
        };
        let note = format!("start {number} of this run: {text}");
        self.session.output.job_note(&note);
    }

    /// The answer where the run is over, or this start has run already: its job was started once more.
    fn what_is_over(&self) -> Option<String> {
        let own = self.run.marks(self.attempt).outcome.attempt;
        if own.is_some_and(|own| own.end.is_some()) {
            let number = self.attempt.attempt + 1;
            return Some(format!(
                "stop=start {number} of this run has ended before\nok\n"
            ));
        }
        let end = self.before.last()?.outcome.attempt.as_ref()?.end.clone()?;
        match end.verdict {
            Verdict::Finished => {
                let number = self.attempt.attempt;
                Some(format!(
                    "stop=start {number} has finished the training\ncode=0\nok\n"
                ))
            }
            // Somebody asks for another start of these: a person, or a scheduler that knows more.
            Verdict::Failed | Verdict::Memory | Verdict::Unknown => None,
            _ if end.next == Next::Nothing => {
                Some(format!("stop=the run is over: {}\nok\n", end.why))
            }
            _ => None,
        }
    }

    /// Notes the end of a start that could not say so itself: it was killed, and its scheduler started the job again.
    fn fill_in(&self, last: &Reading) -> Result<AttemptEnd, Error> {
        let attempt = Attempt {
            attempt: self.attempt.attempt - 1,
            ..self.attempt
        };
        let mut reading = last.clone();
        let status = self.status(&mut reading)?;
        let verdict = match status.state {
            JobState::Preempted => Verdict::Preemption,
            JobState::Timeout => Verdict::Timeout,
            _ if reading.outcome.end.is_none() => Verdict::Node,
            _ => Verdict::Unknown,
        };
        let evidence = match verdict {
            Verdict::Node => {
                "it left no end mark: its node or its shell was lost, or it was killed".to_owned()
            }
            _ => status.cause.map_or_else(
                || "it left no word of its end".to_owned(),
                |cause| cause.text,
            ),
        };
        let before = reading.outcome.attempt.clone();
        let lost = match verdict {
            Verdict::Node => self.lost_nodes(before.as_ref()),
            _ => Vec::new(),
        };
        let found = before.as_ref().and_then(|attempt| attempt.found.clone());
        let checkpoint = self.newest();
        let end = AttemptEnd {
            verdict,
            evidence: with_states(evidence, &lost),
            lost_nodes: lost.into_iter().map(|node| node.name).collect(),
            kept_nodes: Vec::new(),
            next: Next::Requeue,
            why: "its scheduler started the job again".to_owned(),
            at_ms: now_ms(),
            job_id: None,
            advanced: is_newer(checkpoint.as_ref(), found.as_ref()),
            checkpoint,
            save_seconds: None,
            node_hours: self.hours_before(&reading),
        };
        let mut record = before.unwrap_or_else(AttemptRecord::unknown);
        record.end = Some(end.clone());
        let _ = self.run.write_attempt(attempt, &record);
        Ok(end)
    }

    /// Hours of nodes up to the end of the last start, of which the nodes' records tell.
    fn hours_before(&self, last: &Reading) -> f64 {
        let before = self.ends().last().map_or(0.0, |end| end.node_hours);
        let outcome = &last.outcome;
        let start_ms = outcome.start.as_ref().map(|start| start.at_ms);
        let seen_ms = outcome.nodes.iter().map(|node| node.updated_at_ms).max();
        let nodes = outcome.attempt.as_ref().and_then(|attempt| attempt.nodes);
        let nodes = nodes.unwrap_or(self.plan.resources.nodes);
        before + hours_of(start_ms, seen_ms.or(start_ms).unwrap_or(0), nodes)
    }

    /// Schedulers start jobs again themselves, so the limits hold here too.
    fn why_not_to_start(&self, ends: &[AttemptEnd]) -> Option<String> {
        if self.cancel_asked() && self.attempt.attempt > 0 {
            return Some("it was cancelled".to_owned());
        }
        let last = ends.last();
        // What its scheduler starts again by itself is asked of `resume.on` here.
        let asked = |on: &[ResumeOn]| on.iter().any(|on| self.resume.on.contains(on));
        let is_wanted = match last.map(|end| end.verdict) {
            Some(Verdict::Node) => asked(&[ResumeOn::Node, ResumeOn::Preemption]),
            Some(Verdict::Preemption) => asked(&[ResumeOn::Preemption]),
            Some(Verdict::Timeout) => asked(&[ResumeOn::Timeout]),
            _ => true,
        };
        if !is_wanted {
            let verdict = last.map_or(Verdict::Unknown, |end| end.verdict);
            return Some(format!(
                "`resume.on` does not name what ended the last start: {verdict}"
            ));
        }
        let hours = last.map_or(0.0, |end| end.node_hours);
        let newest_first = ends.iter().rev().map(|end| (end.advanced, end.verdict));
        over_limits(&self.resume, self.attempt.attempt, newest_first, hours)
    }

    /// What a program of another size needs to know: nodes now, at least and at most; of the batch the whole and the steps that
    /// gather it.
    fn size_lines(&self) -> String {
        let Some(elastic) = &self.plan.elastic else {
            return String::new();
        };
        let nodes = self.nodes();
        let (min, max) = elastic.nodes;
        let mut lines =
            format!("DLRUN_WORLD_NODES={nodes}\nDLRUN_MIN_NODES={min}\nDLRUN_MAX_NODES={max}\n");
        if let Some(batch) = self.plan.workload.batch_size {
            lines += &format!("DLRUN_GLOBAL_BATCH={batch}\n");
            if let Some(own) = elastic.batch_per_rank {
                let ranks = u64::from(nodes) * u64::from(self.plan.resources.tasks_per_node);
                let steps = batch.div_ceil((ranks * u64::from(own)).max(1));
                lines += &format!("DLRUN_ACCUM_STEPS={steps}\n");
            }
        }
        lines
    }

    /// How long before its time is up the program is to save its work, in seconds: three times the longest that it took, and a minute.
    fn lead(&self, ends: &[AttemptEnd], left: u64) -> u64 {
        if let Some(lead) = self.resume.lead {
            return lead.0.min(left / 2);
        }
        let longest = ends
            .iter()
            .filter_map(|end| end.save_seconds)
            .reduce(f64::max);
        let lead = match (longest, self.resume.signal) {
            (Some(longest), _) => (3.0 * longest + 60.0).clamp(LEADS.0, LEADS.1),
            (None, SaveSignal::None) => LEAD_WITHOUT_SIGNAL,
            (None, _) => LEAD,
        };
        Duration::from_secs_f64(lead).as_secs().min(left / 4)
    }
}
