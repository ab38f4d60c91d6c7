//! `dlrun ranks`: the command that the supervisor starts in place of the program of a distributed training.
//!
//! It meets the ones of the other nodes ([`meeting`]), takes this node's ranks from the common table ([`crate::launch::Meeting`]),
//! starts them at once with all others, and waits. Where a rank fails, all are ended, on all nodes, and the first that fell is
//! the run's cause. What became of each rank is in a file that the watcher reads.

mod first;
mod group;
mod likeness;
mod meeting;
mod member;
mod message;
mod network;
mod pace;
mod processes;
mod report;
mod store;
mod wire;

use std::ffi::OsString;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

pub(super) use group::{Group, INTERNAL as GROUP_VARIABLES};
use likeness::Likeness;
use meeting::{Agenda, Link, News};
use member::{Newcomer, Notes};
use message::{Fall, ToFirst};
use pace::Paces;
pub(super) use processes::tail;
use processes::{Process, Processes, Start};
use report::Report;
pub(super) use report::reported;

use super::check;
use super::context::Context;
use super::events;
use super::output::inherited_file;
use super::prepare::internal;
use super::signals::{Sender, Signals};
use crate::foundation::clock::now_ms;
use crate::job::CpuBinding;
use crate::launch::{Launch, Meeting, Worker, launcher_for};
use crate::observe::monitor;
use crate::plan::{hidden_values, masked_line};
use crate::record::{ExitStatus, RankRecord};

/// Between two looks at what the ranks use, and for news of other nodes.
const PAUSE: Duration = Duration::from_millis(200);
const LOOKS: Duration = Duration::from_secs(1);
/// A scheduler that ends a job signals all its nodes within this time.
const OWN_SIGNAL: Duration = Duration::from_secs(1);
/// How long other nodes may take to end their ranks after a failure, beyond the time from TERM to KILL.
const AFTER_STOP: Duration = Duration::from_secs(30);
/// What the shell calls a command that a signal ended.
const BY_SIGNAL: i32 = 128;
/// The group cannot be formed: as for a scheduler that is not reached.
const NO_GROUP: i32 = 69;

/// Each rank's share of the CPUs, unless it is set already.
const OMP_THREADS: &str = "OMP_NUM_THREADS";
/// Variables by which programs find the network; those that are set already stay.
const INTERFACES: [&str; 2] = ["GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"];

/// Starts and watches the ranks of this node; returns the exit code of the run's cause. `say` prints a warning.
///
/// # Errors
/// A sentence and the exit code, where the ranks are not started.
pub fn run(argv: &[OsString], context: &Context, say: &dyn Fn(&str)) -> Result<i32, (i32, String)> {
    // Before any thread is there: a signal is read here, never taken by another one.
    let signals = Signals::take().map_err(|error| (NO_GROUP, error.to_string()))?;
    let variable = |name: &str| std::env::var(name).ok();
    let group = Group::from_environment(context, variable);
    let group = group
        .ok_or_else(|| "the plan starts no ranks".to_owned())
        .flatten()
        .map_err(|why| (NO_GROUP, why))?;
    let plan = context.plan.as_ref();
    let launch = launcher_for(group.launcher, variable);
    let launch = launch.ok_or((NO_GROUP, "the launcher is not known".to_owned()))?;
    let grace = Duration::from_secs(plan.map_or(30, |plan| plan.kill_wait_seconds));
    let mut node = Node {
        argv,
        context,
        launch,
        link: meeting::begin(agenda(&group, context, launch)),
        group,
        signals,
        processes: Processes::default(),
        paces: Paces::new(plan.and_then(|plan| plan.timing.clone())),
        report: Report::beside_events(),
        fall: None,
        is_cut_off: false,
        signalled_at: None,
        end_at: None,
        grace,
        say,
    };
    let meeting = node.wait_for_start()?;
    let first = meeting.nodes.first().map(|first| first.address);
    if node.group.own.contains(&0) && !launch.speaks_ipv6() && first.is_some_and(|at| at.is_ipv6())
    {
        say("the nodes have addresses of IPv6, which this launcher's framework does not use");
    }
    if let Err((rank, code, why)) = node.start(&meeting) {
        // The other nodes must know why they end.
        say(&why);
        node.fell(rank, None, ExitStatus::Code(code));
    }
    Ok(node.wait_for_end())
}

