//! From the values of a row to the record that it is of, and back: both by the places that the columns are declared with.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{Bound, Field, FieldType, Role, Table};

/// The longest name, in bytes; daemons take no longer text at all.
pub const MAX_NAME_BYTES: usize = 4096;

/// The values of a row by the names of their columns.
pub(in crate::record) type Cells = Map<String, Value>;

/// What is wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::record) struct ColumnFault {
    /// The column; empty where it is none of them alone.
    pub(in crate::record) column: &'static str,
    /// What is wrong with its value.
    pub(in crate::record) message: String,
}

/// Says whether a row has all that it must, and what is wanted of its values; their types are seen when it is read.
pub(in crate::record) fn check(fields: &[Field], row: &Cells) -> Result<(), ColumnFault> {
    for field in fields.iter().filter(|field| field.object.is_some()) {
        let value = row.get(field.name).filter(|value| !value.is_null());
        let fault = match value {
            None if field.is_optional() => None,
            None => Some(format!("missing field `{}`", field.name)),
            Some(value) => field.bound.fault(value),
        };
        if let Some(message) = fault {
            let column = field.name;
            return Err(ColumnFault { column, message });
        }
    }
    Ok(())
}

impl Bound {
    fn fault(self, value: &Value) -> Option<String> {
        match (value, self) {
            (Value::String(text), Self::Name | Self::Key | Self::Node) => self.name_fault(text),
            (Value::String(text), Self::Text) => text
                .contains('\0')
                .then(|| format!("{} has a NUL, and text has none", quoted(text))),
            (Value::Number(number), Self::Amount) => number
                .as_f64()
                .filter(|number| *number < 0.0)
                .map(|number| format!("{number:?} is negative")),
            (Value::Number(number), Self::Rate) => number
                .as_f64()
                .filter(|number| *number <= 0.0)
                .map(|number| format!("{number:?} is not above zero")),
            (Value::Number(number), Self::Change) => {
                let is_larger = number.as_u64().is_some() && number.as_i64().is_none();
                let most = i64::MAX;
                is_larger.then(|| format!("{number} is no number of a change: they end at {most}"))
            }
            _ => None,
        }
    }

    fn name_fault(self, text: &str) -> Option<String> {
        let shown = quoted(text);
        if text.chars().any(char::is_control) {
            return Some(format!(
                "{shown} has control characters, and a name has none"
            ));
        }
        let length = text.len();
        if length > MAX_NAME_BYTES {
            return Some(format!(
                "{shown} has {length} bytes, and a name {MAX_NAME_BYTES} bytes at most"
            ));
        }
        if self != Self::Name && text.is_empty() {
            return Some("the name is empty".to_owned());
        }
        let is_path = text.contains('/') || text == "." || text == "..";
        (self == Self::Node && is_path).then(|| format!("{text:?} cannot name a node"))
    }
}

/// The beginning of a text, with nothing in it that drives a terminal.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Columns that are one thing, with their values.
type Group<'a> = Vec<(&'a Field, &'a Value)>;

/// Makes a record of a row: its values take their places in `base`, which is a whole record by itself.
///
/// # Errors
/// The first value that does not fit.
pub(in crate::record) fn assemble<T: DeserializeOwned>(
    fields: &[Field],
    base: &Value,
    row: &Cells,
) -> Result<T, ColumnFault> {
    let groups = groups(fields, row);
    serde_json::from_value(placed(base, &groups)).map_err(|error| {
        let first = groups.iter().find_map(|group| fault::<T>(base, group));
        first.unwrap_or(ColumnFault {
            column: "",
            message: error.to_string(),
        })
    })
}

/// As [`assemble`]; what a newer dlrun may have written, and does not fit, is left out.
///
/// # Errors
/// Where the row makes no record even so.
pub(in crate::record) fn assemble_known<T: DeserializeOwned>(
    fields: &[Field],
    base: &Value,
    row: &Cells,
) -> Result<T, serde_json::Error> {
    let mut groups = groups(fields, row);
    serde_json::from_value(placed(base, &groups)).or_else(|_| {
        groups.retain(|group| fault::<T>(base, group).is_none());
        serde_json::from_value(placed(base, &groups))
    })
}

