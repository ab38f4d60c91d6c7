//! A run that may continue, seen from inside its job: what a start begins with, and what follows when it has ended.

mod decide;
mod scale;

pub(crate) use scale::{Scaled, scale};

use std::collections::BTreeSet;
use std::time::Duration;

use crate::app::error::{Error, failure};
use crate::app::exec::context;
use crate::app::session::{PATIENCE, Session, within};
use crate::app::track::status_by_files;
use crate::foundation::clock::now_ms;
use crate::foundation::diagnostic::chain;
use crate::job::{DependencyKind, JobId, Resume, SaveSignal, SchedulerVariables};
use crate::launch::{Plan, PlannedDependency};
use crate::node::supervise::Context;
use crate::observe::checkpoint::Checkpoints;
use crate::record::rundir::{Attempt, Reading, RunDir, StateDir};
use crate::record::{
    AttemptEnd, AttemptRecord, Checkpoint, EpochNumbering, EventKind, ExitStatus, Next, NodeRecord,
    Verdict,
};
use crate::scheduler::{Standing, Submission, script};

/// How long before the time limit a program is asked to save where nothing is known of it, and without a signal, in seconds.
const LEAD: f64 = 120.0;
const LEAD_WITHOUT_SIGNAL: f64 = 60.0;
/// Bounds of the lead, in seconds.
const LEADS: (f64, f64) = (60.0, 1800.0);
/// A file that was written so shortly before its program was killed may be half there, in milliseconds.
const HALF_WRITTEN_MS: u64 = 1000;

/// One start of the run, and those before it.
struct Start<'a> {
    session: &'a Session,
    context: Context,
    plan: Plan,
    resume: Resume,
    run: RunDir,
    attempt: Attempt,
    before: Vec<Reading>,
}

/// Before the command: prints what the batch script hands on, one `NAME=VALUE` a line, or `stop=WHY` with a `code`.
pub(crate) fn begin(session: &Session) -> Result<u8, Error> {
    let start = Start::open(session)?;
    let lines = start.begin()?;
    session.output.raw(lines.as_bytes())?;
    Ok(0)
}

/// After the end mark: decides whether the run continues, and sees to it.
pub(crate) fn again(session: &Session, code: i32, signals: &str) -> Result<u8, Error> {
    Start::open(session)?.end(code, signals)?;
    Ok(0)
}

impl<'a> Start<'a> {
    fn open(session: &'a Session) -> Result<Self, Error> {
        let context = context();
        let missing = |what: &str| failure!(Internal, "the batch script gives no {what}");
        let plan = context.plan.clone().ok_or_else(|| missing("plan"))?;
        let resume = plan.resume.clone().ok_or_else(|| missing("[resume]"))?;
        let run_id = context.run_id.clone().ok_or_else(|| missing("run id"))?;
        let dir = context
            .state_dir
            .clone()
            .ok_or_else(|| missing("state directory"))?;
        let attempt = Attempt {
            element: context.element,
            attempt: context.attempt,
        };
        let (run, before) = within(PATIENCE, &dir.clone(), move || {
            let run = StateDir::open(&dir)?.run(&run_id)?;
            let earlier = (0..attempt.attempt).map(|number| Attempt {
                attempt: number,
                ..attempt
            });
            let before = earlier.map(|attempt| run.outcome(attempt)).collect();
            Ok((run, before))
        })?;
        Ok(Self {
            session,
            context,
            plan,
            resume,
            run,
            attempt,
            before,
        })
    }

