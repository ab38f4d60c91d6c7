//! What others have published: how much longer one way of training takes than another, out of a TOML file.
//!
//! Each effect is a ratio of times, so that it says something of machines that the source never saw. dlrun has those of
//! `etc/priors.toml` built in; a site may have a file of its own.

use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Hardware, Situation};
use crate::foundation::diagnostic::{Problem, nearest};
use crate::job::{Fields, Framework, Provenance, StorageClass, Workload, word};

/// The version of the form that is read.
const FORMAT: u64 = 1;
/// More effects than this are no file of priors: they would be a store of runs.
const MAX_EFFECTS: usize = 1_000;
/// More samples, parameters or nodes than this are a mistake.
const MAX_COUNT: u64 = 1 << 53;
/// Further ratios are mistakes: 512 GPUs have 0.002.
const RATIOS: std::ops::RangeInclusive<f64> = 1e-5..=1e5;
/// Surer than 1 % is no publication; less sure than this says nothing.
const DEVIATIONS: std::ops::RangeInclusive<f64> = 0.01..=10.0;

/// What is known before the first run is measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Priors {
    /// The effects, in the order of the file.
    pub effects: Vec<Effect>,
}

/// One published comparison. The two sides share workload and device and differ in something else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Its name in the file; no other effect has it.
    pub name: String,
    /// What was compared. What the source does not tell is unknown.
    pub a: Situation,
    /// With what.
    pub b: Situation,
    /// Seconds of an epoch on the side `a` divided by those on the side `b`.
    pub time_ratio: f64,
    /// Standard deviation of the natural logarithm of that ratio, as it is to be taken elsewhere.
    pub sd: f64,
    /// Where it is published.
    pub source: String,
}

impl Priors {
    /// None: only what was measured counts.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Those of `etc/priors.toml`, as it was when dlrun was built.
    #[must_use]
    pub fn built_in() -> Self {
        Self::parse(include_str!("../../../etc/priors.toml")).expect("a test reads it")
    }

    /// Reads the text of a file. `docs/model.md` tells its keys.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its place. An unknown key is an error: a condition that is passed over would
    /// make the effect one of other runs.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let (document, syntax) = DeTable::parse_recoverable(text);
        if !syntax.is_empty() {
            let told = |error: &toml::de::Error| Problem {
                span: error.span(),
                message: error.message().trim().replace('\n', "; "),
                hint: None,
            };
            return Err(syntax.iter().map(told).collect());
        }
        let mut problems = Vec::new();
        let priors = read(document.get_ref(), &mut problems);
        problems.sort_by_key(|problem| problem.span.as_ref().map(|span| span.start));
        if problems.is_empty() {
            Ok(priors)
        } else {
            Err(problems)
        }
    }
}

fn read(document: &DeTable<'_>, problems: &mut Vec<Problem>) -> Priors {
    let mut priors = Priors::none();
    if let Some(value) = document.get("format") {
        let number = value.get_ref().as_integer().map(|number| number.as_str());
        if number != Some("1") {
            problems.push(
                Problem::at(value.span(), format!("`format` must be {FORMAT}"))
                    .hinted("a file of another format was made for another version of dlrun"),
            );
            return priors;
        }
    }
    for (key, value) in document {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("format", _) => {}
            ("effect", DeValue::Array(list)) if list.len() > MAX_EFFECTS => {
                let message = format!("{} effects are more than {MAX_EFFECTS}", list.len());
                let hint = "measured runs are brought in by `dlrun import`";
                problems.push(Problem::at(value.span(), message).hinted(hint));
            }
            ("effect", DeValue::Array(list)) => {
                for item in list {
                    let Some(table) = item.get_ref().as_table() else {
                        problems.push(Problem::at(item.span(), "`effect` is written [[effect]]"));
                        continue;
                    };
                    if let Some(effect) = read_effect(table, &item.span(), &priors, problems) {
                        priors.effects.push(effect);
                    }
                }
            }
            ("effect", _) => {
                problems.push(Problem::at(value.span(), "`effect` is written [[effect]]"))
            }
            (name, _) => {
                let problem = Problem::at(key.span(), format!("unknown key `{name}`"));
                problems.push(match nearest(name, ["format", "effect"]) {
                    Some(guess) => problem.hinted(format!("did you mean `{guess}`?")),
                    None => problem.hinted("known here: format, [[effect]]"),
                });
            }
        }
    }
    priors
}

