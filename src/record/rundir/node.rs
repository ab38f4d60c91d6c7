//! The directory of one measurement: a record and segments of samples.

use std::path::Path;

use super::attempt::{Attempt, plain_number};
use super::record_size::{self, MAX_RECORD};
use crate::foundation::private::{FileError, FileFault, PrivateDir};
use crate::job::RunId;
use crate::record::{MeasureKey, NodeRecord, NodeState};

const RECORD_FILE: &str = "record.json";
/// The largest segment of samples, in bytes.
pub const MAX_SEGMENT: usize = 1 << 20;
/// The longest name of a node, in bytes: with a dot and a step it makes a file name, which ends at 255.
pub const MAX_NODE_NAME: usize = 244;

/// Says why `node` cannot name a node, or `None` where it can: it becomes part of a path.
#[must_use]
pub fn node_name_problem(node: &str) -> Option<String> {
    if node.is_empty() {
        return Some("is empty".to_owned());
    }
    if node.len() > MAX_NODE_NAME {
        return Some(format!(
            "is {} bytes long; {MAX_NODE_NAME} is the limit",
            node.len()
        ));
    }
    if node == "." || node == ".." {
        return Some("is a directory's own name".to_owned());
    }
    let bad = node.chars().find(|c| *c == '/' || c.is_control())?;
    Some(format!("contains {bad:?}"))
}

/// Reads the name of a node's directory, `<node>.<step>`. Names of nodes contain dots themselves.
pub(super) fn parse_node_dir(name: &str) -> Option<(String, u32)> {
    let (node, step) = name.rsplit_once('.')?;
    let step = plain_number(step)?;
    node_name_problem(node)
        .is_none()
        .then(|| (node.to_owned(), step))
}

/// The open directory of one measurement.
#[derive(Debug)]
pub struct NodeDir {
    key: MeasureKey,
    dir: PrivateDir,
}

impl NodeDir {
    pub(super) fn open(attempt_dir: &PrivateDir, key: &MeasureKey) -> Result<Self, FileError> {
        check_name(&key.node)?;
        let dir = attempt_dir.open_dir(&format!("{}.{}", key.node, key.step))?;
        Ok(Self {
            key: key.clone(),
            dir,
        })
    }

    pub(super) fn win(
        attempt_dir: &PrivateDir,
        run_id: &RunId,
        attempt: Attempt,
        node: &str,
    ) -> Result<Self, FileError> {
        check_name(node)?;
        let mut step = 0;
        loop {
            if let Some(dir) = attempt_dir.win_dir(&format!("{node}.{step}"))? {
                let key = attempt.key(run_id, node, step);
                return Ok(Self { key, dir });
            }
            step += 1;
        }
    }

