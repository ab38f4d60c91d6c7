//! `optimisation`: the framework and the data; the rest chose images and scripts of MODAK's own.

use crate::job::convert::block::Block;
use crate::job::convert::draft::{Draft, Origin};

/// The frameworks with the keys of their blocks, in the notation of the specification and in the older one.
const FRAMEWORKS: [(&str, [&str; 2]); 5] = [
    ("tensorflow", ["ai_framework-tensorflow", "tensorflow"]),
    ("pytorch", ["ai_framework-pytorch", "pytorch"]),
    ("keras", ["ai_framework-keras", "keras"]),
    ("cntk", ["ai_framework-cntk", "cntk"]),
    ("mxnet", ["ai_framework-mxnet", "mxnet"]),
];
const DATA_SETS: [&str; 3] = ["imagenet", "cifar", "mnist"];

pub(super) fn read(mut optimisation: Block<'_>, draft: &mut Draft) {
    if let Some((true, origin)) = optimisation.flag("enable_opt_build", draft) {
        let here = if has_image(draft) {
            "here it is the one named"
        } else {
            "here `[image]` names it, or the catalogue has one for `[framework]`"
        };
        draft.note(&origin, format!("MODAK would choose the image; {here}"));
    }
    if let Some((true, origin)) = optimisation.flag("enable_autotuning", draft) {
        draft.note(&origin, "dlrun tunes nothing");
    }
    let unused = "has no meaning here";
    optimisation.note(
        &["autotuning"],
        "has no meaning here: dlrun tunes nothing",
        draft,
    );
    if let Some((word, origin)) = optimisation.text("app_type", draft)
        && !["ai_training", "hpc"].contains(&word.to_ascii_lowercase().as_str())
    {
        unless_alternatives(&word, &origin, draft, |word| {
            format!("`{word}` has no meaning here")
        });
    }
    // Of MODAK's own examples; its program reads neither.
    optimisation.note(
        &["arch_build", "app_build"],
        "MODAK does not read it; left out",
        draft,
    );
    let build = optimisation.block("opt_build", draft);
    let accelerator = build.and_then(|build| read_opt_build(build, draft));
    for key in ["app_type-ai_training", "ai_training"] {
        if let Some(training) = optimisation.block(key, draft) {
            read_training(training, draft);
        }
    }
    // The catalogue has images for GPUs of both makers.
    if let Some(origin) = accelerator.filter(|_| draft.holds("framework.name") && !has_image(draft))
    {
        draft.set("image.gpu", "amd", &origin);
    }
    let mpi = "MPI comes from the image or from `run.modules`; the rest has no meaning here";
    optimisation.note(&["app_type-hpc", "hpc"], mpi, draft);
    let later = [
        "app_type-ai_inference",
        "ai_inference",
        "app_type-big_data",
        "big_data",
    ];
    optimisation.note(&later, unused, draft);
    optimisation.finish(draft);
}

/// The processor and accelerator of the image that MODAK would choose.
///
/// Where AMD's GPUs are asked for, its place.
fn read_opt_build(mut build: Block<'_>, draft: &mut Draft) -> Option<Origin> {
    build.note(&["cpu_type"], "chose an image; name it in `[image]`", draft);
    let mut amd = None;
    if let Some((kind, origin)) = build.text("acc_type", draft)
        && kind != "none"
    {
        amd = (kind == "amd").then(|| origin.clone());
        if kind.contains('/') {
            unless_alternatives(&kind, &origin, draft, str::to_owned);
        } else if GPU_KINDS.contains(&kind.as_str()) && !draft.holds("resources.gpus_per_node") {
            let how = "`request_gpus` asks for none, so the job gets none; else write `resources.gpus_per_node`";
            draft.note(&origin, format!("chose an image for GPUs, but {how}"));
        } else {
            draft.note(&origin, "chose an image; name it in `[image]`");
        }
    }
    build.finish(draft);
    amd
}

fn has_image(draft: &Draft) -> bool {
    draft.holds("image.uri") || draft.holds("image.path")
}

