//! Exports that are killed without number.

use super::{Chance, count};
use crate::cli_export::kill_exports;

#[test]
#[ignore = "soak tier: tests/run soak"]
fn a_consumer_gets_every_row_once_however_often_exports_are_killed() {
    let mut chance = Chance::new("exports");
    kill_exports(count(100), || chance.next());
}
