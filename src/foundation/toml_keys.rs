//! Keys of a TOML file, each declared once: what a key may hold, how it is read, and its JSON schema.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::toml_reader::{Fields, Located};

type Reader<T> = Box<dyn Fn(&mut Fields<'_>, &'static str) -> Option<T>>;

/// What a key may hold.
pub(crate) struct Kind<T> {
    read: Reader<T>,
    /// Its JSON Schema (draft 2020-12), without a description.
    pub(crate) schema: Value,
}

impl<T> Kind<T> {
    pub(crate) fn new(
        schema: Value,
        read: impl Fn(&mut Fields<'_>, &'static str) -> Option<T> + 'static,
    ) -> Self {
        let read = Box::new(read);
        Self { read, schema }
    }

    /// What holds where the key is absent, or faulty and reported.
    pub(crate) fn or(self, default: T) -> Self
    where
        T: Clone + Into<Value> + 'static,
    {
        let Self { read, schema } = self;
        let word = default.clone().into();
        let read =
            move |fields: &mut Fields<'_>, key| read(fields, key).or_else(|| Some(default.clone()));
        Self::new(schema, read).with("default", word)
    }

    /// Turns what was read into another value; `None`: there is none.
    pub(crate) fn map<U>(self, change: impl Fn(T) -> Option<U> + 'static) -> Kind<U>
    where
        T: 'static,
    {
        let Self { read, schema } = self;
        Kind::new(schema, move |fields, key| {
            read(fields, key).and_then(&change)
        })
    }

    /// Adds a word of JSON Schema, such as `examples`.
    pub(crate) fn with(mut self, word: &str, value: impl Into<Value>) -> Self {
        self.schema[word] = value.into();
        self
    }
}

/// How the value of a key is kept.
impl Fields<'_> {
    pub(crate) fn optional<T>(&mut self, key: &'static str, kind: &Kind<T>) -> Option<T> {
        (kind.read)(self, key)
    }

    pub(crate) fn located<T>(&mut self, key: &'static str, kind: &Kind<T>) -> Option<Located<T>> {
        let value = (kind.read)(self, key)?;
        let span = self.span(key);
        Some(Located { value, span })
    }

    /// As [`Fields::located`], with the default of its type where the key is absent, or faulty and reported.
    pub(crate) fn placed<T: Default>(&mut self, key: &'static str, kind: &Kind<T>) -> Located<T> {
        self.located(key, kind).unwrap_or_default()
    }

    /// The default of its type where the key is absent, or faulty and reported.
    pub(crate) fn or_default<T: Default>(&mut self, key: &'static str, kind: &Kind<T>) -> T {
        (kind.read)(self, key).unwrap_or_default()
    }
}

/// A table whose keys [`keys!`] declares.
pub(crate) trait Table {
    /// Reads it.
    fn read(fields: &mut Fields<'_>) -> Self;
    /// Its keys with their schemas, in the order of the declaration.
    fn keys() -> Vec<(&'static str, Value)>;
}

/// Declares a struct and with it the keys of a TOML table: `KEY: TYPE = KEEP(KIND)`, where KEEP is a method of [`Fields`]
/// and KIND a [`Kind`]. The doc comment of a key is its description in the schema. Fields without `=` are no keys. Attributes of
/// a field stand in brackets behind its comment: `[serde(skip)]`.
macro_rules! keys {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $about:literal])*
                $([$attribute:meta])*
                $key:ident: $type:ty $(= $keep:ident($kind:expr))?,
            )*
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[doc = $about])* $(#[$attribute])* pub $key: $type,)*
        }

        impl $crate::foundation::toml_keys::Table for $name {
            fn read(fields: &mut $crate::foundation::toml_reader::Fields<'_>) -> Self {
                Self {
                    $($key: $crate::foundation::toml_keys::keys!(@read fields $key $($keep $kind)?),)*
                }
            }

            fn keys() -> Vec<(&'static str, serde_json::Value)> {
                let keys = [$($crate::foundation::toml_keys::keys!(@schema $key ($($about)*) $($kind)?)),*];
                keys.into_iter().flatten().collect()
            }
        }
    };
    (@read $fields:ident $key:ident) => { Default::default() };
    (@read $fields:ident $key:ident $keep:ident $kind:expr) => {
        $fields.$keep(stringify!($key), &$kind)
    };
    (@schema $key:ident ($($about:literal)*)) => { None };
    (@schema $key:ident ($($about:literal)*) $kind:expr) => {
        Some((stringify!($key), $kind.with("description", concat!($($about),*).trim()).schema))
    };
}

