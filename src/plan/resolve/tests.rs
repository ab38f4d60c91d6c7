//! Plans out of job files, settings and facts.

use std::path::PathBuf;

use super::*;
use crate::config::site::{NodeType, Queue, SiteModel};
use crate::config::{Fragment, Key};
use crate::foundation::units::Walltime;
use crate::image::python::EnvFacts;
use crate::job::Overrides;
use crate::plan::secrets::shown_overrides;
use crate::plan::{Decision, SchedulerFacts, ScriptFacts};

pub(in crate::plan) fn facts() -> SiteFacts {
    let facts = SiteFacts::unknown("/home/u/my job.toml".into());
    SiteFacts {
        hold_against_site: true,
        cpus: Some(2),
        user: "ann".into(),
        ..facts
    }
}

fn with_slurm(environment: &[(&str, &str)]) -> SiteFacts {
    let environment = environment
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect();
    let slurm = SchedulerFacts {
        kind: SchedulerKind::Slurm,
        command: "/usr/bin/sbatch".into(),
        environment,
    };
    SiteFacts {
        schedulers: vec![slurm],
        ..facts()
    }
}

fn settings(set: &[(&str, &str, Origin)]) -> Settings {
    let mut fragment = Fragment::default();
    for (name, value, origin) in set {
        fragment.add(Key::named(name).expect("a setting"), value, origin.clone());
    }
    let defaults = Some(PathBuf::from("/home/u/.local/state/dlrun"));
    Settings::merge(defaults, &[fragment]).expect("settings")
}

fn resolved(lines: &str, settings: &Settings, facts: &SiteFacts) -> Result<Plan, Vec<Problem>> {
    let spec = crate::job::parse(&format!("[run]\ncommand = [\"true\"]\n{lines}"))
        .expect("a valid job file");
    resolve(&spec, settings, facts)
}

fn plan(lines: &str, facts: &SiteFacts) -> Plan {
    resolved(lines, &settings(&[]), facts).expect("a plan")
}

fn problem(lines: &str, facts: &SiteFacts) -> String {
    resolved(lines, &settings(&[]), facts)
        .expect_err("a contradiction")
        .remove(0)
        .message
}

fn decision<'a>(plan: &'a Plan, what: &str) -> &'a Decision {
    plan.decisions
        .iter()
        .find(|decision| decision.what == what)
        .expect("it is decided")
}

#[test]
fn a_found_scheduler_takes_the_job_and_none_is_said_loudly() {
    assert_eq!(plan("", &with_slurm(&[])).scheduler, SchedulerKind::Slurm);
    let local = plan("", &facts());
    assert_eq!(local.scheduler, SchedulerKind::Local);
    assert!(
        local.warnings[0].contains("THIS machine"),
        "{:?}",
        local.warnings
    );
}

#[test]
fn script_runs_by_what_its_first_line_names() {
    let command = |interpreter: Option<&[&str]>| {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let script = ScriptFacts {
            path: "/home/u/a.sh".into(),
            interpreter: interpreter.map(words),
        };
        let facts = SiteFacts {
            script: Some(script),
            ..facts()
        };
        let spec = crate::job::parse("[run]\nscript = \"a.sh\"\n").expect("a valid job file");
        resolve(&spec, &settings(&[]), &facts)
            .expect("a plan")
            .command
    };
    assert_eq!(command(None), ["/home/u/a.sh"]);
    assert_eq!(command(Some(&[])), ["/bin/bash", "/home/u/a.sh"]);
    assert_eq!(command(Some(&["/bin/sh"])), ["/bin/sh", "/home/u/a.sh"]);
    assert_eq!(
        command(Some(&["/usr/bin/env", "-S bash -e"])),
        ["/usr/bin/env", "-S bash -e", "/home/u/a.sh"]
    );
}

#[test]
fn flag_beats_job_file_beats_setting() {
    let flag = Origin::Flag {
        flag: "--scheduler".into(),
    };
    let file = Origin::File {
        path: "/etc/dlrun/dlrun.toml".into(),
        line: 1,
    };
    let job = "[scheduler]\nkind = \"slurm\"\n";
    let kind = |settings: &Settings, job: &str| {
        resolved(job, settings, &facts()).expect("a plan").scheduler
    };
    assert_eq!(
        kind(&settings(&[("scheduler.kind", "local", flag)]), job),
        SchedulerKind::Local
    );
    assert_eq!(
        kind(&settings(&[("scheduler.kind", "local", file.clone())]), job),
        SchedulerKind::Slurm
    );
    assert_eq!(
        kind(&settings(&[("scheduler.kind", "slurm", file)]), ""),
        SchedulerKind::Slurm
    );
}

