//! What Optuna is asked for a trial, and what it answers: a line of JSON each. It keeps nothing between two trials, so each question
//! holds all that is known; costs are smaller where a trial is better.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use toml::Value;

use super::document::{Metric, Sweep};
use super::sampler::seed_of_trial;
use super::space::{Kind, Parameter, Values, rounded};
use super::study::{Asked, Study};
use super::trial::Trial;
use crate::foundation::diagnostic::printable;
use crate::foundation::statistics::Dice;
use crate::learn::bench::Settled;

/// Trials of a generation of NSGA-II. With Optuna's own number, 50, it was no better than random values in 100 trials.
const POPULATION: u32 = 10;
/// What CMA-ES adds to one trial of each generation: its state. Optuna continues from that of the last trial that is complete.
const STATE: &str = "cma:optimizer";
/// Characters of an unreadable answer that an error repeats.
const SHOWN: usize = 200;

/// The question for a trial, counted from 0.
#[must_use]
pub fn request(sweep: &Sweep, study: &Study, number: usize) -> String {
    let sampler = sweep.sampler.as_str().split_once(':');
    let sampler = sampler.map_or("tpe", |(_, sampler)| sampler);
    let has_state = |trial: &Trial<'_>| {
        let asked = study.asked(trial.number);
        let is_complete = trial.outcome.is_some_and(Settled::counts);
        is_complete && asked.is_some_and(|asked| asked.attrs.keys().any(is_state))
    };
    let last = study.first_starts().filter(has_state).last();
    let last = last.map(|trial| trial.number);
    let trials = study.first_starts().map(|trial| {
        let mut known = known(sweep, study, &trial);
        if let Some(attrs) = known["attrs"].as_object_mut() {
            attrs.retain(|name, _| !is_state(name) || last == Some(trial.number));
        }
        known
    });
    let searched = sweep.space.iter().filter(|one| !one.is_bound());
    let question = json!({
        "sampler": sampler,
        // NumPy takes 32 bits; each of them depends on the sweep's seed.
        "seed": Dice::new(seed_of_trial(sweep, number)).bits() >> 32,
        "population": POPULATION,
        "metrics": 1 + u32::from(sweep.second.is_some()),
        "space": searched.map(described).collect::<Vec<_>>(),
        "trials": trials.collect::<Vec<_>>(),
    });
    format!("{question}\n")
}

fn is_state(name: impl AsRef<str>) -> bool {
    name.as_ref().starts_with(STATE)
}

fn described(parameter: &Parameter) -> Json {
    let mut one = match &parameter.kind {
        Kind::Float { low, high, log } => json!({ "low": low, "high": high, "log": log }),
        Kind::Whole {
            low,
            high,
            step,
            log,
        } => {
            // Optuna has no steps by ratios.
            let step = if *log { 1 } else { *step };
            json!({ "low": low, "high": high - (high - low) % step, "log": log, "step": step })
        }
        Kind::Choice(values) => json!({ "choices": values.len() }),
    };
    one["name"] = parameter.name.clone().into();
    one
}

/// A trial as Optuna knows it. One that failed came to the worst, one that counts for nothing is failed.
fn known(sweep: &Sweep, study: &Study, trial: &Trial<'_>) -> Json {
    let (state, values) = match trial.outcome {
        None => ("running", Json::Null),
        Some(outcome) if !outcome.counts() => ("fail", Json::Null),
        Some(outcome) => {
            let cost = |metric: &Metric, value: Option<f64>| {
                let value = value.filter(|_| outcome.failure.is_none());
                value.map(|value| metric.cost(value))
            };
            let mut costs = vec![cost(&sweep.metric, outcome.value)];
            let second = sweep.second.iter();
            costs.extend(second.map(|metric| cost(metric, outcome.second_value)));
            ("complete", json!(costs))
        }
    };
    let searched = sweep
        .space
        .iter()
        .filter(|parameter| parameter.otherwise(trial.values).is_none());
    let params = searched.filter_map(|parameter| {
        let value = trial.values.get(&parameter.name)?;
        let value = match &parameter.kind {
            Kind::Choice(values) => json!(values.iter().position(|one| one == value)?),
            _ => json!(value),
        };
        Some((parameter.name.clone(), value))
    });
    let attrs = study.asked(trial.number).map(|asked| &asked.attrs);
    json!({
        "state": state,
        "values": values,
        "params": params.collect::<serde_json::Map<_, _>>(),
        "attrs": attrs.cloned().unwrap_or_default(),
    })
}

#[derive(Deserialize)]
struct Answer {
    params: BTreeMap<String, Json>,
    #[serde(flatten)]
    asked: Asked,
}