pub(crate) use keys;

pub(crate) fn text() -> Kind<String> {
    Kind::new(json!({ "type": "string" }), |fields, key| fields.text(key))
}

/// Text that `read` takes; nearly all of it fits `pattern`.
pub(crate) fn parsed<T, E: Display>(
    pattern: &str,
    read: impl Fn(&str) -> Result<T, E> + 'static,
) -> Kind<T> {
    let schema = json!({ "type": "string", "pattern": pattern });
    Kind::new(schema, move |fields, key| fields.parsed(key, &read))
}

/// A path, relative or absolute.
pub(crate) fn path() -> Kind<PathBuf> {
    parsed("^[^\\x00-\\x1f\\x7f]*$", |text| match text {
        "" => Err("must not be empty"),
        text if text.chars().any(char::is_control) => Err("must not contain control characters"),
        text => Ok(PathBuf::from(text)),
    })
    .with("minLength", 1)
}

/// A whole number from 1.
pub(crate) fn count(limit: u32) -> Kind<u32> {
    let schema = json!({ "type": "integer", "minimum": 1, "maximum": limit });
    Kind::new(schema, move |fields, key| fields.count(key, limit))
}

pub(crate) fn number(range: RangeInclusive<u64>) -> Kind<u64> {
    let schema = json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() });
    Kind::new(schema, move |fields, key| fields.number(key, range.clone()))
}

/// As [`number`], also as a whole float such as `4e9`, which a JSON Schema calls an integer too.
pub(crate) fn large_number(range: RangeInclusive<u64>) -> Kind<u64> {
    let Kind { schema, .. } = number(range.clone());
    Kind::new(schema, move |fields, key| {
        fields.large_number(key, range.clone())
    })
}

pub(crate) fn decimal(range: RangeInclusive<f64>) -> Kind<f64> {
    let bound = |bound: f64| match bound.fract() {
        0.0 => Value::from(format!("{bound}").parse::<i64>().unwrap_or_default()),
        _ => Value::from(bound),
    };
    let (first, last) = (bound(*range.start()), bound(*range.end()));
    let schema = json!({ "type": "number", "minimum": first, "maximum": last });
    Kind::new(schema, move |fields, key| {
        fields.decimal(key, range.clone())
    })
}

/// True or false.
pub(crate) fn boolean() -> Kind<bool> {
    Kind::new(json!({ "type": "boolean" }), |fields, key| {
        fields.boolean(key)
    })
}

/// One of these words.
pub(crate) fn word<T: Copy + 'static>(words: &'static [(&'static str, T)]) -> Kind<T> {
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let schema = json!({ "type": "string", "enum": known });
    Kind::new(schema, |fields, key| fields.word(key, words))
}

/// A list of texts that `read` takes; nearly all of them fit `item`.
pub(crate) fn list<T: 'static, E: Display>(
    item: &Value,
    read: impl Fn(&str) -> Result<T, E> + 'static,
) -> Kind<Vec<Located<T>>> {
    let schema = json!({ "type": "array", "items": item });
    Kind::new(schema, move |fields, key| fields.list(key, &read))
}

/// A list whose items need no place.
pub(crate) fn values<T: 'static>(list: Kind<Vec<Located<T>>>) -> Kind<Vec<T>> {
    list.map(|list| Some(list.into_iter().map(|item| item.value).collect()))
}

/// A list of any texts.
pub(crate) fn texts() -> Kind<Vec<String>> {
    let schema = json!({ "type": "array", "items": { "type": "string" } });
    Kind::new(schema, |fields, key| fields.texts(key))
}

/// A table in the table.
pub(crate) fn table<T: Table>() -> Kind<T> {
    Kind::new(object(T::keys()), |fields, key| fields.table(key, T::read))
}

/// The schema of a table with these keys and no others.
pub(crate) fn object(keys: Vec<(&'static str, Value)>) -> Value {
    let keys: Map<String, Value> = keys
        .into_iter()
        .map(|(key, schema)| (key.to_owned(), schema))
        .collect();
    json!({ "type": "object", "properties": keys, "additionalProperties": false })
}
