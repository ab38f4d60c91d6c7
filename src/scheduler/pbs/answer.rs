//! What `qstat` and `pbsnodes` say of jobs, queues and nodes, as names and values: out of XML, or out of text. OpenPBS's
//! JSON becomes the same ([`crate::scheduler::openpbs::json::things`]).

use std::collections::BTreeMap;

/// One job, queue or node: its attributes by name, those of a group with its name and a dot before (`Resource_List.nodes`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::scheduler) struct Thing {
    /// `Job`, `Queue`, `Node`, ...
    pub(in crate::scheduler) kind: String,
    /// Its id or name.
    pub(in crate::scheduler) id: String,
    /// The attributes.
    pub(in crate::scheduler) attributes: BTreeMap<String, String>,
}

impl Thing {
    /// The value of an attribute; none where it is absent or empty.
    pub(in crate::scheduler) fn get(&self, name: &str) -> Option<&str> {
        self.attributes
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// A whole number.
    pub(in crate::scheduler) fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }
}

/// Groups deeper than this are no answer of Torque.
const DEEPEST: usize = 8;

/// Reads XML, of which `qstat -x` with several ids prints a document for each. Only what Torque writes is known: elements,
/// text and entities. A document that was cut off gives the things that are whole.
pub(in crate::scheduler) fn read_xml(text: &str) -> Vec<Thing> {
    let mut things = Vec::new();
    let mut path: Vec<&str> = Vec::new();
    let mut value = String::new();
    let mut thing = Thing::default();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        value.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some((tag, after)) = rest.split_once('>').filter(|(tag, _)| is_tag(tag)) else {
            // What looks like no tag is text: Torque escapes not everything.
            value.push('<');
            continue;
        };
        rest = after;
        match tag.strip_prefix('/') {
            None if tag.starts_with('?') => {
                path.clear();
                value.clear();
            }
            None => {
                if path.len() == 1 {
                    thing = Thing {
                        kind: tag.to_owned(),
                        ..Thing::default()
                    };
                }
                path.push(tag);
                value.clear();
                if path.len() > DEEPEST {
                    return things;
                }
            }
            Some(name) if path.last() == Some(&name) => {
                match path[..] {
                    [_, _] => things.push(std::mem::take(&mut thing)),
                    [_, _, "Job_Id" | "name"] => thing.id = unescaped(value.trim()),
                    [_, _, ref names @ ..] if !names.is_empty() => {
                        thing
                            .attributes
                            .entry(names.join("."))
                            .or_insert_with(|| unescaped(value.trim()));
                    }
                    _ => {}
                }
                path.pop();
                value.clear();
            }
            // An end without a beginning.
            Some(_) => {}
        }
    }
    things.retain(|thing| !thing.id.is_empty());
    things
}

fn is_tag(tag: &str) -> bool {
    let name = tag.strip_prefix('/').unwrap_or(tag);
    name.starts_with('?')
        || name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

fn unescaped(text: &str) -> String {
    let known = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ];
    known
        .iter()
        .fold(text.to_owned(), |text, (entity, letter)| {
            text.replace(entity, letter)
        })
}

/// Reads the text of `qstat -f` and `qstat -Q -f` (`Job Id: 14.vm`, `    name = value`, a tab before what goes on from the
/// line before) and of `qstat -B -f`. Slurm's `qstat` indents by a tab, and breaks no line. With `-w` no line is broken, but
/// values hold line breaks of their own: what is not indented belongs to the value before, unless nothing is, as where a
/// mail has lost it. Of a name that occurs twice the first counts: a variable could hold lines that look like attributes.
pub(in crate::scheduler) fn read_text(text: &str) -> Vec<Thing> {
    let mut things: Vec<Thing> = Vec::new();
    let mut last: Option<String> = None;
    let mut indent = ' ';
    let is_indented = text.lines().any(|line| line.starts_with([' ', '\t']));
    for line in text.lines() {
        let head = ["Job Id:", "Queue:", "Server:"]
            .iter()
            .find_map(|head| Some((*head, line.strip_prefix(head)?)));
        if let Some((head, id)) = head {
            let kind = head.split([' ', ':']).next().unwrap_or_default().to_owned();
            things.push(Thing {
                kind,
                id: id.trim().to_owned(),
                attributes: BTreeMap::new(),
            });
            last = None;
            continue;
        }
        let Some(thing) = things.last_mut() else {
            continue;
        };
        if thing.attributes.is_empty() {
            indent = if line.starts_with('\t') { '\t' } else { ' ' };
        }
        let tabbed = line.strip_prefix('\t').filter(|_| indent != '\t');
        let found = attribute(line).filter(|_| !is_indented || line.starts_with([' ', '\t']));
        match (tabbed, found) {
            (None, Some((name, value))) if !thing.attributes.contains_key(name) => {
                thing.attributes.insert(name.to_owned(), value.to_owned());
                last = Some(name.to_owned());
            }
            (None, Some(_)) => {}
            // In a mail the tab has become blanks.
            (more, _) => {
                if let Some(value) = last
                    .as_ref()
                    .and_then(|name| thing.attributes.get_mut(name))
                {
                    value.push_str(more.unwrap_or(line.trim()));
                }
            }
        }
    }
    things.retain(|thing| !thing.id.is_empty());
    things
}

