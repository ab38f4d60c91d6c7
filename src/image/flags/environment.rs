//! Which variables reach the process, and by which way.
//!
//! A runtime passes the caller's variables on but for `PATH` and `LD_LIBRARY_PATH`, and those that the image sets beat
//! them. Under `--cleanenv` it passes none. `APPTAINERENV_X` gives `X` in any case.

use std::collections::BTreeSet;

use crate::image::flags::Refusal;
use crate::image::flags::draft::Draft;
use crate::image::flags::variable::{is_name, literal};
use crate::image::runtime::{Evaluation, Feature};
use crate::job::SchedulerVariables;

/// Beginnings of names that a job needs under `--cleanenv`, beside its scheduler's: of what starts and joins ranks, of dlrun.
const BEGINNINGS: &str = "PMI_ PMI2_ PMIX_ PALS_ OMPI_ PRTE_ MPI_ I_MPI_ MPICH_ MV2_ \
    HYDRA_ HYDI_ UCX_ FI_ NCCL_ GLOO_ HOROVOD_ TORCHELASTIC_ PET_ DMLC_ JAX_ KERAS_ OMP_ KMP_ DLRUN_";
/// Names that a job needs under `--cleanenv`: masks of GPUs, and what tells a rank its place.
const NAMES: &str = "CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER NVIDIA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES \
    HIP_VISIBLE_DEVICES GPU_DEVICE_ORDINAL ZE_AFFINITY_MASK ONEAPI_DEVICE_SELECTOR \
    PYTHONUNBUFFERED MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE \
    GROUP_RANK GROUP_WORLD_SIZE NODE_RANK TF_CONFIG MKL_NUM_THREADS OPENBLAS_NUM_THREADS";
/// Variables that the runtime sets itself, or that its shell keeps from being set.
const NOT_OURS: [&str; 9] = [
    "HOME", "PWD", "OLDPWD", "UID", "EUID", "GID", "PPID", "IFS", "OPTIND",
];
/// Settings of the runtime, without their beginning, that keep the caller's variables out, and options that do.
const CLEAN_SETTINGS: [&str; 3] = ["CLEANENV", "CONTAINALL", "COMPAT"];
const CLEAN_OPTIONS: [&str; 3] = ["-C", "--containall", "--compat"];

pub(crate) fn add(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    let clean = is_clean(draft);
    if draft.features.has(Feature::NoEval) {
        draft.flag(
            "--no-eval",
            "no shell in the container reads values and arguments",
        );
    }
    let mut given = Vec::new();
    for name in names_of_job(draft) {
        let Some(value) = (draft.around.variables)(&name) else {
            continue;
        };
        if give_of_job(draft, &name, &value, clean)? {
            given.push(name);
        }
    }
    if !given.is_empty() {
        let why = match draft.features.evaluation() {
            // Singularity 3.5 sources what the image sets behind them.
            Evaluation::None => "the job sets them",
            _ => "the job sets them, and the image's own do not beat them",
        };
        explain(draft, why, &given);
    }
    if clean {
        let others = give_needed(draft, &given);
        explain(
            draft,
            "variables of GPUs, schedulers and ranks, which would stay outside",
            &others,
        );
    }
    Ok(())
}

fn explain(draft: &mut Draft<'_>, why: &str, names: &[String]) {
    let beginnings: Vec<String> = draft
        .features
        .prefixes()
        .iter()
        .map(|prefix| format!("{prefix}ENV_*"))
        .collect();
    let names = match names {
        [] if draft.assumed => "those that the node sets".to_owned(),
        [] => "none is set".to_owned(),
        names => names.join(" "),
    };
    draft.reason(&beginnings.join(", "), format!("{why}: {names}"));
}

