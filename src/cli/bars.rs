//! Heights as letters.

/// Which letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bars {
    /// Block characters of Unicode.
    Blocks,
    /// What any terminal shows.
    Ascii,
}

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

impl Bars {
    /// Blocks where the locale's letters are UTF-8 and the terminal is not dumb. Of the variables of a locale the first
    /// that says something counts (POSIX.1-2017, 8.2).
    pub(crate) fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let said = |name: &&str| variable(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(said)
            .unwrap_or_default()
            .to_lowercase();
        let is_dumb = variable("TERM").is_some_and(|term| term == "dumb");
        let is_utf8 = locale.contains("utf-8") || locale.contains("utf8");
        if is_utf8 && !is_dumb {
            Self::Blocks
        } else {
            Self::Ascii
        }
    }

    /// The letter for `value` between 0 and `most`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 7"
    )]
    pub(crate) fn of(self, value: f64, most: f64) -> char {
        let part = if most > 0.0 {
            (value / most).clamp(0.0, 1.0)
        } else {
            0.0
        };
        let letters = if self == Self::Blocks { BLOCKS } else { ASCII };
        letters[(part * 7.0).round() as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_are_between_nothing_and_the_most() {
        let bars = |bars: Bars| [-1.0, 0.0, 4.0, 8.0, 9.0].map(|value| bars.of(value, 8.0));
        assert_eq!(bars(Bars::Blocks), ['▁', '▁', '▅', '█', '█']);
        assert_eq!(bars(Bars::Ascii), ['_', '_', '=', '#', '#']);
        assert_eq!(
            (Bars::Ascii.of(5.0, 0.0), Bars::Ascii.of(0.0, 0.0)),
            ('_', '_')
        );
    }

    #[test]
    fn the_locale_decides_unless_the_terminal_is_dumb() {
        for (variables, expected) in [
            (&[][..], Bars::Ascii),
            (&[("LANG", "de_DE.UTF-8")], Bars::Blocks),
            (
                &[("LANG", "C.utf8"), ("LC_ALL", ""), ("TERM", "xterm")],
                Bars::Blocks,
            ),
            (&[("LANG", "C.UTF-8"), ("LC_CTYPE", "POSIX")], Bars::Ascii),
            (
                &[("LC_CTYPE", "C"), ("LC_ALL", "en_US.UTF-8")],
                Bars::Blocks,
            ),
            (&[("LANG", "C.UTF-8"), ("TERM", "dumb")], Bars::Ascii),
        ] {
            let value = |wanted: &str| {
                variables
                    .iter()
                    .find(|(name, _)| *name == wanted)
                    .map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(Bars::of_environment(value), expected, "{variables:?}");
        }
    }
}
