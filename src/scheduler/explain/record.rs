//! What an output says of one job or node: names and texts, the same for all forms that it comes in.

/// What one thing is called by the programs and by people, in small letters and digits alone; the first that is found counts.
pub(super) type Names = &'static str;

/// A name without case, blanks, signs and the width behind `%`: that is what differs between the programs.
pub(super) fn plain(name: &str) -> String {
    let name = name.trim().split('%').next().unwrap_or_default();
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// Names and texts, the names [`plain`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Record(pub(super) Vec<(String, String)>);

impl Record {
    pub(super) fn add(&mut self, name: &str, text: &str) {
        self.0.push((plain(name), text.trim().to_owned()));
    }

    fn texts(&self, names: Names) -> impl Iterator<Item = &str> {
        let of = |wanted| self.0.iter().find(move |(name, _)| name == wanted);
        names
            .split(' ')
            .filter_map(of)
            .map(|(_, text)| text.as_str())
    }

    pub(super) fn has(&self, names: Names) -> bool {
        self.texts(names).next().is_some()
    }

    /// The text of the first of these names, as printed.
    pub(super) fn raw(&self, names: Names) -> Option<&str> {
        self.texts(names).next()
    }

    /// The first text that says something.
    pub(super) fn text(&self, names: Names) -> Option<&str> {
        self.texts(names).find_map(said)
    }

    pub(super) fn number(&self, names: Names) -> Option<u64> {
        self.text(names).and_then(leading_number)
    }
}

/// Text that says something: not `(null)`, `N/A`, `Unknown`, `None` and their like.
pub(super) fn said(text: &str) -> Option<&str> {
    let text = text.trim();
    let nothing = "|--|(null)|null|N/A|n/a|NONE|None|Unknown|None assigned|none|(None)";
    (!nothing.split('|').any(|known| known == text)).then_some(text)
}

/// The first number of `2`, `2-4`, `1K`.
pub(super) fn leading_number(text: &str) -> Option<u64> {
    let digits = text.trim().split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// A text at the lines that begin with one of the keys; what comes before the first is left out.
pub(super) fn paragraphs<'a>(text: &'a str, first: &str) -> Vec<Vec<&'a str>> {
    let mut found: Vec<Vec<&str>> = Vec::new();
    for line in text.lines() {
        match found.last_mut() {
            _ if line.trim_start().starts_with(first) => found.push(vec![line]),
            Some(lines) => lines.push(line),
            None => {}
        }
    }
    found
}
