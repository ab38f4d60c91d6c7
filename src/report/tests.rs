//! Runs for the tests of this module.

use super::{Node, Run, points_of_each};
use crate::job::{Framework, JobState, RunId, SchedulerKind, Workload};
use crate::record::{Epoch, HostFacts, MeasureKey, NodeRecord, NodeState, RunRecord, Status};
use crate::report::insight::{NodeView, RunView, derive};

/// When it began, in Unix milliseconds.
pub(super) const BEGIN_MS: u64 = 1_763_650_000_000;

/// A run of one node whose output said nothing.
pub(super) fn untimed() -> Run {
    let run_id = RunId::from_random([7; 10]);
    let record = RunRecord {
        format: RunRecord::FORMAT,
        run_id: run_id.clone(),
        name: "resnet50".to_owned(),
        submitted_at_ms: BEGIN_MS - 60_000,
        user: "anna".to_owned(),
        submit_host: "login1".to_owned(),
        scheduler: SchedulerKind::Slurm,
        job_id: None,
        output: None,
        workdir: "/home/anna".to_owned(),
        job_file: None,
        nodes: 1,
        array: None,
        parts: Vec::new(),
        framework: Framework::default(),
        storage: None,
        image: None,
        workload: Workload::default(),
        tasks_per_node: None,
        queue: None,
        identity: None,
        forecast: None,
        dlrun_version: "0.1.0".to_owned(),
    };
    let key = MeasureKey {
        run_id,
        element: 0,
        attempt: 0,
        node: "n1".to_owned(),
        step: 0,
    };
    let mut node = NodeRecord::begun(key, None, BEGIN_MS, HostFacts::default());
    node.state = NodeState::Ended;
    node.ended_at_ms = Some(BEGIN_MS + 100_000);
    let status = Status {
        started_at_ms: Some(BEGIN_MS),
        ended_at_ms: Some(BEGIN_MS + 100_000),
        ..Status::of(JobState::Completed)
    };
    let insight = derive(&RunView {
        run: &record,
        status: &status,
        request: None,
        nodes: Vec::new(),
    });
    let nodes = vec![Node {
        record: node,
        timeline: None,
        phases: Vec::new(),
    }];
    let prefix = record.run_id.as_str()[..4].to_owned();
    derived(Run {
        prefix,
        element: None,
        record,
        status,
        request: None,
        insight,
        nodes,
        attempts: Vec::new(),
        all_starts: None,
        notes: Vec::new(),
    })
}

/// A run whose epochs took so long, in seconds.
pub(super) fn timed(seconds: &[f64]) -> Run {
    let mut run = untimed();
    let progress = &mut run.nodes[0].record.progress;
    progress.recogniser = Some("keras".to_owned());
    let mut end_ms = BEGIN_MS as f64;
    for (epoch, seconds) in (1..).zip(seconds) {
        end_ms += seconds * 1e3;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "times of today"
        )]
        let ended_at_ms = Some(end_ms as u64);
        let clock_seconds = Some(*seconds);
        progress.push_epoch(Epoch {
            epoch,
            clock_seconds,
            ended_at_ms,
            ..Epoch::default()
        });
    }
    derived(run)
}

/// The run, with what its records mean now.
pub(super) fn derived(mut run: Run) -> Run {
    let nodes = run
        .nodes
        .iter()
        .map(|node| NodeView {
            record: &node.record,
            sampled: None,
        })
        .collect();
    let view = RunView {
        run: &run.record,
        status: &run.status,
        request: run.request.as_ref(),
        nodes,
    };
    run.insight = derive(&view);
    run
}

/// Elements are closed in the order in which they were opened, and no id is there twice.
#[track_caller]
pub(super) fn assert_sound(page: &str) {
    let body = page.split_once("<body>").expect("a body").1;
    let (mut open, mut ids) = (Vec::new(), std::collections::HashSet::new());
    for tag in body
        .split('<')
        .skip(1)
        .map(|rest| rest.split('>').next().expect("a tag"))
    {
        if let Some(id) = tag
            .split(" id=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
        {
            assert!(ids.insert(id.to_owned()), "id {id} is there twice");
        }
        let name = tag
            .split([' ', '/'])
            .find(|part| !part.is_empty())
            .expect("a name");
        if let Some(closed) = tag.strip_prefix('/') {
            // The page itself is closed outside of what is looked at.
            if let Some(opened) = open.pop() {
                assert_eq!(opened, closed);
            }
        } else if !tag.ends_with('/') && !["br", "meta"].contains(&name) {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new());
    for link in body.split("href=\"#").skip(1) {
        let target = link.split('"').next().expect("a target");
        assert!(ids.contains(target), "#{target} is nowhere");
    }
}

#[test]
fn many_curves_have_fewer_points_each() {
    assert_eq!((points_of_each(0), points_of_each(20)), (600, 600));
    assert_eq!((points_of_each(200), points_of_each(100_000)), (200, 100));
}
