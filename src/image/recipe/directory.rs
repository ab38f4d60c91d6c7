//! Recipes of the site and of the user: `recipes.d/NAME.def`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::foundation::diagnostic::Problem;
use crate::image::recipe::Recipe;

/// Recipes beyond this size are refused.
const MAX_BYTES: u64 = 256 << 10;

/// Recipes that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The directory or a file in it.
    #[error("cannot read `{}`", .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    /// More than 256 KiB.
    #[error("`{}` is larger than 256 KiB", .0.display())]
    TooLarge(PathBuf),
    /// A recipe with mistakes.
    #[error("`{}` is no recipe", .0.display())]
    Wrong(PathBuf, String, Vec<Problem>),
}

/// The recipes in `dirs`, each directory's by name; what comes first hides what has its name and comes later. A directory that is
/// not there has none.
///
/// # Errors
/// For the first file that cannot be read or is wrong.
pub fn recipes_in(dirs: &[PathBuf]) -> Result<Vec<Recipe>, RecipeError> {
    let mut recipes: Vec<Recipe> = Vec::new();
    for dir in dirs {
        for path in files(dir)? {
            let name = path
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
                .unwrap_or_default();
            if recipes.iter().any(|known| known.name == name) {
                continue;
            }
            let text = read(&path)?;
            match Recipe::parse(&name, Some(&path), &text) {
                Ok(recipe) => recipes.push(recipe),
                Err(problems) => {
                    return Err(RecipeError::Wrong(path, text, problems));
                }
            }
        }
    }
    Ok(recipes)
}

fn files(dir: &Path) -> Result<Vec<PathBuf>, RecipeError> {
    let unreadable = |source| RecipeError::Unreadable(dir.to_owned(), source);
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(unreadable)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        // A pipe would be waited for.
        if path.extension().is_some_and(|ending| ending == "def") && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<String, RecipeError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text));
    match read {
        Ok(bytes) if bytes as u64 > MAX_BYTES => Err(RecipeError::TooLarge(path.to_owned())),
        Ok(_) => Ok(text),
        Err(source) => Err(RecipeError::Unreadable(path.to_owned(), source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECIPE: &str = "# dlrun: framework = mine\n# dlrun: provenance = pip\n# dlrun: base = b\n# dlrun: pin = 1.0\n{{bootstrap}}\n";

    #[test]
    fn the_first_directory_wins_and_other_files_are_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let dirs = ["user", "site", "missing"].map(|name| dir.path().join(name));
        for (at, name) in [(0, "a.def"), (1, "a.def"), (1, "b.def"), (1, "c.def~")] {
            std::fs::create_dir_all(&dirs[at]).expect("a directory");
            std::fs::write(dirs[at].join(name), RECIPE).expect("a file");
        }
        nix::unistd::mkfifo(&dirs[1].join("d.def"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let recipes = recipes_in(&dirs).expect("they are right");
        let paths: Vec<_> = recipes
            .iter()
            .filter_map(|recipe| recipe.path.clone())
            .collect();
        assert_eq!(paths, [dirs[0].join("a.def"), dirs[1].join("b.def")]);
    }

    #[test]
    fn a_wrong_and_a_huge_recipe_are_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.def");
        let fault = |text: &str| {
            std::fs::write(&path, text).expect("a file");
            recipes_in(&[dir.path().to_owned()]).expect_err("it is refused")
        };
        let RecipeError::Wrong(_, _, problems) = fault(&RECIPE.replace("provenance", "provenence"))
        else {
            panic!("another fault");
        };
        assert_eq!(
            problems[0].hint.as_deref(),
            Some("did you mean `provenance`?")
        );
        assert!(matches!(
            fault(&"x".repeat(300_000)),
            RecipeError::TooLarge { .. }
        ));
        std::fs::write(&path, [0xff, 0xfe]).expect("a file");
        assert!(matches!(
            recipes_in(&[dir.path().to_owned()]),
            Err(RecipeError::Unreadable { .. })
        ));
    }
}
