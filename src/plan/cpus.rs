//! `cpus_per_task = "auto"`: the fewest CPUs with which runs that are alike were about as quick as with any other number.

use std::collections::BTreeMap;

use super::decisions::Resolver;
use super::facts::History;
use super::identity::identity_of;
use crate::foundation::statistics::median;
use crate::foundation::units::display_seconds;
use crate::job::{JobState, SchedulerKind};
use crate::record::{Identity, Past};

/// So many runs of a number must have completed.
const ENOUGH: usize = 2;
/// A number is taken if its runs took at most so many times what the quickest number's took: further CPUs would be paid for and idle.
const ABOUT_AS_QUICK: f64 = 1.05;

/// Numbers of CPUs that ran, each with the median of what its runs took, in seconds, and how many there are.
type Ran = BTreeMap<u32, (f64, usize)>;

impl Resolver<'_> {
    /// The number of CPUs of a task, where the job file leaves it open, and why; `Err`: why none is known.
    pub(super) fn open_cpus(&self) -> Result<(u32, String), String> {
        let history = &self.facts.history;
        if let Some(why) = &history.unread {
            return Err(format!("the records could not be read ({why})"));
        }
        let resources = &self.spec.resources;
        let nodes = resources.fewest_nodes();
        let shape = (nodes, resources.tasks_on_each(nodes));
        let job = identity_of(self.spec, self.facts);
        chosen(&ran(&job, shape, self.plan.scheduler, history))
    }
}

/// The runs with the job's own script, data, numbers and shape, in the environment of the last of them.
fn ran(job: &Identity, shape: (u32, u32), scheduler: SchedulerKind, history: &History) -> Ran {
    let is_alike = |past: &&Past| {
        let asked = &past.identity.asked;
        let is_here =
            past.scheduler == scheduler && (!scheduler.is_local() || past.host == history.host);
        is_here
            && past.state == JobState::Completed
            && (asked.nodes, asked.tasks_per_node) == shape
            && past.identity.key == job.key
            && past.identity.numbers == job.numbers
            && past.identity.inputs == job.inputs
            && past.identity.script_digest == job.script_digest
            && (job.declared.is_some() || job.script_digest.is_some())
    };
    let alike: Vec<&Past> = history.past.iter().filter(is_alike).collect();
    let last = alike.last().map(|past| &past.identity);
    let mut seconds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for past in &alike {
        let is_same = last.is_some_and(|last| {
            let place = |identity: &Identity| {
                (
                    identity.asked.queue.clone(),
                    identity.asked.gpus_per_node.clone(),
                )
            };
            last.environment == past.identity.environment && place(last) == place(&past.identity)
        });
        let known = past.identity.asked.cpus_per_task.zip(past.wall_seconds);
        if let Some((cpus, wall)) = known.filter(|_| is_same) {
            seconds.entry(cpus).or_default().push(wall);
        }
    }
    let enough = seconds
        .into_iter()
        .filter(|(_, walls)| walls.len() >= ENOUGH);
    enough
        .filter_map(|(cpus, walls)| {
            let runs = walls.len();
            Some((cpus, (median(walls)?, runs)))
        })
        .collect()
}

fn chosen(ran: &Ran) -> Result<(u32, String), String> {
    let best = ran.values().map(|(seconds, _)| *seconds).reduce(f64::min);
    let Some(best) = best else {
        return Err("`auto` needs two completed runs like it with some number of CPUs".to_owned());
    };
    let is_quick = |seconds: f64| seconds <= best * ABOUT_AS_QUICK;
    let fewest = ran.iter().find(|(_, (seconds, _))| is_quick(*seconds));
    let Some((cpus, _)) = fewest else {
        return Err("no run like it took a known time".to_owned());
    };
    let shown = |(cpus, (seconds, runs)): (&u32, &(f64, usize))| {
        format!("{} with {cpus} ({runs} runs)", display_seconds(*seconds))
    };
    let all: Vec<String> = ran.iter().map(shown).collect();
    Ok((
        *cpus,
        format!(
            "the fewest that were within 5% of the quickest: {}",
            all.join(", ")
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Asked;

    fn past(cpus: Option<u32>, seconds: f64, change: impl Fn(&mut Past)) -> Past {
        let asked = Asked {
            nodes: 1,
            tasks_per_node: 1,
            cpus_per_task: cpus,
            ..Asked::default()
        };
        let mut past = Past {
            run_id: crate::job::RunId::from_random([7; 10]),
            at_ms: 0,
            identity: Identity {
                key: "k".into(),
                script_digest: Some("d".into()),
                asked,
                ..Identity::default()
            },
            scheduler: SchedulerKind::Slurm,
            host: "login".into(),
            state: JobState::Completed,
            wall_seconds: Some(seconds),
            memory_bytes: None,
        };
        change(&mut past);
        past
    }

    fn found(past: Vec<Past>) -> Result<u32, String> {
        let history = History {
            host: "login".into(),
            past,
            unread: None,
        };
        let job = Identity {
            key: "k".into(),
            script_digest: Some("d".into()),
            ..Identity::default()
        };
        chosen(&ran(&job, (1, 1), SchedulerKind::Slurm, &history)).map(|(cpus, _)| cpus)
    }

    #[test]
    fn the_fewest_cpus_that_are_about_as_quick_are_taken() {
        let same = |_: &mut Past| {};
        let runs = |cpus: u32, seconds: f64| {
            [
                past(Some(cpus), seconds, same),
                past(Some(cpus), seconds, same),
            ]
        };
        let of = |all: &[(u32, f64)]| {
            found(
                all.iter()
                    .flat_map(|(cpus, seconds)| runs(*cpus, *seconds))
                    .collect(),
            )
        };
        assert_eq!(of(&[(1, 400.0), (2, 210.0), (4, 206.0), (8, 204.0)]), Ok(2));
        assert_eq!(of(&[(1, 400.0), (8, 204.0)]), Ok(8));
        assert_eq!(of(&[(4, 204.0)]), Ok(4));
        assert!(of(&[]).is_err());
    }

    #[test]
    fn runs_that_are_not_alike_do_not_count() {
        let not_alike: [fn(&mut Past); 6] = [
            |past| past.state = JobState::Failed,
            |past| past.identity.script_digest = Some("other".into()),
            |past| past.identity.asked.nodes = 2,
            |past| past.scheduler = SchedulerKind::Torque,
            |past| past.identity.asked.cpus_per_task = None,
            |past| {
                past.identity.numbers.insert("epochs".into(), 3.0);
            },
        ];
        for change in not_alike {
            assert!(found(vec![past(Some(2), 9.0, change), past(Some(2), 9.0, change)]).is_err());
        }
        // Other environments than the last run's.
        let old = |past: &mut Past| past.identity.environment = "old".into();
        let all = vec![
            past(Some(1), 9.0, old),
            past(Some(1), 9.0, old),
            past(Some(4), 99.0, |_| {}),
            past(Some(4), 99.0, |_| {}),
        ];
        assert_eq!(found(all), Ok(4));
    }
}
