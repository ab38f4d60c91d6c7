//! Placeholders and conditions of a recipe's text.
//!
//! `{{NAME}}` is replaced by a value. A line that begins with `{{NAME?}}` stands only where NAME has a value, with
//! `{{!NAME?}}` only where it has none; several may follow each other, and all must hold. A value of several lines must stand
//! alone on its line, and takes over its indentation.

use std::collections::BTreeMap;

use crate::foundation::diagnostic::{Problem, nearest};

/// Values by name. Those without a value are empty, so that a name that is not here is a mistake.
pub(crate) type Values = BTreeMap<String, String>;

/// Whether this can name a placeholder.
pub(crate) fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= 40
        && name.chars().all(allowed)
}

/// Fills in all lines of `text`. Values are put in as they are, and not looked at again.
pub(crate) fn fill(text: &str, values: &Values) -> Result<String, Vec<Problem>> {
    let (mut out, mut problems) = (String::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        match fill_line(line, values) {
            Ok(Some(filled)) => {
                out.push_str(filled.trim_end());
                out.push('\n');
            }
            Ok(None) => {}
            Err(why) => problems.push(Problem::of_file(format!(
                "line {} of the definition: {why}",
                number + 1
            ))),
        }
    }
    if problems.is_empty() {
        Ok(out)
    } else {
        Err(problems)
    }
}

/// The line, or `None` where a condition does not hold.
fn fill_line(line: &str, values: &Values) -> Result<Option<String>, String> {
    let indent = &line[..line.len() - line.trim_start().len()];
    let mut rest = line.trim_start();
    while let Some((condition, after)) = condition(rest) {
        let (name, wanted) = condition
            .strip_prefix('!')
            .map_or((condition, true), |name| (name, false));
        if value(name, values)?.is_empty() == wanted {
            return Ok(None);
        }
        rest = after;
    }
    let alone = rest
        .trim()
        .strip_prefix("{{")
        .and_then(|rest| rest.strip_suffix("}}"))
        .filter(|name| is_name(name));
    if let Some(name) = alone {
        let text = value(name, values)?;
        let lines: Vec<_> = text
            .lines()
            .map(|line| format!("{indent}{line}").trim_end().to_owned())
            .collect();
        return Ok((!lines.is_empty()).then(|| lines.join("\n")));
    }
    let mut out = indent.to_owned();
    while let Some(start) = rest.find("{{") {
        let inside = &rest[start + 2..];
        let end = inside.find("}}").ok_or("`{{` has no `}}`")?;
        let text = value(inside[..end].trim(), values)?;
        if text.contains('\n') {
            return Err(format!(
                "`{{{{{}}}}}` has several lines, and must stand alone on its line",
                &inside[..end]
            ));
        }
        out.push_str(&rest[..start]);
        out.push_str(text);
        rest = &inside[end + 2..];
    }
    out.push_str(rest);
    Ok(Some(out))
}

/// A condition at the beginning of `rest`, and what is behind it.
fn condition(rest: &str) -> Option<(&str, &str)> {
    let (name, after) = rest.strip_prefix("{{")?.split_once("?}}")?;
    (!name.contains('}')).then(|| (name.trim(), after.trim_start()))
}

fn value<'a>(name: &str, values: &'a Values) -> Result<&'a str, String> {
    values.get(name).map(String::as_str).ok_or_else(|| {
        let guess = nearest(name, values.keys().map(String::as_str));
        let guess = guess.map_or_else(String::new, |guess| format!("; did you mean `{guess}`?"));
        format!("there is no placeholder `{name}`{guess}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        [("a", "1"), ("no", ""), ("two", "x\ny"), ("odd", "{{a}}")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    #[test]
    fn placeholders_conditions_and_blocks() {
        let text = "v={{a}} {{a}}\n  {{a?}} yes\n  {{!a?}}no\n{{no?}} no\n{{!no?}}{{a?}} both\n    {{two}}\n{{no}}\n\n{{odd}}!\n";
        let filled = fill(text, &values()).expect("it is right");
        assert_eq!(filled, "v=1 1\n  yes\nboth\n    x\n    y\n\n{{a}}!\n");
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let why = |text| {
            fill(text, &values()).expect_err("a mistake")[0]
                .message
                .clone()
        };
        assert!(
            why("\n{{tow}}").contains("line 2") && why("{{tow}}").contains("did you mean `two`?")
        );
        assert!(why("a {{x?}}").contains("no placeholder `x?`"));
        assert!(why("a {{two}}").contains("alone on its line"));
        assert!(why("a {{two").contains("no `}}`"));
    }
}
