//! Values of variables, byte for byte.
//!
//! Most runtimes hand the value of `APPTAINERENV_X` to a shell in the container, which would run `$(..)` in it.

use crate::image::runtime::Evaluation;

/// What to set so that the variable `name` has this value in the container; `None`: this runtime cannot be told.
pub(crate) fn literal(evaluation: Evaluation, name: &str, value: &str) -> Option<String> {
    // Seen with Apptainer 1.4.5: the shell in the container takes CR LF for LF, in any quotes.
    let is_kept = evaluation == Evaluation::None || !value.contains("\r\n");
    match evaluation {
        _ if !is_kept => None,
        Evaluation::None | Evaluation::SingleQuotes => Some(value.to_owned()),
        Evaluation::DoubleQuotes => Some(escaped(value, name == "LD_LIBRARY_PATH")),
        Evaluation::Plain => {
            let is_plain = |c: char| {
                c == ' ' || c.is_alphanumeric() || c.is_ascii_graphic() && !"\\\"$`".contains(c)
            };
            value.chars().all(is_plain).then(|| value.to_owned())
        }
    }
}

/// With backslashes, for a shell that reads it between double quotes.
fn escaped(value: &str, double_quotes_too: bool) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | '$' | '`') || double_quotes_too && c == '"' {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
