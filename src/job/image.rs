//! `[image]`: the container that the command runs in.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::run::OPTION_LINE;
use super::sections::name_in_small_letters;
use crate::foundation::diagnostic::Problem;
use crate::foundation::toml_keys::keys;
use crate::foundation::toml_keys::{
    Kind, Table, boolean, list, object, parsed, path, values, word,
};
use crate::foundation::toml_reader::Located;
use crate::foundation::vocabulary::vocabulary;

vocabulary! {
    /// Which GPUs are passed into the container.
    #[derive(Default)]
    pub enum GpuMode {
        /// Those that the job was given, whoever made them.
        #[default]
        Auto = "auto",
        /// NVIDIA's (`--nv`).
        Nvidia = "nvidia",
        /// AMD's (`--rocm`).
        Amd = "amd",
        /// None.
        None = "none",
    }
}

/// Whether the run has the container's root user (`--fakeroot`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Fakeroot {
    /// Where the catalogue says that the image needs it.
    #[default]
    Auto,
    /// Always.
    Yes,
    /// Never.
    No,
}

vocabulary! {
    /// What happens where no image of the catalogue fits.
    #[derive(Default)]
    pub enum BuildMode {
        /// An error.
        #[default]
        Never = "never",
        /// One is built from its recipe, and the run waits for it.
        Auto = "auto",
    }
}

/// A directory or file of the node that is seen in the container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// On the node; a `$NAME` in it is a variable of the job, so it is known on the node only.
    pub source: String,
    /// In the container, absolute.
    pub target: String,
    /// Whether the container may only read it.
    #[serde(default)]
    pub read_only: bool,
}

impl Bind {
    /// Reads `SOURCE`, `SOURCE:TARGET` or `SOURCE:TARGET:ro`. A path that holds a colon is written as a table instead.
    ///
    /// # Errors
    /// With what is wrong, for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let source = parts.next().unwrap_or_default();
        let target = parts.next().unwrap_or(source);
        let read_only = match parts.next() {
            None | Some("rw") => false,
            Some("ro") => true,
            Some(word) => return Err(format!("`{word}` is neither `ro` nor `rw`; {TABLE_FORM}")),
        };
        if parts.next().is_some() {
            return Err(format!("{text:?} has more than three parts; {TABLE_FORM}"));
        }
        Self::new(source, target, read_only)
    }

    fn new(source: &str, target: &str, read_only: bool) -> Result<Self, String> {
        let bind = Self {
            source: source.to_owned(),
            target: target.to_owned(),
            read_only,
        };
        match [("source", source), ("target", target)]
            .into_iter()
            .find_map(|(what, path)| {
                path_fault(path).map(|fault| format!("the {what} {path:?} {fault}"))
            }) {
            Some(fault) => Err(fault),
            None if bind.has_variable() && target == source => Err(format!(
                "{source:?} needs a target, such as \"{source}:/scratch\""
            )),
            None if bind.has_variable() && names_no_variable(source) => Err(format!(
                "the source {source:?} names no variable behind `$`, and nothing is run; write $NAME or ${{NAME}}, or ./{source}"
            )),
            None if !target.starts_with('/') && target != source => {
                Err(format!("the target {target:?} must be absolute"))
            }
            None => target_fault(target).map_or(Ok(bind), |fault| {
                Err(format!("the target {target:?} {fault}"))
            }),
        }
    }

    /// Whether the source is known on the node only.
    #[must_use]
    pub fn has_variable(&self) -> bool {
        self.source.contains('$')
    }
}

const TABLE_FORM: &str =
    "a path with a colon is written { source = \"/a:b\", target = \"/data\", read_only = true }";

fn path_fault(path: &str) -> Option<&'static str> {
    match path {
        "" => Some("is empty"),
        _ if path.chars().any(char::is_control) => Some("holds a control character"),
        _ if path.starts_with('~') => {
            Some("begins with `~`, which no shell reads here; write the directory out")
        }
        _ if path.len() > 4096 => Some("is longer than 4096 bytes"),
        _ => None,
    }
}

