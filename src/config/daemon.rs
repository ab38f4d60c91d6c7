//! The merged settings of the node daemon.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::fragment::Fragment;
use super::keys::{Key, Kind, ON, SOCKET, Setting, settings};
use super::origin::Origin;
use super::values::Values;
use crate::foundation::units::Bytes;

settings! {
    /// All settings of the node daemon, in the order of the documentation. They are root's: no variable and no flag sets them.
    DAEMON_KEYS of DaemonSettings, 23 {
        /// where dlrun finds the daemon
        "socket": Kind::Path, Some(SOCKET) => socket: &Path = set_path_ref;
        /// the node's records; on a local disk
        "state_dir": Kind::Path, Some("/var/lib/dlrun") => state_dir: &Path = set_path_ref;
        /// whose members read all runs
        "read_group": Kind::Group, Some("dlrun");
        /// time between two samples
        "sampling.interval_ms": Kind::Number(100, 60_000), Some("1000") => interval: Duration = milliseconds;
        /// time between two looks at single processes
        "sampling.process_interval_ms": Kind::Number(100, 600_000), Some("5000") => process_interval: Duration = milliseconds;
        /// also record jobs that are not dlrun's
        "sampling.all_jobs": Kind::Switch, Some("false") => all_jobs: bool = switch;
        /// whether GPUs are read where there are any
        "gpu.enabled": Kind::Word(&ON), Some("auto") => gpu: bool = is_on;
        /// time between two readings of the GPUs
        "gpu.interval_ms": Kind::Number(100, 60_000), Some("1000") => gpu_interval: Duration = milliseconds;
        /// how long one reading of a GPU may take
        "gpu.deadline_ms": Kind::Number(100, 60_000), Some("2000") => gpu_deadline: Duration = milliseconds;
        /// NVIDIA's NVML (libnvidia-ml.so.1 of the linker)
        "gpu.library": Kind::Path, None => gpu_library: Option<&Path> = path;
        /// how long series are kept
        "store.keep_days": Kind::Number(1, 3650), Some("30") => keep: Duration = days;
        /// how much the node's records may take
        "store.max_size": Kind::Size(16 << 20), Some("2GiB") => max_size: Bytes = size;
        /// samples in one compressed block
        "store.fold_ticks": Kind::Number(10, 3600), Some("60") => fold_ticks: usize = count;
        /// connections at a time
        "limits.connections": Kind::Number(1, 65_536), Some("1024") => connections: usize = count;
        /// connections of one user
        "limits.connections_per_user": Kind::Number(1, 65_536), Some("256") => connections_per_user: usize = count;
        /// watched runs of one user
        "limits.runs_per_user": Kind::Number(1, 65_536), Some("256") => runs_per_user: usize = count;
        /// how long one request may take to arrive
        "limits.request_seconds": Kind::Number(1, 600), Some("10") => request_timeout: Duration = seconds;
        /// when a silent connection is closed
        "limits.idle_seconds": Kind::Number(1, 86_400), Some("900") => idle_timeout: Duration = seconds;
        /// metrics as a file for node_exporter
        "metrics.textfile": Kind::File(".prom"), None => metrics_textfile: Option<&Path> = path;
        /// metrics on a port of the loopback interface
        "metrics.listen": Kind::Loopback, None => metrics_listen: Option<SocketAddr> = address;
        /// further host names by which that port may be asked
        "metrics.hosts": Kind::Text, None;
        /// series of single runs on that port, for all local users
        "metrics.runs": Kind::Switch, Some("false") => metrics_runs: bool = switch;
        /// what the journal gets
        "log.level": Kind::Word(&["error", "warn", "info", "debug", "trace"]), Some("info") => log_level: &str = set_text;
    }
}

/// All settings of `dlrund`, merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonSettings {
    values: Values,
}

impl DaemonSettings {
    /// Lays fragments of [`Fragment::from_daemon_toml`] over the defaults; a later one wins. Fragments with errors are the
    /// caller's to refuse.
    #[must_use]
    pub fn merge(fragments: &[Fragment]) -> Self {
        let mut values = Values::built_in(&DAEMON_KEYS);
        values.lay_over(fragments.iter().flat_map(|fragment| &fragment.entries));
        Self { values }
    }

    /// The group whose members read all runs; `None`: root alone does.
    #[must_use]
    pub fn read_group(&self) -> Option<&str> {
        self.values
            .text("read_group")
            .filter(|name| !name.is_empty())
    }

    /// Further names of this machine by which the address of the metrics may be asked.
    pub fn metrics_hosts(&self) -> impl Iterator<Item = &str> {
        let hosts = self.values.text("metrics.hosts").unwrap_or_default();
        hosts
            .split(',')
            .map(str::trim)
            .filter(|host| !host.is_empty())
    }
}

