//! `[resume]`: how a run continues after one of its starts ended early.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::resources::{WALLTIME, or_auto};
use super::spec::Asked;
use crate::foundation::diagnostic::Problem;
use crate::foundation::toml_keys::{
    Kind, Table, count, decimal, keys, list, object, parsed, values, word,
};
use crate::foundation::units::Walltime;
use crate::foundation::vocabulary::vocabulary;

vocabulary! {
    /// The signal by which a program saves its work.
    #[derive(Default)]
    pub enum SaveSignal {
        /// None: the program saves its work at its own times.
        None = "none",
        /// SIGUSR1.
        #[default]
        Usr1 = "USR1",
        /// SIGUSR2.
        Usr2 = "USR2",
        /// SIGTERM.
        Term = "TERM",
        /// SIGINT.
        Int = "INT",
        /// SIGHUP.
        Hup = "HUP",
    }
}

vocabulary! {
    /// An end of a start after which the run continues.
    pub enum ResumeOn {
        /// Its time was up.
        Timeout = "timeout",
        /// It made room for another job.
        Preemption = "preemption",
        /// A node was lost.
        Node = "node",
        /// The program failed, and wrote a new checkpoint before.
        Failure = "failure",
    }
}

vocabulary! {
    /// How many nodes a start is to have.
    #[derive(Default)]
    pub enum ElasticTarget {
        /// As many as are free, within the range.
        #[default]
        Max = "max",
        /// As [`ElasticTarget::Max`], but no more than the model predicts to be worth it.
        Auto = "auto",
    }
}

impl ElasticTarget {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    fn is_max(&self) -> bool {
        *self == Self::Max
    }
}

vocabulary! {
    /// What follows where a program seems to hang.
    #[derive(Default)]
    pub enum OnHang {
        /// The record and `show` say so.
        #[default]
        Warn = "warn",
        /// The program is ended, and the run continues.
        Requeue = "requeue",
    }
}

/// Variables of one start of a run, which another run does not inherit.
pub const OF_ONE_START: [&str; 7] = [
    "DLRUN_RESUME_FROM",
    "DLRUN_TIME_LEFT",
    "DLRUN_WORLD_NODES",
    "DLRUN_MIN_NODES",
    "DLRUN_MAX_NODES",
    "DLRUN_GLOBAL_BATCH",
    "DLRUN_ACCUM_STEPS",
];

/// What `{checkpoint}` stands for is the newest complete checkpoint.
pub const CHECKPOINT: &str = "{checkpoint}";

keys! {
    /// `[resume]`.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Resume {
        /// Where the program keeps its checkpoints: files or directories, relative to the working directory, with `*` and
        /// `?`. `{index}` stands for the index of an array's element.
        checkpoints: Vec<String> = or_default(patterns()),
        /// The checkpoint with which the first start begins. Default: it begins at the beginning.
        [serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String> = optional(checkpoint_path()),
        /// What is there when a checkpoint is complete, such as `{checkpoint}.done` or `{checkpoint}/COMPLETE`.
        [serde(default, skip_serializing_if = "Option::is_none")]
        marker: Option<String> = optional(marker()),
        /// The signal that makes the program save its work, `lead` before the time limit. Only processes that handle it get it.
        signal: SaveSignal = or_default(word(&SaveSignal::WORDS).with("default", "USR1")),
        /// How long before the time limit the program is to save its work. `auto`: by how long it took before, at first two
        /// minutes, never more than a quarter of the time limit.
        [serde(default, skip_serializing_if = "Option::is_none")]
        lead: Option<Walltime> = optional(lead()),
        /// After which ends the run continues.
        on: Vec<ResumeOn> = or_default(ends()),
        /// Starts of the run at most.
        attempts: u32 = or_default(count(1000).or(50)),
        /// The run stops after so many starts in turn that left no new checkpoint.
        without_progress: u32 = or_default(count(1000).or(2)),
        /// The run stops when its starts have taken so many hours of nodes.
        [serde(default, skip_serializing_if = "Option::is_none")]
        node_hours: Option<f64> = optional(decimal(0.001..=1e9)),
        /// What follows where the program seems to hang: no output for long, and no work meanwhile.
        [serde(default)]
        hang: OnHang = or_default(word(&OnHang::WORDS).with("default", "warn")),
        /// After how long without output and work. `auto`: ten times its longest pause, at least ten minutes.
        [serde(default, skip_serializing_if = "Option::is_none")]
        hang_after: Option<Walltime> = optional(lead()),
        /// Words behind the command where there is a checkpoint; `{checkpoint}` stands for it.
        [serde(default, skip_serializing_if = "Vec::is_empty")]
        arguments: Vec<String> = or_default(words("--resume")),
        /// The command where there is a checkpoint, in place of `run.command`.
        [serde(default, skip_serializing_if = "Vec::is_empty")]
        command: Vec<String> = or_default(words("python")),
    }
}

