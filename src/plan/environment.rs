//! What the command runs in: a container, a Python environment, or the host.

use super::resolve::{Resolver, text};
use crate::flags::Container;
use crate::job::{Bind, Fakeroot, GpuMode, Located};

impl Resolver<'_> {
    /// Container, else `[python]`, else the host.
    pub(super) fn environment(&mut self) -> (Option<Container>, Option<String>) {
        if let Some(image) = self.image() {
            return (Some(image), None);
        }
        (None, self.python_or_host())
    }

    fn image(&mut self) -> Option<Container> {
        let image = &self.spec.image;
        let path = image.path.as_ref().and(self.facts.image.as_deref()).map(text);
        let source = path.or_else(|| image.uri.as_ref().map(|uri| uri.value.clone()))?;
        let gpus_asked = self.spec.resources.gpus_per_node.is_some();
        let nv = match image.gpu {
            GpuMode::Auto => gpus_asked,
            GpuMode::Nvidia => true,
            GpuMode::Amd | GpuMode::None => false,
        };
        let why = if nv && image.gpu == GpuMode::Auto {
            "the job file names the image; `--nv`, since GPUs are asked for"
        } else {
            "the job file names the image"
        };
        self.decide("environment", format!("container {source}"), why);
        if self.facts.python.is_some() {
            self.reject("python environment", "the job file names an image");
        }
        Some(Container {
            source,
            nv,
            rocm: image.gpu == GpuMode::Amd,
            gpu: image.gpu,
            gpus_asked,
            require_gpu: image.require_gpu,
            fakeroot: image.fakeroot == Fakeroot::Yes,
            binds: image.bind.iter().map(|bind| self.absolute_bind(bind)).collect(),
            cleanenv: image.cleanenv,
            options: super::resolve::values(&image.options),
            workdir: text(&self.facts.workdir),
            runtime: self.settings.container_runtime().map(text),
            ..Container::default()
        })
    }

    /// Sources are relative to the job file's directory.
    fn absolute_bind(&self, bind: &Located<Bind>) -> Bind {
        let mut bind = bind.value.clone();
        if !bind.source.starts_with(['/', '$']) {
            let is_both = bind.source == bind.target;
            bind.source = text(&self.facts.job_file.with_file_name("").join(&bind.source));
            if is_both {
                bind.target.clone_from(&bind.source);
            }
        }
        bind
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
