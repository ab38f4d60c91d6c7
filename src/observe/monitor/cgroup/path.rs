//! What a path of a cgroup says: whose job it is, and which of its directories is the job's.
//!
//! | who | path, `J` is the job's directory |
//! |---|---|
//! | Slurm, v2 | `SLICE/[NODE_]slurmstepd.scope/J/step_S/{slurm,user/task_T}`; `J` is `job_N` or, from 26.05 on, an SLUID |
//! | Slurm, v1 | `slurm[_NODE]/uid_U/J/step_S/task_T` |
//! | Torque | `torque/J[/R0.t1]` |
//! | OpenPBS | `pbs_jobs.service/jobid/J`, on v2 `pbs_jobs.service/jobs/J` |
//! | containers | `docker/J`, `docker-J.scope`, `libpod-J.scope`, `kubepods…/…/J`, `cri-containerd-J.scope`, `apptainer-PID.scope` and the like |
//!
//! Anything else is nobody's: the root, login sessions, services. Below `user.slice` users name directories as they
//! like, so no scheduler is believed there.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Longer than any path that the kernel shows (`PATH_MAX`).
const PATH_BYTES_MAX: usize = 4096;
const COMPONENTS_MAX: usize = 64;
/// Hexadecimal digits of a container's id.
const CONTAINER_ID_DIGITS: usize = 64;
/// An SLUID: `s` and 13 characters of base 32.
const SLUID_LENGTH: usize = 14;

/// Who made a job's cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupScheduler {
    /// Slurm.
    Slurm,
    /// Torque.
    Torque,
    /// OpenPBS and PBS Pro.
    OpenPbs,
}

impl CgroupScheduler {
    /// Its name in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::Torque => "torque",
            Self::OpenPbs => "openpbs",
        }
    }
}

/// Directories of a job, one a hierarchy. `None`: the hierarchy is not mounted, or holds the job elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CgroupDirectories {
    /// v2.
    pub unified: Option<PathBuf>,
    /// v1 `cpu`.
    pub cpu: Option<PathBuf>,
    /// v1 `cpuacct`.
    pub cpuacct: Option<PathBuf>,
    /// v1 `memory`.
    pub memory: Option<PathBuf>,
    /// v1 `blkio`.
    pub blkio: Option<PathBuf>,
    /// Where the job's processes are listed.
    pub processes: Option<PathBuf>,
}

/// The cgroup of a job or of a container, as far as its path says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobCgroup {
    /// Who made it; `None`: a container without a scheduler.
    pub scheduler: Option<CgroupScheduler>,
    /// The job's id as it stands in the path. Slurm 26.05 and later write the SLUID in its place.
    pub job_id: Option<String>,
    /// Slurm's own id of the job.
    pub sluid: Option<String>,
    /// The user in the path, where there is one (Slurm, v1).
    pub uid: Option<u32>,
    /// The id of the container in which it runs, inside the job: 64 hexadecimal digits; of Apptainer the pid that made it.
    #[serde(default)]
    pub container_id: Option<String>,
    /// The job's directory from the root of its hierarchy, for the record.
    pub path: String,
    /// The same on this machine, hierarchy by hierarchy.
    pub directories: CgroupDirectories,
}

impl JobCgroup {
    /// True where both are directories of one job, or of one container.
    pub(super) fn is_same_job(&self, other: &Self) -> bool {
        let name = |place: &Self| place.path.rsplit('/').next().map(str::to_owned);
        self.scheduler == other.scheduler
            && match self.scheduler {
                Some(_) => name(self) == name(other),
                None => self.container_id == other.container_id,
            }
    }
}

/// The components of a path as the kernel writes it; `None` for one that is odd.
pub(super) fn components(path: &str) -> Option<Vec<&str>> {
    let rest = path
        .strip_prefix('/')
        .filter(|_| path.len() <= PATH_BYTES_MAX && !path.contains('\0'))?;
    if rest.is_empty() {
        return Some(Vec::new());
    }
    let components: Vec<&str> = rest.split('/').collect();
    let is_odd = |component: &&str| matches!(*component, "" | "." | "..");
    (components.len() <= COMPONENTS_MAX && !components.iter().any(is_odd)).then_some(components)
}

/// Finds the job in a path. `None`: it is no job's.
pub(super) fn read_path(path: &str) -> Option<JobCgroup> {
    let components = components(path)?;
    let delegated = components
        .iter()
        .position(|component| *component == "user.slice");
    let trusted = components.get(..delegated.unwrap_or(components.len()))?;
    let found = (0..trusted.len()).find_map(|at| scheduler_at(trusted, at));
    let inner = found.as_ref().map_or(0, |(_, job_at)| job_at + 1);
    let container = container_in(&components, inner);
    let (mut place, job_at) = match (found, &container) {
        (Some(found), _) => found,
        (None, container) => (JobCgroup::default(), container.as_ref()?.1),
    };
    place.container_id = container.map(|(id, _)| id);
    place.path = format!("/{}", components.get(..=job_at)?.join("/"));
    Some(place)
}

