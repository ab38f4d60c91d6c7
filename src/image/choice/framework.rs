//! Names of frameworks as people write them.

use crate::foundation::diagnostic::nearest;

/// Names in use beside a framework's own, without `-`, `_` and `.`: package names and short forms.
const NAMES: [(&str, &str); 7] = [
    ("torch", "pytorch"),
    ("tf", "tensorflow"),
    ("tf2", "tensorflow"),
    ("tensorflowcpu", "tensorflow"),
    ("tensorflowgpu", "tensorflow"),
    ("jaxlib", "jax"),
    ("apachemxnet", "mxnet"),
];
/// A shorter name is not taken for a mistyped one: `flax` is not `jax`.
const LEAST_LETTERS: usize = 5;

/// Says whether two names are of the same framework.
#[must_use]
pub fn same(left: &str, right: &str) -> bool {
    plain(left) == plain(right)
}

/// The framework of `known` that a name means which is none of them: another of its names, or one letter mistyped.
pub fn meant<'a>(name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let other_name = known.clone().into_iter().find(|known| same(known, name));
    let is_long = |known: &&str| known.len().min(name.len()) >= LEAST_LETTERS;
    other_name.or_else(|| {
        let close = nearest(name, known.into_iter().filter(is_long))?;
        (strsim::damerau_levenshtein(name, close) == 1).then_some(close)
    })
}

fn plain(name: &str) -> String {
    let letters: String = name
        .to_lowercase()
        .chars()
        .filter(|c| !"-_.".contains(*c))
        .collect();
    NAMES
        .iter()
        .find(|(other, _)| *other == letters)
        .map_or(letters, |(_, own)| (*own).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_nearly_right_means_the_framework_that_is_known() {
        let known = ["jax", "keras", "pytorch", "tensorflow"];
        for (name, expected) in [
            ("torch", Some("pytorch")),
            ("py-torch", Some("pytorch")),
            ("pytroch", Some("pytorch")),
            ("tf", Some("tensorflow")),
            ("tensorflow-gpu", Some("tensorflow")),
            ("tensorflw", Some("tensorflow")),
            ("kears", Some("keras")),
            ("flax", None),
            ("lightning", None),
            ("mxnet", None),
            ("max", None),
            ("", None),
        ] {
            assert_eq!(meant(name, known), expected, "{name}");
        }
        assert_eq!(meant("pytorch", ["torch"]), Some("torch"));
    }
}
