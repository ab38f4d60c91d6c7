//! What kinds of nodes were measured to do: `targets/NAME.json`, one file each.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::node::misplaced;
use super::state::StateDir;
use crate::foundation::private::{FileError, PrivateDir, if_there};
use crate::foundation::units::hex;
use crate::record::TargetRecord;

const TARGETS: &str = "targets";
const ENDING: &str = ".json";
/// The largest file that is read, in bytes: one of a machine with hundreds of GPUs.
const MAX_TARGET: usize = 256 << 10;
/// This much of a fingerprint is in the name; a digest distinguishes fingerprints that begin alike.
const NAME_LENGTH: usize = 80;

impl StateDir {
    /// The kinds of nodes that were measured, by their names, and what is wrong with files that cannot be used. Other files are
    /// passed over.
    ///
    /// # Errors
    /// `Open`, `List`.
    pub fn targets(&self) -> Result<(Vec<TargetRecord>, Vec<FileError>), FileError> {
        let Some(dir) = if_there(self.state.open_dir(TARGETS))? else {
            return Ok((Vec::new(), Vec::new()));
        };
        let mut names = dir.names()?;
        names.retain(|name| name.ends_with(ENDING) && !name.starts_with('.'));
        names.sort();
        let (mut found, mut wrong) = (Vec::new(), Vec::new());
        for name in names {
            match read(&dir, &name) {
                Ok(target) => found.push(target),
                Err(error) => wrong.push(error),
            }
        }
        Ok((found, wrong))
    }

    /// Puts what was measured into its place, whole; returns where that is.
    ///
    /// # Errors
    /// `Create`, `Write`; what was there before is there still.
    pub fn write_target(&self, target: &TargetRecord) -> Result<PathBuf, FileError> {
        let dir = self.state.ensure_dir(TARGETS)?;
        let name = file_name(&target.fingerprint);
        dir.write_json(&name, target)?;
        dir.sync()?;
        Ok(dir.path().join(name))
    }
}

fn read(dir: &PrivateDir, name: &str) -> Result<TargetRecord, FileError> {
    let target: TargetRecord = dir.read_versioned(name, MAX_TARGET, TargetRecord::FORMAT)?;
    // A file that was copied by hand under another name would count twice.
    let is_named = target.host.fingerprint().as_ref() == Some(&target.fingerprint);
    if !is_named || file_name(&target.fingerprint) != name {
        return Err(misplaced(&dir.path().join(name), &target.fingerprint));
    }
    if !target.figures.are_sound() {
        return Err(dir.damaged(name, "a figure is not a number above zero"));
    }
    Ok(target)
}

/// A file's name for a fingerprint, which has the words of a processor's maker in it: letters and digits of it, and the
/// beginning of its SHA-256.
fn file_name(fingerprint: &str) -> String {
    let mut name = String::new();
    for c in fingerprint.chars() {
        if c.is_ascii_alphanumeric() {
            name.push(c.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    name.truncate(NAME_LENGTH);
    let digest = hex(&Sha256::digest(fingerprint.as_bytes())[..4]);
    format!("{}-{digest}{ENDING}", name.trim_end_matches('-'))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::record::{HostFacts, NodeBench, NodeFigures, Spread};

    fn target(cpu_model: &str, core_gflops: f64) -> TargetRecord {
        let host = HostFacts {
            hostname: "n1".into(),
            cpu_model: Some(cpu_model.into()),
            cpus: Some(2),
            mem_total_bytes: Some(8 << 30),
            ..HostFacts::default()
        };
        let spread = Spread {
            best: 2.0,
            median: 1.5,
            spread_ratio: 0.5,
            repeats: 5,
        };
        TargetRecord {
            format: TargetRecord::FORMAT,
            fingerprint: host.fingerprint().expect("a CPU"),
            host,
            figures: NodeFigures {
                core_gflops,
                node_gflops: 180.0,
                memory_gb_per_second: 40.0,
                disk_mb_per_second: None,
                measured_at_ms: 7,
            },
            bench: NodeBench {
                cpus_used: 2,
                seconds: 9.5,
                others_cpus_busy: Some(0.01),
                cpus_stolen: None,
                instructions: "avx2+fma".into(),
                core_gflops: spread,
                node_gflops: spread,
                memory_gb_per_second: spread,
                arrays_bytes: 1 << 28,
                last_level_cache_bytes: None,
                notes: vec!["no disk".into()],
            },
            gpus: Vec::new(),
            dlrun_version: "0.1.0".into(),
        }
    }

    fn state() -> (tempfile::TempDir, StateDir) {
        let tmp = tempfile::tempdir().expect("a directory");
        let state = StateDir::create(&tmp.path().join("state")).expect("created");
        (tmp, state)
    }

    #[test]
    fn what_is_written_is_read_and_the_newest_replaces() {
        let (_tmp, state) = state();
        assert!(state.targets().expect("none yet").0.is_empty());
        for target in [
            target("EPYC", 90.0),
            target("Xeon", 50.0),
            target("EPYC", 95.0),
        ] {
            state.write_target(&target).expect("written");
        }
        let (found, wrong) = state.targets().expect("read");
        assert_eq!(
            (found, wrong.len()),
            (vec![target("EPYC", 95.0), target("Xeon", 50.0)], 0)
        );
    }

    #[test]
    fn files_that_are_wrong_hide_no_others() {
        let (_tmp, state) = state();
        let path = state.write_target(&target("EPYC", 90.0)).expect("written");
        let dir = path.parent().expect("a directory").to_owned();
        let text = fs::read_to_string(&path).expect("text");
        let put = |name: &str, text: &str| fs::write(dir.join(name), text).expect("ours");
        put("copy.json", &text);
        put("cut.json", &text[..text.len() / 2]);
        put("newer.json", r#"{"format": 2, "what": []}"#);
        put("long.json", &" ".repeat(MAX_TARGET + 1));
        put("notes.txt", "mine");
        let none = target("Zero", 0.0);
        put(
            &file_name(&none.fingerprint),
            &serde_json::to_string(&none).expect("JSON"),
        );
        std::os::unix::fs::symlink(&path, dir.join("link.json")).expect("ours");
        let (found, wrong) = state.targets().expect("read");
        assert_eq!(found, [target("EPYC", 90.0)]);
        let wrong: Vec<String> = wrong
            .iter()
            .map(|error| crate::foundation::diagnostic::chain(error).join(": "))
            .collect();
        assert_eq!(wrong.len(), 6, "{wrong:?}");
        for part in [
            "wrong directory",
            "`{d}/cut.json` is damaged",
            "format 2",
            "above zero",
        ] {
            let part = part.replace("{d}", &dir.to_string_lossy());
            assert!(
                wrong.iter().any(|why| why.contains(&part)),
                "{part}: {wrong:?}"
            );
        }
    }

    #[test]
    fn names_of_files_are_harmless_and_differ() {
        let name = file_name("Intel(R) Xeon(R) CPU E5-2690 v3 @ 2.60GHz; 24 CPUs; 63 GiB");
        assert!(
            name.starts_with("intel-r-xeon-r-cpu-e5-2690-v3-2-60ghz-24-cpus-63-gib-"),
            "{name}"
        );
        for hostile in [
            "../../x",
            "a\nb",
            "$(id)",
            "",
            "é".repeat(300).as_str(),
            "x/".repeat(300).as_str(),
        ] {
            let name = file_name(hostile);
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
            assert!(
                name.chars().all(is_plain) && name.len() < 128 && !name.contains(".."),
                "{name}"
            );
        }
        assert_ne!(file_name("EPYC (1)"), file_name("EPYC [1]"));
    }
}
