//! Names of variables.

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
