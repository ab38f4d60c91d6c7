//! What the command runs in: a container, a Python environment, or the host.

use super::candidates::Prospect;
use super::image::OWN_OR_IMAGE;
use std::path::Path;

use super::decisions::{JOB_FILE, Resolver, text};
use crate::foundation::diagnostic::Problem;
use crate::image::flags::Container;
use crate::image::runtime;
use crate::job::{Framework, Located, OwnPython};

impl Resolver<'_> {
    /// Container, else `[python]`, else the host.
    pub(super) fn environment(
        &mut self,
        prospect: &mut Prospect,
    ) -> (Option<Container>, Option<String>) {
        if let Some(own) = &self.spec.python.own {
            return (None, self.own_python(own, prospect));
        }
        match self.image(prospect) {
            Ok(image) => (Some(image), None),
            Err(why) => {
                prospect.forget_image();
                let python = self.python_or_host(&why);
                self.reject_candidates();
                (None, python)
            }
        }
    }

    /// The environment that the user has made: nothing is chosen in its place. The directory, where it is a virtual one.
    fn own_python(&mut self, own: &Located<OwnPython>, prospect: &mut Prospect) -> Option<String> {
        prospect.forget_image();
        let image = &self.spec.image;
        if image.path.is_some() || image.uri.is_some() {
            let message =
                "the command runs in an image, where no environment of the node is activated";
            self.problems
                .push(Problem::at(own.span.clone(), message).hinted(OWN_OR_IMAGE));
        } else if !image.none {
            self.missing_image("the job file names a Python environment");
        }
        match &own.value {
            OwnPython::Venv(dir) => {
                let job_dir = self.facts.job_file.parent().unwrap_or(Path::new("/"));
                let dir = text(&job_dir.join(dir));
                self.decide("environment", format!("python environment {dir}"), JOB_FILE);
                Some(dir)
            }
            OwnPython::Conda(conda) => {
                self.decide(
                    "environment",
                    format!("conda environment {}", conda.name),
                    JOB_FILE,
                );
                None
            }
        }
    }

    /// What the training is really written with, as far as it is known: records teach the performance model by it.
    pub(super) fn framework(&self, prospect: &Prospect) -> Framework {
        let asked = &self.spec.framework;
        let Some(chosen) = prospect.chosen() else {
            return asked.clone();
        };
        Framework {
            name: asked.name.clone(),
            version: chosen.version.clone().or(asked.version.clone()),
            compiler: chosen.compiler.clone(),
            provenance: chosen.provenance,
        }
    }

    fn python_or_host(&mut self, no_image: &str) -> Option<String> {
        let Some(python) = &self.facts.python else {
            self.decide(
                "environment",
                "host",
                "the job names neither an image nor Python requirements",
            );
            self.reject("container", no_image);
            return None;
        };
        let no_container = match &self.facts.container_runtime {
            None if !self.spec.image.none && self.plan.candidates.is_empty() => {
                format!(
                    "no container runtime ({}) is found",
                    runtime::commands().join(", ")
                )
            }
            _ => no_image.to_owned(),
        };
        let version = match &*python.version {
            "" => String::new(),
            version => format!(", for Python {version}"),
        };
        let why = format!("{no_container}; `[python] requirements` is given{version}");
        self.decide(
            "environment",
            format!("python environment {}", python.dir.display()),
            why,
        );
        self.reject("container", no_container);
        self.reject("host", "its packages need not be those of `requirements`");
        Some(text(&python.dir))
    }
}
