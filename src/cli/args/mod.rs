//! The command line. Help texts, man pages, completions and `docs/cli.md` all come from here.

mod bench;
mod export;
mod image;
mod model;
mod records;
mod report;
mod sweep;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

pub(crate) use self::bench::{BenchArgs, BenchNode, BenchRun, BenchShow, BenchVerb, StudyRun};
pub(crate) use self::export::Export;
pub(crate) use self::image::{
    Claims, ImageAdd, ImageArgs, ImageBuild, ImageCheck, ImageList, ImagePull, ImageRemove,
    ImageShow, ImageVerb,
};
pub(crate) use self::model::{ModelArgs, ModelEvaluate, ModelFit, ModelPredict, ModelVerb};
pub(crate) use self::records::{Import, Prune};
pub(crate) use self::report::{Report, ReportFormat};
pub(crate) use self::sweep::{SweepArgs, SweepRun, SweepShow, SweepVerb, Tune};
use crate::app::job::load::JobRequest;
use crate::job::{ArraySpec, JobState, Overrides, SchedulerKind};

/// Plans, submits, watches and records neural-network training runs on Slurm, Torque, OpenPBS and single machines.
#[derive(Debug, Parser)]
#[command(
    name = "dlrun",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Print one JSON object instead of text
    #[arg(long, global = true, display_order = 900)]
    pub(crate) json: bool,
    /// Keep records in this directory instead of $XDG_STATE_HOME/dlrun
    #[arg(long, global = true, display_order = 901, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) state_dir: Option<PathBuf>,
    /// Print more on standard error; twice: every command that is run
    #[arg(short, long, global = true, display_order = 902, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Submit a job to the scheduler
    Submit(Submit),
    /// Check a job file before anything is queued
    Check(Check),
    /// Show what will happen and why
    Plan(JobFile),
    /// Print the batch script that `submit` would submit
    Render(Render),
    /// Create a job file from MODAK's JSON or from a script with #SBATCH or #PBS lines
    Convert(Convert),
    /// List runs, newest first
    List(List),
    /// Show what is known of a run
    Show(Show),
    /// Write a report of a run, or of several side by side
    #[command(long_about = report::ABOUT)]
    Report(Report),
    /// Show the runs of this node as they are now, with CPU, memory and GPUs
    #[command(long_about = TOP)]
    Top(Top),
    /// Print the output of a run
    Logs(Logs),
    /// Wait until runs have ended; the exit code says how
    Wait(Wait),
    /// Cancel runs
    Cancel(Cancel),
    /// Continue an elastic run on another number of nodes
    #[command(long_about = SCALE)]
    Scale(Scale),
    /// Delete the records of runs that are over
    #[command(long_about = records::PRUNE)]
    Prune(Prune),
    /// Check what works here and what does not; exit code 78 if something fails
    #[command(long_about = DOCTOR)]
    Doctor,
    /// Show which epochs, steps and rates dlrun finds in a saved output
    #[command(long_about = TIMINGS)]
    Timings(Timings),
    /// Explain saved scheduler output
    #[command(long_about = EXPLAIN)]
    Explain(Explain),
    /// Write runs, timings, usage and samples for other programs
    #[command(long_about = export::EXPORT)]
    Export(Export),
    /// Show the settings
    Config(ConfigArgs),
    /// Read runs back that `dlrun export --format jsonl` wrote, here or elsewhere
    #[command(long_about = records::IMPORT)]
    Import(Import),
    /// Manage the images that jobs run in
    Image(ImageArgs),
    /// Predict runs from the recorded ones
    Model(ModelArgs),
    /// Measure matrices of trainings, and what a kind of node can do
    Bench(BenchArgs),
    /// Search the best parameters of a training
    Sweep(SweepArgs),
    /// Find the settings with which a training is fastest
    #[command(long_about = sweep::TUNE)]
    Tune(Tune),
    /// Print the completion script of a shell
    Completions(Completions),
    /// Print a man page, or write all of them
    Man(Man),
    /// Start and watch a command inside a job (the batch script does this)
    Exec(Exec),
    #[command(hide = true)]
    Words(Words),
    #[command(hide = true)]
    Enter(Enter),
    #[command(hide = true)]
    Ranks(Ranks),
    #[command(name = "exec-watch", hide = true)]
    ExecWatch,
    #[command(name = "local-run", hide = true)]
    LocalRun { run_dir: PathBuf },
}

