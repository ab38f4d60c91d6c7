//! `--nv` and `--rocm`: the GPUs that the job was given, on the node that has them.
//!
//! The runtime ends with 0 whether `--nv` finds a driver or not, so what it says proves nothing; the node's own files do.
//! `--nvccli` is never given: it fails where `nvidia-container-cli` is missing, and it makes the image writable.

use crate::image::flags::draft::Draft;
use crate::image::flags::{GpuFacts, Refusal};

use crate::job::{GpuMode, SchedulerVariables};

/// Values that name no GPU: CUDA's, Slurm's, and those of NVIDIA's container runtime.
const NO_GPU: [&str; 5] = ["", "-1", "NoDevFiles", "none", "void"];

/// A maker of GPUs.
struct Maker {
    mode: GpuMode,
    flag: &'static str,
    /// Where its driver shows.
    place: &'static str,
    /// Variables that hide its GPUs from a program, and not those of the other.
    masks: [&'static str; 2],
    is_there: fn(&GpuFacts) -> bool,
}

static MAKERS: [Maker; 2] = [
    Maker {
        mode: GpuMode::Nvidia,
        flag: "--nv",
        place: "neither /dev/nvidiactl nor /proc/driver/nvidia",
        masks: ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"],
        is_there: |gpus| gpus.nvidia_device || gpus.nvidia_driver.is_some(),
    },
    Maker {
        mode: GpuMode::Amd,
        flag: "--rocm",
        place: "no /dev/kfd",
        masks: ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"],
        is_there: |gpus| gpus.amd_device,
    },
];

impl Maker {
    fn is_amd(&self) -> bool {
        self.mode == GpuMode::Amd
    }

    /// The mask that leaves none of its GPUs, as `NAME="value"`. One that names a GPU has the last word.
    fn hidden_by(&self, draft: &Draft<'_>) -> Option<Mask> {
        let masks = self
            .masks
            .map(|name| (draft.around.variables)(name).map(|value| (name, value)));
        let names_one = masks
            .iter()
            .flatten()
            .any(|(_, value)| !NO_GPU.contains(&value.trim()));
        masks.into_iter().flatten().next().filter(|_| !names_one)
    }

    fn is_wanted(&self, mode: GpuMode) -> bool {
        mode == GpuMode::Auto || mode == self.mode
    }
}

/// A variable that hides GPUs, and its value.
type Mask = (&'static str, String);

fn mask_fault((name, value): &Mask) -> String {
    format!("{name}={value:?} leaves no GPU")
}

pub(crate) fn add(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    let (mode, gpus) = (draft.container.gpu, &draft.node.gpus);
    if mode == GpuMode::None {
        draft.reason(
            "no --nv, no --rocm",
            "the job file says `image.gpu = \"none\"`",
        );
        return Ok(());
    }
    let Some(grant) = grant(draft) else {
        if draft.container.require_gpu {
            return Err(Refusal::no_gpu("the job was given no GPU"));
        }
        draft.reason("no --nv, no --rocm", "the job was given no GPU");
        return Ok(());
    };
    let wanted = MAKERS.iter().filter(|maker| maker.is_wanted(mode));
    let (mut open, mut masks): (Vec<&Maker>, Vec<Mask>) = Default::default();
    let mut is_nvidia_hidden = false;
    for maker in wanted {
        let Some(mask) = maker.hidden_by(draft) else {
            open.push(maker);
            continue;
        };
        draft.reason(&format!("no {}", maker.flag), mask_fault(&mask));
        is_nvidia_hidden |= !maker.is_amd();
        masks.push(mask);
    }
    let there: Vec<&Maker> = open
        .iter()
        .filter(|maker| (maker.is_there)(gpus))
        .copied()
        .collect();
    match masks.first() {
        _ if !there.is_empty() => give(draft, &grant, &there),
        Some(mask) if open.is_empty() || is_nvidia_hidden => {
            // The masks that the job sets itself tell what it wants; the scheduler's, what it has.
            let is_own = draft.container.variables.iter().any(|name| name == mask.0);
            let is_meant = (is_own || !draft.container.gpus_asked) && !draft.container.require_gpu;
            if is_meant {
                Ok(())
            } else {
                lose(draft, mask_fault(mask))
            }
        }
        _ => nothing(draft, &grant, &open),
    }
}

/// By what the job was given GPUs.
fn grant(draft: &Draft<'_>) -> Option<String> {
    let gpus = &draft.node.gpus;
    if let Some((name, value)) = gpus
        .granted_by
        .iter()
        .find(|(name, value)| grants(name, value))
    {
        return Some(format!("{name}={value}"));
    }
    if draft.container.gpus_asked {
        return Some("the job asks for GPUs".to_owned());
    }
    let usable = |maker: &Maker| {
        (maker.is_there)(gpus)
            && maker.hidden_by(draft).is_none()
            && maker.is_wanted(draft.container.gpu)
    };
    if !MAKERS.iter().any(usable) {
        return None;
    }
    let scheduled = SchedulerVariables::ALL
        .iter()
        .any(|variables| draft.variable(variables.job_id).is_some());
    match draft.container.gpu {
        GpuMode::Nvidia | GpuMode::Amd => Some("the job file wants them (`image.gpu`)".to_owned()),
        GpuMode::Auto | GpuMode::None if scheduled => None,
        GpuMode::Auto | GpuMode::None => {
            Some("no scheduler shares out this machine's GPUs".to_owned())
        }
    }
}

fn grants(name: &str, value: &str) -> bool {
    let value = value.trim();
    let mut all = SchedulerVariables::ALL.into_iter();
    let is_count = all.any(|variables| variables.gpu_counts.contains(&name));
    !(NO_GPU.contains(&value) || is_count && value == "0")
}

fn give(draft: &mut Draft<'_>, grant: &str, there: &[&Maker]) -> Result<(), Refusal> {
    for maker in there {
        let found = match (draft.assumed, maker.is_amd()) {
            (true, _) => "; the node decides",
            (false, false) => ", and NVIDIA's driver is on this node",
            (false, true) => ", and /dev/kfd is on this node",
        };
        draft.flag(maker.flag, format!("{grant}{found}"));
        if !maker.is_amd() && draft.node.gpus.cuda_library == Some(false) {
            lose(
                draft,
                "`ldconfig -p` does not know libcuda.so.1 on this node, which `--nv` passes"
                    .to_owned(),
            )?;
        }
    }
    Ok(())
}

/// GPUs were given, and the node has no driver for them.
fn nothing(draft: &mut Draft<'_>, grant: &str, open: &[&Maker]) -> Result<(), Refusal> {
    let places: Vec<&str> = open.iter().map(|maker| maker.place).collect();
    let flags: Vec<String> = open
        .iter()
        .map(|maker| format!("no {}", maker.flag))
        .collect();
    let why = format!("there is {} on this node", places.join(", and "));
    draft.reason(&flags.join(", "), format!("{grant}, but {why}"));
    lose(draft, why)
}

/// No GPU works in the container: an end or a warning, as the job wants it.
fn lose(draft: &mut Draft<'_>, why: String) -> Result<(), Refusal> {
    if draft.container.require_gpu {
        return Err(Refusal::no_gpu(&why));
    }
    draft.warn(format!(
        "the job was given GPUs, but {why}: it runs without them"
    ));
    draft.out.gpu_missing.get_or_insert(why);
    Ok(())
}
