//! What a start begins with.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Start;
use crate::app::error::Error;
use crate::foundation::clock::now_ms;
use crate::foundation::diagnostic::chain;
use crate::job::{JobState, SaveSignal};
use crate::record::rundir::{Attempt, Reading};
use crate::record::{AttemptEnd, AttemptRecord, Checkpoint, Next, Verdict};

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
        if let Some(last) = self.before.last() {
            let known = last
                .outcome
                .attempt
                .as_ref()
                .and_then(|attempt| attempt.end.clone());
            match known {
                Some(end) if end.verdict == Verdict::Finished => {
                    let text = format!("start {} has finished the training", self.attempt.attempt);
                    return Ok(format!("stop={text}\ncode=0\n"));
                }
                Some(_) => {}
                None => ends.push(self.fill_in(last)?),
            }
        }
        if let Some(why) = self.why_not_to_start(&ends) {
            return Ok(format!("stop={why}\n"));
        }
        let found = self.newest();
        let resumes = self.attempt.attempt > 0 && found.is_some() && found != self.first_found();
        let record = AttemptRecord {
            format: AttemptRecord::FORMAT,
            found: found.clone(),
            resumes,
            end: None,
        };
        let noted = self.run.write_attempt(self.attempt, &record);
        if let Err(error) = noted {
            self.session.warning(&format!(
                "what this start begins with is not recorded: {}",
                chain(&error).join(": ")
            ));
        }
        let mut lines = String::new();
        let from = found.filter(|_| resumes);
        if self.attempt.attempt > 0 {
            let number = self.attempt.attempt + 1;
            let text = match &from {
                Some(checkpoint) => format!("it continues from {}", checkpoint.path),
                None => "there is no checkpoint of this run: it begins at the beginning".to_owned(),
            };
            self.session
                .output
                .job_note(&format!("start {number} of this run: {text}"));
        }
        if let Some(checkpoint) = from {
            lines += &format!("DLRUN_RESUME_FROM={}\n", checkpoint.path);
        }
        if let Some(end_ms) = self.ends_at_ms(standing) {
            let left = end_ms.saturating_sub(now_ms()) / 1000;
            let lead = self.lead(&ends, left);
            lines += &format!(
                "DLRUN_END={}\nDLRUN_TIME_LEFT={left}\nDLRUN_LEAD={lead}\n",
                end_ms / 1000
            );
        }
        Ok(lines + &self.size_lines())
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
        let found = before.as_ref().and_then(|attempt| attempt.found.clone());
        let checkpoint = self.newest();
        let end = AttemptEnd {
            verdict,
            evidence,
            next: Next::Requeue,
            why: "its scheduler started the job again".to_owned(),
            at_ms: now_ms(),
            job_id: None,
            advanced: checkpoint.is_some() && checkpoint != found,
            checkpoint,
            save_seconds: None,
            node_hours: self.node_hours(),
        };
        let resumes = before.is_some_and(|attempt| attempt.resumes);
        let record = AttemptRecord {
            format: AttemptRecord::FORMAT,
            found,
            resumes,
            end: Some(end.clone()),
        };
        let _ = self.run.write_attempt(attempt, &record);
        Ok(end)
    }

    /// Schedulers start jobs again themselves, so the limits hold here too.
    fn why_not_to_start(&self, ends: &[AttemptEnd]) -> Option<String> {
        let asked = self.verdicts_of(&Reading::default());
        if asked.is_some() && self.attempt.attempt > 0 {
            return Some("it was cancelled".to_owned());
        }
        let (starts, limit) = (self.attempt.attempt, self.resume.attempts);
        if starts >= limit {
            return Some(format!(
                "the run had {starts} starts of {limit} (`resume.attempts`)"
            ));
        }
        let idle = ends.iter().rev().filter(|end| end.verdict != Verdict::Node);
        let idle = idle.take_while(|end| !end.advanced).count();
        if idle >= usize::try_from(self.resume.without_progress).unwrap_or(usize::MAX) {
            return Some(format!(
                "{idle} starts in turn left no new checkpoint (`resume.without_progress`)"
            ));
        }
        let hours = self.node_hours();
        let cap = self.resume.node_hours.filter(|cap| hours >= *cap)?;
        Some(format!(
            "{hours:.3} node hours are used of {cap} (`resume.node_hours`)"
        ))
    }

    /// What a program of another size needs to know: nodes now, at least and at most; of the batch the whole and the steps that
    /// gather it.
    fn size_lines(&self) -> String {
        let Some(elastic) = &self.plan.elastic else {
            return String::new();
        };
        let nodes = nodes_of_job().unwrap_or(self.plan.resources.nodes);
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

    /// What was there before the run began.
    fn first_found(&self) -> Option<Checkpoint> {
        self.before.first()?.outcome.attempt.as_ref()?.found.clone()
    }
}

/// Nodes of this job: as Slurm says, else those in PBS's file.
fn nodes_of_job() -> Option<u32> {
    let by_slurm = std::env::var("SLURM_JOB_NUM_NODES")
        .ok()
        .and_then(|text| text.parse().ok());
    by_slurm.or_else(|| {
        let hosts = std::fs::read_to_string(std::env::var("PBS_NODEFILE").ok()?).ok()?;
        let hosts: BTreeSet<&str> = hosts.lines().filter(|line| !line.is_empty()).collect();
        u32::try_from(hosts.len()).ok()
    })
}
