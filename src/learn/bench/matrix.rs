//! The matrix file: a job file with a table `[bench]`.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::Value;
use toml::de::DeTable;

use super::axis::{self, Axis, VARS};
use super::document::Document;
use super::fill::names_in;
use super::pick::{self, Compare, Exclude};
use super::{MOST_CELLS, MOST_COMBINATIONS, MOST_JOBS, MOST_REPEATS, MOST_RUNS, USUAL_REPEATS};
use crate::foundation::diagnostic::{Problem, sort_problems};
use crate::foundation::toml_reader::{Fields, parse_document, syntax_problem};
use crate::job::name_problem;

/// The longest name of a matrix: a cell's number is put behind it.
const MOST_NAME: usize = 80;
/// Epochs that may be left out at most.
const MOST_WARM_UP: u64 = 1_000;

/// A matrix, read and expanded.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// What it is called; jobs are called after it.
    pub name: String,
    /// How often each cell runs.
    pub repeats: u32,
    /// Epochs at the begin of each start of the program that no figure counts.
    pub warm_up: u32,
    /// Decides the order of the runs.
    pub seed: u64,
    /// Whether jobs have their nodes for themselves.
    pub exclusive: bool,
    /// Jobs that are queued or run at a time.
    pub max_jobs: u32,
    /// What differs between cells.
    pub axes: Vec<Axis>,
    /// What is compared with what.
    pub compares: Vec<Compare>,
    /// Where `bench.repeats`, or else `[bench]`, is.
    span: Range<usize>,
    pub(super) base: Document,
    /// Of each cell the place of its value in each axis.
    cells: Vec<Vec<usize>>,
}

/// Reads a matrix. `stem` names it where it has no name itself.
///
/// # Errors
/// Every fault of the table `[bench]`; those of the job files it makes are found when they are read.
pub fn parse(text: &str, stem: &str) -> Result<Matrix, Vec<Problem>> {
    let document = parse_document(text)?;
    let plain: toml::Table = toml::from_str(text).map_err(|error| vec![syntax_problem(&error)])?;
    let mut problems = Vec::new();
    let mut fields = Fields::of_document(&document, &mut problems);
    let read = |fields: &mut Fields<'_>| read(&document, &plain, fields, stem);
    let matrix = fields.table("bench", read).flatten();
    if !fields.holds("bench") {
        let missing = "the table `[bench]` is missing: this is a job file, not a matrix";
        let hint = "add: [bench.axes]\n        workload.batch_size = [64, 256]";
        fields.problem(Problem::of_file(missing).hinted(hint));
    }
    match matrix {
        Some(matrix) if problems.is_empty() => Ok(matrix),
        _ => {
            sort_problems(&mut problems);
            Err(problems)
        }
    }
}

fn read(
    document: &DeTable<'_>,
    plain: &toml::Table,
    fields: &mut Fields<'_>,
    stem: &str,
) -> Option<Matrix> {
    let mut faults = Vec::new();
    let span = fields.own_span();
    let name = fields.parsed("name", |text| named(text).map(|()| text.to_owned()));
    let repeats = fields.count("repeats", MOST_REPEATS);
    let warm_up = fields.number("warm_up", 0..=MOST_WARM_UP).unwrap_or(1);
    let seed = fields.number("seed", 0..=u64::MAX - 1).unwrap_or(1);
    let exclusive = fields.boolean("exclusive").unwrap_or(true);
    let max_jobs = fields.count("max_jobs", MOST_JOBS).unwrap_or(1);
    let axes_table = fields.raw_table("axes");
    let (exclude, compare) = (fields.raw("exclude"), fields.raw("compare"));
    let axes = axes_table.map_or_else(Vec::new, |table| axis::read(table, &mut faults));
    let (mut excludes, mut compares) = (Vec::new(), Vec::new());
    if faults.is_empty() {
        if let Some(value) = exclude {
            excludes = pick::excludes(value, &axes, &mut faults);
        }
        compares = pick::compares(compare, &axes, &mut faults);
    }
    let base = Document::without("bench", document, plain);
    if let Some(array) = table_key(document, "resources", "array") {
        let message = "a matrix has no job arrays: each of its cells is a separate job";
        let hint = "take the line out; `bench.repeats` says how often a cell runs";
        faults.push(Problem::at(array, message).hinted(hint));
    }
    let name = name.or_else(|| base_name("bench", plain, stem, &mut faults));
    let cells = if faults.is_empty() {
        expand(&axes, &excludes, &span, &mut faults)
    } else {
        Vec::new()
    };
    unused_variables(&axes, &base, &mut faults);
    for fault in faults {
        fields.problem(fault);
    }
    Some(Matrix {
        name: name?,
        repeats: repeats.unwrap_or(USUAL_REPEATS),
        warm_up: u32::try_from(warm_up).ok()?,
        seed,
        exclusive,
        max_jobs,
        axes,
        compares,
        span: fields.span("repeats"),
        base,
        cells,
    })
}