fn read_effect(
    table: &DeTable<'_>,
    span: &std::ops::Range<usize>,
    others: &Priors,
    problems: &mut Vec<Problem>,
) -> Option<Effect> {
    let before = problems.len();
    let mut fields = Fields::new("effect.", table, &[], problems);
    let name = fields.parsed("name", word);
    let gpu = fields
        .word("device", &[("cpu", false), ("gpu", true)], &[])
        .map(|word| word.value);
    let time_ratio = fields.decimal("time_ratio", RATIOS);
    let sd = fields.decimal("sd", DEVIATIONS);
    let source = fields.parsed("source", line_of_text);
    // What is no table is reported here.
    let _ = (
        fields.table("workload"),
        fields.table("a"),
        fields.table("b"),
    );
    for key in ["name", "device", "a", "b", "time_ratio", "sd", "source"] {
        if !fields.holds(key) {
            fields.problem(Problem::at(
                span.clone(),
                format!("an effect needs `{key}`"),
            ));
        }
    }
    if let Some(name) = &name
        && others.effects.iter().any(|other| other.name == name.value)
    {
        let message = format!("there is another effect `{}`", name.value);
        fields.problem(
            Problem::at(name.span.clone(), message).hinted("give one of them another name"),
        );
    }
    fields.finish();
    let inner = |key| {
        table
            .get(key)
            .and_then(|value: &Spanned<DeValue<'_>>| value.get_ref().as_table())
    };
    let workload = inner("workload")
        .map(|table| read_workload(table, problems))
        .unwrap_or_default();
    let mut side = |key, prefix| {
        Some(read_side(
            inner(key)?,
            prefix,
            gpu.unwrap_or_default(),
            &workload,
            problems,
        ))
    };
    let (a, b) = (side("a", "effect.a."), side("b", "effect.b."));
    if a.is_some() && a == b {
        let hint = "name on each side what was compared, such as `compiler`";
        problems.push(Problem::at(span.clone(), "the sides `a` and `b` are the same").hinted(hint));
    }
    if problems.len() > before {
        return None;
    }
    Some(Effect {
        name: name?.value,
        a: a?,
        b: b?,
        time_ratio: time_ratio?.value,
        sd: sd?.value,
        source: source?.value,
    })
}

fn read_workload(table: &DeTable<'_>, problems: &mut Vec<Problem>) -> Workload {
    let mut fields = Fields::new("effect.workload.", table, &[], problems);
    let mut label = |key| fields.parsed(key, line_of_text).map(|text| text.value);
    let (model, dataset, precision) = (label("model"), label("dataset"), label("precision"));
    let mut count = |key| fields.number(key, 1..MAX_COUNT).map(|number| number.value);
    let (parameters, samples, batch_size) =
        (count("parameters"), count("samples"), count("batch_size"));
    fields.finish();
    Workload {
        model,
        parameters,
        dataset,
        samples,
        batch_size,
        epochs: None,
        precision,
    }
}

fn read_side(
    table: &DeTable<'_>,
    prefix: &'static str,
    gpu: bool,
    workload: &Workload,
    problems: &mut Vec<Problem>,
) -> Situation {
    let mut fields = Fields::new(prefix, table, &[], problems);
    let name = fields.parsed("framework", word).map(|name| name.value);
    let version = fields
        .parsed("version", one_version)
        .map(|version| version.value);
    let compiler = fields
        .parsed("compiler", word)
        .map(|compiler| compiler.value);
    let provenance = fields
        .word("provenance", &Provenance::WORDS, &[])
        .map(|word| word.value);
    let storage = fields
        .word("storage", &StorageClass::WORDS, &[])
        .map(|word| word.value);
    let precision = fields
        .parsed("precision", line_of_text)
        .map(|precision| precision.value);
    let batch_size = fields
        .number("batch_size", 1..MAX_COUNT)
        .map(|number| number.value);
    let nodes = fields
        .count("nodes", 1_000_000)
        .map_or(1, |count| count.value);
    let tasks_per_node = fields
        .count("tasks_per_node", 1_000_000)
        .map_or(1, |count| count.value);
    let threads = fields
        .decimal("threads", 0.01..=1e6)
        .map(|threads| threads.value);
    let gpus = if gpu {
        fields
            .count("gpus_per_node", 1_000)
            .map_or(1, |count| count.value)
    } else {
        0
    };
    fields.finish();
    let mut workload = workload.clone();
    workload.batch_size = batch_size.or(workload.batch_size);
    workload.precision = precision.or(workload.precision);
    Situation {
        workload,
        framework: Framework {
            name,
            version,
            compiler,
            provenance,
        },
        image: None,
        hardware: Hardware {
            threads,
            gpus,
            ..Hardware::default()
        },
        nodes,
        tasks_per_node,
        storage,
    }
}

/// Not a range: a range would be a category that no run has.
fn one_version(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".+-_".contains(c);
    if text.starts_with(|c: char| c.is_ascii_digit())
        && text.len() <= 100
        && text.chars().all(allowed)
    {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is no version such as \"2.4.1\""))
    }
}

