//! `dlrun check --run`: one all-reduce of the framework on the nodes that a job asks for, with its launcher and image, before time
//! is spent on the training.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::app::cancel::cancel;
use crate::app::error::{Error, Kind, failure};
use crate::app::interrupt;
use crate::app::job::load::Job;
use crate::app::job::submit::{new_run_id, prepare, submit};
use crate::app::session::Session;
use crate::app::tail::tail;
use crate::app::track::{Tracked, Tracker};
use crate::app::wait::{self, Watched};
use crate::foundation::command::{find, is_python};
use crate::foundation::units::Walltime;
use crate::job::{EnvVar, JobState, Launcher, RunId};
use crate::launch::{Roles, Shape};
use crate::plan::Plan;
use crate::record::{NodeRecord, RankRecord, Status};

/// The program that takes the training's place.
const PROBE: &str = include_str!("check_run.py");
/// Its answer begins with this.
const MARK: &str = "dlrun-check ";
/// How long ranks may take to import their framework and meet, in seconds.
const PATIENCE: u32 = 180;
/// The time limit of the job, unless it asks for less.
const WALLTIME: Walltime = Walltime(600);
/// The variable that holds the program, and the Python that starts it: a command line of some words.
const VARIABLE: &str = "DLRUN_CHECK";
const START: &str = "import os; exec(os.environ['DLRUN_CHECK'])";
/// Bytes at the end of a rank's output in which its answer is looked for.
const END_BYTES: u64 = 256 << 10;

/// What one rank answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct Answer {
    /// What it did last: `import`, `initialise`, `all-reduce`, `end`.
    stage: String,
    error: Option<String>,
    /// The interpreter.
    python: Option<String>,
    framework: Option<String>,
    backend: Option<String>,
    /// Ranks that it sees.
    world: Option<u32>,
    /// GPUs that it sees.
    gpus: Option<u32>,
    /// The GPU that it computes on: its UUID, or its number among those that it sees.
    device: Option<String>,
    /// Whether Horovod has NCCL.
    nccl: Option<bool>,
    /// The sum over all ranks of a one from each.
    sum: Option<f64>,
    /// Median time of an all-reduce of one number.
    small_seconds: Option<f64>,
    /// Median time of an all-reduce of `large_bytes`.
    large_seconds: Option<f64>,
    large_bytes: Option<u64>,
}

/// One rank with its answer; none where it said nothing.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CheckedRank {
    rank: u32,
    node: String,
    answer: Option<Answer>,
}

/// What the check found.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunChecked {
    run_id: RunId,
    state: JobState,
    ranks: Vec<CheckedRank>,
    /// What would break, each with the next step.
    pub(crate) problems: Vec<String>,
}

/// Submits the check in place of a job that was loaded, waits for it, and reads what its ranks say.
///
/// # Errors
/// Where the job's launcher starts no ranks, or the check cannot be submitted or waited for.
pub(crate) fn run(session: &Session, job: &mut Job) -> Result<RunChecked, Error> {
    let asked = &job.plan;
    if !asked.launcher.is_distributed() || asked.resources.array.is_some() {
        let launcher = asked.launcher.as_str();
        let message =
            format!("`check --run` tries a distributed training, and `run.launcher` is {launcher}");
        return Err(Error::new(Kind::Usage, message)
            .hinted("name a launcher such as ddp, and no array, or check without --run"));
    }
    prepare(session, job)?;
    job.build_image(session)?;
    turn_into_check(&mut job.plan);
    interrupt::take();
    let (record, _) = submit(session, job, new_run_id()?, false)?;
    session.note(&format!("checking on the nodes with run {}", record.run_id));
    let mut tracker = Tracker::open(session)?;
    let watched = Watched::new(&record, &job.plan);
    let tracked = match wait::until_over(session, &mut tracker, vec![watched], None) {
        // The job is the check's alone.
        Err(error) if error.kind == Kind::TryAgain => {
            let job = cancel(session, &tracker, &record, None)?;
            let message = format!("interrupted; the check's job {job} was cancelled");
            return Err(Error::new(Kind::TryAgain, message));
        }
        waited => waited.map_err(|error| {
            error.hinted(format!("`dlrun cancel {}` ends the check", record.run_id))
        })?,
    };
    let tracked = tracked.into_iter().next();
    let tracked = tracked.ok_or_else(|| failure!(Internal, "the check's run vanished"))?;
    let ranks = answers(&tracked);
    Ok(RunChecked {
        problems: problems(&ranks, &job.plan, &tracked.status),
        run_id: record.run_id,
        state: tracked.status.state,
        ranks,
    })
}