/// One of a table's words.
fn word<T: Copy + Send + Sync + 'static, const N: usize>(
    words: [(&'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words.iter().map(|(word, _)| *word)).try_map(move |said| {
        let found = words.iter().find(|(word, _)| *word == said);
        found
            .map(|(_, value)| *value)
            .ok_or("it is none of the words")
    })
}

/// What has its own page, each named as its page is: dlrun itself, its verbs and theirs; neither inner ones nor `help`.
pub(crate) fn pages() -> Vec<clap::Command> {
    let mut root = <Cli as clap::CommandFactory>::command().term_width(100);
    root.build();
    pages_of(&root, "dlrun")
}

fn pages_of(command: &clap::Command, name: &str) -> Vec<clap::Command> {
    let verbs = command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set() && verb.get_name() != "help");
    let below = verbs.flat_map(|verb| pages_of(verb, &format!("{name}-{}", verb.get_name())));
    let below: Vec<clap::Command> = below.collect();
    std::iter::once(command.clone().name(name.to_owned()))
        .chain(below)
        .collect()
}

#[derive(Debug, Clone, Args)]
pub(crate) struct JobFile {
    /// The job file, or its name without `.toml`; MODAK's JSON too
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) options: JobOptions,
}

/// How a job file is read.
#[derive(Debug, Clone, Args)]
pub(crate) struct JobOptions {
    /// Who takes the job; auto: the one whose commands are found, else this machine
    #[arg(long, value_name = "KIND", value_parser = SchedulerKind::NAMES)]
    pub(crate) scheduler: Option<String>,
    /// Skip the checks of files and programs, which may be on the nodes only, and of the site
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Set a key of the job file for this time, such as resources.walltime=2h; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Name the job
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Further arguments of the program, after `--`
    #[arg(last = true, value_name = "ARGUMENTS", value_hint = ValueHint::FilePath)]
    pub(crate) arguments: Vec<String>,
}

impl JobOptions {
    /// What is to be loaded.
    fn request(&self, file: &Path) -> JobRequest {
        JobRequest {
            file: file.to_owned(),
            no_check: self.no_check,
            overrides: Overrides {
                set: self.set.clone(),
                name: self.name.clone(),
                arguments: self.arguments.clone(),
            },
        }
    }
}

impl JobFile {
    /// What is to be loaded.
    pub(crate) fn request(&self) -> JobRequest {
        self.options.request(&self.file)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The job file, or its name without `.toml`; MODAK's JSON too
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "schema")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) options: JobOptions,
    /// Print the JSON Schema of the job file, for editors, and end
    #[arg(long, conflicts_with_all = ["file", "scheduler", "no_check", "set", "name", "arguments"])]
    pub(crate) schema: bool,
    /// Submit a short job that tries the framework's all-reduce on the nodes asked for, and wait for it
    #[arg(long, conflicts_with_all = ["schema", "no_check"])]
    pub(crate) run: bool,
}

impl Check {
    /// What is checked. Without a file only the schema is asked for.
    pub(crate) fn request(&self) -> JobRequest {
        let file = self.file.as_deref();
        self.options.request(file.unwrap_or(Path::new("")))
    }
}

#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// The description, or - for standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Write the job file there, where nothing may be yet, instead of standard output
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Submit {
    #[command(flatten)]
    pub(crate) job: JobFile,
    /// Wait for the end, show progress and end with a summary; `passthrough` exits with the job's own code
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "state")]
    pub(crate) wait: Option<WaitHow>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitHow {
    /// 0 completed, 10 failed, 11 timeout, 12 out of memory, 13 preempted, 14 node failure, 15 cancelled, 16 unknown
    State,
    /// The job's own code, 128+n on signal n, 125 where dlrun cannot tell
    Passthrough,
}

