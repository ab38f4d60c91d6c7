//! The sweep file: a job file with a table `[sweep]`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};
use toml::Value;
use toml::de::DeTable;

use super::MOST_TRIALS;
use super::promotion_needs::check_promotion;
use super::space::{self, Parameter, Values};
use super::start::Promotion;
use super::tune::Tune;
use crate::foundation::diagnostic::{Problem, sort_problems};
use crate::foundation::toml_reader::{Fields, parse_document, syntax_problem};
use crate::foundation::units::Walltime;
use crate::foundation::vocabulary::vocabulary;
use crate::learn::bench::{Cell, Document, MOST_JOBS, VARS, base_name, gather, named, shown};

vocabulary! {
    /// Who proposes the next trial.
    #[cfg_attr(test, derive(schemars::JsonSchema))]
    pub enum SamplerKind {
        /// The Tree-structured Parzen Estimator, after ten points of a Sobol sequence.
        Tpe = "tpe",
        /// Every value as likely as another.
        Random = "random",
        /// Points of a scrambled Sobol sequence, which leave no large holes.
        Sobol = "sobol",
        /// Every combination once.
        Grid = "grid",
        /// Optuna's Tree-structured Parzen Estimator, in a Python process.
        Optuna = "optuna",
        /// Optuna's Gaussian process.
        OptunaGp = "optuna:gp",
        /// Optuna's CMA-ES.
        OptunaCmaes = "optuna:cmaes",
        /// Optuna's NSGA-II.
        OptunaNsga2 = "optuna:nsga2",
    }
}

impl SamplerKind {
    /// The Python packages that a sampler of Optuna's needs, with blanks between them; `None`: it is not Optuna's.
    #[must_use]
    pub fn packages(self) -> Option<&'static str> {
        Some(match self {
            Self::Optuna | Self::OptunaNsga2 => "optuna>=4,<6",
            Self::OptunaGp => "optuna>=4,<6 scipy torch",
            Self::OptunaCmaes => "optuna>=4,<6 cmaes",
            _ => return None,
        })
    }
}

vocabulary! {
    /// Which trials are stopped before their end.
    #[cfg_attr(test, derive(schemars::JsonSchema))]
    pub enum StopRule {
        /// None.
        None = "none",
        /// Those that are not among the best of `1/eta` at epochs `first`, `first × eta`, ... (ASHA, stopping).
        Asha = "asha",
        /// A trial ends after `first`, `first × eta`, ... epochs, and the best of `1/eta` continue from their checkpoints (ASHA, promotion).
        Promotion = "promotion",
        /// Those that are worse than the median of the others at epochs `first`, `first × 2`, ...
        Median = "median",
    }
}

/// What is searched for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// A metric of the output, or `epoch_seconds`, `wall_seconds`.
    pub name: String,
    /// Whether larger is better.
    pub is_max: bool,
}

impl Metric {
    /// `min` or `max`.
    #[must_use]
    pub fn mode(&self) -> &'static str {
        if self.is_max { "max" } else { "min" }
    }

    /// Whether one value is better than another; NaN is the worst.
    #[must_use]
    pub fn is_better(&self, one: f64, other: f64) -> bool {
        self.cost(one) < self.cost(other)
    }

    /// Smaller is better; what is no number is the worst.
    #[must_use]
    pub fn cost(&self, value: f64) -> f64 {
        match (value.is_nan(), self.is_max) {
            (true, _) => f64::INFINITY,
            (false, true) => -value,
            (false, false) => value,
        }
    }
}

/// A sweep, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// What it is called; jobs are called after it.
    pub name: String,
    /// What is searched for.
    pub metric: Metric,
    /// Another that counts as much; then there is no best trial, but a front.
    pub second: Option<Metric>,
    /// How many trials are begun at most.
    pub trials: u32,
    /// Hours of nodes after which no further trial begins.
    pub node_hours: Option<f64>,
    /// Jobs that are queued or run at a time.
    pub max_jobs: u32,
    /// Who proposes trials.
    pub sampler: SamplerKind,
    /// Which trials are stopped.
    pub stop: StopRule,
    /// The first epoch after which a trial may be stopped.
    pub first_epoch: u32,
    /// The epochs of a whole training, by the job file.
    pub epochs: Option<u32>,
    /// How long a trial may take to end by itself before it is cancelled; `None`: it is cancelled at once.
    pub stop_wait: Option<Walltime>,
    /// One in so many trials continues (ASHA).
    pub eta: u32,
    /// Decides what random numbers come.
    pub seed: u64,
    /// What is searched.
    pub space: Vec<Parameter>,
    /// Of a tuning what a sweep has not.
    pub tune: Option<Tune>,
    /// Where the keys of `[sweep]` or `[tune]` are.
    pub(super) spans: BTreeMap<&'static str, Range<usize>>,
    pub(super) base: Document,
}

