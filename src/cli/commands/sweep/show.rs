//! `dlrun sweep show`: the trials of a sweep, best first.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::tuned;
use crate::app::error::{Error, Kind, failure};
use crate::app::replaced_file::{may_write, write_over};
use crate::app::session::Session;
use crate::app::study::StudyDir;
use crate::cli::args::SweepShow;
use crate::cli::table::{fitted, or_dash, table};
use crate::foundation::clock::now_ms;
use crate::foundation::units::{counted, display_seconds};
use crate::learn::sweep::{
    Later, Outcome, Parameter, SpeedUp, Spent, StopRule, Study, Sweep, Trial, Values, front,
    importance, importance_text, parse_kept,
};
use crate::report::sweep_page;

/// Trials that a terminal is shown.
const MOST_ROWS: usize = 40;

/// A sweep for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ShownSweep<'a> {
    name: &'a str,
    metric: &'a str,
    mode: &'static str,
    /// The second metric of two; null: there is one.
    second: Option<SecondMetric<'a>>,
    sampler: &'static str,
    /// With a sampler of Optuna's, its versions that proposed trials; else empty.
    optuna: Vec<&'a str>,
    /// With two metrics the numbers of the trials that no other is better than in both; else empty.
    front: Vec<usize>,
    /// Trials that the file asks for.
    trials_planned: u32,
    /// Hours of nodes that the trials that are over took.
    node_hours: f64,
    /// The number of the best trial; null: none came to a value, or there are two metrics.
    best: Option<usize>,
    /// By parameter the share of the variance of the trials' ranks that goes with it alone, 0 to 1; null: too few trials.
    importance: BTreeMap<&'a str, Option<f64>>,
    /// Of a tuning, how much faster the best trial is than the user's settings.
    tuned: Option<SpeedUp>,
    /// All trials that were begun, best first.
    trials: Vec<ShownTrial<'a>>,
    records: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SecondMetric<'a> {
    metric: &'a str,
    mode: &'static str,
}

impl<'a> SecondMetric<'a> {
    pub(super) fn of(sweep: &'a Sweep) -> Option<Self> {
        let second = sweep.second.as_ref()?;
        Some(Self {
            metric: &second.name,
            mode: second.mode(),
        })
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ShownTrial<'a> {
    /// Its number, from 1.
    trial: usize,
    values: &'a Values,
    run_id: Option<&'a str>,
    /// What it came to, by its newest start that came to a value; null: it is under way.
    outcome: Option<&'a Outcome>,
    /// With `promotion`: a start after that one, which is under way or came to no value; else null.
    later: Option<Later<'a>>,
    spent: Spent,
}

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &SweepShow) -> Result<u8, Error> {
    let (dir, text) = StudyDir::<Study>::find(session, args.name.as_deref())?;
    let mut sweep = parse_kept(&text, &dir.header.name).map_err(|problems| {
        let file = dir.path().join("sweep.toml");
        Error::in_file(Kind::Data, &file.to_string_lossy(), &text, problems)
    })?;
    sweep.trials = dir.header.repeats;
    if args.best {
        best(session, &sweep, &dir.journal)?;
        if let Some(home) = Path::new(&dir.header.file).parent() {
            session.note(&format!(
                "save it in {}: its paths are relative to that directory",
                home.display()
            ));
        }
        return Ok(0);
    }
    if args.csv {
        session.output.raw(csv(&sweep, &dir.journal).as_bytes())?;
        return Ok(0);
    }
    if let Some(path) = &args.html {
        may_write(path, "name another file with `--html`")?;
        let page = sweep_page(
            &sweep,
            &dir.journal,
            &ranked(&sweep, &dir.journal),
            &reports_beside(path),
            now_ms(),
        );
        write_over(path, page.as_bytes())?;
        session.note(&format!("wrote {}", path.display()));
    }
    print(session, &sweep, &dir)
}