/// The job, but for its program, its time limit and what it waits for.
fn turn_into_check(plan: &mut Plan) {
    let program = python_of(plan);
    // torchrun starts files; the ranks of `ddp` find the same variables.
    if plan.launcher == Launcher::Torchrun {
        plan.launcher = Launcher::Ddp;
    }
    // The all-reduce is one of workers.
    plan.roles = Roles::default();
    let seconds = PATIENCE.to_string();
    let words = [&program, "-c", START, plan.launcher.as_str(), &seconds];
    plan.command = words.map(str::to_owned).to_vec();
    plan.env.push(EnvVar {
        name: VARIABLE.to_owned(),
        value: PROBE.to_owned(),
    });
    plan.name = format!("check-{}", plan.name);
    let resources = &mut plan.resources;
    let asked = resources.walltime.unwrap_or(WALLTIME);
    resources.walltime = Some(asked.min(WALLTIME));
    resources.depends.clear();
    (resources.begin, resources.mail) = (None, None);
    // That of the training may be a file that a new job empties.
    plan.output = None;
    (plan.identity, plan.forecast, plan.timing) = (None, None, None);
    (plan.prologue, plan.epilogue) = (Vec::new(), Vec::new());
}

/// The job's own Python: the program, that of its first line, or the one beside it; else the first of `PATH`.
fn python_of(plan: &Plan) -> String {
    let program = plan.command.first().map(String::as_str).unwrap_or_default();
    if is_python(program) {
        return program.to_owned();
    }
    // In an image the paths of this machine say nothing.
    let there = plan.image.is_none().then(|| match program.contains('/') {
        true => Some(Path::new(&plan.workdir).join(program)),
        false => find(program, &[]),
    });
    let of_file = there.flatten().and_then(|path| {
        let by_first_line = first_word(&path).filter(|word| is_python(word));
        let beside = path.with_file_name("python3");
        by_first_line.or_else(|| {
            beside
                .exists()
                .then(|| beside.to_string_lossy().into_owned())
        })
    });
    of_file.unwrap_or_else(|| "python3".to_owned())
}

/// What a script's first line names: `/env/bin/python` of `#!/env/bin/python -u`.
fn first_word(path: &Path) -> Option<String> {
    let mut head = Vec::new();
    File::open(path)
        .ok()?
        .take(256)
        .read_to_end(&mut head)
        .ok()?;
    let line = head
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let line = std::str::from_utf8(line).ok()?;
    line.split_whitespace().next().map(str::to_owned)
}

/// What each rank answered, by their numbers.
fn answers(tracked: &Tracked) -> Vec<CheckedRank> {
    let ranks = tracked.reading.outcome.nodes.iter().flat_map(|node| {
        let ranks = node.ranks.iter().filter(|rank| rank.role.is_none());
        ranks.map(move |rank| (node, rank))
    });
    let mut ranks: Vec<CheckedRank> = ranks
        .map(|(node, rank)| CheckedRank {
            rank: rank.rank,
            node: node.key.node.clone(),
            answer: answer(node, rank),
        })
        .collect();
    ranks.sort_by_key(|rank| rank.rank);
    ranks
}

fn answer(node: &NodeRecord, rank: &RankRecord) -> Option<Answer> {
    let output = rank.output.as_ref().or(node.output.as_ref())?;
    let end = tail(Path::new(output), None, END_BYTES).ok()?;
    let text = String::from_utf8_lossy(&end);
    let mut lines = text.lines().rev();
    lines.find_map(|line| serde_json::from_str(line.trim().strip_prefix(MARK)?).ok())
}

