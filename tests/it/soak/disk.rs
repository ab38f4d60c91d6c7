//! The node's database when the disk or the machine fails: kills without number, a power failure, no room.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use dlrun::record::store::{Backlog, NodeId, NodeStore, StoreFault};
use dlrun::record::{NodeState, Sample};
use nix::unistd::geteuid;
use tempfile::TempDir;

use super::{Chance, count, tell};
use crate::node_kills::{integrity, kill_writers};
use crate::node_store::{owner, records, registered};
use crate::records::run_id;
use crate::support::noisy::Noisy;
use crate::support::skip;

#[test]
#[ignore = "soak tier: tests/run soak"]
fn writers_of_the_node_database_are_killed_often() {
    let mut chance = Chance::new("node database");
    kill_writers(u64::try_from(count(200)).expect("it fits"), |_| {
        chance.next() % 300
    });
}

/// A small disk: a file with ext4 in it, mounted.
struct Disk {
    tmp: TempDir,
    name: &'static str,
}

impl Disk {
    /// `None` where this user may not mount.
    fn new(mib: u64) -> Option<Self> {
        if !geteuid().is_root() {
            skip("only root may mount a disk of its own");
            return None;
        }
        let tmp = tempfile::Builder::new()
            .prefix("dlrun-disk-")
            .tempdir_in("/var/tmp")
            .expect("a directory");
        let disk = Self { tmp, name: "disk" };
        let image = fs::File::create(disk.image()).expect("created");
        image.set_len(mib << 20).expect("so large");
        run("mkfs.ext4", &["-q", "-F", "-m", "0", text(&disk.image())]);
        disk.mount();
        Some(disk)
    }

    fn image(&self) -> PathBuf {
        self.tmp.path().join(format!("{}.img", self.name))
    }

    fn dir(&self) -> PathBuf {
        self.tmp.path().join(self.name)
    }

    fn db(&self) -> PathBuf {
        self.dir().join("dlrun.db")
    }

    fn mount(&self) {
        fs::create_dir_all(self.dir()).expect("a directory");
        run(
            "mount",
            &["-o", "loop", text(&self.image()), text(&self.dir())],
        );
    }

    /// The disk as it would be found after a power failure now, its journal replayed.
    fn after_power_loss(&self) -> Self {
        let tmp = tempfile::Builder::new()
            .prefix("dlrun-disk-")
            .tempdir_in("/var/tmp")
            .expect("a directory");
        let found = Self { tmp, name: "found" };
        fs::copy(self.image(), found.image()).expect("copied");
        found.mount();
        found
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("umount", &[text(&self.dir())]);
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain text")
}

fn run(program: &str, arguments: &[&str]) {
    let done = Command::new(program)
        .args(arguments)
        .output()
        .expect("it starts");
    assert!(
        done.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// Takes what is left of the disk, to the last block.
fn fill(path: &Path) {
    let mut filler = fs::File::create(path).expect("created");
    for size in [1 << 20, 1 << 12] {
        while filler
            .write_all(&vec![1; size])
            .and_then(|()| filler.sync_data())
            .is_ok()
        {}
    }
}

fn append(store: &mut NodeStore, node: NodeId, samples: &[Sample]) {
    samples
        .iter()
        .for_each(|sample| store.append(&[(node, sample)]).expect("appended"));
}

#[test]
#[ignore = "soak tier: tests/run soak"]
fn a_power_failure_takes_no_schema_registration_fold_or_end() {
    let Some(disk) = Disk::new(64) else { return };
    let mut noisy = Noisy::new(1_760_000_000_000);
    let samples: Vec<Sample> = (0..50).map(|_| noisy.next()).collect();
    let mut store = NodeStore::open(&disk.db()).expect("opened");
    let found = |disk: &Disk| {
        let found = disk.after_power_loss();
        let store = NodeStore::open(&found.db()).expect("opened");
        assert_eq!(integrity(&found.db()), "ok");
        (found, store)
    };
    {
        let (_disk, schema) = found(&disk);
        assert_eq!(schema.live().expect("read"), []);
    }
    let node = registered(&mut store, 1);
    {
        let (_disk, registration) = found(&disk);
        assert_eq!(registration.live().expect("read").len(), 1);
        assert_eq!(owner(&registration, &run_id(1)), Some(1000));
    }
    append(&mut store, node, &samples[..20]);
    {
        let (_disk, spooled) = found(&disk);
        let kept = spooled.read_samples(node, 0).expect("read");
        assert!(samples.starts_with(&kept));
        tell(&format!(
            "power loss: {} of 20 spooled samples kept",
            kept.len()
        ));
    }
    store.fold(&[node]).expect("folded");
    append(&mut store, node, &samples[20..30]);
    {
        let (_disk, folded) = found(&disk);
        let kept = folded.read_samples(node, 0).expect("read");
        assert!(
            kept.len() >= 20 && samples.starts_with(&kept),
            "{} kept",
            kept.len()
        );
    }
    // A registration makes safe what was spooled before it.
    registered(&mut store, 2);
    {
        let (_disk, folded) = found(&disk);
        assert_eq!(folded.read_samples(node, 0).expect("read"), samples[..30]);
    }
    append(&mut store, node, &samples[30..]);
    let (_, mut record) = records(1);
    record.state = NodeState::Ended;
    record.usage.mem_oom_kills = Some(7);
    store.end(&[(node, &record)]).expect("ended");
    let (_disk, ended) = found(&disk);
    assert_eq!(ended.live().expect("read").len(), 1);
    assert_eq!(ended.read_samples(node, 0).expect("read"), samples);
    assert_eq!(
        ended.store().node_records(&run_id(1)).expect("read")[0].usage,
        record.usage
    );
}

#[test]
#[ignore = "soak tier: tests/run soak"]
fn a_full_disk_costs_samples_at_most_and_is_gone_on_from() {
    let Some(disk) = Disk::new(16) else { return };
    let mut noisy = Noisy::new(1_760_000_000_000);
    let mut store = NodeStore::open(&disk.db()).expect("opened");
    let node = registered(&mut store, 1);
    let filler = disk.dir().join("filler");
    let (mut all, mut backlog) = (Vec::new(), Backlog::new(10_000));
    let (mut refused, mut folds_refused) = (0, 0);
    for tick in 1..=1_200 {
        if tick == 300 {
            fill(&filler);
        }
        if tick == 900 {
            fs::remove_file(&filler).expect("removed");
        }
        let sample = noisy.next();
        all.push(sample.clone());
        backlog.push(vec![(node, sample)]);
        while let Some(waiting) = backlog.take() {
            let rows: Vec<_> = waiting
                .iter()
                .map(|(node, sample)| (*node, sample))
                .collect();
            match store.append(&rows) {
                Ok(()) => continue,
                Err(error) if error.kind == StoreFault::Full => refused += 1,
                Err(other) => panic!("tick {tick}: {other:?}"),
            }
            backlog.put_back(waiting);
            break;
        }
        if tick % 60 == 0 {
            match store.fold(&[node]) {
                Ok(()) => {}
                Err(error) if error.kind == StoreFault::Full => folds_refused += 1,
                Err(other) => panic!("fold {tick}: {other:?}"),
            }
        }
    }
    tell(&format!(
        "no room: {refused} ticks and {folds_refused} folds refused"
    ));
    assert!(refused > 0, "the disk was never full");
    assert!(backlog.is_empty() && backlog.take_dropped().is_empty());
    assert_eq!(store.read_samples(node, 0).expect("read"), all);
    drop(store);
    assert_eq!(integrity(&disk.db()), "ok");
}
