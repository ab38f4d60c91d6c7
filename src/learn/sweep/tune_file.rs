//! `[tune]`: a job file as a sweep over what changes how fast a training is, and not what it computes.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::de::DeTable;
use toml::{Table, Value};

use super::MOST_TRIALS;
use super::document::{
    EPOCH_SECONDS, Metric, STEP_SECONDS, SamplerKind, StopRule, Sweep, parse, unused,
};
use super::space::{self, Follows, Kind, Parameter, Values};
use super::tune::Tune;
use crate::foundation::diagnostic::{Problem, sort_problems};
use crate::foundation::toml_reader::{Fields, parse_document, syntax_problem};
use crate::image::choice::compilers_of;
use crate::learn::bench::{Document, MOST_JOBS, VARS, base_name, gather, named, shown};

/// Trials where the file gives no number; a grid that is not larger is run whole.
const USUAL_TRIALS: u32 = 20;
/// Epochs that a trial has: the first one is left out of its value.
const USUAL_EPOCHS: u64 = 4;
const USUAL_PAIRS: u64 = 4;
const THREADS: &str = "run.env.OMP_NUM_THREADS";
const COMPILER: &str = "framework.compiler";

/// What may differ between trials. Images of one framework are the user's choice.
const MAY_DIFFER: &str =
    "run.env, run.bind, resources.cpus_per_task, framework.compiler, image.path, image.uri";
/// What decides how many samples a step has.
const OF_BATCH: &str = "workload.batch_size, run.launcher, resources.nodes, resources.spares, resources.tasks, \
                        resources.tasks_per_node, resources.gpus_per_node, resources.gpus_per_task";
/// Parts of names of arguments whose product is the global batch.
const OF_STEP: &str = "batch, batchsize, bs, accum, accumulate, accumulation, microbatch, micro";
/// Parts of names of other arguments and variables that change what a training computes.
const OF_RESULT: &str = "lr, learning, \
                         seed, epoch, epochs, steps, iterations, samples, subset, limit, resolution, optimizer, momentum, decay, dropout, \
                         precision, amp, fp16, bf16, dtype";

/// Parts of names of arguments that say how fast samples come, and of switches among them.
const OF_LOADER: &str = "workers, prefetch";
const SWITCHES: &str = "persistent";

fn is_among(words: &str, word: &str) -> bool {
    words.split(", ").any(|known| known == word)
}

/// Reads a job file to tune. Without a table `[tune]` all is as usual. `stem` names it where it has no name itself.
///
/// # Errors
/// Every fault of the table `[tune]`, and what cannot be tuned.
pub fn parse_tune(text: &str, stem: &str) -> Result<Sweep, Vec<Problem>> {
    let with_table = format!("{text}\n[tune]\n");
    let document = parse_document(text)?;
    if document.contains_key("sweep") {
        let message = "this is a sweep, which may change the result, and no job to make faster";
        return Err(vec![
            Problem::of_file(message).hinted("run it by `dlrun sweep run FILE`"),
        ]);
    }
    let has_table = document.contains_key("tune");
    let text = if has_table { text } else { &with_table };
    let document = parse_document(text)?;
    let plain: Table = toml::from_str(text).map_err(|error| vec![syntax_problem(&error)])?;
    let mut problems = Vec::new();
    let mut fields = Fields::of_document(&document, &mut problems);
    let sweep = fields.table("tune", |fields| read(&document, &plain, fields, stem));
    match sweep.flatten() {
        Some(sweep) if problems.is_empty() => Ok(sweep),
        _ => {
            sort_problems(&mut problems);
            Err(problems)
        }
    }
}

/// Reads what is kept of a search under a name: a sweep where it has its table, else a tuning.
///
/// # Errors
/// As [`parse`] and [`parse_tune`].
pub fn parse_kept(text: &str, name: &str) -> Result<Sweep, Vec<Problem>> {
    if parse_document(text)?.contains_key("sweep") {
        return parse(text, name);
    }
    let sweep = parse_tune(text, name)?;
    Ok(Sweep {
        name: name.to_owned(),
        ..sweep
    })
}

