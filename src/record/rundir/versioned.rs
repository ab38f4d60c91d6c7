//! Files of JSON that carry the version of their form.

use std::path::Path;

use super::failure::RunDirError;

/// Reads JSON that carries its version in `format`. A newer version is named as such even where its other keys changed.
pub(super) fn read_versioned<T: serde::de::DeserializeOwned>(
    bytes: &[u8],
    path: &Path,
    known: u32,
) -> Result<T, RunDirError> {
    #[derive(serde::Deserialize)]
    struct Version {
        format: u32,
    }
    match serde_json::from_slice::<Version>(bytes) {
        Ok(Version { format }) if format > known => {
            return Err(RunDirError::NewerFormat {
                path: path.to_owned(),
                format,
                known,
            });
        }
        _ => {}
    }
    serde_json::from_slice(bytes).map_err(|source| RunDirError::Damaged {
        path: path.to_owned(),
        source,
    })
}
