//! One file of `images.d`, out of its text.
//!
//! An unknown key is an error: an image whose condition was passed over would be chosen for jobs that it does not run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::{Origin, Owner, VersionRange, read_arch};
use crate::foundation::diagnostic::{Problem, nearest};
use crate::image::catalogue::entry::{Accelerator, Check, Entry, FileState, Place};
use crate::image::catalogue::name::name_problem;
use crate::job::{Fields, Located, Provenance, read_uri, word};

/// The version of the form that is written.
pub const FORMAT: u64 = 1;

/// Moments after the year 5138 are mistakes, in Unix milliseconds.
const LAST_MOMENT_MS: u64 = 100_000_000_000_000;

/// What one file holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CatalogueFile {
    /// The file.
    pub path: PathBuf,
    /// Whose it is.
    pub owner: Owner,
    /// Its images, in their order.
    pub entries: Vec<Entry>,
    /// Its checks, in their order.
    pub checks: Vec<Check>,
    /// What is wrong in it. An image or a check with a fault is not among the others.
    pub problems: Vec<Problem>,
}

/// Reads the text of a file; `path` is for the origins.
#[must_use]
pub fn read(path: &Path, text: &str, owner: Owner) -> CatalogueFile {
    let mut file = CatalogueFile {
        path: path.to_owned(),
        owner,
        ..CatalogueFile::default()
    };
    let (document, syntax) = DeTable::parse_recoverable(text);
    for error in &syntax {
        let message = error.message().trim().replace('\n', "; ");
        file.problems.push(Problem {
            span: error.span(),
            message,
            hint: None,
        });
    }
    if !syntax.is_empty() {
        return file;
    }
    let table = document.get_ref();
    if let Some(problem) = format_problem(table) {
        file.problems.push(problem);
        return file;
    }
    for (key, value) in table {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("format", _) => {}
            ("image", DeValue::Array(list)) => read_images(&mut file, text, list),
            ("check", DeValue::Array(list)) => read_checks(&mut file, list),
            (name @ ("image" | "check"), _) => {
                file.problems.push(Problem::at(
                    value.span(),
                    format!("`{name}` is written [[{name}]]"),
                ));
            }
            (name, _) => {
                let problem = Problem::at(key.span(), format!("unknown key `{name}`"));
                file.problems
                    .push(match nearest(name, ["format", "image", "check"]) {
                        Some(guess) => problem.hinted(format!("did you mean `{guess}`?")),
                        None => problem.hinted("known here: format, [[image]], [[check]]"),
                    });
            }
        }
    }
    file.problems
        .sort_by_key(|problem| problem.span.as_ref().map(|span| span.start));
    file
}

/// A file of a later form is not read at all: what it says may mean something else.
fn format_problem(table: &DeTable<'_>) -> Option<Problem> {
    let value = table.get("format")?;
    let number = value.get_ref().as_integer();
    let number =
        number.and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok());
    match number {
        Some(FORMAT) => None,
        Some(later) if later > FORMAT => Some(
            Problem::at(
                value.span(),
                format!("`format = {later}` is not in this version of dlrun"),
            )
            .hinted(format!(
                "the file was made for a newer dlrun; this one reads format {FORMAT}"
            )),
        ),
        _ => Some(Problem::at(
            value.span(),
            format!("`format` must be {FORMAT}"),
        )),
    }
}

/// Tells lines of places that are asked for in their order, so that a long file is read through once.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl Lines<'_> {
    fn of(&mut self, start: usize) -> usize {
        if start < self.at {
            (self.at, self.line) = (0, 1);
        }
        self.line += self.text[self.at..start]
            .bytes()
            .filter(|byte| *byte == b'\n')
            .count();
        self.at = start;
        self.line
    }
}

type List<'a> = [Spanned<DeValue<'a>>];

fn tables<'a>(
    name: &str,
    list: &'a List<'a>,
    problems: &mut Vec<Problem>,
) -> Vec<(&'a Spanned<DeValue<'a>>, &'a DeTable<'a>)> {
    let mut found = Vec::new();
    for value in list {
        match value.get_ref().as_table() {
            Some(table) => found.push((value, table)),
            None => problems.push(Problem::at(
                value.span(),
                format!("`{name}` is written [[{name}]]"),
            )),
        }
    }
    found
}