/// What would break the training.
fn problems(ranks: &[CheckedRank], plan: &Plan, status: &Status) -> Vec<String> {
    let mut found = failures(ranks);
    if ranks.is_empty() {
        let cause = status.cause.as_ref().map(|cause| cause.text.as_str());
        let why = cause.unwrap_or(status.state.as_str());
        found.push(format!(
            "no rank was started: {why}; `dlrun logs` shows the output"
        ));
    }
    let answers = ranks
        .iter()
        .filter_map(|rank| Some((rank, rank.answer.as_ref()?)));
    let planned = Shape::for_plan(plan).ranks();
    let recorded = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
    if (1..planned).contains(&recorded) {
        found.push(format!(
            "only {recorded} of {planned} ranks have a record; a node that cannot write to the state directory, or is late, has none"
        ));
    }
    for (rank, answer) in answers.clone() {
        let (number, node) = (rank.rank, &rank.node);
        if let Some(world) = answer.world.filter(|world| *world != planned) {
            found.push(format!(
                "rank {number} on {node} sees a world of {world}, and {planned} ranks were started: \
                 the program and the launcher do not fit"
            ));
        } else if let Some(sum) = answer
            .sum
            .filter(|sum| (sum - f64::from(planned)).abs() > 1e-3)
        {
            found.push(format!(
                "the all-reduce gave rank {number} on {node} {sum} in place of {planned}"
            ));
        }
    }
    let has_gpus = plan.resources.gpus_on_node().is_some();
    let without = answers
        .clone()
        .filter(|(_, answer)| has_gpus && answer.gpus == Some(0));
    found.extend(without.map(|(rank, _)| {
        format!(
            "rank {} on {} sees no GPU, and the job asks for GPUs: look at the framework's build and at `dlrun plan` for --nv",
            rank.rank, rank.node
        )
    }));
    if has_gpus
        && answers
            .clone()
            .any(|(_, answer)| answer.nccl == Some(false))
    {
        found.push(
            "this Horovod is built without NCCL: gradients of GPUs would pass through the host's memory; \
             build it with HOROVOD_GPU_OPERATIONS=NCCL"
                .to_owned(),
        );
    }
    found.extend(shared_devices(ranks));
    if found.is_empty() && status.state != JobState::Completed {
        let state = status.state.as_str();
        found.push(format!(
            "all ranks had finished, and yet the run is `{state}`: `dlrun show` says why"
        ));
    }
    found
}

/// Ranks that said nothing, or an error; where several say the same, once.
fn failures(ranks: &[CheckedRank]) -> Vec<String> {
    let mut by_error: BTreeMap<String, Vec<&CheckedRank>> = BTreeMap::new();
    for rank in ranks {
        let text = match &rank.answer {
            Some(Answer {
                error: Some(error),
                stage,
                python,
                ..
            }) => {
                let python = python.as_deref().filter(|_| stage == "import");
                let python = python.map(|python| format!(" ({python})"));
                let (python, next) = (python.unwrap_or_default(), next_step(stage, error));
                format!("failed at {stage}: {error}{python}{next}")
            }
            Some(answer) if answer.stage == "end" => continue,
            Some(answer) => format!("stopped at {}", answer.stage),
            None => "said nothing; its output may show why".to_owned(),
        };
        by_error.entry(text).or_default().push(rank);
    }
    let shown = |(text, ranks): (String, Vec<&CheckedRank>)| {
        let (first, more) = (ranks[0], ranks.len() - 1);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        format!("rank {} on {}{more} {text}", first.rank, first.node)
    };
    by_error.into_iter().map(shown).collect()
}

fn next_step(stage: &str, error: &str) -> &'static str {
    match stage {
        "import" => {
            "; install it there, or in the image. A script may start another Python than the one that was tried"
        }
        "initialise" | "all-reduce" if error.starts_with("no answer") => {
            "; a firewall between the nodes, or the wrong network: see `launch.interface`, `launch.first_port`"
        }
        _ => "",
    }
}

/// Ranks of one node that compute on the same GPU.
fn shared_devices(ranks: &[CheckedRank]) -> Vec<String> {
    let mut users: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for rank in ranks {
        let device = rank
            .answer
            .as_ref()
            .and_then(|answer| answer.device.as_deref());
        if let Some(device) = device {
            *users.entry((&rank.node, device)).or_default() += 1;
        }
    }
    let shared = users.into_iter().filter(|(_, ranks)| *ranks > 1);
    shared
        .map(|((node, device), ranks)| {
            format!(
                "{ranks} ranks on {node} compute on the same GPU {device}: ask for one GPU for each rank (`resources.gpus_per_node`)"
            )
        })
        .collect()
}

