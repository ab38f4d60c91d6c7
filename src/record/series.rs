//! Blocks of samples as bytes. (Written by the series work.)

use super::Sample;

/// Bytes that are no segment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SeriesError(String);

/// Encodes samples.
#[must_use]
pub fn encode_segment(_samples: &[Sample]) -> Vec<u8> {
    Vec::new()
}

/// Decodes samples.
///
/// # Errors
/// When the bytes are damaged.
pub fn decode_segment(_bytes: &[u8]) -> Result<Vec<Sample>, SeriesError> {
    Ok(Vec::new())
}