impl Fragment {
    /// Reads the text of a `dlrund.toml`. An unknown key is an error: a daemon that passes over a misspelt limit is worse
    /// than one that does not start.
    #[must_use]
    pub fn from_daemon_toml(path: &Path, text: &str) -> Self {
        let mut fragment = Self::read(&DAEMON_KEYS, true, path, text);
        fragment.errors.append(&mut fragment.unknown);
        fragment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "/etc/dlrun/dlrund.toml";

    fn read(text: &str) -> Fragment {
        Fragment::from_daemon_toml(Path::new(FILE), text)
    }

    #[test]
    fn without_a_file_the_defaults_hold() {
        let settings = DaemonSettings::merge(&[]);
        assert_eq!(settings.socket(), Path::new("/run/dlrun/dlrund.sock"));
        assert_eq!(settings.state_dir(), Path::new("/var/lib/dlrun"));
        assert_eq!(settings.read_group(), Some("dlrun"));
        assert_eq!(
            (settings.interval(), settings.process_interval()),
            (secs(1), secs(5))
        );
        assert_eq!(
            (settings.all_jobs(), settings.gpu(), settings.metrics_runs()),
            (false, true, false)
        );
        assert_eq!(
            (settings.gpu_interval(), settings.gpu_deadline()),
            (secs(1), secs(2))
        );
        assert_eq!(
            (settings.gpu_library(), settings.metrics_textfile()),
            (None, None)
        );
        assert_eq!(settings.metrics_listen(), None);
        assert_eq!(
            (settings.keep(), settings.max_size()),
            (secs(30 * 86_400), Bytes(2 << 30))
        );
        assert_eq!((settings.fold_ticks(), settings.runs_per_user()), (60, 256));
        assert_eq!(
            (settings.connections(), settings.connections_per_user()),
            (1024, 256)
        );
        assert_eq!(
            (settings.request_timeout(), settings.idle_timeout()),
            (secs(10), secs(900))
        );
        assert_eq!(settings.log_level(), "info");
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn every_kind_of_value_is_read_and_a_later_file_wins() {
        let site = read(concat!(
            "read_group = \"\"\n[sampling]\nall_jobs = true\ninterval_ms = 250\n[gpu]\nenabled = \"off\"\n",
            "[store]\nmax_size = \"512MiB\"\n[metrics]\nlisten = \"[::1]:9477\"\n",
        ));
        let dropped = Fragment::from_daemon_toml(
            Path::new("/etc/dlrun/dlrund.conf.d/50-site.toml"),
            "\nsampling.interval_ms = 500\n",
        );
        assert_eq!((&site.errors, &dropped.errors), (&vec![], &vec![]));
        let settings = DaemonSettings::merge(&[site, dropped]);
        assert_eq!(settings.read_group(), None);
        assert!(settings.all_jobs() && !settings.gpu());
        assert_eq!(settings.max_size(), Bytes(512 << 20));
        assert_eq!(settings.metrics_listen(), "[::1]:9477".parse().ok());
        assert_eq!(settings.interval(), Duration::from_millis(500));
        let origin = |name| settings.origin(name).to_string();
        assert_eq!(
            origin("sampling.interval_ms"),
            "/etc/dlrun/dlrund.conf.d/50-site.toml:2"
        );
        assert_eq!(origin("gpu.enabled"), format!("{FILE}:6"));
        assert_eq!(origin("socket"), "default");
    }

    #[test]
    fn a_misspelt_key_or_section_is_an_error_with_the_nearest_one() {
        let text = "[limit]\nconnections = 5\n[store]\nkeepdays = 3\nx = 1\n[log]\nlevel = true\n";
        let fragment = read(text);
        assert!(
            fragment.entries.is_empty() && fragment.unknown.is_empty(),
            "{fragment:?}"
        );
        let mut seen: Vec<_> = fragment
            .errors
            .iter()
            .map(|error| {
                (
                    error.position(text).expect("a place").0,
                    error.hint.as_deref().unwrap_or_default(),
                )
            })
            .collect();
        seen.sort_unstable();
        let list = "docs/config.md lists all settings of dlrund.toml";
        let expected = [
            (1, "did you mean `limits`?"),
            (4, "did you mean `store.keep_days`?"),
            (5, list),
            (7, ""),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn settings_of_the_command_are_none_of_the_daemon() {
        let fragment = read("[slurm]\ntimeout_seconds = 5\n");
        assert_eq!(fragment.errors.len(), 1);
        let fragment = Fragment::from_toml(Path::new(FILE), "[sampling]\ninterval_ms = 500\n");
        assert_eq!((fragment.errors.len(), fragment.unknown.len()), (0, 1));
    }
}