fn read_images(file: &mut CatalogueFile, text: &str, list: &List<'_>) {
    let mut lines = Lines {
        text,
        at: 0,
        line: 1,
    };
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (value, table) in tables("image", list, &mut file.problems) {
        let line = lines.of(value.span().start);
        let origin = Origin::File {
            path: file.path.clone(),
            line,
        };
        let Some(entry) = read_image(table, value, (file.owner, origin), &mut file.problems) else {
            continue;
        };
        match places.get(&entry.name) {
            Some(first) => file.problems.push(
                Problem::at(
                    value.span(),
                    format!("there is another image `{}` in line {first}", entry.name),
                )
                .hinted("give one of them another name"),
            ),
            None => {
                places.insert(entry.name.clone(), line);
                file.entries.push(entry);
            }
        }
    }
}

fn read_image(
    table: &DeTable<'_>,
    value: &Spanned<DeValue<'_>>,
    (owner, origin): (Owner, Origin),
    problems: &mut Vec<Problem>,
) -> Option<Entry> {
    let before = problems.len();
    let mut fields = Fields::new("image.", table, &[], problems);
    let name = fields.parsed("name", read_name);
    let place = read_place(&mut fields, value);
    let framework = fields.parsed("framework", word);
    let version = fields.parsed("version", read_version);
    let provenance = plain(fields.word("provenance", &Provenance::WORDS, &[]));
    let arch = plain(fields.parsed("arch", read_arch));
    let microarch = plain(fields.parsed("microarch", word));
    let accelerator = plain(fields.word("accelerator", &Accelerator::WORDS, &[]));
    let mut version_of = |key| plain(fields.parsed(key, read_version));
    let (cuda, rocm, python) = (version_of("cuda"), version_of("rocm"), version_of("python"));
    let compute_capability = plain(fields.parsed("compute_capability", VersionRange::parse));
    let compilers = words(&mut fields, "compilers");
    let packages = fields
        .texts("packages")
        .map(|list| list.value)
        .unwrap_or_default();
    let mpi = plain(fields.parsed("mpi", line_of_text));
    let digest = plain(fields.parsed("digest", read_digest));
    let recipe = plain(fields.parsed("recipe", line_of_text));
    let built_by = plain(fields.parsed("built_by", line_of_text));
    let needs_fakeroot = fields.boolean("needs_fakeroot").unwrap_or(false);
    for key in ["name", "framework", "version"] {
        if !fields.holds(key) {
            fields.problem(Problem::at(value.span(), format!("an image needs `{key}`")));
        }
    }
    fields.finish();
    if problems.len() > before {
        return None;
    }
    Some(Entry {
        name: name?.value,
        place: place?,
        framework: framework?.value,
        version: version?.value,
        provenance,
        arch: arch.unwrap_or_else(|| "x86_64".to_owned()),
        microarch,
        accelerator: accelerator.unwrap_or_default(),
        cuda,
        compute_capability,
        rocm,
        compilers,
        python,
        packages: packages.into_iter().map(|package| package.value).collect(),
        mpi,
        digest,
        recipe,
        built_by,
        needs_fakeroot,
        owner,
        origin,
        check: None,
        file: FileState::NotLooked,
    })
}

fn plain<T>(located: Option<Located<T>>) -> Option<T> {
    located.map(|located| located.value)
}

fn read_place(fields: &mut Fields<'_>, value: &Spanned<DeValue<'_>>) -> Option<Place> {
    let path = fields.parsed("path", |text| match Place::parse(text)? {
        place @ Place::Path(_) => Ok(place),
        Place::Uri(_) => Err(format!("{text:?} is a URI; write it as `uri`")),
    });
    let uri = fields.parsed("uri", |text| read_uri(text).map(Place::Uri));
    if fields.holds("path") == fields.holds("uri") {
        let message = "an image needs one of `path` and `uri`";
        fields.problem(Problem::at(value.span(), message));
    }
    path.or(uri).map(|place| place.value)
}

fn read_checks(file: &mut CatalogueFile, list: &List<'_>) {
    for (value, table) in tables("check", list, &mut file.problems) {
        let before = file.problems.len();
        let check = read_check(table, value, &mut file.problems);
        file.checks
            .extend(check.filter(|_| file.problems.len() == before));
    }
}

