//! The models of a user: files `NAME.model` in `models` of the state directory, and `current`, which names the one in use.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::app::error::{Error, Kind, failure};
use crate::app::job::source::cannot_read;
use crate::app::session::Session;
use crate::foundation::private::{PrivateDir, if_there};
use crate::learn::model::{Model, Unreadable};

/// How names of model files end.
const ENDING: &str = ".model";
const CURRENT: &str = "current";
/// The longest name.
const MAX_NAME: usize = 100;

/// Says whether a text may be the name of a model: it becomes the name of a file.
pub(crate) fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    text.len() <= MAX_NAME
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(allowed)
}

/// The directory of one's own models.
#[derive(Debug)]
pub(crate) struct Shelf {
    dir: PrivateDir,
}

impl Shelf {
    /// Opens it; `None` where there is none.
    pub(crate) fn open(session: &Session) -> Result<Option<Self>, Error> {
        let models = session.settings.state_dir().join("models");
        let dir = if_there(PrivateDir::open(&models))?;
        Ok(dir.map(|dir| Self { dir }))
    }

    /// Opens it, making what is missing.
    pub(crate) fn create(session: &Session) -> Result<Self, Error> {
        let state = session.state()?;
        let dir = PrivateDir::create(&state.path().join("models"))?;
        Ok(Self { dir })
    }

    /// The name of the model in use.
    pub(crate) fn current(&self) -> Result<Option<String>, Error> {
        let Some(bytes) = if_there(self.dir.read(CURRENT, MAX_NAME + 1))? else {
            return Ok(None);
        };
        let name = String::from_utf8(bytes)
            .ok()
            .map(|text| text.trim_end().to_owned());
        let Some(name) = name.filter(|name| is_name(name)) else {
            let path = self.dir.path().join(CURRENT);
            return Err(failure!(
                Data,
                "`{}` does not hold the name of a model",
                path.display()
            )
            .hinted("`dlrun model fit` writes a new one"));
        };
        Ok(Some(name))
    }

    /// Where a model of this name lies.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}{ENDING}"))
    }

    /// Reads a model.
    pub(crate) fn model(&self, name: &str) -> Result<(Model, PathBuf), Error> {
        let file = self
            .dir
            .open_file(&format!("{name}{ENDING}"))
            .map_err(|error| {
                if error.is_missing() {
                    return failure!(Missing, "there is no model `{}`", self.path(name).display())
                        .hinted(self.hint());
                }
                error.into()
            })?;
        let path = self.path(name);
        Ok((model_in(file, &path)?, path))
    }

    fn hint(&self) -> String {
        match self.names() {
            Ok(names) if !names.is_empty() => format!("there are: {}", names.join(", ")),
            _ => "`dlrun model fit` creates one".to_owned(),
        }
    }

    /// Keeps a model; one of this name is replaced.
    pub(crate) fn keep(&self, name: &str, model: &Model) -> Result<PathBuf, Error> {
        self.dir
            .replace(&format!("{name}{ENDING}"), &model.to_bytes())?;
        Ok(self.path(name))
    }

    /// Takes a model into use.
    pub(crate) fn make_current(&self, name: &str) -> Result<(), Error> {
        self.dir
            .replace(CURRENT, format!("{name}\n").as_bytes())
            .map_err(Error::from)
    }

    /// The names of the models, by name.
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        let files = self.dir.names()?;
        let named = |file: &String| {
            file.strip_suffix(ENDING)
                .filter(|name| is_name(name))
                .map(str::to_owned)
        };
        let mut names: Vec<String> = files.iter().filter_map(named).collect();
        names.sort();
        Ok(names)
    }

    /// Removes all but the newest `keep` models beside the one in use and `also`; returns the names of the others. Newest are those
    /// that were written last.
    pub(crate) fn prune(&self, keep: usize, also: &str) -> Result<Vec<String>, Error> {
        let current = self.current().ok().flatten();
        let mut others: Vec<(std::time::SystemTime, String)> = Vec::new();
        for name in self.names()? {
            if name != also && Some(&name) != current.as_ref() {
                let written = self
                    .path(&name)
                    .symlink_metadata()
                    .and_then(|file| file.modified());
                others.push((written.unwrap_or(std::time::UNIX_EPOCH), name));
            }
        }
        others.sort();
        // Of those that are kept the new one is one, where it is not in use.
        let kept = keep.saturating_sub(usize::from(current.as_deref() != Some(also)));
        let gone = others.len().saturating_sub(kept);
        others.truncate(gone);
        let names: Vec<String> = others.into_iter().map(|(_, name)| name).collect();
        for name in &names {
            self.dir.remove(&format!("{name}{ENDING}"))?;
        }
        Ok(names)
    }
}

/// No model's file is larger, in bytes.
const MOST: u64 = 1 << 29;

/// Reads the model in `file`, which `path` names.
pub(super) fn model_in(file: File, path: &Path) -> Result<Model, Error> {
    let unreadable = |error| cannot_read(path.display(), &error);
    let its = file.metadata().map_err(unreadable)?;
    if !its.is_file() {
        return Err(failure!(Data, "`{}` is not a file", path.display()));
    }
    if its.len() > MOST {
        return Err(failure!(Data, "`{}` has more than 512 MiB", path.display())
            .hinted("`dlrun model fit` makes another"));
    }
    let length = usize::try_from(its.len()).unwrap_or_default();
    let mut bytes = Vec::new();
    let reserved = bytes.try_reserve_exact(length);
    reserved.map_err(|error| unreadable(error.into()))?;
    file.take(MOST)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    Model::from_bytes(&bytes).map_err(|why| unusable(&why, path))
}

/// Why a model cannot be used.
fn unusable(why: &Unreadable, path: &Path) -> Error {
    let (kind, hint) = match why {
        Unreadable::Newer { .. } => (
            Kind::Config,
            "use the dlrun that wrote it, or fit another with this one: `dlrun model fit`",
        ),
        _ => (Kind::Data, "`dlrun model fit` makes another"),
    };
    Error::new(
        kind,
        format!("cannot use the model `{}`: {why}", path.display()),
    )
    .hinted(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_path_and_no_option() {
        assert!(is_name("2026-11-22-3fa9c1d2") && is_name("a"));
        for text in [
            "",
            ".",
            "..",
            "../../x",
            "a/b",
            "-x",
            "a b",
            "a\nb",
            "$(id)",
            "é",
            &"a".repeat(101),
        ] {
            assert!(!is_name(text), "{text:?}");
        }
    }
}
