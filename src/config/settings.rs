//! The merged settings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::fragment::{Fragment, Origin};
use super::keys::{KEYS, Value};
use super::tables::Tables;
use super::values::{Setting, Values};
use crate::job::SchedulerKind;

/// Settings that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Neither a setting nor the environment says where records go.
    #[error("no place for records: neither `state_dir`, `XDG_STATE_HOME` nor `HOME` is set")]
    NoStateDir,
}

/// Defaults that come from the user's environment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Defaults {
    /// `$XDG_STATE_HOME/dlrun`, or `$HOME/.local/state/dlrun`.
    pub state_dir: Option<PathBuf>,
}

/// All settings, merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    values: Values,
    state_dir: PathBuf,
    tables: Tables,
}

impl Settings {
    /// Lays `fragments` over the defaults; a later one wins.
    ///
    /// # Errors
    /// [`ConfigError::NoStateDir`] when there is no place for records.
    pub fn merge(defaults: &Defaults, fragments: &[Fragment]) -> Result<Self, ConfigError> {
        let mut values = Values::built_in(&KEYS);
        let state_default = defaults.state_dir.clone().map(Value::Path);
        values.set("state_dir", state_default, Origin::Default);
        values.lay_over(fragments);
        let Some(state_dir) = values.path("state_dir").map(Path::to_owned) else {
            return Err(ConfigError::NoStateDir);
        };
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
        Ok(Self {
            values,
            state_dir,
            tables,
        })
    }

    /// Every setting, in the order of [`KEYS`].
    #[must_use]
    pub fn all(&self) -> &[Setting] {
        self.values.all()
    }