pub(in crate::learn) fn named(name: &str) -> Result<(), String> {
    match name_problem(name) {
        Some(why) => Err(why),
        None if name.len() > MOST_NAME => Err(format!(
            "is {} bytes long; {MOST_NAME} is the limit",
            name.len()
        )),
        None => Ok(()),
    }
}

/// The job's name, else that of the file.
pub(in crate::learn) fn base_name(
    own: &str,
    plain: &toml::Table,
    stem: &str,
    faults: &mut Vec<Problem>,
) -> Option<String> {
    let name = plain.get("name").and_then(Value::as_str).unwrap_or(stem);
    if let Err(why) = named(name) {
        let problem = Problem::of_file(format!("`{name}` cannot be its name: it {why}"));
        faults.push(problem.hinted(format!("name it with `{own}.name`")));
        return None;
    }
    Some(name.to_owned())
}

fn table_key(document: &DeTable<'_>, table: &str, key: &str) -> Option<Range<usize>> {
    let table = document.get(table)?.get_ref().as_table()?;
    table
        .keys()
        .find(|known| *known.get_ref() == key)
        .map(toml::Spanned::span)
}

/// All combinations but those that are excluded, the last axis the quickest.
fn expand(
    axes: &[Axis],
    excludes: &[Exclude],
    span: &Range<usize>,
    faults: &mut Vec<Problem>,
) -> Vec<Vec<usize>> {
    let too_many = |cells: &str| {
        let problem = Problem::at(
            span.clone(),
            format!("the matrix has {cells} cells; {MOST_CELLS} is the limit"),
        );
        problem.hinted("take values out, exclude combinations, or make several matrices")
    };
    let product = axes.iter().try_fold(1_usize, |product, axis| {
        product.checked_mul(axis.values.len())
    });
    let Some(product) = product.filter(|product| *product <= MOST_COMBINATIONS) else {
        faults.push(too_many(&product.map_or_else(
            || "too many".to_owned(),
            |product| product.to_string(),
        )));
        return Vec::new();
    };
    let mut cells = Vec::new();
    for number in 0..product {
        let mut at = vec![0; axes.len()];
        let mut rest = number;
        for (place, axis) in at.iter_mut().zip(axes).rev() {
            *place = rest % axis.values.len();
            rest /= axis.values.len();
        }
        if !excludes.iter().any(|exclude| exclude.holds(&at)) {
            cells.push(at);
        }
    }
    if cells.is_empty() {
        let problem = Problem::at(span.clone(), "every combination is excluded");
        faults.push(problem.hinted("take an entry of `bench.exclude` out"));
    }
    if cells.len() > MOST_CELLS {
        faults.push(too_many(&cells.len().to_string()));
    }
    cells
}

/// Variables that are used nowhere make cells that are the same: that is a fault.
fn unused_variables(axes: &[Axis], base: &Document, faults: &mut Vec<Problem>) {
    let values = axes.iter().flat_map(|axis| &axis.values);
    let settings = values.flat_map(|value| value.sets.iter().map(|(_, value)| value));
    let mut named = BTreeSet::new();
    for value in base.values.iter().map(|(_, value)| value).chain(settings) {
        gather(value, &mut named);
    }
    for axis in axes {
        let values = axis.values.iter();
        let paths = values.flat_map(|value| value.sets.iter().map(|(path, _)| path));
        let variables: BTreeSet<&String> = paths
            .filter(|path| path[0] == VARS)
            .map(|path| &path[1])
            .collect();
        for name in variables {
            if !named.contains(name) && !named.contains(&format!("{VARS}.{name}")) {
                let message = format!(
                    "the variable `{VARS}.{name}` of the axis `{}` is used nowhere",
                    axis.name
                );
                let hint = format!(
                    "write {{{{{name}}}}} where its value belongs, in run.command or run.env"
                );
                faults.push(Problem::at(axis.span.clone(), message).hinted(hint));
            }
        }
    }
}