/// Whether a source begins with a `$` that begins no name, such as `$(id)`.
fn names_no_variable(source: &str) -> bool {
    let Some(rest) = source.strip_prefix('$') else {
        return false;
    };
    let name = match rest.strip_prefix('{') {
        Some(rest) => rest.split_once('}').map_or("", |(name, _)| name),
        None => rest,
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let whole = !rest.starts_with('{') || name.chars().all(is_name);
    !whole || !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// A target that no runtime mounts as it is meant: one over the root hides the image, and Apptainer 1.4.5 takes `..` for
/// another directory than the kernel does, and fails while it sets the container up.
fn target_fault(target: &str) -> Option<&'static str> {
    let mut parts = target
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".");
    match parts.clone().next() {
        None => Some("would hide the whole image; name a directory in it"),
        Some(_) if parts.any(|part| part == "..") => Some("holds `..`; write the directory out"),
        Some(_) => None,
    }
}

keys! {
    /// `[image]`: the container.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Image {
        /// Says that no container is wanted.
        none: bool = or_default(boolean().or(false)),
        /// An image file (SIF) or a sandbox directory.
        path: Option<Located<PathBuf>> = located(path()),
        /// An image by its URI, such as `docker://tensorflow/tensorflow:2.1.0`; also by an alias of the site.
        uri: Option<Located<String>> = located(parsed(URI, read_uri)),
        /// Directories and files of the node that are seen in it.
        bind: Vec<Located<Bind>> = or_default(binds()),
        /// Which GPUs are passed into it.
        gpu: GpuMode = or_default(word(&GpuMode::WORDS).with("default", "auto")),
        /// GPUs that do not work are a failure, not a warning.
        require_gpu: bool = or_default(boolean().or(false)),
        /// Whether the run has the container's root user.
        fakeroot: Fakeroot = or_default(fakeroot()),
        /// Whether an image is built where none fits.
        build: BuildMode = or_default(word(&BuildMode::WORDS).with("default", "never")),
        /// Python packages that an image of the catalogue must have beside the framework.
        packages: Vec<String> = or_default(packages()),
        /// Only variables of the job, the scheduler and the GPUs are seen in it.
        cleanenv: bool = or_default(boolean().or(false)),
        /// Further options of the runtime's `exec`, each beginning with `-`.
        options: Vec<Located<String>> = or_default(options()),
    }
}

const URI: &str = "^[a-z][a-z0-9+.-]*://[^\\x00-\\x20\\x7f]+$";

/// `[image]`, which names one image at most.
pub(super) fn image() -> Kind<Image> {
    let not_none_and = |key: &str| json!({ "not": { "required": ["none", key], "properties": { "none": { "const": true } } } });
    let kind = Kind::new(object(Image::keys()), |fields, key| {
        fields.table(key, |fields| {
            let image = Image::read(fields);
            let named = [image.none, image.path.is_some(), image.uri.is_some()];
            if named.into_iter().filter(|named| *named).count() > 1 {
                fields.problem(Problem::of_file(
                    "`image.path`, `image.uri` and `image.none` exclude each other",
                ));
            }
            image
        })
    });
    let both = json!({ "not": { "required": ["path", "uri"] } });
    kind.with(
        "allOf",
        json!([both, not_none_and("path"), not_none_and("uri")]),
    )
}

/// The URI of an image, as it is written.
pub(crate) fn read_uri(text: &str) -> Result<String, String> {
    if let Some(problem) = credentials_in(text) {
        return Err(problem);
    }
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+.-".contains(c));
    match text.chars().find(|c| c.is_whitespace() || c.is_control()) {
        None if is_scheme && !rest.is_empty() => Ok(text.to_owned()),
        _ => Err(format!(
            "{text:?} is no URI of an image; write \"docker://tensorflow/tensorflow:2.1.0\""
        )),
    }
}

/// Says that a URI holds who logs in, as `https://user:password@host/x.sif`: it would stand on command lines, in records and in
/// the catalogue. `docker://ubuntu@sha256:..` is a digest. The text is not repeated.
pub(crate) fn credentials_in(uri: &str) -> Option<String> {
    let (_, rest) = uri.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (_, behind) = authority.rsplit_once('@')?;
    let is_digest = ["sha256:", "sha512:"]
        .iter()
        .any(|algorithm| behind.starts_with(algorithm));
    (!is_digest).then(|| {
        "the URI holds a user or a password before its `@`, which others could read; log in to the registry beforehand \
         (`apptainer registry login`, `apptainer remote login`)"
            .to_owned()
    })
}

