//! Definition files of images, written from recipes for a target. Pure.
//!
//! A recipe is a template: a header that says what it makes and of which versions, and the text of a definition file with
//! `{{placeholders}}`. dlrun has some built in ([`built_in`]); those of the site and of the user are read beside them and win.
//! The same target, site and recipes give the same definition, byte for byte, so that its hash names it.
//!
//! Nothing that a person wrote gets into a definition as it is: words are looked up in tables, versions select a pin, and what
//! comes from settings must be plain (`values.rs`) or is refused.

mod built_in;
mod choice;
mod definition;
mod directory;
mod fill;
mod header;
mod values;

use crate::config::VersionRange;
use crate::image::catalogue::Accelerator;
use crate::job::Provenance;

pub use built_in::built_in;
pub use definition::{Definition, definition};
pub use directory::recipes_in;
pub use header::{Pin, Recipe};

/// What an image is wanted for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Target {
    /// `tensorflow`, `pytorch`, `keras`, `mxnet`, `jax`, or what a recipe of the site calls its own.
    pub framework: String,
    /// Versions that will do; `None`: the recipe's first.
    pub version: Option<VersionRange>,
    /// Where the framework is to come from; `None`: from wherever the first recipe that fits takes it.
    pub provenance: Option<Provenance>,
    /// The graph compiler: `xla`, `inductor`, .., or `none`; `None`: any.
    pub compiler: Option<String>,
    /// What it computes on.
    pub accelerator: Accelerator,
    /// As `uname -m` has it.
    pub arch: String,
    /// The least processor that it must run on, which source builds are optimised for: `x86-64-v3`, `skylake_avx512`.
    pub microarch: Option<String>,
    /// Versions of CUDA that will do, such as `<=12.4` for an older driver.
    pub cuda: Option<VersionRange>,
    /// Python packages to put in beside the framework, as requirements of pip: `scikit-learn==1.7.2`.
    pub with: Vec<String>,
    /// The recipe to take, by its name.
    pub recipe: Option<String>,
}

impl Target {
    /// Any version of `framework`, for CPUs of `arch`.
    #[must_use]
    pub fn new(framework: &str, arch: &str) -> Self {
        Self {
            framework: framework.to_owned(),
            arch: arch.to_owned(),
            ..Self::default()
        }
    }
}
