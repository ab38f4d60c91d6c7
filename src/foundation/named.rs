//! Enumerations whose values have a name each: declared once, with all that follows from it.

/// Declares an enumeration of plain values, each with its name in words, with `ALL` and `as_str`.
macro_rules! named_enum {
    (
        $(#[$attribute:meta])*
        $visible:vis enum $name:ident {
            $($(#[$doc:meta])* $variant:ident = $word:literal,)*
        }
    ) => {
        $(#[$attribute])*
        $visible enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// All of them, in their order.
            $visible const ALL: [Self; [$($word),*].len()] = [$(Self::$variant),*];

            /// Its name.
            #[must_use]
            #[allow(dead_code, reason = "some names are for readers of the code alone")]
            $visible fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}

pub(crate) use named_enum;
