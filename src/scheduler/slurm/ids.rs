//! Job ids as Slurm's commands print them: `95`, `95_3`, `95_[2-5%2]`, `12+1`, `131_[1,3-7:2]`.

use crate::job::ArraySpec;

/// An id, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SeenId {
    /// All of it.
    pub(super) shown: String,
    /// The id that `sbatch` printed.
    pub(super) base: String,
    /// Elements of an array that the line is about, as this job counts them; `None`: the whole job.
    pub(super) elements: Option<ArraySpec>,
}

impl SeenId {
    /// Reads an id; `None` for what is none, such as a step (`95.batch`).
    pub(super) fn read(text: &str) -> Option<Self> {
        let end = text.find(['_', '+']).unwrap_or(text.len());
        let (base, rest) = text.split_at(end);
        if base.is_empty() || base.len() > 20 || !base.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let mut seen = Self {
            shown: text.to_owned(),
            base: base.to_owned(),
            elements: None,
        };
        if let Some(elements) = rest.strip_prefix('_') {
            seen.elements = Some(elements_of(elements)?);
        }
        Some(seen)
    }
}

/// `3`, `[2-5%2]`, and `[1,3,5,...]`, which Slurm shortens where `SLURM_BITSTR_LEN` is not 0: what it names counts.
fn elements_of(text: &str) -> Option<ArraySpec> {
    let list = text
        .strip_prefix('[')
        .map_or(Some(text), |list| list.strip_suffix(']'))?;
    let whole = match list.split_once("...") {
        Some((begun, rest)) => {
            let limit = rest.find('%').map_or("", |at| &rest[at..]);
            format!("{}{limit}", &begun[..begun.rfind(',')?])
        }
        None => list.to_owned(),
    };
    ArraySpec::parse(&whole).ok()
}

/// Elements of a part of an array as the whole run counts them.
pub(super) fn shifted(elements: &ArraySpec, offset: u32) -> Option<ArraySpec> {
    if offset == 0 {
        return Some(elements.clone());
    }
    let indexes: Option<Vec<u32>> = elements
        .indexes()
        .map(|index| index.checked_add(offset))
        .collect();
    Some(ArraySpec::of(&indexes?, elements.limit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Option<(String, Option<String>)> {
        let seen = SeenId::read(text)?;
        Some((
            seen.base,
            seen.elements.map(|elements| elements.to_string()),
        ))
    }

    #[test]
    fn all_forms_are_read() {
        for (text, base, elements) in [
            ("95", "95", None),
            ("95_3", "95", Some("3")),
            ("95_[2-5%2]", "95", Some("2-5%2")),
            ("131_[1,3-7:2]", "131", Some("1,3-7:2")),
            ("131_[1,3,5,...]", "131", Some("1,3,5")),
            ("131_[1,3,57...%4]", "131", Some("1,3%4")),
            ("12+1", "12", None),
        ] {
            let expected = (base.to_owned(), elements.map(str::to_owned));
            assert_eq!(read(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "95.batch",
            "_3",
            "95_",
            "95_[]",
            "95_x",
            "slurm_load_jobs",
            "95_[1-",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn elements_of_a_part_are_counted_as_the_run_counts() {
        let part = ArraySpec::parse("0-3%2").expect("valid");
        assert_eq!(
            shifted(&part, 1000).map(|all| all.to_string()).as_deref(),
            Some("1000-1003%2")
        );
        assert_eq!(shifted(&part, u32::MAX), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "[0-9_+\\[\\],.%:-]{0,20}|\\PC{0,20}") {
            let _ = SeenId::read(&text);
        }
    }
}
