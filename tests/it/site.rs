//! The site model at work: what was kept, what is asked, and whom it refuses.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use dlrun::config::site::{NodeType, Queue, SiteModel};
use dlrun::foundation::units::{Bytes, Walltime};
use dlrun::job::SchedulerKind;
use serde_json::{Value, json};

use crate::support::{Fake, TestEnv};

fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    u64::try_from(since.as_millis()).expect("it fits")
}

/// A queue of four nodes, up to a day, and one of GPUs.
fn model(asked_at_ms: u64) -> SiteModel {
    let queue = |name: &str| Queue {
        name: name.into(),
        is_up: true,
        ..Queue::default()
    };
    let node = |queue: &str, count, gpus: &[(&str, u32)]| NodeType {
        queues: vec![queue.into()],
        count,
        up: count,
        cpus: Some(16),
        sockets: None,
        memory: Some(Bytes(64 << 30)),
        gpus: gpus
            .iter()
            .map(|(kind, count)| ((*kind).to_owned(), *count))
            .collect(),
        features: Vec::new(),
    };
    SiteModel {
        format: SiteModel::FORMAT,
        scheduler: SchedulerKind::Slurm,
        version: Some("22.05.8".into()),
        asked_at_ms,
        accounting: Some(false),
        accounts_memory: None,
        max_array_index: Some(1000),
        max_array_elements: None,
        queues: vec![
            Queue {
                is_default: true,
                max_walltime: Some(Walltime(86_400)),
                ..queue("batch")
            },
            queue("gpu"),
        ],
        nodes: vec![node("batch", 4, &[]), node("gpu", 2, &[("h100", 8)])],
        licenses: Vec::new(),
        mpi: None,
    }
}

fn kept_file(env: &TestEnv) -> PathBuf {
    env.state().join("site/slurm.json")
}

/// Puts a model where an earlier command would have kept it.
fn keep(env: &TestEnv, model: &SiteModel) {
    let mut builder = fs::DirBuilder::new();
    builder
        .mode(0o700)
        .recursive(true)
        .create(kept_file(env).parent().expect("it has one"))
        .expect("ours");
    let kept = json!({ "asked_of": [], "site": model });
    fs::write(kept_file(env), kept.to_string()).expect("ours");
}

fn kept(env: &TestEnv) -> Value {
    serde_json::from_slice(&fs::read(kept_file(env)).expect("it was kept")).expect("JSON")
}

/// Asks for more time than queue `batch` gives.
const LONG: &str = "[resources]\nwalltime = \"400:00:00\"\n";

/// A Slurm that tells its version and no queue.
fn with_sinfo(env: &TestEnv) -> Fake {
    let _ = env.fake_slurm();
    let _ = env.fake("scontrol").stdout("SLURM_VERSION = 22.05.8\n");
    env.fake("sinfo").stdout("slurm 22.05.8\n")
}

/// Makes that Slurm tell queues and nodes: `batch` of four nodes for a day, `gpu` of two for a week, `old` that is closed.
fn tell_site(env: &TestEnv) {
    let config = "SLURM_VERSION = 22.05.8\nMaxArraySize = 1001\nAccountingStorageType = accounting_storage/none\nSelectTypeParameters = CR_CORE_MEMORY";
    let queue = |name: &str, more: &str, state: &str| {
        format!(
            "PartitionName={name} AllowAccounts=ALL {more} MinNodes=0 State={state} TotalNodes=4"
        )
    };
    let queues = [
        queue(
            "batch",
            "Default=YES DefaultTime=01:00:00 MaxNodes=UNLIMITED MaxTime=1-00:00:00",
            "UP",
        ),
        queue(
            "gpu",
            "Default=NO DefaultTime=NONE MaxNodes=2 MaxTime=7-00:00:00",
            "UP",
        ),
        queue(
            "old",
            "Default=NO DefaultTime=NONE MaxNodes=UNLIMITED MaxTime=UNLIMITED",
            "INACTIVE",
        ),
    ];
    let batch = (1..5).map(|n| format!("batch|c{n}|16|1|64000|(null)|idle|ib\n"));
    let gpu = (1..3).map(|n| format!("gpu|g{n}|16|1|64000|gpu:h100:8|idle|ib,nvl\n"));
    let nodes: String = batch.chain(gpu).collect();
    let _ = env.fake("sinfo").hook(&format!(
        "case $* in *--version*) echo 'slurm 22.05.8' ;; *) cat <<'END'\n{nodes}\nEND\n;; esac"
    ));
    let _ = env.fake("scontrol").hook(&format!(
        "case $* in\n*config*) :\ncat <<'END'\n{config}\nEND\n;;\n\
         *partition*) cat <<'END'\n{}\nEND\n;;\nesac",
        queues.join("\n")
    ));
}

