//! `[resume]` in the plan: what the site allows, and what the job's limits and its scheduler make impossible.

use std::ops::Range;

use super::candidates::Prospect;
use super::decisions::{JOB_FILE, Resolver};
use super::forecast_text::basis_of;
use crate::foundation::diagnostic::Problem;
use crate::foundation::units::{Walltime, display_seconds};
use crate::job::{Elastic, ElasticTarget, Resume, ResumeOn, SaveSignal, SchedulerKind};
use crate::record::Interval;

/// What a start gives up for saving where the job file does not say, in seconds; that of its end is not known before.
const LEAD_SECONDS: u64 = 120;

impl Resolver<'_> {
    /// Takes `[resume]` over, within what the site allows.
    pub(super) fn resume(&mut self, prospect: &Prospect) {
        let Some(resume) = &self.spec.resume else {
            self.spares();
            if let Some(elastic) = &self.spec.elastic {
                let problem = Problem::at(
                    elastic.span.clone(),
                    "`[elastic]` needs `[resume]`: a start of another size begins with a checkpoint",
                );
                self.problems
                    .push(problem.hinted("write [resume] with checkpoints = [\"ckpt/*.pt\"]"));
            }
            return;
        };
        if !self.settings.allows_resume() {
            let origin = self.settings.origin("resume.use");
            let problem = Problem::at(
                resume.span.clone(),
                format!("`[resume]` is not allowed here: {origin} says so (`resume.use`)"),
            );
            self.problems.push(problem.hinted("take the table out; a job that is submitted again can look for its checkpoint itself"));
            return;
        }
        let span = resume.span.clone();
        let mut resume = resume.value.clone();
        let most = u32::try_from(self.settings.most_attempts()).unwrap_or(u32::MAX);
        if resume.attempts > most {
            let warning = format!(
                "`resume.attempts` is {most} here, not {}: the setting `resume.attempts` says so",
                resume.attempts
            );
            self.plan.warnings.push(warning);
            resume.attempts = most;
        }
        if let Some(cap) = self.settings.most_node_hours() {
            #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
            let cap = cap as f64;
            resume.node_hours = Some(resume.node_hours.map_or(cap, |own| own.min(cap)));
        }
        let walltime = self.plan.resources.walltime;
        self.problems
            .extend(self.resume_problems(&resume, &span, walltime));
        let text = described(&resume, walltime);
        self.decide("resume", text, JOB_FILE);
        self.plan.resume = Some(resume);
        self.plan.exclude_lost_nodes = self.settings.excludes_lost_nodes();
        self.elastic(prospect);
        self.spares();
    }

    /// Up to which time limit the scheduler may be asked for more while the run runs: as the job file says, within what site and queue
    /// allow.
    pub(super) fn extension(&mut self) {
        let asked = self.spec.resources.walltime_up_to;
        let Some(asked) = asked.filter(|_| !self.is_local()) else {
            return;
        };
        if self.plan.scheduler != SchedulerKind::Slurm {
            let kind = self.plan.scheduler.as_str();
            let warning = format!("without effect on {kind}: walltime_up_to = {asked}");
            self.plan.warnings.push(warning);
            return;
        }
        let hours = self.settings.extend_up_to_hours() as u64;
        let origin = self.settings.origin("limits.extend_up_to_hours");
        let by_setting = format!("`limits.extend_up_to_hours` = {hours} ({origin})");
        let site = self.site();
        let mut queues = site.iter().flat_map(|site| &site.queues);
        let queue = queues.find(|queue| Some(&queue.name) == self.queue.as_ref());
        let by_queue = queue.and_then(|queue| {
            let why = format!("queue `{}` allows no more", queue.name);
            Some((queue.max_walltime?, why))
        });
        let mut bounds = vec![(asked, JOB_FILE.to_owned())];
        bounds.push((Walltime(hours * 3600), by_setting));
        bounds.extend(by_queue);
        let least = bounds.into_iter().min_by_key(|(most, _)| *most);
        let (most, why) = least.unwrap_or((asked, String::new()));
        // A job without a limit needs no other.
        let is_more = self.plan.resources.walltime.is_some_and(|own| most > own);
        if is_more {
            self.plan.extend_up_to = Some(most.0);
            self.decide("walltime_up_to", most.to_string(), why);
            return;
        }
        let why = match self.plan.resources.walltime {
            None => "the job has no time limit".to_owned(),
            Some(_) => why,
        };
        let warning = format!("without effect: walltime_up_to = {asked}: {why}");
        self.plan.warnings.push(warning);
        self.decide("walltime_up_to", "not used", why);
    }

    /// Nodes more, for a training whose ranks dlrun starts on those nodes that are left.
    fn spares(&mut self) {
        let asked = &self.spec.resources;
        let kind = self.plan.scheduler;
        let has_them = matches!(kind, SchedulerKind::Slurm | SchedulerKind::OpenPbs);
        let Some(spares) = asked.spares.as_ref().filter(|_| has_them).cloned() else {
            return;
        };
        let resources = &self.plan.resources;
        let needs = [
            (
                self.plan.resume.is_some(),
                "`[resume]`: the run continues with a checkpoint",
                "write [resume] with checkpoints = [\"ckpt/*.pt\"]",
            ),
            (
                self.plan.launcher.is_distributed(),
                "a launcher that starts ranks on each node",
                "write launcher = \"ddp\", or another distributed launcher, under [run]",
            ),
            (
                resources.nodes > 1,
                "two nodes or more",
                "the batch script's own node cannot be replaced",
            ),
            (
                resources.tasks.is_none()
                    && resources.array.is_none()
                    && self.plan.elastic.is_none(),
                "the same number of tasks on each node, and no array and no `[elastic]`",
                "write tasks_per_node in place of tasks",
            ),
        ];
        let lacks: Vec<_> = needs.into_iter().filter(|(has, ..)| !has).collect();
        if !lacks.is_empty() {
            let joined = |words: Vec<&str>| words.join("; ");
            let what = joined(lacks.iter().map(|(_, what, _)| *what).collect());
            let hint = joined(lacks.iter().map(|(.., hint)| *hint).collect());
            let message = format!("`resources.spares` needs {what}");
            self.problems
                .push(Problem::at(spares.span, message).hinted(hint));
            return;
        }
        let spares = spares.value;
        self.plan.resources.spares = spares;
        self.plan.resources.nodes_asked = true;
        let text = format!("{spares} beside the {} in use", self.plan.resources.nodes);
        self.decide("spares", text, super::decisions::JOB_FILE);
    }

    /// `[elastic]`: Slurm gives each start what is free within the range; elsewhere a start has a fixed number.
    fn elastic(&mut self, prospect: &Prospect) {
        let Some(elastic) = &self.spec.elastic else {
            return;
        };
        let (span, elastic) = (&elastic.span, &elastic.value);
        let launcher = self.plan.launcher;
        let bounds = self.spec.resources.node_bounds();
        let refused = if self.plan.resources.array.is_some() {
            Some((
                "`[elastic]` of an array is not possible",
                "take `resources.array` out",
            ))
        } else if self.plan.scheduler.is_local() {
            Some((
                "`[elastic]` has no effect on this machine: it is one node",
                "submit to a cluster",
            ))
        } else if bounds.0 == bounds.1 {
            Some((
                "`[elastic]` needs a range of nodes",
                "write nodes = { min = 1, max = 4 } under [resources]",
            ))
        } else if !launcher.runs_on_each_node() {
            Some((
                "`[elastic]` needs a launcher that starts on each node",
                "write launcher = \"ddp\", or another distributed launcher, under [run]",
            ))
        } else if elastic.batch_per_rank.is_some() && self.spec.workload.batch_size.is_none() {
            Some((
                "`elastic.batch_per_rank` needs `workload.batch_size`, the batch of all ranks",
                "write batch_size = 1024 under [workload]",
            ))
        } else {
            None
        };
        if let Some((message, hint)) = refused {
            let problem = Problem::at(span.clone(), message);
            self.problems.push(problem.hinted(hint));
            return;
        }
        let (most, most_why) = match elastic.target {
            ElasticTarget::Max => (bounds.1, ""),
            ElasticTarget::Auto => most_worth_it(prospect, bounds.1),
        };
        let nodes = (bounds.0, most);
        let text = format!("{} to {} nodes a start", nodes.0, nodes.1);
        self.plan.elastic = Some(Elastic {
            nodes,
            ..elastic.clone()
        });
        let why = if self.plan.scheduler.is_pbs() {
            "PBS knows no ranges: `dlrun scale` changes the number"
        } else {
            "Slurm gives each start what is free; `dlrun scale` sets a number"
        };
        // Which of them is fastest is of no matter, unless it limits the range.
        if !self.plan.scheduler.is_pbs() && most_why.is_empty() {
            let range = format!("{} to {}", nodes.0, nodes.1);
            let why = super::decisions::JOB_FILE.to_owned();
            self.redecide("nodes", range, why, Vec::new());
        }
        self.decide("elastic", text, format!("{why}{most_why}"));
    }

    /// What follows from a forecast beyond the time limit: how many starts it comes to, without `[resume]` a warning.
    pub(super) fn starts(&mut self) {
        let (Some(forecast), Some(limit)) = (&self.plan.forecast, self.plan.resources.walltime)
        else {
            return;
        };
        let Some(total) = forecast.total_seconds else {
            return;
        };
        let Some(resume) = &self.plan.resume else {
            #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
            if total.median > limit.0 as f64 {
                let likely = display_seconds(total.median);
                let warning = format!(
                    "the forecast is {likely}, and the time limit {limit}: ask for more, or let the run continue with [resume]"
                );
                self.plan.warnings.push(warning);
            }
            return;
        };
        let lead = resume
            .lead
            .map_or(LEAD_SECONDS, |lead| lead.0)
            .min(limit.0 / 2);
        let Some((text, starts)) = chunks(total, limit.0 - lead, self.plan.resources.nodes) else {
            return;
        };
        if starts > u64::from(resume.attempts) {
            let attempts = resume.attempts;
            let warning = format!(
                "the forecast comes to {starts} starts, and `resume.attempts` allows {attempts}"
            );
            self.plan.warnings.push(warning);
        }
        let why = basis_of(forecast);
        self.decide("starts", text, why);
    }

    fn resume_problems(
        &self,
        resume: &Resume,
        span: &Range<usize>,
        walltime: Option<Walltime>,
    ) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut refuse = |message: String, hint: &str| {
            problems.push(Problem::at(span.clone(), message).hinted(hint));
        };
        if let (Some(lead), Some(walltime)) = (resume.lead, walltime)
            && lead.0 * 2 > walltime.0
        {
            let message =
                format!("`resume.lead` is {lead}, more than half of the time limit, {walltime}");
            refuse(
                message,
                "the program would be asked to save soon after each start; choose a shorter lead or a longer `resources.walltime`",
            );
        }
        let kind = self.plan.scheduler;
        if kind.is_pbs() && walltime.is_none() && resume.on.contains(&ResumeOn::Timeout) {
            let message = "`[resume]` needs `resources.walltime` here: a job of PBS does not know when its time is up";
            refuse(
                message.to_owned(),
                "write walltime = \"12h\" under [resources]",
            );
        }
        if kind.is_pbs() && self.plan.resources.array.is_some() {
            let message = "`[resume]` of an array is not possible here: users of PBS cannot requeue an element";
            refuse(message.to_owned(), "submit the jobs one by one");
        }
        if walltime.is_some_and(|walltime| walltime.0 < 60) && resume.lead.is_none() {
            let message = "`[resume]` with a time limit below one minute needs `resume.lead`";
            refuse(message.to_owned(), "write lead = \"10s\" under [resume]");
        }
        problems
    }
}

