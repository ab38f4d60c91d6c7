//! The list of all settings.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::foundation::units::Bytes;
use crate::job::SchedulerKind;

/// What a setting may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An absolute path.
    Path,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number in this range, both ends included.
    Number(u64, u64),
    /// Text for a scheduler's option: no blanks, no control characters.
    Text,
    /// `true` or `false`.
    Switch,
    /// A size with its unit, at least so many bytes.
    Size(u64),
    /// An absolute path whose text ends so.
    File(&'static str),
    /// The name of a group of users; empty: none.
    Group,
    /// Address and port on the loopback interface.
    Loopback,
}

/// A setting's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Of [`Kind::Path`] or [`Kind::File`].
    Path(PathBuf),
    /// Of [`Kind::Word`], [`Kind::Text`] or [`Kind::Group`].
    Text(String),
    /// Of [`Kind::Number`].
    Number(u64),
    /// Of [`Kind::Switch`].
    Switch(bool),
    /// Of [`Kind::Size`].
    Size(Bytes),
    /// Of [`Kind::Loopback`].
    Address(SocketAddr),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
            Self::Switch(on) => write!(f, "{on}"),
            Self::Size(bytes) => write!(f, "{bytes}"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Its dotted name, `section.key`.
    pub name: &'static str,
    /// What it may hold.
    pub kind: Kind,
    /// Its default as text; `None`: unset, or made from the user's environment (see [`super::Defaults`]).
    pub default: Option<&'static str>,
    /// What it does, for `config show` and the documentation.
    pub about: &'static str,
}

const fn key(
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    about: &'static str,
) -> Key {
    Key {
        name,
        kind,
        default,
        about,
    }
}

/// Where the node daemon listens, for both sides.
const SOCKET: &str = "/run/dlrun/dlrund.sock";

