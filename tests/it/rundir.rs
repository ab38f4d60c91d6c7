//! The state directory on a real file system, with hostile things in it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use dlrun::foundation::private::FileFault;
use dlrun::job::RunId;
use dlrun::record::NodeState;
use dlrun::record::rundir::{Attempt, MAX_RECORD, MAX_RUN_FILE, RunDir, StateDir};
use tempfile::TempDir;

use crate::records::{node, run, run_id};

const FIRST: Attempt = Attempt {
    element: 0,
    attempt: 0,
};

fn state() -> (TempDir, StateDir) {
    let tmp = tempfile::tempdir().expect("a directory");
    let state = StateDir::create(&tmp.path().join("a/state")).expect("created");
    (tmp, state)
}

fn new_run(state: &StateDir) -> RunDir {
    state
        .create_run(&run(run_id(1), "mnist", 1_000), "#!/bin/sh\n", "{}")
        .expect("created")
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata()
        .expect("is there")
        .permissions()
        .mode()
        & 0o7777
}

fn every_path(root: &Path) -> Vec<std::path::PathBuf> {
    let mut found = vec![root.to_owned()];
    let mut next = 0;
    while next < found.len() {
        if found[next].is_dir() {
            found.extend(
                fs::read_dir(&found[next])
                    .expect("listed")
                    .map(|entry| entry.expect("entry").path()),
            );
        }
        next += 1;
    }
    found
}

#[test]
fn a_run_is_read_back_as_it_was_written() {
    let (_tmp, state) = state();
    let mut record = run(run_id(1), "mnist", 1_000);
    let dir = state
        .create_run(&record, "#!/bin/sh\necho ä\n", "{\"a\":1}")
        .expect("created");
    record.job_id = Some(dlrun::job::JobId("4711".into()));
    dir.write_run(&record).expect("written");
    let again = StateDir::open(state.path())
        .expect("opened")
        .run(&run_id(1))
        .expect("is there");
    assert_eq!(again.read_run().expect("read"), record);
    let script = std::fs::read_to_string(again.path().join("job.sh")).expect("read");
    assert_eq!(script, "#!/bin/sh\necho ä\n");
    assert_eq!(again.read_plan().expect("read"), "{\"a\":1}");
    assert_eq!(
        state.runs().expect("listed").collect::<Vec<RunId>>(),
        [run_id(1)]
    );
    assert!(
        state.create_run(&record, "", "").is_err(),
        "a run exists once"
    );
}

#[test]
fn what_is_missing_is_told_from_what_is_wrong() {
    let (tmp, state) = state();
    assert!(
        StateDir::open(&tmp.path().join("none"))
            .expect_err("no such directory")
            .is_missing()
    );
    assert!(state.run(&run_id(9)).expect_err("no such run").is_missing());
    assert!(
        state
            .ensure_run(&run_id(9))
            .expect("created")
            .read_run()
            .expect_err("empty")
            .is_missing()
    );
    let dir = new_run(&state);
    for (content, expected) in [
        ("{\"format\": 1, \"run_id\": \"0000", "is damaged"),
        (
            "{\"format\": 2, \"anything\": \"else\"}",
            "has format 2, and this dlrun knows up to 1",
        ),
        (
            &"x".repeat(MAX_RUN_FILE + 1),
            "is larger than 1048576 bytes",
        ),
    ] {
        fs::write(dir.path().join("run.json"), content).expect("written");
        let error = dir.read_run().expect_err("unreadable");
        assert!(
            error.to_string().contains(expected) && !error.is_missing(),
            "{error}"
        );
    }
    let mut other = run(run_id(2), "other", 1);
    other.run_id = run_id(2);
    fs::write(
        dir.path().join("run.json"),
        serde_json::to_vec(&other).expect("json"),
    )
    .expect("written");
    assert!(matches!(dir.read_run(), Err(ref error) if error.kind == FileFault::Misplaced));
}

