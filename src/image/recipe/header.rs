//! A recipe as its file has it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::VersionRange;
use crate::foundation::diagnostic::{Problem, nearest};
use crate::foundation::units::Bytes;
use crate::image::catalogue::Accelerator;
use crate::job::Provenance;

/// What its lines begin with.
const MARK: &str = "# dlrun:";

const KEYS: [&str; 10] = [
    "framework",
    "provenance",
    "about",
    "accelerators",
    "archs",
    "compilers",
    "base",
    "disk",
    "note",
    "pin",
];

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
    /// With everything that is wrong, each with its place.
    pub fn parse(name: &str, path: Option<&Path>, text: &str) -> Result<Self, Vec<Problem>> {
        let mut reader = Reader::default();
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            if !line.trim().is_empty() && !line.starts_with('#') {
                break;
            }
            if let Some(rest) = line.strip_prefix(MARK) {
                reader.line(at + MARK.len(), rest);
            }
            at += line.len();
        }
        let body = text.get(at..).unwrap_or_default().to_owned();
        if !is_word(name) {
            reader.problem(
                0..0,
                format!("{name:?} is no name of a recipe: letters, digits and `. _ + -`"),
            );
        }
        if body.trim().is_empty() {
            reader.problem(0..0, "there is no definition below the header".into());
        }
        if text
            .chars()
            .any(|c| c.is_control() && c != '\n' && c != '\t')
        {
            reader.problem(0..0, "the file holds control characters".into());
        }
        reader.finish(name, path, body)
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

/// A header while it is read.
#[derive(Default)]
struct Reader {
    texts: BTreeMap<&'static str, String>,
    notes: Vec<String>,
    pins: Vec<Pin>,
    problems: Vec<Problem>,
}

impl Reader {
    fn problem(&mut self, span: std::ops::Range<usize>, message: String) {
        self.problems.push(Problem::at(span, message));
    }

    fn line(&mut self, at: usize, rest: &str) {
        let span = at..at + rest.trim_end().len();
        let Some((key, value)) = rest.split_once('=') else {
            return self.problem(
                span,
                "a line of the header is written `# dlrun: key = value`".into(),
            );
        };
        let (key, value) = (key.trim(), value.trim());
        let Some(known) = KEYS.into_iter().find(|known| *known == key) else {
            let problem = Problem::at(span, format!("unknown key `{key}`"));
            let guess = nearest(key, KEYS)
                .map_or_else(|| KEYS.join(", "), |key| format!("did you mean `{key}`?"));
            return self.problems.push(problem.hinted(guess));
        };
        match known {
            "pin" => match pin(value) {
                Ok(pin) => self.pins.push(pin),
                Err(why) => self.problem(span, why),
            },
            "note" => self.notes.push(value.to_owned()),
            _ => {
                if self.texts.insert(known, value.to_owned()).is_some() {
                    self.problem(span, format!("`{known}` is written twice"));
                }
            }
        }
    }

    fn words(&self, key: &str, default: &str) -> Vec<String> {
        let text = self.texts.get(key).map_or(default, String::as_str);
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn finish(
        mut self,
        name: &str,
        path: Option<&Path>,
        body: String,
    ) -> Result<Recipe, Vec<Problem>> {
        for key in ["framework", "provenance", "base", "pin"] {
            if !self.texts.contains_key(key) && (key != "pin" || self.pins.is_empty()) {
                self.problem(0..0, format!("the header needs `# dlrun: {key} = ...`"));
            }
        }
        let text = |key: &str| self.texts.get(key).cloned().unwrap_or_default();
        let mut wrong = Vec::new();
        let provenance = text("provenance");
        let provenance = Provenance::from_word(&provenance);
        if provenance.is_none() {
            wrong.push(format!(
                "`provenance` must be hub, pip or source, not {:?}",
                text("provenance")
            ));
        }
        let mut accelerators = Vec::new();
        for word in self.words("accelerators", "none") {
            match accelerator(&word) {
                Ok(accelerator) => accelerators.push(accelerator),
                Err(why) => wrong.push(why),
            }
        }
        let disk = self.texts.get("disk").map(|text| Bytes::parse(text));
        if let Some(Err(why)) = &disk {
            wrong.push(format!("`disk`: {why}"));
        }
        let (archs, compilers) = (
            self.words("archs", "x86_64"),
            self.words("compilers", "none"),
        );
        let framework = text("framework");
        for word in archs
            .iter()
            .chain(&compilers)
            .chain([&framework])
            .filter(|word| !is_word(word))
        {
            wrong.push(format!(
                "{word:?} is no word of letters, digits and `. _ + -`"
            ));
        }
        let (about, base) = (text("about"), text("base"));
        self.problems
            .extend(wrong.into_iter().map(|message| Problem::at(0..0, message)));
        let (Some(provenance), true) = (provenance, self.problems.is_empty()) else {
            return Err(self.problems);
        };
        Ok(Recipe {
            name: name.to_owned(),
            path: path.map(Path::to_owned),
            framework,
            provenance,
            about,
            accelerators,
            archs,
            compilers,
            base,
            disk: disk.and_then(Result::ok),
            notes: self.notes,
            pins: self.pins,
            body,
        })
    }
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
    if !is_word(version) {
        return Err(format!("{version:?} is no version"));
    }
    let mut pin = Pin {
        version: version.to_owned(),
        ..Pin::default()
    };
    for word in words {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| format!("{word:?} is not written `key=value`"))?;
        match key {
            "accelerator" => pin.accelerator = Some(accelerator(value)?),
            "arch" => pin.arch = Some(value.to_owned()),
            "compiler" => pin.compilers = value.split(',').map(str::to_owned).collect(),
            "with" => pin.with.push(value.to_owned()),
            _ if !crate::image::recipe::fill::is_name(key) => {
                return Err(format!("{key:?} is no name of a placeholder"));
            }
            _ => {
                pin.values.insert(key.to_owned(), value.to_owned());
            }
        }
    }
    Ok(pin)
}

/// A word that is safe in names of files, of labels and in a definition.
pub(crate) fn is_word(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.len() <= 100
        && text.chars().all(allowed)
}