    /// Whose measurement lies here.
    #[must_use]
    pub fn key(&self) -> &MeasureKey {
        &self.key
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Puts `record.json` in its place; the one of an ended command lasts through a crash.
    ///
    /// A record over [`MAX_RECORD`] loses its middle epochs and oldest gaps, and a number that JSON cannot hold (a loss
    /// that became NaN) is left out; both are listed in the `missing` of what is written.
    ///
    /// # Errors
    /// `Write`; the former content is kept. `TooLarge` when nothing can be left out.
    pub fn write_record(&self, record: &NodeRecord) -> Result<(), FileError> {
        let bytes = record_size::encode(record, MAX_RECORD)
            .ok_or_else(|| FileError::too_large(self.path().join(RECORD_FILE), MAX_RECORD))?;
        self.dir.replace(RECORD_FILE, &bytes)?;
        if record.state == NodeState::Running {
            Ok(())
        } else {
            self.dir.sync()
        }
    }

    /// Reads `record.json`.
    ///
    /// # Errors
    /// With [`FileError::is_missing`] where none was written yet; of the faults `Damaged`, `Newer`,
    /// `Misplaced`, `TooLarge`.
    pub fn read_record(&self) -> Result<NodeRecord, FileError> {
        let format = NodeRecord::FORMAT;
        let record: NodeRecord = self.dir.read_versioned(RECORD_FILE, MAX_RECORD, format)?;
        if record.key == self.key {
            return Ok(record);
        }
        let belongs_to = format!("`{}`", record.key);
        Err(misplaced(&self.path().join(RECORD_FILE), &belongs_to))
    }

    /// Writes segment `seq`, once: [`crate::record::encode_segments`] makes the bytes.
    ///
    /// # Errors
    /// `Write`, `TooLarge` over [`MAX_SEGMENT`].
    pub fn write_segment(&self, seq: u32, bytes: &[u8]) -> Result<(), FileError> {
        let name = segment_name(seq);
        if bytes.len() > MAX_SEGMENT {
            return Err(FileError::too_large(self.path().join(name), MAX_SEGMENT));
        }
        self.dir.replace(&name, bytes)
    }

    /// Reads the bytes of segment `seq`, for [`crate::record::decode_segment`].
    ///
    /// # Errors
    /// `Open`, `Read`, `TooLarge`.
    pub fn read_segment(&self, seq: u32) -> Result<Vec<u8>, FileError> {
        self.dir.read(&segment_name(seq), MAX_SEGMENT)
    }

    /// The segments that lie here, ascending.
    ///
    /// # Errors
    /// `List`.
    pub fn segments(&self) -> Result<Vec<u32>, FileError> {
        let mut found: Vec<u32> = self
            .dir
            .names()?
            .iter()
            .filter_map(|name| segment_number(name))
            .collect();
        found.sort_unstable();
        Ok(found)
    }
}

pub(super) fn misplaced(path: &Path, belongs_to: &str) -> FileError {
    let message = format!(
        "`{}` lies in the wrong directory: it belongs to {belongs_to}",
        path.display()
    );
    FileError::new(FileFault::Misplaced, message)
}

fn check_name(node: &str) -> Result<(), FileError> {
    match node_name_problem(node) {
        Some(why) => {
            let node: String = node.chars().take(MAX_NODE_NAME).collect();
            let message = format!("{node:?} cannot name a node: it {why}");
            Err(FileError::new(FileFault::Name, message))
        }
        None => Ok(()),
    }
}

fn segment_name(seq: u32) -> String {
    format!("series-{seq:04}.seg")
}

fn segment_number(name: &str) -> Option<u32> {
    let seq = name
        .strip_prefix("series-")?
        .strip_suffix(".seg")?
        .parse()
        .ok()?;
    (segment_name(seq) == name).then_some(seq)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_nodes_may_contain_dots_but_lead_nowhere_else() {
        assert_eq!(
            parse_node_dir("n1.cluster.example.12"),
            Some(("n1.cluster.example".to_owned(), 12))
        );
        assert_eq!(parse_node_dir("start.json"), None);
        for node in [
            "",
            ".",
            "..",
            "a/b",
            "/",
            "a\nb",
            "a\0b",
            "\u{9b}31m",
            &"x".repeat(245),
        ] {
            assert!(node_name_problem(node).is_some(), "{node:?}");
        }
        for node in ["n1", "gpu-017.cluster", "...", "-x", "knoten ä", "10.0.0.1"] {
            assert_eq!(node_name_problem(node), None, "{node}");
        }
    }

    #[test]
    fn segments_are_numbered_without_end() {
        for seq in [0, 7, 9_999, 10_000, u32::MAX] {
            assert_eq!(segment_number(&segment_name(seq)), Some(seq));
        }
        for name in [
            "series-.seg",
            "series-1.seg",
            "series-00001.seg",
            ".series-0001.seg.ab",
            "series-+001.seg",
        ] {
            assert_eq!(segment_number(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn an_accepted_name_survives_the_directory(node in ".{0,20}", step: u32) {
            if node_name_problem(&node).is_some() {
                return Ok(());
            }
            let name = format!("{node}.{step}");
            prop_assert!(std::path::Path::new(&name).components().count() == 1);
            prop_assert_eq!(parse_node_dir(&name), Some((node, step)));
        }
    }
}
