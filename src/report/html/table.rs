//! Tables: each with a caption, heads with scopes, and a region that can be scrolled by keyboard.

use super::Html;

/// Writes a table; the first cell of each row is its head. Columns of numbers are aligned to the right.
pub(in crate::report) fn write<T: AsRef<str>>(
    html: &mut Html,
    caption: &str,
    heads: &[T],
    rows: &[Vec<String>],
) {
    write_linked(html, caption, heads, rows, &|_| None);
}

/// As [`write`]; a cell for which `file_of` has a file is a link to it.
pub(super) fn write_linked<'a, T: AsRef<str>>(
    html: &mut Html,
    caption: &str,
    heads: &[T],
    rows: &[Vec<String>],
    file_of: &dyn Fn(&str) -> Option<&'a str>,
) {
    let region = [
        ("class", "scroll"),
        ("role", "group"),
        ("aria-label", caption),
        ("tabindex", "0"),
    ];
    let class = |column: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(column));
        let is_number = column > 0 && cells.all(|cell| is_number(cell));
        ("class", if is_number { "n" } else { "t" })
    };
    let classes: Vec<_> = (0..heads.len()).map(class).collect();
    html.element("div", &region, |html| {
        html.element("table", &[], |html| {
            html.leaf("caption", &[], caption);
            html.element("thead", &[], |html| {
                html.element("tr", &[], |html| {
                    for (head, class) in heads.iter().zip(&classes) {
                        html.leaf("th", &[("scope", "col"), *class], head.as_ref());
                    }
                });
            });
            html.element("tbody", &[], |html| {
                for row in rows {
                    html.element("tr", &[], |html| {
                        for (column, (cell, class)) in row.iter().zip(&classes).enumerate() {
                            match column {
                                0 => html.leaf("th", &[("scope", "row"), *class], cell),
                                _ => html.element("td", &[*class], |html| match file_of(cell) {
                                    Some(file) => html.leaf("a", &[("href", file)], cell),
                                    None => html.text(cell),
                                }),
                            }
                        }
                    });
                }
            });
        });
    });
}

/// Whether a cell holds a number, perhaps with a unit, or the sign for an unknown one.
fn is_number(cell: &str) -> bool {
    let begins = |c: char| c.is_ascii_digit() || "-–<".contains(c);
    let is_word = |word: &str| word.chars().filter(|c| c.is_alphabetic()).count() > 3;
    cell.starts_with(begins) && !cell.split(|c: char| !c.is_alphanumeric()).any(is_word)
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
