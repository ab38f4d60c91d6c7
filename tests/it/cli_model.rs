//! `dlrun model`: fit, show, evaluate, and what is refused.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use dlrun::job::{Framework, JobState, Provenance, Workload};
use dlrun::record::store::Store;
use dlrun::record::{
    Conditions, Epoch, ExitStatus, NodeRecord, NodeState, Outcome, Progress, RunRecord, Status,
};
use serde_json::Value;

use crate::records::{mark, node, run, run_id};
use crate::support::trained::Trained;
use crate::support::{TestEnv, skip};

/// When the first of the runs was handed over.
const BEGIN_MS: u64 = 1_763_650_000_000;
const MINUTE_MS: u64 = 60_000;

/// A run of a network, with or without a compiler that makes it twice as slow.
fn trained(number: u32, compiled: bool, batch_size: u64) -> (RunRecord, NodeRecord) {
    let mut record = run(
        run_id(number),
        "train",
        BEGIN_MS + u64::from(number) * MINUTE_MS,
    );
    record.nodes = 1;
    record.framework = Framework {
        name: Some("tensorflow".to_owned()),
        version: Some("2.21".to_owned()),
        compiler: Some(if compiled { "xla" } else { "none" }.to_owned()),
        provenance: Some(Provenance::Pip),
    };
    record.workload = Workload {
        model: Some("mnist-cnn".to_owned()),
        samples: Some(1024),
        batch_size: Some(batch_size),
        epochs: Some(4),
        ..Workload::default()
    };
    let mut measured = node(run_id(number), "n1", record.submitted_at_ms + MINUTE_MS);
    measured.state = NodeState::Ended;
    measured.exit = Some(ExitStatus::Code(0));
    measured.conditions = Conditions {
        cpus_effective: Some(4.0),
        ..Conditions::default()
    };
    measured.progress = Progress::default();
    // Noise of some percent, the same each time.
    let noise = 1.0 + f64::from(number * 7 % 11) / 200.0;
    let steady = if compiled { 4.0 } else { 2.0 } * noise * (128.0 / batch_size as f64).powf(0.3);
    for epoch in 1..=4 {
        let seconds = if epoch == 1 { 2.5 * steady } else { steady };
        measured.progress.push_epoch(Epoch {
            epoch,
            printed_seconds: Some(seconds),
            ..Epoch::default()
        });
    }
    (record, measured)
}

/// A database of runs.
fn database(path: &Path, runs: impl IntoIterator<Item = (RunRecord, NodeRecord)>) -> PathBuf {
    let mut store = Store::open(path).expect("opened");
    let written: Result<(), dlrun::record::store::StoreError> = store.write(|writer| {
        for (record, measured) in runs {
            let begun = record.submitted_at_ms;
            let outcome = Outcome {
                start: Some(mark(begun, None)),
                end: Some(mark(begun + MINUTE_MS, Some(0))),
                nodes: vec![measured],
                ..Outcome::default()
            };
            writer.upsert_run(&record)?;
            writer.ingest_attempt(&record.run_id, 0, 0, &outcome)?;
            writer.set_status(&record.run_id, &Status::of(JobState::Completed))?;
        }
        Ok(())
    });
    written.expect("written");
    path.to_owned()
}

/// Both compilers with two batch sizes, `count` runs.
fn both(env: &TestEnv, name: &str, numbers: impl IntoIterator<Item = u32>) -> PathBuf {
    let runs = numbers.into_iter().map(|number| {
        trained(
            number,
            number % 2 == 0,
            if number % 4 < 2 { 64 } else { 128 },
        )
    });
    database(&env.jobs().join(name), runs)
}

