//! How the image becomes a root file system: mounted, or unpacked first.
//!
//! Without a setuid starter Apptainer mounts a SIF through FUSE and ends where that fails; Singularity and SingularityCE
//! before 4.1 unpack it by themselves.

use crate::image::flags::Refusal;
use crate::image::flags::draft::Draft;
use crate::image::flags::fakeroot::ASK_NAMESPACES;
use crate::image::runtime::Feature;

pub(crate) fn add(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    let node = draft.node;
    if node.uid == 0 {
        return Ok(());
    }
    match (&node.namespaces.missing, node.namespaces.setuid_starter) {
        (Some(missing), false) => {
            let what = format!(
                "{} starts no container here: this user gets no user namespace ({missing}), and there is no setuid \
                 starter",
                draft.runtime()
            );
            return Err(Refusal::unsupported(
                what,
                format!("{ASK_NAMESPACES}; or for `apptainer-suid`"),
            ));
        }
        (_, true) if !draft.container.fakeroot && !draft.has_option(&["-u", "--userns"]) => {
            return Ok(());
        }
        _ => {}
    }
    let flag =
        match [Feature::Unsquash, Feature::TmpSandbox].map(|feature| draft.features.has(feature)) {
            [true, _] => "--unsquash",
            [_, true] => "--tmp-sandbox",
            _ => return Ok(()),
        };
    let why = match (node.squashfuse, node.fuse_device) {
        _ if draft.around.is_sandbox || draft.has_option(&[flag]) => return Ok(()),
        (true, true) => return Ok(()),
        (false, _) => "no squashfuse program is found here, which mounts a SIF",
        (true, false) => "this user may not open /dev/fuse here, by which a SIF is mounted",
    };
    draft.flag(
        flag,
        format!("{why}: it is unpacked into the temporary directory first, which takes its time"),
    );
    Ok(())
}