#[derive(Debug, Args)]
pub(crate) struct Render {
    #[command(flatten)]
    pub(crate) job: JobFile,
    /// Make the job's Python environment first, as `submit` does
    #[arg(long)]
    pub(crate) prepare: bool,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// At most this many runs
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    /// Only runs in this state
    #[arg(long, value_name = "STATE", value_parser = JobState::NAMES)]
    pub(crate) state: Option<String>,
    /// Only runs of this job name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Only runs that held GPUs or CPUs without work, those that held them longest first
    #[arg(long)]
    pub(crate) idle: bool,
    /// Rebuild the index from the records first
    #[arg(long)]
    pub(crate) reindex: bool,
    /// Ask the scheduler's accounting too (slow)
    #[arg(long)]
    pub(crate) history: bool,
    /// The runs of this database, as `dlrun import --store` makes it, instead of your own
    #[arg(long, value_name = "DB", value_hint = ValueHint::FilePath, conflicts_with_all = ["reindex", "history"])]
    pub(crate) store: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// A run: the beginning of its id, its name, the scheduler's job id, or @1 for the latest
    #[arg(value_name = "RUN", default_value = "@1")]
    pub(crate) run: String,
    /// Ask the scheduler's accounting too (slow)
    #[arg(long)]
    pub(crate) history: bool,
    /// One element of an array
    #[arg(long, value_name = "INDEX")]
    pub(crate) element: Option<u32>,
    /// A run of this database, as `dlrun import --store` makes it, instead of your own
    #[arg(long, value_name = "DB", value_hint = ValueHint::FilePath, conflicts_with = "history")]
    pub(crate) store: Option<PathBuf>,
    /// Show it again every so many seconds until the run is over [default: 10]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "10",
        value_parser = clap::value_parser!(u64).range(2..=86_400), conflicts_with_all = ["store", "history"])]
    pub(crate) watch: Option<u64>,
}

const DOCTOR: &str = "Check what works here and what does not; exit code 78 if something fails

Looks at the state directory and its index, the scheduler with its queues, nodes and accounting, dlrun on the nodes, \
container runtime, Python, the node daemon, GPUs and cgroups. Each finding comes with what to do about it. A scheduler that \
gives no answer is a finding too.";

const TOP: &str = "Show the runs of this node as they are now, with CPU, memory and GPUs

What is shown comes from dlrund, the node's daemon. Keys: arrows or j and k choose a run, q quits. CPU% is 100 for each \
CPU kept busy, MEMORY what cannot be dropped; a GPU is idle where no process of the run is on it. Without a terminal one table is \
printed. With --json there is one object for each interval and line.";

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Refresh interval in seconds, 0.1 to 60
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub(crate) interval: f64,
    /// Print one table and end; it takes an interval, since rates need two samples
    #[arg(long)]
    pub(crate) once: bool,
    /// Include runs of other users, if permitted: to root and a group that the site names
    #[arg(long)]
    pub(crate) all: bool,
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds = text
        .parse()
        .ok()
        .filter(|seconds| (0.1..=60.0).contains(seconds));
    seconds.ok_or_else(|| "it is a number of seconds between 0.1 and 60".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// A run: the beginning of its id, its name, the scheduler's job id, or @1 for the latest
    #[arg(value_name = "RUN", default_value = "@1")]
    pub(crate) run: String,
    /// Continue until the run ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only the last lines
    #[arg(short = 'n', long, value_name = "LINES")]
    pub(crate) lines: Option<usize>,
    /// Only the output of this node
    #[arg(long)]
    pub(crate) node: Option<String>,
    /// Only the output of this rank of a distributed training, instead of rank 0's
    #[arg(long, conflicts_with = "node")]
    pub(crate) rank: Option<u32>,
    /// Only these elements of an array: 3,7-9
    #[arg(long, value_name = "ELEMENTS", value_parser = elements)]
    pub(crate) element: Option<ArraySpec>,
}

#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// Runs: the beginning of an id, a name, a job id, or @1 for the latest
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<String>,
    /// Give up after this many seconds, with exit code 75
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<u64>,
    /// Exit with the job's own code (one run only)
    #[arg(long)]
    pub(crate) passthrough: bool,
}

const SCALE: &str = "Continue an elastic run on another number of nodes

For runs with [resume] and [elastic] in the job file. A waiting job of Slurm gets the number at once. A running one is asked to save its \
work; another job continues it on that many nodes. Of an array under Slurm at most this many elements run at a time; those that run stay.";

#[derive(Debug, Args)]
pub(crate) struct Scale {
    /// The run: the beginning of its id, its name, its job id, or @1 for the latest
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// Nodes, within the range of the job file; of an array its elements at a time
    #[arg(value_name = "NODES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) nodes: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// Runs: the beginning of an id, a name, a job id, or @1 for the latest; 95_3 is one element of an array
    #[arg(value_name = "RUN", required_unless_present = "all")]
    pub(crate) runs: Vec<String>,
    /// All of your pending and running runs; asks nothing
    #[arg(long, conflicts_with = "runs")]
    pub(crate) all: bool,
    /// Only these elements of one array: 3,7-9
    #[arg(long, value_name = "ELEMENTS", conflicts_with = "all", value_parser = elements)]
    pub(crate) element: Option<ArraySpec>,
}