/// The reports of runs beside a page, as `dlrun report` calls them, by the first letters of the run.
fn reports_beside(page: &Path) -> BTreeMap<String, String> {
    let dir = page.parent().filter(|dir| *dir != Path::new(""));
    let entries = std::fs::read_dir(dir.unwrap_or(Path::new(".")));
    let names = entries.into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let run = |name: &String| {
        let run = name.strip_prefix("dlrun-report-")?.strip_suffix(".html")?;
        (run.len() >= 4).then(|| run.to_owned())
    };
    names.filter_map(|name| Some((run(&name)?, name))).collect()
}

/// The job file of the best trial.
fn best(session: &Session, sweep: &Sweep, study: &Study) -> Result<(), Error> {
    if let Some(second) = &sweep.second {
        let what = format!("{} and {}", sweep.metric.name, second.name);
        return Err(
            failure!(Usage, "with two metrics, {what}, no trial is the best").hinted(format!(
                "`dlrun sweep show {}` shows the front, and `dlrun show RUN` each of its runs",
                sweep.name
            )),
        );
    }
    let Some(best) = study.best(&sweep.metric) else {
        return Err(failure!(
            Missing,
            "no trial of the sweep `{}` has a value",
            sweep.name
        )
        .hinted(format!(
            "`dlrun sweep show {}` shows what became of them",
            sweep.name
        )));
    };
    if sweep.tune.is_some() && !sweep.speed_up(study).is_some_and(|known| known.is_faster) {
        let error = failure!(Missing, "no setting is known to be faster than yours");
        let hint = format!("`dlrun sweep show {}` shows what was measured", sweep.name);
        return Err(error.hinted(hint));
    }
    let job_file = match sweep.tune {
        Some(_) => sweep.tuned_job(best.values),
        None => sweep
            .whole_trial(best.number, best.values)
            .map(|cell| cell.job_file),
    };
    let job_file =
        job_file.map_err(|problems| Error::in_file(Kind::Data, "sweep.toml", "", problems))?;
    session.output.raw(job_file.as_bytes())
}

/// All trials: those of the front, those that came to a value, best first, then those under way, then those that failed.
fn ranked<'a>(sweep: &Sweep, study: &'a Study) -> Vec<Trial<'a>> {
    let mut trials: Vec<Trial<'a>> = study.trials().collect();
    let front = front(sweep, &trials);
    let rank = |trial: &Trial<'_>| match trial.outcome {
        Some(outcome) if outcome.failure.is_some() => (3, f64::INFINITY),
        Some(outcome) => {
            let cost = outcome.value.map(|value| sweep.metric.cost(value));
            let is_behind = !front.contains(&trial.number);
            (u8::from(is_behind), cost.unwrap_or(f64::INFINITY))
        }
        None => (2, f64::INFINITY),
    };
    trials.sort_by(|one, other| {
        let (one, other) = (rank(one), rank(other));
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
    });
    trials
}

/// Prints the sweep.
pub(super) fn print(session: &Session, sweep: &Sweep, dir: &StudyDir<Study>) -> Result<u8, Error> {
    let study = &dir.journal;
    let trials = ranked(sweep, study);
    let best = study.best(&sweep.metric).filter(|_| sweep.second.is_none());
    let front = front(sweep, &trials);
    let tuned = sweep.speed_up(study);
    let answer = ShownSweep {
        name: &sweep.name,
        metric: &sweep.metric.name,
        mode: sweep.metric.mode(),
        second: SecondMetric::of(sweep),
        sampler: sweep.sampler.as_str(),
        optuna: study.optuna_versions().into_iter().collect(),
        front: front.iter().map(|number| number + 1).collect(),
        trials_planned: sweep.trials,
        node_hours: study.node_hours(),
        best: best.as_ref().map(|trial| trial.number + 1),
        importance: importances(sweep, &trials).collect(),
        tuned: tuned.clone(),
        trials: trials
            .iter()
            .map(|trial| ShownTrial {
                trial: trial.number + 1,
                values: trial.values,
                run_id: trial.run_id.map(crate::job::RunId::as_str),
                outcome: trial.outcome,
                later: trial.later,
                spent: trial.spent,
            })
            .collect(),
        records: dir.path().to_string_lossy().into_owned(),
    };
    session
        .output
        .sentences(&answer, &shown(sweep, study, &trials, tuned.as_ref()))
}

