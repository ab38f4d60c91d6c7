//! The list of all settings.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::origin::Origin;
use crate::foundation::units::Bytes;

/// What a setting may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An absolute path.
    Path,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number in this range, both ends included.
    Number(u64, u64),
    /// Text for a scheduler's option: no blanks, no control characters.
    Text,
    /// `true` or `false`.
    Switch,
    /// A size with its unit, at least so many bytes.
    Size(u64),
    /// An absolute path whose text ends so.
    File(&'static str),
    /// The name of a group of users; empty: none.
    Group,
    /// Address and port on the loopback interface.
    Loopback,
}

/// A setting's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Of [`Kind::Path`] or [`Kind::File`].
    Path(PathBuf),
    /// Of [`Kind::Word`], [`Kind::Text`] or [`Kind::Group`].
    Text(String),
    /// Of [`Kind::Number`].
    Number(u64),
    /// Of [`Kind::Switch`].
    Switch(bool),
    /// Of [`Kind::Size`].
    Size(Bytes),
    /// Of [`Kind::Loopback`].
    Address(SocketAddr),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
            Self::Switch(on) => write!(f, "{on}"),
            Self::Size(bytes) => write!(f, "{bytes}"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Its dotted name, `section.key`.
    pub name: &'static str,
    /// What it may hold.
    pub kind: Kind,
    /// Its default as text; `None`: unset, or made from the user's environment (see [`super::Settings::merge`]).
    pub default: Option<&'static str>,
    /// What it does, for `config show` and the documentation.
    pub about: &'static str,
}

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

/// Where the node daemon listens, for both sides.
pub(super) const SOCKET: &str = "/run/dlrun/dlrund.sock";
/// Words of what is used where it exists.
pub(super) const ON: [&str; 2] = ["auto", "off"];

/// Declares the settings of a struct with a field `values`, one each: its description, name, kind and default, and the
/// method that gives its value, as a method of [`super::values::Values`] reads it.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        $list:ident of $owner:ident, $count:literal {
            $(
                #[doc = $about:literal]
                $name:literal: $kind:expr, $default:expr
                    $(=> $getter:ident: $type:ty = $how:ident)?;
            )*
        }
    ) => {
        $(#[$meta])*
        pub const $list: [Key; $count] = [$(Key {
            name: $name,
            kind: $kind,
            default: $default,
            about: $about.trim_ascii(),
        }),*];

        impl $owner {
            $($(
                #[doc = concat!("`", $name, "`:", $about, ".")]
                #[must_use]
                pub fn $getter(&self) -> $type {
                    self.values.$how($name)
                }
            )?)*

            /// Every setting, in the order of the list.
            #[must_use]
            pub fn all(&self) -> &[Setting] {
                self.values.all()
            }

            /// Where a value comes from.
            #[must_use]
            pub fn origin(&self, name: &str) -> &Origin {
                self.values.origin(name)
            }
        }
    };
}
pub(super) use settings;

impl Key {
    /// Reads a value from text, as it stands in an environment variable or a flag.
    ///
    /// # Errors
    /// A sentence fragment saying what would be valid.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        match self.kind {
            Kind::Path => absolute(text).map(Value::Path),
            Kind::File(ending) if text.len() > ending.len() && text.ends_with(ending) => {
                absolute(text).map(Value::Path)
            }
            Kind::File(ending) => Err(format!(
                "must be an absolute path that ends in `{ending}`, not {text:?}"
            )),
            Kind::Word(words) if words.contains(&text) => Ok(Value::Text(text.to_owned())),
            Kind::Word(words) => Err(format!("must be one of {}, not {text:?}", words.join(", "))),
            Kind::Number(low, high) => match text.parse::<u64>() {
                Ok(number) if (low..=high).contains(&number) => Ok(Value::Number(number)),
                _ => Err(format!(
                    "must be a whole number from {low} to {high}, not {text:?}"
                )),
            },
            Kind::Text => word(text).map(Value::Text),
            Kind::Switch => match text {
                "true" => Ok(Value::Switch(true)),
                "false" => Ok(Value::Switch(false)),
                _ => Err(format!("must be true or false, not {text:?}")),
            },
            Kind::Size(least) => size(text, Bytes(least)).map(Value::Size),
            Kind::Group => group(text).map(Value::Text),
            Kind::Loopback => loopback(text).map(Value::Address),
        }
    }

    /// The environment variable that sets it: `DLRUN_SLURM__BIN_DIR`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("DLRUN_{}", self.name.replace('.', "__").to_uppercase())
    }
}

