//! Whether a program runs in a container.

use std::fs;
use std::path::Path;

/// Processes that are looked at behind a runtime: starter, helper programs, their own init, the program.
const MOST: usize = 64;

/// Looks behind a container runtime for a program in another mount namespace: one that executes another file than the
/// runtime. Until a runtime starts the program, only its own starter is there; its helpers (squashfuse, newuidmap) are in
/// the runtime's namespace (Apptainer 1.4.5). `None` where the runtime's process is no more.
#[must_use]
pub fn runs_in_container(runtime: u32) -> Option<bool> {
    runs_in_container_in(Path::new("/proc"), runtime)
}

fn runs_in_container_in(proc: &Path, runtime: u32) -> Option<bool> {
    let of = |pid: u32, what: &str| fs::read_link(proc.join(pid.to_string()).join(what)).ok();
    let own = proc.join(runtime.to_string());
    if !own.exists() {
        return None;
    }
    // Of a setuid starter neither can be read.
    let ours = fs::read_link(proc.join("self/ns/mnt")).ok();
    let outside = [of(runtime, "ns/mnt"), ours];
    let starter = of(runtime, "exe");
    // Its part in C starts what matters, its threads in Go start helpers only.
    let mut waiting = children_of_thread(&own.join("task").join(runtime.to_string()));
    let mut seen = 0;
    while let Some(pid) = waiting.pop() {
        seen += 1;
        if seen > MOST {
            break;
        }
        let (namespace, file) = (of(pid, "ns/mnt"), of(pid, "exe"));
        let elsewhere = namespace.is_some() && !outside.contains(&namespace);
        let another = file.is_some_and(|file| match &starter {
            Some(starter) => file != *starter,
            None => !file
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("starter")),
        });
        if elsewhere && another {
            return Some(true);
        }
        // What is in another namespace and still the runtime may be its own init, which starts the program.
        if elsewhere {
            waiting.extend(children(proc, pid));
        }
    }
    Some(false)
}

/// The children of all threads.
fn children(proc: &Path, pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(proc.join(pid.to_string()).join("task"))
        .into_iter()
        .flatten()
        .flatten();
    threads
        .flat_map(|thread| children_of_thread(&thread.path()))
        .collect()
}

/// The children of a thread (`/proc/PID/task/TID/children`, `CONFIG_PROC_CHILDREN`).
pub(super) fn children_of_thread(thread: &Path) -> Vec<u32> {
    let list = fs::read_to_string(thread.join("children")).unwrap_or_default();
    list.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn process(proc: &Path, pid: &str, exe: &str, namespace: &str, children: &str) {
        let dir = proc.join(pid);
        fs::create_dir_all(dir.join("ns")).expect("ours");
        fs::create_dir_all(dir.join("task").join(pid)).expect("ours");
        for (link, target) in [("exe", exe), ("ns/mnt", namespace)] {
            if !target.is_empty() {
                symlink(target, dir.join(link)).expect("ours");
            }
        }
        fs::write(dir.join("task").join(pid).join("children"), children).expect("ours");
    }

    #[test]
    fn helpers_and_the_starter_are_not_the_program() {
        let tmp = tempfile::tempdir().expect("temp");
        let proc = tmp.path();
        let starter = "/usr/libexec/apptainer/bin/starter";
        assert_eq!(runs_in_container_in(proc, 10), None);
        process(proc, "self", "/usr/bin/dlrun", "mnt:[1]", "");
        process(proc, "10", starter, "mnt:[2]", "11 12 ");
        process(proc, "11", "/usr/bin/squashfuse_ll", "mnt:[2]", "");
        process(proc, "12", starter, "mnt:[3]", "");
        assert_eq!(runs_in_container_in(proc, 10), Some(false));
        // Its own init comes between.
        fs::write(proc.join("12/task/12/children"), "13 ").expect("ours");
        process(proc, "13", "/usr/bin/python3", "mnt:[3]", "");
        assert_eq!(runs_in_container_in(proc, 10), Some(true));
    }

    #[test]
    fn behind_a_setuid_starter_the_programs_own_namespace_tells() {
        let tmp = tempfile::tempdir().expect("temp");
        let proc = tmp.path();
        process(proc, "self", "/usr/bin/dlrun", "mnt:[1]", "");
        process(proc, "10", "", "", "11 ");
        process(proc, "11", "", "", "");
        assert_eq!(runs_in_container_in(proc, 10), Some(false));
        process(proc, "12", "/usr/bin/python3", "mnt:[3]", "");
        fs::write(proc.join("10/task/10/children"), "11 12 ").expect("ours");
        assert_eq!(runs_in_container_in(proc, 10), Some(true));
    }
}
