//! ASHA with promotion (Li et al., MLSys 2020, algorithm 2): every trial trains for a few epochs; the best `1/eta` of those that came
//! as far continue from their checkpoints, for `eta` times as many epochs in all, and so on.

use super::document::Sweep;
use super::outcome::Outcome;
use super::start::{Promotion, first_start};
use super::study::Study;
use crate::learn::bench::{Settled, Slot};

impl Sweep {
    /// The trial that continues next. `is_end`: no trial runs and none is left to begin. Then the best of a rung continues even where fewer
    /// than `eta` reached it, so that one trial is trained to its end.
    #[must_use]
    pub fn next_promotion(&self, study: &Study, is_end: bool) -> Option<(usize, Promotion)> {
        // What is due comes first: it may fill the rung above.
        let due = self.promotion_of(study, 0);
        due.or_else(|| is_end.then(|| self.promotion_of(study, 1)).flatten())
    }

    /// How often a trial continues if each `1/eta` of a rung does, and one comes to the end.
    pub(super) fn promotions_likely(&self) -> usize {
        let factors = std::iter::successors(Some(self.eta), |factor| factor.checked_mul(self.eta));
        let beyond = self.rungs().len().saturating_sub(1);
        let shares = factors.map(|factor| (self.trials / factor).max(1) as usize);
        shares.chain(std::iter::repeat(1)).take(beyond).sum()
    }

    /// `least`: so many of a rung continue at least.
    fn promotion_of(&self, study: &Study, least: usize) -> Option<(usize, Promotion)> {
        let rungs = self.rungs();
        let eta = usize::try_from(self.eta).unwrap_or(usize::MAX);
        let ends = rungs.iter().enumerate().skip(1).rev();
        ends.into_iter().find_map(|(next, epochs)| {
            let mut reached = self.reached(study, next - 1);
            let share = (reached.len() / eta).max(least);
            reached.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
            let best = reached
                .into_iter()
                .filter(|(_, number, _)| !is_gone(study, *number, next));
            let mut left = best
                .take(share)
                .filter(|(_, number, _)| study.promotions(*number).len() < next);
            let (_, number, from) = left.find(|(.., from)| from.is_some())?;
            let (epochs, from) = (*epochs, from?.to_owned());
            Some((number, Promotion { epochs, from }))
        })
    }

    /// The trials that reached a rung, or failed on the way to it: cost, number, and the checkpoint of those that may continue.
    fn reached<'s>(&self, study: &'s Study, rung: usize) -> Vec<(f64, usize, Option<&'s str>)> {
        let outcome = |number: usize| {
            let outcome = at_rung(study, number, rung).filter(|outcome| outcome.counts())?;
            let value = outcome.learned();
            let from = outcome.checkpoint.as_deref().filter(|_| value.is_some());
            Some((self.metric.cost(value.unwrap_or(f64::NAN)), number, from))
        };
        study.numbers().filter_map(outcome).collect()
    }
}

/// What the start of a trial up to a rung came to.
fn at_rung(study: &Study, number: usize, rung: usize) -> Option<&Outcome> {
    let repeat = u32::try_from(rung).unwrap_or(u32::MAX);
    let first = first_start(number);
    study.outcome(Slot { repeat, ..first })
}

