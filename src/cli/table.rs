//! Tables for people: columns of text, no lines.

use std::io::{self, IsTerminal};

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};

/// An empty table.
pub(crate) fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

/// The last column of a table is no narrower than this because of the terminal.
const LAST_COLUMN: u16 = 24;

/// As [`rendered`], with the text of wide columns in several lines where the table is wider than the terminal: of the last one
/// alone where that is enough, since it holds sentences and the others words.
pub(crate) fn fitted(mut table: Table) -> String {
    if let Some(columns) = terminal_columns() {
        fit(&mut table, columns);
    }
    rendered(table)
}

fn fit(table: &mut Table, columns: u16) {
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(columns);
    let widths: Vec<u16> = table.column_max_content_widths();
    let Some((_, words)) = widths.split_last() else {
        return;
    };
    if words.iter().map(|width| width + 2).sum::<u16>() + LAST_COLUMN <= columns {
        for column in table.column_iter_mut().take(words.len()) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
}

/// The columns of the terminal, where standard output is one.
fn terminal_columns() -> Option<u16> {
    let size = io::stdout()
        .is_terminal()
        .then(crossterm::terminal::window_size)?
        .ok()?;
    Some(size.columns).filter(|columns| *columns > 0)
}

/// The table as text; two blanks between columns, none before the first and none at a line's end.
pub(crate) fn rendered(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_no_wider_than_the_terminal_and_only_sentences_are_broken() {
        let reason = "the program ended with exit code 1";
        let shown = |columns| {
            let mut table = table();
            table
                .set_header(["RUN", "STATE", "REASON"])
                .add_row(["a3c0", "completed", reason]);
            fit(&mut table, columns);
            rendered(table)
        };
        assert_eq!(
            shown(80),
            format!("RUN   STATE      REASON\na3c0  completed  {reason}\n")
        );
        assert_eq!(
            shown(42),
            "RUN   STATE      REASON\na3c0  completed  the program ended with\n                 exit code 1\n"
        );
        assert!(
            shown(20).lines().all(|line| line.len() <= 20),
            "{}",
            shown(20)
        );
    }
}