/// The most nodes that the model predicts to be worth it: the size that is fastest and uses its nodes as well as the job file asks.
fn most_worth_it(prospect: &Prospect, most: u32) -> (u32, &'static str) {
    match prospect.chosen() {
        // Of a size without a forecast nobody knows.
        Some(chosen)
            if prospect.scales
                && chosen.efficiency_ratio.is_some()
                && prospect
                    .candidates
                    .iter()
                    .all(|size| size.forecast.is_some()) =>
        {
            (
                chosen.nodes,
                "; more are not worth it by the forecast (`elastic.target`)",
            )
        }
        _ => (
            most,
            "; no run tells how it scales, so `elastic.target` excludes none",
        ),
    }
}

/// Starts of a training that takes `total`, of which each trains for `useful` seconds, in words and number; `None`: one suffices.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "counts of starts"
)]
fn chunks(total: Interval, useful: u64, nodes: u32) -> Option<(String, u64)> {
    let useful = useful.max(1) as f64;
    let starts = |seconds: f64| (seconds / useful).ceil().clamp(1.0, 1e6) as u64;
    let [low, middle, high] = [total.low, total.median, total.high].map(starts);
    if middle < 2 {
        return None;
    }
    let last = total.median - (middle - 1) as f64 * useful;
    let range = if low == high {
        String::new()
    } else {
        format!(" ({low} to {high})")
    };
    let hours = total.median / 3600.0 * f64::from(nodes.max(1));
    let text = format!(
        "about {middle}{range}: each trains {}, the last {}; {hours:.1} node hours in all",
        display_seconds(useful),
        display_seconds(last)
    );
    Some((text, middle))
}

