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
    let mut bytes = Vec::new();
    let mut start = length;
    while start > 0 && (length - start) < limit {
        let from = start.saturating_sub(STEP);
        let mut chunk = vec![0; usize::try_from(start - from).unwrap_or(0)];
        file.read_exact_at(&mut chunk, from)?;
        chunk.extend_from_slice(&bytes);
        bytes = chunk;
        start = from;
        let ends = bytes
            .iter()
            .rev()
            .skip(1)
            .filter(|byte| **byte == b'\n')
            .count();
        if ends >= lines {
            break;
        }
    }
    let body = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let cut = body.iter().rposition(|byte| *byte == b'\n');
    let mut position = cut;
    for _ in 1..lines {
        position = position.and_then(|at| body[..at].iter().rposition(|byte| *byte == b'\n'));
    }
    if lines == 0 {
        return Ok(Vec::new());
    }
    Ok(bytes.split_off(position.map_or(0, |at| at + 1)))
}