fn read_check(
    table: &DeTable<'_>,
    value: &Spanned<DeValue<'_>>,
    problems: &mut Vec<Problem>,
) -> Option<Check> {
    let mut fields = Fields::new("check.", table, &[], problems);
    let image = fields.parsed("image", read_name);
    let at_ms = fields.number("at_ms", 0..LAST_MOMENT_MS);
    let mut text = |key| fields.text(key).map(|text: Located<String>| text.value);
    let (host, runtime, mpi_abi) = (text("host"), text("runtime"), text("mpi_abi"));
    let size_bytes = plain(fields.number("size_bytes", 0..i64::MAX.unsigned_abs()));
    let modified_ms = plain(fields.number("modified_ms", 0..LAST_MOMENT_MS));
    let digest = plain(fields.parsed("digest", read_digest));
    let mut texts = |key| {
        let list = fields.texts(key).map(|list| list.value).unwrap_or_default();
        list.into_iter()
            .map(|text: Located<String>| text.value)
            .collect::<Vec<_>>()
    };
    let (found, compilers) = (texts("problems"), texts("compilers"));
    let versions = fields
        .text_table("versions")
        .into_iter()
        .map(|(name, version)| (name.value, version));
    let versions: BTreeMap<String, String> = versions.collect();
    let gpus = fields
        .number("gpus", 0..u64::from(u32::MAX))
        .and_then(|count| u32::try_from(count.value).ok());
    for key in ["image", "at_ms", "host", "runtime"] {
        if !fields.holds(key) {
            fields.problem(Problem::at(value.span(), format!("a check needs `{key}`")));
        }
    }
    fields.finish();
    Some(Check {
        image: image?.value,
        at_ms: at_ms?.value,
        host: host?,
        runtime: runtime?,
        size_bytes,
        modified_ms,
        digest,
        problems: found,
        versions,
        compilers,
        gpus,
        mpi_abi,
    })
}

fn read_name(text: &str) -> Result<String, String> {
    name_problem(text).map_or_else(|| Ok(text.to_owned()), Err)
}

/// A version begins with a number and has no blanks: `2.4.1`, `2.4.0a0+f70bd71a48.nv24.06`.
fn read_version(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".+-_".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_digit());
    if begins && text.len() <= 100 && text.chars().all(allowed) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is no version such as \"2.4.1\""))
    }
}

fn read_digest(text: &str) -> Result<String, String> {
    let digits = text.strip_prefix("sha256:").unwrap_or_default();
    if digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(format!(
            "{text:?} is no digest: `sha256:` and 64 hexadecimal digits"
        ))
    }
}

fn line_of_text(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 200 || text.chars().any(char::is_control) {
        return Err(format!("{text:?} is not one line of at most 200 bytes"));
    }
    Ok(text.to_owned())
}

