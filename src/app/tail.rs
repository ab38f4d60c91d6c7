//! The end of a file, read from the end: logs may have gigabytes.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The last `lines` lines of a file (all without), at most `limit` bytes.
pub(crate) fn tail(path: &Path, lines: Option<usize>, limit: u64) -> std::io::Result<Vec<u8>> {
    const STEP: u64 = 64 << 10;
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let Some(lines) = lines else {
        file.seek(SeekFrom::Start(length.saturating_sub(limit)))?;
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        return Ok(bytes);
    };
    if lines == 0 {
        return Ok(Vec::new());
    }
    let (mut bytes, mut start) = (Vec::new(), length);
    loop {
        let body = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let before = memchr::memrchr_iter(b'\n', body).nth(lines - 1);
        if before.is_some() || start == 0 || length - start >= limit {
            return Ok(bytes.split_off(before.map_or(0, |at| at + 1)));
        }
        let from = start.saturating_sub(STEP);
        let mut chunk = vec![0; usize::try_from(start - from).unwrap_or(0)];
        file.read_exact_at(&mut chunk, from)?;
        chunk.extend_from_slice(&bytes);
        (bytes, start) = (chunk, from);
    }
}
