//! From the values of a row to the record that it is of, and back: both by the places that the columns are declared with.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{Field, FieldType, Role, Table};

/// The longest name, in bytes; daemons take no longer text at all.
pub const MAX_NAME_BYTES: usize = 4096;

/// The values of a row by the names of their columns.
pub(in crate::record) type Cells = Map<String, Value>;

/// Checks that a row has all that it must have, of the right types, and its texts and numbers. Nobody knows who wrote a file.
pub(in crate::record) fn check(fields: &[Field], row: &Cells) -> Result<(), String> {
    for field in fields.iter().filter(|field| field.object.is_some()) {
        let value = row.get(field.name).filter(|value| !value.is_null());
        let fault = match value {
            // A missing object or list is an empty one.
            None => (!field.is_optional() && field.of != FieldType::Json)
                .then(|| "it is missing".to_owned()),
            Some(value) => value_fault(field, value),
        };
        if let Some(fault) = fault {
            return Err(format!("`{}`: {fault}", field.name));
        }
    }
    Ok(())
}

fn value_fault(field: &Field, value: &Value) -> Option<String> {
    let is_of_type = match (field.of, value) {
        (FieldType::Text, Value::String(text)) => return text_fault(field, text),
        (FieldType::Whole, Value::Number(number)) => {
            number.is_u64() || number.is_i64() && field.name.ends_with("exit_code")
        }
        // A loss may be negative, a duration or an amount may not.
        (FieldType::Real, Value::Number(number)) if field.name != "value" => {
            let is_negative = number.as_f64().is_some_and(|number| number < 0.0);
            return is_negative.then(|| "it is negative".to_owned());
        }
        (of, value) => match of {
            FieldType::Flag => value.is_boolean(),
            FieldType::Real => value.is_number(),
            _ => of == FieldType::Json,
        },
    };
    (!is_of_type).then(|| format!("it is not of type {}", field.of.as_str()))
}

fn text_fault(field: &Field, text: &str) -> Option<String> {
    // The name of a node becomes part of paths.
    let is_path = text.contains('/') || ["", ".", ".."].contains(&text);
    if text.contains('\0') || field.is_name && text.chars().any(char::is_control) {
        Some("it has control characters".to_owned())
    } else if field.is_name && text.len() > MAX_NAME_BYTES {
        Some(format!("it is longer than {MAX_NAME_BYTES} bytes"))
    } else {
        (field.name == "node" && is_path).then(|| "it cannot name a node".to_owned())
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
) -> Result<T, String> {
    let groups = groups(fields, row);
    serde_json::from_value(placed(base, &groups)).map_err(|error| {
        let faults = groups.iter().find_map(|group| fault::<T>(base, group));
        faults.unwrap_or_else(|| error.to_string())
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

/// What is wrong with the values of a group; the first of them is named.
fn fault<T: DeserializeOwned>(base: &Value, group: &Group<'_>) -> Option<String> {
    let error = serde_json::from_value::<T>(placed(base, std::slice::from_ref(group))).err()?;
    Some(format!("`{}`: {error}", group[0].0.name))
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
        values.push((column, found.cloned().unwrap_or_else(|| absent(&field))));
    }
    values
}

/// What a column holds where its row has no value.
fn absent(field: &Field) -> Value {
    match field.of {
        FieldType::Flag => false.into(),
        FieldType::Whole if !field.is_optional() => 0.into(),
        FieldType::Json if !field.is_optional() => json!({}),
        _ => Value::Null,
    }
}

/// The values of an exported row for the columns of `stored_in`, a table of the index, each with the column's name there.
pub(in crate::record) fn imported_values(
    table: Table,
    stored_in: &str,
    row: &Cells,
) -> Vec<(&'static str, Value)> {
    let stored = |field: &Field| {
        let (of, column) = field.stored?.split_once('.')?;
        // What is exported as null in place of its default is restored as that.
        let is_default = |value: &&Value| value.is_null() && field.sql.starts_with("nullif");
        let value = row.get(field.name).filter(|value| !is_default(value));
        let value = value.cloned().unwrap_or_else(|| absent(field));
        (of == stored_in && field.object.is_some()).then_some((column, value))
    };
    table.own_fields().iter().filter_map(stored).collect()
}
