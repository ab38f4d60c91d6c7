//! Values of a table of settings, each with its origin.

use std::net::SocketAddr;
use std::path::Path;

use super::fragment::{Fragment, Origin};
use super::keys::{Key, Value};
use crate::foundation::units::Bytes;

/// One setting with its value and origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Which one.
    pub key: &'static Key,
    /// Its value; `None`: not set.
    pub value: Option<Value>,
    /// Where the value comes from.
    pub origin: Origin,
}

/// All settings of one table, in its order. The getters that give no `Option` are for settings that have a default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Values(Vec<Setting>);

impl Values {
    pub(super) fn built_in(keys: &'static [Key]) -> Self {
        let default = |key: &'static Key| Setting {
            key,
            value: key
                .default
                .map(|text| key.read(text).expect("a test reads every default")),
            origin: Origin::Default,
        };
        Self(keys.iter().map(default).collect())
    }

    /// A later fragment wins, and in a fragment a later entry.
    pub(super) fn lay_over(&mut self, fragments: &[Fragment]) {
        for entry in fragments.iter().flat_map(|fragment| &fragment.entries) {
            self.set(
                entry.key.name,
                Some(entry.value.clone()),
                entry.origin.clone(),
            );
        }
    }

    pub(super) fn set(&mut self, name: &str, value: Option<Value>, origin: Origin) {
        if let Some(setting) = self.0.iter_mut().find(|setting| setting.key.name == name) {
            setting.value = value;
            setting.origin = origin;
        }
    }

    pub(super) fn all(&self) -> &[Setting] {
        &self.0
    }

    pub(super) fn origin(&self, name: &str) -> &Origin {
        self.0
            .iter()
            .find(|setting| setting.key.name == name)
            .map_or(&Origin::Default, |found| &found.origin)
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.0
            .iter()
            .find(|setting| setting.key.name == name)?
            .value
            .as_ref()
    }

    pub(super) fn path(&self, name: &str) -> Option<&Path> {
        match self.value(name) {
            Some(Value::Path(path)) => Some(path),
            _ => None,
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.value(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(super) fn address(&self, name: &str) -> Option<SocketAddr> {
        match self.value(name) {
            Some(Value::Address(address)) => Some(*address),
            _ => None,
        }
    }

    pub(super) fn number(&self, name: &str) -> u64 {
        match self.value(name) {
            Some(Value::Number(number)) => *number,
            _ => unreachable!("every number has a default, which a test reads"),
        }
    }

    pub(super) fn size(&self, name: &str) -> Bytes {
        match self.value(name) {
            Some(Value::Size(bytes)) => *bytes,
            _ => unreachable!("every size has a default, which a test reads"),
        }
    }

    pub(super) fn switch(&self, name: &str) -> bool {
        self.value(name) == Some(&Value::Switch(true))
    }
}
