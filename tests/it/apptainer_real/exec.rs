//! A job in a container on this machine: what reaches it, what it leaves, and whose failure a failure is.

use std::fs;
use std::path::Path;

use nix::unistd::chown;
use serde_json::{Value, json};

use super::place::{base_sandbox, base_sif, listed};
use crate::slurm_real::cluster::{Submitted, User, argv, processes, sh, until};

/// Writes a job in a container; `run` stands in `[run]`, `image` goes on in `[image]`.
fn job(user: &User, run: &str, image: &Path, more: &str) -> std::path::PathBuf {
    let text = format!(
        "name = \"job\"\n[run]\n{run}\n[image]\npath = {}\n{more}\n",
        json!(image)
    );
    user.write("job.toml", &text)
}

fn submit(user: &User, file: &Path) -> Submitted {
    let words = ["--json", "submit", "--scheduler", "local", "--no-check"].map(AsRef::as_ref);
    let result = user
        .dlrun(&[&words[..], &[file.as_os_str()]].concat())
        .result();
    let text = |key: &str| result[key].as_str().expect("a text").to_owned();
    Submitted {
        run: text("run_id"),
        job: text("job_id"),
        output: text("output").into(),
    }
}

/// Runs a job to its end; returns its output, the exit code of `wait` and what `show` knows.
fn ran(user: &User, run: &str, image: &Path, more: &str) -> (String, i32, Value) {
    let submitted = submit(user, &job(user, run, image, more));
    let code = user.wait(&submitted.run);
    (submitted.text(), code, user.show(&submitted.run))
}

fn cause(shown: &Value) -> (&str, &str) {
    let cause = &shown["status"]["cause"];
    (
        cause["kind"].as_str().unwrap_or_default(),
        cause["text"].as_str().unwrap_or_default(),
    )
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn sif_and_sandbox_run_with_the_nodes_flags_and_are_recorded() {
    let user = listed();
    for (image, form) in [(base_sif(), "sif"), (base_sandbox(), "sandbox")] {
        let program = "import os,sys; print('in', os.getcwd(), os.getuid()); print('epoch 1/1 - 0.5s - loss: 0.25')";
        let (output, code, shown) = ran(&user, &argv(&["python3", "-c", program]), &image, "");
        assert_eq!(code, 0, "{output}");
        let home = user.home().display();
        assert!(
            output.contains(&format!("in {home} {}\n", user.uid())),
            "{output}"
        );
        let container = &shown["nodes"][0]["container"];
        assert_eq!(container["source"], json!(image));
        assert_eq!(container["identity"]["form"], form);
        assert_eq!(
            container["identity"]["uuid"].is_string(),
            form == "sif",
            "{container}"
        );
        assert_eq!(container["runtime"]["product"], "apptainer", "{container}");
        let flags = container["flags"].as_array().expect("flags");
        assert!(
            flags.iter().any(|flag| flag["flag"]
                .as_str()
                .is_some_and(|flag| flag.starts_with("no --nv"))),
            "{container}"
        );
        assert_eq!(shown["run"]["image"]["source"], json!(image));
        assert_eq!(container.get("failure"), None, "{container}");
        let text = user
            .dlrun(&["show", shown["run"]["run_id"].as_str().expect("an id")])
            .ok();
        assert!(text.contains("runtime    apptainer "), "{text}");
    }
}

/// The file of events is seen in the container, by the same name, also where the container is kept apart from the node.
#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn events_come_out_of_the_container() {
    let user = listed();
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/dlrun_events.py");
    user.write(
        "dlrun_events.py",
        &fs::read_to_string(module).expect("it is there"),
    );
    let program = "from dlrun_events import epochs, log\nfor n in epochs(2): print('epoch', n)\nlog(epoch=3, seconds=1.5)";
    for more in ["", "cleanenv = true\noptions = [\"--contain\"]"] {
        for image in [base_sif(), base_sandbox()] {
            let (output, code, shown) =
                ran(&user, &argv(&["python3", "-c", program]), &image, more);
            assert_eq!(code, 0, "{output}");
            let progress = &shown["nodes"][0]["progress"];
            assert_eq!(
                (&progress["recogniser"], &progress["epochs_completed"]),
                (&json!("events"), &json!(3))
            );
            assert_eq!(progress["epochs"][2]["printed_seconds"], 1.5, "{progress}");
            let flags = shown["nodes"][0]["container"]["flags"]
                .as_array()
                .expect("flags")
                .clone();
            let why = "where the program may report its progress (DLRUN_EVENTS)";
            assert!(flags.iter().any(|flag| flag["why"] == why), "{flags:?}");
            let storage = &shown["nodes"][0]["conditions"]["storage"];
            assert!(
                storage
                    .as_array()
                    .is_some_and(|list| list.iter().any(|it| it["of"] == "image")),
                "{storage}"
            );
        }
    }
}

