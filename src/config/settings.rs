//! The merged settings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::fragment::Fragment;
use super::keys::{Key, Kind, ON, SOCKET, Setting, Value, settings};
use super::origin::Origin;
use super::tables::Tables;
use super::values::Values;
use crate::job::{NodeCheck, SchedulerKind};

settings! {
    /// All settings of dlrun, in the order of the documentation.
    KEYS of Settings, 50 {
        /// records of runs; must be seen by the nodes ($XDG_STATE_HOME/dlrun)
        "state_dir": Kind::Path, None;
        /// who takes jobs that do not say
        "scheduler.kind": Kind::Word(&SchedulerKind::NAMES), Some("auto");
        /// how long what the scheduler says of queues and nodes is believed
        "scheduler.cache_minutes": Kind::Number(0, 10_080), Some("60") => site_cache: Duration = minutes;
        /// where sbatch, squeue and scancel lie, before PATH
        "slurm.bin_dir": Kind::Path, None;
        /// how long one Slurm command may take
        "slurm.timeout_seconds": Kind::Number(1, 600), Some("30");
        /// time between two updates of a job's comment by its watcher, at least 30; 0 turns it off
        "slurm.comment_seconds": Kind::Number(0, 86_400), Some("0") => comment_interval: Duration = seconds;
        /// where Torque's qsub, qstat and qdel lie, before PATH
        "torque.bin_dir": Kind::Path, None;
        /// how long one Torque command may take
        "torque.timeout_seconds": Kind::Number(1, 600), Some("30");
        /// where OpenPBS's qsub, qstat and qdel lie, before PATH
        "openpbs.bin_dir": Kind::Path, None;
        /// how long one OpenPBS command may take
        "openpbs.timeout_seconds": Kind::Number(1, 600), Some("30");
        /// longest time limit to which a running job's is raised, where its job file asks for it; 0: none is
        "limits.extend_up_to_hours": Kind::Number(0, 87_600), Some("0") => extend_up_to_hours: usize = count;
        /// queue of jobs that name none
        "defaults.queue": Kind::Text, None => default_queue: Option<&str> = text;
        /// account of jobs that name none
        "defaults.account": Kind::Text, None => default_account: Option<&str> = text;
        /// the Python that environments are made with (python3 of PATH)
        "python.interpreter": Kind::Path, None => python_interpreter: Option<&Path> = path;
        /// where environments are kept; must be seen by the nodes (STATE_DIR/python)
        "python.env_dir": Kind::Path, None => python_env_dir: PathBuf = set_path;
        /// a Python that has Optuna, for sweeps with such a sampler (one that dlrun creates)
        "optuna.python": Kind::Path, None => optuna_python: Option<&Path> = path;
        /// whether dlrun may create one, with pip
        "optuna.install": Kind::Word(&ON), Some("auto") => installs_optuna: bool = is_on;
        /// how long Optuna may take to propose a trial
        "optuna.timeout_seconds": Kind::Number(1, 86_400), Some("300") => optuna_timeout: Duration = seconds;
        /// where images are pulled and built to; must be seen by the nodes (STATE_DIR/images)
        "images.dir": Kind::Path, None;
        /// where builds unpack, several GB (TMPDIR, else /tmp)
        "images.build_dir": Kind::Path, None => build_dir: Option<&Path> = path;
        /// apptainer or singularity, here and on the nodes (the first of PATH)
        "images.runtime": Kind::Path, None => container_runtime: Option<&Path> = path;
        /// dlrun on the compute nodes (the one that submits)
        "node.dlrun": Kind::Path, None => node_dlrun: Option<&Path> = path;
        /// whether each node of a job that does not say is looked at before its command starts
        "node.check": Kind::Word(&NodeCheck::NAMES), Some("off");
        /// how long the trial of `framework.trial` may take at most; 0 forbids it
        "trial.minutes": Kind::Number(0, 1440), Some("10") => trial_minutes: usize = count;
        /// time between two samples
        "monitor.interval_ms": Kind::Number(100, 60_000), Some("1000") => monitor_interval: Duration = milliseconds;
        /// time between two writings of the node record
        "monitor.record_seconds": Kind::Number(1, 3600), Some("30") => record_interval: Duration = seconds;
        /// time between two looks at single processes
        "monitor.process_interval_ms": Kind::Number(100, 600_000), Some("5000") => process_interval: Duration = milliseconds;
        /// whether a node's dlrund measures where it runs
        "monitor.daemon": Kind::Word(&ON), Some("auto");
        /// where the nodes' dlrund listens
        "monitor.daemon_socket": Kind::Path, Some(SOCKET);
        /// the nodes' NVML (libnvidia-ml.so.1 of the linker)
        "monitor.nvml_library": Kind::Path, None => nvml_library: Option<&Path> = path;
        /// after how long unused GPUs or CPUs are reported
        "idle.advice_minutes": Kind::Number(1, 100_000), Some("10") => idle_advice_minutes: usize = count;
        /// after how long that is a warning
        "idle.warning_minutes": Kind::Number(1, 100_000), Some("60") => idle_warning_minutes: usize = count;
        /// after how long a run on one node is ended of which neither GPUs nor CPUs work (never)
        "idle.cancel_after_minutes": Kind::Number(1, 100_000), None => idle_cancel_after_minutes: Option<u64> = optional_number;
        /// time from TERM to KILL at the time limit and in cancel
        "local.kill_wait_seconds": Kind::Number(0, 3600), Some("30") => local_kill_wait: Duration = seconds;
        /// how long the nodes of a distributed training wait for the last of them
        "launch.wait_seconds": Kind::Number(10, 86_400), Some("300") => launch_wait: Duration = seconds;
        /// network interface at which the first node of a distributed training is found (that of its name)
        "launch.interface": Kind::Text, None => launch_interface: Option<&str> = text;
        /// lowest port of distributed trainings
        "launch.first_port": Kind::Number(1024, 65_000), Some("20000") => first_port: usize = count;
        /// highest port of distributed trainings, at least 127 above the lowest
        "launch.last_port": Kind::Number(1151, 65_535), Some("31999") => last_port: usize = count;
        /// whether runs may start again after one of their starts ended early
        "resume.use": Kind::Word(&ON), Some("auto") => allows_resume: bool = is_on;
        /// starts of one run at most
        "resume.attempts": Kind::Number(1, 1000), Some("1000") => most_attempts: usize = count;
        /// hours of nodes after which a run is not started again (no limit)
        "resume.node_hours": Kind::Number(1, 1_000_000_000), None => most_node_hours: Option<u64> = optional_number;
        /// whether the next start of a run keeps off nodes that an earlier one lost, where Slurm has enough others
        "resume.exclude_nodes": Kind::Word(&ON), Some("auto") => excludes_lost_nodes: bool = is_on;
        /// how long a local job waits for jobs of other users
        "local.others_wait_hours": Kind::Number(0, 8760), Some("168") => local_others_wait: Duration = hours;
        /// where local jobs say what they take of this host
        "local.lock_dir": Kind::Path, Some("/var/tmp") => local_lock_dir: PathBuf = set_path;
        /// where `export --since-last` writes its files without `--output-dir`
        "export.dir": Kind::Path, Some("/var/spool/dlrun") => export_dir: PathBuf = set_path;
        /// the site's performance model: used by who has none of their own, written by `model fit --publish`
        "model.path": Kind::Path, Some("/var/lib/dlrun-model/model") => site_model: PathBuf = set_path;
        /// the user, by name or id, who may write the site's performance model beside root
        "model.owner": Kind::Text, Some("dlrun-model") => model_owner: &str = set_text;
        /// whether plans go by a performance model where there is one
        "model.use": Kind::Word(&ON), Some("auto") => uses_model: bool = is_on;
        /// file of published effects that `model fit` begins with (those built into dlrun)
        "model.priors": Kind::Path, None => priors: Option<&Path> = path;
        /// how many of one's own models are kept beside the current one
        "model.keep": Kind::Number(1, 1000), Some("10") => models_kept: usize = count;
    }
}

