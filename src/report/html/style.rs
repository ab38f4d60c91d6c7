//! The style of the page, and the hash by which its policy allows it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The style, as it is in the page.
pub(super) const STYLE: &str = include_str!("style.css");

/// What the policy names it by.
pub(super) fn hash() -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(STYLE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_asks_for_nothing_from_elsewhere() {
        for never in ["@import", "http", "url(", "</", "@font-face"] {
            assert!(!STYLE.contains(never), "{never}");
        }
        assert_eq!(hash().len(), "sha256-".len() + 44);
    }

    #[test]
    fn the_dark_colours_are_as_many_as_the_light_ones() {
        let names = |block: &str| {
            let lines = block.split('}').next().expect("a block").split(';');
            let names = lines.filter_map(|line| {
                line.split(':')
                    .next()?
                    .trim()
                    .strip_prefix("--")
                    .map(str::to_owned)
            });
            names.collect::<Vec<_>>()
        };
        let blocks: Vec<&str> = STYLE.split(":root {").skip(1).collect();
        assert_eq!(blocks.len(), 2);
        assert_eq!(names(blocks[0]), names(blocks[1]));
        assert!(names(blocks[0]).len() > 10);
    }
}
