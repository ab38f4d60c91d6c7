//! What clients ask of the node, and the answers.

use super::{Node, refuse};
use crate::foundation::clock::{booted_at_ms, now_from, now_ms};
use crate::job::RunId;
use crate::node::daemon::admit::{Admitted, admit, check, check_owner, check_record};
use crate::node::daemon::budget;
use crate::node::daemon::connection::Question;
use crate::node::daemon::peer::Peer;
use crate::node::daemon::recorder::{End, Handle, Job, Reply};
use crate::node::daemon::watched::{Memory, Stage, Watched, not_in_the_future};
use crate::observe::monitor::{JobSigns, identity};
use crate::observe::protocol::{
    Ending, MAX_MESSAGE_BYTES, Process, Refusal, RefusalKind, Registration, Request, Response,
    Runs, RunsQuery,
};
use crate::record::{EventKind, Gap, NodeRecord};

/// How far the clock of a run may be ahead of the wall clock: that may have been set back meanwhile.
const DATED_AHEAD_MS: u64 = 86_400_000;
/// How far a run may seem to begin before its command, whose start the kernel gives in hundredths of a second.
const START_SLACK_MS: u64 = 500;
/// Room that is left in an answer for what surrounds the runs.
const ANSWER_ROOM: usize = MAX_MESSAGE_BYTES - 4096;

impl Node {
    pub(crate) fn answer(&mut self, asked: Question) {
        let (connection, peer, mut reply) = (asked.connection, asked.peer, Some(asked.reply));
        let done = match *asked.request {
            Request::Hello(_) => bad("there was a hello already"),
            Request::Register(registration) => {
                self.register(connection, peer, *registration, &mut reply)
            }
            Request::Runs(query) => Ok(Some(Response::Runs(self.list(peer, &query)))),
            Request::Status => Ok(Some(Response::Status(Box::new(self.status())))),
            Request::Update { record } => self.update(connection, *record),
            // Watchers of dlrun 0.1 ask for it; their samples are in the run's directory.
            Request::Backfill { .. } => bad("dlrund takes no samples from clients"),
            Request::Collect { acknowledged } => self.collect(connection, acknowledged, &mut reply),
            Request::End(ending) => self.end(connection, *ending, &mut reply),
        };
        let response = done.unwrap_or_else(|refusal| Some(Response::Refused(refusal)));
        if let (Some(reply), Some(response)) = (reply, response) {
            // The client may have left.
            let _ = reply.send(response);
        }
    }

    fn collect(
        &mut self,
        connection: u64,
        acknowledged: Option<u32>,
        reply: &mut Option<Reply>,
    ) -> Done {
        let node = self.registered_by(connection)?.node;
        if let (Some(node), Some(reply)) = (node, reply.take_if(|_| node.is_some())) {
            if let Err(Job::Collect(.., reply)) =
                self.recorder.send(Job::Collect(node, acknowledged, reply))
            {
                refuse(Some(reply));
            }
            return Ok(None);
        }
        bad(UNREGISTERED)
    }

    /// The run that this connection registered.
    fn registered_by(&mut self, connection: u64) -> Result<&mut Watched, Refusal> {
        let handle = self.by_connection.get(&connection);
        let watched = handle.and_then(|handle| self.runs.get_mut(handle));
        watched.ok_or_else(|| Refusal::new(RefusalKind::BadRequest, UNREGISTERED))
    }

    /// A connection is over.
    pub(crate) fn close_connection(&mut self, connection: u64) {
        let Some(handle) = self.by_connection.remove(&connection) else {
            return;
        };
        let Some(watched) = self.runs.get_mut(&handle) else {
            return;
        };
        if watched.connection == Some(connection) {
            watched.connection = None;
            if watched.stage == Stage::Ended {
                self.runs.remove(&handle);
            }
        }
    }

