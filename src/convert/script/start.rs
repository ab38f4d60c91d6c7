//! What the job file starts: the program of a simple script, or the script itself.

use super::Script;
use super::body::{Body, OF_PBS, OF_SLURM, Simple, Start, read};
use crate::convert::ScriptPlace;
use crate::convert::draft::{Draft, Origin};
use crate::convert::shape::Shape;
use crate::convert::write::Value;
use crate::diagnostic::Problem;

/// What was decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Started {
    /// The job file starts the ranks.
    Ranks,
    /// The program runs once.
    Program,
    /// The script is kept, and starts whatever it starts.
    Script,
}

/// Names the job as the scheduler would, after the script's file.
pub(super) fn set_name(place: Option<&ScriptPlace>, draft: &mut Draft) {
    let Some(place) = place else { return };
    let name = Value::Text(place.name.rsplit('/').next().unwrap_or_default().to_owned());
    if !draft.holds("name") && Draft::takes("name", &name) {
        let _ = draft.set("name", name, &Origin { about: "the script".to_owned(), span: 0..0 });
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
    let origin = Origin { about: "the script".to_owned(), span: start..start };
    let starters = if script.is_pbs { &OF_PBS } else { &OF_SLURM };
    let started = match read(script.body, starters) {
        Body::Simple(simple) if fits(&simple, script, shape, draft) => {
            set_program(simple, shape, &origin, draft)
        }
        _ => {
            keep(text, script, arguments, place, &origin, draft)?;
            Started::Script
        }
    };
    if started != Started::Ranks && shape.nodes > 1 {
        let _ = draft.set("run.launcher", Value::Text("none".to_owned()), &origin);
        let _ = draft.set("run.idle_nodes", Value::Flag(true), &origin);
        let prose = match started {
            Started::Script => "The script starts what runs on the further nodes.",
            _ => "The program runs on the first node, as the script has it.",
        };
        draft.comment("run.launcher", prose);
    }
    for span in &script.late {
        let origin = Origin { about: "directive".to_owned(), span: span.clone() };
        draft.note(&origin, "stands behind the first command, where no scheduler reads it; left out");
    }
    Ok(started)
}

/// Only a shell as everybody has it is left out, and only ranks that the directives ask for too.
fn fits(simple: &Simple, script: &Script<'_>, shape: Shape, draft: &Draft) -> bool {
    let has_ranks = match simple.start {
        Start::Ranks(Some(ranks)) => ranks == shape.tasks,
        _ => true,
    };
    // A login shell reads profiles, which set what the program finds.
    let flags = script.shell.iter().skip(1).all(|flag| flag == "-e");
    let stays = !(simple.changes_directory && draft.holds("run.workdir"));
    has_ranks && stays && flags && is_bourne(&script.shell)
}

fn is_bourne(shell: &[String]) -> bool {
    let name = shell.first().map_or("bash", |path| path.rsplit('/').next().unwrap_or(path));
    let name = if name == "env" { shell.get(1).map_or("", String::as_str) } else { name };
    ["bash", "sh"].contains(&name)
}

fn set_program(simple: Simple, shape: Shape, origin: &Origin, draft: &mut Draft) -> Started {
    let _ = draft.set("run.command", Value::Texts(simple.command), origin);
    if !simple.modules.is_empty() {
        let _ = draft.set("run.modules", Value::Texts(simple.modules), origin);
    }
    for (name, value) in simple.env {
        let _ = draft.insert("run.env", &name, Value::Text(value), origin);
    }
    if simple.start == Start::Alone || shape.tasks == 1 {
        return Started::Program;
    }
    let _ = draft.set("run.launcher", Value::Text("mpi".to_owned()), origin);
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
            let what = "the script must be kept, and standard input has no name that a job file can hold";
            return Err(Problem::of_file(what).hinted("name the script's file instead of `-`"));
        }
        let mut words = vec!["bash".to_owned(), "-c".to_owned(), text.to_owned()];
        words.extend((!arguments.is_empty()).then(|| "script".to_owned()));
        words.extend_from_slice(arguments);
        let _ = draft.set("run.command", Value::Texts(words), origin);
        draft.note(origin, "does more than start one program, so bash runs it as it is");
        return Ok(());
    };
    let name = if draft.holds("run.workdir") { &place.path } else { &place.name };
    if is_plain && arguments.is_empty() {
        let _ = draft.set("run.script", Value::Text(name.clone()), origin);
        draft.comment("run.script", "Its directives have no effect here: they are the tables below.");
    } else {
        let shell = if script.shell.is_empty() { vec!["/bin/bash".to_owned()] } else { script.shell.clone() };
        let words = shell.into_iter().chain([name.clone()]).chain(arguments.iter().cloned()).collect();
        let _ = draft.set("run.command", Value::Texts(words), origin);
    }
    draft
        .note(origin, "does more than start one program, so it is kept; its directives have no effect there");
    if text.contains("\r\n") {
        draft.note(origin, "its lines end in CR LF, which shells do not take: convert them (`dos2unix`)");
    }
    Ok(())
}