pub(crate) fn with_site() -> (TestEnv, Fake) {
    let env = TestEnv::new();
    let sbatch = env.fake_slurm();
    tell_site(&env);
    (env, sbatch)
}

#[test]
fn a_job_that_can_never_start_is_refused_at_its_line_before_anything_is_queued() {
    let (env, sbatch) = with_site();
    let file = env.job(
        "true",
        "[resources]\nwalltime = \"400:00:00\"\ngpus_per_node = \"v100:2\"\n",
    );
    let done = env.dlrun(["submit"]).arg(&file).run().code(65);
    let done = done
        .warns("job.toml:4:12")
        .warns("400h is more than queue `batch` allows; its limit is 24h");
    let done = done
        .warns("job.toml:5:17")
        .warns("no node of queue `batch` has 2 GPUs of type `v100`")
        .warns("h100 (8 a node) in `gpu`");
    let _ = done
        .warns("slurm 22.05.8, asked just now")
        .warns("`--no-check` goes without");
    assert_eq!(sbatch.calls().len(), 0);
    assert!(!env.state().join("runs").exists());
    let error = env
        .dlrun(["check", "--json"])
        .arg(&file)
        .run()
        .code(65)
        .error();
    let keys: Vec<&str> = error["problems"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|p| p["message"].as_str())
        .collect();
    assert!(
        keys[0].starts_with("`resources.walltime`")
            && keys[1].starts_with("`resources.gpus_per_node`"),
        "{error}"
    );
    let _ = env.dlrun(["submit", "--no-check"]).arg(&file).run().code(0);
    // What fits another queue is told so.
    let week = env.job("true", "[resources]\nwalltime = \"100h\"\n");
    let _ = env
        .dlrun(["check"])
        .arg(&week)
        .run()
        .code(65)
        .warns("it would fit queue `gpu`");
    let fits = env.job(
        "true",
        "[resources]\nqueue = \"gpu\"\nwalltime = \"100h\"\ngpus_per_node = \"h100:8\"\n",
    );
    let _ = env
        .dlrun(["check"])
        .arg(&fits)
        .run()
        .code(0)
        .says("it fits the site (slurm 22.05.8, asked ");
}

#[test]
fn bad_values_of_any_kind_are_told_with_what_there_is() {
    let (env, sbatch) = with_site();
    for (line, said) in [
        (
            "queue = \"gpux\"",
            "did you mean `gpu`? there are `batch`, `gpu`, `old`",
        ),
        ("queue = \"old\"", "queue `old` takes no jobs at present"),
        (
            "constraint = \"nvlink\"",
            "no node of the site has the feature `nvlink`",
        ),
        (
            "walltime = \"400d\"",
            "9600h (400 days) is more than queue `batch` allows",
        ),
        (
            "cpus_per_task = 17",
            "no node of queue `batch` has 17 CPUs; the nearest has 16 CPUs",
        ),
        ("memory = \"1TiB\"", "has 1TiB of memory; the nearest has"),
    ] {
        let file = env.job("true", &format!("[resources]\n{line}\n"));
        let _ = env.dlrun(["submit"]).arg(&file).run().code(65).warns(said);
    }
    let wide = env.job("true", "launcher = \"each\"\n[resources]\nnodes = 99999\n");
    let _ = env
        .dlrun(["submit"])
        .arg(&wide)
        .run()
        .code(65)
        .warns("99999 nodes are asked for; queue `batch` has 4");
    assert_eq!(sbatch.calls().len(), 0);
}

