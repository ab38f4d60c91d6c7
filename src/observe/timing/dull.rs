//! Lines that say nothing: most programs print few forms of them, and known ones need not be read again.
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

impl Default for Dull {
    fn default() -> Self {
        Self {
            slots: vec![Slot::default(); SLOTS],
        }
    }
}

impl Dull {
    /// Whether a line of this form is to be passed over.
    pub(super) fn passes_over(&mut self, form: u64) -> bool {
        let slot = self.slot(form);
        if slot.form != form || slot.seen < CERTAIN {
            return false;
        }
        slot.seen = slot.seen.wrapping_add(1).max(CERTAIN);
        !slot.seen.is_multiple_of(AGAIN)
    }

    /// A line of this form was read.
    pub(super) fn note(&mut self, form: u64, speaks: bool) {
        let slot = self.slot(form);
        let seen = if slot.form == form { slot.seen } else { 0 };
        *slot = Slot {
            form,
            seen: if speaks { 0 } else { seen.saturating_add(1) },
        };
    }

    /// Forgets all forms: lines may mean something else from now on.
    pub(super) fn clear(&mut self) {
        self.slots.fill(Slot::default());
    }

    fn slot(&mut self, form: u64) -> &mut Slot {
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are wanted")]
        let at = form as usize % SLOTS;
        &mut self.slots[at]
    }
}

/// The form of a line, as a hash (FNV-1a).
pub(super) fn form(line: &[u8]) -> u64 {
    let letters = line.iter().filter(|byte| !byte.is_ascii_digit());
    letters.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_a_line_without_its_digits() {
        assert_eq!(
            form(b"Channel 12/0 : 3[3] -> 4[4]"),
            form(b"Channel 07/9 : 1[5] -> 6[0]")
        );
        assert_ne!(form(b"epoch 1"), form(b"epocj 1"));
    }

    #[test]
    fn what_says_nothing_is_passed_over_until_something_is_said() {
        let (mut dull, chatter) = (Dull::default(), form(b"NCCL 1"));
        for _ in 0..CERTAIN {
            assert!(!dull.passes_over(chatter));
            dull.note(chatter, false);
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