/// Whether the caller's variables stay outside.
fn is_clean(draft: &mut Draft<'_>) -> bool {
    if draft.container.cleanenv {
        draft.flag(
            "--cleanenv",
            "`image.cleanenv`: the node's variables stay outside",
        );
    }
    let set = CLEAN_SETTINGS
        .iter()
        .any(|word| setting(draft, word).is_some());
    draft.container.cleanenv || set || draft.has_option(&CLEAN_OPTIONS)
}

/// Names that the job file, rules and the `env_file` set.
fn names_of_job(draft: &Draft<'_>) -> BTreeSet<String> {
    let read = (draft.around.variables)("DLRUN_ENV_NAMES").unwrap_or_default();
    let names = draft.container.variables.iter().cloned();
    names
        .chain(read.split_whitespace().map(str::to_owned))
        .filter(|name| is_name(name))
        .collect()
}

/// Sets a variable of the job; false where it is left to the runtime.
fn give_of_job(
    draft: &mut Draft<'_>,
    name: &str,
    value: &str,
    clean: bool,
) -> Result<bool, Refusal> {
    if NOT_OURS.contains(&name) {
        draft.warn(format!(
            "the job sets {name}, which the container's runtime sets itself: its own value stays"
        ));
        return Ok(false);
    }
    if set(draft, name, value) {
        return Ok(true);
    }
    let runtime = draft.runtime();
    if clean || matches!(name, "PATH" | "LD_LIBRARY_PATH") {
        let what = format!("{runtime} cannot pass the value of {name} on: it would change it");
        let remedy = "leave the line breaks, dollar signs, quotes and backslashes out of it, or put it into a file";
        return Err(Refusal::unsupported(what, remedy));
    }
    draft.reason(
        name,
        format!("goes along with the node's variables, since {runtime} would change it otherwise"),
    );
    Ok(false)
}

fn of_schedulers() -> impl Iterator<Item = &'static str> {
    let all = SchedulerVariables::ALL.into_iter();
    all.flat_map(|variables| variables.prefixes.iter().copied())
}

/// Sets what a job needs and the runtime keeps out; what cannot be set costs a warning.
fn give_needed(draft: &mut Draft<'_>, given: &[String]) -> Vec<String> {
    let is_needed = |name: &str| {
        NAMES.split(' ').any(|needed| needed == name)
            || BEGINNINGS
                .split(' ')
                .chain(of_schedulers())
                .any(|beginning| name.starts_with(beginning))
    };
    let names: BTreeSet<&String> = draft
        .around
        .names
        .iter()
        .filter(|name| is_name(name) && is_needed(name) && !given.contains(name))
        .collect();
    let mut others = Vec::new();
    for name in names {
        match (draft.around.variables)(name) {
            None => {}
            Some(value) if set(draft, name, &value) => others.push(name.clone()),
            Some(_) => {
                let runtime = draft.runtime();
                draft.warn(format!(
                    "{name} stays outside the container: {runtime} would change its value"
                ));
            }
        }
    }
    others
}

/// Sets a variable for the container; false where this runtime cannot be told its value.
fn set(draft: &mut Draft<'_>, name: &str, value: &str) -> bool {
    let Some(value) = literal(draft.features.evaluation(), name, value) else {
        return false;
    };
    for prefix in draft.features.prefixes() {
        draft
            .out
            .sets
            .push((format!("{prefix}ENV_{name}"), value.clone()));
    }
    // Another value under the other name costs a warning of the runtime, or wins.
    let (own, obeyed) = (draft.features.prefixes(), draft.features.obeyed_prefixes());
    for prefix in obeyed.iter().filter(|prefix| !own.contains(prefix)) {
        let other = format!("{prefix}ENV_{name}");
        if draft.around.names.contains(&other) {
            draft.out.removals.push(other);
        }
    }
    true
}

/// The name by which the environment gives the runtime a setting.
fn setting(draft: &Draft<'_>, word: &str) -> Option<String> {
    let prefixes = draft.features.obeyed_prefixes().into_iter();
    prefixes
        .map(|prefix| format!("{prefix}_{word}"))
        .find(|name| draft.variable(name).is_some())
}