#[test]
fn the_configuration_is_laid_over_what_the_scheduler_says() {
    let (env, _) = with_site();
    let config = env.root().join("home/config/dlrun/dlrun.toml");
    fs::create_dir_all(config.parent().expect("it has one")).expect("ours");
    fs::write(
        &config,
        "[queues.gpu]\ndefault = true\nmax_walltime = \"2h\"\n",
    )
    .expect("ours");
    let file = env.job("true", "[resources]\nwalltime = \"3h\"\n");
    let done = env.dlrun(["check"]).arg(&file).run().code(65);
    let by = format!(
        "3h is more than queue `gpu` allows; its limit is 2h (by the configuration, {}:1)",
        config.display()
    );
    let _ = done.warns(&by).warns("it would fit queue `batch`");
}

#[test]
fn doctor_shows_queues_and_nodes_and_goes_on_where_the_scheduler_is_down() {
    let (env, _) = with_site();
    let text = env.dlrun(["doctor"]).run().code(0).text();
    let lines: Vec<String> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for line in [
        "ok queues 3 queues, default `batch`",
        "warning queues `old` takes no jobs at present",
        "ok nodes 6 nodes, 6 up",
        "batch (default) up 24h any number all",
        "gpu up 168h 1 to 2 all",
        "2 2 16 CPUs, 62.5GiB, 8 x h100 ib,nvl gpu",
    ] {
        assert!(lines.iter().any(|told| told == line), "{line:?} in\n{text}");
    }
    let told = env.dlrun(["doctor", "--json"]).run().code(0).result();
    assert_eq!(told["site"]["queues"][1]["name"], "gpu", "{told}");
    let down = "slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)\n";
    let _ = env.fake("scontrol").hook("").stderr(down).code(1);
    let told = env.dlrun(["doctor", "--json"]).run().code(78).result();
    let findings = told["findings"].as_array().expect("findings");
    let queues = findings
        .iter()
        .find(|finding| finding["check"] == "queues")
        .expect("it is told");
    assert!(
        queues["level"] == "problem"
            && queues["text"]
                .as_str()
                .is_some_and(|text| text.contains("Unable to contact"))
    );
    assert!(told["site"].is_null() && findings.iter().any(|finding| finding["check"] == "python"));
}

#[test]
fn what_is_kept_and_fresh_is_not_asked_for_again() {
    let env = TestEnv::new();
    let sinfo = with_sinfo(&env);
    keep(&env, &model(now_ms() - 600_000));
    let file = env.job("true", "[resources]\nwalltime = \"12h\"\n");
    let _ = env
        .dlrun(["plan"])
        .arg(&file)
        .run()
        .code(0)
        .says("site: slurm 22.05.8, asked 10 min ago\n");
    let told = env
        .dlrun(["check", "--json"])
        .arg(&file)
        .run()
        .code(0)
        .result();
    assert_eq!(told["site"]["version"], "22.05.8", "{told}");
    let _ = env.dlrun(["submit"]).arg(&file).run().code(0);
    assert_eq!(sinfo.calls().len(), 0);
}

#[test]
fn nobody_is_refused_for_what_was_said_some_time_ago() {
    let env = TestEnv::new();
    let sinfo = with_sinfo(&env);
    keep(&env, &model(now_ms()));
    let file = env.job("true", LONG);
    // The queue has another limit by now.
    let _ = env.dlrun(["check"]).arg(&file).run().code(0);
    assert!(!sinfo.calls().is_empty());
    let site = kept(&env)["site"].clone();
    assert!(
        site["queues"].as_array().expect("a list").is_empty(),
        "the new answer is kept: {site}"
    );
    // A mistake that has nothing to do with the site is no reason to ask.
    keep(&env, &model(now_ms()));
    let before = sinfo.calls().len();
    let wrong = env.job_called("wrong", "true", "[resources]\nnodes = 2\n");
    let _ = env.dlrun(["check"]).arg(&wrong).run().code(65);
    assert_eq!(sinfo.calls().len(), before);
    // No answer now: no check.
    let _ = env
        .fake("sinfo")
        .stderr("Unable to contact slurm controller")
        .code(1);
    let _ = env
        .dlrun(["submit", "-v"])
        .arg(&file)
        .run()
        .code(0)
        .warns("is not compared with the site");
}

