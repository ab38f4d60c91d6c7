//! Apptainer, SingularityCE and Singularity: three products of one descent, which read SIF images.
//!
//! Versions are those in whose source a thing is first seen: the tags of `apptainer/apptainer`, and of
//! `sylabs/singularity` for SingularityCE and for Singularity, whose numbers continue in SingularityCE.

pub(crate) mod advice;
pub(crate) mod image_file;
pub(crate) mod installation;
pub(crate) mod labels;
pub(crate) mod namespaces;
pub(crate) mod sif;
pub(crate) mod start_failure;
pub(crate) mod subids;

use super::facts::{Evaluation, Facts, Feature, Version};

pub(crate) const APPTAINER: Facts = Facts {
    name: "apptainer",
    version_names: &["apptainer"],
    command: "apptainer",
    prefix: "APPTAINER",
    // It takes those of Singularity too.
    obeyed_prefixes: &["APPTAINER", "SINGULARITY"],
    features: &[
        (Feature::Mount, Version(1, 0, 0)),
        (Feature::NoEval, Version(1, 1, 0)),
        (Feature::Cwd, Version(1, 3, 0)),
        (Feature::Unsquash, Version(1, 1, 0)),
        (Feature::FakerootFallback, Version(1, 1, 0)),
    ],
    evaluation: |_| Evaluation::DoubleQuotes,
};

pub(crate) const SINGULARITY_CE: Facts = Facts {
    name: "singularity-ce",
    version_names: &["singularity-ce", "singularity-pro", "singularitypro"],
    ..SINGULARITY
};

pub(crate) const SINGULARITY: Facts = Facts {
    name: "singularity",
    version_names: &["singularity"],
    command: "singularity",
    prefix: "SINGULARITY",
    obeyed_prefixes: &["SINGULARITY"],
    // cmd/internal/cli/action_flags.go, but for `--tmp-sandbox`: singularity.go beside it, v4.1.0.
    features: &[
        (Feature::Mount, Version(3, 9, 0)),
        (Feature::NoEval, Version(3, 10, 0)),
        (Feature::Cwd, Version(4, 0, 0)),
        (Feature::TmpSandbox, Version(4, 1, 0)),
    ],
    evaluation: values_of_singularity,
};

/// `injectEnvHandler` in `internal/pkg/runtime/engine/*/process_linux.go`: in Singularity since v3.6.0, up to v3.8.1
/// with Go's `%q`, which doubles backslashes, so that no dollar sign can be kept from the shell; since v3.8.2 and
/// in Apptainer since v1.0.0 between double quotes that the user's backslashes work in. v3.5 has no such shell
/// (`internal/pkg/util/env/clean.go`).
fn values_of_singularity(version: Version) -> Evaluation {
    match version {
        version if version < Version(3, 6, 0) => Evaluation::None,
        version if version < Version(3, 8, 2) => Evaluation::Plain,
        _ => Evaluation::DoubleQuotes,
    }
}
