//! What the job file leaves to the performance model: nodes, compiler, time limit, memory.

use super::candidate::{named, whole_bytes};
use super::prospect::Prospect;
use super::resolve::{JOB_FILE, Resolver};
use super::{Candidate, PlannedResources, Rejected, words};
use crate::job::{Asked, NodeCount, SchedulerKind};
use crate::record::{Basis, Forecast, Interval};
use crate::site::{self, NodeType};
use crate::units::{Bytes, Walltime, display_seconds};

/// What a run needs beyond its forecast: the end of the job with its last records.
const LEAD_SECONDS: f64 = 60.0;

/// Time limits are rounded up to this, in seconds: up to an hour, and beyond.
const STEPS: (u64, u64) = (5 * 60, 15 * 60);

/// Memory is asked for in steps of this, in bytes, and by so much more than the forecast.
const MEMORY_STEP: u64 = 256 << 20;
const MEMORY_RESERVE: f64 = 1.1;

/// With fewer runs behind it a limit is set, and said to be a guess.
const FEW_RUNS: u64 = 3;

/// More other choices are not named in a decision.
const MAX_NAMED: usize = 8;

impl Resolver<'_> {
    /// Fills in what waited for the candidates, where it was asked.
    pub(super) fn settle(
        &mut self,
        resources: &mut PlannedResources,
        prospect: &Prospect,
        scheduler: SchedulerKind,
        queue: Option<&str>,
    ) {
        let local = scheduler == SchedulerKind::Local;
        if let Some(chosen) = prospect.chosen() {
            resources.nodes = chosen.nodes;
        }
        self.sized(prospect);
        let asked = &self.spec.resources;
        if asked.memory == Some(Asked::Auto) {
            let (memory, why) = self.memory(prospect, scheduler, queue);
            resources.memory = memory;
            self.settled("memory", memory.map(|memory| memory.to_string()), why, local);
        }
        if asked.walltime == Some(Asked::Auto) {
            let (walltime, why) = self.walltime(prospect, scheduler, queue);
            resources.walltime = walltime;
            self.settled("walltime", walltime.map(|walltime| walltime.to_string()), why, local);
        }
    }

    fn settled(&mut self, what: &str, value: Option<String>, why: String, local: bool) {
        match value {
            Some(value) => self.redecide(what, value, why, Vec::new()),
            None => {
                let holds =
                    if local { "a local job may use all there is" } else { "the site's default holds" };
                self.redecide(what, "left out".to_owned(), format!("{why}; {holds}"), Vec::new());
            }
        }
    }

    /// The decision on a range of nodes.
    fn sized(&mut self, prospect: &Prospect) {
        let asked = self.spec.resources.nodes.as_ref().map(|nodes| nodes.value);
        let (Some(NodeCount::Between { min, max, efficiency }), Some(chosen)) = (asked, prospect.chosen())
        else {
            return;
        };
        let is_size = |other: &&Candidate| other.image == chosen.image && other.compiler == chosen.compiler;
        let sizes: Vec<&Candidate> = prospect.candidates.iter().filter(is_size).collect();
        let mut why = format!("{JOB_FILE}: {min} to {max}");
        let reason = prospect.reason(|other| is_size(&other) && other.nodes != chosen.nodes);
        match (reason, chosen.efficiency_ratio) {
            (Some(reason), Some(ratio)) => {
                let (ratio, least) = (words::per_cent(ratio), words::per_cent(efficiency));
                why = format!("{why}; {reason}; parallel efficiency {ratio}, at least {least} is asked");
            }
            (None, _) if sizes.len() > 1 => {
                why.push_str(&format!("; the fewest, for {}", prospect.without_model()))
            }
            _ => {}
        }
        if let Some(limit) = &prospect.most_nodes {
            why = format!("{why}; {limit}");
        }
        let others = sizes.iter().filter(|other| other.nodes != chosen.nodes).take(MAX_NAMED);
        let rejected = others.filter_map(|other| {
            let time = words::time(other.forecast.as_ref()?);
            let why = match (&other.rejected, other.efficiency_ratio) {
                (Some(why), _) => format!("{time}, but {why}"),
                (None, Some(ratio)) => format!("{time}, parallel efficiency {}", words::per_cent(ratio)),
                (None, None) => time,
            };
            Some(Rejected { value: other.nodes.to_string(), why })
        });
        let rejected = rejected.collect();
        self.redecide("nodes", chosen.nodes.to_string(), why, rejected);
    }

    /// The decisions on the compiler, where it is left to choose, and on what is to be expected.
    pub(super) fn told(&mut self, prospect: &Prospect) {
        let Some(chosen) = prospect.chosen() else { return };
        if self.spec.left_to_model.compiler {
            self.compiled(prospect, chosen);
        }
        let (Some(forecast), Some(model)) = (&chosen.forecast, &prospect.model) else { return };
        let why = format!("model {} ({}), {}", forecast.model, model.origin, words::basis_of(forecast));
        self.decide("forecast", words::all_of(forecast), why);
        for beyond in &forecast.beyond {
            self.notes.push(format!("the forecast goes beyond what was measured: {beyond}"));
        }
        self.notes.extend(prospect.assumed_hardware.clone());
        self.notes
            .extend(forecast.assumed.iter().map(|assumed| format!("the job file leaves it out: {assumed}")));
        if self.spec.workload.samples.is_none() && forecast.basis > Basis::Workload {
            let why = "the runs of other trainings, which say how many they have, tell nothing of this one";
            self.notes.push(format!("`workload.samples` is not said: {why}"));
        }
        let choices = prospect.candidates.iter().filter(|other| other.rejected.is_none()).count();
        if self.spec.left_to_model.explore > 0.0 && choices < 2 {
            self.notes.push("`framework.explore` has no effect: there is nothing to choose among".to_owned());
        }
    }

    fn compiled(&mut self, prospect: &Prospect, chosen: &Candidate) {
        let is_other = |other: &Candidate| {
            other.compiler != chosen.compiler && other.image == chosen.image && other.nodes == chosen.nodes
        };
        let why = match prospect.reason(is_other) {
            Some(reason) => reason,
            None => format!("{}; rules decide, for {}", prospect.compiler_rule, prospect.without_model()),
        };
        let compiler = chosen.compiler.clone().unwrap_or_default();
        self.decide("compiler", compiler, format!("the job file leaves it open; {why}"));
        for other in prospect.candidates.iter().filter(|other| is_other(other)).take(MAX_NAMED) {
            let why = match &other.forecast {
                Some(forecast) => format!("{}, {}", words::time(forecast), words::basis_of(forecast)),
                None => "rules put it behind".to_owned(),
            };
            self.reject(named(other.compiler.as_deref().unwrap_or_default()), why);
        }
    }

    fn walltime(
        &mut self,
        prospect: &Prospect,
        scheduler: SchedulerKind,
        queue: Option<&str>,
    ) -> (Option<Walltime>, String) {
        let forecast = match dependable(prospect) {
            Ok(forecast) => forecast,
            Err(why) => return (None, why),
        };
        let Some(total) = &forecast.total_seconds else {
            let why = match self.spec.workload.epochs {
                None => "`auto` needs `workload.epochs`: the model knows how long an epoch takes",
                Some(_) => "the model cannot say how long the run takes",
            };
            return (None, why.to_owned());
        };
        let upper = display_seconds(total.high);
        let Some(wanted) = rounded(total) else {
            return (None, format!("the run may take {upper}, which no limit holds"));
        };
        let lead = display_seconds(LEAD_SECONDS);
        let why = format!(
            "one run in twenty takes longer than {upper}; that and {lead} for the job's end, rounded up; {}",
            words::basis_of(forecast)
        );
        self.warn_of_few("walltime", &wanted.to_string(), forecast);
        let Some(limit) = self.longest(scheduler, queue).filter(|limit| *limit < wanted) else {
            return (Some(wanted), why);
        };
        if (limit.0 as f64) < total.high {
            let median = display_seconds(total.median);
            self.warnings.push(format!(
                "walltime = {limit} is the queue's longest, and the run may take {upper} ({median} as likely as not): it may be cut off"
            ));
        }
        (Some(limit), format!("{why}; cut from {wanted} to the longest that the queue allows"))
    }

    fn memory(
        &mut self,
        prospect: &Prospect,
        scheduler: SchedulerKind,
        queue: Option<&str>,
    ) -> (Option<Bytes>, String) {
        let forecast = match dependable(prospect) {
            Ok(forecast) => forecast,
            Err(why) => return (None, why),
        };
        let upper = forecast.memory_bytes.as_ref().and_then(|memory| whole_bytes(memory.high));
        let wanted = forecast.memory_bytes.as_ref().and_then(memory_wanted);
        let (Some(upper), Some(wanted)) = (upper, wanted) else {
            return (None, "the model cannot say how much memory the run takes".to_owned());
        };
        let why = format!(
            "one run in twenty takes more than {upper}; that and a tenth, rounded up to {}; {}",
            Bytes(MEMORY_STEP),
            words::basis_of(forecast)
        );
        self.warn_of_few("memory", &wanted.to_string(), forecast);
        if scheduler == SchedulerKind::Local {
            return (Some(wanted), format!("{why}; a local job is not held to it"));
        }
        let Some(limit) = self.largest(scheduler, queue).filter(|limit| *limit < wanted) else {
            return (Some(wanted), why);
        };
        if limit < upper {
            self.warnings
                .push(format!("memory = {limit} is the largest node's, and the run may take {upper}"));
        }
        (Some(limit), format!("{why}; cut from {wanted} to what the largest node has"))
    }

    fn warn_of_few(&mut self, what: &str, value: &str, forecast: &Forecast) {
        if forecast.runs < FEW_RUNS {
            let runs = words::count(forecast.runs, "run");
            self.warnings.push(format!("{what} = {value} is a guess: it rests on {runs} only"));
        }
        if !forecast.beyond.is_empty() {
            let beyond = forecast.beyond.join("; ");
            self.warnings.push(format!("{what} = {value} goes beyond what was measured: {beyond}"));
        }
    }

    /// The longest time limit of the queue.
    fn longest(&self, scheduler: SchedulerKind, queue: Option<&str>) -> Option<Walltime> {
        let model = self.facts.site.as_ref().filter(|model| model.scheduler == scheduler)?;
        let model = site::overlaid(model, &self.settings.tables().queues);
        model.queues.iter().find(|known| Some(known.name.as_str()) == queue)?.max_walltime
    }

    /// The memory of the queue's largest node.
    fn largest(&self, scheduler: SchedulerKind, queue: Option<&str>) -> Option<Bytes> {
        let model = self.facts.site.as_ref().filter(|model| model.scheduler == scheduler)?;
        let is_of = |node: &NodeType, queue| node.queues.iter().any(|own| own == queue);
        let serves =
            |node: &&NodeType| node.queues.is_empty() || queue.is_none_or(|queue| is_of(node, queue));
        model.nodes.iter().filter(serves).filter_map(|node| node.memory).max()
    }
}