fn models(env: &TestEnv) -> Vec<String> {
    let dir = fs::read_dir(env.state().join("models")).expect("models");
    let mut names: Vec<String> = dir
        .map(|entry| {
            entry
                .expect("listed")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    names.sort();
    names
}

fn current(env: &TestEnv) -> String {
    fs::read_to_string(env.state().join("models/current"))
        .expect("one is in use")
        .trim_end()
        .to_owned()
}

fn fit(env: &TestEnv, store: &Path) -> Value {
    env.dlrun(["model", "fit", "--json", "--store"])
        .arg(store)
        .run()
        .code(0)
        .result()
}

#[test]
fn what_was_planted_is_learned_and_told() {
    let env = TestEnv::new();
    let store = both(&env, "site.db", 1..=40);
    let fitted = fit(&env, &store);
    let name = fitted["model"]["name"].as_str().expect("a name").to_owned();
    assert_eq!(
        (fitted["in_use"].as_bool(), &fitted["read"]["observations"]),
        (Some(true), &40.into())
    );
    assert_eq!(current(&env), name);
    let mut files = ["current".to_owned(), format!("{name}.model")];
    files.sort();
    assert_eq!(models(&env), files);
    assert_eq!(
        env.state().join(format!("models/{name}.model")).to_str(),
        fitted["path"].as_str()
    );
    let shown = env
        .dlrun(["model", "show", "--json"])
        .run()
        .code(0)
        .result();
    assert_eq!(shown["model"]["name"], name.as_str());
    let effects = shown["learned"]["effects"]
        .as_array()
        .expect("effects")
        .clone();
    let compiler = effects
        .iter()
        .find(|effect| effect["kind"] == "compiler" && effect["workload"].is_string());
    let ratio = compiler.expect("it was measured")["time_ratio"]["median"]
        .as_f64()
        .expect("a ratio");
    assert!((1.8..2.2).contains(&ratio), "{effects:#?}");
    let text = env.dlrun(["model", "show", &name]).run().code(0).text();
    for word in ["xla", "time ratio", "noise", "40 runs"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let evaluated = env
        .dlrun(["model", "evaluate", "--json", "--store"])
        .arg(&store)
        .run()
        .code(0)
        .result();
    let views = evaluated["evaluation"]["views"]
        .as_array()
        .expect("views")
        .clone();
    let errors = &views[0]["epoch"];
    assert!(
        errors["median_error_ln"]
            .as_f64()
            .is_some_and(|error| error < 0.1),
        "{errors}"
    );
    let text = env
        .dlrun(["model", "evaluate", "--store"])
        .arg(&store)
        .run()
        .code(0)
        .text();
    assert!(
        text.contains("a job that ran before")
            && text.contains("a new workload: not known yet: needs"),
        "{text}"
    );
}

#[test]
fn the_same_runs_make_the_same_model() {
    let env = TestEnv::new();
    let first = fit(&env, &both(&env, "one.db", 1..=12));
    let again = fit(&env, &both(&env, "two.db", (1..=12).rev()));
    assert_eq!(first["model"]["name"], again["model"]["name"]);
    assert_eq!(models(&env).len(), 2, "one model and the name of it");
}

#[test]
fn few_runs_give_a_model_and_none_a_refusal() {
    let env = TestEnv::new();
    let none = database(&env.jobs().join("none.db"), []);
    let error = env
        .dlrun(["model", "fit", "--json", "--store"])
        .arg(&none)
        .run()
        .code(66)
        .error();
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|text| text.contains("has 0 runs")),
        "{error}"
    );
    assert!(
        error["hints"][0]
            .as_str()
            .is_some_and(|hint| hint.contains("import")),
        "{error}"
    );
    let _ = env
        .dlrun(["model", "evaluate", "--store"])
        .arg(&none)
        .run()
        .code(66)
        .warns("shows a steady epoch");
    let _ = env
        .dlrun(["model", "fit"])
        .run()
        .code(66)
        .warns("no records");
    let _ = env
        .dlrun(["model", "show"])
        .run()
        .code(65)
        .warns("create one from your recorded runs: `dlrun model fit`");
    let one = database(&env.jobs().join("one.db"), [trained(1, false, 64)]);
    let text = env
        .dlrun(["model", "fit", "--store"])
        .arg(&one)
        .run()
        .code(0)
        .text();
    assert!(
        text.contains("1 run of 1 workload") && text.contains("not known yet: needs"),
        "{text}"
    );
    let text = env.dlrun(["model", "show"]).run().code(0).text();
    assert!(text.contains("not known yet: needs 10 runs"), "{text}");
    // All of one image and batch size.
    let alike = database(
        &env.jobs().join("alike.db"),
        (1..=12).map(|number| trained(number, true, 64)),
    );
    let _ = fit(&env, &alike);
    let text = env.dlrun(["model", "show"]).run().code(0).text();
    assert!(
        text.contains("measured on 11 repeats")
            && !text.contains("repeats of one configuration are believed"),
        "{text}"
    );
}

#[test]
fn a_database_that_cannot_be_read_is_named() {
    let env = TestEnv::new();
    let store = both(&env, "site.db", 1..=4);
    let mut bytes = fs::read(&store).expect("read");
    // The database header keeps `user_version` at offset 60.
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    fs::write(&store, &bytes).expect("ours");
    let _ = env
        .dlrun(["model", "fit", "--store"])
        .arg(&store)
        .run()
        .code(78)
        .warns("version 99");
    fs::write(
        &store,
        "no database at all, but long enough for a header, or so it seems to be",
    )
    .expect("ours");
    let _ = env
        .dlrun(["model", "fit", "--store"])
        .arg(&store)
        .run()
        .code(65);
    let _ = env
        .dlrun(["model", "fit", "--store", "/nowhere/site.db"])
        .run()
        .code(66);
}

#[test]
fn a_refit_takes_the_place_of_the_model_before() {
    let env = TestEnv::new();
    let much = fit(&env, &both(&env, "much.db", 1..=20));
    let refit = fit(&env, &both(&env, "more.db", 1..=24));
    assert_eq!(
        (&refit["in_use"], &refit["before"]),
        (&true.into(), &much["model"]["name"])
    );
    assert_eq!(refit["model"]["name"], current(&env));
    assert_eq!(models(&env).len(), 3, "both are kept");
}

#[test]
fn a_published_model_is_for_all_and_goes_where_it_is_safe() {
    let mut env = TestEnv::new();
    let store = both(&env, "site.db", 1..=8);
    let publish = |env: &TestEnv| {
        env.dlrun(["model", "fit", "--publish", "--store"])
            .arg(&store)
            .run()
    };
    let site = env.root().join("site");
    let _ = publish(&env).code(66).warns("make the directory first");
    assert!(
        !env.state().join("models/current").exists(),
        "nothing is in use that was not published"
    );
    fs::create_dir(&site).expect("ours");
    fs::set_permissions(&site, fs::Permissions::from_mode(0o777)).expect("ours");
    let _ = publish(&env).code(77).warns("everybody may write");
    fs::set_permissions(&site, fs::Permissions::from_mode(0o755)).expect("ours");
    let victim = env.jobs().join("victim");
    fs::write(&victim, "untouched").expect("ours");
    symlink(&victim, site.join("model")).expect("ours");
    let _ = publish(&env).code(73).warns("not a regular file");
    assert_eq!(fs::read_to_string(&victim).expect("read"), "untouched");
    fs::remove_file(site.join("model")).expect("ours");
    let text = publish(&env).code(0).text();
    assert!(text.contains("published as"), "{text}");
    assert_eq!(
        fs::metadata(site.join("model"))
            .expect("there")
            .permissions()
            .mode()
            & 0o777,
        0o644
    );
    // Somebody who has fitted none goes by it.
    env.set("XDG_STATE_HOME", env.root().join("elsewhere"));
    let shown = env
        .dlrun(["model", "show", "--json"])
        .run()
        .code(0)
        .result();
    assert_eq!(shown["path"].as_str(), site.join("model").to_str());
}

/// Users who need no account.
const ALICE: u32 = 64_001;
const MALLORY: u32 = 64_002;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
}

