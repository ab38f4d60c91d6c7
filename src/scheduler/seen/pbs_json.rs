//! `qstat -f -F json` and `pbsnodes -a -F json` of OpenPBS.

use serde_json::Value;

use super::Seen;
use super::pbs::{Attributes, job, node};

pub(super) fn read(text: &str) -> Option<Seen> {
    let value: Value = serde_json::from_str(text).ok()?;
    if let Some(jobs) = value.get("Jobs").and_then(Value::as_object) {
        let jobs = jobs.iter().filter_map(|(id, value)| job(id, &flat(value))).collect();
        return Some(Seen { form: "qstat -f -F json", scheduler: "openpbs", jobs, ..Seen::default() });
    }
    let nodes = value.get("nodes")?.as_object()?;
    let nodes = nodes.iter().filter_map(|(name, value)| node(name, &flat(value))).collect();
    Some(Seen { form: "pbsnodes -F json", scheduler: "openpbs", nodes, ..Seen::default() })
}

/// Nested tables as `Resource_List.ncpus`, as the text forms have them.
fn flat(value: &Value) -> Attributes {
    let mut attributes = Attributes::new();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for (key, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::Object(inner) => {
                attributes.extend(inner.iter().map(|(name, value)| (format!("{key}.{name}"), text(value))));
            }
            value => {
                attributes.insert(key.clone(), text(value));
            }
        }
    }
    attributes
}