/// A trial of a sweep that is worse hears of it in a container that is kept apart from the node, and ends by itself.
#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn a_request_to_stop_reaches_the_container() {
    let user = listed();
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/dlrun_events.py");
    user.write(
        "dlrun_events.py",
        &fs::read_to_string(module).expect("it is there"),
    );
    let program = "import sys, time\nfrom dlrun_events import epoch, should_stop\n\
        for number in range(1, 201):\n    with epoch(number, of=200) as now:\n        time.sleep(0.1)\n        now['loss'] = float(sys.argv[1])\n\
        \x20   if should_stop():\n        print('saved')\n        sys.exit(0)\n";
    user.write("train.py", program);
    let sweep = "[sweep]\nmetric = 'loss'\nmode = 'min'\nsampler = 'grid'\nmax_jobs = 2\nstop = 'asha'\nstop_wait = '10m'\n\
                 [sweep.space]\nvars.x = [1, 2]\n";
    let file = job(
        &user,
        &argv(&["python3", "train.py", "{{x}}"]),
        &base_sandbox(),
        &format!(
            "cleanenv = true\noptions = [\"--contain\"]\n[resources]\ncpus_per_task = 1\n{sweep}"
        ),
    );
    let words = ["--json", "sweep", "run", "--scheduler", "local"].map(AsRef::as_ref);
    let result = user
        .dlrun(&[&words[..], &[file.as_os_str()]].concat())
        .result();
    let stopped = result["trials"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|trial| {
            let outcome = &trial["outcome"];
            !outcome["stopped_at"].is_null() && outcome["state"] == "completed"
        });
    assert_eq!(stopped.count(), 1, "{result}");
}

