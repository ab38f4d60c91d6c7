//! Rows as text: CSV and JSON Lines. What is written of a page is held in memory and goes out between two pages.

use std::io::{self, Write};

use serde::Serialize;
use serde::de::IgnoredAny;

use crate::record::{Cell, Field, FieldType, Table};

/// Takes rows of one table and writes them in one format.
pub trait RowWriter {
    /// Takes a row: values in the order of [`Table::fields`].
    ///
    /// # Errors
    /// Where it must write at once, those of the file.
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()>;

    /// Writes out what is held.
    ///
    /// # Errors
    /// Those of the file.
    fn flush(&mut self) -> io::Result<()>;

    /// Writes what comes at the end.
    ///
    /// # Errors
    /// Those of the file.
    fn finish(&mut self) -> io::Result<()> {
        self.flush()
    }
}

/// RFC 4180: a head, lines that end with CR LF, quotes where needed. Null is nothing between commas, an empty text is `""`. A text that a
/// spreadsheet would take for a formula has an apostrophe before it.
pub struct Csv<W: Write> {
    to: W,
    held: Vec<u8>,
}

impl<W: Write> Csv<W> {
    /// Begins with the head.
    pub fn new(to: W, table: Table) -> Self {
        let names: Vec<&str> = table.fields().iter().map(|field| field.name).collect();
        Self {
            to,
            held: format!("{}\r\n", names.join(",")).into_bytes(),
        }
    }
}

impl<W: Write> RowWriter for Csv<W> {
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        for (column, cell) in cells.iter().enumerate() {
            if column > 0 {
                self.held.push(b',');
            }
            match cell {
                Cell::Null => {}
                Cell::Text(text) => csv_text(&mut self.held, text),
                Cell::Whole(number) => scalar(&mut self.held, number),
                Cell::Real(number) => real(&mut self.held, *number, ["inf", "-inf", "nan"]),
                Cell::Flag(flag) => scalar(&mut self.held, flag),
            }
        }
        self.held.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        put(&mut self.to, &mut self.held)
    }
}

/// One JSON object a line, with all columns of its table. JSON has no infinity: it is null.
pub struct JsonLines<W: Write> {
    to: W,
    held: Vec<u8>,
    /// What precedes each value: the comma and the name.
    names: Vec<(Vec<u8>, FieldType)>,
}

impl<W: Write> JsonLines<W> {
    /// Begins; there is no head.
    pub fn new(to: W, table: Table) -> Self {
        let head = format!(
            "{{\"kind\":\"{}\",\"format\":{}",
            table.kind(),
            Table::FORMAT
        );
        let before = |(column, field): (usize, &Field)| {
            let name = format!(
                "{},\"{}\":",
                if column == 0 { head.as_str() } else { "" },
                field.name
            );
            (name.into_bytes(), field.of)
        };
        let names = table.fields().iter().enumerate().map(before).collect();
        Self {
            to,
            held: Vec::new(),
            names,
        }
    }
}

impl<W: Write> RowWriter for JsonLines<W> {
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        for ((name, of), cell) in self.names.iter().zip(cells) {
            self.held.extend_from_slice(name);
            match cell {
                Cell::Null => self.held.extend_from_slice(b"null"),
                Cell::Text(text) if *of == FieldType::Json => json(&mut self.held, text),
                Cell::Text(text) => serde_json::to_writer(&mut self.held, &**text)?,
                Cell::Whole(number) => scalar(&mut self.held, number),
                Cell::Real(number) => real(&mut self.held, *number, ["null"; 3]),
                Cell::Flag(flag) => scalar(&mut self.held, flag),
            }
        }
        self.held.extend_from_slice(b"}\n");
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        put(&mut self.to, &mut self.held)
    }
}

fn put(to: &mut impl Write, held: &mut Vec<u8>) -> io::Result<()> {
    to.write_all(held)?;
    held.clear();
    to.flush()
}

/// Whether a spreadsheet would compute it; also what has apostrophes before that, so that one taken away restores any text.
fn is_formula(text: &str) -> bool {
    text.trim_start_matches('\'')
        .starts_with(['=', '+', '-', '@', '\t', '\r'])
}

/// A text as a field of CSV, with an apostrophe where a spreadsheet would compute it.
pub fn csv_text(to: &mut Vec<u8>, text: &str) {
    match is_formula(text) {
        true => quoted(to, &format!("'{text}")),
        false => quoted(to, text),
    }
}

/// A text as a field of CSV.
fn quoted(to: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let plain = !bytes.is_empty()
        && !bytes
            .iter()
            .any(|byte| matches!(byte, b'"' | b',' | b'\r' | b'\n'));
    if plain {
        to.extend_from_slice(bytes);
        return;
    }
    to.push(b'"');
    for part in text.split_inclusive('"') {
        to.extend_from_slice(part.as_bytes());
        if part.ends_with('"') {
            to.push(b'"');
        }
    }
    to.push(b'"');
}