/// Reads a sweep. `stem` names it where it has no name itself.
///
/// # Errors
/// Every fault of the table `[sweep]`; those of the job files it makes are found when they are read.
pub fn parse(text: &str, stem: &str) -> Result<Sweep, Vec<Problem>> {
    let document = parse_document(text)?;
    let plain: toml::Table = toml::from_str(text).map_err(|error| vec![syntax_problem(&error)])?;
    let mut problems = Vec::new();
    let mut fields = Fields::of_document(&document, &mut problems);
    let read = |fields: &mut Fields<'_>| read(&document, &plain, fields, stem);
    let sweep = fields.table("sweep", read).flatten();
    if !fields.holds("sweep") {
        let missing = "the table `[sweep]` is missing: this is a job file, not a sweep";
        let hint = "add: [sweep]\n        metric = \"val_loss\"\n        mode = \"min\"\n        [sweep.space]\n        \
                    vars.lr = { low = 1e-5, high = 1e-1, log = true }";
        let hint = match fields.holds("tune") {
            true => "`dlrun tune FILE` searches what makes it faster",
            false => hint,
        };
        fields.problem(Problem::of_file(missing).hinted(hint));
    }
    match sweep {
        Some(sweep) if problems.is_empty() => Ok(sweep),
        _ => {
            sort_problems(&mut problems);
            Err(problems)
        }
    }
}

/// Metrics that are not of the program's own.
pub(super) const TIMES: [&str; 2] = [EPOCH_SECONDS, WALL_SECONDS];
pub(super) const EPOCH_SECONDS: &str = "epoch_seconds";
pub(super) const WALL_SECONDS: &str = "wall_seconds";
/// Of tunings: the median of the steps.
pub(super) const STEP_SECONDS: &str = "step_seconds";

const MODES: [(&str, bool); 2] = [("min", false), ("max", true)];

fn read(
    document: &DeTable<'_>,
    plain: &toml::Table,
    fields: &mut Fields<'_>,
    stem: &str,
) -> Option<Sweep> {
    let mut faults = Vec::new();
    let own = fields.own_span();
    fields.require(&["metric", "mode", "space"], "a sweep");
    let name = fields.parsed("name", |text| named(text).map(|()| text.to_owned()));
    let metrics = metrics(fields);
    let has_two = metrics.as_ref().is_some_and(|(_, second)| second.is_some());
    let trials = fields.count("trials", MOST_TRIALS);
    let node_hours = fields.decimal("node_hours", 1e-6..=1e9);
    let max_jobs = fields.count("max_jobs", MOST_JOBS).unwrap_or(1);
    let sampler = fields
        .word("sampler", &SamplerKind::WORDS)
        .unwrap_or(match has_two {
            true => SamplerKind::Sobol,
            false => SamplerKind::Tpe,
        });
    let stop = fields
        .word("stop", &StopRule::WORDS)
        .unwrap_or(StopRule::None);
    let first_epoch = fields.count("first_epoch", 1_000_000).unwrap_or(1);
    let stop_wait = fields.parsed("stop_wait", Walltime::parse);
    let keys = [
        "metric",
        "mode",
        "sampler",
        "stop",
        "first_epoch",
        "eta",
        "seed",
    ];
    let spans = fields.spans(keys).collect();
    let eta = fields.number("eta", 2..=100).unwrap_or(3);
    let seed = fields.number("seed", 0..=u64::MAX - 1).unwrap_or(1);
    let table = fields.raw_table("space");
    let space = table.map_or_else(Vec::new, |table| space::read(table, &mut faults));
    if table.is_some() && space.is_empty() && faults.is_empty() {
        let problem = Problem::at(own, "`sweep.space` has no parameter");
        faults.push(problem.hinted("add: vars.lr = { low = 1e-5, high = 1e-1, log = true }"));
    }
    let base = Document::without("sweep", document, plain);
    let array = document
        .get("resources")
        .and_then(|table| table.get_ref().as_table()?.get("array"));
    if let Some(array) = array {
        let message = "a sweep has no job arrays: each trial is a separate job";
        faults.push(
            Problem::at(array.span(), message)
                .hinted("take the line out; `sweep.trials` says how many there are"),
        );
    }
    let name = name.or_else(|| base_name("sweep", plain, stem, &mut faults));
    unused(&space, &base, &mut faults);
    let combinations = grid_size(sampler, &space, &mut faults);
    for fault in faults {
        fields.problem(fault);
    }
    let (metric, second) = metrics?;
    contradictions(fields, (&metric, has_two), (sampler, stop), stop_wait);
    let epochs = plain
        .get("workload")
        .and_then(|table| table.get("epochs")?.as_integer());
    let epochs = epochs.and_then(|epochs| u32::try_from(epochs).ok());
    if stop == StopRule::Promotion {
        check_promotion(fields, &base, (&space, epochs, first_epoch));
    }
    Some(Sweep {
        name: name?,
        metric,
        second,
        trials: trials
            .or(combinations)
            .unwrap_or(50)
            .min(combinations.unwrap_or(MOST_TRIALS)),
        node_hours,
        max_jobs,
        sampler,
        stop,
        first_epoch,
        epochs,
        stop_wait,
        eta: u32::try_from(eta).ok()?,
        seed,
        space,
        tune: None,
        spans,
        base,
    })
}

