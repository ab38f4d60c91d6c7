//! What a model says of runs that have not begun.

use super::facts::{EXACT, Facts, Size, whole};
use super::gather::Growth;
use super::response::{BETWEEN, Response};
use super::solution::{Predicted, Settled, Solution};
use super::{Doubts, Hardware, Model, Situation, mixture};
use crate::foundation::statistics::Z95;
use crate::record::{Forecast, Interval};

/// What a total lacks where no run has it.
const NO_OUTSIDE: &str = "no run shows how long start-up, evaluation and the end take: the whole run has no time for them";

/// What a step of the logarithm beyond the numbers that runs had adds to the standard deviation: as for epochs that are not seen.
const BEND: f64 = 0.25;

/// Correlation of the times of a run's parts; assumed. Of the trainings of `docs/model.md` too few whole runs lie inside with 0, too many with 1.
const SHARED: f64 = 0.5;

/// Hardware that a run may get.
#[derive(Debug, Clone, PartialEq)]
pub struct Likely {
    /// What it is.
    pub hardware: Hardware,
    /// How likely it is; those of a run sum up to 1.
    pub share: f64,
}

/// A response with the workload that was asked for last: candidates of one job share it.
struct Asked<'a> {
    part: &'a Solution,
    workload: Option<(u64, Settled)>,
}

impl Asked<'_> {
    fn predict(&mut self, facts: &Facts, outside: &[f64; EXACT.len()]) -> Predicted {
        let hash = facts.workload;
        let known = self.workload.take().filter(|(known, _)| *known == hash);
        let (_, workload) = self
            .workload
            .insert(known.unwrap_or_else(|| (hash, self.part.workload(hash))));
        self.part.predict(facts, workload, outside)
    }

    fn knows(&self, facts: &Facts) -> bool {
        self.part.has_workload(facts.workload)
    }
}

impl Model {
    /// Whether the workload of a situation was measured on different numbers of nodes: only then is it known how it scales.
    #[must_use]
    pub fn has_scaled(&self, situation: &Situation) -> bool {
        let (facts, _) = self.learned.experience.completed(situation);
        self.learned.experience.scaled(facts.workload)
    }

    /// What to expect of a run.
    #[must_use]
    pub fn forecast(&self, situation: &Situation) -> Forecast {
        let mut all = self.forecasts(std::slice::from_ref(situation));
        all.pop().expect("one for each situation")
    }

    /// What to expect of each of these runs.
    #[must_use]
    pub fn forecasts(&self, situations: &[Situation]) -> Vec<Forecast> {
        self.forecasts_on(situations, &[])
    }

    /// The same of runs that may get any of these kinds of hardware in place of their own. Where there are none, they keep it.
    #[must_use]
    pub fn forecasts_on(&self, situations: &[Situation], kinds: &[Likely]) -> Vec<Forecast> {
        let mut asked = Response::ALL.map(|response| {
            let mut parts = self.learned.parts.iter();
            let part = parts.find(|part| part.response == response)?;
            Some(Asked {
                part,
                workload: None,
            })
        });
        let mut forecast = |situation: &Situation| {
            let own = Likely {
                hardware: situation.hardware.clone(),
                share: 1.0,
            };
            let kinds = if kinds.is_empty() { &[own] } else { kinds };
            let on = |Likely { hardware, share }: &Likely| {
                let hardware = hardware.clone();
                let situation = Situation {
                    hardware,
                    ..situation.clone()
                };
                (*share, self.one(&situation, &mut asked))
            };
            let parts: Vec<(f64, Forecast)> = kinds.iter().map(on).collect();
            mixture::forecast(&parts).expect("one kind of hardware at least")
        };
        situations.iter().map(&mut forecast).collect()
    }

