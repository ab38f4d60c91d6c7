//! The JSON Schema of the job file (draft 2020-12), for editors: they complete keys and mark faults by it.
//!
//! It comes from the declarations of the keys. The reader stays the judge: the schema says what can be said of a key
//! alone; `tests/it/schema.rs` holds the two together.

use serde_json::{Value, json};

use super::document::JobSpec;
use super::image::Image;
use super::resources::Resources;
use super::run::run_keys;
use super::sections::{
    Build, FrameworkTable, PythonTable, SchedulerSection, StorageTable, TimingTable, Workload,
};
use crate::foundation::toml_keys::{Table, object};

/// The tables of a job file with their keys, in the order of the documentation.
fn tables() -> [(&'static str, Vec<(&'static str, Value)>); 10] {
    [
        ("run", run_keys()),
        ("resources", Resources::keys()),
        ("scheduler", SchedulerSection::keys()),
        ("image", Image::keys()),
        ("python", PythonTable::keys()),
        ("framework", FrameworkTable::keys()),
        ("storage", StorageTable::keys()),
        ("build", Build::keys()),
        ("workload", Workload::keys()),
        ("timing", TimingTable::keys()),
    ]
}

/// The names of the tables of a job file.
#[must_use]
pub(crate) fn table_names() -> [&'static str; 10] {
    tables().map(|(table, _)| table)
}

/// Every key with its table, such as `resources.nodes`, in the order of the documentation.
#[must_use]
pub fn keys() -> Vec<String> {
    let top = ["format", "name"].map(str::to_owned);
    let below = tables().into_iter().flat_map(|(table, keys)| {
        keys.into_iter()
            .map(move |(key, _)| format!("{table}.{key}"))
    });
    top.into_iter().chain(below).collect()
}

/// The schema.
#[must_use]
pub fn schema() -> Value {
    let mut schema = object(JobSpec::keys());
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "Job file of dlrun".into();
    schema["description"] =
        "One training run. `dlrun check FILE` reports all faults, also those that no schema can express."
            .into();
    schema["required"] = json!(["run"]);
    schema
}