fn read(
    document: &DeTable<'_>,
    plain: &Table,
    fields: &mut Fields<'_>,
    stem: &str,
) -> Option<Sweep> {
    let mut faults = Vec::new();
    let name = fields.parsed("name", |text| named(text).map(|()| text.to_owned()));
    let trials = fields.count("trials", MOST_TRIALS);
    let node_hours = fields.decimal("node_hours", 1e-6..=1e9);
    let max_jobs = fields.count("max_jobs", MOST_JOBS).unwrap_or(1);
    let epochs = fields.number("epochs", 2..=1_000_000);
    let steps = fields.number("steps", 2..=1_000_000);
    let pairs = fields.number("pairs", 2..=100);
    let spans = fields.spans(["epochs", "steps", "pairs"]).collect();
    let own = fields.own_span();
    let mut base = Document::without("tune", document, plain);
    let space = match fields.raw_table("space") {
        Some(table) => {
            let space = space::read(table, &mut faults);
            if space.is_empty() && faults.is_empty() {
                faults.push(Problem::at(own, "`tune.space` has no parameter"));
            }
            space
        }
        None => usual_space(&mut base, &own, &mut faults),
    };
    if epochs.is_some() && steps.is_some() {
        let message = "`tune.epochs` and `tune.steps` exclude each other: a trial has one length";
        faults.push(Problem::at(fields.span("steps"), message).hinted("take one of them out"));
    }
    unused(&space, &base, &mut faults);
    faults.extend(
        space
            .iter()
            .filter_map(|parameter| refusal(parameter, &space, &base)),
    );
    let of_batch = space.iter().find(|one| keeps_batch(one, &space, &base));
    if let Some(one) = of_batch.filter(|_| steps.is_some()) {
        let message = format!(
            "`tune.steps` compares steps, and `{}` changes how many samples one has",
            one.name
        );
        let problem = Problem::at(fields.span("steps"), message);
        faults.push(problem.hinted("compare epochs: tune.epochs = 4"));
    }
    not_tuned(&base, &mut faults);
    let baseline = baseline(&space, &base, &mut faults);
    let name = name
        .or_else(|| base_name("tune", plain, stem, &mut faults).map(|name| format!("{name}-tune")));
    let (sampler, trials) = sampler(&space, &baseline, trials, &mut faults);
    let is_faultless = faults.is_empty();
    for mut fault in faults {
        fault.message = fault.message.replace("`sweep.space", "`tune.space");
        fields.problem(fault);
    }
    let metric = steps.map_or(EPOCH_SECONDS, |_| STEP_SECONDS).to_owned();
    Some(Sweep {
        name: name.filter(|_| is_faultless)?,
        metric: Metric {
            name: metric,
            is_max: false,
        },
        second: None,
        stop_wait: None,
        trials,
        node_hours,
        max_jobs,
        sampler,
        stop: StopRule::None,
        first_epoch: 1,
        epochs: None,
        eta: 3,
        seed: 1,
        space,
        tune: Some(Tune {
            by_steps: steps.is_some(),
            length: u32::try_from(epochs.or(steps).unwrap_or(USUAL_EPOCHS)).ok()?,
            pairs: u32::try_from(pairs.unwrap_or(USUAL_PAIRS)).ok()?,
            baseline,
        }),
        spans,
        base,
    })
}

fn at<'a>(base: &'a Document, key: &str) -> Option<&'a Value> {
    let (first, rest) = key.split_once('.').unwrap_or((key, ""));
    let mut parts = rest.split('.').filter(|part| !part.is_empty());
    parts.try_fold(base.values.get(first)?, |value, part| value.get(part))
}