fn line_of_text(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 200 || text.chars().any(char::is_control) {
        return Err(format!("{text:?} is not one line of at most 200 bytes"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: &str = "[[effect]]\nname = \"x\"\ndevice = \"cpu\"\na = { compiler = \"XLA\" }\nb = { compiler = \"none\" }\ntime_ratio = 2\nsd = 0.5\nsource = \"s\"\n";

    fn problems(text: &str) -> Vec<String> {
        let told = |problem: &Problem| {
            let line = problem.position(text).map_or(0, |(line, _)| line);
            format!(
                "{line}: {} [{}]",
                problem.message,
                problem.hint.as_deref().unwrap_or_default()
            )
        };
        Priors::parse(text)
            .err()
            .unwrap_or_default()
            .iter()
            .map(told)
            .collect()
    }

    #[test]
    fn those_that_are_built_in_are_read_and_each_has_a_source() {
        let priors = Priors::built_in();
        assert!(priors.effects.len() >= 20, "{}", priors.effects.len());
        let xla = priors
            .effects
            .iter()
            .find(|effect| effect.name == "xla-cpu")
            .expect("it is there");
        assert!(xla.time_ratio > 1.3 && xla.a.hardware.gpus == 0, "{xla:?}");
        assert_eq!(xla.a.workload.parameters, Some(1_199_882));
        for effect in &priors.effects {
            assert!(effect.source.len() > 10, "{effect:?}");
            // Weak: the surest of them is worth less than one measured pair of runs that differ by 10 %.
            assert!(effect.sd > 0.14, "{effect:?}");
        }
    }

    #[test]
    fn a_short_one_is_read_and_its_words_are_brought_to_one_form() {
        let priors = Priors::parse(SHORT).expect("it is right");
        let [effect] = &priors.effects[..] else {
            panic!("{priors:?}")
        };
        assert_eq!(effect.a.framework.compiler.as_deref(), Some("xla"));
        assert_eq!(
            (effect.time_ratio, effect.a.nodes, effect.a.hardware.gpus),
            (2.0, 1, 0)
        );
        assert_eq!(Priors::parse(""), Ok(Priors::none()));
    }

    #[test]
    fn a_side_may_differ_from_the_workload_in_batch_and_precision() {
        let text = SHORT
            .replace(
                "a = {",
                "workload = { batch_size = 8, precision = \"fp32\" }\na = {",
            )
            .replace("\"XLA\"", "\"xla\", batch_size = 16");
        let effect = &Priors::parse(&text).expect("it is right").effects[0];
        assert_eq!(
            (effect.a.workload.batch_size, effect.b.workload.batch_size),
            (Some(16), Some(8))
        );
        assert_eq!(effect.a.workload.precision.as_deref(), Some("fp32"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, part) in [
            ("[[effect]".to_owned(), "1: "),
            ("format = 2\n".into(), "1: `format` must be 1"),
            ("efect = 1\n".into(), "did you mean `effect`?"),
            ("effect = 1\n".into(), "1: `effect` is written [[effect]]"),
            ("effect = [1]\n".into(), "1: `effect` is written [[effect]]"),
            (
                SHORT.replace("time_ratio = 2", "time_ratio = \"2\""),
                "6: `effect.time_ratio` must be a number",
            ),
            (
                SHORT.replace("time_ratio = 2", "time_ratio = -2"),
                "6: `effect.time_ratio` must be from",
            ),
            (
                SHORT.replace("time_ratio = 2", "time_ratio = nan"),
                "6: `effect.time_ratio` must be from",
            ),
            (
                SHORT.replace("time_ratio = 2", "time_ratio = inf"),
                "6: `effect.time_ratio` must be from",
            ),
            (
                SHORT.replace("sd = 0.5", "sd = 0"),
                "7: `effect.sd` must be from",
            ),
            (SHORT.replace("sd = 0.5\n", ""), "1: an effect needs `sd`"),
            (
                SHORT.replace("\"cpu\"", "\"tpu\""),
                "3: `effect.device` must be one of",
            ),
            (
                SHORT.replace("\"XLA\"", "\"none\""),
                "1: the sides `a` and `b` are the same",
            ),
            (
                SHORT.replace("\"XLA\"", "\"$(id)\""),
                "4: `effect.a.compiler`",
            ),
            (
                SHORT.replace("compiler = \"XLA\"", "version = \">=2\""),
                "is no version",
            ),
            (
                SHORT.replace("compiler = \"XLA\"", "gpus_per_node = 2"),
                "unknown key `effect.a.gpus_per_node`",
            ),
            (SHORT.replace("source", "sourse"), "did you mean `source`?"),
            (SHORT.replace("\"s\"", "\"a\\nb\""), "8: `effect.source`"),
            (format!("{SHORT}{SHORT}"), "10: there is another effect `x`"),
            (
                "effect = [".to_owned() + &"{},".repeat(1_001) + "]\n",
                "1001 effects are more than 1000",
            ),
        ] {
            let told = problems(&text);
            assert!(
                told.iter().any(|told| told.contains(part)),
                "{part} in {told:?}"
            );
        }
    }
}
