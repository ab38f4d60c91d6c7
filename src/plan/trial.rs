//! `framework.trial`: the ways in which the command is tried before it runs.

use super::candidates::Prospect;
use super::compiler;
use super::decisions::{JOB_FILE, Resolver};
use super::forecast_text::count;
use crate::foundation::diagnostic::Problem;
use crate::job::{EnvVar, Launcher};
use crate::launch::{Trial, TrialWay};

/// Threads of the CPU libraries that PyTorch, TensorFlow and scikit-learn use.
const THREADS: &str = "OMP_NUM_THREADS";
/// More ways would have too little time each.
const MOST_WAYS: usize = 6;
/// The part of the time limit that a trial may take.
const PART_OF_LIMIT: u64 = 10;
/// A pass that is shorter than this, in seconds, hardly gets beyond the program's start.
const LEAST_SECONDS: u64 = 10;

impl Resolver<'_> {
    /// Fills in what is tried. The planned way comes first.
    pub(super) fn trial(&mut self, prospect: &Prospect) {
        if !self.spec.tries_ways {
            return;
        }
        if self.plan.launcher != Launcher::None {
            let message = format!(
                "`framework.trial` is for commands that run once, on one node; launcher = \"{}\" starts more",
                self.plan.launcher.as_str()
            );
            let hint =
                "take the line out; `dlrun bench run` compares ways of a training with ranks";
            self.problems.push(Problem::of_file(message).hinted(hint));
            return;
        }
        if let Some(resume) = &self.spec.resume {
            let message = "`framework.trial` and `[resume]` exclude each other: a checkpoint that the trial leaves would be taken for the run's";
            let hint = "run one job with the trial and without [resume], then write what it chose into framework.compiler and run.env";
            self.problems
                .push(Problem::at(resume.span.clone(), message).hinted(hint));
            return;
        }
        let minutes = self.settings.trial_minutes() as u64;
        if minutes == 0 {
            let origin = self.settings.origin("trial.minutes");
            self.plan.warnings.push(format!(
                "`framework.trial` has no effect: {origin} says `trial.minutes = 0`"
            ));
            return;
        }
        let walltime = self.plan.resources.walltime;
        let seconds = walltime.map_or(minutes * 60, |limit| {
            (limit.0 / PART_OF_LIMIT).min(minutes * 60)
        });
        let ways = self.ways_to_try(prospect);
        if ways.len() < 2 {
            self.plan.warnings.push(
                "`framework.trial` has no effect: there is one way only; `framework.compiler = \"auto\"` leaves the compiler open"
                    .to_owned(),
            );
            return;
        }
        let least = LEAST_SECONDS * 2 * ways.len() as u64;
        if seconds < least {
            let ways = count(ways.len() as u64, "way");
            self.plan.warnings.push(format!(
                "`framework.trial` has no effect: {ways} need {least} s, and it may take {seconds} s (a tenth of the time limit, and at most \
                 `trial.minutes`)"
            ));
            return;
        }
        let names: Vec<String> = ways.iter().map(TrialWay::name).collect();
        let value = format!(
            "{} for {seconds} s at most: {}",
            count(ways.len() as u64, "way"),
            names.join("; ")
        );
        self.decide("trial", value, JOB_FILE);
        self.plan.trial = Some(Trial { seconds, ways });
    }

    fn ways_to_try(&self, prospect: &Prospect) -> Vec<TrialWay> {
        let planned = self.plan.framework.compiler.clone();
        let mut compilers = vec![planned];
        if let Some(chosen) = prospect.chosen().filter(|_| self.spec.leaves_compiler) {
            let same = |other: &&super::Candidate| {
                (&other.image, other.nodes) == (&chosen.image, chosen.nodes)
            };
            for other in prospect.candidates.iter().filter(same) {
                if !compilers.contains(&other.compiler) {
                    compilers.push(other.compiler.clone());
                }
            }
        }
        let is_set = |name: &str| self.plan.env.iter().any(|variable| variable.name == name);
        let on_gpus = self.plan.resources.gpus_on_node().is_some();
        let cpus = self.plan.resources.cpus_per_task.unwrap_or(1);
        let mut threads = vec![None];
        if !on_gpus && cpus > 1 && !is_set(THREADS) {
            threads.push(Some(cpus / 2));
        }
        let all = threads.iter().flat_map(|threads| {
            compilers
                .iter()
                .map(|compiler| (compiler.clone(), *threads))
        });
        all.take(MOST_WAYS)
            .map(|(compiler, threads)| self.way(compiler, threads, on_gpus))
            .collect()
    }

    fn way(&self, compiler: Option<String>, threads: Option<u32>, on_gpus: bool) -> TrialWay {
        let variables = |name: &Option<String>| {
            let framework = crate::job::Framework {
                compiler: name.clone(),
                ..self.plan.framework.clone()
            };
            let mut env = Vec::new();
            compiler::add_variables(&mut env, &framework, on_gpus);
            env
        };
        // A value that the job file or a rule sets is the same in all ways.
        let planned = variables(&self.plan.framework.compiler);
        let is_free = |variable: &EnvVar| {
            let known = self
                .plan
                .env
                .iter()
                .find(|known| known.name == variable.name);
            known.is_none_or(|known| planned.contains(known))
        };
        let mut env: Vec<EnvVar> = variables(&compiler).into_iter().filter(is_free).collect();
        env.extend(threads.map(|threads| EnvVar {
            name: THREADS.to_owned(),
            value: threads.to_string(),
        }));
        let gone = planned
            .iter()
            .filter(|old| is_free(old) && !env.iter().any(|new| new.name == old.name));
        let unset = gone.map(|old| old.name.clone()).collect();
        TrialWay {
            compiler,
            threads,
            env,
            unset,
        }
    }
}