#[test]
fn what_is_old_damaged_or_of_another_cluster_is_not_believed() {
    let env = TestEnv::new();
    let sinfo = with_sinfo(&env);
    let file = env.job("true", "");
    let asked = |what: &str, change: &dyn Fn()| {
        keep(&env, &model(now_ms()));
        change();
        let before = sinfo.calls().len();
        let _ = env
            .dlrun(["plan"])
            .arg(&file)
            .run()
            .code(0)
            .says("asked just now");
        assert!(sinfo.calls().len() > before, "{what}");
    };
    asked("old", &|| keep(&env, &model(now_ms() - 3_700_000)));
    asked("from the future", &|| {
        keep(&env, &model(now_ms() + 3_600_000))
    });
    asked("of a newer form", &|| {
        keep(
            &env,
            &SiteModel {
                format: 2,
                ..model(now_ms())
            },
        )
    });
    asked("cut off", &|| {
        fs::write(kept_file(&env), "{\"asked_of\": [], \"si").expect("ours")
    });
    asked("open to others", &|| {
        fs::set_permissions(env.state(), fs::Permissions::from_mode(0o777)).expect("ours");
    });
    fs::set_permissions(env.state(), fs::Permissions::from_mode(0o700)).expect("ours");
    keep(&env, &model(now_ms()));
    let before = sinfo.calls().len();
    for (name, value) in [
        ("SLURM_CLUSTERS", "other"),
        ("DLRUN_SCHEDULER__CACHE_MINUTES", "0"),
    ] {
        let _ = env
            .dlrun(["plan"])
            .arg(&file)
            .env(name, value)
            .run()
            .code(0)
            .says("asked just now");
    }
    assert!(sinfo.calls().len() >= before + 2);
}

#[test]
fn a_submission_keeps_the_answer_and_a_plan_makes_nothing() {
    let env = TestEnv::new();
    let sinfo = with_sinfo(&env);
    let file = env.job("true", "");
    let _ = env.dlrun(["plan"]).arg(&file).run().code(0);
    assert!(!env.state().exists());
    // The first one makes the directory, the second keeps the answer.
    for _ in 0..2 {
        let _ = env.dlrun(["submit"]).arg(&file).run().code(0);
    }
    assert_eq!(kept(&env)["site"]["version"], "22.05.8");
    let mode = kept_file(&env)
        .metadata()
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let calls = sinfo.calls().len();
    let _ = env.dlrun(["submit"]).arg(&file).run().code(0);
    assert_eq!(sinfo.calls().len(), calls);
}

#[test]
fn no_check_and_render_ask_nobody_and_refuse_nothing() {
    let env = TestEnv::new();
    let sinfo = with_sinfo(&env);
    let file = env.job("true", LONG);
    let _ = env.dlrun(["render"]).arg(&file).run().code(0);
    let _ = env.dlrun(["submit", "--no-check"]).arg(&file).run().code(0);
    assert_eq!(sinfo.calls().len(), 0);
}

#[test]
fn a_scheduler_that_hangs_holds_nobody_up() {
    let env = TestEnv::new();
    let _ = with_sinfo(&env).hang();
    let file = env.job("true", "");
    let submitted = env
        .dlrun(["submit"])
        .arg(&file)
        .env("DLRUN_SLURM__TIMEOUT_SECONDS", "1")
        .run();
    let _ = submitted.code(0).says("job 4711");
}

#[test]
fn rules_that_go_by_the_default_queue_hold_in_every_verb() {
    let (env, _) = with_site();
    let config = env.root().join("home/config/dlrun/dlrun.toml");
    fs::create_dir_all(config.parent().expect("it has one")).expect("ours");
    let rule =
        "[[rules]]\nname = \"r\"\nwhen = { queue = \"batch\" }\nset = { env = { FAST = \"1\" } }\n";
    fs::write(&config, rule).expect("ours");
    let file = env.job("true", LONG);
    let rendered = env.dlrun(["render"]).arg(&file).run().code(0).text();
    assert!(rendered.contains("FAST"), "{rendered}");
    let _ = env.dlrun(["submit", "--no-check"]).arg(&file).run().code(0);
    let run = env.only_run_dir();
    let handed_over = fs::read_to_string(run.join("job.sh")).expect("it was kept");
    let id = run.file_name().and_then(|id| id.to_str()).expect("an id");
    assert_eq!(
        handed_over.replacen(&format!("\nexport DLRUN_RUN_ID={id}\n"), "", 1),
        rendered
    );
}
