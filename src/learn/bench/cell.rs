//! One cell of a matrix: its own job file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::Value;

use super::axis::VARS;
use super::document::{Document, key_at, shown};
use super::fill::Names;
use super::matrix::Matrix;
use crate::foundation::diagnostic::Problem;

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// What it is called in messages: `cell`, `trial`.
    noun: &'static str,
    /// Its number, from 0; people count from 1.
    pub number: usize,
    /// The name of its jobs.
    pub name: String,
    /// Its values as text.
    pub label: String,
    /// Its job file. Relative paths in it begin where the matrix lies.
    pub job_file: String,
    /// Where the matrix has its keys, and those of them that differ between cells.
    spans: BTreeMap<String, Range<usize>>,
    varying: BTreeSet<String>,
}

impl Cell {
    /// A problem of its job file, as one of the matrix.
    #[must_use]
    pub fn in_matrix(&self, problem: Problem) -> Problem {
        let at = problem.span.as_ref().map(|span| span.start);
        let key = at.and_then(|at| key_at(&self.job_file, at));
        let is_common = key.as_ref().is_some_and(|key| !self.varying.contains(key));
        Problem {
            span: key.and_then(|key| self.spans.get(&key).cloned()),
            message: match is_common {
                true => problem.message,
                false => format!("{}: {}", self.shown(), problem.message),
            },
            ..problem
        }
    }

    /// What it is called: `cell 3 (compiler=xla)`.
    #[must_use]
    pub fn shown(&self) -> String {
        match self.label.as_str() {
            "" => format!("{} {}", self.noun, self.number + 1),
            label => format!("{} {} ({label})", self.noun, self.number + 1),
        }
    }

    /// Fills the words of the command, the values of the variables and what `[resume]` has of them.
    fn fill(&mut self, table: (&str, &mut toml::Table), names: &Names) -> Result<(), Problem> {
        for (key, value) in table.1.iter_mut() {
            let key = format!("{}.{key}", table.0);
            let texts: Vec<&mut Value> = match (key.as_str(), value) {
                (
                    "run.command" | "resume.checkpoints" | "resume.command" | "resume.arguments",
                    Value::Array(words),
                ) => words.iter_mut().collect(),
                ("resume.marker", text) => vec![text],
                ("run.env", Value::Table(env)) => env.iter_mut().map(|(_, value)| value).collect(),
                _ => continue,
            };
            for value in texts {
                let Value::String(text) = value else { continue };
                let filled = names.fill(text).map_err(|why| {
                    let problem = Problem {
                        span: self.spans.get(&key).cloned(),
                        message: format!("{}: `{key}`: {why}", self.shown()),
                        hint: None,
                    };
                    problem.hinted("a placeholder is the name of a key such as workload.batch_size, its last part, or a variable")
                })?;
                if filled != *text {
                    self.varying.insert(key.clone());
                    *text = filled;
                }
            }
        }
        Ok(())
    }
}

impl Matrix {
    /// The job file of a cell.
    ///
    /// # Errors
    /// Placeholders that stand for nothing.
    pub fn cell(&self, number: usize) -> Result<Cell, Vec<Problem>> {
        let values = self.axes.iter().zip(self.at(number));
        let values = values.map(|(axis, at)| &axis.values[*at]);
        let sets = values.flat_map(|value| {
            let sets = value.sets.iter();
            sets.map(|(path, set)| (path.as_slice(), set.clone(), value.span.clone()))
        });
        let digits = self.len().to_string().len();
        let name = format!("{}-{:0digits$}", self.name, number + 1);
        Cell::new(
            &self.base,
            ("cell", number, name, self.label(number)),
            sets,
            self.exclusive,
        )
    }
}