impl RunChecked {
    /// For people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let answers = self.ranks.iter().filter_map(|rank| rank.answer.as_ref());
        let first = answers.clone().find(|answer| answer.stage == "end");
        let mut lines = Vec::new();
        if let Some(answer) = first.filter(|_| self.problems.is_empty()) {
            let framework = answer.framework.as_deref().unwrap_or("the framework");
            let backend = answer.backend.as_deref().unwrap_or("its backend");
            lines.push(format!(
                "all {} ranks connected and their all-reduce is right: {framework}, {backend}",
                self.ranks.len()
            ));
        }
        let slowest =
            |of: fn(&Answer) -> Option<f64>| answers.clone().filter_map(of).reduce(f64::max);
        let small = slowest(|answer| answer.small_seconds);
        let rate =
            slowest(|answer| answer.large_seconds).zip(first.and_then(|answer| answer.large_bytes));
        if let Some((small, (seconds, bytes))) = small.zip(rate) {
            #[expect(clippy::cast_precision_loss, reason = "a size of some MB")]
            let mb = bytes as f64 / 1e6;
            lines.push(format!(
                "an all-reduce of 1 number takes {:.2} ms, of {mb:.1} MB {:.1} ms ({:.0} MB/s); slowest rank, median of 5",
                small * 1e3,
                seconds * 1e3,
                mb / seconds
            ));
        }
        lines.extend(
            self.problems
                .iter()
                .map(|problem| format!("problem: {problem}")),
        );
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(rank: u32, answer: Option<Answer>) -> CheckedRank {
        let node = format!("n{}", 1 + rank / 2);
        CheckedRank { rank, node, answer }
    }

    fn good(device: &str) -> Answer {
        Answer {
            stage: "end".into(),
            world: Some(3),
            sum: Some(3.0),
            device: Some(device.into()),
            ..Answer::default()
        }
    }

    #[test]
    fn failures_that_are_the_same_are_said_once() {
        let failed = |stage: &str, error: &str| {
            let (stage, error) = (stage.into(), Some(error.to_owned()));
            Some(Answer {
                stage,
                error,
                ..Answer::default()
            })
        };
        let missing = || failed("import", "ModuleNotFoundError: No module named 'torch'");
        let ranks = [
            rank(0, missing()),
            rank(1, missing()),
            rank(2, failed("initialise", "no answer within 180 s")),
            rank(3, None),
            rank(4, Some(good("a"))),
        ];
        let found = failures(&ranks);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(
            found[0],
            "rank 0 on n1 and 1 more failed at import: ModuleNotFoundError: No module named 'torch'; install it there, or in the \
             image. A script may start another Python than the one that was tried"
        );
        assert!(
            found[1].contains("rank 2 on n2 failed at initialise") && found[1].contains("firewall")
        );
        assert!(found[2].contains("rank 3 on n2 said nothing"));
    }

    #[test]
    fn rank_without_a_record_and_a_failed_run_are_no_success() {
        let mut plan = Plan::default();
        (plan.resources.nodes, plan.resources.tasks_per_node) = (1, 3);
        let of = |ranks: &[CheckedRank], state| problems(ranks, &plan, &Status::of(state));
        let all = [0, 1, 2].map(|number| rank(number, Some(good(&number.to_string()))));
        assert_eq!(of(&all, JobState::Completed), Vec::<String>::new());
        let lacking = of(&all[..2], JobState::Completed);
        assert!(
            lacking[0].starts_with("only 2 of 3 ranks have a record"),
            "{lacking:?}"
        );
        let failed = of(&all, JobState::NodeFail);
        assert!(failed[0].contains("the run is `node_fail`"), "{failed:?}");
    }

    #[test]
    fn gpu_of_two_ranks_of_a_node_is_named() {
        let ranks = [
            rank(0, Some(good("GPU-1"))),
            rank(1, Some(good("GPU-1"))),
            rank(2, Some(good("GPU-1"))),
        ];
        let found = shared_devices(&ranks);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("2 ranks on n1 compute on the same GPU GPU-1"),
            "{found:?}"
        );
    }
}
