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
    match (named, std::env::current_exe()) {
        (Some(named), _) if named.is_file() => {
            Finding::ok(CHECK, format!("{}, which is here too", named.display()))
        }
        (Some(named), _) => Finding::warning(
            CHECK,
            format!(
                "{} is not on this machine; whether it is on the nodes is not known",
                named.display()
            ),
            "the first run shows it: `dlrun show` says where nothing was measured",
        ),
        (None, Ok(exe)) => match FileSystem::at(&exe).map(|found| found.kind) {
            Ok(FileSystemKind::Local) if !is_installed(&exe) => Finding::warning(
                CHECK,
                format!(
                    "{} is on a disk of this machine, which the nodes may not see",
                    exe.display()
                ),
                ADVICE,
            ),
            _ => Finding::ok(
                CHECK,
                format!(
                    "the nodes take {}, else `dlrun` of their PATH",
                    exe.display()
                ),
            ),
        },
        (None, Err(error)) => Finding::warning(CHECK, error.to_string(), ADVICE),
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
        Err(error) => {
            let level = if asked.is_some() {
                Level::Problem
            } else {
                Level::Warning
            };
            Finding::failure(level, CHECK, &Error::from(error))
        }
    }
}

/// How this machine has its cgroups, from which runs are measured.
pub(super) fn cgroups() -> Finding {
    const CHECK: &str = "cgroups";
    match cgroup::layout() {
        Ok(layout) => layout_finding(CHECK, &layout, Path::new("/run/systemd/system").is_dir()),
        Err(error) => Finding::warning(CHECK, chain(&error).join(": "), BY_PROCESS),
    }
}

const BY_PROCESS: &str =
    "runs are measured process by process, which misses those that end quickly";

fn layout_finding(check: &'static str, layout: &CgroupLayout, systemd: bool) -> Finding {
    let owner = if systemd {
        "systemd manages them"
    } else {
        "no systemd manages them"
    };
    let v1 = layout.v1.join(", ");
    let v2 = layout.v2.as_ref().map(|names| names.join(", "));
    let text = match (v1.is_empty(), v2.as_deref()) {
        (true, None) => return Finding::warning(check, "none are mounted", BY_PROCESS),
        (false, None) => format!("v1 ({v1}); {owner}"),
        (true, Some(v2)) => format!("v2 ({v2}); {owner}"),
        (false, Some("")) => format!("hybrid: v1 ({v1}), and v2 with no controllers; {owner}"),
        (false, Some(v2)) => format!("hybrid: v1 ({v1}), and v2 with {v2}; {owner}"),
    };
    Finding::ok(check, text)
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
                true,
            )
        };
        assert_eq!(
            layout(&[], Some(&["cpu", "memory"])).text,
            "v2 (cpu, memory); systemd manages them"
        );
        assert_eq!(
            layout(&["cpu"], None).text,
            "v1 (cpu); systemd manages them"
        );
        let hybrid = "hybrid: v1 (cpu), and v2 with no controllers; systemd manages them";
        assert_eq!(layout(&["cpu"], Some(&[])).text, hybrid);
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
