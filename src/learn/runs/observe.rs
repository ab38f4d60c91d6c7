//! What was measured of one start of a run, as an observation.

use super::{Doubts, EpochTally, Length, Observation};
use crate::job::JobState;
use crate::record::{ExitStatus, Hardware, NodeMeasure, NodeRecord, NodeState, Start, Submitted};

/// Others are a doubt from this share of the node's CPUs on.
const OTHERS_BUSY: f64 = 0.1;
/// A quota, heat or a power limit is a doubt where it held the run down for this share of its time.
const THROTTLED: f64 = 0.05;

/// How a start of a run ended, as far as its times go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It got through.
    Completed,
    /// It ended by itself, too early: its epochs count, its length does not.
    Failed,
    /// It would have gone on: cancelled, at its time limit, preempted, without its node.
    CutOff,
    /// It is still running.
    GoesOn,
}

impl NodeMeasure {
    /// What a node's record says. What its kind of node was measured to do is not in it.
    #[must_use]
    pub fn from_record(record: &NodeRecord) -> Self {
        let progress = &record.progress;
        let dropped = progress
            .epochs_completed
            .saturating_sub(progress.epochs.len() as u64);
        let mut tally = EpochTally::default();
        for (index, epoch) in (0..).zip(&progress.epochs) {
            // A record drops the oldest but the first.
            tally.add(if index == 0 { 0 } else { index + dropped }, epoch);
        }
        let parents: Vec<&str> = record
            .gpus
            .iter()
            .filter_map(|usage| usage.gpu.parent.as_deref())
            .collect();
        let gpus = || {
            record
                .gpus
                .iter()
                .filter(|usage| !parents.contains(&usage.gpu.uuid.as_str()))
        };
        Self {
            state: record.state,
            went_well: record.exit.is_some_and(ExitStatus::is_success),
            started_at_ms: record.started_at_ms,
            last_at_ms: record.ended_at_ms.unwrap_or(record.updated_at_ms),
            is_recognised: progress.recogniser.is_some(),
            epochs_completed: progress.epochs_completed,
            restarts: progress.restarts,
            epochs: tally.figures(),
            cpu_model: record.host.cpu_model.clone(),
            cpus: record.host.cpus,
            cpus_allowed: record.host.cpus_allowed,
            cpus_effective: record.conditions.cpus_effective,
            others_cpus_busy: record.conditions.others_cpus_busy,
            omp_num_threads: record.host.omp_num_threads.clone(),
            gpu_model: gpus().next().map(|usage| usage.gpu.name.clone()),
            gpus: u32::try_from(gpus().count()).unwrap_or(u32::MAX),
            gpu_throttled_seconds: gpus()
                .map(|usage| usage.throttled_seconds)
                .fold(0.0, f64::max),
            cpu_throttled_seconds: record.usage.cpu_throttled_seconds,
            wall_seconds: record.usage.wall_seconds,
            mem_peak_bytes: record.sure_memory_peak(),
            has_gaps: !record.gaps.is_empty(),
            figures: None,
        }
    }

    fn hardware(&self, tasks: u32) -> Hardware {
        let positive = |number: &f64| number.is_finite() && *number > 0.0;
        let cpus = self.cpus.map(|cpus| cpus as f64).filter(positive);
        let allowed = self.cpus_allowed.map(|cpus| cpus as f64).filter(positive);
        let allowed = self.cpus_effective.filter(positive).or(allowed);
        let may_use = allowed.or(cpus);
        // `4,2`: nested regions; the outer one has 4. It is the number of one process.
        let first = |text: &str| {
            text.split(',')
                .next()
                .and_then(|text| text.trim().parse::<u32>().ok())
        };
        let asked = self
            .omp_num_threads
            .as_deref()
            .and_then(first)
            .filter(|threads| *threads > 0);
        let asked = asked.map(|threads| f64::from(threads) * f64::from(tasks.max(1)));
        Hardware {
            cpu_model: self.cpu_model.clone(),
            threads: match (may_use, asked) {
                (Some(may_use), Some(asked)) => Some(may_use.min(asked)),
                (one, other) => one.or(other),
            },
            cpus,
            allowed,
            gpu_model: self.gpu_model.clone(),
            gpus: self.gpus,
            figures: self.figures,
        }
    }

    fn others_busy(&self) -> bool {
        let cpus = self.cpus.map(|cpus| cpus as f64).or(self.cpus_effective);
        self.others_cpus_busy
            .zip(cpus)
            .is_some_and(|(busy, cpus)| busy > OTHERS_BUSY * cpus)
    }