    fn begin(&self) -> Result<String, Error> {
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
        let record = self.run.read_run()?;
        let element = self
            .plan
            .resources
            .array
            .as_ref()
            .map(|_| self.attempt.element);
        let mut reading = last.clone();
        let status = status_by_files(&self.run, &record, element, &mut reading);
        let verdict = match status.state {
            crate::job::JobState::Preempted => Verdict::Preemption,
            crate::job::JobState::Timeout => Verdict::Timeout,
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

    /// When `dlrun cancel` was asked.
    fn verdicts_of(&self, reading: &Reading) -> Option<u64> {
        let mut outcome = reading.outcome.clone();
        let verdicts = self.run.verdicts();
        match &self.plan.resources.array {
            Some(_) => verdicts.add_to_element(self.attempt.element, None, &mut outcome),
            None => verdicts.add_to(&mut outcome),
        }
        outcome.cancel_asked_at_ms
    }

    fn end(&self, code: i32, signals: &str) -> Result<(), Error> {
        let standing = self.standing();
        let mut reading = self.run.outcome(self.attempt);
        let record = self.run.read_run()?;
        let element = self
            .plan
            .resources
            .array
            .as_ref()
            .map(|_| self.attempt.element);
        let status = status_by_files(&self.run, &record, element, &mut reading);
        let nodes = &reading.outcome.nodes;
        let stops = || nodes.iter().filter_map(|node| node.time_stop);
        let begun = reading.outcome.attempt.clone();
        let found = begun.as_ref().and_then(|attempt| attempt.found.clone());
        let checkpoint = self.newest_after(&reading);
        let ended_ms = reading
            .outcome
            .end
            .as_ref()
            .map_or_else(now_ms, |end| end.at_ms);
        let save_at_ms = self
            .context
            .time_limit
            .map(|(end, lead)| (end - lead.min(end)) * 1000);
        let is_requeued = standing.is_some_and(|it| {
            it.requeues > self.attempt.attempt - self.plan.first_attempt.min(self.attempt.attempt)
        });
        let known = decide::Known {
            resume: &self.resume,
            starts: self.attempt.attempt + 1,
            code,
            status: &status,
            time_stop: stops().max_by_key(|stop| (stop.signalled, stop.stopped)),
            time_was_up: save_at_ms.is_some_and(|at| ended_ms >= at),
            is_recorded: !nodes.is_empty(),
            scale: self.scale_asked(&reading),
            hung: nodes
                .iter()
                .flat_map(|node| &node.events)
                .find(|event| event.kind == EventKind::HangEnded)
                .map(|event| event.detail.clone()),
            all_epochs: nodes.iter().any(trained_all),
            was_terminated: ["TERM", "INT"].iter().any(|name| signals.contains(name)),
            is_preempted: standing.is_some_and(|it| it.is_preempted),
            is_requeued,
            advanced: checkpoint.is_some() && checkpoint != found,
            node_hours: self.node_hours(),
        };
        let (verdict, evidence) = decide::verdict(&known);
        let next = decide::next(&known, verdict, &self.ends());
        let mut end = AttemptEnd {
            verdict,
            evidence,
            next: Next::Nothing,
            why: next.clone().unwrap_or_else(|why| why),
            at_ms: now_ms(),
            job_id: None,
            advanced: known.advanced,
            checkpoint,
            save_seconds: stops()
                .filter_map(|stop| stop.saved_seconds)
                .reduce(f64::max),
            node_hours: known.node_hours,
        };
        let resumes = begun.is_some_and(|attempt| attempt.resumes);
        let note = |end: &AttemptEnd| {
            let end = Some(end.clone());
            let record = AttemptRecord {
                format: AttemptRecord::FORMAT,
                found: found.clone(),
                resumes,
                end,
            };
            self.run.write_attempt(self.attempt, &record)
        };
        let kind = self.plan.scheduler;
        if next.is_ok() {
            end.next = if kind.is_local() {
                Next::Restart
            } else {
                Next::Requeue
            };
        }
        // First: a job that is put back into the queue is ended at once. Where it cannot be written the run continues all the same.
        let noted = note(&end);
        self.say(&end);
        let comes_back = is_requeued || standing.is_some_and(|it| it.is_preempted && it.comes_back);
        if end.next != Next::Requeue || comes_back {
            return Ok(noted?);
        }
        if let Err(error) = self.hand_back(&mut end) {
            end.next = Next::Nothing;
            end.why = format!(
                "it should continue ({}), and cannot: {}",
                end.why,
                error.message()
            );
            self.say(&end);
        }
        Ok(note(&end)?)
    }

    fn hand_back(&self, end: &mut AttemptEnd) -> Result<(), Error> {
        let scheduler = self.session.scheduler(self.plan.scheduler)?;
        let job = self
            .job_name()
            .ok_or_else(|| failure!(Internal, "the job does not know its id"))?;
        let scaled = self
            .scale_asked(&self.run.marks(self.attempt))
            .filter(|_| end.verdict == Verdict::Scaled);
        if end.verdict != Verdict::Preemption && scaled.is_none() {
            match scheduler.requeue(&job) {
                Some(Ok(())) => return Ok(()),
                Some(Err(error)) => self.session.warning(&format!(
                    "another job continues: {}",
                    chain(&error).join(": ")
                )),
                None => {}
            }
        }
        if self.plan.resources.array.is_some() {
            return Err(failure!(
                Config,
                "an element of an array continues only where its job can be requeued"
            ));
        }
        let mut record = self.run.read_run()?;
        let mut plan = self.plan.clone();
        if scaled.is_some() {
            plan.scaled_to = scaled;
            plan.resources.nodes = scaled.unwrap_or_default();
        }
        plan.first_attempt = self.attempt.attempt + 1;
        plan.first_output_is_own = plan.has_own_output();
        plan.output = record.output.clone().or(plan.output);
        plan.resources.begin = None;
        plan.resources.depends = vec![PlannedDependency {
            kind: DependencyKind::AfterAny,
            job_ids: vec![JobId(job)],
        }];
        let text = script::render_for_run(&plan, &record.run_id);
        let name = format!("job.{}.sh", plan.first_attempt);
        self.run.write_script(&name, &text)?;
        let submission = Submission {
            run_id: &record.run_id,
            plan: &plan,
            script: &self.run.path().join(name),
            run_dir: self.run.path(),
        };
        let submitted = scheduler.submit(&submission)?;
        end.next = Next::Resubmit;
        end.job_id = Some(submitted.job_id.clone());
        record.job_id = Some(submitted.job_id);
        Ok(self.run.write_run(&record)?)
    }

    fn say(&self, end: &AttemptEnd) {
        if end.verdict == Verdict::Finished {
            return;
        }
        let what = match end.next {
            Next::Nothing => "the run ends here",
            _ => "the run continues",
        };
        let number = self.attempt.attempt + 1;
        self.session.output.job_note(&format!(
            "start {number} of this run ended: {}; {what}: {}",
            end.evidence, end.why
        ));
    }

    /// The number of nodes that `dlrun scale` asked for since this start began.
    fn scale_asked(&self, reading: &Reading) -> Option<u32> {
        let begun_ms = reading.outcome.start.as_ref()?.at_ms;
        self.run
            .scale()
            .filter(|scale| scale.asked_at_ms > begun_ms)
            .map(|scale| scale.nodes)
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

    /// The job's id as its scheduler's commands know it.
    fn job_name(&self) -> Option<String> {
        let mut all = SchedulerVariables::ALL
            .iter()
            .filter(|it| it.kinds.contains(&self.plan.scheduler));
        all.find_map(|variables| std::env::var(variables.job_id).ok())
    }

    fn standing(&self) -> Option<Standing> {
        let scheduler = self.session.scheduler(self.plan.scheduler).ok()?;
        scheduler.standing(&self.job_name()?)
    }

    fn ends_at_ms(&self, standing: Option<Standing>) -> Option<u64> {
        let planned = self
            .plan
            .resources
            .walltime
            .map(|walltime| Duration::from_secs(walltime.0));
        let planned = planned
            .map(|walltime| now_ms() + u64::try_from(walltime.as_millis()).unwrap_or(u64::MAX));
        standing.and_then(|it| it.ends_at_ms).or(planned)
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

    fn ends(&self) -> Vec<AttemptEnd> {
        let attempts = self
            .before
            .iter()
            .filter_map(|reading| reading.outcome.attempt.as_ref());
        attempts.filter_map(|attempt| attempt.end.clone()).collect()
    }

    /// What was there before the run began.
    fn first_found(&self) -> Option<Checkpoint> {
        self.before.first()?.outcome.attempt.as_ref()?.found.clone()
    }

    fn newest(&self) -> Option<Checkpoint> {
        self.newest_after(self.before.last().unwrap_or(&Reading::default()))
    }

    /// The newest checkpoint after a start has ended. What a program was writing when it was killed is not taken.
    fn newest_after(&self, last: &Reading) -> Option<Checkpoint> {
        let killed = last
            .outcome
            .end
            .as_ref()
            .filter(|end| end.exit() == Some(ExitStatus::Signal(9)));
        let limit = killed.map(|end| end.at_ms.saturating_sub(HALF_WRITTEN_MS));
        let checkpoints = Checkpoints::new(&self.resume, &self.plan.workdir, self.attempt.element);
        checkpoints.newest(|checkpoint| limit.is_none_or(|limit| checkpoint.modified_ms < limit))
    }

    /// What the run has taken up to now, in hours of nodes. A start without an end mark counts up to the next one.
    fn node_hours(&self) -> f64 {
        let own = self.run.marks(self.attempt);
        let marks: Vec<&Reading> = self.before.iter().chain([&own]).collect();
        let begun: Vec<Option<u64>> = marks
            .iter()
            .map(|reading| Some(reading.outcome.start.as_ref()?.at_ms))
            .collect();
        let spent = marks.iter().enumerate().filter_map(|(index, reading)| {
            let start = begun[index]?;
            let next = begun.get(index + 1).copied().flatten();
            let end = reading
                .outcome
                .end
                .as_ref()
                .map(|end| end.ended_at_ms(reading.outcome.start.as_ref()));
            Some(end.or(next).unwrap_or_else(now_ms).saturating_sub(start))
        });
        let hours = Duration::from_millis(spent.sum()).as_secs_f64() / 3600.0;
        hours * f64::from(self.plan.resources.nodes.max(1))
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

/// Whether a node saw the last of the epochs end that its program announced.
fn trained_all(node: &NodeRecord) -> bool {
    let progress = &node.progress;
    let is_from_0 = progress.epoch_numbering == Some(EpochNumbering::ZeroBased);
    let last = progress
        .epochs
        .last()
        .map(|last| last.epoch.saturating_add(u64::from(is_from_0)));
    progress
        .epochs_announced
        .is_some_and(|all| last.is_some_and(|last| last >= all))
}