/// Keys that do not go together.
fn contradictions(
    fields: &mut Fields<'_>,
    (metric, has_two): (&Metric, bool),
    (sampler, stop): (SamplerKind, StopRule),
    stop_wait: Option<Walltime>,
) {
    let stops = stop != StopRule::None;
    let is_time = TIMES.contains(&metric.name.as_str());
    let found = [
        (
            has_two && sampler == SamplerKind::Tpe,
            "sampler",
            "`tpe` searches for the best of one metric, and there are two",
            "choose optuna, optuna:gp, optuna:nsga2, sobol, random or grid, or take one metric out",
        ),
        (
            has_two && sampler == SamplerKind::OptunaCmaes,
            "sampler",
            "`optuna:cmaes` searches for the best of one metric, and there are two",
            "choose optuna, optuna:gp or optuna:nsga2, or take one metric out",
        ),
        (
            has_two && stops,
            "stop",
            "`sweep.stop` compares trials by one metric, and there are two",
            "take `stop` out, or one metric",
        ),
        (
            !has_two && stops && is_time,
            "stop",
            "`sweep.stop` compares trials at the same epoch, and the metric is a time",
            "take `stop` out, or choose a metric that the training prints",
        ),
        (
            stop_wait.is_some() && (!stops || stop == StopRule::Promotion),
            "stop_wait",
            "`sweep.stop_wait` has no effect: no trial is asked to end",
            "write `stop = \"asha\"`, or take the line out",
        ),
    ];
    for (_, key, message, hint) in found.into_iter().filter(|(is_so, ..)| *is_so) {
        fields.problem(Problem::at(fields.span(key), message).hinted(hint));
    }
}

/// One metric with its mode, or two as lists.
fn metrics(fields: &mut Fields<'_>) -> Option<(Metric, Option<Metric>)> {
    if fields.type_of("metric") != "array" {
        let name = fields.parsed("metric", metric_name);
        let is_max = fields.word("mode", &MODES);
        let (name, is_max) = (name?, is_max?);
        return Some((Metric { name, is_max }, None));
    }
    let names = fields.list("metric", metric_name);
    let modes = fields.list("mode", |word| {
        let mode = MODES.iter().find(|(known, _)| *known == word);
        mode.map(|(_, is_max)| *is_max)
            .ok_or_else(|| format!("{word:?} is none of min, max"))
    });
    let (names, modes) = (names?, modes?);
    match (&names[..], &modes[..]) {
        ([one, other], [max, other_max]) if one.value != other.value => {
            let metric = |name: &str, is_max: bool| Metric {
                name: name.to_owned(),
                is_max,
            };
            let second = metric(&other.value, other_max.value);
            Some((metric(&one.value, max.value), Some(second)))
        }
        _ => {
            fields.fault(
                "metric",
                "as lists `sweep.metric` and `sweep.mode` have two items each, of different metrics",
            );
            None
        }
    }
}