/// All settings of dlrun, in the order of the documentation.
pub const KEYS: [Key; 32] = [
    key(
        "state_dir",
        Kind::Path,
        None,
        "records of runs; must be seen by the nodes ($XDG_STATE_HOME/dlrun)",
    ),
    key(
        "scheduler.kind",
        Kind::Word(&SchedulerKind::WORDS),
        Some("auto"),
        "who takes jobs that do not say",
    ),
    key(
        "scheduler.cache_minutes",
        Kind::Number(0, 10_080),
        Some("60"),
        "how long what the scheduler says of queues and nodes is believed",
    ),
    key(
        "slurm.bin_dir",
        Kind::Path,
        None,
        "where sbatch, squeue and scancel lie, before PATH",
    ),
    key(
        "slurm.timeout_seconds",
        Kind::Number(1, 600),
        Some("30"),
        "how long one Slurm command may take",
    ),
    key(
        "torque.bin_dir",
        Kind::Path,
        None,
        "where Torque's qsub, qstat and qdel lie, before PATH",
    ),
    key(
        "torque.timeout_seconds",
        Kind::Number(1, 600),
        Some("30"),
        "how long one Torque command may take",
    ),
    key(
        "openpbs.bin_dir",
        Kind::Path,
        None,
        "where OpenPBS's qsub, qstat and qdel lie, before PATH",
    ),
    key(
        "openpbs.timeout_seconds",
        Kind::Number(1, 600),
        Some("30"),
        "how long one OpenPBS command may take",
    ),
    key(
        "defaults.queue",
        Kind::Text,
        None,
        "queue of jobs that name none",
    ),
    key(
        "defaults.account",
        Kind::Text,
        None,
        "account of jobs that name none",
    ),
    key(
        "python.interpreter",
        Kind::Path,
        None,
        "the Python that environments are made with (python3 of PATH)",
    ),
    key(
        "python.env_dir",
        Kind::Path,
        None,
        "where environments are kept; must be seen by the nodes (STATE_DIR/python)",
    ),
    key(
        "images.dir",
        Kind::Path,
        None,
        "where images are pulled and built to; must be seen by the nodes (STATE_DIR/images)",
    ),
    key(
        "images.build_dir",
        Kind::Path,
        None,
        "where builds unpack, several GB (TMPDIR, else /tmp)",
    ),
    key(
        "images.runtime",
        Kind::Path,
        None,
        "apptainer or singularity, here and on the nodes (the first of PATH)",
    ),
    key(
        "node.dlrun",
        Kind::Path,
        None,
        "dlrun on the compute nodes (the one that submits)",
    ),
    key(
        "monitor.interval_ms",
        Kind::Number(100, 60_000),
        Some("1000"),
        "time between two samples",
    ),
    key(
        "monitor.record_seconds",
        Kind::Number(1, 3600),
        Some("30"),
        "time between two writings of the node record",
    ),
    key(
        "monitor.process_interval_ms",
        Kind::Number(100, 600_000),
        Some("5000"),
        "time between two looks at single processes",
    ),
    key(
        "monitor.daemon",
        Kind::Word(&ON),
        Some("auto"),
        "whether a node's dlrund measures where it runs",
    ),
    key(
        "monitor.daemon_socket",
        Kind::Path,
        Some(SOCKET),
        "where the nodes' dlrund listens",
    ),
    key(
        "monitor.nvml_library",
        Kind::Path,
        None,
        "the nodes' NVML (libnvidia-ml.so.1 of the linker)",
    ),
    key(
        "local.kill_wait_seconds",
        Kind::Number(0, 3600),
        Some("30"),
        "time from TERM to KILL at the time limit and in cancel",
    ),
    key(
        "local.others_wait_hours",
        Kind::Number(0, 8760),
        Some("168"),
        "how long a local job waits for jobs of other users",
    ),
    key(
        "local.lock_dir",
        Kind::Path,
        Some("/var/tmp"),
        "where local jobs say what they take of this host",
    ),
    key(
        "export.dir",
        Kind::Path,
        Some("/var/spool/dlrun"),
        "where `export --since-last` writes its files without `--output-dir`",
    ),
    key(
        "model.path",
        Kind::Path,
        Some("/var/lib/dlrun-model/model"),
        "the site's performance model: used by who has none of their own, written by `model fit --publish`",
    ),
    key(
        "model.owner",
        Kind::Text,
        Some("dlrun-model"),
        "the user, by name or id, who may write the site's performance model beside root",
    ),
    key(
        "model.use",
        Kind::Word(&ON),
        Some("auto"),
        "whether plans go by a performance model where there is one",
    ),
    key(
        "model.priors",
        Kind::Path,
        None,
        "file of published effects that `model fit` begins with (those built into dlrun)",
    ),
    key(
        "model.keep",
        Kind::Number(1, 1000),
        Some("10"),
        "how many of one's own models are kept beside the current one",
    ),
];

/// Words of what is used where it is there.
const ON: [&str; 2] = ["auto", "off"];

