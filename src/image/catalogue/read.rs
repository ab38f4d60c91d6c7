//! One file of `images.d`, out of its text.
//!
//! An unknown key is an error: an image whose condition was passed over would be chosen for jobs that it does not run.

use std::path::Path;

use super::entry::{Check, Entry, Place};
use crate::config::{Origin, Owner, SourceFile};
use crate::foundation::diagnostic::{Problem, sort_problems};
use crate::foundation::toml_keys::Table;
use crate::foundation::toml_reader::{Fields, parse_document};
use crate::job::read_uri;

/// The version of the form that is written.
pub const FORMAT: u64 = 1;

/// What one file holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CatalogueFile {
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
    let mut catalogue = CatalogueFile {
        owner,
        ..CatalogueFile::default()
    };
    let document = match parse_document(text) {
        Ok(document) => document,
        Err(problem) => {
            catalogue.problems.push(problem);
            return catalogue;
        }
    };
    let file = SourceFile::new(path, text);
    let mut fields = Fields::of_document(&document, &mut catalogue.problems);
    if fields.has_format(FORMAT) {
        catalogue.entries = fields.tables("image", false, |fields| {
            let origin = file.origin(&fields.own_span());
            Some(read_image(fields, owner, origin))
        });
        catalogue.checks = fields.tables("check", false, |fields| {
            fields.require(&["image", "at_ms", "host", "runtime"], "a check");
            Some(Check::read(fields))
        });
        fields.finish();
    }
    sort_problems(&mut catalogue.problems);
    catalogue
}

fn read_image(fields: &mut Fields<'_>, owner: Owner, origin: Origin) -> Entry {
    fields.require(&["name", "framework", "version"], "an image");
    Entry {
        place: read_place(fields).unwrap_or_default(),
        owner,
        origin,
        ..Entry::read(fields)
    }
}

fn read_place(fields: &mut Fields<'_>) -> Option<Place> {
    let path = fields.parsed("path", |text| match Place::parse(text)? {
        place @ Place::Path(_) => Ok(place),
        Place::Uri(_) => Err(format!("{text:?} is a URI; write it as `uri`")),
    });
    let uri = fields.parsed("uri", |text| read_uri(text).map(Place::Uri));
    if fields.holds("path") == fields.holds("uri") {
        let message = "an image needs one of `path` and `uri`";
        fields.problem(Problem::at(fields.own_span(), message));
    }
    path.or(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue(text: &str) -> CatalogueFile {
        read(Path::new("/etc/dlrun/images.d/a.toml"), text, Owner::Site)
    }

    const SHORT: &str = "[[image]]\nname = \"a\"\nuri = \"docker://x/y:1\"\nframework = \"PyTorch\"\nversion = \"2.1\"\n";

    #[test]
    fn a_short_description_has_defaults_and_its_place() {
        let text = format!("format = 1\n\n{SHORT}{}", SHORT.replace("\"a\"", "\"b\""));
        let catalogue = catalogue(&text);
        assert_eq!(catalogue.problems, []);
        let [a, b] = &catalogue.entries[..] else {
            panic!("{catalogue:#?}")
        };
        let expected = Entry::new(
            "a",
            Place::Uri("docker://x/y:1".into()),
            "pytorch",
            "2.1",
            Owner::Site,
            Origin::File {
                path: "/etc/dlrun/images.d/a.toml".into(),
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
        let entry = &catalogue(&text).entries[0];
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
            (with("digest = \"sha256:12\""), 6, "is not a digest"),
            (
                with("cuda = \"twelve\""),
                6,
                "`image.cuda`: \"twelve\" is not a version",
            ),
            (
                with("compilers = [\"a b\"]"),
                6,
                "`image.compilers`: \"a b\" is not a name",
            ),
            (with("needs_fakeroot = \"yes\""), 6, "must be true or false"),
            (with("mpi = \"a\\nb\""), 6, "is not one line"),
            (
                SHORT.replace("\"a\"", "\"../x\""),
                2,
                "is not an image name",
            ),
            (
                SHORT.replace("\"a\"", "\"$(id)\""),
                2,
                "is not an image name",
            ),
            (SHORT.replace("name = \"a\"\n", ""), 1, "needs `name`"),
            (
                SHORT.replace("uri = \"docker://x/y:1\"", "path = \"x.sif\""),
                3,
                "neither an absolute path nor a URI",
            ),
            (SHORT.replace("uri", "path"), 3, "write it as `uri`"),
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
            (
                "format = \"1\"\n".into(),
                1,
                "`format` must be a whole number",
            ),
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
            let catalogue = catalogue(&text);
            let problem = catalogue
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
        let catalogue = catalogue(&text);
        assert_eq!(
            (catalogue.entries.len(), catalogue.problems.len()),
            (1, 1),
            "{catalogue:#?}"
        );
    }
}
