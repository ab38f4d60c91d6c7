//! `sampler = "optuna"`: for each trial a Python process is given all that is known of the sweep, and answers with Optuna's proposal.

use std::path::{Path, PathBuf};

use crate::app::error::{Error, Kind, failure};
use crate::app::interrupt;
use crate::app::progress::Display;
use crate::app::session::Session;
use crate::foundation::command::{CommandError, Tool};
use crate::foundation::private::PrivateDir;
use crate::image::python::{self, PyenvError};
use crate::learn::sweep::{Asked, SamplerKind, Study, Sweep, Values, answer, request};

const PROGRAM: &str = include_str!("optuna.py");
/// In the directory of an environment.
const PYTHON: &str = "bin/python3";
const CONTINUES: &str =
    "no trial is lost: submitted jobs continue, and the same command continues the sweep";
/// Bytes of an answer at most. CMA-ES of 64 parameters keeps some hundred KB.
const MOST_ANSWER: usize = 16 << 20;

/// A Python that has Optuna, or that dlrun can install it for.
pub(crate) struct Optuna<'a> {
    session: &'a Session,
    sampler: SamplerKind,
    packages: &'static str,
    /// `None`: the environment is still to be created.
    python: Option<PathBuf>,
    is_own: bool,
}

impl<'a> Optuna<'a> {
    /// Finds the Python that `optuna.python` names, else the one that dlrun created, and asks it for a trial that nobody runs; `None`:
    /// the sampler is not Optuna's. Makes nothing.
    pub(crate) fn find(session: &'a Session, sweep: &Sweep) -> Result<Option<Self>, Error> {
        let Some(packages) = sweep.sampler.packages() else {
            return Ok(None);
        };
        let named = session.settings.optuna_python();
        let mut found = Self {
            session,
            sampler: sweep.sampler,
            packages,
            python: named.map(PathBuf::from),
            is_own: named.is_none(),
        };
        if found.is_own {
            found.python = found
                .created_before()
                .map_err(|error| error.hinted(found.hint()))?;
        }
        if found.python.is_some() {
            found.ask(sweep, &Study::default(), 0)?;
        }
        Ok(Some(found))
    }

    /// The packages of the environment that is still to be created.
    pub(crate) fn to_create(&self) -> Option<&'static str> {
        self.python.is_none().then_some(self.packages)
    }

    /// Creates the environment where that was not done before.
    pub(crate) fn ready(mut self) -> Result<Self, Error> {
        if self.python.is_none() {
            let python = self.create().map_err(|error| error.hinted(self.hint()))?;
            self.python = Some(python);
        }
        Ok(self)
    }

    /// The values of a trial; `None`: the user interrupts.
    pub(crate) fn propose(
        &self,
        sweep: &Sweep,
        study: &Study,
        number: usize,
    ) -> Result<Option<(Values, Asked)>, Error> {
        let asked = self.ask(sweep, study, number);
        asked.map_err(|error| error.hinted(CONTINUES))
    }

    /// A process that was killed from outside is started once more.
    fn ask(
        &self,
        sweep: &Sweep,
        study: &Study,
        number: usize,
    ) -> Result<Option<(Values, Asked)>, Error> {
        let python = self.python.as_deref();
        let python = python.ok_or_else(|| failure!(Internal, "Optuna has no Python yet"))?;
        let tool = Tool::new(python)
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
            .stops_when(interrupt::has_come)
            .ends_with_us();
        let mut ran = tool.run();
        if ran.as_ref().is_ok_and(|ran| ran.status.code().is_none()) {
            let warning = "Optuna's process was killed; it is started once more";
            self.session.warning(warning);
            ran = tool.run();
        }
        let output = match ran.and_then(|ran| ran.require_success(&tool.program())) {
            Err(CommandError::Stopped { .. }) => return Ok(None),
            ran => ran.map_err(|error| self.failed(python, error))?,
        };
        let answer = answer(sweep, &output.stdout).map_err(|why| {
            let python = python.display();
            failure!(Unreachable, "Optuna in `{python}` gave no trial: {why}")
        });
        answer.map(Some)
    }

    fn hint(&self) -> String {
        let packages = self.packages;
        format!("the setting `optuna.python` names a Python that has {packages}")
    }

    fn failed(&self, python: &Path, error: CommandError) -> Error {
        let python = python.display();
        let hint = match &error {
            CommandError::TimedOut { .. } => {
                "the setting `optuna.timeout_seconds` says how long Optuna may take".to_owned()
            }
            CommandError::Failed {
                words: Some(words), ..
            } if words.0.contains("No module named") => {
                let quoted = self.packages.replace(' ', "' '");
                format!("`{python} -m pip install '{quoted}'` installs what is missing")
            }
            _ => self.hint(),
        };
        Error::new(Kind::Unreachable, error).hinted(hint)
    }

    /// The file of requirements by which the environment is known: one for each set of packages.
    fn requirements(&self) -> String {
        format!("{}.txt", self.sampler.as_str().replace(':', "-"))
    }

    /// The Python of an environment that was created before; `None`: it can be created.
    fn created_before(&self) -> Result<Option<PathBuf>, Error> {
        let settings = &self.session.settings;
        let (root, interpreter) = (settings.python_env_dir(), settings.python_interpreter());
        let requirements = root.join(self.requirements());
        // One with the packages of another dlrun is made again.
        let is_ours = std::fs::read_to_string(&requirements)
            .is_ok_and(|text| text == self.packages.replace(' ', "\n"));
        if is_ours {
            let facts = python::inspect(&requirements, interpreter, &root)?;
            if facts.ready {
                return Ok(Some(facts.dir.join(PYTHON)));
            }
        }
        if !settings.installs_optuna() {
            let message =
                "Optuna needs a Python environment, and the setting `optuna.install` is off";
            return Err(Error::new(Kind::Missing, message));
        }
        python::interpreter(interpreter)?;
        Ok(None)
    }

    fn create(&self) -> Result<PathBuf, Error> {
        let (settings, packages) = (&self.session.settings, self.packages);
        let (root, name) = (settings.python_env_dir(), self.requirements());
        PrivateDir::create(&root)?.replace(&name, packages.replace(' ', "\n").as_bytes())?;
        let facts = python::inspect(&root.join(name), settings.python_interpreter(), &root)?;
        if !facts.ready {
            let dir = facts.dir.display();
            self.session.note(&format!(
                "creating a Python environment with {packages} in {dir}, once"
            ));
        }
        let mut display = Display::new(self.session.output);
        python::prepare(&facts, &mut |progress| display.environment(&progress)).map_err(
            |error| {
                let is_of_pip = matches!(error, PyenvError::Install(..));
                let hint = "pip needs a package index that this machine reaches; `PIP_INDEX_URL` names another";
                let hints = is_of_pip.then_some(hint).into_iter();
                hints.fold(Error::from(error), Error::hinted)
            },
        )?;
        Ok(facts.dir.join(PYTHON))
    }
}