/// Names of Python packages.
fn packages() -> Kind<Vec<String>> {
    let item = json!({ "type": "string", "pattern": "^[A-Za-z0-9._+-]{1,100}$" });
    values(list(&item, name_in_small_letters))
}

/// `"auto"`, `true` or `false`.
fn fakeroot() -> Kind<Fakeroot> {
    let schema =
        json!({ "anyOf": [{ "const": "auto" }, { "type": "boolean" }], "default": "auto" });
    Kind::new(schema, |fields, key| {
        if fields.type_of(key) == "string" {
            return fields.word(key, &[("auto", Fakeroot::Auto)]);
        }
        let is_wanted = fields.boolean(key)?;
        Some(if is_wanted {
            Fakeroot::Yes
        } else {
            Fakeroot::No
        })
    })
}

fn binds() -> Kind<Vec<Located<Bind>>> {
    let text = "^([^~$:\\x00-\\x1f\\x7f][^$:\\x00-\\x1f\\x7f]*|[^~:\\x00-\\x1f\\x7f][^:\\x00-\\x1f\\x7f]*:/[^:\\x00-\\x1f\\x7f]*(:(ro|rw))?)$";
    let table = json!({
        "type": "object",
        "properties": {
            "source": { "type": "string", "pattern": "^[^~\\x00-\\x1f\\x7f][^\\x00-\\x1f\\x7f]*$" },
            "target": { "type": "string", "pattern": "^/[^\\x00-\\x1f\\x7f]*$" },
            "read_only": { "type": "boolean", "default": false },
        },
        "required": ["source", "target"],
        "additionalProperties": false,
    });
    let item = json!({ "anyOf": [{ "type": "string", "pattern": text }, table] });
    let schema = json!({ "type": "array", "items": item });
    Kind::new(schema, |fields, key| {
        fields.texts_or_tables(key, Bind::parse, |fields| {
            let (source, target) = (fields.text("source"), fields.text("target"));
            let read_only = fields.boolean("read_only").unwrap_or(false);
            let mut parts = ["source", "target"].into_iter();
            match parts.find(|part| !fields.holds(part)) {
                Some(part) => Some(Err(format!("`{part}` is missing"))),
                None => Some(Bind::new(&source?, &target?, read_only)),
            }
        })
    })
}

/// Options that dlrun gives itself, by the key that they belong to.
const OWN_OPTIONS: [(&str, &str); 17] = [
    ("--nv", "image.gpu"),
    ("--rocm", "image.gpu"),
    ("--nvccli", "image.gpu"),
    ("--no-nv", "image.gpu"),
    ("--no-rocm", "image.gpu"),
    ("--fakeroot", "image.fakeroot"),
    ("-f", "image.fakeroot"),
    ("--bind", "image.bind"),
    ("-B", "image.bind"),
    ("--mount", "image.bind"),
    ("--cleanenv", "image.cleanenv"),
    ("-e", "image.cleanenv"),
    ("--env", "run.env"),
    ("--env-file", "run.env_file"),
    ("--pwd", "run.workdir"),
    ("--cwd", "run.workdir"),
    ("--no-eval", "run.env"),
];

