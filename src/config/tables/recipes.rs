//! `[recipes]`: where builds of images get their bases and packages from.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::kinds::text_table;
use crate::foundation::toml_keys::{keys, text, texts};

keys! {
    /// `[recipes]`. Values are checked where definitions are written, which know what may stand in one.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct RecipeTable {
        /// The package index that `pip` asks; `None`: its own default.
        pip_index: Option<String> = optional(text()),
        /// A second index.
        pip_extra_index: Option<String> = optional(text()),
        /// What stands in place of `https://github.com`.
        git_mirror: Option<String> = optional(text()),
        /// A file of certificates on the building machine that downloads of the build trust.
        certificates: Option<PathBuf> = optional(text().map(|path| Some(PathBuf::from(path)))),
        /// Hosts whose certificates `pip` does not check.
        pip_trusted: Option<Vec<String>> = optional(texts()),
        /// Images to begin with, by name: URIs or absolute paths of SIF files and sandboxes.
        base: BTreeMap<String, String> = or_default(text_table()),
        /// Mirrors by what they mirror: `debian`, `debian-security`, `ubuntu`.
        apt_mirror: BTreeMap<String, String> = or_default(text_table()),
        /// Variables of the build, such as `https_proxy`. They stay in the image's definition file.
        environment: BTreeMap<String, String> = or_default(text_table()),
    }
}

impl RecipeTable {
    /// A later file replaces what is here; a user's own builds are the user's own.
    pub(super) fn lay_over(&mut self, later: &Self) {
        let later = later.clone();
        self.pip_index = later.pip_index.or(self.pip_index.take());
        self.pip_extra_index = later.pip_extra_index.or(self.pip_extra_index.take());
        self.git_mirror = later.git_mirror.or(self.git_mirror.take());
        self.certificates = later.certificates.or(self.certificates.take());
        self.pip_trusted = later.pip_trusted.or(self.pip_trusted.take());
        self.base.extend(later.base);
        self.apt_mirror.extend(later.apt_mirror);
        self.environment.extend(later.environment);
    }
}
