//! Recipes of the site and of the user: `recipes.d/NAME.def`.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::foundation::filesystem::whole_text;
use crate::image::recipe::Recipe;

/// Recipes beyond this size are refused, in bytes.
const MAX_BYTES: u64 = 256 << 10;

/// The recipes in `dirs`, each directory's by name; what comes first hides what has its name and comes later. A directory that is
/// not there has none.
///
/// # Errors
/// For the first file that cannot be read or is wrong.
pub fn recipes_in(dirs: &[PathBuf]) -> Result<Vec<Recipe>, String> {
    let mut recipes: Vec<Recipe> = Vec::new();
    for dir in dirs {
        let mut files = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(format!("cannot read `{}`: {error}", dir.display())),
            Ok(entries) => Vec::from_iter(entries.flatten().map(|entry| entry.path())),
        };
        // A pipe would be waited for.
        files.retain(|path| path.extension().is_some_and(|end| end == "def") && path.is_file());
        files.sort();
        for path in files {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            if recipes.iter().any(|known| known.name == *name) {
                continue;
            }
            let text = whole_text(&path, MAX_BYTES).map_err(|error| error.to_string());
            let recipe = text.and_then(|text| Recipe::parse(&name, Some(&path), &text));
            recipes.push(recipe.map_err(|why| format!("`{}`: {why}", path.display()))?);
        }
    }
    Ok(recipes)
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
        let why = fault(&RECIPE.replace("provenance", "provenence"));
        assert!(
            why.contains("a.def`: line 2") && why.contains("unknown key"),
            "{why}"
        );
        let why = fault(&format!("# dlrun: framework = other\n{RECIPE}"));
        assert!(why.contains("`framework` is written twice"), "{why}");
        assert!(fault(&"x".repeat(300_000)).contains("larger than 256KiB"));
        std::fs::write(&path, [0xff, 0xfe]).expect("a file");
        assert!(recipes_in(&[dir.path().to_owned()]).is_err());
    }
}