#[test]
fn only_the_owner_can_read_whatever_the_umask() {
    for mask in ["000", "022", "077"] {
        let tmp = tempfile::tempdir().expect("a directory");
        let test = std::env::current_exe().expect("this test");
        let script =
            format!("umask {mask}; exec \"$0\" --exact rundir::writes_everything --ignored");
        let done = Command::new("sh")
            .args(["-c", &script])
            .arg(test)
            .env("DLRUN_TEST_STATE", tmp.path().join("x/state"))
            .output()
            .expect("ran");
        assert!(
            done.status.success(),
            "{mask}: {}",
            String::from_utf8_lossy(&done.stdout)
        );
        let found = every_path(&tmp.path().join("x/state"));
        assert!(found.len() > 8, "{found:?}");
        for path in found {
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode(&path), expected, "umask {mask}: {}", path.display());
        }
    }
}

#[test]
#[ignore = "run by `only_the_owner_can_read_whatever_the_umask` in a process of its own"]
fn writes_everything() {
    let Some(path) = std::env::var_os("DLRUN_TEST_STATE") else {
        return;
    };
    let dir = new_run(&StateDir::create(Path::new(&path)).expect("created"));
    let node_dir = dir.open_node_step(FIRST, "n1").expect("won");
    node_dir
        .write_record(&node(run_id(1), "n1", 5))
        .expect("written");
    node_dir.write_segment(0, b"samples").expect("written");
}

#[test]
fn a_state_directory_open_to_others_is_refused() {
    let (_tmp, state) = state();
    for open in [0o770, 0o702, 0o1777] {
        fs::set_permissions(state.path(), PermissionsExt::from_mode(open)).expect("mode");
        let error = StateDir::open(state.path()).expect_err("open to others");
        assert!(
            error.to_string().contains("can be written by others"),
            "{error}"
        );
    }
    fs::set_permissions(state.path(), PermissionsExt::from_mode(0o755)).expect("mode");
    StateDir::open(state.path()).expect("others may know that it exists");
}

#[test]
fn a_state_directory_of_somebody_else_is_refused() {
    let (tmp, state) = state();
    if tmp.path().metadata().expect("is there").uid() != 0 {
        skip("only root can give a directory away");
        return;
    }
    std::os::unix::fs::chown(state.path(), Some(12345), None).expect("given away");
    let error = StateDir::open(state.path()).expect_err("not ours");
    assert!(
        error
            .to_string()
            .ends_with("belongs to user id 12345, not to 0"),
        "{error}"
    );
}

