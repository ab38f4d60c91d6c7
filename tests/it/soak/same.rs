//! Batch scripts of others, run by `sbatch` and by dlrun.

use std::path::PathBuf;

use crate::support::same::compare;
use crate::support::skip;

#[test]
#[ignore = "soak tier: tests/run soak"]
fn foreign_scripts_find_what_sbatch_gives_them() {
    let Some(scripts) = std::env::var_os("DLRUN_SCRIPTS").map(PathBuf::from) else {
        return skip("DLRUN_SCRIPTS names no directory of batch scripts");
    };
    compare(&["--localise".as_ref(), scripts.as_os_str()]);
}