/// What is searched where the file does not say: threads, compilers, loader workers. Numbers among the arguments of `base` become
/// placeholders.
fn usual_space(
    base: &mut Document,
    span: &Range<usize>,
    faults: &mut Vec<Problem>,
) -> Vec<Parameter> {
    let choice = |name: &str, values: Vec<Value>| Parameter {
        name: name.to_owned(),
        short: name.rsplit('.').next().unwrap_or(name).to_owned(),
        kind: Kind::Choice(values),
        points: None,
        follows: None,
        path: name.split('.').map(str::to_owned).collect(),
        span: span.clone(),
    };
    let mut space = Vec::new();
    space.extend(usual_threads(base).map(|values| choice(THREADS, values)));
    space.extend(usual_compilers(base).map(|values| choice(COMPILER, values)));
    for found in loader_arguments(base) {
        let variable = format!("{VARS}.{}", found.name);
        // Of two options with one name only the first becomes a variable.
        if !space.iter().any(|one| one.name == variable) && found.make_placeholder(base) {
            space.push(choice(
                &variable,
                found.values.iter().copied().map(Value::from).collect(),
            ));
        }
    }
    if space.is_empty() {
        let message = "without `tune.space`, `resources.cpus_per_task` says how many threads are tried, and it is no number here";
        let problem = Problem::of_file(message);
        faults
            .push(problem.hinted("add cpus_per_task = 4 to [resources], or a table [tune.space]"));
    }
    space
}

/// The threads of the CPU libraries: one, half of the CPUs of a task, all of them.
fn usual_threads(base: &Document) -> Option<Vec<Value>> {
    let cpus = at(base, "resources.cpus_per_task")?.as_integer()?;
    let threads: BTreeSet<i64> = [1, cpus / 2, cpus]
        .into_iter()
        .filter(|one| *one > 0)
        .collect();
    Some(
        threads
            .iter()
            .map(|one| Value::from(one.to_string()))
            .collect(),
    )
}

/// Where the job file names a compiler, the program obeys: none, and those that the framework has.
fn usual_compilers(base: &Document) -> Option<Vec<Value>> {
    let text = |key| at(base, key).and_then(Value::as_str);
    let (own, framework) = (text(COMPILER)?, text("framework.name")?);
    let mut all = BTreeSet::from(["none"]);
    all.extend(compilers_of(framework));
    all.extend(Some(own).filter(|own| *own != "auto"));
    Some(all.into_iter().map(Value::from).collect())
}

/// Why a parameter is not searched.
fn refusal(parameter: &Parameter, space: &[Parameter], base: &Document) -> Option<Problem> {
    let fault = |why: String, hint: String| {
        let message = format!("`tune.space.{}` {why}", parameter.name);
        Some(Problem::at(parameter.span.clone(), message).hinted(hint))
    };
    let sweep = "`dlrun sweep` searches what changes the result".to_owned();
    let is_var = parameter.path[0] == VARS;
    let key = parameter.path[..2].join(".");
    if is_among(OF_BATCH, &key) || parameter.path[0] == "elastic" {
        let why = "changes the global batch, and so the result of the training";
        return fault(why.to_owned(), sweep);
    }
    if !is_var && !is_among(MAY_DIFFER, &key) {
        let why = "is not a key that changes the speed alone";
        let hint = format!("tune searches vars, {MAY_DIFFER}");
        return fault(why.to_owned(), hint);
    }
    let names = std::iter::once(parameter.short.clone()).chain(uses(parameter, base));
    let of_result = |name: &String| match has_part(name, OF_STEP) {
        true => !keeps_batch(parameter, space, base),
        false => has_part(name, OF_RESULT),
    };
    let name = { names }.find(of_result)?;
    let hint = match has_part(&name, OF_STEP) {
        true => "keep the global batch: vars.micro = [64, 32], vars.accumulate = { values = [1, 2], with = \"micro\" }".to_owned(),
        false => sweep,
    };
    fault(
        format!("sets `{name}`, which changes the result of the training"),
        hint,
    )
}

