//! A recipe as its file has it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::config::VersionRange;

use crate::foundation::units::Bytes;
use crate::image::catalogue::{Accelerator, name_problem};
use crate::job::Provenance;

/// What its lines begin with.
const MARK: &str = "# dlrun:";

/// A template of definition files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// The file's name without `.def`.
    pub name: String,
    /// Its file; `None`: built into dlrun.
    pub path: Option<PathBuf>,
    /// What it makes.
    pub framework: String,
    /// Where it gets it from.
    pub provenance: Provenance,
    /// One line for people.
    pub about: String,
    /// What it can be made for.
    pub accelerators: Vec<Accelerator>,
    /// Processors, as `uname -m` has them.
    pub archs: Vec<String>,
    /// Graph compilers, the one that is taken when none is asked for first; `none` among them.
    pub compilers: Vec<String>,
    /// The name of the image that it begins with, and where that is if the site does not say, with placeholders.
    pub base: String,
    /// About what the build takes on disk.
    pub disk: Option<Bytes>,
    /// What the user should know, with placeholders and conditions.
    pub notes: Vec<String>,
    /// Versions, the one that is taken when none is asked for first.
    pub pins: Vec<Pin>,
    /// The definition file's text, with placeholders and conditions.
    pub body: String,
}

/// A version that a recipe knows how to make.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pin {
    /// The version.
    pub version: String,
    /// The accelerator that it is for; `None`: any of the recipe's.
    pub accelerator: Option<Accelerator>,
    /// The processor that it is for; `None`: any of the recipe's.
    pub arch: Option<String>,
    /// The graph compilers that it has; empty: all of the recipe's.
    pub compilers: Vec<String>,
    /// Requirements of `pip` beside the framework: `numpy<2`.
    pub with: Vec<String>,
    /// Everything else, as placeholders: `python`, `cuda`, `commit`.
    pub values: BTreeMap<String, String>,
}

impl Recipe {
    /// Reads the text of `NAME.def`. `path` is `None` for what is built in.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(name: &str, path: Option<&Path>, text: &str) -> Result<Self, String> {
        word(name)?;
        let is_control = |c: char| c.is_control() && c != '\n' && c != '\t';
        if text.chars().any(is_control) {
            return Err("the file holds control characters".to_owned());
        }
        let is_header = |line: &&str| line.trim().is_empty() || line.starts_with('#');
        let header: Vec<&str> = text.split_inclusive('\n').take_while(is_header).collect();
        let body = &text[header.iter().map(|line| line.len()).sum()..];
        if body.trim().is_empty() {
            return Err("there is no definition below the header".to_owned());
        }
        let mut recipe = Self {
            name: name.to_owned(),
            path: path.map(Path::to_owned),
            framework: String::new(),
            provenance: Provenance::Pip,
            about: String::new(),
            accelerators: vec![Accelerator::None],
            archs: vec!["x86_64".to_owned()],
            compilers: vec!["none".to_owned()],
            base: String::new(),
            disk: None,
            notes: Vec::new(),
            pins: Vec::new(),
            body: body.to_owned(),
        };
        let mut seen = BTreeSet::new();
        for (number, line) in header.iter().enumerate() {
            if let Some(rest) = line.strip_prefix(MARK) {
                let at = |why: String| format!("line {}: {why}", number + 1);
                let key = recipe.read_line(rest).map_err(at)?;
                if !seen.insert(key) && !["note", "pin"].contains(&key) {
                    return Err(at(format!("`{key}` is written twice")));
                }
            }
        }
        let needed = ["framework", "provenance", "base", "pin"];
        match needed.into_iter().find(|key| !seen.contains(key)) {
            Some(key) => Err(format!("the header needs `# dlrun: {key} = ...`")),
            None => Ok(recipe),
        }
    }

    /// Reads a line of the header, `key = value`; returns the key.
    fn read_line<'l>(&mut self, line: &'l str) -> Result<&'l str, String> {
        let (key, value) = line
            .split_once('=')
            .ok_or("a line of the header is written `# dlrun: key = value`")?;
        let (key, value) = (key.trim(), value.trim());
        match key {
            "framework" => self.framework = word(value)?,
            "provenance" => {
                self.provenance = Provenance::from_word(value).ok_or_else(|| {
                    format!("`provenance` must be hub, pip or source, not {value:?}")
                })?;
            }
            "about" => value.clone_into(&mut self.about),
            "accelerators" => self.accelerators = each(value, accelerator)?,
            "archs" => self.archs = each(value, word)?,
            "compilers" => self.compilers = each(value, word)?,
            "base" => value.clone_into(&mut self.base),
            "disk" => {
                let disk = Bytes::parse(value).map_err(|why| format!("`disk`: {why}"))?;
                self.disk = Some(disk);
            }
            "note" => self.notes.push(value.to_owned()),
            "pin" => self.pins.push(pin(value)?),
            _ => return Err(format!("unknown key `{key}`")),
        }
        Ok(key)
    }

    /// The name and where it is from, for people.
    #[must_use]
    pub fn shown(&self) -> String {
        match &self.path {
            Some(path) => format!("{} ({})", self.name, path.display()),
            None => format!("{} (built in)", self.name),
        }
    }
}

fn each<T>(text: &str, read: fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split_whitespace().map(read).collect()
}

fn accelerator(word: &str) -> Result<Accelerator, String> {
    Accelerator::from_word(word)
        .ok_or_else(|| format!("an accelerator is none, nvidia or amd, not {word:?}"))
}

/// `2.15.1 python=3.11 with=numpy<2`.
fn pin(text: &str) -> Result<Pin, String> {
    let mut words = text.split_whitespace();
    let version = words.next().unwrap_or_default();
    VersionRange::parse(version)?;
    let mut pin = Pin {
        version: word(version)?,
        ..Pin::default()
    };
    for text in words {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| format!("{text:?} is not written `key=value`"))?;
        match key {
            "accelerator" => pin.accelerator = Some(accelerator(value)?),
            "arch" => pin.arch = Some(value.to_owned()),
            "compiler" => pin.compilers = value.split(',').map(str::to_owned).collect(),
            "with" => pin.with.push(value.to_owned()),
            _ if !crate::image::recipe::fill::is_name(key) => {
                return Err(format!("{key:?} is not a placeholder name"));
            }
            _ => {
                pin.values.insert(key.to_owned(), value.to_owned());
            }
        }
    }
    Ok(pin)
}

/// A word that is safe in names of files, of labels and in a definition.
fn word(text: &str) -> Result<String, String> {
    match name_problem(text) {
        None => Ok(text.to_owned()),
        Some(_) => Err(format!(
            "{text:?} is not a word of letters, digits and `. _ + -`"
        )),
    }
}
