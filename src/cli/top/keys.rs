//! What the user types, as the terminal sends it.

/// What a key means here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Quit,
    Escape,
    Up,
    Down,
    First,
    Last,
    Processes,
    Sort,
    Help,
}

const ESCAPE: u8 = 0x1b;
/// Ctrl-C, where the terminal does not make a signal of it.
const CTRL_C: u8 = 0x03;

/// True where the bytes end in the middle of what one key sends: slow lines bring it in two parts. A lone escape is one,
/// too, unless nothing follows.
pub(super) fn is_cut(bytes: &[u8]) -> bool {
    let Some(at) = bytes.iter().rposition(|byte| *byte == ESCAPE) else {
        return false;
    };
    match &bytes[at + 1..] {
        [] | [b'O'] => true,
        [b'[', rest @ ..] => !rest.iter().any(|byte| is_final(*byte)),
        _ => false,
    }
}

/// The last byte of a control sequence (ECMA-48, 5.4).
fn is_final(byte: u8) -> bool {
    (0x40..=0x7e).contains(&byte)
}

/// The keys in what was typed; others are passed over.
pub(super) fn keys(bytes: &[u8]) -> Vec<Key> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        let (key, left) = if *first == ESCAPE {
            sequence(after)
        } else {
            (plain(*first), after)
        };
        found.extend(key);
        rest = left;
    }
    found
}

fn plain(byte: u8) -> Option<Key> {
    Some(match byte {
        b'q' | b'Q' | CTRL_C => Key::Quit,
        b'k' => Key::Up,
        b'j' => Key::Down,
        b'g' => Key::First,
        b'G' => Key::Last,
        b'p' => Key::Processes,
        b's' => Key::Sort,
        b'?' | b'h' => Key::Help,
        _ => return None,
    })
}

/// What follows an escape: `[` or `O` and a letter are a key with a name, all else is the key itself.
fn sequence(after: &[u8]) -> (Option<Key>, &[u8]) {
    let [b'[' | b'O', parameters @ ..] = after else {
        return (Some(Key::Escape), after);
    };
    let Some(end) = parameters.iter().position(|byte| is_final(*byte)) else {
        return (None, &[]);
    };
    let key = match &parameters[..=end] {
        b"A" => Some(Key::Up),
        b"B" => Some(Key::Down),
        b"H" | b"1~" | b"7~" => Some(Key::First),
        b"F" | b"4~" | b"8~" => Some(Key::Last),
        _ => None,
    };
    (key, &parameters[end + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_arrows_and_escape_are_told_apart() {
        assert_eq!(
            keys(b"jkgGps?"),
            [
                Key::Down,
                Key::Up,
                Key::First,
                Key::Last,
                Key::Processes,
                Key::Sort,
                Key::Help
            ]
        );
        assert_eq!(
            keys(b"\x1b[A\x1b[B\x1bOA\x1b[1~\x1b[F"),
            [Key::Up, Key::Down, Key::Up, Key::First, Key::Last]
        );
        assert_eq!(keys(b"\x1b"), [Key::Escape]);
        assert_eq!(keys(b"\x1bq"), [Key::Escape, Key::Quit]);
        assert_eq!(keys(b"\x03"), [Key::Quit]);
    }

    #[test]
    fn what_means_nothing_is_passed_over_whole() {
        assert_eq!(keys(b"\x1b[200~xyz\x1b[1;5C\x1a\xc3\xa4"), []);
        assert_eq!(keys(b"\x1b[1;5"), []);
    }

    #[test]
    fn a_sequence_that_is_not_all_there_is_seen() {
        for cut in [&b"\x1b"[..], b"\x1b[", b"\x1bO", b"j\x1b[1;5"] {
            assert!(is_cut(cut), "{cut:?}");
        }
        for whole in [&b""[..], b"j", b"\x1b[A", b"\x1b[1~j", b"\x1bx"] {
            assert!(!is_cut(whole), "{whole:?}");
        }
    }
}