/// Whether a part of a name, as `batch` of `--batch-size`, is among some.
fn has_part(name: &str, words: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let mut parts = name.split(|c: char| !c.is_ascii_alphanumeric());
    parts.any(|part| is_among(words, part))
}

/// Whether it is one of two numbers that are searched together and have the same product in each trial: samples of a step, and steps
/// whose gradients are accumulated.
fn keeps_batch(parameter: &Parameter, space: &[Parameter], base: &Document) -> bool {
    let of_pair = |one: &Parameter| {
        let Some(Follows::With(other, values)) = &one.follows else {
            return false;
        };
        let product = |(theirs, own): &(String, Value)| {
            let own: i64 = shown(own).parse().ok()?;
            own.checked_mul(theirs.parse().ok()?)
        };
        let products: BTreeSet<Option<i64>> = values.iter().map(product).collect();
        let both = [&one.name, other];
        // Of a variable the first value is the one in use.
        let is_of_step = |one: &Parameter| {
            let names = std::iter::once(one.short.clone()).chain(uses(one, base));
            one.path[0] == VARS && { names }.any(|name| has_part(&name, OF_STEP))
        };
        let pair = space.iter().filter(|one| both.contains(&&one.name));
        let is_constant = products.len() == 1 && !products.contains(&None);
        both.contains(&&parameter.name) && is_constant && { pair }.all(is_of_step)
    };
    space.iter().any(of_pair)
}

/// The options and variables into which a variable goes: `--workers` of `--workers={{n}}` and of `--workers {{n}}`.
fn uses(parameter: &Parameter, base: &Document) -> Vec<String> {
    let is_in = |value: &Value| {
        let mut names = BTreeSet::new();
        gather(value, &mut names);
        names.contains(&parameter.short) || names.contains(&parameter.name)
    };
    let Some(run) = base.values.get("run") else {
        return Vec::new();
    };
    let words: Vec<&Value> = run
        .get("command")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut names = Vec::new();
    for (place, word) in words.iter().enumerate().filter(|(_, word)| is_in(word)) {
        let word = text(word);
        let own = [&parameter.short, &parameter.name];
        let own = own.map(|name| word.find(&format!("{{{{{name}}}}}")));
        let at = own.into_iter().flatten().min().unwrap_or(0);
        names.push(word[..at].to_owned());
        // `--workers {{n}}`, and not `--seed=1 {{n}}`.
        let option = place.checked_sub(1).map(|place| text(words[place]));
        let takes_it = |option: &String| option.starts_with('-') && !option.contains('=');
        names.extend(option.filter(|option| at == 0 && takes_it(option)));
    }
    let env = run.get("env").and_then(Value::as_table);
    let env = env.into_iter().flatten().filter(|(_, value)| is_in(value));
    names.extend(env.map(|(name, _)| name.clone()));
    names
}

/// A number of loader workers or the like among the arguments: `--workers 4`, `--prefetch=2`.
struct LoaderArgument {
    /// As it is written.
    option: String,
    /// `num_workers`, of `--data.num-workers` too.
    name: String,
    /// The word in which the number is.
    place: usize,
    /// Its own first.
    values: Vec<u32>,
}

impl LoaderArgument {
    /// Writes `{{name}}` in place of the number; says whether the command is a list of words.
    fn make_placeholder(&self, base: &mut Document) -> bool {
        let run = base.values.get_mut("run").and_then(Value::as_table_mut);
        let words = run.and_then(|run| run.get_mut("command")?.as_array_mut());
        let Some(Value::String(word)) = words.and_then(|words| words.get_mut(self.place)) else {
            return false;
        };
        let before = word.rfind('=').map_or(0, |at| at + 1);
        *word = format!("{}{{{{{}}}}}", &word[..before], self.name);
        true
    }
}