/// A list of alternatives, as `x86/arm/amd/power`, is the specification's sheet and no job; any other word gets a note.
fn unless_alternatives(
    word: &str,
    origin: &Origin,
    draft: &mut Draft,
    note: impl Fn(&str) -> String,
) {
    if word.contains('/') {
        draft.refuse(
            origin,
            format!("`{word}` are the specification's alternatives; write one of them"),
        );
    } else {
        draft.note(origin, note(word));
    }
}

const GPU_KINDS: [&str; 2] = ["nvidia", "amd"];

fn read_training(mut training: Block<'_>, draft: &mut Draft) {
    let config = training.block("config", draft);
    let named = config.and_then(|config| read_config(config, draft));
    if let Some(data) = training.block("data", draft) {
        read_data(data, draft);
    }
    read_frameworks(&mut training, named.as_ref(), draft);
    training.finish(draft);
}

/// The framework's name, where it is one.
fn read_config(mut config: Block<'_>, draft: &mut Draft) -> Option<(String, Origin)> {
    let named = config
        .text("ai_framework", draft)
        .and_then(|(word, origin)| {
            let word = word.to_ascii_lowercase();
            let names = FRAMEWORKS.map(|(name, _)| name);
            if names.contains(&word.as_str()) {
                return Some((word, origin));
            }
            let why = |word: &str| format!("`{word}` names no framework ({})", names.join(", "));
            unless_alternatives(&word, &origin, draft, why);
            None
        });
    config.copy_number("parameters", "workload.parameters", draft);
    let shape = "is not recorded: `[workload]` has no key for it";
    config.note(&["type", "layers"], shape, draft);
    if let Some((true, origin)) = config.flag("distributed_training", draft) {
        draft.note(
            &origin,
            "how the program gets onto the nodes is `run.launcher`",
        );
    }
    config.finish(draft);
    named
}

fn read_data(mut data: Block<'_>, draft: &mut Draft) {
    if let Some((name, origin)) = data.text("basedata", draft) {
        let lower = name.to_ascii_lowercase();
        if DATA_SETS.iter().any(|known| lower.starts_with(known)) && !name.contains('/') {
            draft.set("workload.dataset", lower, &origin);
        } else {
            draft.note(
                &origin,
                format!("`{name}` names no data set ({})", DATA_SETS.join(", ")),
            );
        }
    }
    data.copy_number("count", "workload.samples", draft);
    data.note(
        &["location"],
        "is not handed to the program; write it among its arguments",
        draft,
    );
    data.note(&["size", "etl"], "has no meaning here", draft);
    data.finish(draft);
}

fn read_frameworks(training: &mut Block<'_>, named: Option<&(String, Origin)>, draft: &mut Draft) {
    let mut blocks = Vec::new();
    for (framework, keys) in FRAMEWORKS {
        for key in keys {
            let value = training.value(key);
            blocks.extend(value.map(|(node, origin)| (framework, node, origin)));
        }
    }
    // The block of the framework that is named, else the only one there is.
    let chosen = match named {
        Some((name, _)) => blocks.iter().find(|(framework, ..)| framework == name),
        None => blocks.first().filter(|_| blocks.len() == 1),
    };
    if let Some((name, origin)) = named
        .cloned()
        .or_else(|| chosen.map(|(name, _, origin)| ((*name).to_owned(), origin.clone())))
    {
        draft.set("framework.name", name, &origin);
    }
    for (framework, node, origin) in &blocks {
        if chosen.is_some_and(|(name, ..)| name == framework) {
            if let Some(block) = Block::of(&origin.about, node) {
                read_framework(block, draft);
            } else {
                draft.refuse(origin, "is no object");
            }
        } else {
            draft.note(origin, "is not the framework that is named; left out");
        }
    }
}

fn read_framework(mut block: Block<'_>, draft: &mut Draft) {
    block.copy(&[("version", "framework.version")], draft);
    for compiler in ["xla", "glow"] {
        if let Some((wanted, origin)) = block.flag(compiler, draft) {
            let word = if wanted { compiler } else { "none" };
            draft.set("framework.compiler", word, &origin);
        }
    }
    block.note(
        &["backend"],
        "is not recorded; the program chooses its backend, by KERAS_BACKEND",
        draft,
    );
    block.finish(draft);
}