#[test]
fn the_file_name_becomes_a_usable_name() {
    let name = |file: &str| {
        plan(
            "",
            &SiteFacts {
                job_file: file.into(),
                ..facts()
            },
        )
        .name
    };
    assert_eq!(name("/home/u/my job.toml"), "my-job");
    assert_eq!(name("/home/u/..toml"), "job");
    assert_eq!(name("/home/u/-.toml"), "job");
}

#[test]
fn auto_leaves_the_line_out_where_nothing_is_known_of_the_queue_and_says_so() {
    let plan = plan(
        "[resources]\nmemory = \"auto\"\nwalltime = \"auto\"\n",
        &with_slurm(&[]),
    );
    assert_eq!(
        (plan.resources.memory, plan.resources.walltime),
        (None, None)
    );
    assert!(
        decision(&plan, "memory")
            .why
            .contains("no run of this program is recorded")
    );
}

#[test]
fn the_environment_is_explained_with_what_was_rejected() {
    let python = EnvFacts {
        dir: "/home/u/env".into(),
        ready: false,
        interpreter: "/usr/bin/python3".into(),
        version: String::new(),
        hash: String::new(),
        requirements: "/home/u/requirements.txt".into(),
    };
    let mut facts = SiteFacts {
        python: Some(python),
        ..facts()
    };
    let plan = plan("", &facts);
    let decision = decision(&plan, "environment");
    assert_eq!(decision.value, "python environment /home/u/env");
    assert!(
        decision.why.contains("no container runtime"),
        "{}",
        decision.why
    );
    assert_eq!(decision.rejected.len(), 2);

    // A name that is not clear keeps the environment: it may give the software.
    facts.images.frameworks.push("pytorch".to_owned());
    let unclear = self::plan("[framework]\nname = \"torch\"\n", &facts);
    assert_eq!(unclear.python_env.as_deref(), Some("/home/u/env"));
    assert!(
        unclear
            .warnings
            .iter()
            .any(|warning| warning.contains("`framework.name`"))
    );
}

#[test]
fn the_way_to_the_daemon_travels_in_the_plan() {
    let asked = plan("", &facts());
    assert_eq!(
        asked.daemon_socket.as_deref(),
        Some("/run/dlrun/dlrund.sock")
    );
    let origin = Origin::Environment {
        variable: "DLRUN_MONITOR__DAEMON".into(),
    };
    let set = [
        ("monitor.daemon", "off", origin.clone()),
        ("monitor.process_interval_ms", "700", origin.clone()),
        ("monitor.nvml_library", "/opt/nvml.so", origin),
    ];
    let off = resolved("", &settings(&set), &facts()).expect("a plan");
    assert_eq!(
        (off.daemon_socket.as_deref(), off.process_interval_ms),
        (None, 700)
    );
    assert_eq!(off.nvml_library.as_deref(), Some("/opt/nvml.so"));
}

#[test]
fn plans_from_before_the_daemon_are_read() {
    let mut json: serde_json::Value =
        serde_json::from_str(&plan("", &facts()).to_json()).expect("JSON");
    let fields = json.as_object_mut().expect("an object");
    for name in ["process_interval_ms", "daemon_socket", "nvml_library"] {
        assert!(fields.remove(name).is_some(), "{name}");
    }
    let old: Plan = serde_json::from_value(json).expect("a plan");
    assert_eq!(
        (old.daemon_socket, old.nvml_library, old.process_interval_ms),
        (None, None, 5000)
    );
}