    fn one(
        &self,
        situation: &Situation,
        asked_all: &mut [Option<Asked<'_>>; Response::ALL.len()],
    ) -> Forecast {
        let known = &self.learned.experience;
        let (facts, assumed) = known.completed(situation);
        let far = known.outside(situation, &facts);
        let [epoch, between, outside, memory, whole_run] = asked_all;
        let (basis, behind) = known.basis(&facts);
        let interval =
            |asked: &mut Option<Asked<'_>>| asked.as_mut().map(|asked| asked.predict(&facts, &far));
        let samples = facts.size(Size::Samples).unwrap_or(0.0);
        let epochs = situation.workload.epochs.filter(|epochs| *epochs > 0);
        let epochs = epochs.map(whole);
        // A workload whose runs have no epochs is forecast whole, unless there are no such runs at all.
        let knows =
            |asked: &Option<Asked<'_>>| asked.as_ref().is_some_and(|asked| asked.knows(&facts));
        let by_epochs = epoch.is_some() && (knows(epoch) || !knows(whole_run));
        let mut forecast = Forecast {
            model: self.head().name.clone(),
            basis,
            runs: behind.runs,
            doubtful: behind.doubtful,
            doubts: Doubts::texts(behind.doubts),
            memory_bytes: interval(memory).map(Predicted::interval),
            beyond: known.beyond(situation, &facts),
            assumed,
            ..Forecast::default()
        };
        if by_epochs {
            let predicted = interval(epoch);
            forecast.shift = predicted.and_then(|its| its.shift);
            let steady = predicted.map(|steady| steady.plus(samples).interval());
            let unseen = Predicted {
                mean: BETWEEN.0,
                sd: BETWEEN.1,
                shift: None,
            };
            let share = interval(between).unwrap_or(unseen);
            forecast.between_seconds =
                steady.map(|steady| share.plus(steady.median.ln()).interval());
            forecast.epoch_seconds = steady;
            forecast.outside_seconds = interval(outside).map(Predicted::interval);
            forecast.total_seconds = epochs.and_then(|epochs| total(&forecast, epochs));
            if forecast.total_seconds.is_some() && forecast.outside_seconds.is_none() {
                forecast.beyond.push(NO_OUTSIDE.to_owned());
            }
        } else {
            let predicted = interval(whole_run);
            forecast.shift = predicted.and_then(|its| its.shift);
            let growth = known.growth.get(&facts.workload);
            let grown = growth.map_or(Some((0.0, 0.0)), |growth| {
                grown(growth, situation, epochs, &mut forecast)
            });
            let run = predicted.zip(grown);
            let run = run.map(|(run, (longer, far))| run.plus(samples + longer).widened(far));
            forecast.total_seconds = run.map(Predicted::interval);
        }
        forecast
    }
}

/// How much longer a run is by the number that its workload's time grows with, and what that adds to the standard deviation, as
/// natural logarithms; the forecast says what lies beyond the runs. `None`: the run does not have that number.
fn grown(
    growth: &Growth,
    situation: &Situation,
    epochs: Option<f64>,
    forecast: &mut Forecast,
) -> Option<(f64, f64)> {
    let mut beyond = |name: &str, number: f64, (least, most): (f64, f64)| {
        let far = (number / most).ln().max(0.0) + (least / number).ln().max(0.0);
        if far > 0.0 {
            let runs = match least < most {
                true => format!("{least} to {most}"),
                false => most.to_string(),
            };
            let text = format!("the argument `{name}` is {number}, and the runs had {runs}");
            forecast.beyond.push(text);
        }
        far
    };
    // Nobody knows what these change: the time may grow with each of them, or fall.
    let mut sd = 0.0;
    for (name, ends) in &growth.others {
        if let Some(number) = situation.numbers.get(name) {
            sd = f64::hypot(sd, beyond(name, *number, *ends) / Z95);
        }
    }
    let Some(name) = &growth.name else {
        return Some((epochs.map_or(0.0, |epochs| growth.ln(epochs)), sd));
    };
    let Some(count) = situation.numbers.get(name) else {
        let text = format!(
            "the time grows with the argument `{name}`, and this job gives no value above 0 for it"
        );
        forecast.beyond.push(text);
        return None;
    };
    sd = f64::hypot(sd, BEND * beyond(name, *count, growth.ends));
    Some((growth.ln(*count), sd))
}

/// Epochs, what is between them and what is outside, added up. What slows one part of a run slows the others too, but not all that makes
/// them differ is shared: their widths are added, on each side, as those of figures with the correlation [`SHARED`].
fn total(forecast: &Forecast, epochs: f64) -> Option<Interval> {
    let outside = forecast.outside_seconds.map(|part| (1.0, part));
    let between = forecast.between_seconds.map(|part| (epochs, part));
    let parts = [Some((epochs, forecast.epoch_seconds?)), between, outside];
    let parts = || parts.iter().flatten();
    let sum = |of: fn(&Interval) -> f64| parts().map(|(by, part)| by * of(part)).sum::<f64>();
    let side = |of: fn(&Interval) -> f64| {
        let squares = parts()
            .map(|(by, part)| (by * of(part)).powi(2))
            .sum::<f64>();
        (SHARED * sum(of).powi(2) + (1.0 - SHARED) * squares).sqrt()
    };
    let median = sum(|part| part.median);
    Some(Interval {
        mean: sum(|part| part.mean),
        median,
        low: (median - side(|part| part.median - part.low)).max(0.0),
        high: median + side(|part| part.high - part.median),
    })
}
