//! Names of variables, and their values byte for byte.
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

/// Whether a shell takes it for a name. Functions that bash exports have others, which break the container's shell.
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The variable's name behind a dollar sign, as `NAME` or `{NAME}`, and what follows it.
pub(crate) fn name_at(text: &str) -> Option<(&str, &str)> {
    if let Some((name, rest)) = text.strip_prefix('{').and_then(|text| text.split_once('}')) {
        return is_name(name).then_some((name, rest));
    }
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    is_name(&text[..end]).then(|| text.split_at(end))
}
