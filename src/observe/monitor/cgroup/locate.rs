//! Where the cgroup of a process's job is, by the kernel's word.

use std::io;
use std::path::{Path, PathBuf};

use super::files::new_buffer;
use super::members::list_processes;
use super::mounts::{Mount, read_mounts};
use super::path::{CgroupDirectories, JobCgroup, read_path};
use crate::foundation::diagnostic::chain_text;
use crate::foundation::filesystem::text_within;

/// More than the kernel ever writes: one line a hierarchy.
const CGROUP_BYTES_MAX: u64 = 256 * 1024;
/// Thousands of mounts.
const MOUNTS_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Hierarchies of v1 in which the processes of a job are looked for, best first: Slurm keeps those of a step in
/// `freezer`, and every build of the others has one of these.
const PROCESSES_IN: [&str; 7] = [
    "freezer", "memory", "cpuacct", "cpu", "devices", "cpuset", "pids",
];

impl JobCgroup {
    /// The processes in it now, Slurm's own left out; `None` once the directory is gone.
    #[must_use]
    pub fn process_ids(&self) -> Option<Vec<u32>> {
        let mut pids = Vec::new();
        let listed = list_processes(
            self.directories.processes.as_ref()?,
            &mut new_buffer(),
            &mut pids,
        );
        listed.is_ok().then_some(pids)
    }
}

/// Why it is not known where a process stands.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// A file of `/proc` cannot be read: the process is gone, hidden, or the kernel has no cgroups.
    #[error("cannot read `{}`", .0.display())]
    Read(PathBuf, #[source] io::Error),
}

/// Finds the cgroup of the job or container in which a process runs. `None`: it runs in none, but in the root, a login
/// session or a service.
///
/// # Errors
/// [`LocateError::Read`] where `/proc` does not tell.
pub fn locate(pid: u32) -> Result<Option<JobCgroup>, LocateError> {
    locate_in(Path::new("/proc"), pid)
}

/// The cgroup of a run that a process watches. `is_local`: a job of this machine; within a scheduler's job it is one of several, and the
/// cgroup has the figures of all. A layout that nobody has seen yet costs the cgroup's figures, not the run's.
#[must_use]
pub fn locate_run(pid: u32, is_local: bool) -> Option<JobCgroup> {
    let found = locate(pid).unwrap_or_else(|error| {
        tracing::warn!(pid, error = %chain_text(&error), "no cgroup is found");
        None
    });
    found.filter(|cgroup| !(is_local && cgroup.scheduler.is_some()))
}

/// The same in a directory that looks like `/proc`; `self/mountinfo` in it says where the hierarchies are.
///
/// # Errors
/// As [`locate`].
pub fn locate_in(proc: &Path, pid: u32) -> Result<Option<JobCgroup>, LocateError> {
    let cgroups = read_text(proc.join(pid.to_string()).join("cgroup"), CGROUP_BYTES_MAX)?;
    let mounts = read_text(proc.join("self/mountinfo"), MOUNTS_BYTES_MAX)?;
    Ok(find(&cgroups, &mounts, Path::is_dir))
}

/// The cgroups of a process: controllers (none for v2) and path, one a hierarchy.
pub(super) fn paths_of(proc: &Path, pid: u32) -> Result<Vec<(String, String)>, LocateError> {
    let text = read_text(proc.join(pid.to_string()).join("cgroup"), CGROUP_BYTES_MAX)?;
    let paths = text.lines().filter_map(controllers_and_path);
    let owned = |(controllers, path): (&str, &str)| (controllers.to_owned(), path.to_owned());
    Ok(paths.map(owned).collect())
}

/// The mounts of hierarchies that a directory like `/proc` tells.
pub(super) fn mounts_in(proc: &Path) -> Result<Vec<Mount>, LocateError> {
    Ok(read_mounts(&read_text(
        proc.join("self/mountinfo"),
        MOUNTS_BYTES_MAX,
    )?))
}

fn read_text(path: PathBuf, limit: u64) -> Result<String, LocateError> {
    text_within(&path, limit).map_err(|source| LocateError::Read(path, source))
}

/// One line of `/proc/PID/cgroup`: controllers (none for v2), the path of the process, and what it says.
struct Line<'a> {
    controllers: &'a str,
    path: &'a str,
    place: JobCgroup,
}

/// Controllers and path of `4:memory:/path`.
fn controllers_and_path(line: &str) -> Option<(&str, &str)> {
    line.split_once(':')?.1.split_once(':')
}

/// What lies in no job is left out, and so is a directory that was removed.
fn read_line(line: &str) -> Option<Line<'_>> {
    let (controllers, path) = controllers_and_path(line)?;
    let place = Some(path).filter(|path| !path.ends_with(" (deleted)"));
    Some(Line {
        controllers,
        path,
        place: read_path(place?)?,
    })
}

