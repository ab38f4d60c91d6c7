//! Plans of jobs that leave their limits open, with histories.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::config::Settings;
use crate::job::{JobState, RunId};
use crate::plan::resolve::tests::with_site;
use crate::plan::{Decision, History, Named, Plan, SiteFacts, identity_of, resolve};
use crate::record::Past;

const GIB: u64 = 1 << 30;
const JOB: &str = "[run]\ncommand = [\"python\", \"train.py\", \"--epochs\", \"5\"]\n[resources]\nmemory = \"auto\"\nwalltime = \"auto\"\n";

/// Queue `batch` allows a day, `long` a week; four nodes of 16 CPUs and 64 GiB.
fn facts() -> SiteFacts {
    let mut facts = with_site(&[]);
    let site = facts.site.as_mut().expect("a site");
    site.nodes[0].memory = Some(Bytes(64 * GIB));
    site.accounts_memory = Some(true);
    let script = Named::File {
        path: "/home/u/train.py".into(),
        bytes: 9,
        digest: Some("d1".into()),
        executable: false,
    };
    facts.named.insert("train.py".into(), script);
    facts
}

fn plan(job: &str, facts: &SiteFacts) -> Plan {
    let defaults = Some(PathBuf::from("/home/u/.local/state/dlrun"));
    let settings = Settings::merge(defaults, &[]).expect("settings");
    resolve(
        &crate::job::parse(job).expect("a valid job file"),
        &settings,
        facts,
    )
    .expect("a plan")
}

/// Each call another run.
fn another() -> RunId {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let mut bits = [0; 10];
    bits[2..].copy_from_slice(&LAST.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    RunId::from_random(bits)
}

/// A run of a job file as it would be recorded.
fn ran(job: &str, facts: &SiteFacts, seconds: f64, state: JobState) -> Past {
    let plan = plan(job, facts);
    Past {
        run_id: another(),
        at_ms: 0,
        identity: plan.identity.expect("each plan has one"),
        scheduler: plan.scheduler,
        host: String::new(),
        state,
        wall_seconds: Some(seconds),
        memory_bytes: Some(GIB),
    }
}

fn after(past: Vec<Past>) -> SiteFacts {
    SiteFacts {
        history: History {
            past,
            ..History::default()
        },
        ..facts()
    }
}

fn decision<'a>(plan: &'a Plan, what: &str) -> &'a Decision {
    plan.decisions
        .iter()
        .find(|decision| decision.what == what)
        .expect("it is decided")
}

fn limits(plan: &Plan) -> (Option<u64>, Option<u64>) {
    (
        plan.resources.walltime.map(|limit| limit.0),
        plan.resources.memory.map(|memory| memory.0 >> 20),
    )
}

const DONE: JobState = JobState::Completed;

#[test]
fn limits_come_from_runs_that_are_alike_and_say_so() {
    let runs = [300.0, 335.0, 310.0, 320.0].map(|seconds| ran(JOB, &facts(), seconds, DONE));
    let acted = plan(JOB, &after(runs.to_vec()));
    // 335 s, half as much again, and a minute; 1 GiB and three tenths.
    assert_eq!(limits(&acted), (Some(600), Some(1536)));
    assert_eq!(
        decision(&acted, "walltime").why,
        "same script, same arguments: 4 runs, the longest took 5 min 35 s; half as much again and 60 s for the job's end, rounded up"
    );
    assert_eq!(
        decision(&acted, "memory").why,
        "same script, same arguments: 4 runs, the largest had 1GiB; three tenths more, rounded up to 256MiB"
    );
    let identity = acted.identity.expect("each plan has one");
    assert_eq!(identity.asked.walltime_seconds, Some(600));
    assert!(identity.asked.queue.is_none() && acted.warnings.is_empty());
}