#[test]
fn root_publishes_only_where_nobody_else_can_exchange_it() {
    if !nix::unistd::geteuid().is_root() {
        return skip("only root can give directories to others");
    }
    let mut env = TestEnv::new();
    let store = both(&env, "site.db", 1..=8);
    let upper = env.root().join("upper");
    let site = upper.join("site");
    fs::create_dir_all(&site).expect("ours");
    [&upper, &site].into_iter().for_each(|dir| mode(dir, 0o755));
    env.set("DLRUN_MODEL__PATH", site.join("model"));
    // Whoever may write a site's model is no reason for root to write into a place of theirs.
    env.set("DLRUN_MODEL__OWNER", ALICE.to_string());
    let publish = || {
        env.dlrun(["model", "fit", "--publish", "--json", "--store"])
            .arg(&store)
            .run()
    };
    let refused = |part: &str, hint: &str| {
        let error = publish().code(77).error();
        let text = error["message"].as_str().expect("text");
        assert!(
            text.contains("root does not publish") && text.contains(part),
            "{text}"
        );
        let hints = error["hints"].to_string();
        assert!(
            hints.contains(hint) && hints.contains("`model.path`"),
            "{hints}"
        );
        assert_eq!(
            fs::read_dir(&site).expect("there").count(),
            0,
            "nothing was written"
        );
        assert!(!env.state().exists(), "it is said before anything is done");
    };
    for dir in [&site, &upper] {
        chown(dir, Some(ALICE), None).expect("root may");
        refused(
            &format!("`{}` belongs to user id {ALICE}", dir.display()),
            "publish as that user",
        );
        chown(dir, Some(0), Some(ALICE)).expect("root may");
        mode(dir, 0o775);
        refused(
            &format!(
                "members of group id {ALICE} may write to `{}`",
                dir.display()
            ),
            "chmod go-w",
        );
        mode(dir, 0o757);
        refused("everybody may write", "chmod go-w");
        mode(dir, 0o755);
        chown(dir, Some(0), Some(0)).expect("root may");
    }
    // A directory of root's that is reached by a link of somebody else's.
    let theirs = env.root().join("theirs");
    fs::create_dir(&theirs).expect("ours");
    symlink(&site, theirs.join("link")).expect("ours");
    chown(&theirs, Some(MALLORY), None).expect("root may");
    env.set("DLRUN_MODEL__PATH", theirs.join("link/model"));
    let _ = env
        .dlrun(["model", "fit", "--publish", "--store"])
        .arg(&store)
        .run()
        .code(77)
        .warns(&format!(
            "`{}` belongs to user id {MALLORY}",
            theirs.display()
        ));
    assert_eq!(fs::read_dir(&site).expect("there").count(), 0);
    // What the sticky bit keeps others from is no danger.
    env.set("DLRUN_MODEL__PATH", site.join("model"));
    chown(&site, Some(0), Some(ALICE)).expect("root may");
    mode(&site, 0o1775);
    let done = env
        .dlrun(["model", "fit", "--publish", "--store"])
        .arg(&store)
        .run()
        .code(0);
    let _ = done.says("published as").never_says("exchanged");
}