/// Puts both texts together; `exists` tells whether a directory is there.
fn find(cgroups: &str, mounts: &str, exists: impl Fn(&Path) -> bool) -> Option<JobCgroup> {
    let mut lines: Vec<_> = cgroups.lines().filter_map(read_line).collect();
    // Not all hierarchies go down to the task.
    let depth = |line: &&Line<'_>| line.path.matches('/').count();
    let deepest = |line: &&Line<'_>| (line.place.scheduler.is_some(), depth(line));
    let job = lines.iter().max_by_key(deepest)?.place.clone();
    lines.retain(|line| line.place.is_same_job(&job));
    let mounts = read_mounts(mounts);
    let directory = |controller: Option<&str>| {
        let is_it = |line: &&Line<'_>| match controller {
            Some(name) => line.controllers.split(',').any(|one| one == name),
            None => line.controllers.is_empty(),
        };
        let line = lines.iter().find(is_it)?;
        let seen = mounts.iter().filter(|mount: &&Mount| mount.has(controller));
        seen.filter_map(|mount| mount.directory(&line.place.path, line.path))
            .find(|path| exists(path))
    };
    let unified = directory(None);
    let of_v1 = || PROCESSES_IN.iter().find_map(|name| directory(Some(name)));
    let processes = unified.clone().or_else(of_v1);
    let directories = CgroupDirectories {
        unified,
        cpu: directory(Some("cpu")),
        cpuacct: directory(Some("cpuacct")),
        memory: directory(Some("memory")),
        blkio: directory(Some("blkio")),
        processes,
    };
    Some(JobCgroup { directories, ..job })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::observe::monitor::cgroup::CgroupScheduler;

    /// The usual mounts of v1, and of v2 beside them.
    const HYBRID: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        33 31 0:30 / /c/cpu,cpuacct rw,relatime shared:3 - cgroup cgroup rw,cpu,cpuacct\n\
        34 31 0:31 / /c/cpuset rw,relatime - cgroup cgroup rw,cpuset\n\
        35 31 0:32 / /c/memory rw,relatime - cgroup cgroup rw,memory\n\
        36 31 0:33 / /c/devices rw,relatime - cgroup cgroup rw,devices\n\
        37 31 0:34 / /c/freezer rw,relatime - cgroup cgroup rw,freezer\n\
        38 31 0:35 / /c/blkio rw,relatime - cgroup cgroup rw,blkio\n\
        39 31 0:36 / /c/hugetlb rw,relatime - cgroup cgroup rw,hugetlb\n\
        41 31 0:38 / /c/unified rw,relatime - cgroup2 cgroup2 rw\n";

    fn fixture(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/cgroup")
            .join(name);
        std::fs::read_to_string(path).expect("a fixture")
    }

    fn found(name: &str) -> Option<JobCgroup> {
        find(&fixture(name), HYBRID, |_| true)
    }

    /// Scheduler, job id, SLUID and path of each fixture that is a job's.
    type Job = (
        CgroupScheduler,
        Option<&'static str>,
        Option<&'static str>,
        &'static str,
    );

    #[test]
    fn jobs_of_all_schedulers_are_found() {
        use CgroupScheduler::{OpenPbs, Slurm, Torque};
        let scope = "/system.slice/slurmstepd.scope";
        let jobs: [(&str, Job); 9] = [
            (
                "slurm-v2-step0",
                (Slurm, Some("1392969"), None, "SCOPE/job_1392969"),
            ),
            ("slurm-v2-batch", (Slurm, Some("17"), None, "SCOPE/job_17")),
            (
                "slurm-v2-batch-special",
                (
                    Slurm,
                    Some("20417"),
                    None,
                    "/system.slice/node17_slurmstepd.scope/job_20417",
                ),
            ),
            (
                "slurm-v2-sluid",
                (Slurm, None, Some("sEKNKTV3WPV500"), "SCOPE/sEKNKTV3WPV500"),
            ),
            (
                "slurm-v1-full",
                (
                    Slurm,
                    Some("62238108"),
                    None,
                    "/slurm/uid_961166/job_62238108",
                ),
            ),
            (
                "slurm-v1-interactive-one-line",
                (Slurm, Some("280678"), None, "/slurm/uid_2101171/job_280678"),
            ),
            (
                "torque-cpuset",
                (
                    Torque,
                    Some("2125569.somecluster-name.host.tld"),
                    None,
                    "/torque/2125569.somecluster-name.host.tld",
                ),
            ),
            (
                "openpbs-v1",
                (
                    OpenPbs,
                    Some("12345.pbs"),
                    None,
                    "/pbs_jobs.service/jobid/12345.pbs",
                ),
            ),
            (
                "openpbs-v2",
                (
                    OpenPbs,
                    Some("4242.pbsserver"),
                    None,
                    "/pbs_jobs.service/jobid/4242.pbsserver",
                ),
            ),
        ];
        for (name, (scheduler, job_id, sluid, path)) in jobs {
            let job = found(&format!("{name}.txt")).expect(name);
            assert_eq!(job.scheduler, Some(scheduler), "{name}");
            let texts = [&job.job_id, &job.sluid].map(Option::as_deref);
            assert_eq!(texts, [job_id, sluid], "{name}");
            assert_eq!(job.path, path.replace("SCOPE", scope), "{name}");
            assert_eq!(job.container_id, None, "{name}");
            assert!(job.directories.processes.is_some(), "{name}");
        }
    }

    #[test]
    fn containers_are_found_and_nobody_s_cgroups_are_not() {
        let container = |name: &str| {
            let job = found(name).expect(name);
            assert_eq!((job.scheduler, &job.job_id), (None, &None), "{name}");
            job.container_id.expect(name)
        };
        let docker = container("docker-v2.txt");
        assert!(docker.starts_with("8dde0b0d") && docker.len() == 64);
        // `hugetlb` alone is no hierarchy with totals or processes that are looked at.
        container("kubepods-v1.txt");
        container("kubepods-v2-systemd.txt");
        assert_eq!(
            (found("decoy-root.txt"), found("not-a-job-login.txt")),
            (None, None)
        );
    }

    #[test]
    fn each_controller_has_its_own_directory() {
        let job = found("slurm-v1-full.txt").expect("a job");
        let path = |name: &str| {
            Some(PathBuf::from(format!(
                "/c/{name}/slurm/uid_961166/job_62238108"
            )))
        };
        let expected = CgroupDirectories {
            // Slurm's services are in these two.
            unified: None,
            blkio: None,
            cpu: path("cpu,cpuacct"),
            cpuacct: path("cpu,cpuacct"),
            memory: path("memory"),
            processes: path("freezer"),
        };
        assert_eq!(job.directories, expected);
        assert_eq!(job.uid, Some(961_166));
        let text = serde_json::to_string(&job).expect("written");
        assert_eq!(serde_json::from_str::<JobCgroup>(&text).expect("read"), job);
    }

    #[test]
    fn directories_of_another_job_or_of_none_are_left_out() {
        let text =
            "5:memory:/slurm/uid_7/job_1/step_0\n4:cpuacct:/slurm/uid_7/job_2\n3:freezer:/\n0::/\n";
        let job = find(text, HYBRID, |_| true).expect("a job");
        assert_eq!(job.job_id.as_deref(), Some("1"));
        let CgroupDirectories {
            unified,
            cpuacct,
            memory,
            processes,
            ..
        } = job.directories;
        assert_eq!((unified, cpuacct), (None, None));
        assert_eq!(memory, processes);
        let nowhere = find(text, HYBRID, |_| false).expect("a job");
        assert_eq!(nowhere.directories, CgroupDirectories::default());
        assert_eq!(
            find("0::/torque/7.host (deleted)\n", HYBRID, |_| true),
            None
        );
    }

    #[test]
    fn this_process_is_asked_for_without_harm() {
        let nobody = locate(0).expect_err("no such process").to_string();
        assert!(nobody.contains("`/proc/0/cgroup`"), "{nobody}");
        locate(std::process::id()).expect("the kernel has cgroups");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn no_text_panics_and_no_path_leaves_its_mount(
            cgroups in "([0-9]{0,2}:(memory|cpu,cpuacct|)?:(/(slurm|uid_7|job_1|\\.\\.|slurmstepd\\.scope|torque|7|\\PC{0,9})){0,6}\n?){0,5}",
            mounts in "([0-9 ]{0,6}(/|/\\.\\.|/slurm|\\\\040|\\PC){0,4} (/c|\\PC{0,4}) rw - (cgroup|cgroup2) x (rw,memory|\\PC{0,5})\n){0,4}",
            junk in "\\PC{0,60}",
        ) {
            let usual = format!("{HYBRID}{mounts}");
            for (cgroups, mounts) in [(&cgroups, &usual), (&junk, &usual), (&cgroups, &junk)] {
                if let Some(job) = find(cgroups, mounts, |_| true) {
                    let CgroupDirectories { unified, cpu, cpuacct, memory, blkio, processes } = job.directories;
                    for path in [unified, cpu, cpuacct, memory, blkio, processes].into_iter().flatten() {
                        let is_up = path.components().any(|part| part == std::path::Component::ParentDir);
                        prop_assert!(path.is_absolute() && !is_up, "{}", path.display());
                    }
                }
            }
        }
    }
}