    fn register(
        &mut self,
        connection: u64,
        peer: Peer,
        registration: Registration,
        reply: &mut Option<Reply>,
    ) -> Done {
        if self.by_connection.contains_key(&connection) {
            return bad("this connection has registered a run already");
        }
        let weight = check(&registration)?;
        let is_known = |watched: &Watched| watched.key == registration.record.key;
        let known = self.runs.iter().find(|(_, watched)| is_known(watched));
        let known = known.map(|(handle, watched)| (*handle, watched));
        self.room(peer.uid, known.map(|(handle, _)| handle), weight)?;
        // One whose command has just ended is let in too: its client has the last words.
        if let Some((handle, watched)) = known
            && watched.is_resumed_by(peer, registration.command)
        {
            return self.resume(connection, (handle, weight), peer, registration, reply);
        }
        // What an older daemon took is watched to its end.
        if known.is_none() {
            check_owner(&registration.run.run_id, peer)?;
        }
        let admitted = admit(peer, &registration)?;
        if let Some((handle, watched)) = known {
            let is_same = watched.uid == peer.uid && watched.command == admitted.command;
            // One that is not in the database yet asks again where its client did not wait for the first answer.
            if !is_same || watched.stage == Stage::Ended {
                let message = "this measurement belongs to another command";
                return Err(Refusal::new(RefusalKind::NotPermitted, message));
            }
            return self.resume(connection, (handle, weight), peer, registration, reply);
        }
        let is_of_user = |watched: &&Watched| watched.uid == peer.uid;
        let of_user = self.runs.values().filter(is_of_user).count();
        if of_user >= self.settings.runs_per_user() {
            let uid = peer.uid;
            let message = format!("user id {uid} has {of_user} runs on this node already");
            return Err(Refusal::new(RefusalKind::Busy, message));
        }
        self.take_up(connection, peer, (registration, weight), admitted, reply)
    }

    /// Whether a record of this weight has room beside the other records: one user's must not take the memory of all. What is over
    /// a budget is refused to who asks; watchers continue without the daemon.
    fn room(&self, uid: u32, handle: Option<Handle>, weight: usize) -> Result<(), Refusal> {
        let is_other = |(other, _): &(&Handle, &Watched)| Some(**other) != handle;
        let others = self.runs.iter().filter(is_other);
        let held = others.map(|(_, watched)| (watched.uid, watched.weight));
        budget::room(held, uid, weight).map_err(|message| Refusal::new(RefusalKind::Busy, message))
    }

    fn take_up(
        &mut self,
        connection: u64,
        peer: Peer,
        (registration, weight): (Registration, usize),
        admitted: Admitted,
        reply: &mut Option<Reply>,
    ) -> Done {
        let (run, mut record) = (registration.run, registration.record);
        let command = admitted.command;
        let handle = self.new_handle();
        // Who names a later date has no advantage by it for long.
        let dated = registration.booted_at_ms;
        let dated = dated.filter(|dated| *dated <= booted_at_ms() + DATED_AHEAD_MS);
        let now = now_from(dated.unwrap_or_else(booted_at_ms));
        not_in_the_future(&mut record, now);
        not_before(&mut record, command, now);
        let memory = Memory {
            name: run.name.clone(),
            supervisor: Some(admitted.supervisor),
            client: Some(peer.pid),
            // The id in the environment of a local job is that of a job around it.
            signs: JobSigns::of_process(peer.pid).filter(|_| !run.scheduler.is_local()),
            booted_at_ms: dated.unwrap_or_default(),
            notices_steps: dated.is_some(),
            allocated: registration.gpus,
            cgroup: admitted.cgroup,
            // What the client measured before.
            usage: record.usage,
            gpus: record.gpus.clone(),
            ..Memory::default()
        };
        let mut watched = Watched::new(
            peer.uid,
            command,
            record,
            memory,
            self.settings.process_interval(),
        );
        if let Some(hint) = registration.gap {
            watched.add_gap(Gap::new(hint.lost_at_ms, now, "dlrund was not running"));
        }
        if let Some(cgroup) = watched.cgroup().map(str::to_owned) {
            self.note_sharing(&mut watched, &cgroup);
        }
        (watched.connection, watched.weight) = (Some(connection), weight);
        if self.enrol(handle, &watched, run, false, reply.take()) {
            self.by_connection.insert(connection, handle);
            self.runs.insert(handle, watched);
        }
        Ok(None)
    }

    /// The client, or this daemon, was restarted; the run is the same.
    fn resume(
        &mut self,
        connection: u64,
        (handle, weight): (Handle, usize),
        peer: Peer,
        registration: Registration,
        reply: &mut Option<Reply>,
    ) -> Done {
        let watched = self.runs.get_mut(&handle);
        let Some(watched) = watched else {
            return bad(UNREGISTERED);
        };
        watched.weight = weight;
        if let Some(former) = watched.connection.replace(connection) {
            self.by_connection.remove(&former);
        }
        self.by_connection.insert(connection, handle);
        watched.come_back(registration.record, peer.pid);
        let (watched, reply) = (&self.runs[&handle], reply.take());
        self.enrol(handle, watched, registration.run, true, reply);
        Ok(None)
    }