/// The forecast, where it rests on runs of this workload: others say little of its absolute time and size.
fn dependable(prospect: &Prospect) -> Result<&Forecast, String> {
    let forecast = prospect.forecast().ok_or_else(|| {
        let hint = if prospect.is_model_silent {
            "is `[workload]` all there, with `samples`?"
        } else {
            "`dlrun model fit` makes one of recorded runs"
        };
        format!("`auto` needs a forecast, and {}: {hint}", prospect.without_model())
    })?;
    if forecast.basis > Basis::Workload {
        return Err(format!(
            "the model knows no run of this workload ({} it would say)",
            words::basis_of(forecast)
        ));
    }
    Ok(forecast)
}

/// The time limit for a run: what one in twenty exceeds, and the job's end, rounded up. `None`: no limit is so long.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
fn rounded(total: &Interval) -> Option<Walltime> {
    const TEN_YEARS: f64 = 3650.0 * 86_400.0;
    let seconds = total.high + LEAD_SECONDS;
    if !(0.0..TEN_YEARS).contains(&seconds) {
        return None;
    }
    let seconds = seconds.ceil() as u64;
    let step = if seconds <= 3600 { STEPS.0 } else { STEPS.1 };
    Some(Walltime(seconds.next_multiple_of(step)))
}

/// The memory for a run: what one in twenty exceeds, and a tenth, rounded up.
fn memory_wanted(memory: &Interval) -> Option<Bytes> {
    let bytes = whole_bytes(memory.high * MEMORY_RESERVE)?;
    bytes.0.max(1).checked_next_multiple_of(MEMORY_STEP).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(high: f64) -> Interval {
        Interval { mean: high / 2.0, median: high / 2.0, low: high / 4.0, high }
    }

    #[test]
    fn time_limits_are_rounded_up_with_room_for_the_end() {
        let limit = |high: f64| rounded(&below(high)).map(|limit| limit.0);
        assert_eq!(limit(1.0), Some(300));
        assert_eq!(limit(240.0), Some(300));
        assert_eq!(limit(240.5), Some(600), "the end has its minute");
        assert_eq!(limit(3540.0), Some(3600));
        assert_eq!(limit(3541.0), Some(4500), "beyond an hour it goes by quarters");
        assert_eq!(limit(f64::NAN), None);
        assert_eq!(limit(f64::INFINITY), None);
        assert_eq!(limit(1e12), None);
    }

    #[test]
    fn memory_is_rounded_up_with_a_reserve() {
        let mebibytes = |high: f64| memory_wanted(&below(high)).map(|memory| memory.0 >> 20);
        assert_eq!(mebibytes(1.0), Some(256));
        assert_eq!(mebibytes(f64::from(230 << 20)), Some(256));
        assert_eq!(mebibytes(f64::from(240 << 20)), Some(512), "the tenth counts");
        assert_eq!(mebibytes(f64::NAN), None);
        assert_eq!(mebibytes(f64::INFINITY), None);
    }
}