#[test]
fn other_users_publish_where_their_group_may_write_and_are_told() {
    if !nix::unistd::geteuid().is_root() {
        return skip("only root can act as another user");
    }
    let mut env = TestEnv::of_user(ALICE);
    let site = env.root().join("site");
    fs::create_dir(&site).expect("ours");
    chown(&site, Some(ALICE), Some(MALLORY)).expect("root may");
    let store = both(&env, "site.db", 1..=8);
    chown(&store, Some(ALICE), Some(ALICE)).expect("root may");
    let publish = |env: &TestEnv| {
        env.dlrun(["model", "fit", "--publish", "--store"])
            .arg(&store)
            .run()
    };
    mode(&site, 0o755);
    let _ = publish(&env)
        .code(0)
        .says("published as")
        .never_says("exchanged");
    mode(&site, 0o775);
    let _ = publish(&env)
        .code(0)
        .says("published as")
        .warns("can be exchanged by others");
    mode(&site, 0o1777);
    let _ = publish(&env).code(77).warns("everybody may write");
    // A database that is not for them is told as such, with who may read it; so is a place that they may not write to.
    chown(&store, Some(0), Some(MALLORY)).expect("root may");
    mode(&store, 0o640);
    let _ = publish(&env)
        .code(77)
        .warns("its owner, or the members of its group, may read it");
    mode(&store, 0o600);
    let _ = publish(&env)
        .code(77)
        .warns("its owner, or the members of its group, may read it")
        .never_says("model.path");
    mode(&store, 0o644);
    env.open_to_others();
    let closed = env.root().join("closed");
    fs::create_dir(&closed).expect("ours");
    mode(&closed, 0o755);
    let to = closed.join("out.model");
    let done = env
        .dlrun(["model", "fit", "--store"])
        .arg(&store)
        .arg("--output")
        .arg(&to)
        .run()
        .code(77);
    let _ = done
        .warns("name another file with `--output`")
        .never_says("model.path");
    env.set("DLRUN_MODEL__PATH", closed.join("model"));
    let _ = publish(&env).code(77).warns("the setting `model.path`");
}