    /// Two runs of one job share its cgroup: each has the totals of both.
    fn note_sharing(&mut self, watched: &mut Watched, cgroup: &str) {
        let note = |noted: &mut Watched, run_id: &RunId| {
            let detail =
                format!("CPU, memory and I/O are those of the job; run {run_id} is in it too");
            noted.note(noted.now_ms(), EventKind::SharedCgroup, detail);
        };
        let others = self.runs.values_mut();
        for other in others.filter(|other| other.stage != Stage::Ended) {
            if other.cgroup() == Some(cgroup) {
                note(watched, &other.key.run_id);
                note(other, &watched.key.run_id);
            }
        }
    }

    /// What the new record of a connection's run weighs, where that has room.
    fn weight_of(&self, connection: u64, uid: u32, record: &NodeRecord) -> Result<usize, Refusal> {
        let weight = check_record(record)?;
        self.room(uid, self.by_connection.get(&connection).copied(), weight)
            .map(|()| weight)
    }

    fn update(&mut self, connection: u64, record: NodeRecord) -> Done {
        let watched = self.registered_by(connection)?;
        if watched.stage == Stage::Ended {
            return bad("the run has ended");
        }
        let uid = watched.uid;
        let weight = self.weight_of(connection, uid, &record)?;
        let watched = self.registered_by(connection)?;
        watched.weight = weight;
        watched.update(record);
        let response = Response::Measured(Box::new(watched.measured()));
        if let Some(node) = watched.node {
            let (record, memory) = (Box::new(watched.record()), watched.remembered(false));
            self.recorder.update(node, record, memory);
        }
        Ok(Some(response))
    }

    fn end(&mut self, connection: u64, ending: Ending, reply: &mut Option<Reply>) -> Done {
        let report = self.gpu_report();
        let watched = self.registered_by(connection)?;
        let (Stage::Live, Some(node)) = (watched.stage, watched.node) else {
            return bad("the run has ended");
        };
        let uid = watched.uid;
        let weight = self.weight_of(connection, uid, &ending.record)?;
        let watched = self.registered_by(connection)?;
        watched.weight = weight;
        let sample = watched.sample(report.as_ref(), true);
        let is_unfit = ending
            .record
            .events
            .iter()
            .any(|event| event.kind.is_of_node());
        watched.end(ending);
        let record = Box::new(watched.record());
        let measured = Box::new(Response::Measured(Box::new(watched.measured())));
        self.checks_failed += u64::from(is_unfit);
        self.recorder.tick(vec![(node, sample)]);
        self.recorder.end(End {
            node,
            uid,
            weight,
            record,
            answer: reply.take().map(|reply| (measured, reply)),
        });
        Ok(None)
    }

    fn list(&self, peer: Peer, query: &RunsQuery) -> Runs {
        let may_see = |watched: &&Watched| peer.may_read(watched.uid);
        let mut runs = Vec::new();
        let (mut bytes, mut more) = (0, false);
        for watched in self.live().filter(may_see).skip(query.skip) {
            let view = watched.view(query.processes);
            bytes += serde_json::to_vec(&view).map_or(0, |text| text.len() + 1);
            if bytes > ANSWER_ROOM && !runs.is_empty() {
                more = true;
                break;
            }
            runs.push(view);
        }
        Runs {
            host: self.host.clone(),
            at_ms: now_ms(),
            runs,
            more,
        }
    }
}

/// A run began no earlier than its command.
fn not_before(record: &mut NodeRecord, command: Process, now: u64) {
    if let Some(age) = identity::age(command.start_time_ticks) {
        let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let begun_ms = now.saturating_sub(age_ms).saturating_sub(START_SLACK_MS);
        record.started_at_ms = record.started_at_ms.clamp(begun_ms, now.max(begun_ms));
    }
}

const UNREGISTERED: &str = "this connection has not registered a run";

/// What is to be answered; `None`: the database answers, once it has done its part.
type Done = Result<Option<Response>, Refusal>;