/// Those of the command.
fn loader_arguments(base: &Document) -> Vec<LoaderArgument> {
    let command = at(base, "run.command").and_then(Value::as_array);
    let words = command.into_iter().flatten().map(Value::as_str);
    let words: Vec<&str> = words.map(Option::unwrap_or_default).collect();
    let mut found = Vec::new();
    for (place, word) in words.iter().enumerate() {
        let (option, written, place) = match word.split_once('=') {
            Some((option, number)) => (option, Some(number), place),
            None => (*word, words.get(place + 1).copied(), place + 1),
        };
        // `--data.num_workers` is the variable `num_workers`.
        let name = option.trim_start_matches('-').to_ascii_lowercase();
        let name = name.rsplit('.').next().unwrap_or_default();
        let has = |words: &str| name.split(['-', '_']).any(|part| is_among(words, part));
        let is_searchable = has(OF_LOADER) && !has(OF_RESULT) && !has(SWITCHES);
        let is_meant = option.starts_with('-') && is_searchable;
        let number = written.and_then(|number| number.parse::<u32>().ok());
        let Some(number) = number.filter(|_| is_meant) else {
            continue;
        };
        let mut values = vec![number];
        let least = u32::from(has("prefetch"));
        for other in [number / 2, number.saturating_mul(2), 2, 4] {
            if other >= least && !values.contains(&other) {
                values.push(other);
            }
        }
        found.push(LoaderArgument {
            option: option.to_owned(),
            name: name.replace('-', "_"),
            place,
            values,
        });
    }
    found
}

/// Such arguments that the file's own `[tune.space]` leaves out, with how they are searched.
pub fn not_searched(sweep: &Sweep) -> Vec<String> {
    let found = loader_arguments(&sweep.base);
    let hint = |LoaderArgument {
                    option,
                    name,
                    values,
                    ..
                }: &LoaderArgument| {
        let number = values.first().copied().unwrap_or_default();
        format!(
            "`{option}` is not searched: to try other values write {{{{{name}}}}} in place of {number}, and \
             `vars.{name} = {values:?}` under [tune.space]"
        )
    };
    found.iter().map(hint).collect()
}

/// Jobs whose trials would not be comparable.
fn not_tuned(base: &Document, faults: &mut Vec<Problem>) {
    let reasons = [
        (
            "resources.array",
            "each trial is a separate job, not an array",
        ),
        (
            "resume",
            "a trial would continue from the checkpoint of the one before",
        ),
        (
            "framework.trial",
            "each trial would choose compiler and threads by itself",
        ),
    ];
    for (key, why) in reasons {
        if at(base, key).is_some_and(|value| value.as_bool() != Some(false)) {
            let problem = Problem {
                span: base.spans.get(key).cloned(),
                ..Problem::of_file(format!("a job with `{key}` cannot be tuned: {why}"))
            };
            faults.push(problem.hinted("tune a copy of the job file without it"));
        }
    }
}

/// What the user has: the job file's own values, of a variable the first.
fn baseline(space: &[Parameter], base: &Document, faults: &mut Vec<Problem>) -> Values {
    let mut values = Values::default();
    for parameter in space {
        let value = match &parameter.kind {
            _ if parameter.path[0] != VARS => at(base, &parameter.name).cloned(),
            Kind::Choice(all) => all.first().cloned(),
            _ => {
                let message = format!(
                    "`tune.space.{}` must be a list whose first value is the one that you use now",
                    parameter.name
                );
                faults.push(Problem::at(parameter.span.clone(), message));
                None
            }
        };
        values
            .0
            .extend(value.map(|value| (parameter.name.clone(), value)));
    }
    values
}