#[test]
fn a_sites_model_that_others_may_write_is_used_with_a_warning() {
    let mut env = TestEnv::new();
    let site = env.root().join("site");
    fs::create_dir(&site).expect("ours");
    mode(&site, 0o755);
    let store = both(&env, "site.db", 1..=40);
    let _ = env
        .dlrun(["model", "fit", "--publish", "--store"])
        .arg(&store)
        .run()
        .code(0);
    env.set("XDG_STATE_HOME", env.root().join("elsewhere"));
    let file = env.job(
        "true",
        "[framework]\nname = \"tensorflow\"\ncompiler = \"auto\"\n\
         [workload]\nmodel = \"mnist-cnn\"\nsamples = 1024\nbatch_size = 64\nepochs = 4\n",
    );
    let verbs: [&[&str]; 4] = [
        &["plan"],
        &["submit", "--wait"],
        &["model", "predict"],
        &["model", "show", "--json"],
    ];
    let told = |env: &TestEnv, part: Option<&str>| {
        for verb in verbs {
            let mut command = env.dlrun(verb);
            if !verb.contains(&"show") {
                command = command.args(["--scheduler", "local"]).arg(&file);
            }
            let done = command.run().code(0);
            let times = done.stderr.matches("may be somebody else's").count();
            assert_eq!(
                times,
                usize::from(part.is_some()),
                "{verb:?}: {}",
                done.stderr
            );
            let _ = done.warns(part.unwrap_or_default());
        }
    };
    told(&env, None);
    let model = site.join("model");
    mode(&model, 0o646);
    told(
        &env,
        Some(&format!(
            "everybody may write to `{}`; it is used all the same",
            model.display()
        )),
    );
    mode(&model, 0o664);
    told(&env, Some("members of group"));
    mode(&model, 0o644);
    mode(&site, 0o777);
    told(
        &env,
        Some(&format!("everybody may write to `{}`", site.display())),
    );
    mode(&site, 0o755);
    // One's own goes before it, and then nothing is said.
    env.set("XDG_STATE_HOME", env.root().join("state"));
    mode(&model, 0o646);
    told(&env, None);
    mode(&model, 0o644);
    env.set("XDG_STATE_HOME", env.root().join("elsewhere"));
    if !nix::unistd::geteuid().is_root() {
        return skip("only root can give files to others");
    }
    chown(&model, Some(MALLORY), None).expect("root may");
    told(
        &env,
        Some(&format!(
            "`{}` belongs to user id {MALLORY}",
            model.display()
        )),
    );
    env.set("DLRUN_MODEL__OWNER", MALLORY.to_string());
    told(&env, None);
}