pub(in crate::learn) fn gather(value: &Value, named: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => named.extend(names_in(text).into_iter().map(str::to_owned)),
        Value::Array(items) => items.iter().for_each(|item| gather(item, named)),
        Value::Table(table) => table.values().for_each(|item| gather(item, named)),
        _ => {}
    }
}

impl Matrix {
    /// How many cells it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Never: a matrix without cells is refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Of a cell the place of its value in each axis.
    #[must_use]
    pub fn at(&self, number: usize) -> &[usize] {
        self.cells.get(number).map_or(&[], Vec::as_slice)
    }

    /// Of a cell each axis with the label of its value.
    pub fn values(&self, number: usize) -> impl Iterator<Item = (&Axis, &str)> {
        let values = self.axes.iter().zip(self.at(number));
        values.map(|(axis, at)| (axis, axis.values[*at].label.as_str()))
    }

    /// The cell's values as text: `compiler=xla batch_size=64`; of a matrix without axes nothing.
    #[must_use]
    pub fn label(&self, number: usize) -> String {
        let values = self.values(number);
        let words = values.map(|(axis, value)| format!("{}={value}", axis.short));
        words.collect::<Vec<_>>().join(" ")
    }

    /// What is wrong with so many repeats, if anything.
    #[must_use]
    pub fn too_many_runs(&self, repeats: u32) -> Option<Problem> {
        let runs = self.cells.len().saturating_mul(repeats as usize);
        let message = || {
            format!(
                "the matrix has {} cells and {repeats} repeats: {runs} runs; {MOST_RUNS} is the limit",
                self.cells.len()
            )
        };
        (runs > MOST_RUNS)
            .then(|| Problem::at(self.span.clone(), message()).hinted("repeat less often"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "[run]\ncommand = [\"train\", \"-b{{batch_size}}\", \"{{threads}}\"]\n[workload]\nepochs = 3\n";

    fn matrix(bench: &str) -> Result<Matrix, Vec<String>> {
        let text = format!("{BASE}{bench}");
        let shown = |problem: Problem| format!("{:?} {}", problem.position(&text), problem.message);
        parse(&text, "stem").map_err(|problems| problems.into_iter().map(shown).collect())
    }

    const AXES: &str = "[bench.axes]\nworkload.batch_size = [64, 256]\nvars.threads = [1, 2, 4]\n";

    #[test]
    fn axes_make_cells_and_excluded_ones_are_left_out() {
        let matrix = matrix(&format!(
            "{AXES}[[bench.exclude]]\nbatch_size = 64\nvars.threads = [1, 2]\n[bench]\nrepeats = 7\nwarm_up = 2\n"
        ));
        let matrix = matrix.expect("valid");
        let labels: Vec<String> = (0..matrix.len()).map(|cell| matrix.label(cell)).collect();
        let expected = [
            "batch_size=64 threads=4",
            "batch_size=256 threads=1",
            "batch_size=256 threads=2",
            "batch_size=256 threads=4",
        ];
        assert_eq!(labels, expected);
        assert_eq!(
            (matrix.name.as_str(), matrix.repeats, matrix.warm_up),
            ("stem", 7, 2)
        );
        assert_eq!(
            (matrix.exclusive, matrix.max_jobs, matrix.seed),
            (true, 1, 1)
        );
        assert_eq!(
            matrix.compares,
            [
                Compare {
                    axis: 0,
                    baseline: 0
                },
                Compare {
                    axis: 1,
                    baseline: 0
                }
            ]
        );
    }

    #[test]
    fn a_matrix_without_axes_is_one_cell() {
        let text = "[run]\ncommand = [\"train\"]\n[bench]\nname = \"noise\"\n";
        let matrix = parse(text, "stem").expect("valid");
        assert_eq!(
            (matrix.len(), matrix.label(0).as_str(), matrix.repeats),
            (1, "", USUAL_REPEATS)
        );
        assert!(!matrix.is_empty() && matrix.too_many_runs(1_000).is_none());
    }

    #[test]
    fn the_baseline_may_be_named() {
        let compare = "[bench.compare]\naxis = \"threads\"\nbaseline = 4\n";
        assert_eq!(
            matrix(&format!("{AXES}{compare}")).expect("valid").compares,
            [Compare {
                axis: 1,
                baseline: 2
            }]
        );
        let compares = "[[bench.compare]]\naxis = \"vars.threads\"\n[[bench.compare]]\naxis = \"batch_size\"\nbaseline = 256\n";
        let expected = [
            Compare {
                axis: 1,
                baseline: 0,
            },
            Compare {
                axis: 0,
                baseline: 1,
            },
        ];
        assert_eq!(
            matrix(&format!("{AXES}{compares}"))
                .expect("valid")
                .compares,
            expected
        );
    }

    #[test]
    fn faults_are_told_with_their_lines() {
        for (bench, expected) in [
            (
                "[bench]\nrepeat = 5\n",
                "Some((6, 1)) unknown key `bench.repeat`",
            ),
            (
                "[bench]\nrepeats = 0\n",
                "Some((6, 11)) `bench.repeats` must be from 1 to 1000, not 0",
            ),
            (
                "[bench]\nrepeats = \"5\"\n",
                "Some((6, 11)) `bench.repeats` must be a whole number, not text",
            ),
            (
                "[bench]\nname = \"../x\"\n",
                "Some((6, 8)) `bench.name`: must not contain '/'",
            ),
            (
                "[bench]\naxes = 3\n",
                "Some((6, 8)) `bench.axes` must be a table",
            ),
            ("bench = 3\n", "`bench.bench`"),
            (
                "[bench.axes]\nvars.threads = [1]\nvars.other = [1]\n",
                "Some((7, 6)) the variable `vars.other` of the axis",
            ),
            (
                "[bench.axes]\nvars.threads = [1]\n[[bench.exclude]]\nthread = 1\n",
                "Some((8, 1)) `bench.exclude`: there is no axis `thread`",
            ),
            (
                "[bench.axes]\nvars.threads = [1]\n[[bench.exclude]]\nthreads = 2\n",
                "Some((8, 11)) `bench.exclude`: the axis `vars.threads` has no value `2`",
            ),
            (
                "[bench.axes]\nvars.threads = [1]\n[[bench.exclude]]\nthreads = 1\n",
                "every combination is excluded",
            ),
            (
                "[bench.axes]\nvars.threads = [1]\n[[bench.exclude]]\n",
                "it would exclude everything",
            ),
            (
                "[bench]\nexclude = 3\n",
                "Some((6, 11)) `bench.exclude` must be a table",
            ),
            (
                "[bench.axes]\nvars.threads = [1]\n[bench.compare]\naxis = \"cpu\"\n",
                "Some((8, 8)) `bench.compare`: there is no axis `cpu`",
            ),
            (
                "[bench.axes]\nvars.threads = [1]\n[bench.compare]\naxis = \"threads\"\nbaseline = 3\n",
                "Some((9, 12)) `bench.compare`: the axis",
            ),
            (
                "[bench.axes]\nvars.threads = [1]\n[bench.compare]\nbase = 3\n",
                "unknown key `bench.compare.base`",
            ),
            (
                "[resources]\narray = \"0-3\"\n[bench]\n",
                "Some((6, 1)) a matrix has no job arrays",
            ),
            ("[bench]\nseed = 99999999999999999999\n", "Some((6, 8))"),
        ] {
            let bench = if bench.starts_with("bench") {
                format!("[bench]\n{bench}")
            } else {
                bench.to_owned()
            };
            let problems = matrix(&bench).expect_err(&bench);
            assert!(
                problems.iter().any(|problem| problem.contains(expected)),
                "{bench}: {problems:?}"
            );
        }
        assert!(matrix("").expect_err("no [bench]")[0].contains("not a matrix"));
        assert!(matrix("[bench\n").expect_err("no TOML")[0].starts_with("Some((5,"));
    }

    #[test]
    fn a_matrix_has_bounds() {
        let values = |count: usize| {
            (0..count)
                .map(|value| value.to_string())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let two = |a, b| {
            format!(
                "[bench.axes]\nvars.threads = [{}]\nworkload.batch_size = [{}]\n",
                values(a),
                values(b)
            )
        };
        assert!(
            matrix(&two(101, 100)).expect_err("too many")[0]
                .contains("10100 cells; 10000 is the limit")
        );
        assert!(matrix(&two(1000, 1000)).expect_err("too many")[0].contains("1000000 cells"));
        let full = matrix(&two(100, 100)).expect("the limit itself");
        assert_eq!(full.len(), 10_000);
        assert!(
            full.too_many_runs(11)
                .is_some_and(|problem| problem.message.contains("110000 runs"))
        );
    }
}
