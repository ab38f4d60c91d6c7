//! `sampler = "optuna"`: for each trial a Python process is given all that is known of the sweep, and answers with Optuna's proposal.

use std::path::PathBuf;

use crate::app::error::{Error, Kind, failure};
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::foundation::command::{CommandError, Tool};
use crate::foundation::private::PrivateDir;
use crate::image::python::{self, PyenvError};
use crate::learn::sweep::{Asked, SamplerKind, Study, Sweep, Values, answer, request};

const PROGRAM: &str = include_str!("optuna.py");
const CONTINUES: &str =
    "no trial is lost: submitted jobs continue, and the same command continues the sweep";
/// Bytes of an answer at most. CMA-ES of 64 parameters keeps some hundred KB.
const MOST_ANSWER: usize = 16 << 20;

/// A Python that has Optuna.
pub(crate) struct Optuna<'a> {
    session: &'a Session,
    python: PathBuf,
    packages: &'static str,
    is_own: bool,
}

impl<'a> Optuna<'a> {
    /// The Python that `optuna.python` names, else one that dlrun creates; `None`: the sampler is not Optuna's.
    pub(crate) fn ready(session: &'a Session, sweep: &Sweep) -> Result<Option<Self>, Error> {
        let Some(packages) = sweep.sampler.packages() else {
            return Ok(None);
        };
        let named = session.settings.optuna_python();
        let python = match named {
            Some(named) => named.to_owned(),
            None => own_python(session, sweep.sampler, packages).map_err(|error| {
                error.hinted(format!(
                    "the setting `optuna.python` names a Python that has {packages}"
                ))
            })?,
        };
        Ok(Some(Self {
            session,
            python,
            packages,
            is_own: named.is_none(),
        }))
    }

    /// The values of a trial. A process that was killed from outside is started once more.
    pub(crate) fn propose(
        &self,
        sweep: &Sweep,
        study: &Study,
        number: usize,
    ) -> Result<(Values, Asked), Error> {
        let tool = Tool::new(&self.python)
            // Variables that are set for another Python would mislead dlrun's own.
            .args(self.is_own.then_some("-I"))
            .args(["-c", PROGRAM])
            .current_dir("/")
            .env("LC_ALL", "C.UTF-8")
            // The same numbers on any number of cores; and a login node's cores are for all its users.
            .env("OMP_NUM_THREADS", "1")
            .stdin(request(sweep, study, number))
            .timeout(self.session.settings.optuna_timeout())
            .output_limit(MOST_ANSWER)
            .ends_with_us();
        let run = || tool.run().map_err(|error| self.failed(error));
        let mut output = run()?;
        if output.status.code().is_none() {
            let warning = "Optuna's process was killed; it is started once more";
            self.session.warning(warning);
            output = run()?;
        }
        let output = output.require_success(&tool.program());
        let output = output.map_err(|error| self.failed(error))?;
        answer(sweep, &output.stdout).map_err(|why| {
            let python = self.python.display();
            failure!(Unreachable, "Optuna in `{python}` gave no trial: {why}").hinted(CONTINUES)
        })
    }

    fn failed(&self, error: CommandError) -> Error {
        let (packages, python) = (self.packages, self.python.display());
        let hint = match &error {
            CommandError::TimedOut { .. } => {
                "the setting `optuna.timeout_seconds` says how long Optuna may take".to_owned()
            }
            CommandError::Failed {
                words: Some(words), ..
            } if words.0.contains("No module named") => {
                let quoted = packages.replace(' ', "' '");
                format!("`{python} -m pip install '{quoted}'` installs what is missing")
            }
            _ => format!("the setting `optuna.python` names a Python that has {packages}"),
        };
        let error = Error::new(Kind::Unreachable, error);
        error.hinted(hint).hinted(CONTINUES)
    }
}

/// The Python of an environment that dlrun creates once for each set of packages.
fn own_python(session: &Session, sampler: SamplerKind, packages: &str) -> Result<PathBuf, Error> {
    let settings = &session.settings;
    let root = settings.python_env_dir();
    let name = format!("{}.txt", sampler.as_str().replace(':', "-"));
    PrivateDir::create(&root)?.replace(&name, packages.replace(' ', "\n").as_bytes())?;
    let facts = python::inspect(&root.join(name), settings.python_interpreter(), &root)?;
    if !facts.ready && !settings.installs_optuna() {
        let message = "Optuna needs a Python environment, and the setting `optuna.install` is off";
        return Err(Error::new(Kind::Missing, message));
    }
    if !facts.ready {
        let dir = facts.dir.display();
        session.note(&format!(
            "creating a Python environment with {packages} in {dir}, once"
        ));
    }
    let mut display = Display::new(session.output);
    python::prepare(&facts, &mut |progress| display.environment(&progress)).map_err(|error| {
        let is_of_pip = matches!(error, PyenvError::Install(..));
        let hint =
            "pip needs a package index that this machine reaches; `PIP_INDEX_URL` names another";
        let hints = is_of_pip.then_some(hint).into_iter();
        hints.fold(Error::from(error), Error::hinted)
    })?;
    Ok(facts.dir.join("bin/python3"))
}
