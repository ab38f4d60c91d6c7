//! The header and the table of a SIF file, read within bounds.
//!
//! The format is that of <https://github.com/apptainer/sif>, `pkg/sif/sif.go` and `descriptor.go`, version 01: all numbers
//! are little-endian and nothing is padded.
//!
//! ```text
//! header, 128 bytes                          descriptor, 585 bytes
//!   0  launch script, 32                       0  data type, i32
//!  32  magic, `SIF_MAGIC` and a zero           4  used, u8
//!  42  version, `01` and a zero                5  id, group, link, u32 each
//!  45  architecture, two digits and a zero    17  offset, size, size with padding, i64 each
//!  48  UUID, 16                               41  created, modified, user, group, i64 each
//!  64  created, modified, i64 in Unix s       73  name, 128
//!  80  free and all descriptors, i64         201  of a partition: file system, kind, i32 each; architecture
//!  96  their offset and size, i64
//! 112  the data's offset and size, i64
//! ```

use std::io::{self, Read, Seek, SeekFrom};

/// What the header and the table of a SIF file say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sif {
    /// The UUID that the file got when it was made, in the usual form.
    pub(crate) uuid: String,
    /// As `uname -m` has it; `None`: the file does not say, or says what is not known here.
    pub(crate) arch: Option<&'static str>,
}

/// Why something is no SIF that can be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SifFault {
    #[error("it cannot be read")]
    Read(#[from] io::Error),
    #[error("it is truncated: {have} of {wants} bytes")]
    Truncated { have: u64, wants: u64 },
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
    #[error("{0}")]
    Other(&'static str),
}

const HEADER: usize = 128;
const DESCRIPTOR: usize = 585;
/// The tools make 48; more than these are a damage (2.4 MB are read at most).
const MOST_DESCRIPTORS: u64 = 4096;
const MAGIC: &[u8] = b"SIF_MAGIC\0";
const MAGIC_AT: usize = 32;

const PARTITION: i32 = 0x4004;
const PRIMARY_SYSTEM: i32 = 2;
const SQUASHFS: i32 = 1;

/// Codes of architectures, `pkg/sif/arch.go`, as `uname -m` has them.
const ARCHITECTURES: [(&[u8], &str); 6] = [
    (b"01", "i686"),
    (b"02", "x86_64"),
    (b"04", "aarch64"),
    (b"06", "ppc64le"),
    (b"11", "s390x"),
    (b"12", "riscv64"),
];

/// Whether a file that begins with these bytes says that it is a SIF.
pub(crate) fn has_magic(head: &[u8]) -> bool {
    head.get(MAGIC_AT..MAGIC_AT + MAGIC.len()) == Some(MAGIC)
}

/// Reads header and table of a file of `length` bytes, at most 2.4 MB in all.
pub(crate) fn read(file: &mut (impl Read + Seek), length: u64) -> Result<Sif, SifFault> {
    let within = |end: Option<u64>| match end {
        Some(end) if end <= length => Ok(()),
        Some(end) => Err(SifFault::Truncated {
            have: length,
            wants: end,
        }),
        None => Err(SifFault::Damaged("its header names places beyond any file")),
    };
    within(Some(HEADER as u64))?;
    let header = bytes_at(file, 0, HEADER)?;
    if !has_magic(&header) {
        return Err(SifFault::Other("it is not a SIF"));
    }
    if header[42..45] != *b"01\0" {
        return Err(SifFault::Other(
            "it is a SIF of a version that is not known here",
        ));
    }
    // The whole data section is there: what was copied or loaded half is noticed before anything starts.
    let data = unsigned(&header, 112)?.checked_add(unsigned(&header, 120)?);
    let (count, table) = (unsigned(&header, 88)?, unsigned(&header, 96)?);
    if count > MOST_DESCRIPTORS {
        return Err(SifFault::Damaged(
            "its header names more descriptors than any tool makes",
        ));
    }
    let table_size = count * DESCRIPTOR as u64;
    within(table.checked_add(table_size))?;
    within(data)?;
    let size =
        usize::try_from(table_size).map_err(|_| SifFault::Damaged("its table is too long"))?;
    let descriptors = bytes_at(file, table, size)?;
    let mut system = None;
    for descriptor in descriptors
        .chunks_exact(DESCRIPTOR)
        .filter(|descriptor| descriptor[4] != 0)
    {
        let (offset, size) = (unsigned(descriptor, 17)?, unsigned(descriptor, 25)?);
        within(offset.checked_add(size))?;
        if (number(descriptor, 0), number(descriptor, 205)) == (PARTITION, PRIMARY_SYSTEM) {
            system = system.or(Some((offset, number(descriptor, 201))));
        }
    }
    let (offset, file_system) = system.ok_or(SifFault::Other(
        "it is a SIF without a system partition (OCI-SIFs are not supported)",
    ))?;
    if file_system == SQUASHFS && bytes_at(file, offset, 4)? != b"hsqs" {
        return Err(SifFault::Damaged(
            "its system is not the squashfs that its table promises",
        ));
    }
    Ok(Sif {
        uuid: uuid_text(&header[48..64]),
        arch: ARCHITECTURES
            .iter()
            .find(|(code, _)| header[45..47] == **code)
            .map(|(_, name)| *name),
    })
}

/// The caller looked at the length; a file that became shorter since is an error of reading.
fn bytes_at(file: &mut (impl Read + Seek), offset: u64, length: usize) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A place or a size, of which none is negative.
fn unsigned(bytes: &[u8], at: usize) -> Result<u64, SifFault> {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::try_from(i64::from_le_bytes(word))
        .map_err(|_| SifFault::Damaged("its header has a negative size"))
}

fn number(bytes: &[u8], at: usize) -> i32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    i32::from_le_bytes(word)
}

