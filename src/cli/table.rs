//! Tables for people: columns of text, no lines.

use std::io::{self, IsTerminal};

use comfy_table::{ContentArrangement, Table, presets};

/// An empty table.
pub(crate) fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

/// As [`rendered`], with the text of wide columns in several lines where the table is wider than the terminal.
pub(crate) fn fitted(mut table: Table) -> String {
    if let Some(columns) = terminal_columns() {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
    }
    rendered(table)
}

/// The columns of the terminal, where standard output is one.
fn terminal_columns() -> Option<u16> {
    let size = io::stdout().is_terminal().then(crossterm::terminal::window_size)?.ok()?;
    Some(size.columns).filter(|columns| *columns > 0)
}

/// The table as text; two blanks between columns, none before the first and none at a line's end.
pub(crate) fn rendered(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt() + "\n"
}