/// Each parameter with its importance.
fn importances<'a>(
    sweep: &'a Sweep,
    trials: &[Trial<'_>],
) -> impl Iterator<Item = (&'a str, Option<f64>)> {
    sweep.space.iter().map(|parameter| {
        let share = importance(sweep, parameter, trials);
        (parameter.name.as_str(), share)
    })
}

/// `importance: lr 62%, momentum not seen`; nothing where nothing is known.
fn importances_text(sweep: &Sweep, trials: &[Trial<'_>]) -> Option<String> {
    let shares: Vec<Option<f64>> = importances(sweep, trials).map(|(_, share)| share).collect();
    let text = |(parameter, share): (&Parameter, &Option<f64>)| {
        format!("{} {}", parameter.short, importance_text(*share))
    };
    let texts: Vec<String> = sweep.space.iter().zip(&shares).map(text).collect();
    let is_known = shares.iter().any(Option::is_some);
    is_known.then(|| format!("importance: {}\n", texts.join(", ")))
}

/// The best trial, or the front of two metrics.
fn best_text(sweep: &Sweep, study: &Study, trials: &[Trial<'_>]) -> String {
    match study.best(&sweep.metric) {
        Some(_) if sweep.second.is_some() => {
            let front: Vec<String> = front(sweep, trials)
                .iter()
                .map(|number| (number + 1).to_string())
                .collect();
            format!(
                "front: trials {}: no other is better in both metrics\n",
                front.join(", ")
            )
        }
        Some(best) => format!(
            "best: trial {} with {} {}: {}\n",
            best.number + 1,
            sweep.metric.name,
            or_dash(best.outcome.and_then(|outcome| outcome.value)),
            match sweep.tune.is_some() && best.number == 0 {
                true => "your settings".to_owned(),
                false => sweep.label(best.values),
            }
        ),
        None if sweep.has_lost_baseline(study) => {
            "your own settings came to no value, so there is nothing to compare with: mend the job, and begin again with --restart\n".to_owned()
        }
        None => "no trial has a value yet\n".to_owned(),
    }
}

/// `1.25 node hours`; of less than a tenth of one `4 min 05 s of node time`.
fn node_time(hours: f64) -> String {
    match hours < 0.1 {
        true => format!("{} of node time", display_seconds(hours * 3600.0)),
        false => format!("{hours:.2} node hours"),
    }
}

/// `9 of 27 trials finished, 6 of them stopped early`; with promotion how many continued in place of the latter.
fn finished(sweep: &Sweep, trials: &[Trial<'_>]) -> String {
    let count = |is_it: &dyn Fn(&Trial<'_>) -> bool| trials.iter().filter(|one| is_it(one)).count();
    let over = count(&|trial| trial.is_over());
    let continues = sweep.stop == StopRule::Promotion;
    let (some, what) = match continues {
        true => (count(&|trial| trial.is_continued()), "continued"),
        false => (
            count(&|trial| trial.outcome.is_some_and(|its| its.stopped_at.is_some())),
            "stopped early",
        ),
    };
    let all = counted(u64::from(sweep.trials).max(over as u64), "trial");
    format!("{over} of {all} finished, {some} of them {what}")
}

fn shown(sweep: &Sweep, study: &Study, trials: &[Trial<'_>], tuned: Option<&SpeedUp>) -> String {
    let mut text = format!("{}: {}, ", sweep.name, finished(sweep, trials));
    text.push_str(&format!("{}\n", node_time(study.node_hours())));
    text.push_str(&best_text(sweep, study, trials));
    let tuned = tuned.map(|known| tuned::text(&sweep.name, known));
    text.push_str(&tuned.unwrap_or_default());
    text.push_str(&importances_text(sweep, trials).unwrap_or_default());
    text.push('\n');
    let mut rows = table();
    let names = sweep
        .space
        .iter()
        .map(|parameter| parameter.short.to_uppercase());
    let metrics = match &sweep.second {
        None => vec!["VALUE".to_owned()],
        Some(second) => vec![sweep.metric.name.to_uppercase(), second.name.to_uppercase()],
    };
    let heads = std::iter::once("TRIAL".to_owned()).chain(metrics);
    rows.set_header(
        heads
            .chain(["EPOCHS", "TIME"].map(str::to_owned))
            .chain(names)
            .chain(["RUN".to_owned(), "STATE".to_owned()]),
    );
    for trial in trials.iter().take(MOST_ROWS) {
        let outcome = trial.outcome;
        let second = sweep
            .second
            .iter()
            .map(|_| or_dash(outcome.and_then(|outcome| outcome.second_value)));
        let first = [
            (trial.number + 1).to_string(),
            or_dash(outcome.and_then(|outcome| outcome.value)),
        ];
        let first = first.into_iter().chain(second);
        let spent = outcome.map(|_| trial.spent);
        let seconds = spent.and_then(|spent| spent.wall_seconds);
        let cost = [
            or_dash(spent.map(|spent| spent.epochs)),
            or_dash(seconds.map(display_seconds)),
        ];
        let values = sweep
            .space
            .iter()
            .map(|parameter| or_dash(trial.values.text(&parameter.name)));
        let run = or_dash(trial.run_id.map(|run| run.as_str()[..6].to_owned()));
        rows.add_row(
            first
                .chain(cost)
                .chain(values)
                .chain([run, trial.state_text()]),
        );
    }
    text.push_str(&fitted(rows));
    if trials.len() > MOST_ROWS {
        text.push_str(&format!(
            "{} more; `--csv` and `--json` have all\n",
            trials.len() - MOST_ROWS
        ));
    }
    text
}

/// A line for each trial.
fn csv(sweep: &Sweep, study: &Study) -> String {
    let quoted = |text: String| match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    };
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let names = sweep.space.iter().map(|parameter| parameter.name.clone());
    let heads = [
        "trial",
        "value",
        "epochs",
        "wall_seconds",
        "node_hours",
        "stopped_at",
        "state",
        "failure",
        "run_id",
    ];
    let seconds = ["second_value", "front", "metric", "second_metric"];
    let seconds = sweep.second.iter().flat_map(|_| seconds);
    let heads = heads
        .into_iter()
        .chain(seconds)
        .map(str::to_owned)
        .chain(names);
    let mut lines = vec![heads.map(quoted).collect::<Vec<_>>().join(",")];
    let trials = ranked(sweep, study);
    let front = front(sweep, &trials);
    for trial in trials {
        let outcome = trial.outcome.cloned().unwrap_or_default();
        let later_failure = trial.later.and_then(|later| later.failure);
        let failure = later_failure.or(outcome.failure.as_deref());
        let spent = trial.outcome.map(|_| trial.spent);
        let fixed = [
            (trial.number + 1).to_string(),
            number(outcome.value),
            spent.map_or_else(String::new, |spent| spent.epochs.to_string()),
            number(spent.and_then(|spent| spent.wall_seconds)),
            number(spent.and_then(|spent| spent.node_hours)),
            outcome
                .stopped_at
                .map_or_else(String::new, |epoch| epoch.to_string()),
            trial.state_word().to_owned(),
            failure.unwrap_or_default().to_owned(),
            trial
                .run_id
                .map(|run| run.as_str().to_owned())
                .unwrap_or_default(),
        ];
        let seconds = sweep.second.iter().flat_map(|second| {
            let is_on = front.contains(&trial.number);
            [
                number(outcome.second_value),
                is_on.to_string(),
                sweep.metric.name.clone(),
                second.name.clone(),
            ]
        });
        let values = sweep
            .space
            .iter()
            .map(|parameter| trial.values.text(&parameter.name).unwrap_or_default());
        lines.push(
            fixed
                .into_iter()
                .chain(seconds)
                .chain(values)
                .map(quoted)
                .collect::<Vec<_>>()
                .join(","),
        );
    }
    lines.join("\n") + "\n"
}