fn metric_name(name: &str) -> Result<String, String> {
    let is_fit = !name.is_empty() && name.len() <= 100 && !name.chars().any(char::is_control);
    let name = name.to_owned();
    is_fit
        .then_some(name)
        .ok_or_else(|| "must be a name of 1 to 100 bytes".to_owned())
}

/// How many trials a grid has.
fn grid_size(sampler: SamplerKind, space: &[Parameter], faults: &mut Vec<Problem>) -> Option<u32> {
    if sampler != SamplerKind::Grid || !faults.is_empty() {
        return None;
    }
    match space::grid(space) {
        Ok(all) => u32::try_from(all.len()).ok(),
        Err(problems) => {
            faults.extend(problems);
            None
        }
    }
}

/// A parameter that the job does not use would be searched in vain.
pub(super) fn unused(space: &[Parameter], base: &Document, faults: &mut Vec<Problem>) {
    let mut names = BTreeSet::new();
    base.values
        .values()
        .for_each(|value| gather(value, &mut names));
    for parameter in space.iter().filter(|parameter| parameter.path[0] == VARS) {
        let (short, name) = (&parameter.short, &parameter.name);
        if !names.contains(short) && !names.contains(name) {
            let message = format!("the parameter `{name}` is used nowhere");
            let hint =
                format!("write {{{{{short}}}}} where its value belongs, in run.command or run.env");
            faults.push(Problem::at(parameter.span.clone(), message).hinted(hint));
        }
    }
}

