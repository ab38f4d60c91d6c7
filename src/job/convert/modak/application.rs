//! `application`: what runs, in which container, and what is built before.

use super::command::{self, Around};
use super::sizes::{self, Program, Sizes};
use crate::job::convert::RUNSCRIPT;
use crate::job::convert::block::Block;
use crate::job::convert::draft::{Draft, Origin};

pub(super) fn read(mut application: Block<'_>, mut sizes: Sizes, draft: &mut Draft) {
    sizes.mpi_ranks = application.count("mpi_ranks", draft);
    sizes.threads = application.count("threads", draft);
    let (program, origin) = program(&mut application, &sizes, draft);
    sizes::set(&sizes, program, draft);
    launcher(program, &sizes, &origin, draft);
    read_image(&mut application, draft);
    read_command(&mut application, program == Program::Mpi, draft);
    read_storage(&mut application, draft);
    if let Some(build) = application.block("build", draft) {
        read_build(build, draft);
    }
    let tag = "chose an image and scripts of MODAK's catalogue; name the image in `[image]`";
    application.note(&["app_tag"], tag, draft);
    application.note(
        &["minimal_efficiency"],
        "is for MODAK's model of scaling; dlrun starts the ranks asked for",
        draft,
    );
    application.finish(draft);
}

/// How the program is started, and what says so.
fn program(application: &mut Block<'_>, sizes: &Sizes, draft: &mut Draft) -> (Program, Origin) {
    let Some((word, origin)) = application.text("app_type", draft) else {
        return match &sizes.mpi_ranks {
            Some((ranks, origin)) if *ranks > 1 => (Program::Mpi, origin.clone()),
            _ => (
                Program::Single,
                Origin::new(application.path_of("app_type"), 0..0),
            ),
        };
    };
    let program = match word.to_ascii_lowercase().as_str() {
        "mpi" | "hpc" => Program::Mpi,
        "python" => Program::Single,
        _ => {
            draft.note(
                &origin,
                format!("`{word}` is none of mpi, hpc and python; the program is started once"),
            );
            Program::Single
        }
    };
    (program, origin)
}

/// MODAK starts a program that is not MPI's on the first node only, and the others stand idle.
fn launcher(program: Program, sizes: &Sizes, origin: &Origin, draft: &mut Draft) {
    match (program, &sizes.node_count) {
        (Program::Mpi, _) => draft.set("run.launcher", "mpi", origin),
        (Program::Single, Some((nodes, origin))) if *nodes > 1 => {
            draft.set("run.launcher", "each", origin);
            draft.comment(
                "run.launcher",
                "Once on every node; MODAK starts it on the first and leaves the others idle.",
            );
            let how = "\"none\" with `run.idle_nodes = true` does as MODAK does";
            draft.note(
                origin,
                format!("the program is started once on each of the {nodes} nodes; launcher {how}"),
            );
        }
        _ => {}
    }
}

fn read_image(application: &mut Block<'_>, draft: &mut Draft) {
    let Some((image, origin)) = application.text("container_runtime", draft) else {
        return;
    };
    let (key, text) = if image.contains("://") {
        ("image.uri", image)
    } else if image.ends_with(".sif") || image.ends_with(".simg") || image.starts_with(['/', '.']) {
        ("image.path", image)
    } else {
        // MODAK's own examples leave the scheme out.
        ("image.uri", format!("docker://{image}"))
    };
    draft.set(key, text, &origin);
}

fn read_command(application: &mut Block<'_>, is_mpi: bool, draft: &mut Draft) {
    let executable = application.raw_text("executable", draft);
    let arguments = application.raw_text("arguments", draft);
    let around = Around {
        before: step(application, "pre-execution", draft),
        after: step(application, "post-execution", draft),
    };
    let Some((executable, origin)) = executable else {
        if draft.holds("image.uri") || draft.holds("image.path") {
            let origin = origin_of(application);
            let arguments = arguments
                .map(|(arguments, _)| arguments)
                .unwrap_or_default();
            command::set(
                &format!("{RUNSCRIPT} {arguments}"),
                around,
                is_mpi,
                &origin,
                draft,
            );
            draft.comment(
                "run.command",
                "What the image starts by itself, as `apptainer run` does.",
            );
            return;
        }
        if let Some((_, origin)) = arguments {
            draft.refuse(&origin, "belongs to no `executable`");
        }
        for (_, origin) in around.before.iter().chain(&around.after) {
            draft.refuse(origin, "belongs to no `executable`");
        }
        return;
    };
    let text = match &arguments {
        Some((arguments, _)) => format!("{} {arguments}", executable.trim_end()),
        None => executable,
    };
    command::set(&text, around, is_mpi, &origin, draft);
}

fn origin_of(application: &Block<'_>) -> Origin {
    Origin::new(application.path_of("container_runtime"), 0..0)
}

/// A step before or after, unless it is the specification's own placeholder.
fn step(
    application: &mut Block<'_>,
    key: &'static str,
    draft: &mut Draft,
) -> Option<(String, Origin)> {
    let (text, origin) = application.text(key, draft)?;
    if text.starts_with("script to run ") {
        draft.note(&origin, "is the specification's placeholder, no command");
        return None;
    }
    Some((text, origin))
}

fn read_storage(application: &mut Block<'_>, draft: &mut Draft) {
    let Some((class, origin)) = application.text("storage_class_pref", draft) else {
        return;
    };
    let class = class
        .strip_prefix("default-")
        .unwrap_or(&class)
        .replace('-', "_");
    draft.set("storage.prefer", class, &origin);
}

/// The source of the specification's example.
const PLACEHOLDER_SOURCE: &str = "git://solver";

fn read_build(mut build: Block<'_>, draft: &mut Draft) {
    let source = build.text("src", draft);
    let command = build.raw_text("build_command", draft);
    let parallelism = build.count("build_parallelism", draft);
    if let Some((_, origin)) = source
        .as_ref()
        .filter(|(source, _)| source == PLACEHOLDER_SOURCE)
    {
        draft.note(
            origin,
            "is the specification's placeholder, no source; nothing is built",
        );
    } else if let Some((source, origin)) = source {
        let is_set = draft.try_set("build.source", source, &origin);
        if let Some((command, origin)) = command.filter(|_| is_set) {
            draft.set("build.command", with_parallelism(command.trim()), &origin);
        }
        if let Some((count, origin)) = parallelism.filter(|_| is_set) {
            draft.set("build.parallelism", count, &origin);
        }
    } else if let Some((_, origin)) = command {
        draft.refuse(&origin, "names no `src` to build");
    }
    build.finish(draft);
}

/// MODAK's template variable by dlrun's name.
fn with_parallelism(command: &str) -> String {
    let mut made = String::new();
    let mut rest = command;
    while let Some(at) = rest.find("{{") {
        let (before, from) = rest.split_at(at);
        let inner = from[2..].split_once("}}");
        match inner {
            Some((name, after)) if name.trim() == "BUILD_PARALLELISM" => {
                made.push_str(before);
                made.push_str("{{parallelism}}");
                rest = after;
            }
            _ => {
                made.push_str(&rest[..at + 2]);
                rest = &from[2..];
            }
        }
    }
    made + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_variable_gets_its_name_here() {
        for (text, made) in [
            (
                "make -j {{BUILD_PARALLELISM}} all",
                "make -j {{parallelism}} all",
            ),
            (
                "a {{ BUILD_PARALLELISM }}{{x}} {{",
                "a {{parallelism}}{{x}} {{",
            ),
        ] {
            assert_eq!(with_parallelism(text), made);
        }
    }
}