/// All settings of the node daemon, in the order of the documentation. They are root's: no variable and no flag sets them.
pub const DAEMON_KEYS: [Key; 23] = [
    key(
        "socket",
        Kind::Path,
        Some(SOCKET),
        "where dlrun finds the daemon",
    ),
    key(
        "state_dir",
        Kind::Path,
        Some("/var/lib/dlrun"),
        "the node's records; on a local disk",
    ),
    key(
        "read_group",
        Kind::Group,
        Some("dlrun"),
        "whose members read all runs",
    ),
    key(
        "sampling.interval_ms",
        Kind::Number(100, 60_000),
        Some("1000"),
        "time between two samples",
    ),
    key(
        "sampling.process_interval_ms",
        Kind::Number(100, 600_000),
        Some("5000"),
        "time between two looks at single processes",
    ),
    key(
        "sampling.all_jobs",
        Kind::Switch,
        Some("false"),
        "also record jobs that are not dlrun's",
    ),
    key(
        "gpu.enabled",
        Kind::Word(&ON),
        Some("auto"),
        "whether GPUs are read where there are any",
    ),
    key(
        "gpu.interval_ms",
        Kind::Number(100, 60_000),
        Some("1000"),
        "time between two readings of the GPUs",
    ),
    key(
        "gpu.deadline_ms",
        Kind::Number(100, 60_000),
        Some("2000"),
        "how long one reading of a GPU may take",
    ),
    key(
        "gpu.library",
        Kind::Path,
        None,
        "NVIDIA's NVML (libnvidia-ml.so.1 of the linker)",
    ),
    key(
        "store.keep_days",
        Kind::Number(1, 3650),
        Some("30"),
        "how long series are kept",
    ),
    key(
        "store.max_size",
        Kind::Size(16 << 20),
        Some("2GiB"),
        "how much the node's records may take",
    ),
    key(
        "store.fold_ticks",
        Kind::Number(10, 3600),
        Some("60"),
        "samples in one compressed block",
    ),
    key(
        "limits.connections",
        Kind::Number(1, 65_536),
        Some("1024"),
        "connections at a time",
    ),
    key(
        "limits.connections_per_user",
        Kind::Number(1, 65_536),
        Some("256"),
        "connections of one user",
    ),
    key(
        "limits.runs_per_user",
        Kind::Number(1, 65_536),
        Some("256"),
        "watched runs of one user",
    ),
    key(
        "limits.request_seconds",
        Kind::Number(1, 600),
        Some("10"),
        "how long one request may take to arrive",
    ),
    key(
        "limits.idle_seconds",
        Kind::Number(1, 86_400),
        Some("900"),
        "when a silent connection is closed",
    ),
    key(
        "metrics.textfile",
        Kind::File(".prom"),
        None,
        "metrics as a file for node_exporter",
    ),
    key(
        "metrics.listen",
        Kind::Loopback,
        None,
        "metrics on a port of the loopback interface",
    ),
    key(
        "metrics.hosts",
        Kind::Text,
        None,
        "further host names by which that port may be asked",
    ),
    key(
        "metrics.runs",
        Kind::Switch,
        Some("false"),
        "series of single runs on that port, for all local users",
    ),
    key(
        "log.level",
        Kind::Word(&["error", "warn", "info", "debug", "trace"]),
        Some("info"),
        "what the journal gets",
    ),
];

impl Key {
    /// The key of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// Reads a value from text, as it stands in an environment variable or a flag.
    ///
    /// # Errors
    /// A sentence fragment saying what would be valid.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        match self.kind {
            Kind::Path => absolute(text).map(Value::Path),
            Kind::File(ending) if text.len() > ending.len() && text.ends_with(ending) => {
                absolute(text).map(Value::Path)
            }
            Kind::File(ending) => Err(format!(
                "must be an absolute path that ends in `{ending}`, not {text:?}"
            )),
            Kind::Word(words) if words.contains(&text) => Ok(Value::Text(text.to_owned())),
            Kind::Word(words) => Err(format!("must be one of {}, not {text:?}", words.join(", "))),
            Kind::Number(low, high) => match text.parse::<u64>() {
                Ok(number) if (low..=high).contains(&number) => Ok(Value::Number(number)),
                _ => Err(format!(
                    "must be a whole number from {low} to {high}, not {text:?}"
                )),
            },
            Kind::Text => word(text).map(Value::Text),
            Kind::Switch => match text {
                "true" => Ok(Value::Switch(true)),
                "false" => Ok(Value::Switch(false)),
                _ => Err(format!("must be true or false, not {text:?}")),
            },
            Kind::Size(least) => size(text, Bytes(least)).map(Value::Size),
            Kind::Group => group(text).map(Value::Text),
            Kind::Loopback => loopback(text).map(Value::Address),
        }
    }

    /// The environment variable that sets it: `DLRUN_SLURM__BIN_DIR`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("DLRUN_{}", self.name.replace('.', "__").to_uppercase())
    }
}

fn absolute(text: &str) -> Result<PathBuf, String> {
    if Path::new(text).is_absolute() && !text.chars().any(char::is_control) {
        return Ok(PathBuf::from(text));
    }
    Err(format!("must be an absolute path, not {text:?}"))
}

fn word(text: &str) -> Result<String, String> {
    if text.is_empty() || text.starts_with('-') {
        return Err(format!("cannot be {text:?}"));
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(format!(
            "must not contain blanks or control characters: {text:?}"
        ));
    }
    Ok(text.to_owned())
}

