//! What a column of a row may hold: names, texts, amounts, rates, numbers of changes. Nobody knows who wrote a file.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// The longest name, in bytes; daemons take no longer text at all.
pub const MAX_NAME_BYTES: usize = 4096;

/// A name: it is shown in tables and compared, so it has neither line breaks nor what drives a terminal.
pub(super) fn name<'de, D: Deserializer<'de>>(source: D) -> Result<String, D::Error> {
    let text = String::deserialize(source)?;
    if text.chars().any(char::is_control) {
        return Err(D::Error::custom(format!(
            "{} has control characters, and a name has none",
            quoted(&text)
        )));
    }
    if text.len() > MAX_NAME_BYTES {
        let (shown, length) = (quoted(&text), text.len());
        return Err(D::Error::custom(format!(
            "{shown} has {length} bytes, and a name {MAX_NAME_BYTES} bytes at most"
        )));
    }
    Ok(text)
}

/// The beginning of a text, with nothing in it that drives a terminal.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// A name that is part of a key.
pub(super) fn key<'de, D: Deserializer<'de>>(source: D) -> Result<String, D::Error> {
    let text = name(source)?;
    if text.is_empty() {
        Err(D::Error::custom("the name is empty"))
    } else {
        Ok(text)
    }
}

/// The name of a node: elsewhere it becomes part of a path.
pub(super) fn node<'de, D: Deserializer<'de>>(source: D) -> Result<String, D::Error> {
    let text = key(source)?;
    let is_path = text.contains('/') || text == "." || text == "..";
    if is_path {
        Err(D::Error::custom(format!("{text:?} cannot name a node")))
    } else {
        Ok(text)
    }
}

pub(super) fn name_or_none<'de, D: Deserializer<'de>>(
    source: D,
) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    struct Name(#[serde(deserialize_with = "name")] String);
    Ok(Option::<Name>::deserialize(source)?.map(|name| name.0))
}

/// Text that others said. A database would end it at a NUL.
pub(super) fn text<'de, D: Deserializer<'de>>(source: D) -> Result<String, D::Error> {
    let text = String::deserialize(source)?;
    if text.contains('\0') {
        return Err(D::Error::custom(format!(
            "{} has a NUL, and text has none",
            quoted(&text)
        )));
    }
    Ok(text)
}

pub(super) fn text_or_none<'de, D: Deserializer<'de>>(
    source: D,
) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    struct Text(#[serde(deserialize_with = "text")] String);
    Ok(Option::<Text>::deserialize(source)?.map(|text| text.0))
}

/// A duration, a rate or an amount.
pub(super) fn amount<'de, D: Deserializer<'de>>(source: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(source)?;
    if value < 0.0 {
        Err(D::Error::custom(format!("{value:?} is negative")))
    } else {
        Ok(value)
    }
}

pub(super) fn amount_or_none<'de, D: Deserializer<'de>>(
    source: D,
) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    struct Amount(#[serde(deserialize_with = "amount")] f64);
    Ok(Option::<Amount>::deserialize(source)?.map(|amount| amount.0))
}

/// What a machine was measured to do: models divide by it.
pub(super) fn rate_or_none<'de, D: Deserializer<'de>>(source: D) -> Result<Option<f64>, D::Error> {
    let value = Option::<f64>::deserialize(source)?;
    match value.filter(|value| *value <= 0.0) {
        Some(value) => Err(D::Error::custom(format!("{value:?} is not above zero"))),
        None => Ok(value),
    }
}

/// A database holds no larger number, and the same row must be the same version again.
pub(super) fn change<'de, D: Deserializer<'de>>(source: D) -> Result<u64, D::Error> {
    let seq = u64::deserialize(source)?;
    if seq > i64::MAX.unsigned_abs() {
        return Err(D::Error::custom(format!(
            "{seq} is no number of a change: they end at {}",
            i64::MAX
        )));
    }
    Ok(seq)
}
