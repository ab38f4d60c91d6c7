//! Advice on an earlier run that a run follows, and what came of it.

use serde::{Deserialize, Serialize};

use crate::job::{JobState, RunId};

/// What was advised on the run before of the same workload, where a run does that and is the same in all else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Followed {
    /// The earlier run.
    pub run_id: RunId,
    /// The lines of the job file that were advised: `cpus_per_task = 4`.
    pub lines: Vec<String>,
    /// The share of its time that a run saves at most, 0 to 1; 0: it takes no more time. `None`: only limits were advised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saves_at_most: Option<f64>,
    /// What the earlier run took.
    pub before: Took,
}

/// What a run took.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Took {
    /// A steady epoch, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_seconds: Option<f64>,
    /// The whole run, in seconds, where it completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_seconds: Option<f64>,
    /// Whether it lost a process for want of memory.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub oom_killed: bool,
}

/// What came of advice that was followed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FollowedScore {
    /// The run's time over that of the earlier run; `None` where no time was predicted, or it is not known of both.
    pub time_ratio: Option<f64>,
    /// Of what: `epoch` or `run`.
    pub time_of: Option<&'static str>,
    /// Whether the advised limits sufficed; `None` where none was advised, and of a run that ended otherwise.
    pub suffices: Option<bool>,
}

impl Followed {
    fn has(&self, key: &str) -> bool {
        self.lines.iter().any(|line| line.starts_with(key))
    }

    /// What came of it in the run that follows it; `None` before its end.
    #[must_use]
    pub fn score(&self, took: Took, state: JobState) -> Option<FollowedScore> {
        if !state.is_final() {
            return None;
        }
        let of = |time_of, now: Option<f64>, before: Option<f64>| {
            let ratio = now? / before.filter(|before| *before > 0.0)?;
            Some((time_of, ratio))
        };
        let time = of("epoch", took.epoch_seconds, self.before.epoch_seconds)
            .or_else(|| of("run", took.run_seconds, self.before.run_seconds))
            .filter(|_| self.saves_at_most.is_some());
        let (walltime, memory) = (self.has("walltime"), self.has("memory"));
        let suffices = match state {
            JobState::Completed if memory && took.oom_killed => Some(false),
            JobState::Completed if walltime || memory => Some(true),
            JobState::Timeout if walltime => Some(false),
            JobState::OutOfMemory if memory => Some(false),
            _ => None,
        };
        Some(FollowedScore {
            time_ratio: time.map(|(_, ratio)| ratio),
            time_of: time.map(|(time_of, _)| time_of),
            suffices,
        })
    }

    /// `cpus_per_task = 4, as advised on k3f9a2: predicted up to 30 % less time, took 15 % less (an epoch)`.
    #[must_use]
    pub fn text(&self, score: Option<&FollowedScore>) -> String {
        let mut parts = Vec::new();
        if let Some(saves) = self.saves_at_most {
            let predicted = match saves {
                saves if saves > 0.0 => format!("up to {:.0} % less time", saves * 100.0),
                _ => "no more time".to_owned(),
            };
            let came = score.and_then(|score| score.time_ratio.zip(score.time_of));
            let came = came.map_or_else(String::new, |(ratio, of)| {
                let (change, way) = (
                    (ratio - 1.0).abs() * 100.0,
                    if ratio > 1.0 { "more" } else { "less" },
                );
                let what = if of == "epoch" { "an epoch" } else { "the run" };
                format!(", took {change:.0} % {way} ({what})")
            });
            parts.push(format!("predicted {predicted}{came}"));
        }
        if self.has("walltime") || self.has("memory") {
            let came = match score.and_then(|score| score.suffices) {
                Some(true) => ", and did",
                Some(false) => ", and did not",
                None => "",
            };
            parts.push(format!("predicted to suffice{came}"));
        }
        let (lines, run) = (self.lines.join(", "), &self.run_id.as_str()[..6]);
        format!("{lines}, as advised on {run}: {}", parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(lines: &[&str], saves_at_most: Option<f64>) -> Followed {
        Followed {
            run_id: RunId::from_random([7; 10]),
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
            saves_at_most,
            before: Took {
                epoch_seconds: Some(20.0),
                run_seconds: Some(100.0),
                oom_killed: false,
            },
        }
    }

    /// What is shown of it, behind the name of the earlier run.
    fn shown(followed: &Followed, took: Took, state: JobState) -> String {
        let text = followed.text(followed.score(took, state).as_ref());
        text.split_once(": ").expect("two parts").1.to_owned()
    }

    #[test]
    fn time_is_compared_by_epochs_else_by_whole_runs() {
        let more = followed(&["cpus_per_task = 8"], Some(0.3));
        let epochs = Took {
            epoch_seconds: Some(17.0),
            run_seconds: Some(99.0),
            ..Took::default()
        };
        let whole = Took {
            epoch_seconds: None,
            run_seconds: Some(110.0),
            ..Took::default()
        };
        let completed = JobState::Completed;
        assert_eq!(
            shown(&more, epochs, completed),
            "predicted up to 30 % less time, took 15 % less (an epoch)"
        );
        assert_eq!(
            shown(&more, whole, completed),
            "predicted up to 30 % less time, took 10 % more (the run)"
        );
        assert_eq!(
            shown(&more, Took::default(), JobState::Failed),
            "predicted up to 30 % less time"
        );
        let fewer = followed(&["cpus_per_task = 2"], Some(0.0));
        assert_eq!(
            shown(&fewer, epochs, JobState::Running),
            "predicted no more time"
        );
    }

    #[test]
    fn limits_suffice_or_do_not() {
        let limits = followed(&["walltime = \"45min\"", "memory = \"24GiB\""], None);
        let shown = |state| shown(&limits, Took::default(), state);
        assert_eq!(shown(JobState::Completed), "predicted to suffice, and did");
        assert_eq!(
            shown(JobState::OutOfMemory),
            "predicted to suffice, and did not"
        );
        assert_eq!(shown(JobState::Failed), "predicted to suffice");
        let killed = Took {
            oom_killed: true,
            ..Took::default()
        };
        let score = limits.score(killed, JobState::Completed);
        assert_eq!(score.expect("it is over").suffices, Some(false));
        let only_memory = followed(&["memory = \"24GiB\""], None);
        let score = only_memory
            .score(Took::default(), JobState::Timeout)
            .expect("it is over");
        assert_eq!((score.suffices, score.time_ratio), (None, None));
    }
}
