//! Batch scripts: what their `#SBATCH` or `#PBS` lines ask for. The script itself is kept, and the job file runs it.

mod option;
mod pbs;
mod pbs_resources;
mod slurm;
mod slurm_options;

use std::ops::Range;

use super::draft::{Draft, Origin};
use super::write::Value;
use super::{Converted, ScriptPlace};
use crate::foundation::diagnostic::Problem;

/// More directives than anybody writes.
const MAX_DIRECTIVES: usize = 1000;

const ONE_FILE: &str = "dlrun writes output and errors to one file with the job's id in its name";

/// A script: its directive lines, and what runs it.
struct Script<'a> {
    text: &'a str,
    place: Option<&'a ScriptPlace>,
    /// The words behind `#!`.
    shell: Vec<String>,
    /// What is behind the prefix, line by line.
    directives: Vec<(&'a str, Range<usize>)>,
    /// Where the commands begin.
    body: usize,
}

/// Converts a script.
pub(super) fn convert(text: &str, place: Option<&ScriptPlace>) -> Result<Converted, Vec<Problem>> {
    let has = |prefix: &str| text.lines().any(|line| line.starts_with(prefix));
    let (prefix, other) = match (has("#SBATCH"), has("#PBS")) {
        (true, _) => ("#SBATCH", "#PBS"),
        (_, true) => ("#PBS", "#SBATCH"),
        _ => {
            let what = "this is neither MODAK's JSON nor a script with `#SBATCH` or `#PBS` lines";
            let hint = "a script without such lines is run by a job file with `run.script`";
            return Err(vec![Problem::of_file(what).hinted(hint)]);
        }
    };
    let mut draft = Draft::default();
    let script = Script::read(text, place, [prefix, other], &mut draft);
    if script.directives.len() > MAX_DIRECTIVES {
        let count = script.directives.len();
        let message = format!("{count} `{prefix}` lines; {MAX_DIRECTIVES} is the limit");
        return Err(vec![Problem::of_file(message)]);
    }
    match prefix {
        "#SBATCH" => slurm::convert(&script, draft),
        _ => pbs::convert(script, draft),
    }
}

impl<'a> Script<'a> {
    /// Directives end at the first line that is neither empty nor a comment (`sbatch(1)`, `qsub(1B)`). Those behind it, and
    /// those of another scheduler, are noted.
    fn read(
        text: &'a str,
        place: Option<&'a ScriptPlace>,
        [prefix, other]: [&str; 2],
        draft: &mut Draft,
    ) -> Self {
        let mut script = Self {
            text,
            place,
            shell: Vec::new(),
            directives: Vec::new(),
            body: text.len(),
        };
        let mut at = 0;
        for whole in text.split_inclusive('\n') {
            let line = whole.trim_end_matches(['\n', '\r']);
            let span = at..at + line.len();
            at += whole.len();
            let is_head = span.start < script.body;
            if let Some(shell) = line.strip_prefix("#!").filter(|_| span.start == 0) {
                script.shell = shell.split_whitespace().map(str::to_owned).collect();
            } else if let Some(rest) = line.strip_prefix(prefix) {
                if is_head {
                    let start = span.end - rest.len();
                    script.directives.push((rest, start..span.end));
                } else {
                    let what = "is behind the first command, where no scheduler reads it; left out";
                    draft.note(&Origin::new("directive", span), what);
                }
            } else if line.starts_with(other) {
                let what = format!("is left out: the script has `{prefix}` lines too");
                draft.note(&Origin::new(other, span), what);
            } else if is_head && !line.trim().is_empty() && !line.trim_start().starts_with('#') {
                script.body = span.start;
            }
        }
        script
    }

    /// Where its first directive is.
    fn first(&self, about: &str) -> Origin {
        let first = self.directives.first();
        Origin::new(about, first.map_or(0..0, |(_, span)| span.clone()))
    }

    /// The job file runs the script, under its file's name if it has no other, as the scheduler would. On several nodes the first one
    /// starts what runs on the others.
    ///
    /// # Errors
    /// Where there is no way to name it.
    fn set_run(&self, nodes: u32, draft: &mut Draft) -> Result<(), Problem> {
        let origin = Origin::new("the script", self.body..self.body);
        if nodes > 1 {
            draft.set("run.launcher", "none", &origin);
            draft.set("run.idle_nodes", true, &origin);
        }
        if self.text.contains("\r\n") {
            let what =
                "its lines end in CR LF, which shells do not take: convert them (`dos2unix`)";
            draft.note(&origin, what);
        }
        let shell = self
            .shell
            .first()
            .map_or("bash", |path| path.rsplit('/').next().unwrap_or(path));
        let is_plain = self.shell.len() <= 1 && ["bash", "sh"].contains(&shell);
        let Some(place) = self.place else {
            if !is_plain {
                let what = "standard input has no name that a job file can hold, and the script is not for bash";
                return Err(Problem::of_file(what).hinted("name the script's file instead of `-`"));
            }
            let words = ["bash", "-c", self.text].map(str::to_owned).to_vec();
            draft.set("run.command", words, &origin);
            return Ok(());
        };
        let name = Value::Text(place.name.rsplit('/').next().unwrap_or_default().to_owned());
        if !draft.holds("name") && Draft::takes("name", &name) {
            draft.set("name", name, &origin);
        }
        let path = match draft.holds("run.workdir") {
            true => place.path.clone(),
            false => place.name.clone(),
        };
        if is_plain {
            draft.set("run.script", path, &origin);
        } else {
            let words = self.shell.iter().cloned().chain([path]);
            draft.set("run.command", words.collect::<Vec<_>>(), &origin);
        }
        draft.note(
            &origin,
            "is kept as it is; its directives have no effect there",
        );
        Ok(())
    }
}
