//! Numbers as bytes, least byte first, and back. Reading checks every bound: a file may be anybody's.

/// Numbers on their way into a file.
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn u16s(&mut self, numbers: &[u16]) {
        numbers
            .iter()
            .for_each(|number| self.0.extend_from_slice(&number.to_le_bytes()));
    }

    pub(super) fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// A count or an offset.
    pub(super) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    pub(super) fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn f32(&mut self, number: f64) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "seven digits are enough for what is written so"
        )]
        self.0.extend_from_slice(&(number as f32).to_le_bytes());
    }

    pub(super) fn f32s(&mut self, numbers: &[f32]) {
        numbers
            .iter()
            .for_each(|number| self.0.extend_from_slice(&number.to_le_bytes()));
    }

    pub(super) fn f64(&mut self, number: f64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// A length, and so many bytes.
    pub(super) fn block(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }
}

/// Reads what [`Writer`] wrote, from the beginning on. `None`: there is no more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn count(&mut self) -> Option<usize> {
        usize::try_from(self.u32()?).ok()
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A finite number, as it lies there.
    pub(super) fn short(&mut self) -> Option<f32> {
        self.array()
            .map(f32::from_le_bytes)
            .filter(|number| number.is_finite())
    }

    /// A finite number.
    pub(super) fn f32(&mut self) -> Option<f64> {
        self.short().map(f64::from)
    }

    /// A finite number.
    pub(super) fn f64(&mut self) -> Option<f64> {
        self.array()
            .map(f64::from_le_bytes)
            .filter(|number| number.is_finite())
    }

    /// What [`Writer::block`] wrote.
    pub(super) fn block(&mut self) -> Option<&'a [u8]> {
        let count = self.count()?;
        self.take(count)
    }
}

/// The number of four bytes at an index; 0 beyond the end.
pub(super) fn float_at(bytes: &[u8], index: usize) -> f64 {
    let bytes = bytes
        .get(4 * index..4 * index + 4)
        .and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0.0, |bytes| f64::from(f32::from_le_bytes(bytes)))
}

/// Records of one size that begin with a number of eight bytes, in its order: the record of a number.
pub(super) fn record(bytes: &[u8], size: usize, key: u64) -> Option<Reader<'_>> {
    let (mut low, mut high) = (0, bytes.len() / size);
    while low < high {
        let middle = low.midpoint(high);
        let mut reader = Reader(bytes.get(middle * size..(middle + 1) * size)?);
        match reader.u64()?.cmp(&key) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
            std::cmp::Ordering::Equal => return Some(reader),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_and_others_are_not() {
        let mut writer = Writer::default();
        for key in [3_u64, 7, 9] {
            writer.u64(key);
            writer.u32(u32::try_from(key * 2).expect("it fits"));
        }
        let found = |key| record(&writer.0, 12, key).and_then(|mut reader| reader.u32());
        assert_eq!((2..11).filter_map(found).collect::<Vec<_>>(), [6, 14, 18]);
        assert!(record(&writer.0[..20], 12, 9).is_none());
        assert!(Reader(&[1, 0, 0, 0]).block().is_none());
    }
}
