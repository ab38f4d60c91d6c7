//! The content of an image file in one word.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::image::fingerprint::hex;
use crate::image::runtime::failure::ContainerError;

/// What is read at once.
const PIECE: usize = 1 << 20;

/// `sha256:` and 64 hexadecimal digits of a file's content. `progress` hears after each MiB how many bytes are read, out
/// of how many; it may be called with more than the length where the file grows meanwhile. Once it says `false` the rest is
/// left unread, and there is not a digest.
///
/// # Errors
/// [`ContainerError::Read`].
pub fn digest(
    path: &Path,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Option<String>, ContainerError> {
    let failed = |source| ContainerError::Read(path.to_owned(), source);
    let mut file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let (mut hasher, mut piece, mut done) = (Sha256::new(), vec![0; PIECE], 0_u64);
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => {
                hasher.update(&piece[..read]);
                done += read as u64;
                if !progress(done, length) {
                    return Ok(None);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(Some(format!("sha256:{}", hex(&hasher.finalize()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_sha256sum_and_progress_reaches_the_end() {
        let file = tempfile::NamedTempFile::new().expect("temp");
        let told = |path: &Path| {
            let mut steps = Vec::new();
            let mut note = |done, total| {
                steps.push((done, total));
                true
            };
            let found = digest(path, &mut note)
                .expect("readable")
                .expect("nobody stops it");
            (found, steps)
        };
        // FIPS 180-2, the digests of nothing and of one million `a`.
        let (nothing, steps) = told(file.path());
        assert_eq!(
            nothing,
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert!(steps.is_empty());
        std::fs::write(file.path(), vec![b'a'; 1_000_000]).expect("ours");
        let (million, steps) = told(file.path());
        assert_eq!(
            million,
            "sha256:cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
        );
        assert_eq!(steps.last(), Some(&(1_000_000, 1_000_000)));
        assert_eq!(
            digest(file.path(), &mut |_, _| false).expect("readable"),
            None,
            "it is stopped"
        );
        let gone = digest(Path::new("/nonexistent"), &mut |_, _| true).expect_err("none");
        assert!(gone.to_string().contains("/nonexistent"), "{gone}");
    }
}
