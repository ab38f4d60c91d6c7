//! `[recipes]`: where builds of images get their bases and packages from.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::DeTable;

use super::words::words;
use crate::config::fragment::Origin;
use crate::foundation::diagnostic::Problem;
use crate::job::Fields;

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
    pub(super) fn entries(&self) -> impl Iterator<Item = (String, &Origin)> {
        fn named<'a>(
            of: &'static str,
            table: &'a BTreeMap<String, (String, Origin)>,
        ) -> impl Iterator<Item = (String, &'a Origin)> {
            table
                .iter()
                .map(move |(name, (_, origin))| (format!("recipes.{of}.{name}"), origin))
        }
        let values = self
            .values
            .iter()
            .map(|(name, (_, origin))| (format!("recipes.{name}"), origin));
        let trusted = self
            .pip_trusted
            .iter()
            .map(|(_, origin)| ("recipes.pip_trusted".to_owned(), origin));
        let tables = named("base", &self.bases).chain(named("apt_mirror", &self.apt_mirrors));
        values
            .chain(trusted)
            .chain(tables)
            .chain(named("environment", &self.environment))
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

/// Reads the table; `origin` tells the place of a byte of the file.
pub(super) fn read(
    table: &DeTable<'_>,
    origin: impl Fn(usize) -> Origin,
    problems: &mut Vec<Problem>,
) -> RecipeTable {
    let mut fields = Fields::new("recipes.", table, &[], problems);
    let mut recipes = RecipeTable::default();
    for key in TEXTS {
        if let Some(text) = fields.text(key) {
            recipes
                .values
                .insert(key, (text.value, origin(text.span.start)));
        }
    }
    let start = |key| {
        table
            .get(key)
            .map_or(0, |value: &Spanned<_>| value.span().start)
    };
    recipes.pip_trusted =
        words(&mut fields, "pip_trusted").map(|hosts| (hosts, origin(start("pip_trusted"))));
    let mut named = |key| {
        let lines = fields.text_table(key).into_iter();
        lines
            .map(|(name, value)| (name.value, (value, origin(name.span.start))))
            .collect()
    };
    recipes.bases = named("base");
    recipes.apt_mirrors = named("apt_mirror");
    recipes.environment = named("environment");
    fields.finish();
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
