//! Lists of node names as Slurm writes them: `n[1,3-5],gpu[01-10]`, `rack[1-2]node[1-4]`.

/// More names than any cluster has; a longer list is not taken apart.
const MOST_NAMES: usize = 200_000;

/// The names of a list, in its order; `None` for text that is none, and for more names than a cluster has.
pub(super) fn expand(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for part in parts(list)? {
        names.append(&mut names_of(part)?);
        if names.len() > MOST_NAMES {
            return None;
        }
    }
    Some(names)
}

/// Splits at the commas outside of brackets.
fn parts(list: &str) -> Option<Vec<&str>> {
    let (mut parts, mut begin, mut inside) = (Vec::new(), 0, false);
    for (at, c) in list.char_indices() {
        match c {
            '[' if inside => return None,
            '[' => inside = true,
            ']' if !inside => return None,
            ']' => inside = false,
            ',' if !inside => {
                parts.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[begin..]);
    (!inside).then_some(parts)
}

/// The names of one part, which may have several brackets: each number of the one with each of the other.
fn names_of(part: &str) -> Option<Vec<String>> {
    let mut names = vec![String::new()];
    let mut rest = part;
    while let Some((head, tail)) = rest.split_once('[') {
        let (ranges, after) = tail.split_once(']')?;
        let numbers = numbers(ranges)?;
        if names.len().checked_mul(numbers.len())? > MOST_NAMES {
            return None;
        }
        names = names
            .iter()
            .flat_map(|name| {
                numbers
                    .iter()
                    .map(move |number| format!("{name}{head}{number}"))
            })
            .collect();
        rest = after;
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    (!part.is_empty()).then_some(names)
}

/// `1,3-5` and `01-10`, which keeps its zeros.
fn numbers(ranges: &str) -> Option<Vec<String>> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let width = first.len();
        let read = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| text.parse::<usize>().ok())?
        };
        let (from, to) = (read(first)?, read(last)?);
        if to < from || to - from >= MOST_NAMES - numbers.len() {
            return None;
        }
        numbers.extend((from..=to).map(|number| format!("{number:0width$}")));
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_are_taken_apart() {
        for (list, names) in [
            ("n1", "n1"),
            ("n[1,3-5]", "n1 n3 n4 n5"),
            ("gpu[08-10],login", "gpu08 gpu09 gpu10 login"),
            ("r[1-2]n[1-2]-ib", "r1n1-ib r1n2-ib r2n1-ib r2n2-ib"),
        ] {
            assert_eq!(
                expand(list).map(|names| names.join(" ")).as_deref(),
                Some(names),
                "{list}"
            );
        }
        for list in [
            "",
            "n[",
            "n]",
            "n[1",
            "n[a]",
            "n[3-1]",
            "n[[1]]",
            "a,,b",
            "n[0-999999999]",
            "n[0-999]m[0-999]",
        ] {
            assert_eq!(expand(list), None, "{list}");
        }
    }

    proptest! {
        #[test]
        fn any_list_is_read_without_panic(list in "[a-z0-9,\\[\\]-]{0,24}|\\PC{0,20}") {
            let _ = expand(&list);
        }
    }
}