/// All combinations where there are few, else the best that TPE finds; and how many trials that is. More trials later are the same
/// search.
fn sampler(
    space: &[Parameter],
    baseline: &Values,
    trials: Option<u32>,
    faults: &mut Vec<Problem>,
) -> (SamplerKind, u32) {
    let grid = space::grid(space).unwrap_or_default();
    let count = grid.iter().filter(|values| *values != baseline).count();
    if count == 0 && !grid.is_empty() && faults.is_empty() {
        let message = "the only values to try are those that the job file has";
        faults.push(Problem::of_file(message).hinted("add values to [tune.space]"));
    }
    let all = u32::try_from(count + 1).unwrap_or(u32::MAX);
    match grid.is_empty() || all > USUAL_TRIALS {
        true => (SamplerKind::Tpe, trials.unwrap_or(USUAL_TRIALS)),
        false => (SamplerKind::Grid, trials.unwrap_or(all).min(all)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use crate::learn::sweep::Sampler;

    const JOB: &str = "[run]\ncommand = [\"train\", \"--workers\", \"{{n}}\", \"--bs={{size}}\"]\n";
    const THREADS_OF_FOUR: &str = "[run]\ncommand = [\"train\"]\n[resources]\ncpus_per_task = 4\n";

    fn faults(text: &str) -> Vec<String> {
        let shown = |problem: &Problem| {
            let line = problem.position(text).map(|(line, _)| line);
            format!("{line:?} {}", problem.message)
        };
        let problems = parse_tune(text, "stem").expect_err(text);
        problems.iter().map(shown).collect()
    }

    fn tuned(text: &str) -> Sweep {
        parse_tune(text, "stem").unwrap_or_else(|problems| panic!("{problems:?}"))
    }

    #[test]
    fn what_changes_the_result_is_refused_with_line_and_cause() {
        let space =
            |lines: &str| format!("{JOB}[tune.space]\n{lines}\nvars.n = [1, 2]\nvars.size = [8]\n");
        let of_bs = "Some(6) `tune.space.vars.size` sets `--bs=`, which changes the result";
        for (lines, expected) in [
            (
                "workload.batch_size = [8, 16]",
                "Some(4) `tune.space.workload.batch_size` changes the global batch",
            ),
            (
                "resources.nodes = [1, 2]",
                "Some(4) `tune.space.resources.nodes` changes the global batch",
            ),
            (
                "resources.tasks_per_node = [1, 2]",
                "Some(4) `tune.space.resources.tasks_per_node` changes the global batch",
            ),
            (
                "run.launcher = [\"mpi\"]",
                "Some(4) `tune.space.run.launcher` changes the global batch",
            ),
            (
                "resources.walltime = [\"1h\"]",
                "Some(4) `tune.space.resources.walltime` is not a key that changes the speed alone",
            ),
            (
                "run.env.SEED = [\"1\"]",
                "Some(4) `tune.space.run.env.SEED` sets `SEED`, which changes the result",
            ),
            (
                "run.env.ACCUM_STEPS = [\"1\", \"2\"]",
                "Some(4) `tune.space.run.env.ACCUM_STEPS` sets `ACCUM_STEPS`, which changes the result",
            ),
            ("resources.cpus_per_task = [1, 2]", of_bs),
        ] {
            let found = faults(&space(lines));
            assert!(
                found.iter().any(|fault| fault.starts_with(expected)),
                "{expected}: {found:?}"
            );
            assert!(
                found.iter().any(|fault| fault.starts_with(of_bs)),
                "{found:?}"
            );
        }
        let range = format!("{JOB}[tune.space]\nvars.n = {{ low = 1, high = 4 }}\n")
            .replace("{{size}}", "8");
        assert_eq!(
            faults(&range),
            [
                "Some(4) `tune.space.vars.n` must be a list whose first value is the one that you use now"
            ]
        );
    }

    #[test]
    fn the_samples_of_a_step_are_searched_where_the_global_batch_stays() {
        let job = "[run]\ncommand = [\"train\", \"--micro-batch\", \"{{micro}}\", \"--gradient_accumulation_steps\", \"{{n}}\"]\n";
        let space =
            |n: &str| format!("{job}[tune.space]\nvars.micro = [64, 32, 16]\nvars.n = {n}\n");
        let sweep = tuned(&space("{ values = [1, 2, 4], with = \"micro\" }"));
        let mut sampler = Sampler::new(&sweep);
        let pair = |values: Values| ["vars.micro", "vars.n"].map(|name| values.text(name));
        let pairs: Vec<[Option<String>; 2]> = (0..9)
            .map_while(|number| sampler.propose(number).map(pair))
            .collect();
        let expected = [["64", "1"], ["32", "2"], ["16", "4"]];
        assert_eq!(
            pairs,
            expected.map(|pair| pair.map(|one| Some(one.to_owned())))
        );
        for n in ["[1, 2, 4]", "{ values = [1, 2, 3], with = \"micro\" }"] {
            let found = faults(&space(n));
            assert_eq!(found.len(), 2, "{n}: {found:?}");
        }
        let by_steps = format!(
            "{}[tune]\nsteps = 9\n",
            space("{ values = [1, 2, 4], with = \"micro\" }")
        );
        assert!(faults(&by_steps)[0].contains("`tune.steps` compares steps"));
    }

    #[test]
    fn a_word_beside_an_option_with_its_own_value_is_not_that_option() {
        let parsed = |words: &str| {
            let job =
                format!("[run]\ncommand = [\"train\", {words}]\n[tune.space]\nvars.n = [0, 2]\n");
            parse_tune(&job, "stem")
        };
        for words in [
            "\"--batch-size=32\", \"--workers={{n}}\"",
            "\"--seed=1\", \"{{n}}\"",
            "\"--seed\", \"--workers={{n}}\"",
        ] {
            assert!(parsed(words).is_ok(), "{words}");
        }
        for words in [
            "\"--samples={{n}}\"",
            "\"-a 1 --bs={{n}}\"",
            "\"--seed\", \"{{n}}\"",
        ] {
            assert!(parsed(words).is_err(), "{words}");
        }
    }

    #[test]
    fn numbers_of_workers_that_are_not_searched_are_named() {
        let hints = |words: &str| {
            let job = THREADS_OF_FOUR.replace("\"train\"", words);
            not_searched(&tuned(&format!(
                "{job}[tune.space]\n{THREADS} = [\"1\", \"2\"]\n"
            )))
        };
        let found = hints("\"train\", \"--num-workers\", \"8\", \"--prefetch_factor=2\"");
        assert_eq!(
            found,
            [
                "`--num-workers` is not searched: to try other values write {{num_workers}} in place of 8, and \
                 `vars.num_workers = [8, 4, 16, 2]` under [tune.space]",
                "`--prefetch_factor` is not searched: to try other values write {{prefetch_factor}} in place of 2, and \
                 `vars.prefetch_factor = [2, 1, 4]` under [tune.space]"
            ]
        );
        let found = hints("\"train\", \"--data.num_workers=1\", \"--prefetch=1\"");
        assert!(
            found[0].contains("vars.num_workers = [1, 0, 2, 4]"),
            "{found:?}"
        );
        assert!(found[1].contains("vars.prefetch = [1, 2, 4]"), "{found:?}");
        for words in [
            "\"train\", \"--persistent-workers=1\", \"--prefetch-samples=8\"",
            "\"train\", \"--workers\", \"auto\"",
            "\"train\", \"workers\", \"8\"",
            "\"train\", \"--batch-size\", \"8\"",
            "\"train\", \"--workers\"",
        ] {
            assert_eq!(hints(words), [""; 0], "{words}");
        }
    }

    #[test]
    fn without_a_table_workers_and_a_named_compiler_are_tried_too() {
        let job = THREADS_OF_FOUR.replace(
            "\"train\"",
            "\"train\", \"--data.num-workers=3\", \"--workers\", \"3\", \"--workers\", \"5\"",
        );
        let framework = "[framework]\nname = \"pytorch\"\ncompiler = \"auto\"\n";
        let sweep = tuned(&format!("{job}{framework}"));
        let names: Vec<&str> = sweep.space.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(
            names,
            [THREADS, COMPILER, "vars.num_workers", "vars.workers"]
        );
        let Kind::Choice(compilers) = &sweep.space[1].kind else {
            panic!("a list")
        };
        assert_eq!(compilers, &["inductor", "none"].map(Value::from));
        assert_eq!(
            not_searched(&sweep),
            [
                "`--workers` is not searched: to try other values write {{workers}} in place of 5, and `vars.workers = [5, 2, 10, 4]` under [tune.space]"
            ]
        );
        // The user's own settings are those of the file.
        let own = sweep.tune.as_ref().expect("a tuning").baseline.clone();
        let before = sweep.tuned_job(&own).expect("valid");
        assert!(
            before.contains("\"--data.num-workers=3\", \"--workers\", \"3\""),
            "{before}"
        );
        let changed = sweep
            .changes(&Values::at(&sweep.space, 0.9))
            .expect("valid");
        assert!(
            changed["run.command"].contains("\"--workers\", \"4\""),
            "{changed:?}"
        );
        // A compiler that is not named is none that the program obeys.
        let sweep = tuned(&job);
        assert!(sweep.space.iter().all(|one| one.name != COMPILER));
    }

    #[test]
    fn a_job_that_cannot_be_compared_is_refused_with_line_and_cause() {
        for (lines, expected) in [
            (
                "array = \"0-3\"",
                "Some(5) a job with `resources.array` cannot be tuned",
            ),
            (
                "[resume]\ncheckpoints = [\"a\"]",
                "Some(5) a job with `resume` cannot be tuned",
            ),
            (
                "[framework]\ntrial = true",
                "Some(6) a job with `framework.trial` cannot be tuned",
            ),
            ("[tune]\nepochs = 1", "Some(6) `tune.epochs` must be from 2"),
            ("[tune]\npairs = 1", "Some(6) `tune.pairs` must be from 2"),
            (
                "[tune]\nepochs = 3\nsteps = 9",
                "Some(7) `tune.epochs` and `tune.steps` exclude each other",
            ),
            (
                "[tune]\nmetric = \"loss\"",
                "Some(6) unknown key `tune.metric`",
            ),
            (
                "[tune]\nspace = {}",
                "Some(5) `tune.space` has no parameter",
            ),
            (
                "env = 1\n[run.env]\nOMP_NUM_THREADS = \"1\"\n[tune.space]\nrun.env.OMP_NUM_THREADS = [\"1\"]",
                "None the only values to try are",
            ),
        ] {
            let found = faults(&format!("{THREADS_OF_FOUR}{lines}\n"));
            assert!(
                found.iter().any(|fault| fault.starts_with(expected)),
                "{expected}: {found:?}"
            );
        }
        let found = faults(&THREADS_OF_FOUR.replace("cpus_per_task = 4\n", ""));
        assert!(
            found[0].contains("`resources.cpus_per_task` says how many threads are tried"),
            "{found:?}"
        );
    }

    #[test]
    fn without_a_table_threads_are_tried_and_the_user_s_settings_come_first() {
        let trials = |text: &str| {
            let sweep = tuned(text);
            let mut sampler = Sampler::new(&sweep);
            let values = (0..9).map_while(|number| sampler.propose(number));
            let texts: Vec<Option<String>> = values.map(|values| values.text(THREADS)).collect();
            assert_eq!(
                (sweep.trials as usize, sweep.name.as_str()),
                (texts.len(), "stem-tune")
            );
            texts
                .into_iter()
                .map(Option::unwrap_or_default)
                .collect::<Vec<_>>()
        };
        assert_eq!(trials(THREADS_OF_FOUR), ["", "1", "2", "4"]);
        let own = format!("{THREADS_OF_FOUR}[run.env]\nOMP_NUM_THREADS = \"2\"\n");
        assert_eq!(trials(&own), ["2", "1", "4"]);
        let sweep = tuned(&own);
        let two = Values::at(&sweep.space, 0.9);
        let changes = sweep.changes(&two).expect("valid");
        assert_eq!(
            changes,
            BTreeMap::from([(THREADS.to_owned(), "\"4\"".to_owned())])
        );
    }
}