    fn throttled(&self) -> bool {
        let held = self
            .cpu_throttled_seconds
            .unwrap_or(0.0)
            .max(self.gpu_throttled_seconds);
        self.wall_seconds
            .is_some_and(|wall| held > THROTTLED * wall)
    }
}

impl Start {
    /// How it ended: by the state that was noted of its run or element; where that does not tell, by the batch shell's exit code and
    /// what the nodes saw.
    #[must_use]
    pub fn ending(&self) -> Ending {
        if !self.is_last {
            return Ending::CutOff;
        }
        match (self.state.unwrap_or(JobState::Unknown), self.shell_code) {
            (JobState::Completed, _) | (JobState::Unknown, Some(0)) => Ending::Completed,
            (JobState::Failed | JobState::OutOfMemory, _) | (JobState::Unknown, Some(_)) => {
                Ending::Failed
            }
            (
                JobState::Timeout | JobState::Preempted | JobState::NodeFail | JobState::Cancelled,
                _,
            ) => Ending::CutOff,
            (JobState::Pending | JobState::Running | JobState::Suspended, _) => Ending::GoesOn,
            (JobState::Unknown, None) => self.ending_by_nodes(),
        }
    }

    fn ending_by_nodes(&self) -> Ending {
        let all = |is: fn(&NodeMeasure) -> bool| self.nodes.iter().all(is);
        if !all(|node| node.state != NodeState::Interrupted) {
            Ending::CutOff
        } else if self.nodes.is_empty() || !all(|node| node.state == NodeState::Ended) {
            Ending::GoesOn
        } else if all(|node| node.went_well) {
            Ending::Completed
        } else {
            Ending::Failed
        }
    }

    /// The start as the model sees it; `None` where it is still running or nothing was measured.
    #[must_use]
    pub fn observe(&self, run: &Submitted) -> Option<Observation> {
        let ending = self.ending();
        if ending == Ending::GoesOn {
            return None;
        }
        let timed = self.timed()?;
        let epochs = &timed.epochs;
        let wall = self.wall_seconds();
        let cut_off = ending == Ending::CutOff;
        let completed = ending == Ending::Completed;
        let steady = epochs.steady_seconds.map(Length::Known);
        let only = epochs
            .only_seconds
            .filter(|_| completed && steady.is_none());
        let second = || cut_off.then(|| timed.second_epoch_at_least()).flatten();
        let memory = self
            .nodes
            .iter()
            .filter_map(|node| node.mem_peak_bytes)
            .max();
        let any = |has: fn(&NodeMeasure) -> bool| self.nodes.iter().any(has);
        let mut situation = run.situation.clone();
        let share = situation.hardware.gpu_model.take();
        situation.hardware = timed.hardware(situation.tasks_per_node);
        if let (Some(share), Some(model)) = (share, &mut situation.hardware.gpu_model) {
            *model = format!("{model} ({share})");
        }
        Some(Observation {
            run_id: run.run_id.clone(),
            element: self.element,
            attempt: self.attempt,
            at_ms: run.at_ms,
            scheduler: run.scheduler,
            queue: run.queue.clone(),
            situation,
            epoch_seconds: steady.or(only.map(Length::Known)).or_else(second),
            epochs: epochs.steady,
            between_seconds: timed.between(),
            outside_seconds: wall.and_then(|wall| match ending {
                Ending::Completed => timed.outside_of(wall).map(Length::Known),
                Ending::CutOff => timed.outside_at_least(wall),
                Ending::Failed | Ending::GoesOn => None,
            }),
            wall_seconds: match ending {
                Ending::Completed => wall.map(Length::Known),
                Ending::CutOff => wall.map(Length::AtLeast),
                Ending::Failed | Ending::GoesOn => None,
            },
            // One that was cut off after steady epochs had taken what it needs.
            memory_bytes: memory
                .filter(|bytes| *bytes > 0 && (completed || (cut_off && epochs.steady > 0))),
            doubts: Doubts {
                others_busy: any(NodeMeasure::others_busy),
                throttled: any(NodeMeasure::throttled),
                resumed: self.attempt > 0 || any(|node| node.restarts > 0),
                incomplete: any(|node| node.has_gaps || node.state == NodeState::Interrupted),
                warm_up: only.is_some(),
            },
        })
    }

    /// The node whose epochs stand for the run: the first with epochs, else the first in whose output anything was recognised,
    /// else the first.
    fn timed(&self) -> Option<&NodeMeasure> {
        let with_epochs = self.nodes.iter().find(|node| node.epochs_completed > 0);
        let recognised = || self.nodes.iter().find(|node| node.is_recognised);
        with_epochs
            .or_else(recognised)
            .or_else(|| self.nodes.first())
    }

