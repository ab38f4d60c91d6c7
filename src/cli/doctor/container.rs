//! The container runtime, and whether users may have namespaces of their own, which it needs without setuid.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Finding;
use crate::command::{Tool, find};
use crate::diagnostic::chain;

const CHECK: &str = "container";
const NAMESPACES: &str = "namespaces";
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn look() -> Vec<Finding> {
    let Some(runtime) = find("apptainer", &[]).or_else(|| find("singularity", &[])) else {
        return vec![Finding::ok(
            CHECK,
            "neither apptainer nor singularity is in PATH; jobs with `[image]` need one on the nodes",
        )];
    };
    vec![version(&runtime), namespaces(Path::new("/proc"), &runtime)]
}

fn version(runtime: &Path) -> Finding {
    let said = Tool::new(runtime).arg("--version").timeout(PATIENCE).run();
    let name = runtime.file_name().unwrap_or_default().to_string_lossy();
    match said.and_then(|output| output.require_success(&name)) {
        Ok(output) => Finding::ok(CHECK, format!("{}, {}", output.stdout.trim(), runtime.display())),
        Err(error) => Finding::warning(
            CHECK,
            format!("{} does not work: {}", runtime.display(), chain(&error).join(": ")),
            "`[image] none = true` runs a job without a container",
        ),
    }
}

/// Whether the kernel lets users make user namespaces, by its switches; where it does not, a setuid starter does.
fn namespaces(proc: &Path, runtime: &Path) -> Finding {
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(proc.join("sys").join(name)).ok()?.trim().parse().ok()
    };
    let off = if number("user/max_user_namespaces") == Some(0) {
        Some("user.max_user_namespaces is 0")
    } else if number("kernel/unprivileged_userns_clone") == Some(0) {
        Some("kernel.unprivileged_userns_clone is 0")
    } else if number("kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
        Some("kernel.apparmor_restrict_unprivileged_userns is 1")
    } else {
        None
    };
    match off {
        None => Finding::ok(NAMESPACES, "users may make user namespaces"),
        Some(why) => match starter(runtime) {
            Some(starter) => {
                Finding::ok(NAMESPACES, format!("{why}; {} is setuid and does without", starter.display()))
            }
            None => Finding::warning(
                NAMESPACES,
                format!("users may not make user namespaces: {why}"),
                "containers need `sysctl` to allow them, or the setuid starter (package apptainer-suid)",
            ),
        },
    }
}

/// The setuid starter, beside which the runtime is installed.
fn starter(runtime: &Path) -> Option<PathBuf> {
    let prefix = runtime.canonicalize().ok()?.parent()?.parent()?.to_owned();
    let places = ["libexec/apptainer", "libexec/singularity", "lib/apptainer", "lib/singularity"];
    let starters = places.iter().map(|place| prefix.join(place).join("bin/starter-suid"));
    let is_setuid =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.uid() == 0 && found.mode() & 0o4000 != 0);
    starters.into_iter().find(is_setuid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::Level;

    #[test]
    fn each_switch_of_the_kernel_is_named() {
        let runtime = Path::new("/nonexistent/bin/apptainer");
        let with = |switch: Option<(&str, &str)>| {
            let proc = tempfile::tempdir().expect("a directory");
            if let Some((name, value)) = switch {
                let path = proc.path().join("sys").join(name);
                fs::create_dir_all(path.parent().expect("it has one")).expect("ours");
                fs::write(path, value).expect("ours");
            }
            namespaces(proc.path(), runtime)
        };
        assert_eq!(with(None).level, Level::Ok);
        assert_eq!(with(Some(("user/max_user_namespaces", "15000\n"))).level, Level::Ok);
        for (name, value) in [
            ("user/max_user_namespaces", "0\n"),
            ("kernel/unprivileged_userns_clone", "0\n"),
            ("kernel/apparmor_restrict_unprivileged_userns", "1\n"),
        ] {
            let found = with(Some((name, value)));
            assert!(
                found.level == Level::Warning && found.text.contains(&name.replace('/', ".")),
                "{found:?}"
            );
        }
    }
}