/// The values that are there, those of one object together where it has columns that it cannot be without; without one of these it is
/// left out.
fn groups<'a>(fields: &'a [Field], row: &'a Cells) -> Vec<Group<'a>> {
    let value = |field: &Field| row.get(field.name).filter(|value| !value.is_null());
    let mut groups: Vec<Group<'a>> = Vec::new();
    for field in fields {
        let (Some(object), Some(value)) = (field.object, value(field)) else {
            continue;
        };
        // One that ended with a code was ended by no signal.
        if field.key == "signal" && row.get("exit_code").is_some_and(|code| !code.is_null()) {
            continue;
        }
        let mut parts = fields
            .iter()
            .filter(|other| other.role == Role::Part && other.object == Some(object))
            .peekable();
        if parts.peek().is_none() {
            groups.push(vec![(field, value)]);
            continue;
        }
        if parts.any(|part| row.get(part.name).is_none_or(Value::is_null)) {
            continue;
        }
        match groups
            .iter_mut()
            .find(|group| group[0].0.object == Some(object))
        {
            Some(group) => group.push((field, value)),
            None => groups.push(vec![(field, value)]),
        }
    }
    groups
}

fn placed(base: &Value, groups: &[Group<'_>]) -> Value {
    let mut record = base.clone();
    for (field, value) in groups.iter().flatten() {
        let mut object = &mut record;
        for step in field.object.unwrap_or_default().split('/').skip(1) {
            object = &mut object[step];
        }
        match field.key.parse::<usize>() {
            Ok(place) => {
                if object.is_null() {
                    *object = json!([null, null]);
                }
                object[place] = (*value).clone();
            }
            Err(_) => object[field.key] = (*value).clone(),
        }
    }
    record
}

fn fault<T: DeserializeOwned>(base: &Value, group: &Group<'_>) -> Option<ColumnFault> {
    let error = serde_json::from_value::<T>(placed(base, std::slice::from_ref(group))).err()?;
    // Of several values that are one thing the first of another type.
    let is_unlike = |(field, value): &&(&Field, &Value)| match field.of {
        FieldType::Text => !value.is_string(),
        FieldType::Whole => !value.is_u64(),
        FieldType::Real => !value.is_number(),
        FieldType::Flag => !value.is_boolean(),
        FieldType::Json => false,
    };
    let (field, _) = group.iter().find(is_unlike).unwrap_or(&group[0]);
    Some(ColumnFault {
        column: field.name,
        message: error.to_string(),
    })
}

/// The values of a record for the columns of `stored_in`, a table of the index, that are within an object of the record; each with the
/// column's name there. What serde leaves out of a record is what its type has at first.
pub(in crate::record) fn stored_values(
    table: Table,
    stored_in: &str,
    within: &str,
    record: &Value,
) -> Vec<(&'static str, Value)> {
    let mut values = Vec::new();
    for field in table.own_fields() {
        let (Some(object), Some(stored)) = (field.object, field.stored) else {
            continue;
        };
        let column = stored.split_once('.').filter(|(of, _)| *of == stored_in);
        let Some((_, column)) = column.filter(|_| object.starts_with(within)) else {
            continue;
        };
        let found = record.pointer(object).and_then(|object| match object {
            Value::Array(parts) => parts.get(field.key.parse::<usize>().ok()?),
            _ => object.get(field.key),
        });
        let value = found.cloned().unwrap_or_else(|| match field.of {
            FieldType::Flag => false.into(),
            FieldType::Whole if !field.is_optional() => 0.into(),
            FieldType::Json if !field.is_optional() => json!({}),
            _ => Value::Null,
        });
        values.push((column, value));
    }
    values
}
