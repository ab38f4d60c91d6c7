//! The merged settings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::fragment::{Fragment, Origin};
use super::keys::{KEYS, Key, Value};
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

/// One setting with its value and origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Which one.
    pub key: &'static Key,
    /// Its value; `None`: not set.
    pub value: Option<Value>,
    /// Where the value comes from.
    pub origin: Origin,
}

/// All settings, merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    values: Vec<Setting>,
    state_dir: PathBuf,
}

impl Settings {
    /// Lays `fragments` over the defaults; a later one wins.
    ///
    /// # Errors
    /// [`ConfigError::NoStateDir`] when there is no place for records.
    pub fn merge(defaults: &Defaults, fragments: &[Fragment]) -> Result<Self, ConfigError> {
        let mut values: Vec<Setting> = KEYS.iter().map(built_in).collect();
        let state_default = defaults.state_dir.clone().map(Value::Path);
        set(&mut values, "state_dir", state_default, Origin::Default);
        for entry in fragments.iter().flat_map(|fragment| &fragment.entries) {
            set(&mut values, entry.key.name, Some(entry.value.clone()), entry.origin.clone());
        }
        let Some(Value::Path(state_dir)) = value_of(&values, "state_dir").cloned() else {
            return Err(ConfigError::NoStateDir);
        };
        if value_of(&values, "python.env_dir").is_none() {
            set(&mut values, "python.env_dir", Some(Value::Path(state_dir.join("python"))), Origin::Default);
        }
        Ok(Self { values, state_dir })
    }

    /// Every setting, in the order of [`KEYS`].
    #[must_use]
    pub fn all(&self) -> &[Setting] {
        &self.values
    }

    /// Where a value comes from.
    #[must_use]
    pub fn origin(&self, name: &str) -> &Origin {
        self.values.iter().find(|s| s.key.name == name).map_or(&Origin::Default, |setting| &setting.origin)
    }

    fn path(&self, name: &str) -> Option<&Path> {
        match value_of(&self.values, name) {
            Some(Value::Path(path)) => Some(path),
            _ => None,
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        match value_of(&self.values, name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn number(&self, name: &str) -> u64 {
        match value_of(&self.values, name) {
            Some(Value::Number(number)) => *number,
            _ => unreachable!("every number has a default, which a test reads"),
        }
    }

    /// Where the records of runs lie.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// The scheduler of jobs that name none.
    #[must_use]
    pub fn scheduler(&self) -> SchedulerKind {
        self.text("scheduler.kind").and_then(SchedulerKind::from_word).unwrap_or_default()
    }

    /// Directory of Slurm's commands.
    #[must_use]
    pub fn slurm_bin_dir(&self) -> Option<&Path> {
        self.path("slurm.bin_dir")
    }

    /// How long one Slurm command may take.
    #[must_use]
    pub fn slurm_timeout(&self) -> Duration {
        Duration::from_secs(self.number("slurm.timeout_seconds"))
    }

    /// Queue of jobs that name none.
    #[must_use]
    pub fn default_queue(&self) -> Option<&str> {
        self.text("defaults.queue")
    }

    /// Account of jobs that name none.
    #[must_use]
    pub fn default_account(&self) -> Option<&str> {
        self.text("defaults.account")
    }

    /// The Python that environments are made with.
    #[must_use]
    pub fn python_interpreter(&self) -> Option<&Path> {
        self.path("python.interpreter")
    }

    /// Where Python environments are kept.
    #[must_use]
    pub fn python_env_dir(&self) -> PathBuf {
        self.path("python.env_dir").map_or_else(|| self.state_dir.join("python"), Path::to_owned)
    }

    /// dlrun on the compute nodes, where it is not the one that submits.
    #[must_use]
    pub fn node_dlrun(&self) -> Option<&Path> {
        self.path("node.dlrun")
    }

    /// Time between two samples.
    #[must_use]
    pub fn monitor_interval(&self) -> Duration {
        Duration::from_millis(self.number("monitor.interval_ms"))
    }

    /// Time between two writings of the node record.
    #[must_use]
    pub fn record_interval(&self) -> Duration {
        Duration::from_secs(self.number("monitor.record_seconds"))
    }

    /// Time from TERM to KILL for local jobs.
    #[must_use]
    pub fn local_kill_wait(&self) -> Duration {
        Duration::from_secs(self.number("local.kill_wait_seconds"))
    }

    /// Where the lock that lets one local job run at a time lies.
    #[must_use]
    pub fn local_lock_dir(&self) -> PathBuf {
        self.path("local.lock_dir").map_or_else(|| PathBuf::from("/var/tmp"), Path::to_owned)
    }
}

fn built_in(key: &'static Key) -> Setting {
    let value = key.default.map(|text| key.read(text).expect("a test reads every default"));
    Setting { key, value, origin: Origin::Default }
}

fn set(values: &mut [Setting], name: &str, value: Option<Value>, origin: Origin) {
    if let Some(setting) = values.iter_mut().find(|setting| setting.key.name == name) {
        setting.value = value;
        setting.origin = origin;
    }
}

fn value_of<'a>(values: &'a [Setting], name: &str) -> Option<&'a Value> {
    values.iter().find(|setting| setting.key.name == name)?.value.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> Defaults {
        Defaults { state_dir: Some("/home/u/.local/state/dlrun".into()) }
    }

    #[test]
    fn every_default_can_be_read_and_used() {
        let settings = Settings::merge(&defaults(), &[]).expect("defaults");
        assert_eq!(settings.monitor_interval(), Duration::from_secs(1));
        assert_eq!(settings.scheduler(), SchedulerKind::Auto);
        assert_eq!(settings.python_env_dir(), Path::new("/home/u/.local/state/dlrun/python"));
        assert_eq!(settings.local_kill_wait(), Duration::from_secs(30));
        assert_eq!(settings.slurm_timeout(), Duration::from_secs(30));
        assert_eq!(settings.record_interval(), Duration::from_secs(30));
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
        assert_eq!(settings.origin("slurm.timeout_seconds").to_string(), "$DLRUN_SLURM__TIMEOUT_SECONDS");
        assert_eq!(settings.origin("slurm.bin_dir").to_string(), "/etc/dlrun/dlrun.toml:2");
    }

    #[test]
    fn bad_values_are_errors_and_unknown_keys_are_named() {
        let text =
            "state_dir = \"relative\"\n[slurm]\ntimeout_second = 5\ntimeout_seconds = 0\n[later]\nx = 1\n";
        let fragment = Fragment::from_toml(Path::new("/c.toml"), text);
        assert_eq!((fragment.entries.len(), fragment.errors.len(), fragment.unknown.len()), (0, 2, 2));
        let hint =
            fragment.unknown.iter().find_map(|p| p.hint.clone().filter(|h| h.contains("timeout_seconds")));
        assert!(hint.is_some());
    }

    #[test]
    fn without_a_place_for_records_there_are_no_settings() {
        assert_eq!(Settings::merge(&Defaults::default(), &[]), Err(ConfigError::NoStateDir));
    }
}