/// A scheduler's layout that begins at one component, and which component is the job's directory.
fn scheduler_at(components: &[&str], at: usize) -> Option<(JobCgroup, usize)> {
    let first = *components.get(at)?;
    let next = *components.get(at + 1)?;
    let pbs = |scheduler, name: &str, at| {
        let job = JobCgroup {
            scheduler: Some(scheduler),
            job_id: plain(name),
            ..JobCgroup::default()
        };
        Some((job, at))
    };
    // `7.server`, `7[3].server`; `7` where the server's name was cut off.
    let is_job = |name: &str| is_number(name.split(['.', '[']).next().unwrap_or_default());
    if first == "slurmstepd.scope" || first.ends_with("_slurmstepd.scope") {
        // `system` holds the process that keeps the scope.
        return slurm(components, at + 1, None).filter(|_| next != "system");
    }
    if first == "slurm" || first.starts_with("slurm_") {
        let uid = next.strip_prefix("uid_")?.parse().ok()?;
        return slurm(components, at + 2, Some(uid));
    }
    if first == "torque" && is_job(next) {
        return pbs(CgroupScheduler::Torque, next, at + 1);
    }
    if matches!(first, "pbs_jobs.service" | "pbspro.service") && matches!(next, "jobid" | "jobs") {
        let job = components.get(at + 2).filter(|name| is_job(name))?;
        return pbs(CgroupScheduler::OpenPbs, job, at + 2);
    }
    None
}

fn slurm(components: &[&str], job_at: usize, uid: Option<u32>) -> Option<(JobCgroup, usize)> {
    let name = *components.get(job_at)?;
    let is_sluid = name.len() == SLUID_LENGTH
        && name.starts_with('s')
        && name.bytes().all(|b| b.is_ascii_alphanumeric());
    let job = JobCgroup {
        scheduler: Some(CgroupScheduler::Slurm),
        job_id: name
            .strip_prefix("job_")
            .filter(|id| is_number(id))
            .map(str::to_owned),
        sluid: is_sluid.then(|| name.to_owned()),
        uid,
        ..JobCgroup::default()
    };
    Some((job, job_at))
}

/// Digits alone: `job_bad` is a directory that somebody made.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A name that may stand in records; `None` for one with odd characters.
fn plain(name: &str) -> Option<String> {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '[' | ']' | '+');
    (!name.is_empty() && name.chars().all(is_plain)).then(|| name.to_owned())
}

/// What the name of a container's directory begins with, or that of the directory around it. (`default` and `k8s.io` are name
/// spaces of containerd.) What watches a container (`libpod-conmon-...`) is none.
const CONTAINER_PREFIXES: [&str; 7] = [
    "docker",
    "libpod",
    "podman",
    "cri-containerd",
    "containerd",
    "nerdctl",
    "crio",
];
const CONTAINER_PARENTS: [&str; 6] = [
    "docker",
    "libpod",
    "libpod_parent",
    "containerd",
    "default",
    "k8s.io",
];

/// The id of the innermost container of a path from a component on, and the component that is its directory.
fn container_in(components: &[&str], from: usize) -> Option<(String, usize)> {
    (from..components.len())
        .rev()
        .find_map(|at| Some((container_id(components, from, at)?.to_owned(), at)))
}

