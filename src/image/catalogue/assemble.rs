//! All files together: whose description counts, and which check belongs to it.

use std::collections::{BTreeMap, HashMap};

use crate::config::Owner;
use crate::foundation::diagnostic::nearest;
use crate::image::catalogue::entry::{Check, Entry};
use crate::image::catalogue::read::CatalogueFile;

/// What is known of images.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Catalogue {
    /// The images, each name once, in the order of the names; each with its latest check.
    pub entries: Vec<Entry>,
    /// Images of the site in whose place the user's own of that name counts.
    pub overridden: Vec<Entry>,
    /// What is wrong with files of the site: they are passed over, since one of them must not stop everybody.
    pub warnings: Vec<String>,
}

impl Catalogue {
    /// Lays the files together. Of two descriptions of one name the user's counts; two of the site are named, and the one
    /// counts whose file comes first.
    ///
    /// # Errors
    /// Which image two of the user's own files describe.
    pub fn assemble(files: Vec<CatalogueFile>) -> Result<Self, String> {
        let mut catalogue = Self::default();
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        let mut checks: HashMap<String, Check> = HashMap::new();
        let (site, user): (Vec<CatalogueFile>, Vec<CatalogueFile>) = files
            .into_iter()
            .partition(|file| file.owner == Owner::Site);
        for file in site.into_iter().chain(user) {
            for entry in file.entries {
                let Some(known) = entries.get_mut(&entry.name) else {
                    entries.insert(entry.name.clone(), entry);
                    continue;
                };
                if known.owner != entry.owner {
                    catalogue.overridden.push(std::mem::replace(known, entry));
                    continue;
                }
                let twice = format!(
                    "the image `{}` is described twice: {} and {}",
                    entry.name, known.origin, entry.origin
                );
                if entry.owner == Owner::User {
                    return Err(twice);
                }
                catalogue
                    .warnings
                    .push(format!("{twice}; the first counts"));
            }
            for check in file.checks {
                let known = checks.get(&check.image);
                if known.is_none_or(|known| known.at_ms <= check.at_ms) {
                    checks.insert(check.image.clone(), check);
                }
            }
        }
        catalogue.entries = entries.into_values().collect();
        for entry in &mut catalogue.entries {
            entry.check = checks.remove(&entry.name);
        }
        Ok(catalogue)
    }

    /// The image of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The name that a mistyped one most likely meant.
    #[must_use]
    pub fn nearest(&self, name: &str) -> Option<&str> {
        nearest(name, self.entries.iter().map(|entry| entry.name.as_str()))
    }
}