/// One whose start up to a rung was cancelled or lost its nodes leaves its place to another.
fn is_gone(study: &Study, number: usize, rung: usize) -> bool {
    at_rung(study, number, rung).is_some_and(|outcome| !outcome.counts())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobState, RunId};
    use crate::learn::bench::{Entry, Lines};
    use crate::learn::sweep::{Note, Outcome, Values, parse};

    const SWEEP: &str = r#"
        [run]
        command = ["train", "{{lr}}", "{{epochs}}"]
        [workload]
        epochs = 20
        [resume]
        checkpoints = ["ckpt/{{trial}}/*"]
        [sweep]
        metric = "loss"
        mode = "min"
        trials = 9
        stop = "promotion"
        [sweep.space]
        vars.lr = { low = 0.0, high = 1.0 }
    "#;

    /// A start is over with this loss; `None`: it failed.
    fn over(study: &mut Study, trial: usize, loss: Option<f64>) {
        let start = study.last_start(trial);
        let number = |at: usize| trial.to_le_bytes()[at] + 16 * start.repeat.to_le_bytes()[at];
        let run_id = RunId::from_random(std::array::from_fn(|at| number(at % 4)));
        let begun = Entry::Begun {
            at_ms: 0,
            slot: start,
            run_id: run_id.clone(),
        };
        let measured = Box::new(Outcome {
            state: if loss.is_some() {
                JobState::Completed
            } else {
                JobState::Failed
            },
            value: loss,
            failure: loss.is_none().then(|| "exit code 1".to_owned()),
            checkpoint: loss.map(|_| format!("/ckpt/{trial}")),
            stopped_at: loss.map(|_| 1),
            ..Outcome::default()
        });
        let values = Values::default();
        if start == first_start(trial) {
            study.add(Note::Proposed {
                proposed: trial,
                values,
                asked: None,
            });
        }
        study.add(Note::Job(begun));
        study.add(Note::Job(Entry::Over {
            at_ms: 1,
            run_id,
            measured,
        }));
    }

    fn promote(sweep: &Sweep, study: &mut Study, is_end: bool) -> Option<(usize, u32)> {
        let (promoted, how) = sweep.next_promotion(study, is_end)?;
        let epochs = how.epochs;
        assert_eq!(how.from, format!("/ckpt/{promoted}"));
        study.add(Note::Promoted { promoted, how });
        Some((promoted, epochs))
    }

    #[test]
    fn the_best_third_of_a_rung_continues_each_once_and_one_comes_to_the_end() {
        let sweep = parse(SWEEP, "stem").expect("valid");
        assert_eq!(sweep.rungs(), [1, 3, 9, 20]);
        let mut study = Study::default();
        over(&mut study, 0, Some(5.0));
        over(&mut study, 1, None);
        assert_eq!(promote(&sweep, &mut study, false), None, "fewer than three");
        over(&mut study, 2, Some(4.0));
        assert_eq!(promote(&sweep, &mut study, false), Some((2, 3)));
        assert_eq!(
            promote(&sweep, &mut study, false),
            None,
            "it continues already"
        );
        // One that failed counts among those that came as far, and never continues.
        for (trial, loss) in [(3, Some(9.0)), (4, None), (5, None)] {
            over(&mut study, trial, loss);
        }
        assert_eq!(promote(&sweep, &mut study, false), Some((0, 3)));
        over(&mut study, 2, Some(3.0));
        over(&mut study, 0, Some(2.0));
        assert_eq!(promote(&sweep, &mut study, false), None, "two of three");
        assert_eq!(promote(&sweep, &mut study, true), Some((0, 9)));
        over(&mut study, 0, Some(1.0));
        assert_eq!(promote(&sweep, &mut study, true), Some((0, 20)));
        over(&mut study, 0, Some(0.5));
        assert_eq!(promote(&sweep, &mut study, true), None);
        let best = study.best(&sweep.metric).expect("it has a value");
        assert_eq!((best.number, study.promotions(0).len()), (0, 3));
        // What is known of a trial stays while it continues, and where that fails.
        over(&mut study, 6, Some(0.1));
        assert_eq!(promote(&sweep, &mut study, false), Some((6, 3)));
        let best = |study: &Study| study.best(&sweep.metric).map(|best| best.number);
        assert_eq!(best(&study), Some(6));
        over(&mut study, 6, None);
        assert_eq!(best(&study), Some(6));
    }

    /// The last try of a trial's last start ended so.
    fn ended(study: &mut Study, trial: usize, number: u8, outcome: Outcome) {
        let run_id = RunId::from_random([number; 10]);
        study.add(Note::Job(Entry::Begun {
            at_ms: 0,
            slot: study.last_start(trial),
            run_id: run_id.clone(),
        }));
        study.add(Note::Job(Entry::Over {
            at_ms: 1,
            run_id,
            measured: Box::new(outcome),
        }));
    }

    fn of_three(sweep: &Sweep) -> Study {
        let mut study = Study::default();
        for (trial, loss) in [(0, 5.0), (1, 4.0), (2, 6.0)] {
            over(&mut study, trial, Some(loss));
        }
        assert_eq!(promote(sweep, &mut study, true), Some((1, 3)));
        study
    }

    fn state(study: &Study, trial: usize) -> (String, &'static str) {
        let mut trials = study.trials();
        let trial = trials.find(|one| one.number == trial).expect("a trial");
        (trial.state_text(), trial.state_word())
    }

    #[test]
    fn one_that_was_cancelled_when_it_continued_leaves_its_place_to_another() {
        let sweep = parse(SWEEP, "stem").expect("valid");
        let mut study = of_three(&sweep);
        assert_eq!(
            state(&study, 1),
            ("given 1 epoch; to 3: waiting".to_owned(), "waiting")
        );
        let cancelled = Outcome {
            state: JobState::Cancelled,
            wall_seconds: Some(1.0),
            failure: Some("cancelled".to_owned()),
            ..Outcome::default()
        };
        ended(&mut study, 1, 200, cancelled.clone());
        assert_eq!(
            state(&study, 1),
            ("given 1 epoch; to 3: cancelled".to_owned(), "cancelled")
        );
        assert_eq!(promote(&sweep, &mut study, true), Some((0, 3)));
        // One that failed has had its chance.
        let failed = Outcome {
            state: JobState::Failed,
            ..cancelled
        };
        ended(&mut study, 0, 201, failed);
        assert_eq!(promote(&sweep, &mut study, true), None);
    }

    /// The share of a rung that continues does not shrink with one that was cancelled.
    #[test]
    fn of_nine_another_continues_for_one_that_was_cancelled() {
        let sweep = parse(SWEEP, "stem").expect("valid");
        let mut study = Study::default();
        for trial in 0..9 {
            over(&mut study, trial, Some(trial as f64));
        }
        for trial in 0..3 {
            assert_eq!(promote(&sweep, &mut study, false), Some((trial, 3)));
        }
        assert_eq!(promote(&sweep, &mut study, false), None);
        let cancelled = Outcome {
            state: JobState::Cancelled,
            wall_seconds: Some(1.0),
            failure: Some("cancelled".to_owned()),
            ..Outcome::default()
        };
        ended(&mut study, 1, 200, cancelled);
        assert_eq!(promote(&sweep, &mut study, false), Some((3, 3)));
        assert_eq!(promote(&sweep, &mut study, false), None);
    }

    #[test]
    fn one_whose_loss_is_no_number_any_more_is_the_worst() {
        let sweep = parse(SWEEP, "stem").expect("valid");
        let mut study = of_three(&sweep);
        let diverged = Outcome {
            state: JobState::Completed,
            ..Outcome::default()
        };
        ended(&mut study, 1, 200, diverged);
        let best = study.best(&sweep.metric).expect("it has a value");
        assert_eq!(best.number, 0);
        assert_eq!(promote(&sweep, &mut study, true), None, "it had its chance");
    }

    #[test]
    fn how_many_starts_are_likely_is_shown_until_all_are_over() {
        let sweep = parse(SWEEP, "stem").expect("valid");
        assert_eq!(sweep.promotions_likely(), 3 + 1 + 1);
        let mut study = of_three(&sweep);
        assert_eq!(sweep.runs(&study), (3, 9 + 5));
        for trial in 3..9 {
            over(&mut study, trial, None);
        }
        over(&mut study, 1, None);
        // All that is known is over, and one more is due.
        assert_eq!(sweep.runs(&study), (10, 11));
        assert_eq!(promote(&sweep, &mut study, true), Some((0, 3)));
        over(&mut study, 0, None);
        assert_eq!(sweep.runs(&study), (11, 12));
        assert_eq!(promote(&sweep, &mut study, true), Some((2, 3)));
        over(&mut study, 2, None);
        assert_eq!(sweep.runs(&study), (12, 12));
    }

    #[test]
    fn a_key_of_the_users_that_is_called_trial_stays_theirs() {
        let text = "[run]\ncommand = [\"train\", \"{{lr}}\", \"{{trial}}\"]\nenv = { trial = \"own\" }\n\
                    [sweep]\nmetric = \"loss\"\nmode = \"min\"\n[sweep.space]\nvars.lr = [1]\n";
        let word = |text: &str| {
            let sweep = parse(text, "stem").expect("valid");
            let cell = sweep
                .trial(6, &Values::at(&sweep.space, 0.5), None)
                .expect("a job");
            let job: toml::Table = toml::from_str(&cell.job_file).expect("TOML");
            job["run"]["command"][2].as_str().map(str::to_owned)
        };
        assert_eq!(word(text).as_deref(), Some("own"));
        let number = text.replace("env = { trial = \"own\" }", "");
        assert_eq!(word(&number).as_deref(), Some("0007"));
    }

    #[test]
    fn what_a_trial_needs_to_continue_is_asked_for() {
        let faults = |from: &str, to: &str| {
            let text = SWEEP.replace(from, to);
            assert_ne!(text, SWEEP);
            let problems = parse(&text, "stem").expect_err("a fault");
            problems
                .into_iter()
                .map(|problem| problem.message)
                .collect::<Vec<_>>()
                .join("\n")
        };
        let elsewhere = faults("\"{{epochs}}\"]", "\"9\"]\narguments = [\"{{epochs}}\"]");
        assert!(
            elsewhere.contains("has to be given the epochs"),
            "{elsewhere}"
        );
        let one = faults("/*\"]", "/*\", \"last.pt\"]");
        assert!(
            one.contains("its own checkpoints, by each pattern"),
            "{one}"
        );
        let resumed = faults("[resume]", "[resume]\ncommand = [\"train\", \"--more\"]");
        assert!(
            resumed.contains("`resume.command` has to give"),
            "{resumed}"
        );
        let searched = faults("vars.lr = {", "vars.trial = [1, 2]\nvars.lr = {");
        assert!(searched.contains("cannot be searched"), "{searched}");
    }

    #[test]
    fn what_is_due_continues_before_what_continues_only_at_the_end() {
        let sweep = parse(SWEEP, "stem").expect("valid");
        let mut study = Study::default();
        for (trial, loss) in [(0, 5.0), (1, 4.0), (2, 6.0), (3, 7.0), (4, 8.0), (5, 9.0)] {
            over(&mut study, trial, Some(loss));
        }
        assert_eq!(promote(&sweep, &mut study, true), Some((1, 3)));
        over(&mut study, 1, Some(4.0));
        assert_eq!(promote(&sweep, &mut study, true), Some((0, 3)));
        over(&mut study, 0, Some(3.0));
        assert_eq!(promote(&sweep, &mut study, true), Some((0, 9)));
    }

    #[test]
    fn a_start_has_its_epochs_and_checkpoint_and_the_winner_those_of_the_file() {
        let sweep = parse(SWEEP, "stem").expect("valid");
        let values = Values::at(&sweep.space, 0.5);
        let job = |cell: Result<crate::learn::bench::Cell, _>| {
            let text = cell.expect("valid").job_file;
            let job = crate::job::parse(&text).expect("a job file");
            let resume = job.resume.expect("it has the table");
            let from = resume.value.from.as_ref().map(|from| from.to_string());
            (
                text.contains("\"0.5\", \"9\""),
                job.workload.epochs,
                from,
                text.contains("ckpt/0007/*"),
            )
        };
        let how = Promotion {
            epochs: 9,
            from: "/a b/e3".to_owned(),
        };
        let later = job(sweep.trial(6, &values, Some(&how)));
        assert_eq!(later, (true, Some(9), Some("/a b/e3".to_owned()), true));
        assert_eq!(
            job(sweep.trial(6, &values, None)),
            (false, Some(1), None, true)
        );
        assert_eq!(
            job(sweep.whole_trial(6, &values)),
            (false, Some(20), None, true)
        );
    }
}
