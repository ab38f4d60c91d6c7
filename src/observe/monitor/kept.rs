//! Files that are kept open from one sample to the next, as many as this process can spare.

use std::fs::File;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::resource::{Resource, getrlimit};

/// The share of the limit on open files that may be kept. The rest is for clients, the database and files that are opened
/// for one reading: runs with many processes must not take all of it from the others.
const SHARE: u64 = 2;

const KEPT_MAX: u64 = 8192;

static KEPT: AtomicUsize = AtomicUsize::new(0);

/// A file that is kept open. Those of all runs are counted together.
#[derive(Debug)]
pub(super) struct Kept(File);

impl Kept {
    /// Keeps a file; closes it where too many are kept already.
    pub(super) fn keep(file: File) -> Option<Self> {
        Self::within(file, limit())
    }

    fn within(file: File, limit: usize) -> Option<Self> {
        let kept = Self(file);
        // One that is dropped here leaves the count as it was.
        (KEPT.fetch_add(1, Ordering::Relaxed) < limit).then_some(kept)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Deref for Kept {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

fn limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
        usize::try_from((soft / SHARE).min(KEPT_MAX)).unwrap_or(usize::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_kept_than_may_be() {
        let file = || File::open("/dev/null").expect("it is there");
        assert!(Kept::within(file(), 0).is_none());
        let before = KEPT.load(Ordering::Relaxed);
        let kept = Kept::within(file(), usize::MAX).expect("there is room");
        assert!(
            Kept::within(file(), before + 1).is_none()
                && Kept::within(file(), usize::MAX).is_some()
        );
        drop(kept);
        assert!(Kept::within(file(), before + 1).is_some());
    }
}
