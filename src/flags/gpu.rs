//! `--nv` and `--rocm`: the GPUs that the job was given, on the node that has them.
//!
//! The runtime ends with 0 whether `--nv` finds a driver or not, so what it says proves nothing; the node's own files do.
//! `--nvccli` is never given: without `nvidia-container-cli` it fails, and it makes the image writable.

use super::draft::Draft;
use super::features::Feature;
use super::{GpuFacts, Refusal};
use crate::job::GpuMode;

/// Values that name no GPU: CUDA's, Slurm's, and those of NVIDIA's container runtime.
const NO_GPU: [&str; 5] = ["", "-1", "NoDevFiles", "none", "void"];
/// Variables that hide GPUs of one maker, and not those of the other.
const NVIDIA_MASKS: [&str; 2] = ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"];
const AMD_MASKS: [&str; 2] = ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"];

#[derive(Clone, Copy)]
struct Maker {
    name: &'static str,
    flag: &'static str,
    masks: [&'static str; 2],
}

const NVIDIA: Maker = Maker { name: "NVIDIA", flag: "--nv", masks: NVIDIA_MASKS };
const AMD: Maker = Maker { name: "AMD", flag: "--rocm", masks: AMD_MASKS };

pub(super) fn add(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    let mode = draft.container.gpu;
    if mode == GpuMode::None {
        draft.reason("no --nv", "the job file says `image.gpu = \"none\"`");
        return Ok(());
    }
    let gpus = &draft.node.gpus;
    let Some(grant) = granted(draft) else {
        draft.reason("no --nv", "the job was given no GPU");
        return Ok(());
    };
    let wanted: Vec<Maker> = [(NVIDIA, GpuMode::Nvidia), (AMD, GpuMode::Amd)]
        .into_iter()
        .filter(|(_, only)| mode == GpuMode::Auto || mode == *only)
        .map(|(maker, _)| maker)
        .collect();
    let (hidden, open): (Vec<Maker>, Vec<Maker>) =
        wanted.iter().partition(|maker| hidden_by(gpus, **maker).is_some());
    for maker in &hidden {
        if let Some(mask) = hidden_by(gpus, *maker) {
            draft.reason(&format!("no {}", maker.flag), format!("{mask} hides all GPUs of {}", maker.name));
        }
    }
    let there: Vec<Maker> = open.iter().filter(|maker| is_there(gpus, **maker)).copied().collect();
    match (there.as_slice(), open.as_slice()) {
        (_, []) => Ok(()),
        ([], open) => missing(draft, &grant, open),
        (there, _) => give(draft, &grant, there),
    }
}

/// By what the job was given GPUs.
fn granted(draft: &Draft<'_>) -> Option<String> {
    let gpus = &draft.node.gpus;
    let by_variable = gpus.granted_by.iter().find(|(name, value)| grants(name, value));
    if let Some((name, value)) = by_variable {
        return Some(format!("{name}={value}"));
    }
    if draft.container.gpus_asked {
        return Some("the job asks for GPUs".to_owned());
    }
    let scheduled = ["SLURM_JOB_ID", "PBS_JOBID"].iter().any(|name| draft.variable(name).is_some());
    let hidden =
        [NVIDIA, AMD].into_iter().all(|maker| !is_there(gpus, maker) || hidden_by(gpus, maker).is_some());
    (!scheduled && !hidden).then(|| "no scheduler keeps this machine's GPUs from the job".to_owned())
}

fn grants(name: &str, value: &str) -> bool {
    let value = value.trim();
    let is_count = name.ends_with("_ON_NODE") || name.ends_with("_PER_NODE");
    !NO_GPU.contains(&value) && !(is_count && value == "0")
}

/// The mask that leaves no GPU of this maker, as `NAME=value`.
fn hidden_by(gpus: &GpuFacts, maker: Maker) -> Option<String> {
    let masks = || gpus.granted_by.iter().filter(|(name, _)| maker.masks.contains(&name.as_str()));
    let hiding = masks().find(|(_, value)| NO_GPU.contains(&value.trim()))?;
    Some(format!("{}={}", hiding.0, hiding.1))
}

fn is_there(gpus: &GpuFacts, maker: Maker) -> bool {
    if maker.flag == NVIDIA.flag {
        gpus.nvidia_device || gpus.nvidia_driver.is_some()
    } else {
        gpus.amd_device
    }
}

fn give(draft: &mut Draft<'_>, grant: &str, there: &[Maker]) -> Result<(), Refusal> {
    let both = there.len() > 1;
    let nvidia = there.iter().any(|maker| maker.flag == NVIDIA.flag);
    if nvidia && draft.node.gpus.cuda_library == Some(false) {
        missing_library(draft, grant)?;
    }
    for maker in there {
        if maker.flag == AMD.flag && both && !draft.features.has(Feature::BothGpus) {
            let runtime = draft.runtime();
            draft.warn(format!(
                "this node has GPUs of NVIDIA and of AMD, and {runtime} passes on NVIDIA's alone"
            ));
            draft.reason("no --rocm", format!("{runtime} takes `--nv` alone where both are given"));
            continue;
        }
        if maker.flag == AMD.flag && !draft.features.has(Feature::Rocm) {
            let runtime = draft.runtime();
            let what = format!("{runtime} does not know `--rocm`");
            return lost(draft, what);
        }
        let found =
            if maker.flag == NVIDIA.flag { "its driver is on this node" } else { "/dev/kfd is on this node" };
        draft.flag(maker.flag, format!("{grant}, and {found}"));
    }
    Ok(())
}

fn missing_library(draft: &mut Draft<'_>, grant: &str) -> Result<(), Refusal> {
    let _ = grant;
    lost(
        draft,
        "`ldconfig -p` does not know libcuda.so.1 on this node, so `--nv` has no library to pass on"
            .to_owned(),
    )
}

/// GPUs were given, and no driver is there.
fn missing(draft: &mut Draft<'_>, grant: &str, open: &[Maker]) -> Result<(), Refusal> {
    let nothing = match open {
        [only] if only.flag == AMD.flag => "there is no /dev/kfd on this node",
        [_] => "there is neither /dev/nvidiactl nor /proc/driver/nvidia on this node",
        _ => "there is neither /dev/nvidiactl nor /proc/driver/nvidia nor /dev/kfd on this node",
    };
    for maker in open {
        draft.reason(&format!("no {}", maker.flag), format!("{grant}, but {nothing}"));
    }
    lost(draft, nothing.to_owned())
}

/// No GPU works in the container: an end or a warning, as the job wants it.
fn lost(draft: &mut Draft<'_>, why: String) -> Result<(), Refusal> {
    if draft.container.require_gpu {
        return Err(Refusal::NoGpu { why });
    }
    draft.warn(format!("the job was given GPUs, but {why}: it runs without them"));
    draft.out.gpu_missing = Some(why);
    Ok(())
}
