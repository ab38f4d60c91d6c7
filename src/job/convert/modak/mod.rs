//! MODAK's job descriptions: JSON with `job_options`, `target`, `application` and `optimisation`.
//!
//! All keys of its published specification are known, those too that its own validator refuses.

mod application;
mod command;
mod optimisation;
mod options;
mod sizes;

use super::block::Block;
use super::draft::{Draft, Origin};
use super::json::{self, Json, Node};
use super::{Converted, Format};
use crate::foundation::diagnostic::Problem;
use crate::job::SchedulerKind;

const TITLE: &str = "From a job description of MODAK. `dlrun check` tells whether it can run.";

/// The objects of a job; older files call the last one by its American name.
const PARTS: [&str; 5] = [
    "job_options",
    "target",
    "application",
    "optimisation",
    "optimization",
];

/// Converts a description.
pub(super) fn convert(text: &str) -> Result<Converted, Vec<Problem>> {
    let root = json::parse(text)?;
    let mut draft = Draft::default();
    let job = find_job(&root, &mut draft)?;
    read_job(job, &mut draft);
    if !draft.holds("run.command") {
        stand_in(&mut draft);
    }
    draft.finish(Format::Modak, TITLE)
}

/// The object that describes the job: the value of `job`, or the document itself.
fn find_job<'a>(root: &'a Node, draft: &mut Draft) -> Result<Block<'a>, Problem> {
    let none = |message: &str| Err(Problem::at(root.span.start..root.span.start, message));
    let Json::Object(pairs) = &root.value else {
        return none("this JSON is no job description: it is no object");
    };
    let holds = |name: &str| pairs.iter().any(|(key, _)| key == name);
    let is_image = ["container_file", "container_name", "image_type"]
        .into_iter()
        .any(holds);
    let mut document = match Block::of("", root) {
        Some(document) if holds("job") || (PARTS.into_iter().any(holds) && !is_image) => document,
        _ if is_image => {
            return none(
                "this is an entry of MODAK's image catalogue, no job; a job file names its image with `image.uri`",
            );
        }
        _ => {
            return none(
                "this JSON is no job description of MODAK: it has neither `job` nor `application`",
            );
        }
    };
    if !holds("job") {
        return Ok(document);
    }
    let Some((node, _)) = document.value("job") else {
        return none("`job` is empty");
    };
    document.finish(draft);
    // Keys are named as MODAK's specification names them, without the outermost.
    Block::of("", node).ok_or_else(|| Problem::at(node.span.clone(), "`job` is no object"))
}

fn read_job(mut job: Block<'_>, draft: &mut Draft) {
    let kind = job
        .block("target", draft)
        .and_then(|target| read_target(target, draft));
    let mut sizes = sizes::Sizes::default();
    let mut wishes = options::Wishes::default();
    if let Some(options) = job.block("job_options", draft) {
        wishes = options::read(options, kind, &mut sizes, draft);
    }
    if let Some(application) = job.block("application", draft) {
        application::read(application, sizes, draft);
    } else {
        sizes::set(&sizes, sizes::Program::Single, draft);
    }
    for name in ["optimisation", "optimization"] {
        if let Some(optimisation) = job.block(name, draft) {
            optimisation::read(optimisation, draft);
        }
    }
    options::tell_streams(&wishes, draft);
    let outputs =
        "names where MODAK puts its result; `dlrun convert -o FILE` and `dlrun render` do that";
    job.note(
        &["job_script", "build_script", "job_content", "build_content"],
        outputs,
        draft,
    );
    job.finish(draft);
}

fn read_target(mut target: Block<'_>, draft: &mut Draft) -> Option<SchedulerKind> {
    let name = "names a site of MODAK's database; dlrun asks the machine that it runs on";
    target.note(&["name"], name, draft);
    let mut kind = None;
    for key in ["job_scheduler_type", "queue_type"] {
        let Some((word, origin)) = target.text(key, draft) else {
            continue;
        };
        let known = match word.to_ascii_lowercase().as_str() {
            "none" => Some(SchedulerKind::Local),
            "pbs" | "pbspro" => Some(SchedulerKind::OpenPbs),
            word => SchedulerKind::from_word(word).filter(|kind| *kind != SchedulerKind::Auto),
        };
        match known {
            Some(known) => {
                draft.set("scheduler.kind", known.as_str(), &origin);
                kind = Some(known);
            }
            None => draft.refuse(
                &origin,
                format!("`{word}` is no scheduler that dlrun knows"),
            ),
        }
    }
    target.finish(draft);
    kind
}

/// A description without a program is no job yet. What it does say is worth having; the command fails until it is written.
fn stand_in(draft: &mut Draft) {
    let origin = Origin::new("application.executable", 0..0);
    draft.set("run.command", vec!["false".to_owned()], &origin);
    draft.comment(
        "run.command",
        "The description names no program: write yours here.",
    );
    draft.refuse(
        &origin,
        "no program is named; `run.command` must be written by hand",
    );
}
