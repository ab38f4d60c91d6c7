//! Options that a job file hands on to the scheduler, as they are written.

/// The value of an option among those handed through, the last one counts: `-pX`, `-p X`, `--partition=X`, in one word or
/// in two.
pub(super) fn value_of<'a>(
    options: &[&'a str],
    short: &str,
    long: Option<&str>,
) -> Option<&'a str> {
    let mut words = options.iter().flat_map(|option| option.split_whitespace());
    let mut value = None;
    while let Some(word) = words.next() {
        if word == short || Some(word) == long {
            value = words.next();
        } else if let Some(stuck) = word.strip_prefix(short).filter(|_| !word.starts_with("--")) {
            value = Some(stuck);
        } else if let Some(stuck) = long.and_then(|long| word.strip_prefix(long)?.strip_prefix('='))
        {
            value = Some(stuck);
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_handed_through_are_read_in_every_spelling() {
        for options in [
            &["-pgpu"][..],
            &["-p gpu"],
            &["-p", "gpu"],
            &["--partition=gpu"],
            &["--partition", "gpu"],
        ] {
            assert_eq!(
                value_of(options, "-p", Some("--partition")),
                Some("gpu"),
                "{options:?}"
            );
        }
        assert_eq!(value_of(&["-p", "a", "-pb"], "-p", None), Some("b"));
        assert_eq!(
            value_of(&["--parsable", "--hold", "-H"], "-p", Some("--partition")),
            None
        );
        assert_eq!(value_of(&["-p"], "-p", None), None);
    }
}
