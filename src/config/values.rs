//! Values of a table of settings, each with its origin.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::keys::{Key, Setting, Value};
use super::origin::Origin;
use crate::foundation::units::Bytes;

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

    /// Of several a later one wins.
    pub(super) fn lay_over<'a>(&mut self, later: impl Iterator<Item = &'a Setting>) {
        for Setting { key, value, origin } in later {
            self.set(key.name, value.clone(), origin.clone());
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
        self.setting(name)
            .map_or(&Origin::Default, |found| &found.origin)
    }

    fn setting(&self, name: &str) -> Option<&Setting> {
        self.0.iter().find(|setting| setting.key.name == name)
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.setting(name)?.value.as_ref()
    }

    pub(super) fn path(&self, name: &str) -> Option<&Path> {
        match self.value(name) {
            Some(Value::Path(path)) => Some(path),
            _ => None,
        }
    }

    pub(super) fn set_path_ref(&self, name: &str) -> &Path {
        self.path(name).expect(DEFAULT)
    }

    pub(super) fn set_path(&self, name: &str) -> PathBuf {
        self.set_path_ref(name).to_owned()
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.value(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(super) fn set_text(&self, name: &str) -> &str {
        self.text(name).expect(DEFAULT)
    }

    /// Of `auto` and `off`.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.text(name) != Some("off")
    }

    pub(super) fn address(&self, name: &str) -> Option<SocketAddr> {
        match self.value(name) {
            Some(Value::Address(address)) => Some(*address),
            _ => None,
        }
    }

    fn number(&self, name: &str) -> u64 {
        match self.value(name) {
            Some(Value::Number(number)) => *number,
            _ => unreachable!("{DEFAULT}"),
        }
    }

    pub(super) fn count(&self, name: &str) -> usize {
        usize::try_from(self.number(name)).unwrap_or(usize::MAX)
    }

    pub(super) fn optional_number(&self, name: &str) -> Option<u64> {
        match self.value(name) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn milliseconds(&self, name: &str) -> Duration {
        Duration::from_millis(self.number(name))
    }

    pub(super) fn seconds(&self, name: &str) -> Duration {
        Duration::from_secs(self.number(name))
    }

    pub(super) fn minutes(&self, name: &str) -> Duration {
        self.seconds(name) * 60
    }

    pub(super) fn hours(&self, name: &str) -> Duration {
        self.seconds(name) * 3600
    }

    pub(super) fn days(&self, name: &str) -> Duration {
        self.seconds(name) * 86_400
    }

    pub(super) fn size(&self, name: &str) -> Bytes {
        match self.value(name) {
            Some(Value::Size(bytes)) => *bytes,
            _ => unreachable!("{DEFAULT}"),
        }
    }

    pub(super) fn switch(&self, name: &str) -> bool {
        self.value(name) == Some(&Value::Switch(true))
    }
}

/// Why a setting with a default is always set.
const DEFAULT: &str = "it has a default, which a test reads";
