//! Known faults of the crates that dlrun is built from, by a snapshot of RustSec (`tests/advisories.py`). `cargo deny check`, where it
//! is installed, asks for the newest (`tests/run`).

use std::collections::BTreeSet;

use semver::{Version, VersionReq};
use serde_json::Value;

/// What is no fault of ours, as in deny.toml: a macro that nalgebra uses while it is compiled, complete and without a maintainer.
const ACCEPTED: [&str; 1] = ["RUSTSEC-2024-0436"];

#[test]
fn no_crate_has_a_known_fault() {
    let read = |text: &str| toml::from_str::<Value>(text).expect("TOML");
    let lock = read(include_str!("../../Cargo.lock"));
    let known = read(include_str!("../fixtures/advisories.toml"));
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let looked_for: BTreeSet<String> = list(&known["crates"]).iter().map(text).collect();
    let mut faults = Vec::new();
    for package in list(&lock["package"]) {
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        assert!(
            looked_for.contains(&name),
            "{name} is new: run tests/advisories.py"
        );
        let version = Version::parse(&version).expect("a version");
        let is_fine = |range: &Value| {
            VersionReq::parse(&text(range))
                .expect("a range")
                .matches(&version)
        };
        for advisory in list(&known["advisories"]) {
            let is_accepted = ACCEPTED.contains(&&*text(&advisory["id"]));
            if text(&advisory["crate"]) == name
                && !is_accepted
                && !list(&advisory["fine"]).iter().any(is_fine)
            {
                faults.push(format!(
                    "{name} {version}: {} {}",
                    advisory["id"], advisory["title"]
                ));
            }
        }
    }
    assert_eq!(faults, [""; 0]);
}