fn absolute(text: &str) -> Result<PathBuf, String> {
    if Path::new(text).is_absolute() && !text.chars().any(char::is_control) {
        return Ok(PathBuf::from(text));
    }
    Err(format!("must be an absolute path, not {text:?}"))
}

fn word(text: &str) -> Result<String, String> {
    if text.is_empty() || text.starts_with('-') {
        return Err(format!("cannot be {text:?}"));
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(format!(
            "must not contain blanks or control characters: {text:?}"
        ));
    }
    Ok(text.to_owned())
}

fn size(text: &str, least: Bytes) -> Result<Bytes, String> {
    match Bytes::parse(text) {
        Ok(bytes) if bytes >= least => Ok(bytes),
        Ok(_) => Err(format!("must be at least {least}, not {text:?}")),
        Err(why) => Err(format!("is not a size: {why}")),
    }
}

/// What cannot stand in `/etc/group` is refused; directories of sites allow blanks and more.
fn group(text: &str) -> Result<String, String> {
    if text.starts_with('-') || text.chars().any(|c| c.is_control() || c == ':') {
        return Err(format!(
            "must be the name of a group, or empty for none, not {text:?}"
        ));
    }
    Ok(text.to_owned())
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<SocketAddr>() {
        Ok(address) if !address.ip().is_loopback() => Err(format!(
            "must be a loopback address, `127.0.0.1` or `[::1]`, not {text:?}: anyone who reaches the port can read the metrics, without a password"
        )),
        Ok(address) if address.port() != 0 => Ok(address),
        _ => Err(format!(
            "must be an address with a port, such as `127.0.0.1:9477`, not {text:?}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DAEMON_KEYS, KEYS};

    fn daemon(name: &str, text: &str) -> Result<Value, String> {
        DAEMON_KEYS
            .iter()
            .find(|key| key.name == name)
            .expect("a setting")
            .read(text)
    }

    #[test]
    fn every_default_is_a_value_of_its_kind() {
        for key in KEYS.iter().chain(&DAEMON_KEYS) {
            let read = key
                .default
                .map(|text| (text, key.read(text).map(|value| value.to_string())));
            assert!(
                read.is_none_or(|(text, read)| read.as_deref() == Ok(text)),
                "{}",
                key.name
            );
        }
    }

    #[test]
    fn only_the_loopback_interface_is_listened_on() {
        for text in ["127.0.0.1:9477", "[::1]:9477", "127.8.9.1:1"] {
            assert_eq!(
                daemon("metrics.listen", text)
                    .map(|address| address.to_string())
                    .as_deref(),
                Ok(text)
            );
        }
        for text in [
            "0.0.0.0:9477",
            "[::]:9477",
            "10.0.0.7:9477",
            "[::ffff:127.0.0.1]:9477",
        ] {
            let why = daemon("metrics.listen", text).expect_err("open to the network");
            assert!(why.contains("without a password"), "{text}: {why}");
        }
        for text in [
            "127.0.0.1",
            "9477",
            "localhost:9477",
            "127.0.0.1:0",
            "127.0.0.1:65536",
            "",
        ] {
            let why = daemon("metrics.listen", text).expect_err("no address with a port");
            assert!(why.contains("with a port"), "{text}: {why}");
        }
    }

    #[test]
    fn sizes_have_units_and_a_least_value() {
        assert_eq!(
            daemon("store.max_size", "16MiB"),
            Ok(Value::Size(Bytes(16 << 20)))
        );
        let why = |text| daemon("store.max_size", text).expect_err("refused");
        assert!(why("15MiB").contains("at least 16MiB"), "{}", why("15MiB"));
        assert!(why("2").contains("no unit"), "{}", why("2"));
    }

    #[test]
    fn switches_groups_and_files_are_checked() {
        assert_eq!(daemon("metrics.runs", "true"), Ok(Value::Switch(true)));
        assert!(daemon("metrics.runs", "yes").is_err());
        assert_eq!(daemon("read_group", ""), Ok(Value::Text(String::new())));
        assert!(daemon("read_group", "domain users").is_ok());
        assert!(daemon("read_group", "a:b").is_err() && daemon("read_group", "-g").is_err());
        assert!(daemon("metrics.textfile", "/run/dlrun/node.prom").is_ok());
        // node_exporter passes over files with another ending.
        assert!(daemon("metrics.textfile", "/run/dlrun/node.txt").is_err());
        assert!(
            daemon("metrics.textfile", "node.prom").is_err()
                && daemon("metrics.textfile", ".prom").is_err()
        );
    }
}