fn agenda(group: &Group, context: &Context, launch: &dyn Launch) -> Agenda {
    let start = format!("{}.{}", context.element, context.attempt);
    let run = context
        .run_id
        .as_ref()
        .map(|run_id| run_id.as_str().to_owned());
    let job = context.job_id.as_ref().map(|job| job.0.clone());
    let notes = context
        .state_dir
        .clone()
        .zip(run.clone())
        .map(|(state_dir, run)| Notes {
            state_dir,
            names: ["runs".to_owned(), run, start.clone()],
        });
    let name = run
        .or_else(|| job.clone())
        .unwrap_or_else(|| group.secret.clone());
    let gpus = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    let gpus = gpus.split(',').filter(|gpu| !gpu.is_empty());
    let gpus: Vec<String> = gpus.map(str::to_owned).collect();
    let cpus = monitor::allowed_cpus().unwrap_or_default();
    let cpus = monitor::by_place(cpus, Path::new("/sys"));
    let plan = context.plan.as_ref();
    let asked = plan.map(|plan| plan.meeting.clone()).unwrap_or_default();
    let newcomer = Newcomer {
        node: group.own.first().copied().unwrap_or(0),
        port: network::first_port(
            &format!("{}.{}", job.as_ref().unwrap_or(&name), context.element),
            asked.ports,
        ),
        ports: asked.ports,
        likeness: match group.is_alone() {
            true => Likeness::default(),
            false => Likeness::of_node(plan, gpus.len()),
        },
        unfit: std::env::var(check::VARIABLE).ok(),
        gpus,
        cpus: cpus
            .into_iter()
            .filter_map(|cpu| u32::try_from(cpu).ok())
            .collect(),
        group: group.clone(),
    };
    Agenda {
        newcomer,
        name: format!("{name}.{start}"),
        notes,
        patience: Duration::from_secs(asked.wait_seconds),
        interface: asked.interface,
        has_store: launch.needs_store(),
    }
}

struct Node<'a> {
    argv: &'a [OsString],
    context: &'a Context,
    launch: &'static dyn Launch,
    link: Link,
    group: Group,
    signals: Signals,
    processes: Processes,
    paces: Paces,
    report: Report,
    /// The failure that ends the run.
    fall: Option<Fall>,
    /// Whether the first node is heard no more.
    is_cut_off: bool,
    /// When somebody asked the run to end.
    signalled_at: Option<Instant>,
    /// When the ranks are to end since those of another node do.
    end_at: Option<Instant>,
    grace: Duration,
    say: &'a dyn Fn(&str),
}

