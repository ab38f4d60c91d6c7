//! What each runtime knows: one table, by product and version.
//!
//! Versions are those in whose source a thing is first seen: the tags of `apptainer/apptainer`, and of
//! `sylabs/singularity` for SingularityCE and for Singularity, whose numbers go on in SingularityCE.

use super::{Product, Runtime, Version};

/// Something that not every runtime knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// `--rocm`.
    Rocm,
    /// `--nv` and `--rocm` together; the others take `--nv` alone.
    BothGpus,
    /// `--fakeroot`.
    Fakeroot,
    /// `--mount type=bind,..`, fields as in CSV.
    Mount,
    /// `--no-eval`: the container's shell does not read values and arguments.
    NoEval,
    /// `--cwd`; the others know it as `--pwd`.
    Cwd,
    /// `--unsquash`: a SIF becomes a directory before it runs.
    Unsquash,
    /// `--tmp-sandbox`: SingularityCE's word for the same.
    TmpSandbox,
    /// `--fakeroot` has ways without a range in `/etc/subuid`.
    FakerootFallback,
    /// `--ignore-subuid`, `--ignore-userns`, `--ignore-fakeroot-command`: which of these ways are left out.
    IgnoreSubuid,
    /// `build` of a definition file by a user has `--fakeroot` without being told.
    ImpliedFakeroot,
}

/// From which version of Apptainer and of Singularity(CE) on; `None`: never.
const TABLE: [(Feature, Option<Version>, Option<Version>); 11] = [
    // cmd/internal/cli/action_flags.go of both, but for `--tmp-sandbox`: singularity.go beside it, v4.1.0.
    (
        Feature::Rocm,
        Some(Version(1, 0, 0)),
        Some(Version(3, 5, 0)),
    ),
    // setGPUConfig in internal/pkg/runtime/launch/launcher_linux.go: v1.2.2 warns, v1.2.3 does not.
    (Feature::BothGpus, Some(Version(1, 2, 3)), None),
    (
        Feature::Fakeroot,
        Some(Version(1, 0, 0)),
        Some(Version(3, 3, 0)),
    ),
    (
        Feature::Mount,
        Some(Version(1, 0, 0)),
        Some(Version(3, 9, 0)),
    ),
    (
        Feature::NoEval,
        Some(Version(1, 1, 0)),
        Some(Version(3, 10, 0)),
    ),
    (Feature::Cwd, Some(Version(1, 3, 0)), Some(Version(4, 0, 0))),
    (Feature::Unsquash, Some(Version(1, 1, 0)), None),
    (Feature::TmpSandbox, None, Some(Version(4, 1, 0))),
    (Feature::FakerootFallback, Some(Version(1, 1, 0)), None),
    (Feature::IgnoreSubuid, Some(Version(1, 1, 0)), None),
    (Feature::ImpliedFakeroot, Some(Version(1, 1, 0)), None),
];

/// How a runtime reads the value of `APPTAINERENV_X` and `SINGULARITYENV_X`, with `--no-eval` where it knows that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evaluation {
    /// As it stands.
    None,
    /// A shell reads it between single quotes (`--no-eval`).
    SingleQuotes,
    /// A shell reads it between double quotes. Those in it are escaped by the runtime, but for `LD_LIBRARY_PATH`.
    DoubleQuotes,
    /// A shell reads it between double quotes, and what it takes in them cannot be written, or nobody knows how.
    Plain,
}

/// What a runtime knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features(Option<Runtime>);

impl Features {
    /// Of a runtime; of one that nobody knows, what all know.
    #[must_use]
    pub fn of(runtime: Option<Runtime>) -> Self {
        Self(runtime)
    }

    /// Whether it knows it.
    #[must_use]
    pub fn has(self, feature: Feature) -> bool {
        let Some(runtime) = self.0 else {
            return matches!(feature, Feature::Rocm | Feature::Fakeroot);
        };
        let since = TABLE.iter().find(|(known, ..)| *known == feature).and_then(
            |(_, apptainer, singularity)| match runtime.product {
                Product::Apptainer => *apptainer,
                Product::SingularityCe | Product::Singularity => *singularity,
            },
        );
        since.is_some_and(|since| runtime.version >= since)
    }

    /// What its own variables begin with: `APPTAINER`, `SINGULARITY`, or either where nobody knows.
    #[must_use]
    pub fn prefixes(self) -> &'static [&'static str] {
        match self.0.map(|runtime| runtime.product) {
            Some(Product::Apptainer) => &["APPTAINER"],
            Some(Product::SingularityCe | Product::Singularity) => &["SINGULARITY"],
            None => &["APPTAINER", "SINGULARITY"],
        }
    }

    /// What the variables begin with that it obeys, the stronger first: Apptainer takes those of Singularity too.
    #[must_use]
    pub fn obeyed_prefixes(self) -> &'static [&'static str] {
        match self.0.map(|runtime| runtime.product) {
            Some(Product::SingularityCe | Product::Singularity) => &["SINGULARITY"],
            Some(Product::Apptainer) | None => &["APPTAINER", "SINGULARITY"],
        }
    }

    /// How it reads values.
    ///
    /// `injectEnvHandler` in `internal/pkg/runtime/engine/*/process_linux.go`: in Singularity since v3.6.0, up to v3.8.1
    /// with Go's `%q`, which doubles backslashes, so that no dollar sign can be kept from the shell; since v3.8.2 and
    /// in Apptainer since v1.0.0 between double quotes that the user's backslashes work in. v3.5 has no such shell
    /// (`internal/pkg/util/env/clean.go`).
    #[must_use]
    pub fn evaluation(self) -> Evaluation {
        let Some(runtime) = self.0 else {
            return Evaluation::Plain;
        };
        match runtime.product {
            _ if self.has(Feature::NoEval) => Evaluation::SingleQuotes,
            Product::Apptainer => Evaluation::DoubleQuotes,
            _ if runtime.version < Version(3, 6, 0) => Evaluation::None,
            _ if runtime.version < Version(3, 8, 2) => Evaluation::Plain,
            _ => Evaluation::DoubleQuotes,
        }
    }
}
