//! Batch scripts: what their `#SBATCH` or `#PBS` lines ask for, and what their commands do.
//!
//! A script that only loads modules, sets variables and starts one program becomes a whole job file. Any other
//! script is kept as it is, and the job file runs it: when in doubt, nothing is taken apart.

mod line;
mod option;
mod output;
mod pbs;
mod pbs_resources;
mod program;
mod slurm;
mod slurm_options;

use std::ops::Range;

use super::{Converted, ScriptPlace};
use crate::foundation::diagnostic::Problem;

/// More directives than anybody writes.
const MAX_DIRECTIVES: usize = 1000;

/// The directive lines of a script, and its commands.
struct Script<'a> {
    /// The words behind `#!`.
    shell: Vec<String>,
    /// What is behind the prefix, line by line.
    directives: Vec<(&'a str, Range<usize>)>,
    /// Directives behind the first command, which no scheduler reads.
    late: Vec<Range<usize>>,
    /// All that is no directive, from the first command on.
    body: &'a str,
    /// Its directives are PBS's.
    is_pbs: bool,
}

/// Converts a script.
pub(super) fn convert(text: &str, place: Option<&ScriptPlace>) -> Result<Converted, Vec<Problem>> {
    let has = |prefix: &str| text.lines().any(|line| line.starts_with(prefix));
    let slurm_and_pbs = (has("#SBATCH"), has("#PBS"));
    let prefix = match slurm_and_pbs {
        (true, _) => "#SBATCH",
        (_, true) => "#PBS",
        _ => {
            let what = "this is neither MODAK's JSON nor a script with `#SBATCH` or `#PBS` lines";
            let hint = "a script without such lines is run by a job file with `run.script`";
            return Err(vec![Problem::of_file(what).hinted(hint)]);
        }
    };
    let script = taken_apart(text, prefix);
    if script.directives.len() > MAX_DIRECTIVES {
        let message = format!(
            "{} `{prefix}` lines; {MAX_DIRECTIVES} is the limit",
            script.directives.len()
        );
        return Err(vec![Problem::of_file(message)]);
    }
    let foreign: Vec<Range<usize>> = if slurm_and_pbs == (true, true) {
        lines(text)
            .filter(|(line, _)| line.starts_with("#PBS"))
            .map(|(_, span)| span)
            .collect()
    } else {
        Vec::new()
    };
    if prefix == "#SBATCH" {
        slurm::convert(text, &script, place, &foreign)
    } else {
        pbs::convert(text, &script, place)
    }
}

/// Lines with their places, without their ends.
fn lines(text: &str) -> impl Iterator<Item = (&str, Range<usize>)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        let bare = line.trim_end_matches(['\n', '\r']);
        (bare, start..start + bare.len())
    })
}

/// Directives end at the first line that is neither empty nor a comment (`sbatch(1)`, `qsub(1B)`).
fn taken_apart<'a>(text: &'a str, prefix: &str) -> Script<'a> {
    let mut script = Script {
        shell: Vec::new(),
        directives: Vec::new(),
        late: Vec::new(),
        body: "",
        is_pbs: prefix == "#PBS",
    };
    let mut is_head = true;
    for (line, span) in lines(text) {
        let rest = line.strip_prefix(prefix);
        if span.start == 0
            && let Some(shell) = line.strip_prefix("#!")
        {
            script.shell = shell.split_whitespace().map(str::to_owned).collect();
        } else if let Some(rest) = rest {
            let start = span.end - rest.len();
            if is_head {
                script.directives.push((rest, start..span.end))
            } else {
                script.late.push(span)
            }
        } else if is_head && !line.trim().is_empty() && !line.trim_start().starts_with('#') {
            is_head = false;
            script.body = &text[span.start..];
        }
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_end_at_the_first_command() {
        let text = "#!/bin/bash -l\n#SBATCH -N 2 \r\n\n# a comment\n##SBATCH -n 9\n#SBATCH -t 1\nmodule load a\n#SBATCH -p late\ntrue\n";
        let script = taken_apart(text, "#SBATCH");
        assert_eq!(script.shell, ["/bin/bash", "-l"]);
        let directives: Vec<&str> = script
            .directives
            .iter()
            .map(|(line, _)| line.trim())
            .collect();
        assert_eq!(directives, ["-N 2", "-t 1"]);
        assert_eq!(&text[script.directives[1].1.clone()], " -t 1");
        assert_eq!(&text[script.late[0].clone()], "#SBATCH -p late");
        assert!(script.body.starts_with("module load a\n"));
    }
}
