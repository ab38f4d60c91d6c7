//! `--only`: the cells that a command runs, by their values.

use super::axis::axis_named;
use super::matrix::Matrix;
use crate::foundation::diagnostic::Problem;

impl Matrix {
    /// The cells that are wanted, in order. Each word is `AXIS=VALUE`, or `AXIS=VALUE,VALUE`; words of one axis add up, of
    /// several axes a cell must have all. No words: all cells.
    ///
    /// # Errors
    /// Words without `=`, axes and values that are not there, and values that no cell has together.
    pub fn only(&self, words: &[String]) -> Result<Vec<usize>, Problem> {
        let mut wanted: Vec<Vec<usize>> = vec![Vec::new(); self.axes.len()];
        for word in words {
            let (axis, values) = self.read(word)?;
            wanted[axis].extend(values);
        }
        let has_all = |cell: &usize| {
            wanted
                .iter()
                .zip(self.at(*cell))
                .all(|(values, at)| values.is_empty() || values.contains(at))
        };
        let cells: Vec<usize> = (0..self.len()).filter(has_all).collect();
        if cells.is_empty() {
            let problem =
                Problem::of_file(format!("`--only`: no cell has {}", words.join(" and ")));
            return Err(
                problem.hinted("`[[bench.exclude]]` may leave it out; `--dry-run` lists the cells")
            );
        }
        Ok(cells)
    }

    /// One word: which axis, and which of its values.
    fn read(&self, word: &str) -> Result<(usize, Vec<usize>), Problem> {
        // Names of variables may have a `=` in them, though nobody would.
        let Some((name, values)) = word.split_once('=') else {
            let problem = Problem::of_file(format!("`--only {word}` has no `=`"));
            return Err(problem.hinted("write AXIS=VALUE, for example compiler=xla"));
        };
        let place = axis_named(&self.axes, name, "--only")?;
        let axis = &self.axes[place];
        // A value with a comma in it is meant whole.
        if let Some(whole) = axis.place_of(values) {
            return Ok((place, vec![whole]));
        }
        let values = values
            .split(',')
            .map(|value| axis.value_named(value, "--only"));
        Ok((place, values.collect::<Result<_, _>>()?))
    }
}

#[cfg(test)]
mod tests {
    use crate::learn::bench::parse;

    #[test]
    fn cells_are_picked_by_their_values() {
        let text = "[run]\ncommand = [\"a\", \"{{x}}\", \"{{batch_size}}\"]\n[bench.axes]\n\
                    vars.x = [\"one\", \"a,b\", \"two\"]\nworkload.batch_size = [32, 64]\n\
                    [[bench.exclude]]\nx = \"two\"\nbatch_size = 64\n";
        let matrix = parse(text, "m").expect("valid");
        let only = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            matrix
                .only(&words)
                .map_err(|problem| (problem.message, problem.hint.expect("a next step")))
        };
        assert_eq!(only(&[]), Ok(vec![0, 1, 2, 3, 4]));
        assert_eq!(only(&["x=one"]), Ok(vec![0, 1]));
        assert_eq!(only(&["x=a,b", "workload.batch_size=64"]), Ok(vec![3]));
        assert_eq!(only(&["x=one,two", "batch_size=32"]), Ok(vec![0, 4]));
        assert_eq!(only(&["x=one", "x=two"]), Ok(vec![0, 1, 4]));
        for (words, part, hint) in [
            (&["x"][..], "has no `=`", "AXIS=VALUE"),
            (
                &["batchsize=32"],
                "no axis `batchsize`",
                "did you mean `batch_size`?",
            ),
            (&["x=three"], "no value `three`", "one, a,b, two"),
            (
                &["x=two", "batch_size=64"],
                "no cell has x=two and batch_size=64",
                "--dry-run",
            ),
        ] {
            let (message, next) = only(words).expect_err("refused");
            assert!(
                message.contains(part) && next.contains(hint),
                "{words:?}: {message}: {next}"
            );
        }
    }
}
