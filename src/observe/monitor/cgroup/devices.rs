//! Block devices that lie on others: what is written to a logical volume is counted again at its disk.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Devices remembered at most; a job sees a few.
const KNOWN_MAX: usize = 1024;

/// Which devices lie on others, by `/sys/dev/block/MAJOR:MINOR/slaves` (`sysfs-block` of the kernel's ABI texts).
#[derive(Debug)]
pub(super) struct Devices {
    block: PathBuf,
    stacked: HashMap<String, bool>,
}

impl Devices {
    /// `sys` looks like `/sys`.
    pub(super) fn new(sys: &Path) -> Self {
        Self {
            block: sys.join("dev/block"),
            stacked: HashMap::new(),
        }
    }

    /// True for a device that lies on others. False where nothing is known of it.
    pub(super) fn is_stacked(&mut self, device: &str) -> bool {
        if let Some(is_stacked) = self.stacked.get(device) {
            return *is_stacked;
        }
        let is_number = device
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b':');
        let path = self.block.join(device).join("slaves");
        let is_stacked =
            is_number && fs::read_dir(path).is_ok_and(|mut slaves| slaves.next().is_some());
        if self.stacked.len() < KNOWN_MAX {
            self.stacked.insert(device.to_owned(), is_stacked);
        }
        is_stacked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logical_volume_is_stacked_and_its_disk_is_not() {
        let sys = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(sys.path().join("dev/block/8:0/slaves")).expect("made");
        fs::create_dir_all(sys.path().join("dev/block/253:0/slaves/sda")).expect("made");
        let mut devices = Devices::new(sys.path());
        let stacked =
            ["8:0", "253:0", "253:0", "9:1", "../block/253:0"].map(|name| devices.is_stacked(name));
        assert_eq!(stacked, [false, true, true, false, false]);
    }
}