/// All settings, merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    values: Values,
    state_dir: PathBuf,
    tables: Tables,
}

impl Settings {
    /// Lays `fragments` over the defaults; a later one wins. `state_dir` is the default of that setting, where the user's
    /// environment has one. `None`: nothing says where records go.
    #[must_use]
    pub fn merge(state_dir: Option<PathBuf>, fragments: &[Fragment]) -> Option<Self> {
        let mut values = Values::built_in(&KEYS);
        values.set("state_dir", state_dir.map(Value::Path), Origin::Default);
        values.lay_over(fragments.iter().flat_map(|fragment| &fragment.entries));
        let state_dir = values.path("state_dir")?.to_owned();
        if values.path("python.env_dir").is_none() {
            values.set(
                "python.env_dir",
                Some(Value::Path(state_dir.join("python"))),
                Origin::Default,
            );
        }
        let mut tables = Tables::default();
        for fragment in fragments {
            tables.lay_over(&fragment.tables, fragment.owner);
        }
        Some(Self {
            values,
            state_dir,
            tables,
        })
    }

    /// The site's tables: rules, storage, kinds of GPUs, house rules, queues.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Where the records of runs lie.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// The scheduler of jobs that name none.
    #[must_use]
    pub fn scheduler(&self) -> SchedulerKind {
        self.values
            .text("scheduler.kind")
            .and_then(SchedulerKind::from_word)
            .unwrap_or_default()
    }