/// `$PWD` with a link in it leads the runtime astray: it would start the command in the home directory.
#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn working_directory_behind_a_link_is_there_under_both_names() {
    let user = listed();
    let far = tempfile::Builder::new()
        .prefix("dlrun-far-")
        .tempdir_in("/srv")
        .expect("a directory");
    let link = Path::new("/opt").join(far.path().file_name().expect("a name"));
    std::os::unix::fs::symlink(far.path(), &link).expect("we are root");
    chown(far.path(), Some(user.uid().into()), None).expect("we are root");
    fs::write(far.path().join("data"), "it's here\n").expect("we are root");
    let run = format!(
        "workdir = {}\n{}",
        json!(link),
        sh(&format!("pwd -P; cat data; cat {}/data", link.display()))
    );
    let (output, code, _) = ran(&user, &run, &base_sandbox(), "");
    fs::remove_file(&link).expect("it is ours");
    let expected = format!("{}\nit's here\nit's here\n", far.path().display());
    assert!(code == 0 && output.ends_with(&expected), "{code}: {output}");
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn odd_values_binds_and_the_secret_file_reach_a_clean_environment() {
    let user = listed();
    user.write("a: b,c", "bound\n");
    let secret = user.write("secret.env", "TOKEN=s3 \"cret\" $(id) `id`\n");
    fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("ours");
    let odd = "$HOME `id` it's \"q\" \\ ,:=";
    let run = format!(
        "{}\nenv = {{ ODD = {} }}\nenv_file = \"secret.env\"",
        sh(
            "printf '[%s]\\n' \"$ODD\" \"$TOKEN\" \"${LEFT-none}\"; cat '/in: side'; env | grep ^DLRUN_ | grep -v __ | cut -d= -f1 | sort; env | grep -c DLRUN_ENV_NAMES"
        ),
        json!(odd)
    );
    let more = "cleanenv = true\nbind = [{ source = \"a: b,c\", target = \"/in: side\", read_only = true }]";
    let mut user = user;
    user.set("LEFT", "from outside");
    let (output, code, shown) = ran(&user, &run, &base_sandbox(), more);
    assert_eq!(code, 10, "grep finds nothing: {output}");
    let names = "DLRUN_EVENTS\nDLRUN_INSIDE\nDLRUN_RUN_ID";
    let expected = format!("[{odd}]\n[s3 \"cret\" $(id) `id`]\n[none]\nbound\n{names}\n0\n");
    assert!(output.ends_with(&expected), "{output}");
    let container = shown["nodes"][0]["container"].to_string();
    assert!(
        !container.contains("s3 "),
        "no value stands in the record: {container}"
    );
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn what_is_missing_at_the_start_ends_the_job_before_its_command() {
    let user = listed();
    let (output, code, shown) = ran(
        &user,
        &sh("touch ran"),
        &base_sandbox(),
        "bind = [\"/nowhere/at/all:/data\"]",
    );
    assert_eq!(
        (code, &shown["status"]["exit"]["code"]),
        (10, &json!(66)),
        "{output}"
    );
    assert!(
        output.contains("the bind source /nowhere/at/all does not exist on this node"),
        "{output}"
    );
    let (kind, text) = cause(&shown);
    assert!(
        kind == "container" && text.contains("/nowhere/at/all"),
        "{shown}"
    );
    let (output, _, shown) = ran(&user, &sh("touch ran"), &user.path("gone.sif"), "");
    assert_eq!(shown["status"]["exit"]["code"], 66, "{output}");
    assert!(
        cause(&shown).1.contains("gone.sif does not exist"),
        "{shown}"
    );
    assert!(!user.path("ran").exists());
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn whose_failure_255_is() {
    let user = listed();
    let broken = user.path("broken.sif");
    let whole = fs::read(base_sif()).expect("a SIF");
    fs::write(&broken, &whole[..whole.len() / 4]).expect("we are root");
    user.write("text.sif", "no image\n");
    // The runtime's own failures.
    let absent = argv(&["no-such-program"]);
    let text = user.path("text.sif");
    for (run, image, more, words) in [
        (&absent, base_sandbox(), "", "executable file not found"),
        (&absent, base_sif(), "", "executable file not found"),
        (&sh("true"), broken, "", "image driver"),
        (&sh("true"), text, "", "image format not recognized"),
        (
            &sh("true"),
            base_sandbox(),
            "options = [\"--nosuch\"]",
            "unknown flag: --nosuch",
        ),
    ] {
        let (output, code, shown) = ran(&user, run, &image, more);
        let (kind, text) = cause(&shown);
        assert_eq!(
            (code, kind),
            (10, "container"),
            "{image:?}: {output}: {}",
            shown["nodes"]
        );
        assert!(
            text.starts_with("the container did not start: ") && text.contains(words),
            "{text}: {output}"
        );
        let exit = shown["status"]["exit"]["code"].as_i64();
        assert!([Some(255), Some(1)].contains(&exit), "{exit:?}");
    }
    // The program's, whatever it says.
    for image in [base_sif(), base_sandbox()] {
        for said in ["FATAL:   it is I", "nothing of the kind"] {
            let program = format!("import sys; print('{said}', file=sys.stderr); sys.exit(255)");
            let (output, code, shown) = ran(&user, &argv(&["python3", "-c", &program]), &image, "");
            assert_eq!(
                (code, cause(&shown).0),
                (10, "program"),
                "{output}: {}",
                shown["nodes"]
            );
        }
    }
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn a_cancel_reaches_the_program_in_its_container_and_nothing_stays() {
    let user = listed();
    for image in [base_sif(), base_sandbox()] {
        let script =
            "trap 'echo got TERM; exit 7' TERM; sleep 600 & echo ready; wait; echo unreached";
        let submitted = submit(&user, &job(&user, &sh(script), &image, ""));
        until("the program to run", 60, || {
            submitted.text().contains("ready").then_some(())
        });
        user.dlrun(&["cancel", &submitted.run]).ok();
        assert_eq!(user.wait(&submitted.run), 15, "{}", submitted.text());
        assert!(submitted.text().contains("got TERM") && !submitted.text().contains("unreached"));
        until("all processes to end", 20, || {
            processes(&submitted.run, "").is_empty().then_some(())
        });
    }
}

#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn a_time_limit_reaches_the_program_in_its_container() {
    let user = listed();
    let script = "trap 'echo got TERM; exit 0' TERM; echo ready; while :; do sleep 0.2; done";
    let more = "[resources]\nwalltime = \"3s\"";
    let (output, code, _) = ran(&user, &sh(script), &base_sandbox(), more);
    assert_eq!(code, 11, "{output}");
    assert!(
        output.contains("ready") && output.contains("got TERM"),
        "{output}"
    );
}

/// Each rank decides on its own node; here both are on this one, and `mpirun` is a stand-in that starts two.
#[test]
#[ignore = "needs Apptainer: run tests/run"]
fn ranks_enter_the_container_by_themselves() {
    let mut user = listed();
    let mpirun = "#!/bin/sh\n[ \"$1\" = -np ] && shift 2\nOMPI_COMM_WORLD_LOCAL_RANK=0 \"$@\" & OMPI_COMM_WORLD_LOCAL_RANK=1 \"$@\"; code=$?; wait; exit $code\n";
    let path = user.write("bin/mpirun", mpirun);
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
    user.set(
        "PATH",
        &format!(
            "{}:/usr/local/bin:/usr/bin:/bin",
            user.path("bin").display()
        ),
    );
    let run = format!(
        "launcher = \"mpi\"\n{}",
        sh("echo rank $OMPI_COMM_WORLD_LOCAL_RANK in $APPTAINER_NAME; pwd")
    );
    let more = "[resources]\ntasks_per_node = 2";
    let (output, code, shown) = ran(&user, &run, &base_sandbox(), more);
    assert_eq!(code, 0, "{output}");
    let home = user.home().display().to_string();
    assert!(
        output.contains("rank 0 in base") && output.contains("rank 1 in base"),
        "{output}"
    );
    assert_eq!(output.matches(&home).count(), 2, "{output}");
    assert_eq!(
        shown["nodes"][0]["container"]["runtime"]["product"], "apptainer",
        "{shown}"
    );
}
