//! Descriptions and checks as a file of `images.d`: its text, and how it gets there.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::image::build::{MakeError, unsafe_for_root};
use crate::image::catalogue::entry::{Check, Entry};
use crate::image::catalogue::read::FORMAT;
use crate::image::in_progress::put;

/// A file with this image. What has its default is left out; the check and what is known of the file do not belong to it.
///
/// A file is UTF-8 text, so the image's path must be: [`Place::parse`](crate::image::catalogue::Place::parse) takes no other.
#[must_use]
pub fn write_entry(entry: &Entry) -> String {
    file_with("image", entry)
}

/// A file with this check.
#[must_use]
pub fn write_check(check: &Check) -> String {
    file_with("check", check)
}

fn file_with(key: &str, item: impl Serialize) -> String {
    let tables = toml::to_string(&BTreeMap::from([(key, [item])]));
    let tables = tables.expect("text, numbers and lists are TOML");
    format!("format = {FORMAT}\n\n{tables}")
}

/// Writes `FILE_NAME` in `dir`, whole or not at all, in the place of a former one; a directory that is missing is made. With
/// `shared` all users may read it.
///
/// # Errors
/// `Unsafe`, `Write`.
pub fn keep_description(
    dir: &Path,
    file_name: &str,
    text: &str,
    shared: bool,
) -> Result<PathBuf, MakeError> {
    let (dir_mode, mode) = if shared {
        (0o755, 0o644)
    } else {
        (0o700, 0o600)
    };
    DirBuilder::new()
        .recursive(true)
        .mode(dir_mode)
        .create(dir)
        .map_err(MakeError::write(dir))?;
    if let Some(why) = unsafe_for_root(dir, false) {
        return Err(MakeError::Unsafe(dir.to_owned(), why));
    }
    let path = dir.join(file_name);
    let token = getrandom::u32().map_err(|error| MakeError::write(&path)(error.into()))?;
    // Readers of the catalogue pass over hidden names.
    let part = dir.join(format!(".{file_name}.{token:08x}"));
    put(&path, &part, text.as_bytes(), mode).map_err(MakeError::write(&path))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use std::path::{Path, PathBuf};

    use proptest::collection::{btree_map, vec};
    use proptest::option::of;
    use proptest::prelude::*;

    use super::*;
    use crate::config::{Origin, Owner};
    use crate::image::catalogue::{Accelerator, Place, read};
    use crate::job::Provenance;

    fn place() -> impl Strategy<Value = Place> {
        prop_oneof![
            "/[^\\p{C}]{0,30}"
                .prop_filter("a URI", |text| !text.contains("://"))
                .prop_map(|path| Place::Path(PathBuf::from(path))),
            "[a-z][a-z0-9+.-]{0,5}://[!-?A-~]{1,30}".prop_map(Place::Uri),
        ]
    }

    fn word() -> impl Strategy<Value = String> {
        "[a-z0-9._+-]{1,12}"
    }

    fn version() -> impl Strategy<Value = String> {
        "[0-9][0-9A-Za-z.+_-]{0,12}"
    }

    fn digest() -> impl Strategy<Value = String> {
        "sha256:[0-9a-f]{64}"
    }

    prop_compose! {
        fn entry()(
            (name, place, framework, version) in ("[A-Za-z0-9][A-Za-z0-9._+-]{0,20}", place(), word(), version()),
            provenance in of(prop::sample::select(Provenance::WORDS.map(|(_, provenance)| provenance).to_vec())),
            (arch, microarch) in (prop_oneof!["x86_64", "aarch64"], of(word())),
            accelerator in prop::sample::select(Accelerator::WORDS.map(|(_, accelerator)| accelerator).to_vec()),
            (cuda, rocm, python) in (of(version()), of(version()), of(version())),
            compilers in vec(word(), 0..3),
            (mpi, digest, recipe) in (of("[^\\p{C}]{1,20}"), of(digest()), of("[^\\p{C}]{1,20}")),
            needs_fakeroot in any::<bool>(),
        ) -> Entry {
            let origin = Origin::File { path: PathBuf::from("/a.toml"), line: 3 };
            Entry {
                provenance, arch, microarch, accelerator, cuda, rocm, compilers, python, mpi, digest, recipe, needs_fakeroot,
                ..Entry::new(&name, place, &framework, &version, Owner::User, origin)
            }
        }
    }

    /// Any text but NUL, which TOML's readers here refuse.
    fn text() -> impl Strategy<Value = String> {
        any::<String>().prop_map(|text| text.replace('\0', ""))
    }

    prop_compose! {
        fn check()(
            image in "[A-Za-z0-9][A-Za-z0-9._+-]{0,20}",
            at_ms in 0..4_000_000_000_000_u64,
            (host, runtime) in (text(), text()),
            (size_bytes, modified_ms) in (of(0..u64::MAX >> 1), of(0..4_000_000_000_000_u64)),
            (digest, mpi_abi) in (of(digest()), of(text())),
            (problems, compilers) in (vec(text(), 0..3), vec(text(), 0..3)),
            versions in btree_map(text(), text(), 0..4),
            gpus in of(0..99_u32),
        ) -> Check {
            Check { image, at_ms, host, runtime, size_bytes, modified_ms, digest, problems, versions, compilers, gpus, mpi_abi }
        }
    }

    proptest! {
        #[test]
        fn an_image_reads_back_as_it_was(entry in entry()) {
            let text = write_entry(&entry);
            let shelf = read(Path::new("/a.toml"), &text, Owner::User);
            prop_assert_eq!(&shelf.problems, &[], "{}", text);
            prop_assert_eq!(shelf.entries, [entry]);
        }

        #[test]
        fn a_check_reads_back_as_it_was(check in check()) {
            let text = write_check(&check);
            let shelf = read(Path::new("/a.toml"), &text, Owner::User);
            prop_assert_eq!(&shelf.problems, &[], "{}", text);
            prop_assert_eq!(shelf.checks, [check]);
        }

        #[test]
        fn no_text_panics(text in "(\\[\\[(image|check)\\]\\]|name|path|version|=|\"|\n|.){0,60}") {
            let _ = read(Path::new("/a.toml"), &text, Owner::Site);
        }
    }

    #[test]
    fn a_description_takes_the_place_of_the_former_one_and_a_failure_leaves_it() {
        let root = tempfile::tempdir().expect("temp");
        let dir = root.path().join("dlrun/images.d");
        for text in ["one", "two"] {
            let path = keep_description(&dir, "x.toml", text, false).expect("it can be written");
            assert_eq!(fs::read_to_string(&path).expect("there"), text);
            assert_eq!(
                fs::metadata(&path).expect("there").permissions().mode() & 0o777,
                0o600
            );
        }
        fs::create_dir(dir.join("y.toml")).expect("ours");
        let error =
            keep_description(&dir, "y.toml", "text", true).expect_err("a directory is there");
        assert!(error.to_string().contains("y.toml"), "{error}");
        let mut names: Vec<_> = fs::read_dir(&dir)
            .expect("ours")
            .flatten()
            .map(|e| e.file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["x.toml", "y.toml"]);
    }
}
