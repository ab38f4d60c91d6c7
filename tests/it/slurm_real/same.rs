//! A script under dlrun finds what it finds under its scheduler: `tests/same/same.py` runs each twice and compares.

use std::path::Path;

use crate::support::same::compare;

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn converted_scripts_find_what_sbatch_gives_them() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/same/slurm");
    compare(&[scripts.as_os_str()]);
}