#[test]
fn files_that_are_no_models_are_refused_by_name() {
    let env = TestEnv::new();
    let _ = fit(&env, &both(&env, "site.db", 1..=4));
    let file = env.jobs().join("out.model");
    let store = env.jobs().join("site.db");
    let text = env
        .dlrun(["model", "fit", "--store"])
        .arg(&store)
        .arg("--output")
        .arg(&file)
        .run()
        .code(0)
        .text();
    assert!(text.contains("nothing uses it"), "{text}");
    let show = |path: &Path| env.dlrun(["model", "show"]).arg(path).run();
    let _ = show(&file).code(0);
    let bytes = fs::read(&file).expect("read");
    fs::write(&file, &bytes[..bytes.len() / 2]).expect("ours");
    let _ = show(&file).code(65).warns("damaged");
    let head = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .expect("a first line");
    let head = String::from_utf8(head.to_vec()).expect("JSON");
    fs::write(&file, head.replacen("\"runs\":4", "\"runs\":9", 1) + "\n").expect("ours");
    let _ = show(&file).code(65).warns("cut off");
    // What a newer one writes may be of another form.
    let format = format!("\"dlrun_model\":{}", dlrun::learn::model::MODEL_FORMAT);
    fs::write(
        &file,
        head.replacen(&format, "\"dlrun_model\":999", 1) + "\n",
    )
    .expect("ours");
    let _ = show(&file).code(78).warns("format 999");
    fs::write(&file, "").expect("ours");
    let _ = show(&file).code(65);
    for hostile in ["../../etc/passwd", "a\nb", "$(id)", "-x", ""] {
        let done = env.dlrun(["model", "show", "--", hostile]).run();
        assert!(!done.status.success(), "{hostile:?}");
    }
    let _ = env
        .dlrun(["model", "show", "nosuch"])
        .run()
        .code(66)
        .warns("there are: ");
    // One's own that cannot be used is told of; the name in `current` may be anything.
    fs::write(env.state().join("models/current"), "../../../etc/passwd\n").expect("ours");
    let _ = env
        .dlrun(["model", "show"])
        .run()
        .code(65)
        .warns("does not hold the name");
    let mut longer = bytes.clone();
    longer.push(0);
    fs::write(&file, longer).expect("ours");
    let _ = show(&file).code(65).warns("its checksum is another one");
    let mut damaged = bytes;
    let last = damaged.len() - 20;
    damaged[last] ^= 1;
    fs::write(&file, damaged).expect("ours");
    let _ = show(&file).code(65).warns("its checksum is another one");
}