fn elements(text: &str) -> Result<ArraySpec, String> {
    let spec = ArraySpec::parse(text).map_err(|error| error.to_string())?;
    if spec.limit.is_some() {
        Err("elements have no `%`".to_owned())
    } else {
        Ok(spec)
    }
}

const EXPLAIN: &str = "Explain saved scheduler output

Reads saved outputs of one command: squeue and sacct with their head, scontrol show job, qstat -f (also -x and -F json), \
refusals of sbatch and qsub, and the lines in a job's own output by which the scheduler says why it ended the job.";

const TIMINGS: &str = "Show which epochs, steps and rates dlrun finds in a saved output, and from which lines.\n\n\
Nothing is run and nothing is recorded. It is the way to try a pattern before a job waits for a day. Durations are as \
printed; durations by the times at the beginning of lines are shown separately.";

#[derive(Debug, Args)]
pub(crate) struct Timings {
    /// The output of a training; `-`: standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Read it by the `[timing]` of this job file
    #[arg(long, value_name = "JOB_FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["epoch", "step"])]
    pub(crate) job: Option<PathBuf>,
    /// Regular expression of lines that end an epoch, as `[timing] epoch`
    #[arg(long, value_name = "REGEX")]
    pub(crate) epoch: Option<String>,
    /// Regular expression of lines that end a step, as `[timing] step`
    #[arg(long, value_name = "REGEX")]
    pub(crate) step: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The saved output; - is standard input
    #[arg(default_value = "-", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) verb: ConfigVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Every setting with its value and where the value comes from
    Show,
    /// Print dlrun_events.py, which lets a Python program report its progress
    ///
    /// Put it beside the program: dlrun config events-module > dlrun_events.py
    EventsModule,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Words {
    pub(crate) kind: WordKind,
}

/// What shells complete beside verbs and options.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum WordKind {
    Runs,
    Images,
    Keys,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The verb, such as `submit` or `image build`; without one the page of dlrun itself
    #[arg(value_name = "VERB", num_args = 0..=2)]
    pub(crate) verbs: Vec<String>,
    /// Write all pages into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// Make a run id for a script that came through `dlrun render`, print it and end
    #[arg(long, hide = true)]
    pub(crate) mint: bool,
    /// Print what a start of a run that may continue begins with, and end
    #[arg(long, hide = true)]
    pub(crate) resume: bool,
    /// Decide what follows a start that ended with this exit code, see to it, and end
    #[arg(long, hide = true, value_name = "CODE")]
    pub(crate) again: Option<i32>,
    /// Write this text as the comment of the job, unless its user gave it one, and end
    #[arg(long, hide = true, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
    /// Print what is left of the job's time, after asking for more where fewer seconds are left than the first of these
    #[arg(long, hide = true, value_name = "SECONDS", num_args = 3)]
    pub(crate) more_time: Vec<u64>,
    /// Look whether this node is fit for the plan's command, print what is found, and end
    #[arg(long, hide = true)]
    pub(crate) check_node: bool,
    /// Say why the command is not started, and end
    #[arg(long, hide = true, value_name = "WHY")]
    pub(crate) refused: Option<String>,
    /// Signals that the job got
    #[arg(long, hide = true, value_name = "NAMES", default_value = "")]
    pub(crate) signals: String,
    /// So many of the first words start the plan's container where nothing is known of this node
    #[arg(long, hide = true, value_name = "WORDS", default_value_t = 0)]
    pub(crate) in_image: usize,
    /// The command and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// Starts the ranks of a distributed training on this node, and meets those of the other nodes before.
#[derive(Debug, Args)]
pub(crate) struct Ranks {
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// A rank of an MPI program, or a build: it enters its container on its own node, and is the container from then on.
#[derive(Debug, Args)]
pub(crate) struct Enter {
    /// The container, as the plan has it: JSON
    #[arg(long)]
    pub(crate) image: String,
    /// So many of the first words start the container where nothing is known of this node
    #[arg(long, value_name = "WORDS")]
    pub(crate) bare: usize,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
