//! Lines that say nothing: what a program chatters has few forms, and whoever knows them need not read on.
//!
//! A form is a line without its digits. One that said nothing several times in a row is passed over, until something is said
//! that may change what lines mean (an epoch begins, an epoch ends), and looked at again now and then.

/// Forms kept at most.
const SLOTS: usize = 1024;

/// Readings that say nothing before a form is passed over.
const CERTAIN: u32 = 4;

/// Of lines of a form that is passed over, one in so many is read all the same.
const AGAIN: u32 = 512;

/// The forms that say nothing.
#[derive(Debug)]
pub(super) struct Dull {
    slots: Vec<Slot>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    form: u64,
    seen: u32,
}

/// The form of a line: equal for lines that differ in digits alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form(u64);

impl Default for Dull {
    fn default() -> Self {
        Self {
            slots: vec![Slot::default(); SLOTS],
        }
    }
}

impl Dull {
    /// Whether a line of this form is to be passed over.
    pub(super) fn passes_over(&mut self, form: Form) -> bool {
        let slot = self.slot(form);
        if slot.form != form.0 || slot.seen < CERTAIN {
            return false;
        }
        slot.seen = slot.seen.wrapping_add(1).max(CERTAIN);
        !slot.seen.is_multiple_of(AGAIN)
    }

    /// A line of this form was read and said nothing.
    pub(super) fn said_nothing(&mut self, form: Form) {
        let slot = self.slot(form);
        if slot.form == form.0 {
            slot.seen = slot.seen.saturating_add(1);
        } else {
            *slot = Slot {
                form: form.0,
                seen: 1,
            };
        }
    }

    /// Forgets all forms: lines may mean something else from now on.
    pub(super) fn clear(&mut self) {
        self.slots.fill(Slot::default());
    }

    fn slot(&mut self, form: Form) -> &mut Slot {
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are wanted")]
        let at = form.0 as usize % SLOTS;
        &mut self.slots[at]
    }
}

/// The form of a line.
pub(super) fn form(line: &[u8]) -> Form {
    let (words, rest) = line.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mut hash = line.len() as u64 ^ 0x9e37_79b9_7f4a_7c15;
    for word in words.iter().chain([&last]) {
        hash =
            (hash ^ without_digits(u64::from_le_bytes(*word))).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^= hash >> 32;
    }
    // Never that of an empty slot.
    Form(hash | 1 << 63)
}

/// Eight bytes with zeros in the place of digits, all at once.
fn without_digits(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // '0' to '9' become 0 to 9; what is above 9 has its high bit set by the addition, or had it before.
    let shifted = word ^ (ONES * 0x30);
    let above = ((shifted & (ONES * 0x7f)) + ONES * (0x7f - 9)) | shifted;
    let others = (above & (ONES * 0x80)) >> 7;
    word & (others * 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_a_line_without_its_digits() {
        for byte in 0..=255_u8 {
            let word = u64::from_le_bytes([byte, b'a', byte, b'0', b'9', 0xff, byte, b'/']);
            let expected = [byte, b'a', byte, 0, 0, 0xff, byte, b'/']
                .map(|b| if b.is_ascii_digit() { 0 } else { b });
            assert_eq!(without_digits(word).to_le_bytes(), expected, "{byte}");
        }
        assert_eq!(
            form(b"Channel 12/0 : 3[3] -> 4[4]"),
            form(b"Channel 07/9 : 1[5] -> 6[0]")
        );
        assert_ne!(form(b"Channel 12/0"), form(b"Channel 1/0"));
        assert_ne!(form(b"epoch 1"), form(b"epocj 1"));
        assert_ne!(form(b""), form(b"1"));
    }

    #[test]
    fn what_says_nothing_is_passed_over_until_something_is_said() {
        let (mut dull, chatter) = (Dull::default(), form(b"NCCL 1"));
        for _ in 0..CERTAIN {
            assert!(!dull.passes_over(chatter));
            dull.said_nothing(chatter);
        }
        let passed = (0..10 * AGAIN)
            .filter(|_| dull.passes_over(chatter))
            .count();
        assert_eq!(passed, 10 * (AGAIN as usize - 1));
        assert!(!dull.passes_over(form(b"other")));
        dull.clear();
        assert!(!dull.passes_over(chatter));
    }
}