    /// From the beginning of its script to its end, in seconds; without marks by what the nodes saw.
    fn wall_seconds(&self) -> Option<f64> {
        let started = self
            .started_at_ms
            .or_else(|| self.nodes.iter().map(|node| node.started_at_ms).min())?;
        let ended = self
            .ended_at_ms
            .or_else(|| self.nodes.iter().map(|node| node.last_at_ms).max())?;
        let passed_ms = ended.checked_sub(started).filter(|ms| *ms > 0)?;
        Some(passed_ms as f64 / 1e3)
    }
}

impl NodeMeasure {
    /// Of a node that was cut off in its second epoch: what it had run into it, in seconds.
    fn second_epoch_at_least(&self) -> Option<Length> {
        let passed_ms = self
            .last_at_ms
            .checked_sub(self.epochs.last_ended_at_ms?)
            .filter(|ms| *ms > 0)?;
        (self.epochs.ended == 1).then_some(Length::AtLeast(passed_ms as f64 / 1e3))
    }

    /// What each epoch took beside its training, in seconds.
    fn between(&self) -> Option<f64> {
        let steady = self.epochs.steady_seconds?;
        let cycle = self.epochs.cycle_seconds.filter(|_| self.restarts == 0)?;
        // Lines that wait in a program's buffer all end at once.
        (cycle > 0.9 * steady).then_some((cycle - steady).max(0.0))
    }

    /// What of the run's `wall` seconds does not go by epochs; `None` where they do not explain it.
    fn outside_of(&self, wall: f64) -> Option<f64> {
        let epoch = self.epochs.steady_seconds.or(self.epochs.only_seconds)?;
        let each = epoch + self.between().unwrap_or(0.0);
        let outside = wall - self.epochs_completed as f64 * each;
        // It comes out a little short where the last epochs were quick.
        (self.restarts == 0 && outside > -epoch).then_some(outside.max(0.0))
    }

