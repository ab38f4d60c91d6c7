//! `dlrun config show`: every setting, its value and where the value comes from. And
//! `dlrun config events-module`, which prints the Python module for `DLRUN_EVENTS`.

use serde::Serialize;

use crate::app::error::Error;
use crate::app::output::Output;
use crate::app::session::Session;
use crate::cli::table::{headed, or_dash};
use crate::config::{Origin, Setting};

/// The module, as it is installed; in the binary, so that it comes with dlrun.
const EVENTS_MODULE: &str = include_str!("../../../python/dlrun_events.py");

/// The module for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct EventsModule {
    name: &'static str,
    text: &'static str,
}

/// Every setting.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ShownSettings<'a> {
    settings: Vec<ShownSetting<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ShownSetting<'a> {
    name: &'static str,
    value: Option<String>,
    origin: &'a Origin,
    /// The origin as text.
    from: String,
    about: &'static str,
    /// The environment variable that sets it.
    variable: String,
}

/// Prints the module.
pub(crate) fn events_module(output: Output) -> Result<u8, Error> {
    let answer = EventsModule {
        name: "dlrun_events.py",
        text: EVENTS_MODULE,
    };
    output.document(&answer, EVENTS_MODULE)
}

/// Runs the verb.
pub(crate) fn run(session: &Session) -> Result<u8, Error> {
    let settings = session.settings.all();
    let answer = ShownSettings {
        settings: settings.iter().map(shown).collect(),
    };
    let rows = settings.iter().map(|setting| {
        [
            setting.key.name.to_owned(),
            or_dash(setting.value.as_ref()),
            setting.origin.to_string(),
            setting.key.about.to_owned(),
        ]
    });
    let text = headed(["SETTING", "VALUE", "FROM", "WHAT IT IS"], rows);
    session.answer(&answer, &text)
}

fn shown(setting: &Setting) -> ShownSetting<'_> {
    ShownSetting {
        name: setting.key.name,
        value: setting.value.as_ref().map(ToString::to_string),
        origin: &setting.origin,
        from: setting.origin.to_string(),
        about: setting.key.about,
        variable: setting.key.variable(),
    }
}