fn size(text: &str, least: Bytes) -> Result<Bytes, String> {
    match Bytes::parse(text) {
        Ok(bytes) if bytes >= least => Ok(bytes),
        Ok(_) => Err(format!("must be at least {least}, not {text:?}")),
        Err(why) => Err(format!("is no size: {why}")),
    }
}

/// What cannot stand in `/etc/group` is refused; directories of sites allow blanks and more.
fn group(text: &str) -> Result<String, String> {
    if text.starts_with('-') || text.chars().any(|c| c.is_control() || c == ':') {
        return Err(format!(
            "must be the name of a group, or empty for none, not {text:?}"
        ));
    }
    Ok(text.to_owned())
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<SocketAddr>() {
        Ok(address) if !address.ip().is_loopback() => Err(format!(
            "must be a loopback address, `127.0.0.1` or `[::1]`, not {text:?}: whoever reaches the port reads the metrics, without a password"
        )),
        Ok(address) if address.port() != 0 => Ok(address),
        _ => Err(format!(
            "must be an address with a port, such as `127.0.0.1:9477`, not {text:?}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon(name: &str, text: &str) -> Result<Value, String> {
        DAEMON_KEYS
            .iter()
            .find(|key| key.name == name)
            .expect("a setting")
            .read(text)
    }

    #[test]
    fn every_default_is_a_value_of_its_kind() {
        for key in KEYS.iter().chain(&DAEMON_KEYS) {
            let read = key
                .default
                .map(|text| (text, key.read(text).map(|value| value.to_string())));
            assert!(
                read.is_none_or(|(text, read)| read.as_deref() == Ok(text)),
                "{}",
                key.name
            );
        }
    }

    #[test]
    fn only_the_loopback_interface_is_listened_on() {
        for text in ["127.0.0.1:9477", "[::1]:9477", "127.8.9.1:1"] {
            assert_eq!(
                daemon("metrics.listen", text)
                    .map(|address| address.to_string())
                    .as_deref(),
                Ok(text)
            );
        }
        for text in [
            "0.0.0.0:9477",
            "[::]:9477",
            "10.0.0.7:9477",
            "[::ffff:127.0.0.1]:9477",
        ] {
            let why = daemon("metrics.listen", text).expect_err("open to the network");
            assert!(why.contains("without a password"), "{text}: {why}");
        }
        for text in [
            "127.0.0.1",
            "9477",
            "localhost:9477",
            "127.0.0.1:0",
            "127.0.0.1:65536",
            "",
        ] {
            let why = daemon("metrics.listen", text).expect_err("no address with a port");
            assert!(why.contains("with a port"), "{text}: {why}");
        }
    }

    #[test]
    fn sizes_have_units_and_a_least_value() {
        assert_eq!(
            daemon("store.max_size", "16MiB"),
            Ok(Value::Size(Bytes(16 << 20)))
        );
        let why = |text| daemon("store.max_size", text).expect_err("refused");
        assert!(why("15MiB").contains("at least 16MiB"), "{}", why("15MiB"));
        assert!(why("2").contains("no unit"), "{}", why("2"));
    }

    #[test]
    fn switches_groups_and_files_are_checked() {
        assert_eq!(daemon("metrics.runs", "true"), Ok(Value::Switch(true)));
        assert!(daemon("metrics.runs", "yes").is_err());
        assert_eq!(daemon("read_group", ""), Ok(Value::Text(String::new())));
        assert!(daemon("read_group", "domain users").is_ok());
        assert!(daemon("read_group", "a:b").is_err() && daemon("read_group", "-g").is_err());
        assert!(daemon("metrics.textfile", "/run/dlrun/node.prom").is_ok());
        // node_exporter passes over files with another ending.
        assert!(daemon("metrics.textfile", "/run/dlrun/node.txt").is_err());
        assert!(
            daemon("metrics.textfile", "node.prom").is_err()
                && daemon("metrics.textfile", ".prom").is_err()
        );
    }
}