    /// Where a value comes from.
    #[must_use]
    pub fn origin(&self, name: &str) -> &Origin {
        self.values.origin(name)
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

    /// Directory of Slurm's commands.
    #[must_use]
    pub fn slurm_bin_dir(&self) -> Option<&Path> {
        self.values.path("slurm.bin_dir")
    }

    /// How long one Slurm command may take.
    #[must_use]
    pub fn slurm_timeout(&self) -> Duration {
        Duration::from_secs(self.values.number("slurm.timeout_seconds"))
    }

    /// How long what the scheduler said of the site is believed; zero: it is asked every time.
    #[must_use]
    pub fn site_cache(&self) -> Duration {
        Duration::from_secs(60 * self.values.number("scheduler.cache_minutes"))
    }

    /// Directory of Torque's commands.
    #[must_use]
    pub fn torque_bin_dir(&self) -> Option<&Path> {
        self.values.path("torque.bin_dir")
    }

    /// How long one Torque command may take.
    #[must_use]
    pub fn torque_timeout(&self) -> Duration {
        Duration::from_secs(self.values.number("torque.timeout_seconds"))
    }

    /// Directory of OpenPBS's commands.
    #[must_use]
    pub fn openpbs_bin_dir(&self) -> Option<&Path> {
        self.values.path("openpbs.bin_dir")
    }

    /// How long one OpenPBS command may take.
    #[must_use]
    pub fn openpbs_timeout(&self) -> Duration {
        Duration::from_secs(self.values.number("openpbs.timeout_seconds"))
    }

    /// Queue of jobs that name none.
    #[must_use]
    pub fn default_queue(&self) -> Option<&str> {
        self.values.text("defaults.queue")
    }

    /// Account of jobs that name none.
    #[must_use]
    pub fn default_account(&self) -> Option<&str> {
        self.values.text("defaults.account")
    }

    /// The Python that environments are made with.
    #[must_use]
    pub fn python_interpreter(&self) -> Option<&Path> {
        self.values.path("python.interpreter")
    }

    /// Where Python environments are kept.
    #[must_use]
    pub fn python_env_dir(&self) -> PathBuf {
        self.values
            .path("python.env_dir")
            .map_or_else(|| self.state_dir.join("python"), Path::to_owned)
    }

    /// Where images are pulled and built to.
    #[must_use]
    pub fn image_dir(&self) -> PathBuf {
        self.values
            .path("images.dir")
            .map_or_else(|| self.state_dir.join("images"), Path::to_owned)
    }

    /// Where a user's own images go where `images.dir` is not theirs to write to.
    #[must_use]
    pub fn own_image_dir(&self) -> PathBuf {
        self.state_dir.join("images")
    }

    /// Where builds unpack, where that is said.
    #[must_use]
    pub fn build_dir(&self) -> Option<&Path> {
        self.values.path("images.build_dir")
    }

    /// The container runtime, where it is not to be looked for.
    #[must_use]
    pub fn container_runtime(&self) -> Option<&Path> {
        self.values.path("images.runtime")
    }

    /// dlrun on the compute nodes, where it is not the one that submits.
    #[must_use]
    pub fn node_dlrun(&self) -> Option<&Path> {
        self.values.path("node.dlrun")
    }

    /// Time between two samples.
    #[must_use]
    pub fn monitor_interval(&self) -> Duration {
        Duration::from_millis(self.values.number("monitor.interval_ms"))
    }

    /// Time between two writings of the node record.
    #[must_use]
    pub fn record_interval(&self) -> Duration {
        Duration::from_secs(self.values.number("monitor.record_seconds"))
    }

    /// Time between two looks at single processes.
    #[must_use]
    pub fn process_interval(&self) -> Duration {
        Duration::from_millis(self.values.number("monitor.process_interval_ms"))
    }

    /// Where the nodes' daemon listens; `None`: it is not to be asked.
    #[must_use]
    pub fn daemon_socket(&self) -> Option<&Path> {
        let off = self.values.text("monitor.daemon") == Some("off");
        self.values.path("monitor.daemon_socket").filter(|_| !off)
    }

    /// NVML on the nodes, where the linker is not to find it.
    #[must_use]
    pub fn nvml_library(&self) -> Option<&Path> {
        self.values.path("monitor.nvml_library")
    }

    /// Time from TERM to KILL for local jobs.
    #[must_use]
    pub fn local_kill_wait(&self) -> Duration {
        Duration::from_secs(self.values.number("local.kill_wait_seconds"))
    }

    /// How long a local job waits for jobs of other users.
    #[must_use]
    pub fn local_others_wait(&self) -> Duration {
        Duration::from_secs(3600 * self.values.number("local.others_wait_hours"))
    }

    /// Where local jobs of all users say what they take of this machine.
    #[must_use]
    pub fn local_lock_dir(&self) -> PathBuf {
        self.values
            .path("local.lock_dir")
            .map_or_else(|| PathBuf::from("/var/tmp"), Path::to_owned)
    }

    /// Where `dlrun export --since-last` writes its files.
    #[must_use]
    pub fn export_dir(&self) -> PathBuf {
        self.values
            .path("export.dir")
            .map_or_else(|| PathBuf::from("/var/spool/dlrun"), Path::to_owned)
    }

    /// The site's performance model.
    #[must_use]
    pub fn site_model(&self) -> PathBuf {
        let site = self.values.path("model.path");
        site.map_or_else(
            || PathBuf::from("/var/lib/dlrun-model/model"),
            Path::to_owned,
        )
    }

    /// The user, by name or id, who may write the site's performance model beside root.
    #[must_use]
    pub fn model_owner(&self) -> &str {
        self.values.text("model.owner").unwrap_or("dlrun-model")
    }

    /// Whether plans go by a performance model.
    #[must_use]
    pub fn uses_model(&self) -> bool {
        self.values.text("model.use") != Some("off")
    }

    /// The file of published effects, where it is not the built-in one.
    #[must_use]
    pub fn priors(&self) -> Option<&Path> {
        self.values.path("model.priors")
    }

    /// How many of the user's models are kept beside the current one.
    #[must_use]
    pub fn models_kept(&self) -> usize {
        usize::try_from(self.values.number("model.keep")).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> Defaults {
        Defaults {
            state_dir: Some("/home/u/.local/state/dlrun".into()),
        }
    }

    #[test]
    fn every_default_can_be_read_and_used() {
        let settings = Settings::merge(&defaults(), &[]).expect("defaults");
        assert_eq!(settings.monitor_interval(), Duration::from_secs(1));
        assert_eq!(settings.scheduler(), SchedulerKind::Auto);
        assert_eq!(
            settings.python_env_dir(),
            Path::new("/home/u/.local/state/dlrun/python")
        );
        assert_eq!(settings.local_kill_wait(), Duration::from_secs(30));
        let timeouts = [
            settings.slurm_timeout(),
            settings.torque_timeout(),
            settings.openpbs_timeout(),
        ];
        assert_eq!(timeouts, [Duration::from_secs(30); 3]);
        assert_eq!(
            (settings.torque_bin_dir(), settings.openpbs_bin_dir()),
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
        let settings = Settings::merge(&defaults(), &[fragment]).expect("settings");
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
        let settings = Settings::merge(&defaults(), &[site, environment]).expect("settings");
        assert_eq!(settings.slurm_timeout(), Duration::from_secs(7));
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
        assert_eq!(
            Settings::merge(&Defaults::default(), &[]),
            Err(ConfigError::NoStateDir)
        );
    }
}