    /// Whether nodes are looked at before a command starts, where the job file does not say.
    #[must_use]
    pub fn node_check(&self) -> NodeCheck {
        let word = self.values.text("node.check");
        word.and_then(NodeCheck::from_word).unwrap_or_default()
    }

    /// Where the commands of a scheduler lie, before `PATH`.
    #[must_use]
    pub fn bin_dir(&self, kind: SchedulerKind) -> Option<&Path> {
        self.values.path(&format!("{}.bin_dir", kind.as_str()))
    }

    /// How long one command of a scheduler may take; no time for one without commands.
    #[must_use]
    pub fn command_timeout(&self, kind: SchedulerKind) -> Duration {
        let key = format!("{}.timeout_seconds", kind.as_str());
        Key::named(&key).map_or(Duration::ZERO, |_| self.values.seconds(&key))
    }

    /// Where images are pulled and built to.
    #[must_use]
    pub fn image_dir(&self) -> PathBuf {
        self.values
            .path("images.dir")
            .map_or_else(|| self.own_image_dir(), Path::to_owned)
    }

    /// Where a user's own images go where `images.dir` is not theirs to write to.
    #[must_use]
    pub fn own_image_dir(&self) -> PathBuf {
        self.state_dir.join("images")
    }

    /// Where the nodes' daemon listens; `None`: it is not to be asked.
    #[must_use]
    pub fn daemon_socket(&self) -> Option<&Path> {
        let is_on = self.values.is_on("monitor.daemon");
        self.values.path("monitor.daemon_socket").filter(|_| is_on)
    }
}

impl Key {
    /// The key of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }
}

impl Fragment {
    /// Reads the text of a `dlrun.toml`; `path` is for the origins.
    #[must_use]
    pub fn from_toml(path: &Path, text: &str) -> Self {
        Self::read(&KEYS, false, path, text)
    }