impl Sweep {
    /// The table of its file, and the verb: `sweep` or `tune`.
    #[must_use]
    pub fn table(&self) -> &'static str {
        self.tune.as_ref().map_or("sweep", |_| "tune")
    }

    /// What it is called in messages.
    #[must_use]
    pub fn noun(&self) -> &'static str {
        self.tune.as_ref().map_or("sweep", |_| "tuning")
    }

    /// Another number of trials; a grid has no more than its combinations.
    pub fn set_trials(&mut self, trials: u32) {
        let all = match self.sampler {
            SamplerKind::Grid => space::grid(&self.space).map_or(0, |all| all.len()),
            _ => MOST_TRIALS as usize,
        };
        self.trials = trials.min(u32::try_from(all).unwrap_or(MOST_TRIALS));
    }

    /// Whether the file that was run before is the same search, but for its budget; else the key that differs, and where it is here.
    ///
    /// # Errors
    /// The key.
    pub fn same_search(&self, before: &Self) -> Result<(), (String, Option<Range<usize>>)> {
        let both = |sweep: &Self| [Some(sweep.metric.clone()), sweep.second.clone()];
        let names = |sweep: &Self| both(sweep).map(|metric| Some(metric?.name));
        let modes = |sweep: &Self| both(sweep).map(|metric| Some(metric?.is_max));
        let length = |sweep: &Self| sweep.tune.as_ref().map(|tune| tune.length);
        let pairs = |sweep: &Self| sweep.tune.as_ref().map(|tune| tune.pairs);
        let own = [
            ("metric", names(self) != names(before)),
            ("mode", modes(self) != modes(before)),
            ("sampler", self.sampler != before.sampler),
            ("stop", self.stop != before.stop),
            ("first_epoch", self.first_epoch != before.first_epoch),
            ("eta", self.eta != before.eta),
            ("seed", self.seed != before.seed),
            ("epochs", length(self) != length(before)),
            // Pairs added until the interval excludes 1 would find a speed-up where there is none.
            ("pairs", pairs(self) != pairs(before)),
        ];
        let table = self.table();
        if let Some((key, _)) = own.into_iter().find(|(_, differs)| *differs) {
            return Err((format!("{table}.{key}"), self.spans.get(key).cloned()));
        }
        let plain = |parameter: &Parameter| Parameter {
            span: 0..0,
            ..parameter.clone()
        };
        for parameter in &self.space {
            if !before
                .space
                .iter()
                .any(|other| plain(other) == plain(parameter))
            {
                return Err((
                    format!("{table}.space.{}", parameter.name),
                    Some(parameter.span.clone()),
                ));
            }
        }
        if let Some(gone) = before
            .space
            .iter()
            .find(|other| self.space.iter().all(|one| one.name != other.name))
        {
            return Err((format!("{table}.space.{}", gone.name), None));
        }
        self.base.difference(&before.base).map_or(Ok(()), Err)
    }

    /// The epochs after which the starts of a trial end, the last those of the job file; without promotion there are none.
    #[must_use]
    pub fn rungs(&self) -> Vec<u32> {
        let all = self.epochs.filter(|_| self.stop == StopRule::Promotion);
        let Some(all) = all else {
            return Vec::new();
        };
        let rungs = std::iter::successors(Some(self.first_epoch), |rung| {
            rung.checked_mul(self.eta).filter(|next| next > rung)
        });
        rungs.take_while(|rung| *rung < all).chain([all]).collect()
    }

    /// The job file of a trial. `number` counts from 0; with `promotion` it continues.
    ///
    /// # Errors
    /// Placeholders that stand for nothing.
    pub fn trial(
        &self,
        number: usize,
        values: &Values,
        promotion: Option<&Promotion>,
    ) -> Result<Cell, Vec<Problem>> {
        let first = self.rungs().first().copied();
        let epochs = promotion.map(|its| its.epochs).or(first);
        self.start(
            number,
            values,
            (epochs, promotion.map(|its| its.from.as_str())),
        )
    }

    /// The job file of a trial that trains from its beginning to its end.
    ///
    /// # Errors
    /// As [`Sweep::trial`].
    pub fn whole_trial(&self, number: usize, values: &Values) -> Result<Cell, Vec<Problem>> {
        self.start(number, values, (self.rungs().last().copied(), None))
    }

    /// A start of a trial, up to an epoch and from a checkpoint.
    fn start(
        &self,
        number: usize,
        values: &Values,
        (epochs, from): (Option<u32>, Option<&str>),
    ) -> Result<Cell, Vec<Problem>> {
        let own = [
            (
                [VARS, "trial"],
                (!self.has_own_trial()).then(|| Value::from(format!("{:04}", number + 1))),
            ),
            (
                ["workload", "epochs"],
                epochs.map(|epochs| Value::from(i64::from(epochs))),
            ),
            (["resume", "from"], from.map(Value::from)),
        ];
        let own = own.map(|(path, value)| (path.map(str::to_owned), value));
        let span = || self.spans.get("stop").cloned().unwrap_or_default();
        let own = own.iter();
        let own = own.filter_map(|(path, value)| Some((path.as_slice(), value.clone()?, span())));
        let sets = self.space.iter().filter_map(|parameter| {
            let value = values.get(&parameter.name)?;
            Some((
                parameter.path.as_slice(),
                value.clone(),
                parameter.span.clone(),
            ))
        });
        let name = format!("{}-{:04}", self.name, number + 1);
        Cell::new(
            &self.base,
            ("trial", number, name, self.label(values)),
            sets.chain(own),
            false,
        )
    }

    /// Whether `{{trial}}` is a parameter or variable of the user's, and not the number of the trial. A tuning has no numbers.
    fn has_own_trial(&self) -> bool {
        let env = self.base.values.get("run").and_then(|run| run.get("env"));
        let is_set = env.is_some_and(|env| env.get("trial").is_some());
        let is_searched = self
            .space
            .iter()
            .any(|parameter| parameter.short == "trial");
        self.tune.is_some() || is_searched || (is_set && self.stop != StopRule::Promotion)
    }

    /// `lr=0.01 optimizer=sgd`.
    #[must_use]
    pub fn label(&self, values: &Values) -> String {
        let words = self.space.iter().filter_map(|parameter| {
            let value = values.get(&parameter.name)?;
            Some(format!("{}={}", parameter.short, shown(value)))
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = "[run]\ncommand = [\"train\", \"{{lr}}\"]\n";
    const SWEEP: &str = "[sweep]\nmetric = \"loss\"\nmode = \"min\"\n";
    const SPACE: &str = "[sweep.space]\nvars.lr = { low = 1e-5, high = 1e-1, log = true }\n";

    fn faults(text: &str) -> Vec<String> {
        let shown = |problem: &Problem| {
            format!(
                "{:?} {}",
                problem.position(text).map(|(line, _)| line),
                problem.message
            )
        };
        parse(text, "stem").map_or_else(
            |problems| problems.iter().map(shown).collect(),
            |_| Vec::new(),
        )
    }

    #[test]
    fn faults_name_their_lines() {
        assert_eq!(
            faults(&format!("{JOB}{SWEEP}{SPACE}")),
            Vec::<String>::new()
        );
        let with = |space: &str| format!("{JOB}{SWEEP}[sweep.space]\n{space}\n");
        let two = |line: &str, modes: &str| {
            format!(
                "{JOB}[sweep]\nmetric = [\"loss\", \"epoch_seconds\"]\nmode = {modes}\n{line}\n{SPACE}"
            )
        };
        for (text, expected) in [
            (JOB.to_owned(), "None the table `[sweep]` is missing"),
            (format!("{JOB}[sweep]\nmode = \"min\"\n{SPACE}"), "`metric`"),
            (
                format!("{JOB}[sweep]\nmetric = \"loss\"\n{SPACE}"),
                "`mode`",
            ),
            (
                format!("{JOB}{SWEEP}trials = 0\n{SPACE}"),
                "Some(6) `sweep.trials` must be from 1",
            ),
            (
                format!("{JOB}{SWEEP}sampler = \"best\"\n{SPACE}"),
                "Some(6) `sweep.sampler`",
            ),
            (
                format!("{JOB}{SWEEP}[sweep.space]\n"),
                "`sweep.space` has no parameter",
            ),
            (
                with("vars.lr = 0.1"),
                "Some(7) `sweep.space.vars.lr`: it is neither a list of values nor a range",
            ),
            (
                with("vars.lr = { low = 1.0, high = 0.1 }"),
                "`low` (1) must be below `high` (0.1)",
            ),
            (
                with("vars.lr = { low = 0.0, high = 0.1, log = true }"),
                "must be above 0",
            ),
            (
                with("vars.lr = { low = 0.0, high = nan }"),
                "must be numbers",
            ),
            (
                with("vars.lr = { low = 0.0, high = 1.0, step = 2 }"),
                "`step` is for whole numbers",
            ),
            (
                with("vars.lr = { low = 0.1 }"),
                "it needs both `low` and `high`",
            ),
            (
                with("vars.lr = { min = 0.1, max = 0.5 }"),
                "it needs both `low` and `high`",
            ),
            (with("vars.lr = [1, 1]"), "a value is listed twice"),
            (
                with("vars.lr = [inf, 1.0]"),
                "values must be text, finite numbers",
            ),
            (
                format!(
                    "{JOB}[sweep]\nmetric = \"wall_seconds\"\nmode = \"min\"\nstop = \"asha\"\n{SPACE}"
                ),
                "Some(6) `sweep.stop` compares",
            ),
            (
                format!("{JOB}{SWEEP}stop_wait = \"5m\"\n{SPACE}"),
                "Some(6) `sweep.stop_wait` has no effect",
            ),
            (
                format!("{JOB}{SWEEP}stop = \"promotion\"\n{SPACE}"),
                "Some(6) `sweep.stop` is \"promotion\": it needs `workload.epochs`",
            ),
            (
                format!("{JOB}{SWEEP}stop = \"promotion\"\n{SPACE}"),
                "the program has to be given the epochs",
            ),
            (
                format!("{JOB}{SWEEP}stop = \"promotion\"\n{SPACE}"),
                "each trial needs its own checkpoints",
            ),
            (
                format!("{JOB}{SWEEP}stop = \"promotion\"\n{SPACE}workload.epochs = [3, 9]\n"),
                "cannot be searched",
            ),
            (
                two("", "[\"min\", \"best\"]"),
                "\"best\" is none of min, max",
            ),
            (two("", "[\"min\"]"), "Some(4) as lists `sweep.metric`"),
            (
                two("sampler = \"tpe\"", "[\"min\", \"min\"]"),
                "Some(6) `tpe` searches for the best of one metric",
            ),
            (
                two("sampler = \"optuna:cmaes\"", "[\"min\", \"min\"]"),
                "Some(6) `optuna:cmaes` searches for the best of one metric",
            ),
            (
                two("stop = \"asha\"", "[\"min\", \"min\"]"),
                "Some(6) `sweep.stop` compares trials by one metric",
            ),
            (with("vars.lr = []"), "must have 1 to 1000 values, not 0"),
            (
                with("vars.lr = [[1]]"),
                "values must be text, finite numbers",
            ),
            (
                with("vars.lr = { low = 1, high = 2, hihg = 3 }"),
                "unknown key `hihg`",
            ),
            (
                with("vars.rl = [1, 2]"),
                "the parameter `vars.rl` is used nowhere",
            ),
            (with("runn.lr = [1, 2]"), "a job file has no table `runn`"),
            (
                with("vars.lr = { values = [1], when = { opt = \"sgd\" } }"),
                "`when` needs `otherwise`",
            ),
            (
                with("vars.lr = { values = [1], when = { opt = \"sgd\" }, otherwise = 2 }"),
                "no parameter before it is called `opt`",
            ),
            (
                with("vars.lr = { values = [1, 2], with = \"opt\" }"),
                "no parameter before it is called `opt`",
            ),
            (
                with(
                    "run.env.A = [\"1\", \"2\", \"3\"]\nvars.lr = { values = [1, 2], with = \"A\" }",
                ),
                "it has 2 values and `A` 3",
            ),
            (
                with("vars.lr = { low = 1, high = 2, with = \"opt\" }"),
                "`with` needs a list of values",
            ),
        ] {
            let found = faults(&text);
            assert!(
                found.iter().any(|fault| fault.contains(expected)),
                "{expected}: {found:?}"
            );
        }
        let grid = format!("{JOB}{SWEEP}sampler = \"grid\"\n{SPACE}");
        assert!(
            faults(&grid)[0].contains("is continuous"),
            "{:?}",
            faults(&grid)
        );
    }

    #[test]
    fn only_the_budget_of_a_search_may_change_and_what_differs_is_named() {
        let sweep = |text: &str| parse(text, "stem").expect("valid");
        let one = sweep(&format!("{JOB}{SWEEP}{SPACE}"));
        let larger =
            format!("# more\n{JOB}{SWEEP}trials = 9\nmax_jobs = 3\nnode_hours = 2.0\n{SPACE}");
        assert_eq!(sweep(&larger).same_search(&one), Ok(()));
        for (other, key) in [
            (
                format!("{JOB}{SWEEP}trials = 9\nseed = 2\n{SPACE}"),
                "sweep.seed",
            ),
            (
                format!("{JOB}{SWEEP}{}", SPACE.replace("1e-5", "1e-4")),
                "sweep.space.vars.lr",
            ),
            (
                format!("{}{SWEEP}{SPACE}", JOB.replace("train", "retrain")),
                "run.command",
            ),
            (
                format!("{JOB}[workload]\nepochs = 3\n{SWEEP}{SPACE}"),
                "workload",
            ),
        ] {
            let found = sweep(&other).same_search(&one).expect_err("another");
            assert_eq!(found.0, key);
            let span = found.1.expect("it is in the file");
            assert!(
                other[span].contains(|c: char| c.is_ascii_digit() || c == 'r'),
                "{other}"
            );
        }
        assert_eq!(
            one.same_search(&sweep(&format!(
                "{JOB}[workload]\nepochs = 3\n{SWEEP}{SPACE}"
            ))),
            Err(("workload".to_owned(), None))
        );
    }

    #[test]
    fn a_trial_is_a_job_file_in_which_no_value_is_shell_or_toml() {
        let text =
            format!("{JOB}{SWEEP}[sweep.space]\nvars.lr = ['$(id) \"; #\n']\n").replace("#\n", "#");
        let sweep = parse(&text, "stem").expect("valid");
        let values = Values([("vars.lr".to_owned(), Value::from("$(id) \"; #"))].into());
        let cell = sweep.trial(6, &values, None).expect("a job");
        let job = crate::job::parse(&cell.job_file).expect("valid");
        let crate::job::Command::Argv(words) = &job.run.command.value else {
            panic!("words")
        };
        assert_eq!(words, &["train", "$(id) \"; #"]);
        assert_eq!(job.name.as_deref(), Some("stem-0007"));
    }
}
