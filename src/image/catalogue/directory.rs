//! The catalogue's files, and what is there of the images that they describe.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::config::Owner;
use crate::foundation::diagnostic::{Problem, chain};
use crate::foundation::filesystem::{modified_ms, whole_text};
use crate::image::catalogue::{Catalogue, CatalogueFile, Entry, FileState, Place, read};

/// A file of the catalogue is not longer, in bytes.
const MAX_FILE_BYTES: u64 = 8 << 20;
/// Where the catalogue's files lie. A directory that does not exist is an empty one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueDirs {
    /// The site's.
    pub site: PathBuf,
    /// The user's own.
    pub user: Option<PathBuf>,
}

/// A catalogue that cannot be used: only what the user's own files say makes one.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// What a file says is invalid.
    #[error("{} is invalid", .0.display())]
    Faulty(PathBuf, String, Vec<Problem>),
    /// A file or a directory that cannot be read.
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// One name twice.
    #[error("{0}")]
    Twice(String),
}

/// Reads the catalogue. A file of the site that cannot be used is passed over and named in the catalogue's warnings: it must
/// not stop everybody who trains there. One of the user's own is an error, since another image would be chosen in its place.
///
/// # Errors
/// [`CatalogueError`] for the user's own files.
pub fn read_catalogue(dirs: &CatalogueDirs) -> Result<Catalogue, CatalogueError> {
    let (mut parsed, mut warnings) = (Vec::new(), Vec::new());
    match toml_files(&dirs.site) {
        Ok(files) => {
            for path in files {
                match read_catalogue_file(&path, Owner::Site) {
                    Ok(file) => parsed.push(file),
                    Err(error) => warnings.push(in_short(&error)),
                }
            }
        }
        Err(error) => warnings.push(in_short(&error)),
    }
    for path in dirs
        .user
        .as_deref()
        .map(toml_files)
        .transpose()?
        .unwrap_or_default()
    {
        parsed.push(read_catalogue_file(&path, Owner::User)?);
    }
    let mut catalogue = Catalogue::assemble(parsed).map_err(CatalogueError::Twice)?;
    catalogue.warnings.splice(0..0, warnings);
    Ok(catalogue)
}

/// Looks at the files of images, and notes what is there.
pub fn look_at_files<'a>(entries: impl IntoIterator<Item = &'a mut Entry>) {
    for entry in entries {
        if let Place::Path(path) = &entry.place {
            entry.file = file_state(path);
        }
    }
}

/// What is there of an image: its length and its time, as a check notes them.
#[must_use]
pub fn file_state(path: &Path) -> FileState {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            FileState::Missing(format!("{} does not exist", path.display()))
        }
        Err(error) => FileState::Missing(format!("{} cannot be reached: {error}", path.display())),
        Ok(found) if found.is_file() || found.is_dir() => FileState::There {
            size_bytes: found.is_file().then_some(found.len()),
            modified_ms: modified_ms(&found),
        },
        Ok(_) => FileState::Missing(format!(
            "{} is neither a file nor a directory",
            path.display()
        )),
    }
}