fn words(fields: &mut Fields<'_>, key: &'static str) -> Vec<String> {
    let mut words = Vec::new();
    for text in fields.texts(key).map(|list| list.value).unwrap_or_default() {
        match word(&text.value) {
            Ok(word) => words.push(word),
            Err(why) => {
                let message = format!("`{}{key}`: {why}", fields.prefix());
                fields.problem(Problem::at(text.span, message));
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> CatalogueFile {
        read(Path::new("/etc/dlrun/images.d/a.toml"), text, Owner::Site)
    }

    const SHORT: &str = "[[image]]\nname = \"a\"\nuri = \"docker://x/y:1\"\nframework = \"PyTorch\"\nversion = \"2.1\"\n";

    #[test]
    fn a_short_description_has_defaults_and_its_place() {
        let text = format!("format = 1\n\n{SHORT}{}", SHORT.replace("\"a\"", "\"b\""));
        let file = file(&text);
        assert_eq!(file.problems, []);
        let [a, b] = &file.entries[..] else {
            panic!("{file:#?}")
        };
        let expected = Entry::new(
            "a",
            Place::Uri("docker://x/y:1".into()),
            "pytorch",
            "2.1",
            Owner::Site,
            Origin::File {
                path: file.path.clone(),
                line: 3,
            },
        );
        assert_eq!(*a, expected);
        assert_eq!(b.origin.to_string(), "/etc/dlrun/images.d/a.toml:8");
    }

    #[test]
    fn words_are_brought_to_one_form() {
        let text =
            format!("{SHORT}arch = \"arm64\"\ncompilers = [\"XLA\"]\nmicroarch = \"Zen3\"\n");
        let entry = &file(&text).entries[0];
        assert_eq!(
            (&*entry.arch, &*entry.compilers, entry.microarch.as_deref()),
            ("aarch64", &["xla".to_owned()][..], Some("zen3"))
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let with = |line: &str| format!("{SHORT}{line}\n");
        let check = |line: &str| {
            format!("[[check]]\nimage = \"a\"\nat_ms = 1\nhost = \"h\"\nruntime = \"r\"\n{line}\n")
        };
        for (text, line, part) in [
            (
                with("acelerator = \"nvidia\""),
                6,
                "unknown key `image.acelerator` [did you mean `accelerator`?]",
            ),
            (
                with("accelerator = \"nvidea\""),
                6,
                "did you mean `nvidia`?",
            ),
            (with("provenance = \"any\""), 6, "must be one of"),
            (with("path = \"/x.sif\""), 1, "one of `path` and `uri`"),
            (with("digest = \"sha256:12\""), 6, "is no digest"),
            (
                with("cuda = \"twelve\""),
                6,
                "`image.cuda`: \"twelve\" is no version",
            ),
            (
                with("compilers = [\"a b\"]"),
                6,
                "`image.compilers`: \"a b\" is no name",
            ),
            (with("needs_fakeroot = \"yes\""), 6, "must be true or false"),
            (with("mpi = \"a\\nb\""), 6, "is not one line"),
            (
                SHORT.replace("\"a\"", "\"../x\""),
                2,
                "is no name of an image",
            ),
            (
                SHORT.replace("\"a\"", "\"$(id)\""),
                2,
                "is no name of an image",
            ),
            (SHORT.replace("name = \"a\"\n", ""), 1, "needs `name`"),
            (
                SHORT.replace("uri = \"docker://x/y:1\"", "path = \"x.sif\""),
                3,
                "neither an absolute path nor a URI",
            ),
            (SHORT.replace("uri", "path"), 3, "write it as `uri`"),
            (
                format!("{SHORT}{SHORT}"),
                6,
                "there is another image `a` in line 1",
            ),
            (
                "imge = 1\n".into(),
                1,
                "unknown key `imge` [did you mean `image`?]",
            ),
            ("[image]\nname = \"a\"\n".into(), 1, "is written [[image]]"),
            ("image = [1]\n".into(), 1, "is written [[image]]"),
            (
                "format = 2\n[[imago]]\n".into(),
                1,
                "`format = 2` is not in this version",
            ),
            ("format = \"1\"\n".into(), 1, "`format` must be 1"),
            ("[[image]\n".into(), 1, ""),
            (check("gpu = 1"), 6, "did you mean `gpus`?"),
            (check("at_mss = 1"), 6, "did you mean `at_ms`?"),
            (check("gpus = -1"), 6, "must be from 0"),
            (check("versions = { python = 3 }"), 6, "must be text"),
            (
                "[[check]]\nimage = \"a\"\nhost = \"h\"\nruntime = \"r\"\n".into(),
                1,
                "a check needs `at_ms`",
            ),
        ] {
            let file = file(&text);
            let problem = file
                .problems
                .first()
                .unwrap_or_else(|| panic!("it is wrong:\n{text}"));
            let shown = format!(
                "{} [{}]",
                problem.message,
                problem.hint.clone().unwrap_or_default()
            );
            let at = problem.position(&text).map(|(line, _)| line);
            assert!(
                at == Some(line) && shown.contains(part),
                "{at:?}: {shown}, not {line}: {part}, of\n{text}"
            );
        }
    }

    #[test]
    fn a_faulty_image_is_not_among_the_images() {
        let text = format!("{}cuda = 12\n{SHORT}", SHORT.replace("\"a\"", "\"b\""));
        let file = file(&text);
        assert_eq!(
            (file.entries.len(), file.problems.len()),
            (1, 1),
            "{file:#?}"
        );
    }
}
