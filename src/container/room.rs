//! Room on the file systems that a build writes to.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::statvfs::statvfs;

/// How often a running build's file systems are looked at: often enough to see one fill up and be cleared.
const STEP: Duration = Duration::from_millis(300);

/// What this user may still write there, in bytes; `None` where the file system does not say.
#[must_use]
pub fn free_bytes(dir: &Path) -> Option<u64> {
    let found = statvfs(dir).ok()?;
    found.blocks_available().checked_mul(found.fragment_size())
}

/// Remembers how little room each of some directories had: after a build failed for want of room the runtime has cleared up,
/// so that the full one looks empty.
#[derive(Debug)]
pub(super) struct Rooms {
    least: Vec<(PathBuf, u64)>,
    looked: Instant,
}

impl Rooms {
    pub(super) fn new(dirs: &[&Path]) -> Self {
        let least = dirs.iter().map(|dir| ((*dir).to_owned(), u64::MAX)).collect();
        let mut rooms = Self { least, looked: Instant::now() };
        rooms.measure();
        rooms
    }

    pub(super) fn look(&mut self) {
        if self.looked.elapsed() >= STEP {
            self.measure();
        }
    }

    fn measure(&mut self) {
        for (dir, least) in &mut self.least {
            *least = (*least).min(free_bytes(dir).unwrap_or(u64::MAX));
        }
        self.looked = Instant::now();
    }

    /// The directory that a program said to be full: the one that its words name, else the one that had the least room.
    pub(super) fn full(&self, words: &str) -> PathBuf {
        let named = |dir: &Path| dir.to_str().is_some_and(|text| words.contains(text));
        let full_words = |dir: &&(PathBuf, u64)| named(&dir.0);
        let found = self.least.iter().find(full_words);
        let found = found.or_else(|| self.least.iter().min_by_key(|(_, least)| *least));
        found.map(|(dir, _)| dir.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_that_is_named_is_full_else_the_one_with_the_least_room() {
        let rooms = Rooms {
            least: vec![("/scratch/b".into(), 5000), ("/home/i".into(), 10)],
            looked: Instant::now(),
        };
        // Apptainer 1.4.5, of the place of the image.
        let said = "while creating container: write /scratch/b/x.part: no space left on device";
        assert_eq!(rooms.full(said), Path::new("/scratch/b"));
        assert_eq!(rooms.full("dd: error writing '/big': No space left on device"), Path::new("/home/i"));
    }

    #[test]
    fn room_is_the_kernels_word() {
        assert!(free_bytes(Path::new("/")).is_some());
        assert_eq!(free_bytes(Path::new("/no/such/dir")), None);
    }
}