/// The `*.toml` of a directory by their names; hidden ones are files that are being written.
fn toml_files(dir: &Path) -> Result<Vec<PathBuf>, CatalogueError> {
    let unreadable = |source| CatalogueError::Read(dir.to_owned(), source);
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(unreadable)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        let is_hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
            && !is_hidden
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read_catalogue_file(path: &Path, owner: Owner) -> Result<CatalogueFile, CatalogueError> {
    let text = whole_text(path, MAX_FILE_BYTES)
        .map_err(|source| CatalogueError::Read(path.to_owned(), source))?;
    let mut file = read(path, &text, owner);
    match std::mem::take(&mut file.problems) {
        problems if problems.is_empty() => Ok(file),
        problems => Err(CatalogueError::Faulty(path.to_owned(), text, problems)),
    }
}

/// A fault in one line: the first of a file.
fn in_short(error: &CatalogueError) -> String {
    let CatalogueError::Faulty(path, text, problems) = error else {
        return format!("{}; it is passed over", chain(error).join(": "));
    };
    let first = problems.first();
    let line = first
        .and_then(|problem| problem.position(text))
        .map_or(0, |(line, _)| line);
    let message = first.map_or("", |problem| &problem.message);
    format!(
        "{}:{line}: {message}; the file is passed over",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(name: &str, version: &str) -> String {
        format!(
            "[[image]]\nname = {name:?}\npath = \"/i/{name}.sif\"\nframework = \"jax\"\nversion = {version:?}\n"
        )
    }

    struct Dirs {
        root: tempfile::TempDir,
        dirs: CatalogueDirs,
    }

    impl Dirs {
        fn new() -> Self {
            let root = tempfile::tempdir().expect("a directory");
            let dirs = CatalogueDirs {
                site: root.path().join("site"),
                user: Some(root.path().join("user")),
            };
            Self { root, dirs }
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.root.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(&path, text).expect("a file");
            path
        }
    }

    #[test]
    fn directories_that_are_not_there_are_empty() {
        assert_eq!(
            read_catalogue(&Dirs::new().dirs).expect("a catalogue"),
            Catalogue::default()
        );
    }

    #[test]
    fn a_faulty_file_of_the_site_costs_that_file_and_one_of_the_user_is_an_error() {
        let dirs = Dirs::new();
        dirs.write("site/a.toml", "[[image]]\nname = \"a\"\n");
        dirs.write("site/b.toml", &image("b", "1"));
        dirs.write("site/c.toml", "format = 2\n");
        dirs.write("site/.d.toml", "broken");
        dirs.write("site/d.toml~", "broken");
        nix::unistd::mkfifo(
            &dirs.dirs.site.join("e.toml"),
            nix::sys::stat::Mode::S_IRWXU,
        )
        .expect("a pipe");
        let catalogue = read_catalogue(&dirs.dirs).expect("a catalogue");
        assert_eq!(catalogue.entries.len(), 1, "{catalogue:#?}");
        let [a, c, e] = &catalogue.warnings[..] else {
            panic!("{:?}", catalogue.warnings)
        };
        assert!(a.contains("a.toml:1: an image needs"), "{a}");
        assert!(
            c.contains("not in this version") && e.contains("is not a file"),
            "{c} {e}"
        );
        let own = dirs.write("user/x.toml", "[[image]]\nnam = \"a\"\n");
        match read_catalogue(&dirs.dirs) {
            Err(CatalogueError::Faulty(path, _, _)) => assert_eq!(path, own),
            other => panic!("{other:?}"),
        }
        fs::remove_file(own).expect("it is there");
        let long = format!("# {}\n", "x".repeat(9 << 20));
        dirs.write("user/long.toml", &long);
        assert!(read_catalogue(&dirs.dirs).is_err());
    }

    #[test]
    fn the_users_description_counts_and_his_own_twice_is_an_error() {
        let dirs = Dirs::new();
        dirs.write("site/a.toml", &image("a", "1"));
        dirs.write("site/b.toml", &image("a", "2"));
        dirs.write("user/a.toml", &image("a", "3"));
        let catalogue = read_catalogue(&dirs.dirs).expect("a catalogue");
        assert_eq!(catalogue.get("a").map(|entry| &*entry.version), Some("3"));
        assert_eq!(catalogue.overridden[0].version, "1");
        assert!(
            catalogue.warnings[0].contains("b.toml:1; the first counts"),
            "{:?}",
            catalogue.warnings
        );
        dirs.write("user/b.toml", &image("a", "4"));
        let error = read_catalogue(&dirs.dirs).expect_err("twice").to_string();
        assert!(
            error.contains("user/a.toml:1") && error.contains("user/b.toml:1"),
            "{error}"
        );
    }

    #[test]
    fn the_latest_check_belongs_to_the_image_while_its_file_is_the_same() {
        let dirs = Dirs::new();
        let sif = dirs.write("x.sif", "image");
        let text = format!(
            "[[image]]\nname = \"x\"\npath = {sif:?}\nframework = \"jax\"\nversion = \"1\"\n\
             [[image]]\nname = \"y\"\npath = \"/nowhere\"\nframework = \"jax\"\nversion = \"1\"\n"
        );
        dirs.write("user/x.toml", &text);
        let FileState::There {
            size_bytes,
            modified_ms,
        } = file_state(&sif)
        else {
            panic!("it is there")
        };
        let check = |at: u64| {
            format!(
                "[[check]]\nimage = \"x\"\nat_ms = {at}\nhost = \"h\"\nruntime = \"apptainer 1.4.5\"\n\
                 size_bytes = {}\nmodified_ms = {modified_ms}\n",
                size_bytes.expect("a file")
            )
        };
        dirs.write("user/x.check.toml", &format!("{}{}", check(20), check(10)));
        let mut catalogue = read_catalogue(&dirs.dirs).expect("a catalogue");
        look_at_files(&mut catalogue.entries);
        let [x, y] = &catalogue.entries[..] else {
            panic!("{catalogue:#?}")
        };
        assert_eq!(x.check.as_ref().map(|check| check.at_ms), Some(20));
        assert_eq!(x.changed_since_check(), Some(false));
        assert!(
            matches!(&y.file, FileState::Missing(why) if why.contains("/nowhere does not exist"))
        );
        fs::write(&sif, "another image").expect("written");
        let mut x = x.clone();
        look_at_files([&mut x]);
        assert_eq!(x.changed_since_check(), Some(true));
    }
}
