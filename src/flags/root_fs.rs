//! How the image becomes a root file system: mounted through FUSE, or unpacked first.

use super::Refusal;
use super::draft::Draft;
use super::features::Feature;

pub(super) fn add(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    let node = draft.node;
    if node.uid == 0 {
        return Ok(());
    }
    let setuid = node.namespaces.setuid_starter
        && !draft.container.fakeroot
        && !draft.has_option(&["--userns", "-u", "--fakeroot"]);
    if setuid {
        return Ok(());
    }
    if let Some(missing) = node.namespaces.missing.as_ref().filter(|_| !node.namespaces.setuid_starter) {
        let what = format!(
            "{} starts no container here: this user gets no user namespace ({missing}), and there is no setuid starter",
            draft.runtime()
        );
        let remedy = "ask for user namespaces (`sysctl user.max_user_namespaces=15000`), or for the package `apptainer-suid`";
        return Err(draft.unsupported(what, remedy));
    }
    if draft.around.is_sandbox || !draft.features.has(Feature::FuseMount) {
        return Ok(());
    }
    let why = match (node.squashfuse, node.fuse_device) {
        (true, true) => return Ok(()),
        (false, _) => "no squashfuse program is found here, by which a SIF is mounted",
        (true, false) => "this user may not open /dev/fuse here, by which a SIF is mounted",
    };
    let flag = if draft.features.has(Feature::Unsquash) { "--unsquash" } else { "--tmp-sandbox" };
    if !draft.has_option(&[flag]) {
        draft.flag(
            flag,
            format!("{why}; it is unpacked first, which takes time and space in the temporary directory"),
        );
    }
    Ok(())
}