fn container_id<'a>(components: &[&'a str], from: usize, at: usize) -> Option<&'a str> {
    let name = *components.get(at)?;
    let is_scope = name.ends_with(".scope");
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let around = components.get(from..at)?;
    let parent = around.last().copied().unwrap_or_default();
    // `apptainer-PID.scope` of systemd, `apptainer/PID` without it.
    let pid = match name.split_once('-') {
        Some(("apptainer" | "singularity", pid)) if is_scope => pid,
        _ if matches!(parent, "apptainer" | "singularity") => name,
        _ => "",
    };
    if is_number(pid) {
        return Some(pid);
    }
    let (before, id) = name.split_at_checked(name.len().checked_sub(CONTAINER_ID_DIGITS)?)?;
    let prefix = before.trim_end_matches(['-', ':']).rsplit(':').next()?;
    let is_container = if prefix.is_empty() {
        let is_of_kubernetes = |component: &&str| component.starts_with("kubepods");
        CONTAINER_PARENTS.contains(&parent) || around.iter().any(is_of_kubernetes)
    } else {
        CONTAINER_PREFIXES.contains(&prefix)
    };
    (is_container && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "8dde0b0d6e919baef8d635cd9399b22639ed1e400eaec1b1cb94ff3b216cf3c3";

    fn container(path: &str) -> Option<String> {
        let place = read_path(&path.replace("ID", ID))?;
        let id = place.container_id.filter(|_| place.scheduler.is_none())?;
        assert_eq!(id, ID);
        Some(place.path.replace(ID, "ID"))
    }

    #[test]
    fn containers_of_all_makes_are_known() {
        let known = [
            ("/docker/ID", "/docker/ID"),
            ("/docker/ID/user.slice", "/docker/ID"),
            (
                "/machine.slice/libpod-ID.scope/container",
                "/machine.slice/libpod-ID.scope",
            ),
            (
                "/user.slice/user-7.slice/libpod-ID.scope",
                "/user.slice/user-7.slice/libpod-ID.scope",
            ),
            ("/libpod_parent/libpod-ID", "/libpod_parent/libpod-ID"),
            (
                "/system.slice/nerdctl-ID.scope",
                "/system.slice/nerdctl-ID.scope",
            ),
            ("/default/ID", "/default/ID"),
            (
                "/kubepods/besteffort/podX/ID",
                "/kubepods/besteffort/podX/ID",
            ),
            ("/system.slice/kubepods-podX.slice:cri-containerd:ID", ""),
        ];
        for (path, job) in known {
            let job = if job.is_empty() { path } else { job };
            assert_eq!(container(path), Some(job.to_owned()), "{path}");
        }
        let own = "/user.slice/user-7.slice/user@7.service/user.slice/apptainer-4711.scope";
        for path in [own, "/apptainer/4711", "/singularity/4711"] {
            let place = read_path(path).expect("a container");
            assert_eq!(
                (place.container_id, place.path.as_str()),
                (Some("4711".into()), path)
            );
        }
        assert_eq!(read_path("/system.slice/apptainer-net.service"), None);
        let unknown = [
            "/machine.slice/libpod-conmon-ID.scope",
            "/process_api/ID",
            "/docker/abc",
            "/docker",
        ];
        assert!(unknown.iter().all(|path| container(path).is_none()));
    }

    #[test]
    fn no_scheduler_is_believed_where_users_name_directories() {
        let below = "/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_1/step_0/user/task_0";
        assert_eq!(read_path(below), None);
        assert_eq!(read_path("/user.slice/slurm/uid_0/job_1"), None);
        // Within a job the outermost directory counts.
        let inner = read_path("/slurm/uid_7/job_1/step_0/task_0/slurm/uid_7/job_2").expect("a job");
        assert_eq!(
            (inner.job_id.as_deref(), inner.path.as_str()),
            (Some("1"), "/slurm/uid_7/job_1")
        );
    }

    #[test]
    fn services_and_odd_paths_are_no_jobs() {
        let paths = [
            "",
            "/",
            "slurm/uid_1/job_1",
            "/slurm/uid_1/../job_1",
            "/slurm//uid_1/job_1",
            "/slurm/uid_x/job_1",
            "/slurm/uid_1",
            "/system.slice/slurmd.service",
            "/system.slice/slurmstepd.scope",
            "/system.slice/slurmstepd.scope/system",
            "/torque",
            "/torque/cpuset",
            "/pbs_jobs.service/jobid",
            "/pbs_jobs.service/jobs/7x",
            "/user.slice/user-1000.slice/session-3.scope",
        ];
        for path in paths {
            assert_eq!(read_path(path), None, "{path}");
        }
        let long = format!("/torque/1{}", "/a".repeat(5000));
        assert_eq!(read_path(&long), None);
    }

    #[test]
    fn jobs_of_pbs_are_known_by_their_number() {
        for (path, id, job) in [
            (
                "/pbs_jobs.service/jobs/4242",
                "4242",
                "/pbs_jobs.service/jobs/4242",
            ),
            (
                "/pbs_jobs.service/jobs/4242.srv/x",
                "4242.srv",
                "/pbs_jobs.service/jobs/4242.srv",
            ),
            ("/torque/7[3].host/R0.t1", "7[3].host", "/torque/7[3].host"),
        ] {
            let place = read_path(path).expect("a job");
            assert_eq!(
                (place.job_id.as_deref(), place.path.as_str()),
                (Some(id), job),
                "{path}"
            );
        }
        let odd = read_path("/slurm/uid_7/job_bad/step_0").expect("Slurm's");
        assert_eq!(odd.job_id, None);
    }

    #[test]
    fn container_within_a_job_belongs_to_the_job() {
        let path = format!("/slurm_n1/uid_7/job_12/step_0/task_3/docker/{ID}");
        let place = read_path(&path).expect("a job");
        assert_eq!(
            (place.path.as_str(), place.uid),
            ("/slurm_n1/uid_7/job_12", Some(7))
        );
        assert_eq!(place.container_id.as_deref(), Some(ID));
        // A node that is itself a container.
        let node = read_path(&format!("/docker/{ID}/torque/5.host")).expect("a job");
        assert_eq!(
            (node.job_id.as_deref(), node.container_id),
            (Some("5.host"), None)
        );
    }
}