/// A JSON text within a line. What is none (a database may be anybody's) stays a text.
fn json(to: &mut Vec<u8>, text: &str) {
    let is_line = !text.bytes().any(|byte| matches!(byte, b'\n' | b'\r'));
    if is_line && serde_json::from_str::<IgnoredAny>(text).is_ok() {
        to.extend_from_slice(text.as_bytes());
        return;
    }
    let value = serde_json::from_str::<serde_json::Value>(text).unwrap_or_else(|_| text.into());
    to.extend_from_slice(value.to_string().as_bytes());
}

fn scalar(to: &mut Vec<u8>, value: &impl Serialize) {
    // Memory does not fail.
    let _ = serde_json::to_writer(to, value);
}

/// The shortest text that reads back as the same number, but for the sign of zero; infinities and NaN in the words given.
fn real(to: &mut Vec<u8>, number: f64, words: [&str; 3]) {
    if number.is_finite() {
        return scalar(to, &(number + 0.0));
    }
    let word = usize::from(number.is_nan()) * 2 + usize::from(number == f64::NEG_INFINITY);
    to.extend_from_slice(words[word].as_bytes());
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn text(text: &str) -> Cell<'_> {
        Cell::Text(Cow::Borrowed(text))
    }

    fn event(detail: &str) -> Vec<Cell<'_>> {
        let before = [
            text("00ff"),
            Cell::Whole(7),
            text("r"),
            Cell::Whole(0),
            Cell::Whole(0),
            text("n1"),
        ];
        let after = [
            Cell::Whole(0),
            text("a,b"),
            Cell::Null,
            Cell::Whole(3),
            Cell::Whole(9),
            text("note"),
        ];
        before
            .into_iter()
            .chain(after)
            .chain([text(detail)])
            .collect()
    }

    fn written(make: impl FnOnce(Vec<u8>) -> Vec<u8>) -> String {
        String::from_utf8(make(Vec::new())).expect("UTF-8")
    }

    #[test]
    fn csv_guards_texts_that_spreadsheets_compute() {
        let cell = |cell: Cell<'_>| {
            written(|to| {
                let mut csv = Csv {
                    to,
                    held: Vec::new(),
                };
                csv.row(&[cell]).expect("memory");
                csv.finish().expect("memory");
                csv.to
            })
        };
        assert_eq!(cell(text("=cmd|' /C calc'!A0")), "'=cmd|' /C calc'!A0\r\n");
        for kept in ["+1", "-x", "@a", "'=x", "\t=x"] {
            assert_eq!(cell(text(kept)), format!("'{kept}\r\n"));
        }
        assert_eq!(
            (cell(text("'a")), cell(text("a=b"))),
            ("'a\r\n".to_owned(), "a=b\r\n".to_owned())
        );
        assert_eq!(
            (cell(Cell::Whole(-3)), cell(Cell::Real(-0.5))),
            ("-3\r\n".to_owned(), "-0.5\r\n".to_owned())
        );
        assert_eq!(cell(Cell::Real(-0.0)), "0.0\r\n");
    }

    #[test]
    fn csv_quotes_what_would_be_misread_and_tells_null_from_empty() {
        let lines = written(|to| {
            let mut csv = Csv::new(to, Table::Events);
            csv.row(&event("say \"no\"\r\n")).expect("memory");
            csv.row(&event("")).expect("memory");
            csv.finish().expect("memory");
            csv.to
        });
        let expected = "store,seq,run_id,element,attempt,node,step,name,user,place,at_ms,event,detail\r\n\
             00ff,7,r,0,0,n1,0,\"a,b\",,3,9,note,\"say \"\"no\"\"\r\n\"\r\n\
             00ff,7,r,0,0,n1,0,\"a,b\",,3,9,note,\"\"\r\n";
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_line_of_json_has_its_kind_and_every_column() {
        let line = written(|to| {
            let mut lines = JsonLines::new(to, Table::Events);
            lines.row(&event("a\nb\u{1}")).expect("memory");
            lines.finish().expect("memory");
            lines.to
        });
        assert_eq!(line.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(
            (&value["kind"], &value["format"], &value["user"]),
            (&"event".into(), &1.into(), &().into())
        );
        assert_eq!(value["detail"], "a\nb\u{1}");
        assert_eq!(
            value.as_object().expect("an object").len(),
            2 + Table::Events.fields().len()
        );
    }

    #[test]
    fn numbers_read_back_and_what_is_no_json_stays_text() {
        let reals = |words| {
            [0.1, 1e300, -5.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(|number| {
                let mut to = Vec::new();
                real(&mut to, number, words);
                String::from_utf8(to).expect("UTF-8")
            })
        };
        assert_eq!(
            reals(["inf", "-inf", "nan"]),
            ["0.1", "1e+300", "-5.0", "inf", "-inf", "nan"]
        );
        assert_eq!(reals(["null"; 3])[3..], ["null", "null", "null"]);
        let lines = ["{\"a\":1}", "{\"a\":\n1}", "{oops\n"].map(|text| {
            let mut to = Vec::new();
            json(&mut to, text);
            String::from_utf8(to).expect("UTF-8")
        });
        assert_eq!(lines, ["{\"a\":1}", "{\"a\":1}", "\"{oops\\n\""]);
    }
}
