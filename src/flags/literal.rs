//! Values of variables, byte for byte.
//!
//! Most runtimes hand the value of `APPTAINERENV_X` to a shell in the container, which would run `$(..)` in it.

use super::features::Evaluation;

/// What to set so that the variable `name` has this value in the container; `None`: this runtime cannot be told.
pub(super) fn literal(evaluation: Evaluation, name: &str, value: &str) -> Option<String> {
    match evaluation {
        Evaluation::None => Some(value.to_owned()),
        Evaluation::DoubleQuotes { raw_library_path } => {
            let quotes = raw_library_path && name == "LD_LIBRARY_PATH";
            Some(escaped(value, quotes))
        }
        Evaluation::GoQuoted => {
            // Quotes and backslashes come back as they are; what Go writes with a letter does not.
            let plain = |c: char| c == ' ' || c.is_ascii_graphic() && !matches!(c, '$' | '`');
            value.chars().all(plain).then(|| value.to_owned())
        }
        Evaluation::Unknown => {
            let plain = |c: char| c.is_alphanumeric() || " ,.:;/_-+=@%^~".contains(c);
            value.chars().all(plain).then(|| value.to_owned())
        }
    }
}

fn escaped(value: &str, quotes: bool) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | '$' | '`') || quotes && c == '"' {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