/// Name and value in `    name = value`.
fn attribute(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(" = ")?;
    let name = name.trim();
    let fits = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    (fits && !name.is_empty()).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const XML: &str = "<?xml version=\"1.0\"?>\n<Data><Job><Job_Id>7.vm</Job_Id><Job_Name>a&amp;b &lt;c&gt;</Job_Name>\
        <submit_args>-v X=1 < 2 > 3 s.sh</submit_args>\
        <Resource_List><nodes>1:ppn=2</nodes></Resource_List></Job></Data>\n\
        <?xml version=\"1.0\"?>\n<Data><Job><Job_Id>8[1].vm</Job_Id><job_state>Q</job_state></Job></Data>\n";

    #[test]
    fn documents_behind_each_other_are_read() {
        let things = read_xml(XML);
        assert_eq!(
            things
                .iter()
                .map(|thing| thing.id.as_str())
                .collect::<Vec<_>>(),
            ["7.vm", "8[1].vm"]
        );
        assert_eq!(things[0].get("Job_Name"), Some("a&b <c>"));
        assert_eq!(things[0].get("submit_args"), Some("-v X=1 < 2 > 3 s.sh"));
        assert_eq!(things[0].get("Resource_List.nodes"), Some("1:ppn=2"));
        assert_eq!(things[1].get("job_state"), Some("Q"));
    }

    #[test]
    fn what_was_cut_off_is_left_out() {
        let whole = XML.find("</Job>").expect("it is there") + "</Job>".len();
        for end in 0..XML.len() {
            let things = read_xml(&XML[..end]);
            assert_eq!(things.is_empty(), end < whole, "{end}");
        }
    }

    #[test]
    fn wrapped_text_is_joined() {
        let text = "Job Id: 0.vm\n    Job_Name = hello\n    Variable_List = PBS_O_PATH=/usr/loca\n\tl/games,A=b = c\n    \
            exit_status = 7\n\nJob Id: 1.vm\n    job_state = Q\n\n";
        let things = read_text(text);
        assert_eq!(things.len(), 2);
        assert_eq!(
            things[0].get("Variable_List"),
            Some("PBS_O_PATH=/usr/local/games,A=b = c")
        );
        assert_eq!(
            (things[0].get("exit_status"), things[1].get("job_state")),
            (Some("7"), Some("Q"))
        );
        assert_eq!(
            read_text(&text.replace('\t', "        ")),
            things,
            "as mails have it"
        );
    }

    #[test]
    fn lines_of_a_variable_are_no_attributes() {
        let text = "Job Id: 7.s\n    Job_Name = a = b\n    job_state = R\n    Variable_List = A=1\nExit_status = 0\n    job_state = F\nmore\n    comment = Job run\n\nJob Id: 8[].s\n    job_state = Q\n";
        let things = read_text(text);
        let of = |name: &str| things[0].get(name);
        assert_eq!(
            (of("Job_Name"), of("job_state"), of("Exit_status")),
            (Some("a = b"), Some("R"), None)
        );
        assert_eq!(
            (of("comment"), things[1].get("job_state")),
            (Some("Job run"), Some("Q"))
        );
        assert_eq!(read_text("    job_state = R\n"), []);
    }

    #[test]
    fn text_of_slurms_qstat_is_read() {
        let things = read_text(
            "Job Id:\t12\n\tJob_Name = a\n\tjob_state = R\n\nJob Id:\t13\n\tjob_state = Q\n",
        );
        assert_eq!(
            things
                .iter()
                .map(|thing| thing.id.as_str())
                .collect::<Vec<_>>(),
            ["12", "13"]
        );
        assert_eq!(
            (things[0].get("Job_Name"), things[0].get("job_state")),
            (Some("a"), Some("R"))
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".{0,300}", cut in 0..500_usize, flip in any::<char>()) {
            read_xml(&text);
            read_text(&text);
            let mut damaged: Vec<char> = XML.chars().collect();
            let at = cut % damaged.len();
            damaged[at] = flip;
            let damaged: String = damaged.into_iter().collect();
            prop_assert!(read_xml(&damaged).len() <= 3);
        }
    }
}
