//! What the job file starts: the program of a simple script, or the script itself.

use super::Script;
use super::body::{Known, OF_PBS, OF_SLURM, Python, Simple, Start, read};
use super::container::Contained;
use crate::foundation::diagnostic::Problem;
use crate::job::convert::ScriptPlace;
use crate::job::convert::draft::{Draft, Origin};
use crate::job::convert::shape::Shape;
use crate::job::convert::write::Value;

/// What was decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Started {
    /// The job file starts the ranks.
    Ranks,
    /// The program runs once.
    Program,
    /// A shell runs the script, or its only command, and starts whatever that starts.
    Script,
}

/// Names the job as the scheduler would, after the script's file.
pub(super) fn set_name(place: Option<&ScriptPlace>, draft: &mut Draft) {
    let Some(place) = place else { return };
    let name = Value::Text(place.name.rsplit('/').next().unwrap_or_default().to_owned());
    if !draft.holds("name") && Draft::takes("name", &name) {
        draft.set("name", name, &Origin::new("the script", 0..0));
    }
}

/// Sets `[run]`. `shape` is what the directives ask for; `arguments` are those of the script.
///
/// # Errors
/// Where the script must be kept and there is no way to name it.
pub(super) fn set(
    text: &str,
    script: &Script<'_>,
    shape: Shape,
    arguments: &[String],
    place: Option<&ScriptPlace>,
    draft: &mut Draft,
) -> Result<Started, Problem> {
    let start = text.len() - script.body.len();
    let origin = Origin::new("the script", start..start);
    let cpus = match draft.get("resources.cpus_per_task") {
        Some(Value::Number(cpus)) if !script.is_pbs => Some(cpus.to_string()),
        _ => None,
    };
    let known = Known {
        starters: if script.is_pbs { &OF_PBS } else { &OF_SLURM },
        home: place.and_then(|place| place.home.as_deref()),
        cpus,
        tasks: shape.tasks,
        shell: if shell_name(&script.shell) == "sh" {
            "sh"
        } else {
            "bash"
        },
        is_pbs: script.is_pbs,
    };
    let started = match read(script.body, &known) {
        Some(simple) if fits(&simple, script, draft) => set_program(simple, shape, &origin, draft),
        _ => {
            keep(text, script, arguments, place, &origin, draft)?;
            Started::Script
        }
    };
    if started != Started::Ranks && shape.nodes > 1 {
        draft.set("run.launcher", "none", &origin);
        draft.set("run.idle_nodes", true, &origin);
        let prose = match started {
            Started::Script => "The first node starts what runs on the further ones.",
            _ => "The program runs on the first node, as the script has it.",
        };
        draft.comment("run.launcher", prose);
    }
    for span in &script.late {
        let origin = Origin::new("directive", span.clone());
        draft.note(
            &origin,
            "stands behind the first command, where no scheduler reads it; left out",
        );
    }
    Ok(started)
}

/// Only a shell as everybody has it is left out.
fn fits(simple: &Simple, script: &Script<'_>, draft: &Draft) -> bool {
    // A login shell reads profiles, which set what the program finds.
    let flags = script.shell.iter().skip(1).all(|flag| flag == "-e");
    let stays = !(simple.changes_directory && draft.holds("run.workdir"));
    let container = simple
        .container
        .iter()
        .flat_map(|container| &container.keys);
    let is_sayable = container
        .into_iter()
        .all(|(key, value)| Draft::takes(key, value));
    stays && is_sayable && flags && is_bourne(&script.shell)
}

fn is_bourne(shell: &[String]) -> bool {
    ["bash", "sh"].contains(&shell_name(shell))
}

/// The name of the program behind `#!`.
fn shell_name(shell: &[String]) -> &str {
    let name = shell
        .first()
        .map_or("bash", |path| path.rsplit('/').next().unwrap_or(path));
    if name == "env" {
        shell.get(1).map_or("", String::as_str)
    } else {
        name
    }
}

fn set_program(simple: Simple, shape: Shape, origin: &Origin, draft: &mut Draft) -> Started {
    draft.set("run.command", simple.command, origin);
    if !simple.modules.is_empty() {
        draft.set("run.modules", simple.modules, origin);
    }
    if !simple.dir.is_empty() {
        draft.set("run.workdir", simple.dir, origin);
    }
    match simple.python {
        Some(Python::Venv(dir)) => draft.set("python.venv", dir, origin),
        Some(Python::Conda(name, profile)) => {
            draft.set("python.conda", name, origin);
            if let Some(profile) = profile {
                draft.set("python.conda_profile", profile, origin);
            }
        }
        None => {}
    }
    let Contained { keys, env, .. } = simple.container.unwrap_or_default();
    for (key, value) in keys {
        draft.set(key, value, origin);
    }
    for (name, value) in simple.env.into_iter().chain(env) {
        draft.insert("run.env", &name, value, origin);
    }
    match simple.start {
        Start::Itself => return Started::Script,
        Start::Alone => return Started::Program,
        Start::Ranks if shape.tasks == 1 => return Started::Program,
        Start::Ranks => {}
    }
    draft.set("run.launcher", "mpi", origin);
    Started::Ranks
}

/// The job file runs the script as the scheduler would have.
fn keep(
    text: &str,
    script: &Script<'_>,
    arguments: &[String],
    place: Option<&ScriptPlace>,
    origin: &Origin,
    draft: &mut Draft,
) -> Result<(), Problem> {
    let is_plain = is_bourne(&script.shell) && script.shell.len() <= 1;
    let Some(place) = place else {
        if !is_plain {
            let what =
                "the script must be kept, and standard input has no name that a job file can hold";
            return Err(Problem::of_file(what).hinted("name the script's file instead of `-`"));
        }
        let mut words = vec!["bash".to_owned(), "-c".to_owned(), text.to_owned()];
        words.extend((!arguments.is_empty()).then(|| "script".to_owned()));
        words.extend_from_slice(arguments);
        draft.set("run.command", words, origin);
        draft.note(
            origin,
            "does more than start one program, so bash runs it as it is",
        );
        return Ok(());
    };
    let name = if draft.holds("run.workdir") {
        &place.path
    } else {
        &place.name
    };
    if is_plain && arguments.is_empty() {
        draft.set("run.script", name.clone(), origin);
        draft.comment(
            "run.script",
            "Its directives have no effect here: they are the tables below.",
        );
    } else {
        let shell = if script.shell.is_empty() {
            vec!["/bin/bash".to_owned()]
        } else {
            script.shell.clone()
        };
        let words = shell
            .into_iter()
            .chain([name.clone()])
            .chain(arguments.iter().cloned())
            .collect::<Vec<String>>();
        draft.set("run.command", words, origin);
    }
    draft.note(
        origin,
        "does more than start one program, so it is kept; its directives have no effect there",
    );
    if text.contains("\r\n") {
        draft.note(
            origin,
            "its lines end in CR LF, which shells do not take: convert them (`dos2unix`)",
        );
    }
    Ok(())
}
