//! Rows of JSON Lines as `dlrun export` writes them.

use dlrun::record::{FieldType, Table};
use serde_json::{Map, Value, json};

/// A row with nothing but what must be there, and `told`.
pub(crate) fn row(table: Table, store: &str, seq: u64, told: Value) -> Value {
    let mut row = Map::from_iter([
        ("kind".to_owned(), json!(table.kind())),
        ("format".to_owned(), json!(1)),
    ]);
    for field in table.fields() {
        let value = match (field.name, field.of) {
            ("store", _) => json!(store),
            ("seq", _) => json!(seq),
            ("run_id", _) => json!("0000000000000001"),
            ("element" | "attempt" | "step", _) => json!(0),
            ("node", _) => json!("n1"),
            ("scheduler", _) => json!("slurm"),
            ("state", _) if table == Table::Runs => json!("completed"),
            ("state", _) => json!("ended"),
            ("event", FieldType::Text) => json!("note"),
            ("metrics" | "last_metrics" | "conditions", _) => json!({}),
            ("gaps" | "missing", _) => json!([]),
            _ if field.is_optional() => Value::Null,
            (name, FieldType::Text) => json!(format!("a {name}")),
            (_, FieldType::Whole) => json!(1_000),
            (_, FieldType::Real) => json!(1.0),
            (_, FieldType::Flag) => json!(false),
            (name, FieldType::Json) => panic!("no value for {name}"),
        };
        row.insert(field.name.to_owned(), value);
    }
    let Value::Object(told) = told else {
        panic!("columns are told as an object")
    };
    for (name, value) in told {
        assert!(
            row.insert(name.clone(), value).is_some(),
            "{table:?} has no column {name}"
        );
    }
    Value::Object(row)
}

/// Rows as the lines of a file.
pub(crate) fn lines<'a>(rows: impl IntoIterator<Item = &'a Value>) -> String {
    rows.into_iter().map(|row| format!("{row}\n")).collect()
}