#[test]
fn a_job_is_foretold_with_how_sure_that_is() {
    let env = TestEnv::new();
    let file = env.job(
        "true",
        "[framework]\nname = \"tensorflow\"\ncompiler = \"auto\"\n\
         [workload]\nmodel = \"mnist-cnn\"\nsamples = 1024\nbatch_size = 64\nepochs = 4\n",
    );
    let predict = || {
        env.dlrun(["model", "predict", "--scheduler", "local"])
            .arg(&file)
    };
    let _ = predict().run().code(65).warns("no performance model");
    let fitted = fit(&env, &both(&env, "site.db", 1..=40));
    let told = predict().arg("--json").run().code(0).result();
    assert_eq!(told["forecast"]["model"], fitted["model"]["name"]);
    let epoch = &told["forecast"]["epoch_seconds"];
    let of = |key: &str| epoch[key].as_f64().expect("a number");
    assert!(
        of("low") < of("median") && of("median") < of("high"),
        "{epoch}"
    );
    assert_eq!(
        told["framework"]["compiler"], "none",
        "XLA makes it twice as slow"
    );
    let text = predict().run().code(0).text();
    for word in [
        "an epoch takes",
        "4 epochs in all",
        "rests on",
        "your own model",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let name = fitted["model"]["name"].as_str().expect("a name");
    let _ = predict().args(["--model", name]).run().code(0);
    let _ = predict()
        .args(["--model", "nosuch"])
        .run()
        .code(66)
        .warns("there are: ");
    // A model that cannot be used costs a warning, and the job is planned by rules.
    fs::write(env.state().join(format!("models/{name}.model")), "no model").expect("ours");
    let _ = env
        .dlrun(["plan", "--scheduler", "local"])
        .arg(&file)
        .run()
        .code(0)
        .warns("is passed over");
    let _ = predict().run().code(65).warns("not a model of dlrun");
}

#[test]
fn what_rests_on_runs_in_doubt_says_so() {
    let env = TestEnv::new();
    let (record, mut measured) = trained(1, false, 64);
    measured.conditions.others_cpus_busy = Some(200.0);
    let store = database(&env.jobs().join("one.db"), [(record, measured)]);
    let _ = fit(&env, &store);
    let text = env.dlrun(["model", "show"]).run().code(0).text();
    assert!(text.contains("1 in doubt"), "{text}");
    let file = env.job(
        "true",
        "[framework]\nname = \"tensorflow\"\n\
         [workload]\nmodel = \"mnist-cnn\"\nsamples = 1024\nbatch_size = 64\nepochs = 4\n",
    );
    let predict = || {
        env.dlrun(["model", "predict", "--scheduler", "local"])
            .arg(&file)
    };
    let told = predict().arg("--json").run().code(0).result()["forecast"].clone();
    assert_eq!(
        (&told["runs"], &told["doubtful"], &told["doubts"][0]),
        (&1.into(), &1.into(), &"others kept the node busy".into()),
        "{told:#}"
    );
    let text = predict().run().code(0).text();
    let line = text
        .lines()
        .find(|line| line.contains("rests on"))
        .expect("a line");
    assert!(
        line.ends_with("(in doubt: others kept the node busy)"),
        "{line}"
    );
    let plan = || {
        env.dlrun(["plan", "--scheduler", "local"])
            .arg(&file)
            .run()
            .code(0)
    };
    let _ = plan().says("(in doubt: others kept the node busy)");
    // Of several, some.
    let mut runs: Vec<(RunRecord, NodeRecord)> =
        (1..=3).map(|number| trained(number, false, 64)).collect();
    runs[1].1.progress.restarts = 1;
    let _ = fit(&env, &database(&env.jobs().join("three.db"), runs));
    let text = predict().run().code(0).text();
    assert!(text.contains("(1 of 3 in doubt: it was resumed"), "{text}");
    let text = env.dlrun(["model", "show"]).run().code(0).text();
    assert!(!text.contains("all that it has seen"), "{text}");
    let _ = fit(&env, &both(&env, "well.db", 1..=12));
    let _ = predict()
        .run()
        .code(0)
        .says("rests on")
        .never_says("in doubt");
    let _ = plan().never_says("in doubt");
}

#[test]
fn the_oldest_models_go() {
    let mut env = TestEnv::new();
    env.set("DLRUN_MODEL__KEEP", "2");
    for last in [8, 12, 16, 20, 24] {
        let _ = fit(&env, &both(&env, &format!("{last}.db"), 1..=last));
    }
    assert_eq!(
        models(&env).len(),
        4,
        "the one in use, two more, and the name of the first"
    );
}

#[test]
fn what_was_foretold_stands_beside_what_came() {
    let env = TestEnv::new();
    let training = Trained::usual(1, "train");
    let dir = training.write(&env.state()).expect("written");
    let mut record: Value =
        serde_json::from_slice(&fs::read(dir.join("run.json")).expect("read")).expect("JSON");
    record["forecast"] = serde_json::json!({
        "model": "ca66aff9", "basis": "workload", "runs": 12,
        "epoch_seconds": { "mean": 60.0, "median": 60.0, "low": 55.0, "high": 66.0 },
        "memory_bytes": { "mean": 1e6, "median": 1e6, "low": 9e5, "high": 1.1e6 },
    });
    fs::write(dir.join("run.json"), record.to_string()).expect("ours");
    fs::set_permissions(env.state().join("runs"), fs::Permissions::from_mode(0o700)).expect("ours");
    fs::set_permissions(env.state(), fs::Permissions::from_mode(0o700)).expect("ours");
    let shown = env.dlrun(["show", "--json"]).run().code(0).result();
    let epoch = &shown["foretold"]["epoch_seconds"];
    assert_eq!(
        (epoch["is_within"].as_bool(), &shown["foretold"]["runs"]),
        (Some(true), &12.into()),
        "{shown:#}"
    );
    assert!(
        epoch["came"]
            .as_f64()
            .is_some_and(|came| (57.0..60.0).contains(&came)),
        "{epoch}"
    );
    let text = env.dlrun(["show"]).run().code(0).text();
    let line = text
        .lines()
        .find(|line| line.starts_with("forecast"))
        .expect("a line");
    assert!(
        line.contains("an epoch 60.0 s (55.0 s to 66.0 s), took 58."),
        "{line}"
    );
}