fn skip(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

#[test]
fn links_are_not_followed() {
    let (tmp, state) = state();
    let elsewhere = tmp.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a directory");
    let victim = tmp.path().join("victim");
    fs::write(&victim, "precious").expect("written");

    symlink(
        &elsewhere,
        state.path().join("runs").join(run_id(1).as_str()),
    )
    .expect("a link");
    let record = run(run_id(1), "mnist", 1_000);
    assert!(state.create_run(&record, "", "").is_err() && state.run(&run_id(1)).is_err());
    assert!(state.ensure_run(&run_id(1)).is_err());
    assert_eq!(fs::read_dir(&elsewhere).expect("listed").count(), 0);

    let dir = state.ensure_run(&run_id(2)).expect("created");
    symlink(&victim, dir.path().join("run.json")).expect("a link");
    assert!(dir.read_run().is_err());
    let record = run(run_id(2), "mnist", 1_000);
    dir.write_run(&record)
        .expect("the link is replaced, not followed");
    assert_eq!(dir.read_run().expect("read"), record);
    assert_eq!(fs::read_to_string(&victim).expect("read"), "precious");

    symlink(&elsewhere, dir.path().join("0.0")).expect("a link");
    assert!(dir.open_node_step(FIRST, "n1").is_err());
    let reading = dir.outcome(FIRST);
    assert_eq!(
        (reading.notes.len(), reading.outcome.start),
        (1, None),
        "{:?}",
        reading.notes
    );
}

#[test]
fn marks_are_read_or_noted() {
    let (_tmp, state) = state();
    let dir = new_run(&state);
    let attempt = dir.path().join("0.0");
    fs::create_dir(&attempt).expect("a directory");
    assert_eq!(dir.newest_outcome(0).expect("listed").notes, []);
    let whole =
        r#"{"format":1,"at_ms":5,"node":"n1","job_id":"7","exit_code":143,"added_later":true}"#;
    fs::write(attempt.join("start.json"), whole).expect("written");
    for garbage in [
        "",
        "{",
        &whole[..40],
        "\0\0\0\0",
        "null",
        "{\"format\":1}",
        "\u{feff}",
        &"[".repeat(1 << 17),
    ] {
        fs::write(attempt.join("end.json"), garbage).expect("written");
        let reading = dir.newest_outcome(0).expect("listed");
        let start = reading.outcome.start.expect("the start mark is whole");
        assert_eq!(
            (start.at_ms, start.exit_code, reading.outcome.end),
            (5, Some(143), None)
        );
        assert_eq!(
            (reading.notes.len(), reading.notes[0].what.as_str()),
            (1, "end.json")
        );
        assert!(
            reading.notes[0].why.contains("end.json"),
            "{:?}",
            reading.notes
        );
    }
    fs::remove_file(attempt.join("end.json")).expect("removed");
    nix::unistd::mkfifo(&attempt.join("end.json"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    assert_eq!(
        dir.outcome(FIRST).notes.len(),
        1,
        "a pipe must not hang the reader"
    );
}

#[test]
fn attempts_come_in_order_and_the_newest_counts() {
    let (_tmp, state) = state();
    let dir = new_run(&state);
    for name in ["0.10", "0.2", "1.0", "0.0", "x", "0.0.0"] {
        fs::create_dir(dir.path().join(name)).expect("a directory");
    }
    let names: Vec<String> = dir
        .attempts()
        .expect("listed")
        .into_iter()
        .map(Attempt::dir_name)
        .collect();
    assert_eq!(names, ["0.0", "0.2", "0.10", "1.0"]);
    let newest = |element| {
        dir.newest_outcome(element)
            .expect("listed")
            .attempt
            .map(Attempt::dir_name)
    };
    assert_eq!(
        (newest(0).as_deref(), newest(1).as_deref(), newest(2)),
        (Some("0.10"), Some("1.0"), None)
    );
    let marks = dir.newest_marks(0).expect("listed");
    assert_eq!(
        marks,
        dir.newest_outcome(0).expect("listed"),
        "there is no node"
    );
}

#[test]
fn steps_on_a_node_never_share_a_directory() {
    let (_tmp, state) = state();
    new_run(&state);
    let won: Vec<u32> = std::thread::scope(|scope| {
        let open = || {
            let dir = state.run(&run_id(1)).expect("is there");
            dir.open_node_step(FIRST, "n1.cluster")
                .expect("won")
                .key()
                .step
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        let mut won: Vec<u32> = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect();
        won.sort_unstable();
        won
    });
    assert_eq!(won, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn what_a_node_measured_is_read_back() {
    let (_tmp, state) = state();
    let dir = new_run(&state);
    let node_dir = dir.open_node_step(FIRST, "n1.cluster").expect("won");
    assert_eq!(
        dir.outcome(FIRST).notes,
        [],
        "a record that is still to come is no fault"
    );
    let mut record = node(run_id(1), "n1.cluster", 5);
    node_dir.write_record(&record).expect("written");
    record.state = NodeState::Ended;
    node_dir.write_record(&record).expect("written");
    for seq in [0, 1, 12_345] {
        node_dir
            .write_segment(seq, &seq.to_be_bytes())
            .expect("written");
    }
    assert_eq!(dir.outcome(FIRST).outcome.nodes, [record.clone()]);
    let again = dir.node_dir(&record.key).expect("is there");
    assert_eq!(again.segments().expect("listed"), [0, 1, 12_345]);
    assert_eq!(
        again.read_segment(12_345).expect("read"),
        12_345_u32.to_be_bytes()
    );
    assert!(again.read_segment(2).expect_err("none").is_missing());
    assert!(node_dir.write_segment(3, &vec![0; 2 << 20]).is_err());
    let left: Vec<_> = every_path(dir.path())
        .into_iter()
        .filter(|p| p.to_string_lossy().contains("/."))
        .collect();
    assert!(
        left.iter().all(|path| !path
            .file_name()
            .expect("name")
            .to_string_lossy()
            .starts_with('.')),
        "{left:?}"
    );
}

#[test]
fn a_bad_record_is_noted_and_the_others_are_read() {
    let (_tmp, state) = state();
    let dir = new_run(&state);
    for name in ["good", "large", "torn", "stranger"] {
        let node_dir = dir.open_node_step(FIRST, name).expect("won");
        node_dir
            .write_record(&node(run_id(1), name, 5))
            .expect("written");
        let path = node_dir.path().join("record.json");
        match name {
            "large" => fs::write(path, " ".repeat(MAX_RECORD + 1)).expect("written"),
            "torn" => fs::write(path, "{\"format\":1,").expect("written"),
            "stranger" => node_dir
                .write_record(&node(run_id(2), name, 5))
                .expect("written"),
            _ => {}
        }
    }
    let reading = dir.outcome(FIRST);
    let read: Vec<&str> = reading
        .outcome
        .nodes
        .iter()
        .map(|node| node.key.node.as_str())
        .collect();
    let noted: Vec<&str> = reading
        .notes
        .iter()
        .map(|note| note.what.as_str())
        .collect();
    assert_eq!(
        (read, noted),
        (vec!["good"], vec!["large.0", "stranger.0", "torn.0"])
    );
}

#[test]
fn hostile_names_of_nodes_stay_outside() {
    let (tmp, state) = state();
    let dir = new_run(&state);
    let before = every_path(tmp.path()).len();
    for name in [
        "",
        ".",
        "..",
        "../../../../escape",
        "/etc",
        "a\nb",
        "a\u{1b}[2J",
        "a\0b",
        &"x".repeat(300),
    ] {
        let error = dir.open_node_step(FIRST, name).expect_err("refused");
        assert!(error.kind == FileFault::Name, "{error}");
        assert!(
            !error.to_string().contains(['\u{1b}', '\n', '\0']),
            "{error}"
        );
    }
    assert_eq!(
        every_path(tmp.path()).len(),
        before + 1,
        "only the attempt's directory is new"
    );
    dir.open_node_step(FIRST, &"x".repeat(dlrun::record::rundir::MAX_NODE_NAME))
        .expect("the longest name fits");
}

#[test]
fn a_removed_run_is_gone() {
    let (_tmp, state) = state();
    new_run(&state).open_node_step(FIRST, "n1").expect("won");
    state.remove_run(&run_id(1)).expect("removed");
    assert_eq!(state.runs().expect("listed").count(), 0);
}

#[test]
fn a_full_disk_leaves_what_was_there() {
    let tmp = tempfile::tempdir().expect("a directory");
    let disk = tmp.path().join("disk");
    fs::create_dir(&disk).expect("a directory");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs"])
        .arg(&disk)
        .output();
    if !mounted.is_ok_and(|done| done.status.success()) {
        skip("no file system can be mounted");
        return;
    }
    let written = std::panic::catch_unwind(|| {
        let state = StateDir::create(&disk).expect("created");
        let dir = new_run(&state);
        let node_dir = dir.open_node_step(FIRST, "n1").expect("won");
        let record = node(run_id(1), "n1", 5);
        node_dir.write_record(&record).expect("written");
        let error = node_dir
            .write_segment(0, &vec![7; 500 << 10])
            .expect_err("no room");
        let source = std::error::Error::source(&error)
            .expect("a cause")
            .to_string();
        assert!(source.contains("No space left"), "{source}");
        assert_eq!(node_dir.read_record().expect("read"), record);
        node_dir
            .write_segment(0, &vec![7; 50 << 10])
            .expect("the torn file no longer takes room");
    });
    let unmounted = Command::new("umount").arg(&disk).status().expect("ran");
    assert!(unmounted.success());
    written.expect("no panic");
}