#[test]
fn without_runs_that_are_alike_the_queue_and_the_nodes_decide() {
    let none = plan(JOB, &facts());
    assert_eq!(limits(&none), (Some(86_400), Some(4096)));
    assert_eq!(
        decision(&none, "walltime").why,
        "queue `batch` allows 24h; no run of this program is recorded"
    );
    let why = &decision(&none, "memory").why;
    assert!(
        why.starts_with("the job's share of the memory of a node with 16 CPUs, 64GiB; no run"),
        "{why}"
    );

    let other = JOB.replace("\"5\"", "\"50\"");
    let near = plan(
        &other,
        &after(vec![
            ran(JOB, &facts(), 60.0, DONE),
            ran(JOB, &facts(), 90.0, DONE),
        ]),
    );
    assert_eq!(limits(&near).0, Some(86_400));
    let why = &decision(&near, "walltime").why;
    assert!(
        why.contains("of the nearest runs epochs is 50 where 5 ran"),
        "{why}"
    );

    let one = plan(JOB, &after(vec![ran(JOB, &facts(), 60.0, DONE)]));
    assert_eq!(limits(&one), (Some(86_400), Some(4096)));
    assert!(
        decision(&one, "walltime")
            .why
            .ends_with("two measured runs like it are needed, one of which completed")
    );

    let long = plan(
        &JOB.replace("[resources]", "[resources]\nqueue = \"long\""),
        &facts(),
    );
    assert_eq!(limits(&long).0, Some(7 * 86_400));
}

#[test]
fn what_the_site_does_not_tell_is_left_out_with_the_reason() {
    let mut facts = facts();
    let site = facts.site.as_mut().expect("a site");
    site.accounts_memory = Some(false);
    site.queues[0].max_walltime = None;
    site.queues[0].default_walltime = Some(Walltime(3600));
    let open = plan(JOB, &facts);
    assert_eq!(limits(&open), (None, None));
    assert!(
        decision(&open, "memory")
            .why
            .starts_with("the scheduler does not account memory here")
    );
    assert!(
        decision(&open, "walltime")
            .why
            .starts_with("queue `batch` reports no longest time")
    );
    assert!(
        open.warnings[0].contains("queue `batch` gives 60m to jobs that ask for none")
            || open.warnings[0].contains("gives 1h"),
        "{:?}",
        open.warnings
    );
    let unknown = plan(
        JOB,
        &SiteFacts {
            site: None,
            ..facts.clone()
        },
    );
    assert_eq!(limits(&unknown), (None, None));
    assert!(
        decision(&unknown, "walltime")
            .why
            .starts_with("the queue is not known")
    );
    let local = plan(
        JOB,
        &SiteFacts {
            schedulers: Vec::new(),
            site: None,
            ..facts
        },
    );
    assert_eq!(limits(&local), (None, None));
    assert!(
        decision(&local, "walltime")
            .why
            .starts_with("a local job needs none")
    );
}

#[test]
fn the_share_of_memory_goes_by_cpus_or_gpus_whichever_is_more() {
    let share = |resources: &str| {
        let mut facts = facts();
        facts.site.as_mut().expect("a site").nodes[0].gpus = vec![("a100".into(), 4)];
        limits(&plan(
            &JOB.replace("[resources]", &format!("[resources]\n{resources}")),
            &facts,
        ))
        .1
        .expect("known")
            / 1024
    };
    assert_eq!(share("cpus_per_task = 4"), 16);
    assert_eq!(share("tasks_per_node = 8"), 32);
    assert_eq!(share("gpus_per_node = 2"), 32);
    assert_eq!(share("exclusive = true"), 64);
}

#[test]
fn the_kind_of_node_that_serves_the_job_and_is_commonest_counts() {
    let mut facts = facts();
    let nodes = &mut facts.site.as_mut().expect("a site").nodes;
    nodes[0].up = 4;
    nodes.push(NodeType {
        count: 1,
        up: 1,
        cpus: Some(16),
        memory: Some(Bytes(1024 * GIB)),
        ..NodeType::default()
    });
    let large = NodeType {
        cpus: Some(64),
        memory: Some(Bytes(128 * GIB)),
        count: 2,
        up: 2,
        ..NodeType::default()
    };
    nodes.push(large);
    assert_eq!(limits(&plan(JOB, &facts)).1, Some(4096));
    let wide = JOB.replace("[resources]", "[resources]\ncpus_per_task = 32");
    assert_eq!(limits(&plan(&wide, &facts)).1, Some(64 << 10));
}