fn options() -> Kind<Vec<Located<String>>> {
    let item = json!({ "type": "string", "pattern": OPTION_LINE });
    list(&item, |option| {
        let name = option.split('=').next().unwrap_or_default();
        let own = OWN_OPTIONS.iter().find(|(own, _)| *own == name);
        Err(match own {
            Some((_, key)) => format!("`{name}` is dlrun's own; the key is `{key}`"),
            None if !option.starts_with('-') || option.trim_start_matches('-').is_empty() => {
                format!("{option:?} is not an option; write `--name=value` as one text")
            }
            // The runtime would print its help and end with 0, as if the command had run.
            None if ["-h", "--help"].contains(&name) => {
                format!("with `{name}` the command would not run")
            }
            // `-B/data` and `-cB /data` are options of dlrun's own too, and `-cC` is `-C`: taken apart they are plain.
            None if !name.starts_with("--") && name.chars().count() > 2 => format!(
                "{option:?} holds more than one short option, or its value; write `--name=value`"
            ),
            None if option.chars().any(char::is_control) => {
                format!("{option:?} holds a control character")
            }
            None => return Ok(option.to_owned()),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::parse;

    fn image(lines: &str) -> Result<Image, Vec<String>> {
        let text = format!("[run]\ncommand = [\"true\"]\n[image]\n{lines}\n");
        parse(&text).map(|spec| spec.image).map_err(|problems| {
            problems
                .into_iter()
                .map(|problem| problem.message)
                .collect()
        })
    }

    #[test]
    fn every_key_is_read() {
        let image = image(
            "path = \"a.sif\"\nbind = [\"/data:/data:ro\", { source = \"/a:b,c\", target = \"/d\" }, \"$TMPDIR:/tmp\"]\n\
             gpu = \"nvidia\"\nrequire_gpu = true\nfakeroot = true\nbuild = \"auto\"\ncleanenv = true\noptions = [\"--contain\"]",
        )
        .expect("it is right");
        let binds: Vec<_> = image
            .bind
            .iter()
            .map(|bind| {
                (
                    bind.value.source.as_str(),
                    bind.value.target.as_str(),
                    bind.value.read_only,
                )
            })
            .collect();
        assert_eq!(
            binds,
            [
                ("/data", "/data", true),
                ("/a:b,c", "/d", false),
                ("$TMPDIR", "/tmp", false)
            ]
        );
        assert_eq!(
            (image.gpu, image.fakeroot, image.build),
            (GpuMode::Nvidia, Fakeroot::Yes, BuildMode::Auto)
        );
        assert!(image.require_gpu && image.cleanenv && image.options.len() == 1);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (lines, part) in [
            ("bind = [\"/a:/b:rx\"]", "neither `ro` nor `rw`"),
            ("bind = [\"/a:/b:ro:x\"]", "more than three parts"),
            ("bind = [\"/a:b\"]", "must be absolute"),
            ("bind = [\"\"]", "is empty"),
            ("bind = [\"~/a:/b\"]", "no shell reads"),
            ("bind = [\"$TMPDIR\"]", "needs a target"),
            (
                "bind = [{ source = \"/a\" , target = \"/b\", x = 1 }]",
                "unknown key",
            ),
            ("bind = [\"/a\\nb:/c\"]", "control character"),
            ("gpu = \"nvidea\"", "must be one of"),
            ("fakeroot = \"yes\"", "must be one of"),
            ("fakeroot = 1", "must be true or false"),
            ("build = true", "in quotes, not true or false"),
            ("options = [\"--nv\"]", "the key is `image.gpu`"),
            ("options = [\"contain\"]", "is not an option"),
            ("options = [\"-B/:/x\"]", "more than one short option"),
            ("options = [\"-B /:/x\"]", "more than one short option"),
            ("options = [\"-cB=/:/x\"]", "more than one short option"),
            ("options = [\"-h\"]", "would not run"),
            ("options = [\"--help\"]", "would not run"),
            ("options = [\"--help=true\"]", "would not run"),
            ("bind = [\"/tmp:/\"]", "hide the whole image"),
            ("bind = [\"/tmp://./\"]", "hide the whole image"),
            ("bind = [\"/\"]", "hide the whole image"),
            ("bind = [\"/tmp:/a/../../etc\"]", "holds `..`"),
            ("bind = [\"$(id):/h\"]", "names no variable"),
            ("bind = [\"${HOME-x}:/h\"]", "names no variable"),
        ] {
            let faults = image(lines).expect_err(lines);
            assert!(faults[0].contains(part), "{lines}: {faults:?}");
        }
    }

    #[test]
    fn who_logs_in_is_no_part_of_a_uri() {
        for uri in [
            "https://me:secret@h/x.sif",
            "docker://me:secret@r:5000/a/x:1",
            "oras://me@r",
            "https://a@b@h/x",
        ] {
            for problem in [credentials_in(uri), read_uri(uri).err()] {
                let problem = problem.expect(uri);
                assert!(
                    problem.contains("registry login") && !problem.contains("secret"),
                    "{problem}"
                );
            }
        }
        for uri in [
            "docker://ubuntu@sha256:1",
            "docker://r:5000/a/x@sha256:1",
            "https://h/a@b.sif",
            "oras://r/x:1",
        ] {
            assert_eq!(credentials_in(uri), None, "{uri}");
        }
    }
}
