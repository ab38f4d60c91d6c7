//! Tables for people: columns of text, no lines.

use comfy_table::{Table, presets};

/// An empty table.
pub(crate) fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

/// The table as text; two blanks between columns, none before the first and none at a line's end.
pub(crate) fn rendered(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt() + "\n"
}
