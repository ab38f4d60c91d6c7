//! Tables for people: columns of text, no lines.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};

use crate::app::output::terminal_columns;
use crate::foundation::diagnostic::printable;

/// An empty table.
pub(crate) fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

/// A table of rows below their heads; nothing where there are no rows.
pub(crate) fn headed<const N: usize>(
    heads: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = table();
    table.set_header(heads).add_rows(rows);
    if table.is_empty() {
        return String::new();
    }
    fitted(table)
}

/// The value, or `-` where there is none.
pub(crate) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Text from outside on one line, which cannot drive the terminal.
pub(crate) fn one_line(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ")
}

/// Named facts, one on each line.
#[derive(Default)]
pub(crate) struct Rows(Vec<[String; 2]>);

impl Rows {
    pub(crate) fn add(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.push([name.into(), value.into()]);
    }

    /// Adds what is known.
    pub(crate) fn add_known(&mut self, name: &str, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    /// Adds what a list says, unless it is empty.
    pub(crate) fn add_list(&mut self, name: &str, items: &[String], joint: &str) {
        self.add_known(name, (!items.is_empty()).then(|| items.join(joint)));
    }

    /// The rows, each its name and its value.
    #[cfg(test)]
    pub(crate) fn all(&self) -> &[[String; 2]] {
        &self.0
    }

    pub(crate) fn into_text(self) -> String {
        let mut table = table();
        table.add_rows(self.0);
        fitted(table)
    }
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
