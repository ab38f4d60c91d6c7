//! `dlrun config show`: every setting, its value and where the value comes from; then the site's tables. And
//! `dlrun config events-module`, which prints the Python module for `DLRUN_EVENTS`.

use serde_json::{Value, json};

use crate::app::error::Error;
use crate::app::output::Output;
use crate::app::session::Session;
use crate::cli::table::{fitted, table};
use crate::config::{Origin, Setting};

/// The module, as it is installed; in the binary, so that whoever has dlrun has it.
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
    let mut table = table();
    table.set_header(["SETTING", "VALUE", "FROM", "WHAT IT IS"]);
    for setting in settings {
        table.add_row([
            setting.key.name.to_owned(),
            setting
                .value
                .as_ref()
                .map_or_else(|| "-".to_owned(), ToString::to_string),
            setting.origin.to_string(),
            setting.key.about.to_owned(),
        ]);
    }
    let mut text = fitted(table);
    if !entries.is_empty() {
        let mut table = self::table();
        table.set_header(["TABLE", "FROM"]);
        for (name, origin) in entries {
            table.add_row([name, origin.to_string()]);
        }
        text.push_str(&fitted(table));
    }
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
