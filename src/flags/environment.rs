//! Which variables reach the process, and by which way.
//!
//! A runtime passes the caller's variables on but for `PATH` and `LD_LIBRARY_PATH`, and the image's own `%environment`
//! beats them. Under `--cleanenv` it passes none. `APPTAINERENV_X` beats both.

use std::collections::BTreeSet;

use super::Refusal;
use super::draft::Draft;
use super::features::{Evaluation, Feature};
use super::literal::literal;

/// Beginnings of names that a job needs under `--cleanenv`: of schedulers, of what starts ranks, of dlrun.
const PREFIXES: [&str; 17] = [
    "SLURM_", "SLURMD_", "SRUN_", "PBS_", "PMI_", "PMIX_", "PMI2_", "OMPI_", "PRTE_", "PRRTE_", "MPI_",
    "MPIR_", "MV2_", "HYDRA_", "DLRUN_", "OMP_", "NCCL_",
];
/// Names that a job needs under `--cleanenv`.
const NAMES: [&str; 22] = [
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ZE_AFFINITY_MASK",
    "PYTHONUNBUFFERED",
    "MASTER_ADDR",
    "MASTER_PORT",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "NODE_RANK",
    "TF_CONFIG",
    "TMPDIR",
    "LANG",
    "TZ",
    "USER",
];
/// Variables that the runtime sets itself, or that its shell refuses.
const RUNTIME_OWN: [&str; 9] = ["HOME", "PWD", "OLDPWD", "UID", "EUID", "GID", "IFS", "OPTIND", "PPID"];
/// Variables by which a login shell gives flags, without their beginning.
const FOREIGN: [&str; 11] = [
    "NV",
    "ROCM",
    "BIND",
    "BINDPATH",
    "MOUNT",
    "CLEANENV",
    "CONTAIN",
    "CONTAINALL",
    "FAKEROOT",
    "WRITABLE_TMPFS",
    "NO_EVAL",
];

pub(super) fn add(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    let clean = clean(draft);
    if draft.features.has(Feature::NoEval) {
        draft.flag(
            "--no-eval",
            "values and arguments reach the command as they are; otherwise a shell reads them",
        );
    }
    let of_job = names_of_job(draft);
    let mut names = of_job.clone();
    if clean {
        names.extend(draft.around.names.iter().filter(|name| needed(name)).cloned());
    }
    let mut given = Vec::new();
    for name in names {
        let Some(value) = (draft.around.variables)(&name) else { continue };
        if give(draft, &name, &value, clean)? {
            given.push(name);
        }
    }
    if !given.is_empty() {
        let prefixes: Vec<String> =
            draft.features.prefixes().iter().map(|prefix| format!("{prefix}ENV_*")).collect();
        let why = if clean {
            "variables of the job, of the scheduler and of the GPUs, which `--cleanenv` would take away"
        } else {
            "variables of the job, which beat those of the image"
        };
        draft.reason(&prefixes.join(", "), format!("{why}: {}", given.join(" ")));
    }
    foreign(draft);
    Ok(())
}

fn clean(draft: &mut Draft<'_>) -> bool {
    if draft.container.cleanenv {
        draft.flag("--cleanenv", "`image.cleanenv`");
    }
    draft.container.cleanenv || draft.has_option(&["-C", "--containall", "--compat"])
}

fn names_of_job(draft: &Draft<'_>) -> BTreeSet<String> {
    let read = (draft.around.variables)("DLRUN_ENV_NAMES").unwrap_or_default();
    let names = draft.container.variables.iter().cloned();
    names.chain(read.split_whitespace().map(str::to_owned)).filter(|name| is_name(name)).collect()
}

/// What a shell takes as a name. Functions that bash exports have others.
fn is_name(name: &str) -> bool {
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    first && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn needed(name: &str) -> bool {
    is_name(name) && (NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

/// Sets a variable for the container; false where it is left to the runtime.
fn give(draft: &mut Draft<'_>, name: &str, value: &str, clean: bool) -> Result<bool, Refusal> {
    if RUNTIME_OWN.contains(&name) {
        let what = format!(
            "the job sets {name}, which the container's runtime sets itself: it is left as it is there"
        );
        draft.warn(what);
        return Ok(false);
    }
    // An empty variable that is there twice is taken away by the runtime's script; once, it stays.
    if value.is_empty() && !clean {
        return Ok(false);
    }
    let evaluation =
        if draft.features.has(Feature::NoEval) { Evaluation::None } else { draft.features.evaluation() };
    let by_host = !clean && !matches!(name, "PATH" | "LD_LIBRARY_PATH");
    match literal(evaluation, name, value) {
        Some(value) => {
            for prefix in draft.features.prefixes() {
                draft.out.sets.push((format!("{prefix}ENV_{name}"), value.clone()));
            }
            Ok(true)
        }
        None if by_host => {
            draft.reason(
                name,
                format!("passed on as the node has it: {} cannot be given such a value", draft.runtime()),
            );
            Ok(false)
        }
        None => {
            let what =
                format!("{} cannot be given the value of {name}: its shell would change it", draft.runtime());
            Err(draft.unsupported(what, "leave `image.cleanenv` out, or change the value"))
        }
    }
}

/// Flags that come from the user's login shell.
fn foreign(draft: &mut Draft<'_>) {
    for prefix in ["APPTAINER", "SINGULARITY"] {
        for word in FOREIGN {
            let name = format!("{prefix}_{word}");
            if draft.variable(&name).is_some() {
                draft.reason(&name, "is set in the environment, and the runtime obeys it");
            }
        }
    }
}
