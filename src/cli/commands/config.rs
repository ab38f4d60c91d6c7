//! `dlrun config show`: every setting, its value and where the value comes from; then the site's tables. And
//! `dlrun config events-module`, which prints the Python module for `DLRUN_EVENTS`.

use serde_json::{Value, json};

use crate::app::error::Error;
use crate::app::output::Output;
use crate::app::session::Session;
use crate::cli::table::{headed, or_dash};
use crate::config::{Origin, Setting};

/// The module, as it is installed; in the binary, so that it comes with dlrun.
const EVENTS_MODULE: &str = include_str!("../../../python/dlrun_events.py");

/// Prints the module.
pub(crate) fn events_module(output: Output) -> Result<u8, Error> {
    let value = json!({ "name": "dlrun_events.py", "text": EVENTS_MODULE });
    output.document(&value, EVENTS_MODULE)
}

/// Runs the verb.
pub(crate) fn run(session: &Session) -> Result<u8, Error> {
    let settings = session.settings.all();
    let entries = session.settings.tables().entries();
    let to_entry = |(name, origin): &(String, &Origin)| json!({ "name": name, "origin": origin, "from": origin.to_string() });
    let value = json!({
        "settings": settings.iter().map(to_json).collect::<Vec<_>>(),
        "tables": entries.iter().map(to_entry).collect::<Vec<_>>(),
    });
    let rows = settings.iter().map(|setting| {
        [
            setting.key.name.to_owned(),
            or_dash(setting.value.as_ref()),
            setting.origin.to_string(),
            setting.key.about.to_owned(),
        ]
    });
    let mut text = headed(["SETTING", "VALUE", "FROM", "WHAT IT IS"], rows);
    let rows = entries.into_iter();
    let rows = rows.map(|(name, origin)| [name, origin.to_string()]);
    text.push_str(&headed(["TABLE", "FROM"], rows));
    session.answer(&value, &text)
}

fn to_json(setting: &Setting) -> Value {
    json!({
        "name": setting.key.name,
        "value": setting.value.as_ref().map(ToString::to_string),
        "origin": setting.origin,
        "from": setting.origin.to_string(),
        "about": setting.key.about,
        "variable": setting.key.variable(),
    })
}