    /// The same of a run that was cut off: what it spent in an epoch that it did not end is no part of it.
    fn outside_at_least(&self, wall: f64) -> Option<Length> {
        let ended_at_ms = self.epochs.last_ended_at_ms;
        let since = ended_at_ms.and_then(|at_ms| self.last_at_ms.checked_sub(at_ms));
        let since = since.map(|ms| ms as f64 / 1e3);
        let in_epoch = since.or(self.epochs.steady_seconds)?;
        let outside = self.outside_of(wall)? - in_epoch;
        (outside > 0.0).then_some(Length::AtLeast(outside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{RunId, SchedulerKind};
    use crate::learn::runs::tally::tests::{figures, stated};
    use crate::record::Situation;
    use crate::record::{Epoch, EpochFigures};

    fn node() -> NodeMeasure {
        NodeMeasure {
            state: NodeState::Ended,
            went_well: true,
            started_at_ms: 2_000,
            last_at_ms: 62_000,
            is_recognised: true,
            epochs_completed: 0,
            restarts: 0,
            epochs: EpochFigures::default(),
            cpu_model: None,
            cpus: Some(8),
            cpus_allowed: None,
            cpus_effective: None,
            others_cpus_busy: None,
            omp_num_threads: None,
            gpu_model: None,
            gpus: 0,
            gpu_throttled_seconds: 0.0,
            cpu_throttled_seconds: None,
            wall_seconds: Some(60.0),
            mem_peak_bytes: Some(1 << 30),
            has_gaps: false,
            figures: None,
        }
    }

    /// Epochs of 12, 5, 5 and 5 s.
    fn trained() -> NodeMeasure {
        let epochs = figures(&[stated(12.0), stated(5.5), stated(5.0), stated(4.5)]);
        NodeMeasure {
            epochs_completed: 4,
            epochs,
            ..node()
        }
    }

    fn observed(ending: Ending, nodes: Vec<NodeMeasure>) -> Option<Observation> {
        let run = Submitted {
            run_id: RunId::from_random([1; 10]),
            at_ms: 500,
            scheduler: SchedulerKind::Local,
            queue: None,
            situation: Situation::default(),
        };
        let start = Start {
            element: 0,
            attempt: 0,
            is_last: true,
            state: Some(match ending {
                Ending::Completed => JobState::Completed,
                Ending::Failed => JobState::Failed,
                Ending::CutOff => JobState::Timeout,
                Ending::GoesOn => JobState::Running,
            }),
            shell_code: None,
            started_at_ms: Some(1_000),
            ended_at_ms: Some(63_000),
            nodes,
        };
        start.observe(&run)
    }

    #[test]
    fn a_run_that_got_through_tells_all() {
        let seen = observed(Ending::Completed, vec![trained()]).expect("an observation");
        assert_eq!(
            (seen.epoch_seconds, seen.epochs),
            (Some(Length::Known(5.0)), 3)
        );
        assert_eq!(seen.wall_seconds, Some(Length::Known(62.0)));
        assert_eq!(
            (seen.between_seconds, seen.outside_seconds),
            (None, Some(Length::Known(42.0))),
            "62 s and four epochs"
        );
        assert_eq!(seen.memory_bytes, Some(1 << 30));
        assert!(!seen.doubts.any());
    }

    #[test]
    fn what_was_cut_off_is_a_bound_and_no_mean() {
        let seen = observed(Ending::CutOff, vec![trained()]).expect("an observation");
        assert_eq!(
            seen.epoch_seconds,
            Some(Length::Known(5.0)),
            "epochs that were seen to their end count"
        );
        let bound = Some(Length::AtLeast(37.0));
        assert_eq!(
            (seen.wall_seconds, seen.outside_seconds),
            (Some(Length::AtLeast(62.0)), bound),
            "one more epoch may have gone on"
        );
        let mut first = stated(12.0);
        first.ended_at_ms = Some(22_000);
        let early = NodeMeasure {
            epochs_completed: 1,
            epochs: figures(&[first]),
            ..node()
        };
        let seen = observed(Ending::CutOff, vec![early.clone()]).expect("an observation");
        assert_eq!(
            (seen.epoch_seconds, seen.memory_bytes),
            (Some(Length::AtLeast(40.0)), None)
        );
        // One that was to have one epoch has measured it, if with all that a start takes.
        let seen = observed(Ending::Completed, vec![early.clone()]).expect("an observation");
        assert_eq!(
            (seen.epoch_seconds, seen.doubts.warm_up),
            (Some(Length::Known(12.0)), true)
        );
        assert_eq!(seen.outside_seconds, Some(Length::Known(50.0)));
        // That it ended by itself bounds nothing.
        assert_eq!(
            observed(Ending::Failed, vec![early])
                .expect("an observation")
                .epoch_seconds,
            None
        );
        assert_eq!(
            observed(Ending::CutOff, vec![node()])
                .expect("an observation")
                .epoch_seconds,
            None
        );
    }

    /// Epochs of a second that end a second and a half apart; the first has no known beginning.
    fn without_beginning(apart_ms: u64) -> NodeMeasure {
        let ended = |number: u64| Epoch {
            ended_at_ms: Some(50_000 + number * apart_ms),
            ..if number == 0 {
                Epoch::default()
            } else {
                stated(1.0)
            }
        };
        let epochs: Vec<Epoch> = (0..5).map(ended).collect();
        NodeMeasure {
            epochs_completed: 5,
            epochs: figures(&epochs),
            ..node()
        }
    }

    #[test]
    fn what_goes_by_epochs_is_apart_from_what_does_not() {
        let seen = |node| observed(Ending::Completed, vec![node]).expect("an observation");
        let clocked = seen(without_beginning(1_500));
        assert_eq!(clocked.epoch_seconds, Some(Length::Known(1.0)));
        assert_eq!(
            (clocked.between_seconds, clocked.outside_seconds),
            (Some(0.5), Some(Length::Known(54.5))),
            "62 s and five epochs"
        );
        // All lines came at once: their clock shows nothing.
        let buffered = seen(without_beginning(1));
        assert_eq!(
            (buffered.between_seconds, buffered.outside_seconds),
            (None, Some(Length::Known(57.0)))
        );
        let restarted = seen(NodeMeasure {
            restarts: 1,
            ..without_beginning(1_500)
        });
        assert_eq!(
            (restarted.between_seconds, restarted.outside_seconds),
            (None, None)
        );
        // Where the others were longer than the first nothing is left; where they explain more than there was, nothing is known.
        let quick = |seconds| {
            let epochs = [
                Epoch::default(),
                stated(19.0),
                stated(20.0),
                stated(seconds),
            ];
            let of_four = NodeMeasure {
                epochs_completed: 4,
                epochs: figures(&epochs),
                ..node()
            };
            seen(of_four).outside_seconds
        };
        assert_eq!(quick(20.0), Some(Length::Known(0.0)));
        let many = NodeMeasure {
            epochs_completed: 6,
            ..trained()
        };
        assert_eq!(
            seen(many.clone()).outside_seconds,
            Some(Length::Known(32.0))
        );
        let longer = NodeMeasure {
            epochs_completed: 16,
            ..many
        };
        assert_eq!(seen(longer).outside_seconds, None);
    }

    #[test]
    fn of_a_failed_run_the_epochs_count_and_its_length_does_not() {
        let seen = observed(Ending::Failed, vec![trained()]).expect("an observation");
        assert_eq!(seen.epoch_seconds, Some(Length::Known(5.0)));
        assert_eq!(
            (seen.wall_seconds, seen.memory_bytes, seen.outside_seconds),
            (None, None, None)
        );
        assert_eq!(observed(Ending::GoesOn, vec![trained()]), None);
        assert_eq!(observed(Ending::Completed, Vec::new()), None);
    }

    #[test]
    fn threads_are_what_the_program_can_keep_busy() {
        let threads = |effective: Option<f64>, omp: Option<&str>, tasks| {
            let node = NodeMeasure {
                cpus_effective: effective,
                omp_num_threads: omp.map(str::to_owned),
                ..node()
            };
            node.hardware(tasks).threads
        };
        assert_eq!(threads(Some(4.0), Some("2"), 1), Some(2.0));
        assert_eq!(threads(Some(4.0), Some("16,2"), 1), Some(4.0));
        assert_eq!(
            threads(Some(6.5), Some("2"), 3),
            Some(6.0),
            "each task has two"
        );
        assert_eq!(
            [
                threads(Some(4.0), Some("many"), 1),
                threads(None, Some("0"), 1)
            ],
            [Some(4.0), Some(8.0)]
        );
        assert_eq!(threads(Some(f64::NAN), None, 1), Some(8.0));
    }

    #[test]
    fn what_speaks_against_a_measurement_is_noted() {
        let doubts = |node| {
            observed(Ending::Completed, vec![trained(), node])
                .expect("an observation")
                .doubts
        };
        assert!(
            doubts(NodeMeasure {
                others_cpus_busy: Some(0.9),
                ..node()
            })
            .others_busy
        );
        assert!(
            !doubts(NodeMeasure {
                others_cpus_busy: Some(0.7),
                ..node()
            })
            .any(),
            "of 8 CPUs"
        );
        assert!(
            doubts(NodeMeasure {
                cpu_throttled_seconds: Some(4.0),
                ..node()
            })
            .throttled
        );
        assert!(
            doubts(NodeMeasure {
                gpu_throttled_seconds: 4.0,
                ..node()
            })
            .throttled
        );
        assert!(
            doubts(NodeMeasure {
                restarts: 1,
                ..node()
            })
            .resumed
        );
        assert!(
            doubts(NodeMeasure {
                has_gaps: true,
                ..node()
            })
            .incomplete
        );
        assert!(
            doubts(NodeMeasure {
                state: NodeState::Interrupted,
                ..node()
            })
            .incomplete
        );
    }

    #[test]
    fn how_a_start_ended_is_told_by_state_shell_or_nodes() {
        let of = |state, is_last, shell_code, nodes: &[NodeMeasure]| {
            let start = Start {
                element: 0,
                attempt: 0,
                is_last,
                state,
                shell_code,
                started_at_ms: None,
                ended_at_ms: None,
                nodes: nodes.to_vec(),
            };
            start.ending()
        };
        assert_eq!(
            of(Some(JobState::Completed), true, None, &[]),
            Ending::Completed
        );
        assert_eq!(
            of(Some(JobState::Completed), false, Some(0), &[]),
            Ending::CutOff,
            "it was requeued"
        );
        assert_eq!(
            of(Some(JobState::Timeout), true, Some(0), &[]),
            Ending::CutOff
        );
        assert_eq!(
            of(Some(JobState::OutOfMemory), true, None, &[]),
            Ending::Failed
        );
        assert_eq!(
            of(Some(JobState::Running), true, None, &[node()]),
            Ending::GoesOn
        );
        assert_eq!(of(None, true, Some(0), &[]), Ending::Completed);
        assert_eq!(
            of(Some(JobState::Unknown), true, Some(3), &[]),
            Ending::Failed
        );
        let killed = NodeMeasure {
            state: NodeState::Interrupted,
            ..node()
        };
        assert_eq!(of(None, true, None, &[node(), killed]), Ending::CutOff);
        assert_eq!(of(None, true, None, &[node()]), Ending::Completed);
        assert_eq!(
            of(
                None,
                true,
                None,
                &[NodeMeasure {
                    went_well: false,
                    ..node()
                }]
            ),
            Ending::Failed
        );
        assert_eq!(of(None, true, None, &[]), Ending::GoesOn);
    }
}
