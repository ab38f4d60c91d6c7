//! What every verb starts from: settings, names of host and user, the state directory, its index, the schedulers.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use nix::unistd::{gethostname, getuid};
use serde::Serialize;

use crate::app::accounts;
use crate::app::error::{Error, Kind, failure};
use crate::app::job::source::open;
use crate::app::output::Output;
use crate::config::{Fragment, Key, Origin, Settings};
use crate::foundation::command::CommandError;
use crate::foundation::private::{FileError, if_there};
use crate::job::SchedulerKind;
use crate::record::rundir::StateDir;
use crate::scheduler::{
    Reach, Scheduler, SchedulerError, adapter_for, find::Qsubs, local::Shared, slurm::Slurm,
};

pub(super) const SITE_DIR: &str = "/etc/dlrun";
/// Configuration files beyond this size are refused.
const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// How long the state directory may take to answer: a dead NFS server must not hold a login shell for ever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How long a `qsub` may take to say what it is; it asks nobody for that.
const QSUB_PATIENCE: Duration = Duration::from_secs(5);

/// One command's surroundings.
pub(crate) struct Session {
    pub(crate) output: Output,
    pub(crate) settings: Settings,
    pub(crate) host: String,
    /// Slurm as the settings name it.
    pub(crate) slurm: Slurm,
    /// The `qsub`s, of whatever PBS.
    pub(crate) qsubs: Qsubs,
    /// The performance model that the command line names, by name or file.
    pub(crate) asked_model: Option<PathBuf>,
    /// The hardware that the command line names.
    pub(crate) asked_hardware: Option<String>,
    /// Whether a warning was given that the site's performance model may be somebody else's.
    pub(crate) warned_of_model: Cell<bool>,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// An XDG base directory: absolute, or it does not count (XDG Base Directory Specification 0.8).
pub(super) fn base_dir(name: &str, below_home: &str) -> Option<PathBuf> {
    let named = variable(name)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    named.or_else(|| Some(PathBuf::from(variable("HOME")?).join(below_home)))
}

impl Session {
    /// Reads the layers of the configuration. `state_dir` and `scheduler` are given on the command line.
    pub(crate) fn open(
        output: Output,
        state_dir: Option<&Path>,
        scheduler: Option<&str>,
    ) -> Result<Self, Error> {
        let mut fragments = Vec::new();
        for path in site_files() {
            fragments.extend(read_fragment(&path, &output)?);
        }
        if let Some(path) =
            base_dir("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("dlrun/dlrun.toml"))
        {
            fragments.extend(read_fragment(&path, &output)?.map(Fragment::of_user));
        }
        fragments.push(Fragment::from_environment(variable));
        fragments.push(flags(state_dir, scheduler)?);
        for fragment in &fragments {
            if let Some(problem) = fragment.errors.first() {
                return Err(Error::new(Kind::Config, problem.message.clone()));
            }
        }
        let state_dir = base_dir("XDG_STATE_HOME", ".local/state").map(|dir| dir.join("dlrun"));
        let settings = Settings::merge(state_dir, &fragments).ok_or_else(|| {
            let text =
                "no place for records: neither `state_dir`, `XDG_STATE_HOME` nor `HOME` is set";
            Error::new(Kind::Config, text).hinted("set HOME, or name one with `--state-dir`")
        })?;
        let slurm = Slurm::new(
            settings.bin_dir(SchedulerKind::Slurm).map(Path::to_owned),
            settings.command_timeout(SchedulerKind::Slurm),
        );
        let qsubs = Qsubs::new(pbs_dirs(&settings), QSUB_PATIENCE);
        Ok(Self {
            output,
            settings,
            host: hostname(),
            slurm,
            qsubs,
            asked_model: None,
            asked_hardware: None,
            warned_of_model: Cell::new(false),
        })
    }

    /// The same with another scheduler.
    pub(crate) fn with_scheduler(&self, scheduler: &str) -> Result<Self, Error> {
        let state_dir = self.settings.state_dir();
        Self::open(self.output, Some(state_dir), Some(scheduler))
    }

    /// Prints the answer: `text` for people, `answer` for programs. Returns the exit code of success.
    pub(crate) fn answer(&self, answer: &impl Serialize, text: &str) -> Result<u8, Error> {
        self.output.result(answer, text)
    }

    /// A line for people on standard error.
    pub(crate) fn note(&self, text: &str) {
        self.output.note(text);
    }

    /// A warning on standard error.
    pub(crate) fn warning(&self, text: &str) {
        self.output.warning(text);
    }

    /// The state directory, made where it is missing.
    pub(crate) fn state(&self) -> Result<StateDir, Error> {
        let path = self.settings.state_dir().to_owned();
        within(PATIENCE, &path.clone(), move || StateDir::create(&path))
    }

    /// The state directory for verbs that read: they make none, so that a mistyped name is seen.
    pub(crate) fn existing_state(&self) -> Result<StateDir, Error> {
        let path = self.settings.state_dir().to_owned();
        let opened = within(PATIENCE, &path.clone(), move || {
            if_there(StateDir::open(&path))
        })?;
        opened.ok_or_else(|| {
            failure!(
                Missing,
                "there are no records in `{}`",
                self.settings.state_dir().display()
            )
            .hinted("`dlrun submit JOB_FILE` makes the first; `--state-dir` names another place")
        })
    }

    /// Says whether the commands of a PBS are here.
    pub(crate) fn pbs(&self, kind: SchedulerKind) -> Result<(), Error> {
        if self.qsubs.commands(kind)?.is_some() {
            return Ok(());
        }
        let searched = pbs_dirs(&self.settings).into_iter();
        let searched = searched
            .filter(|(of, _)| *of == kind)
            .map(|(_, dir)| dir)
            .collect();
        let source = CommandError::NotFound {
            program: "qsub".to_owned(),
            searched,
        };
        Err(SchedulerError::Unreachable {
            scheduler: kind.as_str(),
            source,
        }
        .into())
    }

    /// How the scheduler of a kind is reached.
    pub(crate) fn reach(&self, kind: SchedulerKind) -> Result<Reach, Error> {
        let settings = &self.settings;
        let bin_dir = match kind {
            kind if kind.is_pbs() => self.qsubs.commands(kind)?,
            // Local jobs need no commands: nothing is looked for in `PATH`.
            kind if kind.is_local() => None,
            // Slurm's commands lie together: where one was found, the others need not be looked for.
            _ => {
                let sbatch = self.slurm.sbatch();
                let dir = settings.bin_dir(kind);
                let dir = dir.or(sbatch.as_deref().and_then(Path::parent));
                dir.map(Path::to_owned)
            }
        };
        Ok(Reach {
            bin_dir,
            timeout: settings.command_timeout(kind),
            host: self.host.clone(),
            dlrun: std::env::current_exe()?,
            state_dir: settings.state_dir().to_owned(),
            shared: Shared {
                dir: settings.local_lock_dir(),
                others_wait: settings.local_others_wait(),
            },
        })
    }

    /// The scheduler of a kind that was resolved.
    pub(crate) fn scheduler(&self, kind: SchedulerKind) -> Result<Box<dyn Scheduler>, Error> {
        Ok(adapter_for(kind).open(self.reach(kind)?))
    }
}

/// Where the settings say that each PBS has its commands.
fn pbs_dirs(settings: &Settings) -> Vec<(SchedulerKind, PathBuf)> {
    let kinds = SchedulerKind::ALL.into_iter().filter(|kind| kind.is_pbs());
    kinds
        .filter_map(|kind| Some((kind, settings.bin_dir(kind)?.to_owned())))
        .collect()
}

/// Waits for an answer of the state directory, but not for ever.
pub(crate) fn within<T: Send + 'static>(
    patience: Duration,
    path: &Path,
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, Error> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    match receiver.recv_timeout(patience) {
        Ok(result) => result.map_err(Error::from),
        Err(_) => {
            let seconds = patience.as_secs();
            Err(failure!(
                TryAgain,
                "the state directory `{}` gave no answer within {seconds} s",
                path.display()
            )
            .hinted("its file system may hang; `--state-dir` names another"))
        }
    }
}

fn flags(state_dir: Option<&Path>, scheduler: Option<&str>) -> Result<Fragment, Error> {
    let mut fragment = Fragment::default();
    let mut set = |name: &str, value: &str, flag: &str| {
        if let Some(key) = Key::named(name) {
            fragment.add(
                key,
                value,
                Origin::Flag {
                    flag: flag.to_owned(),
                },
            );
        }
    };
    if let Some(dir) = state_dir {
        set(
            "state_dir",
            &std::path::absolute(dir)?.to_string_lossy(),
            "--state-dir",
        );
    }
    if let Some(kind) = scheduler {
        set("scheduler.kind", kind, "--scheduler");
    }
    Ok(fragment)
}

/// Site file, site drop-ins by name.
fn site_files() -> Vec<PathBuf> {
    let site = Path::new(SITE_DIR);
    let mut files = vec![site.join("dlrun.toml")];
    if let Ok(entries) = fs::read_dir(site.join("conf.d")) {
        let mut dropped: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        dropped.retain(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        });
        dropped.sort();
        files.extend(dropped);
    }
    files
}