keys! {
    /// `[elastic]`: a run whose starts may have different numbers of nodes, within `resources.nodes`.
    #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
    pub struct Elastic {
        /// Samples that each rank takes at once, from which `DLRUN_ACCUM_STEPS` follows.
        [serde(default, skip_serializing_if = "Option::is_none")]
        batch_per_rank: Option<u32> = optional(count(1 << 30)),
        /// The most nodes of a start: `max` of the range, or no more than use their nodes as well as `nodes.efficiency` asks.
        [serde(default, skip_serializing_if = "ElasticTarget::is_max")]
        target: ElasticTarget = or_default(word(&ElasticTarget::WORDS).with("default", "max")),
        /// The fewest and the most nodes of a start.
        [serde(default)]
        nodes: (u32, u32),
    }
}

/// The ends after which a run continues where the job file names none.
const ENDS: [ResumeOn; 3] = [ResumeOn::Timeout, ResumeOn::Preemption, ResumeOn::Node];

/// `[resume]`, which must say where the checkpoints are.
pub(super) fn resume() -> Kind<Resume> {
    let kind =
        Kind::new(object(Resume::keys()), |fields, key| {
            fields.table(key, |fields| {
            let mut resume = Resume::read(fields);
            let list = fields.raw("checkpoints").map(|value| value.get_ref().as_array());
            if list.is_none_or(|list| list.is_some_and(|items| items.is_empty())) {
                let problem = Problem::at(fields.own_span(), "`[resume]` needs `checkpoints`");
                let hint =
                    "write checkpoints = [\"ckpt/*.pt\"], where the program keeps its checkpoints";
                fields.problem(problem.hinted(hint));
            }
            for (key, words) in [
                ("arguments", &resume.arguments),
                ("command", &resume.command),
            ] {
                if fields.holds(key) && !words.iter().any(|word| word.contains(CHECKPOINT)) {
                    let message = format!("`resume.{key}` does not contain `{CHECKPOINT}`");
                    let hint = format!("write {key} = [\"--resume\", \"{CHECKPOINT}\"]");
                    fields.problem(Problem::at(fields.span(key), message).hinted(hint));
                }
            }
            if fields.holds("arguments") && fields.holds("command") {
                let message = "`resume.arguments` and `resume.command` exclude each other";
                fields.fault("command", message);
            }
            if resume.on.is_empty() {
                resume.on = ENDS.to_vec();
            }
            resume
        })
        });
    kind.with("required", json!(["checkpoints"]))
}

/// Patterns of paths.
fn patterns() -> Kind<Vec<String>> {
    let item = json!({ "type": "string", "minLength": 1, "pattern": "^[^\\x00-\\x1f\\x7f]*$" });
    let kind = list(&item, |text| match text {
        "" => Err("must not be empty".to_owned()),
        text if text.chars().any(char::is_control) => {
            Err("must not contain control characters".to_owned())
        }
        text if text.starts_with('~') || text.contains('$') => Err(format!(
            "{text:?} is read by no shell: `~` and `$` mean nothing in it"
        )),
        text => match glob::Pattern::new(text) {
            Ok(_) => Ok(text.to_owned()),
            Err(error) => Err(format!("{text:?} is no pattern: {}", error.msg)),
        },
    });
    values(kind)
        .with("minItems", 1)
        .with("examples", json!([["ckpt/*.pt"]]))
}

fn checkpoint_path() -> Kind<String> {
    parsed("^[^\\x00-\\x1f\\x7f]+$", |text| match text {
        "" => Err("must not be empty"),
        text if text.chars().any(char::is_control) => Err("must not contain control characters"),
        text => Ok(text.to_owned()),
    })
}

fn marker() -> Kind<String> {
    let kind = parsed(
        "^[^\\x00-\\x1f\\x7f]*\\{checkpoint\\}[^\\x00-\\x1f\\x7f]*$",
        |text| {
            let is_plain = !text.chars().any(char::is_control);
            let error = || format!("{text:?} does not say where it is by `{CHECKPOINT}`");
            (is_plain && text.contains(CHECKPOINT))
                .then(|| text.to_owned())
                .ok_or_else(error)
        },
    );
    kind.with("examples", json!(["{checkpoint}.done"]))
}

fn lead() -> Kind<Walltime> {
    let kind = or_auto(WALLTIME, &["auto", "2m"], Walltime::parse);
    kind.map(|asked| match asked {
        Asked::Auto => None,
        Asked::Value(lead) => Some(lead),
    })
}

fn ends() -> Kind<Vec<ResumeOn>> {
    let item = json!({ "type": "string", "enum": ResumeOn::NAMES });
    let kind = list(&item, |text| {
        let error = || match text {
            "hang" => "a program that hangs is ended with hang = \"requeue\"".to_owned(),
            text => format!("{text:?} is none of {}", ResumeOn::NAMES.join(", ")),
        };
        ResumeOn::from_word(text).ok_or_else(error)
    });
    let ends = ENDS.map(ResumeOn::as_str);
    values(kind).with("default", json!(ends))
}

fn words(example: &str) -> Kind<Vec<String>> {
    let schema = json!({
        "type": "array", "items": { "type": "string" }, "minItems": 1, "examples": [[example, CHECKPOINT]],
    });
    Kind::new(schema, |fields, key| fields.texts(key))
}
