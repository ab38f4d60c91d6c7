//! Lines of JSON over TCP, read within bounds.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The next line; an error too where it is longer than `limit` bytes, is no such message, or the connection ended.
pub(super) async fn read<T: DeserializeOwned>(
    reader: &mut (impl AsyncBufRead + Unpin),
    limit: usize,
) -> io::Result<T> {
    let mut line = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX);
    reader.take(most).read_until(b'\n', &mut line).await?;
    match line.last() {
        Some(b'\n') => Ok(serde_json::from_slice(&line)?),
        Some(_) if line.len() >= limit => Err(io::Error::other("a message is too long")),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A message as a line.
pub(super) fn line(message: &impl Serialize) -> String {
    serde_json::to_string(message).expect("plain data") + "\n"
}

pub(super) async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    message: &impl Serialize,
) -> io::Result<()> {
    writer.write_all(line(message).as_bytes()).await
}
