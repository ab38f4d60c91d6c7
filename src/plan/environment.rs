//! What the command runs in: a container, a Python environment, or the host.

use super::resolve::{Resolver, text};
use crate::flags::Container;
use crate::job::SchedulerKind;

impl Resolver<'_> {
    /// Container, else `[python]`, else the host.
    pub(super) fn environment(
        &mut self,
        scheduler: SchedulerKind,
        queue: Option<&str>,
    ) -> (Option<Container>, Option<String>) {
        match self.image(scheduler, queue) {
            Ok(image) => (Some(image), None),
            Err(why) => {
                let python = self.python_or_host(&why);
                self.reject_candidates();
                (None, python)
            }
        }
    }

    fn python_or_host(&mut self, no_image: &str) -> Option<String> {
        let Some(python) = &self.facts.python else {
            self.decide("environment", "host", "the job names neither an image nor Python requirements");
            self.reject("container", no_image);
            return None;
        };
        let no_container = match &self.facts.container_runtime {
            _ if self.spec.image.none || !self.candidates.is_empty() => no_image.to_owned(),
            Some(runtime) => {
                format!("{} is there, but {no_image}", runtime.display())
            }
            None => "no container runtime (apptainer, singularity) is found".to_owned(),
        };
        let version =
            python.version.as_ref().map(|version| format!(", for Python {version}")).unwrap_or_default();
        let why = format!("{no_container}; `[python] requirements` is given{version}");
        self.decide("environment", format!("python environment {}", python.dir.display()), why);
        self.reject("container", no_container);
        self.reject("host", "its packages need not be those of `requirements`");
        Some(text(&python.dir))
    }
}
