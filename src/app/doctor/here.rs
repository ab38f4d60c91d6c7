//! This program here and on the nodes, Python, and the cgroups of this machine.

use std::path::Path;

use super::{Finding, Level};
use crate::app::error::Error;
use crate::foundation::diagnostic::chain;
use crate::foundation::filesystem::{FileSystem, Kind as FileSystemKind};
use crate::image::python;
use crate::observe::monitor::cgroup::{self, CgroupLayout};

pub(super) fn version() -> Finding {
    let place = std::env::current_exe()
        .map(|path| format!(", {}", path.display()))
        .unwrap_or_default();
    Finding::ok("dlrun", format!("{}{place}", env!("CARGO_PKG_VERSION")))
}

/// dlrun on the compute nodes, as far as it is known here.
pub(super) fn node_dlrun(named: Option<&Path>) -> Finding {
    const CHECK: &str = "node.dlrun";
    const ADVICE: &str = "install dlrun on the nodes and name it with the setting `node.dlrun`; without it jobs run and are not measured";
    if let Some(named) = named {
        let name = named.display();
        return match named.is_file() {
            true => Finding::ok(CHECK, format!("{name}, which is here too")),
            false => Finding::warning(
                CHECK,
                format!("{name} is not on this machine; whether it is on the nodes is not known"),
                "the first run shows it: `dlrun show` says where nothing was measured",
            ),
        };
    }
    let exe = std::env::current_exe().unwrap_or_default();
    let shown = exe.display();
    match FileSystem::at(&exe).map(|found| found.kind) {
        Ok(FileSystemKind::Local) if !is_installed(&exe) => Finding::warning(
            CHECK,
            format!("{shown} is on a disk of this machine, which the nodes may not see"),
            ADVICE,
        ),
        _ => Finding::ok(
            CHECK,
            format!("the nodes take {shown}, else `dlrun` of their PATH"),
        ),
    }
}

/// Where packages put programs, the same on all nodes.
fn is_installed(exe: &Path) -> bool {
    ["/usr", "/opt"]
        .iter()
        .any(|prefix| exe.starts_with(prefix))
}

/// The interpreter that environments are made with.
pub(super) fn python(asked: Option<&Path>) -> Finding {
    const CHECK: &str = "python";
    match python::interpreter(asked) {
        Ok((path, version)) => Finding::ok(CHECK, format!("{version}, {}", path.display())),
        // A job without `[python]` needs none, so it is a problem only where the site or the user named one.
        Err(error) if asked.is_some() => {
            Finding::failure(Level::Problem, CHECK, &Error::from(error))
        }
        Err(error) => Finding::failure(Level::Warning, CHECK, &Error::from(error)),
    }
}

/// How this machine has its cgroups, from which runs are measured.
pub(super) fn cgroups() -> Finding {
    const CHECK: &str = "cgroups";
    match cgroup::layout() {
        Ok(layout) => layout_finding(CHECK, &layout),
        Err(error) => Finding::warning(CHECK, chain(&error).join(": "), BY_PROCESS),
    }
}

const BY_PROCESS: &str =
    "runs are measured process by process, which misses those that end quickly";

fn layout_finding(check: &'static str, layout: &CgroupLayout) -> Finding {
    let v1 = (!layout.v1.is_empty()).then(|| format!("v1 ({})", layout.v1.join(", ")));
    let v2 = layout.v2.iter();
    let v2 = v2.map(|names| format!("v2 ({})", names.join(", ")));
    let found: Vec<String> = v1.into_iter().chain(v2).collect();
    match found.is_empty() {
        true => Finding::warning(check, "none are mounted", BY_PROCESS),
        false => Finding::ok(check, found.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_cgroups_is_told_with_its_controllers() {
        let layout = |v1: &[&str], v2: Option<&[&str]>| {
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            layout_finding(
                "cgroups",
                &CgroupLayout {
                    v1: names(v1),
                    v2: v2.map(names),
                },
            )
        };
        assert_eq!(
            layout(&[], Some(&["cpu", "memory"])).text,
            "v2 (cpu, memory)"
        );
        assert_eq!(layout(&["cpu"], None).text, "v1 (cpu)");
        assert_eq!(layout(&["cpu"], Some(&[])).text, "v1 (cpu) and v2 ()");
        assert_eq!(layout(&[], None).level, Level::Warning);
    }

    #[test]
    fn a_dlrun_that_the_nodes_may_not_see_is_a_warning() {
        assert_eq!(
            node_dlrun(Some(Path::new("/nonexistent/dlrun"))).level,
            Level::Warning
        );
        let exe = std::env::current_exe().expect("a path");
        assert_eq!(node_dlrun(Some(&exe)).level, Level::Ok);
        assert!(
            is_installed(Path::new("/usr/bin/dlrun")) && !is_installed(Path::new("/home/u/dlrun"))
        );
    }
}