fn described(resume: &Resume, walltime: Option<Walltime>) -> String {
    let lead = resume.lead.map(|lead| format!("{lead} "));
    let lead = lead.unwrap_or_default();
    let asked = match (resume.signal, walltime) {
        (_, None) => "no time limit in the job file".to_owned(),
        (SaveSignal::None, _) => format!("ends {lead}before each time limit"),
        (signal, _) => format!("gets SIG{signal} {lead}before each time limit"),
    };
    let on: Vec<&str> = resume.on.iter().map(|on| on.as_str()).collect();
    let hours = resume
        .node_hours
        .map_or_else(String::new, |hours| format!(", at most {hours} node hours"));
    format!(
        "continues after {}; {asked}; at most {} starts{hours}",
        on.join(", "),
        resume.attempts
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_beyond_the_limit_is_given_in_starts() {
        let total = |median: f64| Interval {
            mean: median,
            median,
            low: 0.9 * median,
            high: 1.3 * median,
        };
        assert_eq!(chunks(total(3000.0), 3480, 2), None);
        let (text, starts) = chunks(total(10_000.0), 3480, 2).expect("several");
        assert_eq!(starts, 3);
        assert_eq!(
            text,
            "about 3 (3 to 4): each trains 58 min 00 s, the last 50 min 40 s; 5.6 node hours in all"
        );
    }
}
