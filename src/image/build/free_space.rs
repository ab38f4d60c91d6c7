//! Room on the file systems that a build writes to.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::statvfs::statvfs;

/// How often a running build's file systems are looked at: often enough to see one fill up and be cleared.
const STEP: Duration = Duration::from_millis(100);
/// With more room than this nothing is full, in bytes.
const LITTLE: u64 = 64 << 20;

/// What this user may still write there, in bytes; `None` where the file system does not say.
#[must_use]
pub fn free_bytes(dir: &Path) -> Option<u64> {
    let found = statvfs(dir).ok()?;
    found.blocks_available().checked_mul(found.fragment_size())
}

/// Remembers how little room each of some directories had: after a build failed for want of room the runtime has cleared up,
/// so that the full one looks empty.
#[derive(Debug)]
pub(crate) struct Rooms {
    least: Vec<(PathBuf, u64)>,
    looked: Instant,
}

impl Rooms {
    pub(crate) fn new(dirs: &[&Path]) -> Self {
        let least = dirs
            .iter()
            .map(|dir| ((*dir).to_owned(), u64::MAX))
            .collect();
        let mut rooms = Self {
            least,
            looked: Instant::now(),
        };
        rooms.measure();
        rooms
    }

    pub(crate) fn look(&mut self) {
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

    /// The directory that a program said to be full: the one that its words name, `/a/b` before `/a`; else the one that had so
    /// little room that it must be; else each of them, since a quota shows nowhere.
    pub(crate) fn full(&self, words: &str) -> String {
        let named = |dir: &Path| {
            let mut places = dir
                .to_str()
                .into_iter()
                .flat_map(|text| words.match_indices(text));
            places.any(|(at, text)| {
                !words[at + text.len()..].starts_with(|c: char| c.is_alphanumeric())
            })
        };
        let by_name = self
            .least
            .iter()
            .filter(|(dir, _)| named(dir))
            .max_by_key(|(dir, _)| dir.as_os_str().len());
        let by_room = || {
            self.least
                .iter()
                .min_by_key(|(_, least)| *least)
                .filter(|(_, least)| *least < LITTLE)
        };
        match by_name.or_else(by_room) {
            Some((dir, _)) => dir.display().to_string(),
            None => {
                let all: Vec<String> = self
                    .least
                    .iter()
                    .map(|(dir, _)| dir.display().to_string())
                    .collect();
                all.join(" or ")
            }
        }
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
        assert_eq!(rooms.full(said), "/scratch/b");
        assert_eq!(
            rooms.full("dd: error writing '/big': No space left on device"),
            "/home/i"
        );
        let rooms = Rooms {
            least: vec![
                ("/tmp".into(), 1 << 40),
                ("/tmp/images".into(), 1 << 40),
                ("/h/cache".into(), 1 << 40),
            ],
            looked: Instant::now(),
        };
        assert_eq!(
            rooms.full("write /tmp/images/x.part: no space left on device"),
            "/tmp/images"
        );
        assert_eq!(
            rooms.full("write /h/cache/blob/1: disk quota exceeded"),
            "/h/cache"
        );
        assert_eq!(
            rooms.full("write failed: disk quota exceeded"),
            "/tmp or /tmp/images or /h/cache"
        );
        assert_eq!(
            rooms.full("write /tmpfs/x: no space left on device"),
            "/tmp or /tmp/images or /h/cache"
        );
    }

    #[test]
    fn room_is_the_kernels_word() {
        assert!(free_bytes(Path::new("/")).is_some());
        assert_eq!(free_bytes(Path::new("/no/such/dir")), None);
    }
}