#[test]
fn limits_are_cut_to_what_the_site_has_with_a_warning_where_that_is_too_little() {
    let runs: Vec<Past> = [80_000.0, 90_000.0]
        .map(|seconds| ran(JOB, &facts(), seconds, DONE))
        .to_vec();
    let mut facts = after(runs);
    facts.site.as_mut().expect("a site").nodes[0].memory = Some(Bytes(512 << 20));
    let cut = plan(JOB, &facts);
    assert_eq!(limits(&cut), (Some(86_400), Some(512)));
    assert!(
        decision(&cut, "walltime")
            .why
            .ends_with("to the longest that the queue allows")
    );
    let warned = cut.warnings.join("\n");
    assert!(
        warned.contains("walltime = 24h is the queue's longest")
            && warned.contains("may be cut off"),
        "{warned}"
    );
    assert!(
        warned.contains("memory = 512MiB is the largest node's"),
        "{warned}"
    );
}

#[test]
fn a_run_that_auto_cut_off_raises_the_limit_until_the_queue_ends_it() {
    let mut past = vec![ran(JOB, &facts(), 5.0, DONE), ran(JOB, &facts(), 5.0, DONE)];
    let mut before = 0;
    let mut climbed = 0;
    loop {
        let next = plan(JOB, &after(past.clone()));
        let limit = limits(&next).0.expect("a limit");
        if limit == 86_400 {
            break;
        }
        assert!(limit > before, "{limit} after {before}");
        (before, climbed) = (limit, climbed + 1);
        let mut cut = ran(JOB, &facts(), limit as f64, JobState::Timeout);
        cut.identity = next.identity.expect("each plan has one");
        past.push(cut);
    }
    assert!((3..20).contains(&climbed), "{climbed}");
}

#[test]
fn queues_that_are_named_elsewhere_count() {
    let mut facts = facts();
    facts.schedulers[0]
        .environment
        .push(("SBATCH_PARTITION".into(), "long".into()));
    assert_eq!(limits(&plan(JOB, &facts)).0, Some(7 * 86_400));
    let both = JOB.replace("[resources]", "[resources]\nqueue = \"batch,long\"");
    assert_eq!(
        limits(&plan(&both, &self::facts())).0,
        Some(7 * 86_400),
        "any may take it"
    );
}

#[test]
fn records_that_cannot_be_read_are_told() {
    let history = History {
        unread: Some("it is locked".into()),
        ..History::default()
    };
    let open = plan(JOB, &SiteFacts { history, ..facts() });
    assert_eq!(limits(&open).0, Some(86_400));
    assert!(
        decision(&open, "walltime")
            .why
            .ends_with("the records could not be read (it is locked)")
    );
}

proptest! {
    /// Whatever else is recorded, a limit is the queue's own or above all that runs like the job took.
    #[test]
    fn no_limit_is_below_what_like_runs_took(
        runs in prop::collection::vec((0_usize..4, 1.0..40_000.0, any::<bool>()), 0..12),
    ) {
        let jobs = [
            JOB.to_owned(),
            JOB.replace("\"5\"", "\"7\""),
            JOB.replace("train.py", "other.py"),
            JOB.replace("\"--epochs\"", "\"--fast\", \"--epochs\""),
        ];
        let past: Vec<Past> = runs.iter().map(|(job, seconds, done)| {
            ran(&jobs[*job], &facts(), *seconds, if *done { DONE } else { JobState::Failed })
        }).collect();
        let own = plan(JOB, &after(past));
        let limit = own.resources.walltime.expect("the queue has one").0;
        let alike: Vec<f64> = runs.iter().filter(|(job, ..)| *job == 0).map(|(_, seconds, _)| *seconds).collect();
        // Those with 7 epochs are runs of the same; but 5 must lie in what completed.
        let counted = runs.iter().filter(|(job, ..)| *job <= 1).count();
        let is_enough = counted >= 2 && runs.iter().any(|(job, _, done)| *job == 0 && *done);
        if !is_enough {
            prop_assert_eq!(limit, 86_400);
        }
        prop_assert!(alike.iter().all(|seconds| *seconds < limit as f64));
    }
}

#[test]
fn the_identity_does_not_depend_on_history_or_model() {
    let spec = crate::job::parse(JOB).expect("a valid job file");
    let (one, other) = (facts(), after(vec![ran(JOB, &facts(), 5.0, DONE)]));
    assert_eq!(identity_of(&spec, &one), identity_of(&spec, &other));
}