    /// Takes the `DLRUN_SECTION__KEY` variables out of an environment. Others that begin with `DLRUN_` are left alone:
    /// dlrun itself sets some inside jobs.
    #[must_use]
    pub fn from_environment(variables: impl Fn(&str) -> Option<String>) -> Self {
        let mut fragment = Self::default();
        for key in &KEYS {
            let variable = key.variable();
            let Some(text) = variables(&variable) else {
                continue;
            };
            fragment.add(key, &text, Origin::Environment { variable });
        }
        fragment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> Option<PathBuf> {
        Some("/home/u/.local/state/dlrun".into())
    }

    #[test]
    fn every_default_can_be_read_and_used() {
        let settings = Settings::merge(defaults(), &[]).expect("defaults");
        assert_eq!(settings.monitor_interval(), Duration::from_secs(1));
        assert_eq!(settings.scheduler(), SchedulerKind::Auto);
        assert_eq!(
            settings.python_env_dir(),
            Path::new("/home/u/.local/state/dlrun/python")
        );
        assert_eq!(settings.local_kill_wait(), Duration::from_secs(30));
        let timeouts = [
            settings.command_timeout(SchedulerKind::Slurm),
            settings.command_timeout(SchedulerKind::Torque),
            settings.command_timeout(SchedulerKind::OpenPbs),
        ];
        assert_eq!(timeouts, [Duration::from_secs(30); 3]);
        assert_eq!(
            (
                settings.bin_dir(SchedulerKind::Torque),
                settings.bin_dir(SchedulerKind::OpenPbs)
            ),
            (None, None)
        );
        assert_eq!(settings.record_interval(), Duration::from_secs(30));
        assert_eq!(settings.process_interval(), Duration::from_secs(5));
        assert_eq!(
            settings.daemon_socket(),
            Some(Path::new("/run/dlrun/dlrund.sock"))
        );
        assert_eq!(settings.nvml_library(), None);
        assert_eq!(settings.site_cache(), Duration::from_secs(3600));
    }

    #[test]
    fn a_daemon_that_is_off_has_no_socket() {
        let text = "[monitor]\ndaemon = \"off\"\ndaemon_socket = \"/run/other.sock\"\n";
        let fragment = Fragment::from_toml(Path::new("/c.toml"), text);
        let settings = Settings::merge(defaults(), &[fragment]).expect("settings");
        assert_eq!(settings.daemon_socket(), None);
    }

    #[test]
    fn later_layers_win_and_keep_their_origin() {
        let site = Fragment::from_toml(
            Path::new("/etc/dlrun/dlrun.toml"),
            "[slurm]\nbin_dir = \"/opt/slurm/bin\"\ntimeout_seconds = 5\n",
        );
        let environment = Fragment::from_environment(|name| {
            (name == "DLRUN_SLURM__TIMEOUT_SECONDS").then(|| "7".to_owned())
        });
        let settings = Settings::merge(defaults(), &[site, environment]).expect("settings");
        assert_eq!(
            settings.command_timeout(SchedulerKind::Slurm),
            Duration::from_secs(7)
        );
        assert_eq!(
            settings.origin("slurm.timeout_seconds").to_string(),
            "$DLRUN_SLURM__TIMEOUT_SECONDS"
        );
        assert_eq!(
            settings.origin("slurm.bin_dir").to_string(),
            "/etc/dlrun/dlrun.toml:2"
        );
    }

    #[test]
    fn bad_values_are_errors_and_unknown_keys_are_named() {
        let text = "state_dir = \"relative\"\n[slurm]\ntimeout_second = 5\ntimeout_seconds = 0\n[later]\nx = 1\n";
        let fragment = Fragment::from_toml(Path::new("/c.toml"), text);
        assert_eq!(
            (
                fragment.entries.len(),
                fragment.errors.len(),
                fragment.unknown.len()
            ),
            (0, 2, 2)
        );
        let hint = fragment
            .unknown
            .iter()
            .find_map(|p| p.hint.clone().filter(|h| h.contains("timeout_seconds")));
        assert!(hint.is_some());
    }

    #[test]
    fn without_a_place_for_records_there_are_no_settings() {
        assert_eq!(Settings::merge(None, &[]), None);
    }
}
