//! Tables: each with a caption, heads with scopes, and a region of its own that can be scrolled by keyboard.

use super::Html;
use super::writer::Attributes;

/// Characters of a text that stays in one line where there is room.
const KEPT: usize = 28;
/// Characters of a word that stays whole; longer ones may be broken where they have parts.
pub(in crate::report) const WHOLE: usize = 12;

/// A column.
#[derive(Debug, Clone, Copy)]
pub(in crate::report) struct Column<'a> {
    pub(super) head: &'a str,
    /// Numbers stand on the right.
    pub(super) is_number: bool,
}

/// A column of text.
pub(in crate::report) fn text(head: &str) -> Column<'_> {
    Column {
        head,
        is_number: false,
    }
}

/// A column of numbers.
pub(in crate::report) fn number(head: &str) -> Column<'_> {
    Column {
        head,
        is_number: true,
    }
}

/// A table in a region of its own: its caption, the heads of its columns, and what `body` writes.
fn table(
    html: &mut Html,
    attributes: Attributes<'_>,
    caption: &str,
    columns: &[Column<'_>],
    body: impl FnOnce(&mut Html),
) {
    let region = [
        ("class", "scroll"),
        ("role", "group"),
        ("aria-label", caption),
        ("tabindex", "0"),
    ];
    html.element("div", &region, |html| {
        html.element("table", attributes, |html| {
            html.leaf("caption", &[], caption);
            html.element("thead", &[], |html| {
                html.element("tr", &[], |html| {
                    for column in columns {
                        html.leaf("th", &[("scope", "col"), class_of(*column)], column.head);
                    }
                });
            });
            body(html);
        });
    });
}

/// Writes a table; the first cell of each row is its head.
pub(in crate::report) fn write(
    html: &mut Html,
    caption: &str,
    columns: &[Column<'_>],
    rows: &[Vec<String>],
) {
    table(html, &[], caption, columns, |html| {
        html.element("tbody", &[], |html| {
            rows.iter().for_each(|row| self::row(html, columns, row))
        });
    });
}

/// Writes a table of groups: the head of a group stands beside all its rows.
pub(super) fn groups(
    html: &mut Html,
    caption: &str,
    columns: &[Column<'_>],
    groups: &[(String, Vec<Vec<String>>)],
) {
    table(html, &[], caption, columns, |html| {
        for (place, (name, rows)) in groups.iter().enumerate() {
            let is_last = place + 1 == groups.len();
            let span = rows.len().to_string();
            let head = [
                ("scope", "rowgroup"),
                ("rowspan", span.as_str()),
                ("class", if is_last { "t last" } else { "t" }),
            ];
            html.element("tbody", &[], |html| {
                for (number, row) in rows.iter().enumerate() {
                    html.element("tr", &[], |html| {
                        if number == 0 {
                            html.leaf("th", &head, name);
                        }
                        for (column, cell) in columns[1..].iter().zip(row) {
                            html.leaf("td", &[class_of(*column)], cell);
                        }
                    });
                }
            });
        }
    });
}

/// Rows that have something in common, which is told once, above them.
#[derive(Debug, Clone, Default)]
pub(in crate::report) struct Section {
    /// What they have in common; `None`: nothing is told.
    pub(in crate::report) head: Option<String>,
    pub(in crate::report) rows: Vec<Vec<String>>,
}

/// Writes a table of many columns, in sections. Words stay whole; where the window is narrow each row becomes a card, in which
/// each cell has the head of its column above it.
pub(in crate::report) fn sections(
    html: &mut Html,
    caption: &str,
    columns: &[Column<'_>],
    sections: &[Section],
) {
    let span = columns.len().to_string();
    let common = [("scope", "rowgroup"), ("colspan", span.as_str())];
    table(html, &[("class", "cards")], caption, columns, |html| {
        for section in sections {
            html.element("tbody", &[], |html| {
                if let Some(head) = &section.head {
                    html.element("tr", &[("class", "common")], |html| {
                        html.element("th", &common, |html| html.breakable(head, WHOLE));
                    });
                }
                section.rows.iter().for_each(|row| card(html, columns, row));
            });
        }
    });
}

/// A row whose cells know the head of their column.
fn card(html: &mut Html, columns: &[Column<'_>], cells: &[String]) {
    html.element("tr", &[], |html| {
        for (place, (column, cell)) in columns.iter().zip(cells).enumerate() {
            let is_kept = cell.chars().count() <= KEPT;
            let class = if column.is_number {
                "n"
            } else {
                ["t l", "t k"][usize::from(is_kept)]
            };
            let attributes = [
                ("data-head", column.head),
                ("class", class),
                ("scope", "row"),
            ];
            match place {
                0 => html.element("th", &attributes, |html| html.breakable(cell, WHOLE)),
                _ => html.element("td", &attributes[..2], |html| html.breakable(cell, WHOLE)),
            }
        }
    });
}

fn row(html: &mut Html, columns: &[Column<'_>], cells: &[String]) {
    html.element("tr", &[], |html| {
        for (place, (column, cell)) in columns.iter().zip(cells).enumerate() {
            match place {
                0 => html.leaf("th", &[("scope", "row"), class_of(*column)], cell),
                _ => html.leaf("td", &[class_of(*column)], cell),
            }
        }
    });
}

fn class_of(column: Column<'_>) -> (&'static str, &'static str) {
    ("class", if column.is_number { "n" } else { "t" })
}

/// Pairs of a name and what it is.
pub(in crate::report) fn pairs(html: &mut Html, pairs: &[(&'static str, String)]) {
    html.element("dl", &[("class", "facts")], |html| {
        for (name, value) in pairs {
            html.element("div", &[], |html| {
                html.leaf("dt", &[], name);
                html.leaf("dd", &[], value);
            });
        }
    });
}

/// The few figures that say most.
pub(super) fn tiles(html: &mut Html, tiles: &[(String, String, String)]) {
    html.element("dl", &[("class", "tiles")], |html| {
        for (name, value, more) in tiles {
            html.element("div", &[], |html| {
                html.leaf("dt", &[], name);
                html.element("dd", &[], |html| {
                    html.leaf("b", &[], value);
                    html.markup(" ");
                    html.leaf("span", &[], more);
                });
            });
        }
    });
}
