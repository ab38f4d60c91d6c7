//! Reads a requirements file with all that it includes.
//!
//! Only what is needed to notice a change is understood (pip's reference, "Requirements File Format"): includes,
//! comments and continued lines.
//!
//! ```text
//! -r base.txt                  # relative to this file
//! --constraint=limits.txt
//! torch==2.4.1 \
//!     --hash=sha256:...
//! ./packages/mine
//! ```

use std::collections::HashSet;

use std::path::{Path, PathBuf};

use crate::foundation::filesystem::whole_text;
use crate::image::python::failure::PyenvError;

/// What a requirements file may have, with all that it includes, in bytes. The longest lock files, with hashes of every
/// wheel, have some hundred KiB.
const LIMIT_BYTES: u64 = 1 << 20;

/// One file of a set of requirements.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Where it lies, absolute.
    pub(crate) path: PathBuf,
    /// Its content.
    pub(crate) text: String,
    /// Whether a line names a file or directory relative to where pip runs, so that the same text means something else
    /// in another directory.
    pub(crate) is_local: bool,
}

/// Reads `path` and the files that it includes, each once, in the order in which they are named.
pub(crate) fn read(path: &Path) -> Result<Vec<Part>, PyenvError> {
    let mut parts: Vec<Part> = Vec::new();
    let mut seen = HashSet::new();
    let mut ahead = vec![path.to_owned()];
    let mut left = LIMIT_BYTES;
    while let Some(path) = ahead.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let text = whole_text(&path, left)
            .map_err(|source| PyenvError::Requirements(path.clone(), source))?;
        left -= text.len() as u64;
        let lines = logical_lines(&text);
        let dir = path.parent().unwrap_or(Path::new("/"));
        let includes = lines.iter().filter_map(|line| include_of(line));
        let files: Vec<PathBuf> = includes
            .filter(|name| !name.contains("://"))
            .map(|n| dir.join(n))
            .collect();
        let is_local = lines.iter().any(|line| is_local(line));
        ahead.extend(files.into_iter().rev());
        parts.push(Part {
            path,
            is_local,
            text,
        });
    }
    Ok(parts)
}

/// Joins continued lines and drops comments and blank lines.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut begun = String::new();
    for line in text.trim_start_matches('\u{feff}').lines() {
        match line.strip_suffix('\\') {
            Some(part) if !part.trim_start().starts_with('#') => begun.push_str(part),
            _ => {
                begun.push_str(line);
                lines.push(std::mem::take(&mut begun));
            }
        }
    }
    lines.push(begun);
    let bare = lines
        .iter()
        .map(|line| without_comment(line).trim().to_owned());
    bare.filter(|line| !line.is_empty()).collect()
}

/// A comment begins at the start of a line or after a blank; `#egg=name` in an address is none.
fn without_comment(line: &str) -> &str {
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        if c == '#' && before.is_whitespace() {
            return &line[..at];
        }
        before = c;
    }
    line
}

/// The file that a line includes, as a requirement or as a constraint.
fn include_of(line: &str) -> Option<&str> {
    let long = ["--requirement", "--constraint"]
        .iter()
        .find_map(|name| line.strip_prefix(name));
    let value = match long {
        Some(rest) if rest.starts_with('=') || rest.starts_with(char::is_whitespace) => &rest[1..],
        Some(_) => return None,
        None => ["-r", "-c"]
            .iter()
            .find_map(|name| line.strip_prefix(name))?,
    };
    let value = value.trim();
    let name = match value.strip_prefix(['"', '\'']) {
        Some(quoted) => quoted.split(['"', '\'']).next(),
        None => value.split_whitespace().next(),
    };
    name.filter(|name| !name.is_empty())
}

/// Whether a line names something relative to the working directory. In doubt it does: then two directories with the
/// same text get two environments, which costs space only.
fn is_local(line: &str) -> bool {
    if include_of(line).is_some() {
        return false;
    }
    let options = ["-e", "--editable", "-f", "--find-links", "."];
    let endings = [".whl", ".zip", ".tar.gz"];
    let address = line.contains("://");
    options.iter().any(|option| line.starts_with(option))
        || line.contains("file:")
        || (!address && (line.contains('/') || endings.iter().any(|ending| line.ends_with(ending))))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn lines_lose_comments_and_are_joined() {
        let text =
            "\u{feff}# all\\\ntorch==2.4 \\\n  --hash=x # why\n\ngit+https://h/a#egg=a\nlast \\";
        assert_eq!(
            logical_lines(text),
            ["torch==2.4   --hash=x", "git+https://h/a#egg=a", "last"]
        );
    }

    #[test]
    fn includes_are_recognised_in_every_spelling() {
        for line in [
            "-r a.txt",
            "-ra.txt",
            "-c a.txt",
            "--requirement a.txt",
            "--constraint=a.txt",
            "-r 'a.txt'",
        ] {
            assert_eq!(include_of(line), Some("a.txt"), "{line}");
        }
        assert_eq!(include_of("-r \"my list.txt\""), Some("my list.txt"));
        for line in [
            "requests",
            "--require-hashes",
            "--requirements a",
            "-e .",
            "-r",
        ] {
            assert_eq!(include_of(line), None, "{line}");
        }
    }

    #[test]
    fn local_lines_are_told_from_names_and_addresses() {
        for line in [
            "./pkg",
            "pkg/sub",
            "-e .",
            "--find-links=wheels",
            "a.whl",
            "a @ file:x",
            "/opt/a",
        ] {
            assert!(is_local(line), "{line}");
        }
        for line in [
            "torch==2.4.*",
            "a @ https://h/a.whl",
            "--index-url https://h/simple",
            "-r sub/a.txt",
        ] {
            assert!(!is_local(line), "{line}");
        }
    }

    #[test]
    fn included_files_are_read_once_even_in_a_circle() {
        let dir = tempfile::tempdir().expect("temp");
        fs::create_dir(dir.path().join("sub")).expect("ours");
        let put = |name: &str, text: &str| {
            fs::write(dir.path().join(name), text).expect("ours");
            dir.path().join(name)
        };
        let top = put(
            "top.txt",
            "-r sub/a.txt\n-c limits.txt\n-r https://h/far.txt\n",
        );
        put("sub/a.txt", "-r b.txt\n./here\n");
        put("sub/b.txt", "-r a.txt\n");
        put("limits.txt", "x<3\n");
        let parts = read(&top).expect("all is there");
        let names: Vec<_> = parts
            .iter()
            .map(|part| part.path.strip_prefix(dir.path()).expect("inside"))
            .collect();
        assert_eq!(
            names,
            ["top.txt", "sub/a.txt", "sub/b.txt", "limits.txt"].map(Path::new)
        );
        assert_eq!(
            parts.iter().map(|part| part.is_local).collect::<Vec<_>>(),
            [false, true, false, false]
        );
        put("sub/b.txt", &"#".repeat(2 << 20));
        assert!(
            matches!(read(&top),Err(PyenvError::Requirements(path, _)) if path.ends_with("sub/b.txt"))
        );
        fs::remove_file(dir.path().join("sub/b.txt")).expect("ours");
        assert!(
            matches!(read(&top), Err(PyenvError::Requirements(path, _)) if path.ends_with("sub/b.txt"))
        );
        assert!(read(dir.path()).is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "\\PC*(\n[-rce. \"'#\\\\]{0,8}\\PC*)*") {
            for line in logical_lines(&text) {
                let _ = (include_of(&line), is_local(&line));
            }
        }
    }
}
