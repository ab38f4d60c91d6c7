//! What others have published: how much longer one way of training takes than another, out of a TOML file.
//!
//! Each effect is a ratio of times, so that it says something of machines that the source never saw. dlrun has those of
//! `etc/priors.toml` built in; a site may have its own file.

use serde::{Deserialize, Serialize};

use super::{Hardware, Situation};
use crate::foundation::diagnostic::{Problem, sort_problems};
use crate::foundation::toml_reader::{Fields, parse_document};
use crate::job::{
    Framework, Provenance, StorageClass, Workload, line_of_text, name_in_small_letters,
    version_text,
};

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

    /// Reads the text of a file. `docs/model.md` lists its keys.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its place. An unknown key is an error: a condition that is passed over would
    /// make the effect one of other runs.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let document = parse_document(text)?;
        let mut problems = Vec::new();
        let mut fields = Fields::of_document(&document, &mut problems);
        let mut priors = Self::none();
        if fields.has_format(FORMAT) {
            priors.effects = read_effects(&mut fields);
            fields.finish();
        }
        if problems.is_empty() {
            return Ok(priors);
        }
        sort_problems(&mut problems);
        Err(problems)
    }
}

fn read_effects(fields: &mut Fields<'_>) -> Vec<Effect> {
    let list = fields
        .raw("effect")
        .and_then(|list| list.get_ref().as_array());
    let count = list.map_or(0, |list| list.len());
    if count > MAX_EFFECTS {
        let message = format!("{count} effects are more than {MAX_EFFECTS}");
        let problem = Problem::at(fields.span("effect"), message);
        fields.problem(problem.hinted("measured runs are brought in by `dlrun import`"));
        return Vec::new();
    }
    let mut names: Vec<String> = Vec::new();
    fields.tables("effect", false, |fields| {
        let effect = read_effect(fields)?;
        if names.contains(&effect.name) {
            let message = format!("there is another effect `{}`", effect.name);
            let problem = Problem::at(fields.span("name"), message);
            fields.problem(problem.hinted("give one of them another name"));
        }
        names.push(effect.name.clone());
        Some(effect)
    })
}

fn read_effect(fields: &mut Fields<'_>) -> Option<Effect> {
    let keys = ["name", "device", "a", "b", "time_ratio", "sd", "source"];
    fields.require(&keys, "an effect");
    let name = fields.parsed("name", name_in_small_letters);
    let gpu = fields.word("device", &[("cpu", false), ("gpu", true)]);
    let gpu = gpu.unwrap_or_default();
    let time_ratio = fields.decimal("time_ratio", RATIOS);
    let sd = fields.decimal("sd", DEVIATIONS);
    let source = fields.parsed("source", line_of_text);
    let workload = fields.table("workload", read_workload).unwrap_or_default();
    let a = fields.table("a", |side| read_side(side, gpu, &workload));
    let b = fields.table("b", |side| read_side(side, gpu, &workload));
    if a.is_some() && a == b {
        let problem = Problem::at(fields.own_span(), "the sides `a` and `b` are the same");
        let hint = "name on each side what was compared, such as `compiler`";
        fields.problem(problem.hinted(hint));
    }
    Some(Effect {
        name: name?,
        a: a?,
        b: b?,
        time_ratio: time_ratio?,
        sd: sd?,
        source: source?,
    })
}

fn read_workload(fields: &mut Fields<'_>) -> Workload {
    Workload {
        model: fields.parsed("model", line_of_text),
        parameters: fields.number("parameters", 1..=MAX_COUNT),
        dataset: fields.parsed("dataset", line_of_text),
        samples: fields.number("samples", 1..=MAX_COUNT),
        batch_size: fields.number("batch_size", 1..=MAX_COUNT),
        flops_per_sample: None,
        epochs: None,
        precision: fields.parsed("precision", line_of_text),
    }
}

fn read_side(fields: &mut Fields<'_>, gpu: bool, workload: &Workload) -> Situation {
    let framework = Framework {
        name: fields.parsed("framework", name_in_small_letters),
        version: fields.parsed("version", version_text),
        compiler: fields.parsed("compiler", name_in_small_letters),
        provenance: fields.word("provenance", &Provenance::WORDS),
    };
    let mut workload = workload.clone();
    let batch_size = fields.number("batch_size", 1..=MAX_COUNT);
    let precision = fields.parsed("precision", line_of_text);
    workload.batch_size = batch_size.or(workload.batch_size);
    workload.precision = precision.or(workload.precision);
    let gpus = if gpu {
        fields.count("gpus_per_node", 1_000).unwrap_or(1)
    } else {
        0
    };
    Situation {
        workload,
        framework,
        image: None,
        hardware: Hardware {
            threads: fields.decimal("threads", 0.01..=1e6),
            gpus,
            ..Hardware::default()
        },
        nodes: fields.count("nodes", 1_000_000).unwrap_or(1),
        tasks_per_node: fields.count("tasks_per_node", 1_000_000).unwrap_or(1),
        storage: fields.word("storage", &StorageClass::WORDS),
        ..Situation::default()
    }
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
            ("format = 2\n".into(), "1: `format = 2` is not in this"),
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
                "is not a version",
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