/// The values that an answer has for a trial; what it has for a parameter that is not searched there counts for nothing.
///
/// # Errors
/// What is wrong with it.
pub fn answer(sweep: &Sweep, text: &str) -> Result<(Values, Asked), String> {
    let line = text.lines().next_back().unwrap_or_default();
    let answer: Answer = serde_json::from_str(line)
        .map_err(|error| format!("its answer `{}` cannot be read: {error}", short(line)))?;
    let mut values = Values::default();
    for parameter in &sweep.space {
        let name = &parameter.name;
        let value = match (parameter.otherwise(&values), answer.params.get(name)) {
            (Some(otherwise), _) => otherwise.clone(),
            (None, None) => return Err(format!("its answer has no value of `{name}`")),
            (None, Some(given)) => taken(parameter, given).ok_or_else(|| {
                let given = short(&given.to_string());
                format!("its answer {given} for `{name}` is outside of the search")
            })?,
        };
        values.0.insert(name.clone(), value);
    }
    Ok((values, answer.asked))
}

fn short(text: &str) -> String {
    printable(text).chars().take(SHOWN).collect()
}

/// A value of Optuna's as a trial has it, if it is one of those that are searched.
fn taken(parameter: &Parameter, given: &Json) -> Option<Value> {
    match &parameter.kind {
        Kind::Float { low, high, .. } => {
            let value = given
                .as_f64()
                .filter(|value| (*low..=*high).contains(value))?;
            Some(Value::Float(rounded(*low, *high, value)))
        }
        Kind::Whole {
            low,
            high,
            step,
            log,
        } => {
            let value = given
                .as_i64()
                .filter(|value| (*low..=*high).contains(value))?;
            let beyond = (value - low) % step;
            (*log || beyond == 0).then_some(Value::Integer(value - beyond))
        }
        Kind::Choice(values) => {
            let place = usize::try_from(given.as_u64()?).ok()?;
            values.get(place).cloned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobState;
    use crate::learn::bench::{Entry, Lines, Slot};
    use crate::learn::sweep::{Note, Outcome, parse};

    const JOB: &str = "[run]\ncommand = ['train', '{{a}}{{b}}{{c}}{{d}}{{e}}{{f}}']\n[sweep]\nmetric = 'loss'\nmode = 'max'\n\
                       sampler = 'optuna:cmaes'\n[sweep.space]\nvars.a = { low = 0.001, high = 1.0, log = true }\n\
                       vars.b = { low = 1, high = 8, step = 3 }\nvars.c = ['sgd', 'adam']\n\
                       vars.d = { low = 4, high = 64, log = true, step = 4 }\n\
                       vars.e = { values = [1, 1.0, true], when = { c = 'adam' }, otherwise = 7 }\n\
                       vars.f = { values = [3, 3], with = 'c' }\n";

    fn sweep() -> Sweep {
        parse(JOB, "stem").expect("valid")
    }

    fn asked_after(entries: &[(&str, Outcome)]) -> Json {
        let mut study = Study::default();
        for (number, (given, outcome)) in entries.iter().enumerate() {
            let (values, asked) = answer(&sweep(), given).expect("valid");
            let run_id = crate::job::RunId::from_random([u8::try_from(number).expect("few"); 10]);
            study.add(Note::Proposed {
                proposed: number,
                values,
                asked: Some(asked),
            });
            study.add(Note::Job(Entry::Begun {
                at_ms: 1,
                slot: Slot {
                    cell: number,
                    repeat: 0,
                },
                run_id: run_id.clone(),
            }));
            if outcome.epochs > 0 {
                let measured = Box::new(outcome.clone());
                study.add(Note::Job(Entry::Over {
                    at_ms: 2,
                    run_id,
                    measured,
                }));
            }
        }
        serde_json::from_str(&request(&sweep(), &study, entries.len())).expect("JSON")
    }

    #[test]
    fn only_the_last_state_of_cma_es_is_sent() {
        let with_state = |state: &str| {
            let attrs = format!("\"cma:optimizer:0\":\"{state}\",\"cma:generation\"");
            GIVEN.replace("\"cma:generation\"", &attrs)
        };
        let over = || Outcome {
            value: Some(1.0),
            state: JobState::Completed,
            epochs: 1,
            ..Outcome::default()
        };
        let [first, second, third] = ["a", "b", "c"].map(with_state);
        let asked = asked_after(&[
            (&first, over()),
            (&second, over()),
            (GIVEN, over()),
            (&third, Outcome::default()),
        ]);
        let attrs = |place: usize| asked["trials"][place]["attrs"].clone();
        let generation = json!({ "cma:generation": 2 });
        assert_eq!(
            [attrs(0), attrs(2), attrs(3)],
            [generation.clone(), generation.clone(), generation]
        );
        let kept = json!({ "cma:generation": 2, "cma:optimizer:0": "b" });
        assert_eq!(attrs(1), kept);
    }

    const GIVEN: &str = r#"{"params":{"vars.a":0.1,"vars.b":4,"vars.c":0,"vars.d":15},"optuna":"5.0.0","attrs":{"cma:generation":2}}"#;

    #[test]
    fn all_that_is_known_is_asked_with_costs_and_without_what_is_not_searched() {
        let outcome = |value, failure: Option<&str>, state| Outcome {
            value,
            failure: failure.map(str::to_owned),
            state,
            epochs: 1,
            wall_seconds: Some(1.0),
            ..Outcome::default()
        };
        let adam = GIVEN.replace("\"vars.c\":0", "\"vars.c\":1,\"vars.e\":2");
        let asked = asked_after(&[
            (GIVEN, outcome(Some(3.0), None, JobState::Completed)),
            (
                &adam,
                outcome(Some(2.0), Some("exit code 1"), JobState::Failed),
            ),
            (GIVEN, outcome(None, Some("cancelled"), JobState::Cancelled)),
            (GIVEN, Outcome::default()),
        ]);
        let trials = asked["trials"].as_array().expect("a list");
        let states: Vec<&Json> = trials.iter().map(|trial| &trial["state"]).collect();
        assert_eq!(states, ["complete", "complete", "fail", "running"]);
        let values: Vec<&Json> = trials.iter().map(|trial| &trial["values"]).collect();
        assert_eq!(
            values,
            [&json!([-3.0]), &json!([null]), &Json::Null, &Json::Null]
        );
        // The step of a range by ratios is dlrun's.
        let params = json!({ "vars.a": 0.1, "vars.b": 4, "vars.c": 0, "vars.d": 12 });
        assert_eq!(trials[0]["params"], params);
        assert_eq!(trials[1]["params"]["vars.e"], 2);
        assert_eq!(trials[0]["attrs"], json!({ "cma:generation": 2 }));
        assert_eq!(
            (&asked["sampler"], &asked["metrics"]),
            (&"cmaes".into(), &1.into())
        );
        assert_eq!(asked["space"][1]["high"], 7);
        assert_eq!(asked["space"][4], json!({ "name": "vars.e", "choices": 3 }));
        assert_eq!(
            asked["seed"],
            asked_after(&vec![(GIVEN, Outcome::default()); 4])["seed"]
        );
    }

    #[test]
    fn an_answer_that_is_no_trial_of_the_search_says_why() {
        for (from, to, why) in [
            ("{\"params\"", "Traceback", "cannot be read"),
            (GIVEN, "", "its answer `` cannot be read"),
            ("\"optuna\":\"5.0.0\",", "", "missing field `optuna`"),
            ("0.1", "NaN", "cannot be read"),
            (
                "0.1",
                "1.5",
                "its answer 1.5 for `vars.a` is outside of the search",
            ),
            ("0.1", "\"0.1\"", "is outside of the search"),
            ("\"vars.a\":0.1,", "", "no value of `vars.a`"),
            ("\"vars.b\":4", "\"vars.b\":5", "its answer 5 for `vars.b`"),
            (
                "\"vars.b\":4",
                "\"vars.b\":4.5",
                "its answer 4.5 for `vars.b`",
            ),
            ("\"vars.c\":0", "\"vars.c\":2", "its answer 2 for `vars.c`"),
            ("\"vars.c\":0", "\"vars.c\":1", "no value of `vars.e`"),
        ] {
            let given = GIVEN.replace(from, to);
            let error = answer(&sweep(), &given).expect_err(&given);
            assert!(error.contains(why), "{error}");
        }
        let long = GIVEN.replace("0.1", &format!("\"{}\"", "y".repeat(5000)));
        assert!(answer(&sweep(), &long).is_err_and(|error| error.len() < 300));
        let noise = format!("a module says hello\n{GIVEN}\n");
        let (values, asked) = answer(&sweep(), &noise).expect("the last line");
        assert_eq!(values.text("vars.e").as_deref(), Some("7"));
        let note = Note::Proposed {
            proposed: 3,
            values,
            asked: Some(asked),
        };
        let line = serde_json::to_string(&note).expect("plain data");
        assert_eq!(serde_json::from_str::<Note>(&line).ok(), Some(note));
    }
}