#[test]
fn tasks_are_named_and_overrides_are_kept_without_secrets() {
    let plan = plan("[resources]\ntasks = 3\n", &with_slurm(&[]));
    let decision = plan
        .decisions
        .iter()
        .find(|decision| decision.what == "tasks");
    assert_eq!(decision.map(|decision| decision.value.as_str()), Some("3"));
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    let given = Overrides {
        set: words(&["run.env.API_TOKEN=abc", "run.env.LR=1"]),
        name: None,
        arguments: words(&[
            "--password=x",
            "--hf-token",
            "y",
            "--lr",
            "0.5",
            "--tokens",
            "7",
        ]),
    };
    let shown = shown_overrides(&given);
    let expected = [
        "--set run.env.API_TOKEN=***",
        "--set run.env.LR=1",
        "-- --password=*** --hf-token *** --lr 0.5 --tokens 7",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn contradictions_are_found_before_anything_is_queued() {
    assert!(problem("[resources]\nnodes = 2\n", &with_slurm(&[])).contains("need a launcher"));
    let spread = problem("[resources]\ntasks = 2\ntasks_per_node = 1\n", &facts());
    assert!(spread.contains("need a launcher"), "{spread}");
    assert!(
        problem("launcher = \"each\"\n[resources]\nnodes = 2\n", &facts())
            .contains("a local job has one node")
    );
    assert!(problem("[timing]\nepoch = \"(\"\n", &facts()).contains("timing.epoch"));
    assert!(
        problem(
            "[scheduler]\ndirectives = [\"--output=x\"]\n",
            &with_slurm(&[])
        )
        .contains("dlrun's own")
    );
    let twice = "[resources]\nwalltime = \"1h\"\n[scheduler]\ndirectives = [\"--time=5\"]\n";
    assert!(problem(twice, &with_slurm(&[])).contains("`--time=5` and `resources.walltime`"));
    assert!(
        problem(
            "[scheduler]\narguments = [\"--export\"]\n",
            &with_slurm(&[])
        )
        .contains("one word")
    );
    let long = format!("env = {{ A = \"{}\" }}\n", "x".repeat(MAX_PLAN_BYTES));
    assert!(problem(&long, &facts()).contains("is the limit"));
}

pub(in crate::plan) fn with_site(environment: &[(&str, &str)]) -> SiteFacts {
    let queue = |name: &str, hours: u64| Queue {
        name: name.into(),
        is_default: name == "batch",
        is_up: true,
        max_walltime: Some(Walltime(hours * 3600)),
        ..Queue::default()
    };
    let node = NodeType {
        count: 4,
        up: 2,
        cpus: Some(16),
        ..NodeType::default()
    };
    let site = SiteModel {
        format: SiteModel::FORMAT,
        scheduler: SchedulerKind::Slurm,
        version: None,
        asked_at_ms: 0,
        accounting: None,
        accounts_memory: None,
        max_array_index: Some(1000),
        max_array_elements: None,
        queues: vec![queue("batch", 24), queue("long", 168)],
        nodes: vec![node],
        licenses: Vec::new(),
        mpi: None,
    };
    SiteFacts {
        site: Some(site),
        ..with_slurm(environment)
    }
}

#[test]
fn part_of_a_gpu_is_asked_for_where_scheduler_and_site_have_it() {
    let gpus = [("v100", 4), ("1g.10gb", 2), ("shard", 16)];
    let mut facts = with_site(&[]);
    let site = facts.site.as_mut().expect("a site");
    site.nodes[0].gpus = gpus.map(|(kind, count)| (kind.to_owned(), count)).to_vec();
    let of = |lines: &str, facts: &SiteFacts| {
        let lines = format!("[resources]\n{lines}");
        let plan = resolved(&lines, &settings(&[]), facts);
        plan.map_err(|mut problems| format!("{:?}", problems.remove(0)))
    };
    for (asked, gres, gpus) in [
        ("shard:4", "shard:4", 1),
        ("mig:1g.10gb", "gpu:1g.10gb:1", 1),
        ("mig:1g.10gb:2", "gpu:1g.10gb:2", 2),
        ("v100:4", "gpu:v100:4", 4),
    ] {
        let plan = of(&format!("gpus_per_node = \"{asked}\""), &facts).expect("a plan");
        let script = crate::scheduler::script::render(&plan);
        assert!(
            script.contains(&format!("#SBATCH --gres={gres}\n")),
            "{script}"
        );
        let identity = plan.identity.expect("a command").asked;
        assert_eq!(identity.gpus, Some(gpus), "{asked}");
    }
    let each = of(
        "gpus_per_task = \"mig:1g.10gb\"\ntasks_per_node = 2",
        &facts,
    );
    let each = crate::scheduler::script::render(&each.expect("a plan"));
    assert!(
        each.contains("#SBATCH --gpus-per-task=1g.10gb:1\n"),
        "{each}"
    );
    for (asked, why) in [
        ("gpus_per_node = \"shard:17\"", "has 17 x shard"),
        (
            "gpus_per_node = \"mps:50\"",
            "shard (16 a node), v100 (4 a node)",
        ),
        ("gpus_per_node = \"mig:2g.20gb\"", "1 GPU of type `2g.20gb`"),
        ("gpus_per_node = 17", "has 17 GPUs"),
        ("gpus_per_task = \"shard:2\"", "to nodes, not to tasks"),
    ] {
        let problem = of(asked, &facts).expect_err(asked);
        assert!(problem.contains(why), "{problem}");
    }
    // Two whole GPUs, or a share by another name, is not what these ask for.
    for wrong in ["mig:2", "mig:shard:4", "mig:mps:50", "mig:"] {
        let text =
            format!("[run]\ncommand = [\"true\"]\n[resources]\ngpus_per_node = \"{wrong}\"\n");
        let problems = crate::job::parse(&text).expect_err(wrong);
        assert!(
            problems[0].message.contains("is not a number of GPUs"),
            "{wrong}"
        );
    }
    for kind in ["torque", "openpbs", "local"] {
        let lines = format!("gpus_per_node = \"mps:50\"\n[scheduler]\nkind = \"{kind}\"");
        let problem = of(&lines, &facts).expect_err(kind);
        assert!(problem.contains("gives whole GPUs"), "{problem}");
    }
}

#[test]
fn time_limit_may_be_raised_within_what_job_site_and_queue_allow() {
    let origin = |name: &str| Origin::Environment {
        variable: name.into(),
    };
    let of = |hours: &str, lines: &str| {
        let set = [("limits.extend_up_to_hours", hours, origin("HOURS"))];
        let lines = format!("[resources]\n{lines}");
        let plan = resolved(&lines, &settings(&set), &with_site(&[])).expect("a plan");
        let why = decision(&plan, "walltime_up_to").why.clone();
        (
            plan.extend_up_to.map(|most| most / 3600),
            why,
            plan.warnings,
        )
    };
    let asked = "walltime = \"8h\"\nwalltime_up_to = \"30h\"\n";
    let long = format!("{asked}queue = \"long\"\n");
    assert_eq!(of("48", &long), (Some(30), JOB_FILE.into(), Vec::new()));
    let (most, why, _) = of("48", asked);
    assert_eq!((most, &*why), (Some(24), "queue `batch` allows no more"));
    assert_eq!(of("20", &long).0, Some(20));
    let (most, why, warnings) = of("0", &long);
    assert_eq!(most, None);
    assert_eq!(why, "`limits.extend_up_to_hours` = 0 ($HOURS)");
    assert!(warnings[0].starts_with("without effect: walltime_up_to = 30h"));
    for wrong in [
        "walltime_up_to = \"2h\"",
        "walltime = \"2h\"\nwalltime_up_to = \"2h\"",
    ] {
        let text = format!("[run]\ncommand = [\"true\"]\n[resources]\n{wrong}\n");
        let faults = crate::job::parse(&text).expect_err("nothing to raise");
        assert!(faults[0].message.contains("needs a `resources.walltime`"));
    }
}

#[test]
fn a_job_that_does_not_fit_the_site_is_refused_at_its_key() {
    let lines = "[resources]\nwalltime = \"48h\"\ncpus_per_task = 17\n";
    let faults = resolved(lines, &settings(&[]), &with_site(&[])).expect_err("it does not fit");
    let job = format!("[run]\ncommand = [\"true\"]\n{lines}");
    let told: Vec<(&str, &str)> = faults
        .iter()
        .map(|fault| (&job[fault.span.clone().expect("a place")], &*fault.message))
        .collect();
    assert_eq!(told[0].0, "\"48h\"");
    assert!(
        told[0]
            .1
            .starts_with("`resources.walltime`: 48h (2 days) is more than queue `batch` allows"),
        "{told:?}"
    );
    assert_eq!(
        told[1],
        (
            "17",
            "`resources.cpus_per_task`: no node of queue `batch` has 17 CPUs; the nearest has 16 CPUs"
        )
    );
    // What is in no line of the job file is told with where it comes from.
    let origin = Origin::Environment {
        variable: "DLRUN_DEFAULTS__QUEUE".into(),
    };
    let settings = settings(&[("defaults.queue", "lang", origin)]);
    let fault = resolved("", &settings, &with_site(&[]))
        .expect_err("there is none")
        .remove(0);
    assert_eq!(
        fault.message,
        "`resources.queue`: there is no queue `lang` ($DLRUN_DEFAULTS__QUEUE says so)"
    );
    assert!(fault.span.is_none() && fault.hint.is_some_and(|hint| hint.contains("`long`")));
}

#[test]
fn what_decides_outside_of_the_job_file_is_minded() {
    let two_days = "[resources]\nwalltime = \"48h\"\n";
    let fits = |environment: &[(&str, &str)], lines: &str| {
        resolved(lines, &settings(&[]), &with_site(environment)).is_ok()
    };
    assert!(!fits(&[], two_days));
    assert!(fits(&[("SBATCH_PARTITION", "long")], two_days));
    assert!(fits(&[("SBATCH_CLUSTERS", "other")], two_days));
    assert!(fits(&[("SBATCH_QOS", "long")], two_days));
    for option in ["-plong", "--partition=long", "--qos=long", "-M other"] {
        let lines = format!("{two_days}[scheduler]\narguments = [\"{option}\"]\n");
        assert!(fits(&[], &lines), "{option}");
    }
    let local = settings(&[(
        "scheduler.kind",
        "local",
        Origin::Flag {
            flag: "--scheduler".into(),
        },
    )]);
    assert!(
        resolved(two_days, &local, &with_site(&[])).is_ok(),
        "another scheduler's site does not count"
    );
}

#[test]
fn what_a_local_job_has_no_use_for_is_named() {
    let plan = plan(
        "[resources]\nqueue = \"gpu\"\nqos = \"long\"\ncpus_per_task = 64\n",
        &facts(),
    );
    assert!(
        plan.warnings
            .iter()
            .any(|warning| warning.contains("queue, qos")),
        "{:?}",
        plan.warnings
    );
    assert!(
        plan.warnings
            .iter()
            .any(|warning| warning.contains("this machine has 2")),
        "{:?}",
        plan.warnings
    );
}

#[test]
fn the_environment_that_slurm_listens_to_is_named_and_does_not_travel() {
    let facts = with_slurm(&[("SBATCH_JOB_NAME", "x"), ("SBATCH_PARTITION", "debug")]);
    let holds = plan("", &facts);
    assert!(
        holds.warnings[0].contains("SBATCH_PARTITION=debug"),
        "{:?}",
        holds.warnings
    );
    assert!(
        holds.notes[0].contains("`name` of the job holds"),
        "{:?}",
        holds.notes
    );
    assert!(!holds.to_json().contains("SBATCH_"));
    let beaten = plan("[resources]\nqueue = \"gpu\"\n", &facts);
    assert_eq!((beaten.warnings.len(), beaten.notes.len()), (0, 2));
    assert!(
        beaten.notes[1].contains("SBATCH_PARTITION=debug") && beaten.notes[1].contains("`queue`")
    );
}

#[test]
fn a_misspelt_part_of_a_gpu_is_named_and_types_of_gpus_are_left_alone() {
    let parsed = |gpus: &str| {
        let text =
            format!("[run]\ncommand = [\"true\"]\n[resources]\ngpus_per_node = \"{gpus}\"\n");
        crate::job::parse(&text)
    };
    for (wrong, meant) in [
        ("shards:4", "shard:4"),
        ("Shard:1", "shard:1"),
        ("MPS:50", "mps:50"),
    ] {
        let problems = parsed(wrong).expect_err(wrong);
        let meant = format!("did you mean `{meant}`?");
        assert!(problems[0].message.contains(&meant), "{problems:?}");
    }
    for kind in ["spark:1", "shared:2", "card:1"] {
        assert!(parsed(kind).is_ok(), "{kind}");
    }
}