impl Cell {
    /// The job file `base` with these keys and variables set. First what it is, its number, name and label.
    pub(in crate::learn) fn new<'a>(
        base: &Document,
        (noun, number, name, label): (&'static str, usize, String, String),
        sets: impl Iterator<Item = (&'a [String], Value, Range<usize>)>,
        exclusive: bool,
    ) -> Result<Self, Vec<Problem>> {
        let mut document = base.clone();
        let (mut vars, mut of_axes) = (Vec::new(), BTreeSet::new());
        let mut varying = BTreeSet::new();
        for (path, set, span) in sets {
            of_axes.insert(path.join("."));
            if path[0] == VARS {
                vars.push((path[1].clone(), shown(&set)));
                continue;
            }
            document.set(path, set);
            let key = path[..2].join(".");
            document.spans.insert(key.clone(), span);
            varying.insert(key);
        }
        document.set(&["name".to_owned()], Value::from(name.clone()));
        let resources = document.values.get("resources");
        if exclusive && resources.is_none_or(|table| table.get("exclusive").is_none()) {
            let exclusive = ["resources", "exclusive"].map(str::to_owned);
            document.set(&exclusive, Value::from(true));
        }
        let names = Names::new(&document, &vars, of_axes);
        let mut cell = Self {
            noun,
            number,
            name,
            label,
            job_file: String::new(),
            spans: document.spans,
            varying,
        };
        for name in ["run", "resume"] {
            if let Some(Value::Table(table)) = document.values.get_mut(name) {
                let filled = cell.fill((name, table), &names);
                filled.map_err(|problem| vec![problem])?;
            }
        }
        cell.job_file = document.values.to_string();
        Ok(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job;
    use crate::learn::bench::parse;

    const TEXT: &str = r#"name = "base"

        [run]
        command = ["python3", "train.py", "--batch={{batch_size}}", "{{network}}"]
        env.OMP_NUM_THREADS = "{{threads}}"

        [workload]
        epochs = 3
        batch_size = 1

        [framework]
        compiler = "none"

        [bench.axes]
        framework.compiler = ["none", "xla"]
        workload.batch_size = [64, 256]
        vars.threads = [1]
        vars.network = ["a b; $(id) `id` \"'"]
        "#;

    #[test]
    fn a_cell_is_a_job_file() {
        let matrix = parse(TEXT, "stem").expect("valid");
        let cell = matrix.cell(3).expect("all names are known");
        let spec = job::parse(&cell.job_file).expect("a job file");
        assert_eq!(cell.name, "base-4");
        assert_eq!(spec.name.as_deref(), Some("base-4"));
        let job::Command::Argv(words) = &spec.run.command.value else {
            panic!("words")
        };
        assert_eq!(words[2..], ["--batch=256", "a b; $(id) `id` \"'"]);
        assert_eq!(spec.run.env[0].value, "1");
        assert_eq!(
            (spec.workload.batch_size, spec.workload.epochs),
            (Some(256), Some(3))
        );
        assert_eq!(spec.framework.compiler.as_deref(), Some("xla"));
        assert_eq!(spec.resources.exclusive, Some(true));
        let texts: BTreeSet<String> = (0..4)
            .map(|number| matrix.cell(number).expect("valid").job_file)
            .collect();
        assert_eq!(texts.len(), 4);
    }

    #[test]
    fn exclusive_is_the_matrix_s_word_where_the_job_file_has_none() {
        let told = |bench: &str, resources: &str| {
            let text = format!("{bench}\n{resources}\n[run]\ncommand = [\"a\"]\n");
            let matrix = parse(&text, "stem").expect("valid");
            let cell = matrix.cell(0).expect("valid");
            job::parse(&cell.job_file)
                .expect("a job file")
                .resources
                .exclusive
        };
        assert_eq!(told("[bench]", ""), Some(true));
        assert_eq!(told("[bench]\nexclusive = false", ""), None);
        assert_eq!(
            told("[bench]", "[resources]\nexclusive = false"),
            Some(false)
        );
        assert_eq!(told("[bench]", "[resources]\nnodes = 2"), Some(true));
    }

    #[test]
    fn faults_of_a_cell_stand_where_the_matrix_has_their_cause() {
        let text = TEXT
            .replace("[64, 256]", "[64, 0]")
            .replace("epochs = 3", "epochs = \"x\"");
        let cell = parse(&text, "stem")
            .expect("valid")
            .cell(1)
            .expect("filled");
        let problems = job::parse(&cell.job_file).expect_err("two faults");
        let mut problems: Vec<Problem> = problems
            .into_iter()
            .map(|problem| cell.in_matrix(problem))
            .collect();
        crate::foundation::diagnostic::sort_problems(&mut problems);
        let at: Vec<Option<&str>> = problems
            .iter()
            .map(|problem| problem.span.clone().map(|span| &text[span]))
            .collect();
        assert_eq!(at, [Some("\"x\""), Some("0")], "{problems:?}");
        assert!(
            problems[0].message.starts_with("`workload.epochs` must be"),
            "{problems:?}"
        );
        let expected = "cell 2 (compiler=none batch_size=0 threads=1 network=";
        assert!(problems[1].message.starts_with(expected), "{problems:?}");
    }

    #[test]
    fn a_placeholder_without_a_value_is_told_before_anything_runs() {
        let text = TEXT.replace("--batch={{batch_size}}", "{{batchsize}} {{batch_size}}");
        let problems = parse(&text, "stem")
            .expect("valid")
            .cell(0)
            .expect_err("unknown");
        assert!(
            problems[0]
                .message
                .contains("`run.command`: nothing has the name of {{batchsize}}"),
            "{problems:?}"
        );
        assert_eq!(problems[0].position(&text).map(|(line, _)| line), Some(4));
    }
}
