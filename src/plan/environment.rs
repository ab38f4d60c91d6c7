//! What the command runs in: a container, a Python environment, or the host.

use super::PlannedImage;
use super::resolve::{Resolver, text};

impl Resolver<'_> {
    /// Container, else `[python]`, else the host.
    pub(super) fn environment(&mut self) -> (Option<PlannedImage>, Option<String>) {
        if let Some(image) = self.image() {
            return (Some(image), None);
        }
        (None, self.python_or_host())
    }

    fn image(&mut self) -> Option<PlannedImage> {
        let image = &self.spec.image;
        let path = image.path.as_ref().and(self.facts.image.as_deref()).map(text);
        let source = path.or_else(|| image.uri.as_ref().map(|uri| uri.value.clone()))?;
        let nv = self.spec.resources.gpus_per_node.is_some();
        let why = if nv {
            "the job file names the image; `--nv`, since GPUs are asked for"
        } else {
            "the job file names the image"
        };
        self.decide("environment", format!("container {source}"), why);
        if self.facts.python.is_some() {
            self.reject("python environment", "the job file names an image");
        }
        Some(PlannedImage { source, nv })
    }

    fn python_or_host(&mut self) -> Option<String> {
        let Some(python) = &self.facts.python else {
            self.decide("environment", "host", "the job names neither an image nor Python requirements");
            self.reject("container", "the job names no image");
            return None;
        };
        let no_container = match (&self.facts.container_runtime, self.spec.image.none) {
            (_, true) => "the job file says `[image] none = true`".to_owned(),
            (Some(runtime), false) => {
                format!("{} is there, but the job names no image", runtime.display())
            }
            (None, false) => "no container runtime (apptainer, singularity) is found".to_owned(),
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
