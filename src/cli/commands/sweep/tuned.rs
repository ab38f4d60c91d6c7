//! What to write into the job file after a tuning.

use crate::job::quoted;
use crate::learn::sweep::SpeedUp;

/// The result for people.
pub(super) fn text(name: &str, known: &SpeedUp) -> String {
    let sentence = known.text();
    if !known.is_faster {
        return format!("{sentence}\n");
    }
    let (mut lines, mut table) = (String::new(), "");
    for (key, value) in &known.changes {
        let (of, name) = key.split_once('.').unwrap_or(("", key));
        if of != table {
            lines.push_str(&format!("  [{of}]\n"));
            table = of;
        }
        lines.push_str(&format!("  {name} = {value}\n"));
    }
    format!(
        "{sentence}\nIn the job file:\n{lines}or: dlrun sweep show {} --best > tuned.toml\n",
        quoted(name)
    )
}
