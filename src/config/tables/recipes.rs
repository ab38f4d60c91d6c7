//! `[recipes]`: where builds of images get their bases and packages from.

use std::collections::BTreeMap;

use crate::config::origin::{Origin, SourceFile};
use crate::foundation::toml_reader::Fields;

/// `[recipes]`. Values are checked where definitions are written, which know what may stand in one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecipeTable {
    /// `pip_index`, `pip_extra_index`, `git_mirror`, `certificates`: those that are set.
    pub values: BTreeMap<&'static str, (String, Origin)>,
    /// Hosts whose certificates `pip` does not check.
    pub pip_trusted: Option<(Vec<String>, Origin)>,
    /// `[recipes.base]`: images to begin with, by name.
    pub bases: BTreeMap<String, (String, Origin)>,
    /// `[recipes.apt_mirror]`: mirrors by what they mirror.
    pub apt_mirrors: BTreeMap<String, (String, Origin)>,
    /// `[recipes.environment]`: variables of the build.
    pub environment: BTreeMap<String, (String, Origin)>,
}

/// The keys that hold one text.
const TEXTS: [&str; 4] = ["pip_index", "pip_extra_index", "git_mirror", "certificates"];

impl RecipeTable {
    /// A later file replaces what is here; a user's own builds are the user's own.
    pub(super) fn lay_over(&mut self, later: &Self) {
        self.values.extend(later.values.clone());
        self.pip_trusted = later.pip_trusted.clone().or(self.pip_trusted.take());
        self.bases.extend(later.bases.clone());
        self.apt_mirrors.extend(later.apt_mirrors.clone());
        self.environment.extend(later.environment.clone());
    }
}

/// Reads the table.
pub(super) fn read(fields: &mut Fields<'_>, source: &SourceFile<'_>) -> RecipeTable {
    let mut recipes = RecipeTable::default();
    for key in TEXTS {
        let text = fields.text(key);
        let origin = source.origin(&fields.span(key));
        recipes
            .values
            .extend(text.map(|text| (key, (text, origin))));
    }
    recipes.pip_trusted = fields.texts("pip_trusted").map(|hosts| {
        let origin = source.origin(&fields.span("pip_trusted"));
        (hosts, origin)
    });
    let mut named = |key| {
        let lines = fields.text_table(key).into_iter();
        lines
            .map(|(name, value)| (name.value, (value, source.origin(&name.span))))
            .collect()
    };
    recipes.bases = named("base");
    recipes.apt_mirrors = named("apt_mirror");
    recipes.environment = named("environment");
    recipes
}