impl Node<'_> {
    fn wait_for_start(&mut self) -> Result<Meeting, (i32, String)> {
        loop {
            match self.link.news.recv_timeout(PAUSE) {
                Ok(News::Start(meeting, network)) => {
                    self.report.network(network);
                    return Ok(meeting);
                }
                Ok(News::Failed(why)) => return Err((NO_GROUP, why)),
                Ok(News::Note(text)) => (self.say)(&text),
                Ok(News::Stop(fall)) => return Err((NO_GROUP, fall.to_string())),
                Ok(News::Lost(_)) => return Err((NO_GROUP, "the first node is gone".to_owned())),
                Ok(News::End) => {
                    let why = "another node was asked to end before the ranks were started";
                    return Err((BY_SIGNAL + Signal::SIGTERM as i32, why.to_owned()));
                }
                Ok(News::AllOver) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err((NO_GROUP, "the meeting of the nodes ended".to_owned()));
                }
            }
            let ends = |signal: &Signal| ENDS.contains(signal);
            let asked = self.signals.wait(Some(Duration::ZERO));
            if let Some((signal, _)) = asked.into_iter().find(|(signal, _)| ends(signal)) {
                let why = format!("{signal} came before the ranks were started");
                return Err((BY_SIGNAL + signal as i32, why));
            }
        }
    }

    fn start(&mut self, meeting: &Meeting) -> Result<(), (u32, i32, String)> {
        for node in self.group.own.clone() {
            for worker in self.launch.workers(node, meeting) {
                let started = self.start_worker(&worker, node, meeting);
                if let Err(error) = started {
                    let rank = worker.rank.map_or(0, |rank| rank.rank);
                    return Err((rank, error.shell_code(), error.to_string()));
                }
            }
        }
        self.write_report();
        Ok(())
    }

    fn start_worker(
        &mut self,
        worker: &Worker,
        node: usize,
        meeting: &Meeting,
    ) -> Result<(), crate::foundation::command::CommandError> {
        let world = meeting.nodes.iter().map(|node| node.ranks).sum();
        let rank = worker.rank.as_ref();
        let helper = || world + self.processes.helpers() + 2 * u32::try_from(node).unwrap_or(0);
        let number = rank.map_or_else(helper, |rank| rank.rank);
        let is_first = number == self.group.first_rank();
        // The first one has what we have; that is rank 0's or this node's own file (`output`).
        let output = (!is_first && rank.is_some()).then(|| self.group.output_of(number));
        let output = output.flatten();
        let followed = match is_first {
            true => inherited_file().map(|file| file.path),
            false => output.clone(),
        };
        if let Some(path) = followed.clone().filter(|_| worker.role.is_none()) {
            let printed = std::fs::metadata(&path).map_or(0, |file| file.len());
            self.paces.follow(number, path, printed);
        }
        let mut removals = internal(self.context);
        removals.extend(GROUP_VARIABLES.map(OsString::from));
        if !is_first {
            // Two programs that tell of the same epochs would count them twice.
            removals.push(events::VARIABLE.into());
        }
        let variables = self.variables(worker, node, meeting);
        let mut given = variables.iter();
        let given = given.find(|(name, _)| name == OMP_THREADS);
        let threads = given.map(|(_, value)| value.clone());
        let threads = threads.or_else(|| std::env::var_os(OMP_THREADS));
        let record = RankRecord {
            rank: number,
            local_rank: rank.map_or(0, |rank| rank.local),
            world_size: world,
            role: worker.role.map(str::to_owned),
            gpus: rank
                .map(|rank| rank.gpus.join(","))
                .filter(|gpus| !gpus.is_empty()),
            omp_num_threads: threads
                .and_then(|threads| threads.to_str()?.split(',').next()?.trim().parse().ok()),
            output: followed.map(|path| path.to_string_lossy().into_owned()),
            ..RankRecord::default()
        };
        self.processes.start(Start {
            worker,
            argv: self.argv,
            variables,
            removals,
            output,
            record,
            cpus: self.bound_to(worker),
        })
    }

    /// CPUs of a rank, where the scheduler gave the job just those that it asked for: else others may use them too.
    fn bound_to(&self, worker: &Worker) -> Vec<u32> {
        let plan = self.context.plan.as_ref();
        let plan = plan.filter(|plan| plan.cpu_binding == CpuBinding::Auto);
        let each = plan.and_then(|plan| plan.resources.cpus_per_task);
        let share = worker
            .rank
            .as_ref()
            .filter(|_| worker.role != Some("agent") && !self.group.is_alone());
        let is_own = |cpus: &&[u32]| each.is_some_and(|each| cpus.len() == each as usize);
        share
            .map(|rank| &*rank.cpus)
            .filter(is_own)
            .unwrap_or_default()
            .to_vec()
    }

    /// The variables of a process: those of the launcher, unless the user sets them, and what programs need beside.
    fn variables(
        &self,
        worker: &Worker,
        node: usize,
        meeting: &Meeting,
    ) -> Vec<(OsString, OsString)> {
        let plan = self.context.plan.as_ref();
        let from_file = std::env::var("DLRUN_ENV_NAMES").unwrap_or_default();
        let is_users = |name: &str| {
            let in_plan = plan.is_some_and(|plan| plan.env.iter().any(|own| own.name == name));
            in_plan || from_file.split(' ').any(|own| own == name)
        };
        let is_set = |name: &str| std::env::var_os(name).is_some();
        let mut variables = worker.variables.clone();
        // The job keeps its number; only where there is none, JAX needs one.
        variables.retain(|(name, _)| !is_users(name) && (*name != "SLURM_JOB_ID" || !is_set(name)));
        if let Some(rank) = &worker.rank {
            let own = meeting.nodes.get(node).filter(|node| !node.cpus.is_empty());
            if !is_set(OMP_THREADS) && own.is_some() {
                // Where jobs are not bound, a rank may run on CPUs that it did not ask for.
                let resources = plan.map(|plan| &plan.resources);
                let asked = resources.filter(|its| !its.exclusive);
                let asked = asked.and_then(|its| its.cpus_per_task);
                let threads =
                    asked.map_or(rank.cpus.len(), |asked| rank.cpus.len().min(asked as usize));
                variables.push((OMP_THREADS, threads.max(1).to_string()));
            }
            // Groups on one machine share its GPUs.
            let gpus = own
                .map(|node| node.gpus.join(","))
                .filter(|gpus| !gpus.is_empty());
            let has_mask = variables
                .iter()
                .any(|(name, _)| *name == "CUDA_VISIBLE_DEVICES");
            if self.group.own.len() > 1 && !has_mask {
                variables.extend(gpus.map(|gpus| ("CUDA_VISIBLE_DEVICES", gpus)));
            }
            // What a step of Slurm with these ranks would have.
            for (name, value) in [
                ("SLURM_PROCID", rank.rank),
                ("SLURM_LOCALID", rank.local),
                ("SLURM_NTASKS", rank.world),
                ("SLURM_NPROCS", rank.world),
                ("SLURM_STEP_NUM_TASKS", rank.world),
                ("SLURM_NTASKS_PER_NODE", rank.local_world),
            ] {
                let is_ours = is_set(name) && !is_users(name);
                if is_ours && variables.iter().all(|(known, _)| *known != name) {
                    variables.push((name, value.to_string()));
                }
            }
        }
        let interface = meeting
            .nodes
            .get(node)
            .and_then(|node| node.interface.clone());
        if let Some(interface) = interface.filter(|_| !self.group.is_alone()) {
            let free = INTERFACES.into_iter().filter(|name| !is_set(name));
            variables.extend(free.map(|name| (name, interface.clone())));
        }
        variables
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    fn wait_for_end(mut self) -> i32 {
        let mut looked = Instant::now();
        let mut said_over = false;
        let mut leave_at: Option<Instant> = None;
        loop {
            for (signal, sender) in self.signals.wait(Some(PAUSE)) {
                self.pass_on(signal, sender);
            }
            for place in self.processes.reap() {
                self.ended(place);
            }
            if self.hear(said_over) {
                break;
            }
            self.end_when_due();
            self.processes.kill_when_due();
            if looked.elapsed() >= LOOKS {
                looked = Instant::now();
                self.processes.look();
                self.write_report();
            }
            if self.processes.ranks_are_over() && !said_over {
                said_over = true;
                let _ = self.link.say.send(ToFirst::Over);
            }
            if self.fall.is_some() && leave_at.is_none() {
                leave_at = Some(Instant::now() + self.grace + AFTER_STOP);
            }
            // After a failure another node may never answer.
            if said_over && leave_at.is_some_and(|at| Instant::now() >= at) {
                break;
            }
        }
        self.end()
    }

    /// Helpers that serve nobody any more are ended.
    fn end(mut self) -> i32 {
        self.processes.stop(Duration::from_secs(2));
        let deadline = Instant::now() + Duration::from_secs(4);
        while !self.processes.are_over() && Instant::now() < deadline {
            self.signals.wait(Some(Duration::from_millis(50)));
            self.processes.reap();
            self.processes.kill_when_due();
        }
        self.paces.finish();
        self.write_report();
        match &self.fall {
            Some(fall) => {
                (self.say)(&fall.to_string());
                fall.exit.shell_code()
            }
            None => self.worst(),
        }
    }

    /// The exit code where nobody fell first: the run was asked to end.
    fn worst(&self) -> i32 {
        let records = self.processes.records();
        let ranks = records
            .iter()
            .filter(|record| record.role.as_deref().is_none_or(|role| role == "agent"));
        ranks
            .filter_map(|record| record.exit)
            .map(ExitStatus::shell_code)
            .max()
            .unwrap_or(0)
    }

    fn pass_on(&mut self, signal: Signal, sender: Sender) {
        if ENDS.contains(&signal) {
            if self.signalled_at.is_none() {
                let _ = self.link.say.send(ToFirst::Asked);
            }
            self.signalled_at = Some(Instant::now());
        }
        // What came to all processes of the job is theirs already.
        if sender == Sender::Parent {
            self.processes.signal(signal);
        }
    }

    /// A rank that fails ends the run, and so does a helper without which the ranks wait for ever; not where somebody asked the
    /// run to end just before.
    fn ended(&mut self, place: usize) {
        let ranks_are_over = self.processes.ranks_are_over();
        let process: &Process = self.processes.at(place);
        let record = &process.record;
        let (rank, exit) = (record.rank, record.exit);
        let is_asked = self
            .signalled_at
            .is_some_and(|at| at.elapsed() < self.grace + AFTER_STOP);
        let role = record.role.clone();
        // One that is a rank serves other nodes too.
        let is_of_use = !process.is_helper || rank < record.world_size || !ranks_are_over;
        let failed = exit.filter(|exit| !exit.is_success() && is_of_use && !is_asked);
        if let Some(exit) = failed.filter(|_| self.fall.is_none()) {
            self.fell(rank, role, exit);
        }
        self.write_report();
    }

    fn write_report(&mut self) {
        let records = self.paces.add_to(self.processes.records());
        self.report.write(records);
    }

    fn fell(&self, rank: u32, role: Option<String>, exit: ExitStatus) {
        let (node, at_ms) = (self.context.node.clone(), now_ms());
        let fall = Fall {
            rank: Some(rank),
            role,
            node,
            exit,
            at_ms,
        };
        let _ = self.link.say.send(ToFirst::Fell(fall));
    }

    /// Ends the ranks of this node because of a failure.
    fn stop(&mut self, fall: Fall) {
        let plan = self.context.plan.as_ref();
        let hidden = plan.map(|plan| hidden_values(&plan.command, &plan.env));
        let hidden = hidden.unwrap_or_default();
        self.processes
            .fell_first(fall.rank, |line| masked_line(line, &hidden));
        // One node notes it for all.
        let first = self.group.nodes.first().map(|(name, _)| name);
        if fall.rank.is_none() && (self.group.own.contains(&0) || first == Some(&fall.node)) {
            self.report.lost(&fall.node);
        }
        self.fall = Some(fall);
        self.processes.stop(self.grace);
    }

    /// Another node was asked to end. Where this one was asked itself its ranks have the signal; else they get it, and no SIGKILL: a
    /// program may save its work at it.
    fn end_when_due(&mut self) {
        if self.end_at.is_some_and(|at| Instant::now() >= at) {
            self.end_at = None;
            if self.signalled_at.is_none() {
                self.signalled_at = Some(Instant::now());
                self.processes.signal(Signal::SIGTERM);
            }
        }
    }

    /// Takes the news of other nodes; whether all is over.
    fn hear(&mut self, said_over: bool) -> bool {
        let mut is_over = false;
        while let Ok(news) = self.link.news.try_recv() {
            match news {
                News::Stop(fall) if self.fall.is_none() => self.stop(fall),
                News::End => self.end_at = Some(Instant::now() + OWN_SIGNAL),
                News::AllOver => is_over = said_over,
                News::Lost(fall) => {
                    self.is_cut_off = true;
                    if let Some(fall) = fall.filter(|_| self.fall.is_none() && !said_over) {
                        self.stop(fall);
                    }
                }
                News::Note(text) | News::Failed(text) => (self.say)(&text),
                News::Start(..) | News::Stop(_) => {}
            }
        }
        // Where the first node is lost, nobody is left to say that all is over.
        is_over || said_over && self.is_cut_off
    }
}

/// Signals by which somebody asks a run to end.
const ENDS: [Signal; 4] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];
