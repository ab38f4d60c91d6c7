//! The little XML that Torque prints: elements and text. No attributes are kept, no declarations heeded, nothing is fetched.

/// One element.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Element {
    /// Its name.
    pub(super) name: String,
    /// Its own text, entities resolved.
    pub(super) text: String,
    /// The elements in it.
    pub(super) children: Vec<Self>,
}

/// Deeper ones are not Torque's.
const MAX_DEPTH: usize = 16;

impl Element {
    /// The text of the first child of a name.
    pub(super) fn text_of(&self, name: &str) -> Option<&str> {
        self.children.iter().find(|child| child.name == name).map(|child| child.text.as_str())
    }
}

/// Reads a document; of one that breaks off, what is whole. `None` where there is no element at all.
pub(super) fn parse(text: &str) -> Option<Element> {
    // The last one is the innermost that is open.
    let mut open = vec![Element::default()];
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let (before, tag) = rest.split_at(start);
        if let Some(element) = open.last_mut() {
            element.text.push_str(&resolved(before));
        }
        let Some(end) = tag.find('>') else { break };
        let inner = &tag[1..end];
        rest = &tag[end + 1..];
        if inner.starts_with(['?', '!']) {
            continue;
        }
        if let Some(name) = inner.strip_prefix('/') {
            close(&mut open, name.trim());
            continue;
        }
        let name = inner.split([' ', '/', '\t', '\n']).next().unwrap_or_default();
        if open.len() > MAX_DEPTH || name.is_empty() {
            return None;
        }
        open.push(Element { name: name.to_owned(), ..Element::default() });
        if inner.ends_with('/') {
            close(&mut open, name);
        }
    }
    // What broke off is dropped, with all that it was in; whole children of those are kept.
    while open.len() > 1 {
        let broken = open.pop()?;
        if !broken.children.is_empty()
            && let Some(parent) = open.last_mut()
        {
            parent.children.push(broken);
        }
    }
    open.pop()?.children.into_iter().next()
}

/// Closes the innermost open element where it has that name; a stray end tag is passed over.
fn close(open: &mut Vec<Element>, name: &str) {
    if open.len() < 2 || open.last().is_none_or(|element| element.name != name) {
        return;
    }
    if let Some((element, parent)) = open.pop().zip(open.last_mut()) {
        parent.children.push(element);
    }
}

/// The five entities of XML, and characters by their number.
fn resolved(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        let known =
            tail.find(';').filter(|end| *end <= 10).and_then(|end| Some((end, entity(&tail[1..end])?)));
        let (length, character) = known.map_or((1, '&'), |(end, character)| (end + 1, character));
        out.push(character);
        rest = &tail[length..];
    }
    out.push_str(rest);
    out
}

fn entity(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn elements_and_entities_are_read() {
        let text = "<?xml version=\"1.0\"?><Data><Job><Id>7.vm</Id><Name>a &lt;b&gt; &amp; &#65;&nope;</Name><Empty/></Job></Data>";
        let job = parse(text).expect("a document").children.remove(0);
        assert_eq!(job.text_of("Id"), Some("7.vm"));
        assert_eq!(job.text_of("Name"), Some("a <b> & A&nope;"));
        assert_eq!(job.text_of("Empty"), Some(""));
    }

    #[test]
    fn of_a_broken_document_whole_elements_count() {
        let root = parse("<Data><Job><Id>1</Id></Job><Job><Id>2</Id><Name>ab").expect("a document");
        assert_eq!(root.children[0].text_of("Id"), Some("1"));
        assert_eq!(root.children[1].text_of("Name"), None);
        assert_eq!(parse("no markup"), None);
        assert_eq!(parse(&"<a>".repeat(100)), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "[<>/&;#xa-c \\n]{0,80}") {
            let _ = parse(&text);
        }
    }
}
