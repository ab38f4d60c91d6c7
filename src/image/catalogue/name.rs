//! Names of images: they are typed, shown, and become names of files.

/// Says why a text is not an image name: letters, digits and `._+-` of ASCII, first a letter or a digit, at most 100
/// bytes.
#[must_use]
pub fn name_problem(name: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let fits = begins && name.len() <= 100 && name.chars().all(allowed);
    (!fits).then(|| {
        format!("{name:?} is not an image name (letters, digits and `. _ + -`, first a letter or digit, at most 100)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_a_files() {
        for name in ["a", "tf-2.4.1_gpu+cu110", "0", &"x".repeat(100)] {
            assert_eq!(name_problem(name), None);
        }
        for name in [
            "",
            "../../x",
            ".x",
            "-x",
            "a b",
            "a\nb",
            "$(id)",
            "a/b",
            "\u{fc}",
            &"x".repeat(101),
        ] {
            assert!(name_problem(name).is_some(), "{name:?}");
        }
    }
}