fn read_fragment(path: &Path, output: &Output) -> Result<Option<Fragment>, Error> {
    use std::io::Read;
    let mut text = String::new();
    let read =
        open(path).and_then(|file| file.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text));
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(failure!(
                Config,
                "cannot read `{}`: {error}",
                path.display()
            ));
        }
        Ok(bytes) if bytes as u64 > MAX_CONFIG_BYTES => {
            return Err(failure!(
                Config,
                "`{}` is larger than 1 MiB",
                path.display()
            ));
        }
        Ok(_) => {}
    }
    let fragment = Fragment::from_toml(path, &text);
    if !fragment.errors.is_empty() {
        return Err(Error::in_file(
            Kind::Config,
            &path.to_string_lossy(),
            &text,
            fragment.errors,
        ));
    }
    for problem in &fragment.unknown {
        let line = problem.position(&text).map_or(0, |(line, _)| line);
        let hint = problem.hint.as_deref().unwrap_or_default();
        output.warning(&format!(
            "{}:{line}: {}; {hint}",
            path.display(),
            problem.message
        ));
    }
    Ok(Some(fragment))
}

/// This machine's name.
pub(crate) fn hostname() -> String {
    gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .unwrap_or_else(|| "localhost".to_owned())
}

/// Login name of the user, or the number where the number has no name.
pub(crate) fn user_name() -> String {
    let uid = getuid().as_raw();
    accounts::user_name(uid).unwrap_or_else(|| uid.to_string())
}