fn bad(message: impl Into<String>) -> Done {
    Err(Refusal::new(RefusalKind::BadRequest, message))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc::Receiver;

    use tokio::sync::oneshot;

    use super::*;
    use crate::config::{DaemonSettings, Fragment};
    use crate::node::daemon::recorder::{Notice, Recorder};
    use crate::record::Event;
    use crate::record::store::{Live, LiveRun, NodeId};

    fn node(room: usize) -> (Node, Receiver<Job>) {
        let (recorder, queue) = Recorder::queue_only(room);
        let limits = "[limits]\nruns_per_user = 4\n";
        let limits = Fragment::from_daemon_toml(Path::new("dlrund.toml"), limits);
        let settings = DaemonSettings::merge(&[limits]);
        (Node::new(settings, None, recorder, Vec::new()), queue)
    }

    fn registration() -> Registration {
        let text = include_str!("../../../../tests/fixtures/protocol/v1/request-register.json");
        let Ok(Request::Register(registration)) = serde_json::from_str(text) else {
            panic!("a registration")
        };
        *registration
    }

    /// A supervisor with a client and a command.
    struct Family {
        shell: Child,
        peer: Peer,
        registration: Registration,
    }

    impl Family {
        fn new() -> Self {
            let script = "sleep 60 & a=$!; echo $a; sleep 60 & b=$!; echo $b; read end; kill $a $b";
            let mut shell = Command::new("sh");
            shell
                .args(["-c", script])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            let mut shell = shell.spawn().expect("a shell");
            let mut lines = BufReader::new(shell.stdout.take().expect("a pipe")).lines();
            let mut pid = || {
                lines
                    .next()
                    .expect("a line")
                    .expect("text")
                    .parse::<u32>()
                    .expect("a pid")
            };
            let (client, command) = (pid(), pid());
            let peer = Peer {
                uid: nix::unistd::getuid().as_raw(),
                pid: client,
                reads_all: false,
            };
            let mut registration = registration();
            let start_time_ticks = identity::start_time_ticks(command).expect("it runs");
            registration.command = Process {
                pid: command,
                start_time_ticks,
            };
            registration.run.run_id = RunId::of_owner([7; 10], peer.uid);
            registration.record.key.run_id = registration.run.run_id.clone();
            Self {
                shell,
                peer,
                registration,
            }
        }

        fn ask(&self, node: &mut Node, request: Request) -> oneshot::Receiver<Response> {
            let (reply, answer) = oneshot::channel();
            node.answer(Question {
                connection: 7,
                peer: self.peer,
                request: Box::new(request),
                reply,
            });
            answer
        }

        fn register(&self, node: &mut Node) -> oneshot::Receiver<Response> {
            self.ask(node, Request::Register(Box::new(self.registration.clone())))
        }

        /// Registers, and lets the database have it.
        fn live(&self, node: &mut Node, queue: &Receiver<Job>) -> u64 {
            drop(self.register(node));
            let Ok(Job::Register(register)) = queue.try_recv() else {
                panic!("nothing was registered")
            };
            node.notice(Notice::Registered(register.handle, NodeId(1)));
            let _ = queue.try_recv();
            register.record.started_at_ms
        }

        fn end(&self, node: &mut Node) -> oneshot::Receiver<Response> {
            let record = self.registration.record.clone();
            self.ask(
                node,
                Request::End(Box::new(Ending {
                    record,
                    cpu_user_us: 0,
                    cpu_system_us: 0,
                })),
            )
        }
    }

    impl Drop for Family {
        fn drop(&mut self) {
            drop(self.shell.stdin.take());
            let _ = self.shell.wait();
        }
    }

    fn refusal(mut answer: oneshot::Receiver<Response>) -> Option<RefusalKind> {
        match answer.try_recv() {
            Ok(Response::Refused(refusal)) => Some(refusal.kind),
            _ => None,
        }
    }

    #[test]
    fn a_run_for_which_there_was_no_room_can_come_again() {
        let (mut node, queue) = node(0);
        let family = Family::new();
        assert_eq!(refusal(family.register(&mut node)), Some(RefusalKind::Busy));
        assert!(node.runs.is_empty() && node.by_connection.is_empty());
        drop(queue);
    }

    #[test]
    fn end_waits_for_the_disk_beside_a_full_queue() {
        let (mut node, queue) = node(1);
        let mut family = Family::new();
        family.live(&mut node, &queue);
        let (at_ms, kind, detail) = (7, EventKind::NodeUnfit, "it is slow".to_owned());
        let events = &mut family.registration.record.events;
        events.push(Event {
            at_ms,
            kind,
            detail,
        });
        // The sample before the end takes the only place.
        assert_eq!(refusal(family.end(&mut node)), None);
        assert_eq!(node.checks_failed, 1);
        assert_eq!(node.recorder.ending(), 1);
        assert!(matches!(queue.try_recv(), Ok(Job::Ticks)));
        assert!(queue.try_recv().is_err());
    }

    #[test]
    fn times_of_a_run_are_those_of_its_command() {
        let (mut node, queue) = node(9);
        let family = Family::new();
        let begun_ms = now_ms();
        let started_at_ms = family.live(&mut node, &queue);
        assert!(started_at_ms.abs_diff(begun_ms) < 60_000, "{started_at_ms}");
        let mut record = family.registration.record.clone();
        (record.updated_at_ms, record.ended_at_ms) = (u64::MAX, Some(u64::MAX));
        drop(family.ask(
            &mut node,
            Request::Update {
                record: Box::new(record),
            },
        ));
        let Ok(Job::Update(id)) = queue.try_recv() else {
            panic!("no update")
        };
        let record = node.recorder.updated(id).expect("a record");
        // The daemon counts by the clock since boot, which the time of day may lag by some milliseconds.
        let soon_ms = now_ms() + 60_000;
        assert!(record.updated_at_ms <= soon_ms && record.ended_at_ms <= Some(soon_ms));
    }

    #[test]
    fn long_records_are_refused_whenever_they_come() {
        let (mut node, queue) = node(9);
        let mut family = Family::new();
        family.live(&mut node, &queue);
        family.registration.record.output = Some("x".repeat(300 << 10));
        let record = family.registration.record.clone();
        let update = family.ask(
            &mut node,
            Request::Update {
                record: Box::new(record),
            },
        );
        assert_eq!(refusal(update), Some(RefusalKind::BadRequest));
        assert_eq!(
            refusal(family.end(&mut node)),
            Some(RefusalKind::BadRequest)
        );
        // What `import` would refuse would stand in exports.
        for text in ["x".repeat(5_000), "a\0b".to_owned()] {
            let record = NodeRecord {
                output: Some(text),
                ..family.registration.record.clone()
            };
            let update = family.ask(
                &mut node,
                Request::Update {
                    record: Box::new(record),
                },
            );
            assert_eq!(refusal(update), Some(RefusalKind::BadRequest));
        }
        node.close_connection(7);
        assert_eq!(
            refusal(family.register(&mut node)),
            Some(RefusalKind::BadRequest)
        );
        assert!(queue.try_recv().is_err());
    }

    #[test]
    fn records_of_one_user_leave_room_for_those_of_others() {
        let (mut node, queue) = node(9);
        let family = Family::new();
        family.live(&mut node, &queue);
        let handle = *node.runs.keys().next().expect("it is watched");
        node.runs.get_mut(&handle).expect("it is watched").weight = budget::OF_USER;
        let uid = family.peer.uid;
        assert_eq!(
            node.room(uid, None, 1).map_err(|refusal| refusal.kind),
            Err(RefusalKind::Busy)
        );
        assert_eq!(node.room(uid + 1, None, 1), Ok(()));
        // A newer version of the same record takes the place of the older.
        assert_eq!(node.room(uid, Some(handle), budget::OF_USER), Ok(()));
        assert!(node.room(uid + 1, None, budget::OF_ALL).is_err());
    }

    #[test]
    fn samples_of_clients_are_refused() {
        let (mut node, queue) = node(9);
        let family = Family::new();
        family.live(&mut node, &queue);
        let answer = family.ask(&mut node, Request::Backfill { bytes: vec![1; 99] });
        assert_eq!(refusal(answer), Some(RefusalKind::BadRequest));
        assert!(queue.try_recv().is_err());
    }

    #[test]
    fn jobs_of_others_live_as_long_as_their_cgroup() {
        let cgroup = tempfile::tempdir().expect("a directory");
        std::fs::write(cgroup.path().join("cgroup.procs"), "1\n").expect("written");
        let (mut node, _queue) = node(9);
        let state = serde_json::json!({"foreign": true, "cgroup": {
            "scheduler": "slurm", "path": "/slurm/uid_7/job_1", "directories": {"processes": cgroup.path()},
        }});
        let live = Live {
            pid: 0,
            start_time_ticks: 1,
            boot_id: node.boot_id.clone(),
            state: state.to_string(),
        };
        let run = LiveRun {
            node: NodeId(1),
            uid: 7,
            live,
            record: registration().record,
            last_at_ms: None,
        };
        node.recover(vec![(run, Vec::new())]);
        assert_eq!(node.runs.len(), 1);
    }
}
