//! How a machine has its cgroups: which hierarchies are mounted, and which controllers each has.

use std::path::Path;

use super::locate::{LocateError, mounts_in};

/// The hierarchies of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CgroupLayout {
    /// Controllers that v1 has, sorted.
    pub v1: Vec<String>,
    /// Controllers that v2 has; `None`: v2 is not mounted, or does not say.
    pub v2: Option<Vec<String>>,
}

/// Looks at the hierarchies that this process sees.
///
/// # Errors
/// [`LocateError::Read`] where `/proc` does not tell.
pub fn layout() -> Result<CgroupLayout, LocateError> {
    layout_in(Path::new("/proc"))
}

/// The same in a directory that looks like `/proc`.
fn layout_in(proc: &Path) -> Result<CgroupLayout, LocateError> {
    let mut layout = CgroupLayout::default();
    for mount in mounts_in(proc)? {
        if mount.has(None) {
            let listed = std::fs::read_to_string(mount.point().join("cgroup.controllers"));
            layout.v2 = listed
                .ok()
                .map(|text| text.split_whitespace().map(str::to_owned).collect());
        } else {
            // Mount options such as `rw` and names such as `name=systemd` are no controllers.
            let real = mount
                .controllers()
                .iter()
                .filter(|name| !name.contains('=') && !OPTIONS.contains(&name.as_str()));
            layout.v1.extend(real.cloned());
        }
    }
    layout.v1.sort();
    layout.v1.dedup();
    Ok(layout)
}

/// Options of a v1 mount that stand among its controllers (`cgroups(7)`).
const OPTIONS: [&str; 6] = [
    "rw",
    "ro",
    "xattr",
    "noprefix",
    "clone_children",
    "cpuset_v2_mode",
];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn of(mounts: &str, controllers: Option<&str>) -> CgroupLayout {
        let proc = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(proc.path().join("self")).expect("ours");
        fs::create_dir_all(proc.path().join("v2")).expect("ours");
        if let Some(controllers) = controllers {
            fs::write(proc.path().join("v2/cgroup.controllers"), controllers).expect("ours");
        }
        let point = proc.path().join("v2");
        let mounts = mounts.replace("V2", point.to_str().expect("text"));
        fs::write(proc.path().join("self/mountinfo"), mounts).expect("ours");
        layout_in(proc.path()).expect("it is there")
    }

    const V1: &str = "32 31 0:29 / /c/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      33 31 0:30 / /c/systemd rw - cgroup cgroup rw,xattr,name=systemd\n";
    const V2: &str = "34 31 0:31 / V2 rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn layouts_are_told_apart() {
        let hybrid = of(&format!("{V1}{V2}"), Some("\n"));
        assert_eq!(
            (hybrid.v1.join(","), hybrid.v2),
            ("cpu,cpuacct".into(), Some(Vec::new()))
        );
        let v2 = of(V2, Some("cpu memory\n"));
        assert_eq!((v2.v1.len(), v2.v2.map(|names| names.len())), (0, Some(2)));
        assert_eq!((of(V1, None).v1.len(), of(V1, None).v2), (2, None));
        assert_eq!(of("", None), CgroupLayout::default());
    }
}
