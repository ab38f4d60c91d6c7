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
    /// Every entry by its name, with its place.
    pub(super) fn entries(&self) -> Vec<(String, &Origin)> {
        let mut all = Vec::new();
        let values = self.values.iter();
        all.extend(values.map(|(name, (_, at))| (format!("recipes.{name}"), at)));
        let trusted = self.pip_trusted.iter();
        all.extend(trusted.map(|(_, at)| ("recipes.pip_trusted".to_owned(), at)));
        let tables = [
            ("base", &self.bases),
            ("apt_mirror", &self.apt_mirrors),
            ("environment", &self.environment),
        ];
        for (of, table) in tables {
            let table = table.iter();
            all.extend(table.map(|(name, (_, at))| (format!("recipes.{of}.{name}"), at)));
        }
        all
    }

    /// Takes what a later file says in place of what stands here; a user's own builds are the user's own.
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::{Defaults, Fragment, Settings};

    const SITE: &str = r#"
[recipes]
pip_index = "https://mirror.example/simple"
pip_trusted = ["mirror.example"]
[recipes.base]
"python-3.11" = "/images/python-3.11.sif"
[recipes.apt_mirror]
debian = "https://mirror.example/debian"
[recipes.environment]
https_proxy = "http://proxy.example:3128"
"#;

    #[test]
    fn a_users_file_adds_to_the_sites_and_wins() {
        let own = "[recipes]\npip_index = \"https://own.example/simple\"\n[recipes.base]\n\"cuda-12\" = \"/c.sif\"\n";
        let fragments = [
            Fragment::from_toml(Path::new("/site.toml"), SITE),
            Fragment::from_toml(Path::new("/own.toml"), own).of_user(),
        ];
        assert!(
            fragments
                .iter()
                .all(|fragment| fragment.errors.is_empty() && fragment.unknown.is_empty())
        );
        let defaults = Defaults {
            state_dir: Some("/s".into()),
        };
        let settings = Settings::merge(&defaults, &fragments).expect("settings");
        let recipes = &settings.tables().recipes;
        assert_eq!(recipes.values["pip_index"].0, "https://own.example/simple");
        assert_eq!(recipes.bases["python-3.11"].1.to_string(), "/site.toml:6");
        let names: Vec<_> = settings
            .tables()
            .entries()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(
            names,
            [
                "recipes.pip_index",
                "recipes.pip_trusted",
                "recipes.base.cuda-12",
                "recipes.base.python-3.11",
                "recipes.apt_mirror.debian",
                "recipes.environment.https_proxy"
            ]
        );
    }

    #[test]
    fn mistakes_have_their_place() {
        for (text, line, part) in [
            (
                "[recipes]\npip_indx = \"x\"\n",
                2,
                "did you mean `pip_index`?",
            ),
            ("[recipes]\nbase = \"x\"\n", 2, "recipes.base"),
            ("[recipes.base]\na = 3\n", 2, "text"),
            ("recipes = 3\n", 1, "must be a table, written [recipes]"),
        ] {
            let fragment = Fragment::from_toml(Path::new("/c.toml"), text);
            let problem = fragment.errors.first().unwrap_or_else(|| panic!("{text}"));
            let shown = format!(
                "{} {}",
                problem.message,
                problem.hint.clone().unwrap_or_default()
            );
            assert_eq!(
                problem.position(text).map(|(line, _)| line),
                Some(line),
                "{shown}"
            );
            assert!(shown.contains(part), "{shown}");
        }
    }
}
