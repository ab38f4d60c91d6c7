//! Enums whose variants are words of files, of `--json` and of the index.

/// Declares an enum of words: `Variant = "word"`. Gives it `WORDS`, `as_str`, `from_word`, serde by the words, and `Display`.
macro_rules! vocabulary {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $($(#[$about:meta])* $variant:ident = $word:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
        )]
        $vis enum $name {
            $($(#[$about])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// Its words, in the order of the declaration.
            pub const WORDS: [(&'static str, Self); [$($word),*].len()] =
                [$(($word, Self::$variant)),*];

            /// The words alone.
            pub const NAMES: [&'static str; [$($word),*].len()] = [$($word),*];

            /// The word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            /// What a word means.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                let known = Self::WORDS.iter().find(|(known, _)| *known == word);
                known.map(|(_, value)| *value)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
pub(crate) use vocabulary;
