//! `[run] output`: where the job's output goes, with Slurm's patterns.

use crate::foundation::diagnostic::Problem;
use crate::foundation::toml_reader::Located;

/// The patterns and what they stand for.
const PATTERNS: &str =
    "`%x` (name), `%j` and `%A` (job id), `%a` (index in an array) and `%u` (user) are known";

/// A file's path, relative to the working directory, with patterns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPattern(String);

impl OutputPattern {
    /// Reads `logs/%x-%j.out`.
    ///
    /// # Errors
    /// For patterns that only a node could fill in, or no scheduler but Slurm; for a directory that has none before the job has
    /// its id; for characters that a directive line cannot carry.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (dir, name) = text.rsplit_once('/').unwrap_or(("", text));
        if let Some(bad) = text.chars().find(|c| !is_allowed(*c)) {
            return Err(format!("must not contain {bad:?}"));
        }
        if name.is_empty() || text.starts_with('-') {
            return Err("must name a file, such as `logs/%x-%j.out`".to_owned());
        }
        for rest in text.split('%').skip(1) {
            if !rest.starts_with(['x', 'j', 'A', 'a', 'u']) {
                let pattern: String = rest.chars().take(1).collect();
                return Err(format!(
                    "`%{pattern}` cannot be filled in before the job starts; {PATTERNS}"
                ));
            }
        }
        match ["%j", "%A", "%a"]
            .iter()
            .find(|pattern| dir.contains(*pattern))
        {
            Some(pattern) => Err(format!(
                "`{pattern}` in a directory's name: the directory must exist before the job has its id"
            )),
            None => Ok(Self(text.to_owned())),
        }
    }

    /// The path with the job's name and its user in it; `%j` is the job's id, of an array for the array's, and `%a` for
    /// the index.
    ///
    /// # Errors
    /// When the indexes of an array are asked for where there is none, or are missing where there is one: all elements would
    /// write into one file. When the user's name cannot stand in a path with patterns.
    pub fn of_job(&self, name: &str, user: &str, is_array: bool) -> Result<String, String> {
        match (is_array, self.0.contains("%a")) {
            (false, true) => {
                return Err("`%a` is the index in an array, and this job is none".to_owned());
            }
            (true, false) => {
                return Err(
                    "needs `%a`, else all elements of the array write into one file".to_owned(),
                );
            }
            _ => {}
        }
        // Of `DOM\ann` the backslash would switch Slurm's patterns off.
        if self.0.contains("%u") && user.contains(|c| !is_allowed(c) || "/%".contains(c)) {
            return Err(format!(
                "cannot have `%u`: `{user}` has characters that it must not contain"
            ));
        }
        Ok(self
            .0
            .replace("%A", "%j")
            .replace("%x", name)
            .replace("%u", user))
    }
}

fn is_allowed(c: char) -> bool {
    c.is_alphanumeric() || "._+-=,@:/%".contains(c)
}

/// As [`OutputPattern::of_job`], as a problem of the job file.
pub(crate) fn output_of(
    output: &Located<OutputPattern>,
    name: &str,
    user: &str,
    is_array: bool,
) -> Result<String, Problem> {
    let made = output.value.of_job(name, user, is_array);
    made.map_err(|why| Problem::at(output.span.clone(), format!("`run.output` {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_every_scheduler_has_are_filled_in() {
        let of = |text: &str, is_array| {
            OutputPattern::parse(text)
                .expect("a pattern")
                .of_job("train", "ann", is_array)
        };
        assert_eq!(
            of("logs/%x-%j.out", false).as_deref(),
            Ok("logs/train-%j.out")
        );
        assert_eq!(
            of("/s/%u/%x.%A_%a.log", true).as_deref(),
            Ok("/s/ann/train.%j_%a.log")
        );
        assert_eq!(of("all.out", false).as_deref(), Ok("all.out"));
        assert!(of("%x-%j.out", true).is_err_and(|why| why.contains("needs `%a`")));
        assert!(of("%x-%a.out", false).is_err_and(|why| why.contains("this job is none")));
    }

    #[test]
    fn a_user_name_that_no_directive_can_carry_is_refused() {
        let of = |text: &str, user: &str| {
            OutputPattern::parse(text)
                .expect("a pattern")
                .of_job("a", user, false)
        };
        for user in ["DOM\\ann", "ann b", "%j", "../ann"] {
            assert!(
                of("%u-%j.out", user).is_err_and(|why| why.contains(user)),
                "{user}"
            );
            assert!(of("%x-%j.out", user).is_ok());
        }
        assert_eq!(
            of("%u.out", "ann@dom.org").as_deref(),
            Ok("ann@dom.org.out")
        );
    }

    #[test]
    fn what_cannot_be_known_at_submission_is_refused_by_name() {
        for (text, word) in [
            ("%N.out", "`%N`"),
            ("%5j.out", "`%5`"),
            ("a%%.out", "`%`"),
            ("x%", "`%`"),
            ("logs/%j/out", "`%j` in a directory"),
            ("logs/", "name a file"),
            ("", "name a file"),
            ("a b", "' '"),
            ("$HOME/x", "'$'"),
            ("~/x", "'~'"),
        ] {
            let why = OutputPattern::parse(text).expect_err(text);
            assert!(why.contains(word), "{text}: {why}");
        }
    }
}
