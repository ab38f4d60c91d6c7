//! HTML that holds no text of others but escaped: names of elements and attributes are ours, all else goes through here.

use crate::foundation::diagnostic::is_deceptive;

/// Characters of one piece of text at most: a name of ten megabytes is nothing that people read.
const MOST_CHARACTERS: usize = 2_000;

/// Attributes of an element.
pub(in crate::report) type Attributes<'a> = &'a [(&'static str, &'a str)];

/// A page as it grows.
#[derive(Debug, Default)]
pub(in crate::report) struct Html(String);

impl Html {
    /// The page.
    pub(in crate::report) fn into_text(self) -> String {
        self.0
    }

    /// Markup of our own.
    pub(in crate::report) fn markup(&mut self, markup: &'static str) {
        self.0.push_str(markup);
    }

    /// Text, escaped. What would turn the direction of writing or not show at all is replaced.
    pub(in crate::report) fn text(&mut self, text: &str) {
        for (place, c) in text.chars().enumerate() {
            if place == MOST_CHARACTERS {
                self.0.push('…');
                return;
            }
            self.0.push_str(match c {
                '&' => "&amp;",
                '<' => "&lt;",
                '>' => "&gt;",
                '"' => "&quot;",
                '\'' => "&#39;",
                '\n' | '\t' => " ",
                _ if is_deceptive(c) => "\u{fffd}",
                _ => {
                    self.0.push(c);
                    continue;
                }
            });
        }
    }

    /// Text of several lines.
    pub(in crate::report) fn lines(&mut self, text: &str) {
        for (place, line) in text.lines().enumerate() {
            self.0.push_str(if place > 0 { "\n" } else { "" });
            self.text(line);
        }
    }

    /// Begins an element.
    pub(in crate::report) fn open(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.begin(name, attributes);
        self.0.push('>');
    }

    fn begin(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.0.push('<');
        self.0.push_str(name);
        for (attribute, value) in attributes {
            self.0.push(' ');
            self.0.push_str(attribute);
            self.0.push_str("=\"");
            self.text_of_attribute(value);
            self.0.push('"');
        }
    }

    /// Path data of curves are longer than any text.
    fn text_of_attribute(&mut self, value: &str) {
        if value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b" .,-%#:/()_".contains(&byte))
        {
            self.0.push_str(value);
        } else {
            self.text(value);
        }
    }

    /// Ends an element.
    pub(in crate::report) fn close(&mut self, name: &'static str) {
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push('>');
        if matches!(
            name,
            "tr" | "section" | "table" | "svg" | "div" | "li" | "p" | "h2" | "h3" | "details"
        ) {
            self.0.push('\n');
        }
    }

    /// An element with what is in it.
    pub(in crate::report) fn element(
        &mut self,
        name: &'static str,
        attributes: Attributes<'_>,
        inner: impl FnOnce(&mut Self),
    ) {
        self.open(name, attributes);
        inner(self);
        self.close(name);
    }

    /// An element with nothing but text in it.
    pub(in crate::report) fn leaf(
        &mut self,
        name: &'static str,
        attributes: Attributes<'_>,
        text: &str,
    ) {
        self.element(name, attributes, |html| html.text(text));
    }

    /// A paragraph of a class, such as `muted`.
    pub(in crate::report) fn paragraph(&mut self, class: &str, text: &str) {
        self.leaf("p", &[("class", class)], text);
    }

    /// A section under its own head, which links may lead to.
    pub(in crate::report) fn section(
        &mut self,
        id: &str,
        head: &str,
        inner: impl FnOnce(&mut Self),
    ) {
        self.element("section", &[("aria-labelledby", id)], |html| {
            html.leaf("h2", &[("id", id)], head);
            inner(html);
        });
    }

    /// An SVG element with nothing in it.
    pub(in crate::report) fn shape(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.begin(name, attributes);
        self.0.push_str("/>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Html)) -> String {
        let mut html = Html::default();
        write(&mut html);
        html.into_text()
    }

    #[test]
    fn text_and_attributes_of_others_stay_text() {
        let evil = "</td><script>alert(\"1\")</script>&' onload='x";
        let text = written(|html| html.leaf("td", &[("title", evil)], evil));
        let escaped =
            "&lt;/td&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39; onload=&#39;x";
        assert_eq!(text, format!("<td title=\"{escaped}\">{escaped}</td>"));
        let text = written(|html| html.text("a\u{202e}b\0c\u{1b}[31m\nd"));
        assert_eq!(text, "a\u{fffd}b\u{fffd}c\u{fffd}[31m d");
    }

    #[test]
    fn text_has_an_end_and_path_data_have_none() {
        let long = "9".repeat(5_000);
        assert_eq!(
            written(|html| html.text(&long)).chars().count(),
            MOST_CHARACTERS + 1
        );
        assert!(written(|html| html.shape("path", &[("d", &long)])).contains(&long));
    }
}
