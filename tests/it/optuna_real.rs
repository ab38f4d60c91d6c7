//! Optuna itself, in the Python that `DLRUN_TEST_OPTUNA_PYTHON` names; it has cmaes, and scipy and torch for the Gaussian process.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use dlrun::learn::bench::{Entry, Lines, Slot};
use dlrun::learn::sweep::{Note, Outcome, Sampler, Study, Sweep, Values, answer, parse, request};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::slurm_real::cluster::{MORTAL_NODE, User, until};
use crate::support::{TestEnv, wait_for, wait_for_some};

const PROGRAM: &str = include_str!("../../src/app/study/optuna.py");

fn optuna_python() -> PathBuf {
    let named = std::env::var_os("DLRUN_TEST_OPTUNA_PYTHON");
    named.expect("DLRUN_TEST_OPTUNA_PYTHON").into()
}

/// dlrun's own part of Optuna's process, which stays for many questions here.
struct Asker(Child);

impl Asker {
    fn new(program: &str) -> Self {
        let mut command = Command::new(optuna_python());
        command.args(["-c", program]).env("OMP_NUM_THREADS", "1");
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(child.spawn().expect("Python"))
    }

    fn ask(&mut self, question: &str) -> String {
        let (mut line, pipe) = (String::new(), self.0.stdin.as_mut().expect("a pipe"));
        pipe.write_all(question.as_bytes()).expect("it reads");
        let mut answers = BufReader::with_capacity(1, self.0.stdout.as_mut().expect("a pipe"));
        answers.read_line(&mut line).expect("it answers");
        line
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Branin's function for two parameters, Hartmann's for six; their least values are 0.397887 and -3.32237.
fn planted(x: &[f64]) -> f64 {
    use std::f64::consts::PI;
    if let [x, y] = *x {
        let first = y - 5.1 / (4.0 * PI * PI) * x * x + 5.0 / PI * x - 6.0;
        return first * first + 10.0 * (1.0 - 1.0 / (8.0 * PI)) * x.cos() + 10.0;
    }
    const ALPHA: [f64; 4] = [1.0, 1.2, 3.0, 3.2];
    const A: [[f64; 6]; 4] = [
        [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
        [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
        [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
        [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
    ];
    const P: [[f64; 6]; 4] = [
        [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
        [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
        [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.665],
        [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
    ];
    let sum = |row: usize| -> f64 {
        let parts = x.iter().enumerate();
        parts
            .map(|(at, x)| A[row][at] * (x - P[row][at]).powi(2))
            .sum()
    };
    -(0..4)
        .map(|row| ALPHA[row] * (-sum(row)).exp())
        .sum::<f64>()
}

fn sweep_of(sampler: &str, seed: u64, is_branin: bool) -> Sweep {
    let space = match is_branin {
        true => "vars.x0 = { low = -5.0, high = 10.0 }\nvars.x1 = { low = 0.0, high = 15.0 }\n"
            .to_owned(),
        false => (0..6)
            .map(|at| format!("vars.x{at} = {{ low = 0.0, high = 1.0 }}\n"))
            .collect(),
    };
    let words: String = (0..6).map(|at| format!("{{{{x{at}}}}}")).collect();
    let words = if is_branin { "{{x0}}{{x1}}" } else { &words };
    let text = format!(
        "[run]\ncommand = ['train', '{words}']\n[sweep]\nmetric = 'loss'\nmode = 'min'\nsampler = '{sampler}'\n\
         seed = {seed}\n[sweep.space]\n{space}"
    );
    parse(&text, "stem").expect("valid")
}

fn numbers(sweep: &Sweep, values: &Values) -> Vec<f64> {
    let text = |name: &str| values.text(name).expect("a value");
    let space = sweep.space.iter();
    space
        .map(|one| text(&one.name).parse().expect("a number"))
        .collect()
}

/// The least of `trials` values, through the journal's own study.
fn best_of(sampler: &str, seed: u64, is_branin: bool, trials: usize) -> f64 {
    let sweep = sweep_of(sampler, seed, is_branin);
    let (mut embedded, mut study) = (Sampler::new(&sweep), Study::default());
    let mut asker = sampler.starts_with("optuna").then(|| Asker::new(PROGRAM));
    let mut best = f64::INFINITY;
    for number in 0..trials {
        let (values, asked) = match &mut asker {
            None => (embedded.propose(number).expect("no grid"), None),
            Some(asker) => {
                let text = asker.ask(&request(&sweep, &study, number));
                let (values, asked) = answer(&sweep, &text).expect("a trial");
                (values, Some(asked))
            }
        };
        let value = planted(&numbers(&sweep, &values));
        best = best.min(value);
        embedded.tell(&values, Some(value));
        let run_id = dlrun::job::RunId::from_random([u8::try_from(number).expect("few"); 10]);
        let slot = Slot {
            cell: number,
            repeat: 0,
        };
        study.add(Note::Proposed {
            proposed: number,
            values,
            asked,
        });
        study.add(Note::Job(Entry::Begun {
            at_ms: 1,
            slot,
            run_id: run_id.clone(),
        }));
        let outcome = Outcome {
            state: dlrun::job::JobState::Completed,
            value: Some(value),
            ..Outcome::default()
        };
        study.add(Note::Job(Entry::Over {
            at_ms: 2,
            run_id,
            measured: Box::new(outcome),
        }));
    }
    best
}

/// Optuna as its manual has it, without dlrun: a line of sampler, seed, function and trials, a line with the least value.
const ALONE: &str = "
import json, math, sys, warnings
warnings.simplefilter('ignore')
import optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
S = optuna.samplers
KINDS = {'optuna': S.TPESampler, 'optuna:gp': S.GPSampler, 'optuna:cmaes': S.CmaEsSampler,
         'optuna:nsga2': lambda seed: S.NSGAIISampler(seed=seed, population_size=10)}
A = [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
P = [[0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886], [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
     [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.665], [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381]]
def branin(t):
    x, y = t.suggest_float('x', -5, 10), t.suggest_float('y', 0, 15)
    return (y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6)**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10
def hartmann(t):
    x = [t.suggest_float(str(i), 0, 1) for i in range(6)]
    return -sum(w * math.exp(-sum(a * (v - p)**2 for a, p, v in zip(A[i], P[i], x))) for i, w in enumerate([1, 1.2, 3, 3.2]))
for line in sys.stdin:
    kind, seed, is_branin, trials = json.loads(line)
    study = optuna.create_study(sampler=KINDS[kind](seed=seed))
    study.optimize(branin if is_branin else hartmann, n_trials=trials)
    print(study.best_value, flush=True)
";

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    (values[half] + values[values.len() - 1 - half]) / 2.0
}

#[test]
#[ignore = "needs Optuna: DLRUN_TEST_OPTUNA_PYTHON"]
#[expect(clippy::print_stderr, reason = "the table of docs/sweep.md")]
fn optuna_through_dlrun_is_as_good_as_optuna_alone() {
    let seeds =
        std::env::var("DLRUN_TEST_OPTUNA_SEEDS").map_or(10, |text| text.parse().expect("a number"));
    let mut alone = Asker::new(ALONE);
    for (is_branin, trials, least) in [(true, 40, 0.397_887), (false, 60, -3.322_37)] {
        let regret = |sampler: &str| {
            let found = (0..seeds).map(|seed| best_of(sampler, seed, is_branin, trials) - least);
            median(found.collect())
        };
        let (random, tpe) = (regret("random"), regret("tpe"));
        eprintln!("branin {is_branin}, {trials} trials: random {random:.4}, tpe {tpe:.4}");
        for sampler in ["optuna", "optuna:gp", "optuna:cmaes", "optuna:nsga2"] {
            let found = (0..seeds).map(|seed| {
                let line = alone.ask(&format!("[\"{sampler}\", {seed}, {is_branin}, {trials}]\n"));
                line.trim().parse::<f64>().expect("a number") - least
            });
            let (other, own) = (median(found.collect()), regret(sampler));
            eprintln!("  {sampler}: through dlrun {own:.4}, alone {other:.4}");
            let is_small = sampler != "optuna:nsga2" || own <= 1.5 * random;
            assert!(
                is_small && own <= 2.0 * other + 0.05,
                "{sampler}: {own}, {other}"
            );
        }
    }
}

/// The process of Optuna's that the sweep in `env` runs now.
fn process_of(env: &TestEnv) -> Option<Pid> {
    let home = format!("HOME={}", env.root().join("home").display());
    let of = fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .find(|entry| {
            let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&read("cmdline")).contains("Asks Optuna")
                && String::from_utf8_lossy(&read("environ")).contains(&home)
        })?;
    of.file_name().to_str()?.parse().ok().map(Pid::from_raw)
}

#[test]
#[ignore = "needs Optuna: DLRUN_TEST_OPTUNA_PYTHON"]
fn a_sweep_by_optuna_survives_kills_of_either_side_with_the_same_trials() {
    let values = |kills: bool, sampler: &str| {
        let mut env = TestEnv::new();
        env.set("DLRUN_OPTUNA__PYTHON", optuna_python());
        let _ = env.write(
            "small.toml",
            format!(
                "[run]\ncommand = ['sh', '-c', 'echo {{{{x}}}} {{{{y}}}} {{{{o}}}} {{{{m}}}} >>ran; echo \"Epoch 1/1 - 0.01s - loss: {{{{x}}}}\"']\n\
                 [resources]\ncpus_per_task = 1\n[sweep]\nmetric = 'loss'\nmode = 'min'\ntrials = 16\nsampler = '{sampler}'\n\
                 [sweep.space]\nvars.x = {{ low = 0.0, high = 11.0 }}\nvars.y = {{ low = 1, high = 64, log = true }}\n\
                 vars.o = ['sgd', 'adam']\n\
                 vars.m = {{ low = 0.5, high = 0.9, when = {{ o = 'sgd' }}, otherwise = 0.0 }}\n"
            ),
        );
        let run = || env.dlrun(["sweep", "run", "--scheduler", "local", "small.toml"]);
        let ran = || {
            fs::read_to_string(env.jobs().join("ran"))
                .unwrap_or_default()
                .lines()
                .count()
        };
        if kills {
            for seen in [1, 5, 9, 12] {
                let started = run().start();
                wait_for("trials", || ran() >= seen);
                let helper = wait_for_some("Optuna's process", || process_of(&env));
                kill(helper, Signal::SIGKILL).expect("ours");
                wait_for("another trial", || ran() > seen);
                started.signal(Signal::SIGKILL);
                let _ = started.finish().killed_by(Signal::SIGKILL);
            }
        }
        let started = run().arg("--json").start();
        // Python with PyTorch takes seconds to start.
        (1..=16).for_each(|count| wait_for("a trial", || ran() >= count));
        let result = started.finish().code(0).result();
        let mut trials = result["trials"].as_array().expect("a list").clone();
        trials.sort_by_key(|trial| trial["trial"].as_u64());
        assert_eq!(ran(), 16, "{result}");
        trials
            .iter()
            .map(|trial| trial["values"].to_string())
            .collect::<Vec<_>>()
    };
    for sampler in ["optuna", "optuna:gp", "optuna:cmaes"] {
        assert_eq!(values(true, sampler), values(false, sampler), "{sampler}");
    }
}

#[test]
#[ignore = "needs Optuna and slurmctld: DLRUN_TEST_OPTUNA_PYTHON, DLRUN_TEST_SLURM_CONF"]
fn optuna_proposes_the_jobs_of_a_cluster_and_is_killed() {
    let mut user = User::new();
    user.set("DLRUN_OPTUNA__PYTHON", &optuna_python().to_string_lossy());
    let program = "sleep 0.5; echo \"Epoch 1/1 - 0.5s - loss: $1\"";
    let sweep = format!(
        "[run]\ncommand = ['sh', '-c', '{program}', 'sh', '{{{{x}}}}']\n\
         [resources]\nwalltime = '5m'\nexclude = '{MORTAL_NODE}'\n\
         [sweep]\nname = 'proposed'\nmetric = 'loss'\nmode = 'min'\ntrials = 8\nmax_jobs = 3\nsampler = 'optuna'\n\
         [sweep.space]\nvars.x = {{ low = 0.0, high = 11.0 }}\n"
    );
    let file = user.write("proposed.toml", &sweep);
    let words = ["--json", "sweep", "run", "--scheduler", "slurm"];
    let mut started = user
        .command(user.binary())
        .args(words)
        .arg(&file)
        .spawn()
        .expect("it starts");
    let dir = user.state_dir().join("sweeps/proposed");
    let begun = || {
        let journal = fs::read_to_string(dir.join("journal.jsonl")).unwrap_or_default();
        journal.matches("\"begun\"").count()
    };
    until("trials", 120, || (begun() >= 3).then_some(()));
    let lock = fs::read_to_string(dir.join("lock")).expect("a lock");
    let owner = lock.split(' ').next().and_then(|pid| pid.parse().ok());
    kill(Pid::from_raw(owner.expect("a process")), Signal::SIGKILL).expect("it runs");
    let _ = started.wait();
    let words = [&words.map(AsRef::as_ref)[..], &[file.as_os_str()]].concat();
    let result = user.dlrun(&words).result();
    let trials = result["trials"].as_array().expect("a list");
    let values = trials.iter().map(|trial| &trial["outcome"]["value"]);
    assert!({ values }.all(serde_json::Value::is_f64), "{result}");
    let runs = trials.iter().filter_map(|trial| trial["run_id"].as_str());
    let runs: BTreeSet<&str> = runs.collect();
    assert_eq!((trials.len(), runs.len()), (8, 8), "{result}");
    assert!(result["optuna"].to_string().contains('.'), "{result}");
}