fn uuid_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    /// A SIF with a definition file and a system of a few bytes, as the tools lay it out.
    pub(crate) fn sif() -> Vec<u8> {
        let mut file = vec![0_u8; 8192];
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"#!/usr/bin/env run-singularity\n");
        put(32, MAGIC);
        put(42, b"01\0");
        put(45, b"02\0");
        put(
            48,
            &[
                0xf4, 0xa6, 0x9e, 0x9a, 0x65, 0x12, 0x4f, 0x24, 0x99, 0x97, 0x70, 0x92, 0x55, 0xa8,
                0xfe, 0x15,
            ],
        );
        for (at, value) in [
            (64, 1_700_000_000_i64),
            (72, 1_700_000_001),
            (80, 1),
            (88, 3),
            (96, 128),
            (104, 3 * 585),
        ] {
            put(at, &value.to_le_bytes());
        }
        put(112, &4096_i64.to_le_bytes());
        put(120, &4096_i64.to_le_bytes());
        for (slot, kind, offset, size) in [
            (0, 0x4001_i32, 4096_i64, 50_i64),
            (1, PARTITION, 4608, 3584),
        ] {
            let at = 128 + slot * DESCRIPTOR;
            put(at, &kind.to_le_bytes());
            put(at + 4, &[1]);
            put(at + 17, &offset.to_le_bytes());
            put(at + 25, &size.to_le_bytes());
        }
        put(128 + DESCRIPTOR + 201, &SQUASHFS.to_le_bytes());
        put(128 + DESCRIPTOR + 205, &PRIMARY_SYSTEM.to_le_bytes());
        put(4608, b"hsqs");
        file
    }

    fn told(bytes: &[u8]) -> Result<Sif, String> {
        read(&mut Cursor::new(bytes), bytes.len() as u64).map_err(|fault| fault.to_string())
    }

    /// The good file with some bytes replaced.
    fn with(at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut file = sif();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    }

    #[test]
    fn header_and_table_are_read() {
        let found = told(&sif()).expect("it is whole");
        let expected = Sif {
            uuid: "f4a69e9a-6512-4f24-9997-709255a8fe15".into(),
            arch: Some("x86_64"),
        };
        assert_eq!(found, expected);
        assert_eq!(
            told(&with(45, b"04\0")).expect("whole").arch,
            Some("aarch64")
        );
        for unknown in [b"00\0", b"99\0", b"x\0\0"] {
            assert_eq!(told(&with(45, unknown)).expect("whole").arch, None);
        }
    }

    #[test]
    fn what_was_copied_half_is_told_with_both_lengths() {
        let whole = sif();
        for length in [8191, 5000, 4700, 4608] {
            assert_eq!(
                told(&whole[..length]),
                Err(format!("it is truncated: {length} of 8192 bytes"))
            );
        }
        assert_eq!(
            told(&whole[..500]),
            Err("it is truncated: 500 of 1883 bytes".into())
        );
        assert_eq!(
            told(&whole[..100]),
            Err("it is truncated: 100 of 128 bytes".into())
        );
    }

    #[test]
    fn damage_is_told() {
        let second = 128 + DESCRIPTOR;
        for (file, part) in [
            (with(32, b"X"), "not a SIF"),
            (with(42, b"02\0"), "version"),
            (with(88, &i64::MAX.to_le_bytes()), "more descriptors"),
            (with(88, &(-1_i64).to_le_bytes()), "negative"),
            (with(96, &i64::MAX.to_le_bytes()), "truncated"),
            (with(112, &[0xff; 8]), "negative"),
            (with(second + 17, &i64::MAX.to_le_bytes()), "truncated"),
            (with(second + 25, &(-5_i64).to_le_bytes()), "negative"),
            (with(second + 4, &[0]), "without a system"),
            (with(second + 205, &3_i32.to_le_bytes()), "without a system"),
            (with(4608, b"x"), "promises"),
        ] {
            let found = told(&file);
            assert!(
                found.as_ref().is_err_and(|fault| fault.contains(part)),
                "{part}: {found:?}"
            );
        }
    }

    /// Counts what is read of a file.
    struct Counted<'a>(Cursor<&'a [u8]>, usize);

    impl Read for Counted<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let read = self.0.read(buffer)?;
            self.1 += read;
            Ok(read)
        }
    }

    impl Seek for Counted<'_> {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    proptest! {
        /// No damage to header and table makes it panic, ask for much memory, or believe what does not exist.
        #[test]
        fn no_damage_does_harm(
            damage in proptest::collection::vec((32_usize..1900, any::<u8>()), 0..12),
            words in proptest::collection::vec((0_usize..8, any::<i64>()), 0..3),
            length in prop_oneof![Just(8192_usize), 0_usize..8192],
        ) {
            let mut file = sif();
            for (at, byte) in damage {
                file[at] = byte;
            }
            for (slot, word) in words {
                file[64 + 8 * slot..72 + 8 * slot].copy_from_slice(&word.to_le_bytes());
            }
            let mut counted = Counted(Cursor::new(&file[..length]), 0);
            let _ = read(&mut counted, length as u64);
            prop_assert!(counted.1 <= HEADER + DESCRIPTOR * 4096 + 4);
        }

        #[test]
        fn no_noise_does_harm(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert!(told(&bytes).is_err());
        }
    }
}
