//! Distributed trainings over several nodes of a real Slurm: the nodes meet, the ranks start, the first that falls is the cause.

use std::time::Instant;

use super::cluster::{User, sh, until};

/// Prints what a rank finds, and reaches rank 0 over the network.
const RANK: &str = "echo rank $RANK/$WORLD_SIZE on $SLURMD_NODENAME local $LOCAL_RANK/$LOCAL_WORLD_SIZE slurm $SLURM_PROCID/$SLURM_NTASKS at \
                    $MASTER_ADDR";

fn ddp(user: &User, name: &str, script: &str, resources: &str) -> (i32, super::cluster::Submitted) {
    let run = format!("launcher = \"ddp\"\n{}", sh(script));
    let submitted = user.submit(&user.job(name, &run, &format!("{resources}\nwalltime = \"3m\"")));
    (user.wait(&submitted.run), submitted)
}

fn log_of(user: &User, run: &str, rank: &str) -> String {
    user.dlrun(&["logs", run, "--rank", rank]).ok()
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn ranks_of_two_nodes_have_one_table_and_their_own_files() {
    let user = User::new();
    let (code, submitted) = ddp(&user, "two", RANK, "nodes = 2\ntasks_per_node = 2");
    assert_eq!(code, 0, "{}", submitted.text());
    for rank in 0..4 {
        let text = log_of(&user, &submitted.run, &rank.to_string());
        let expected = format!("rank {rank}/4 on n");
        assert!(
            text.contains(&expected) && text.contains(&format!("local {}/2", rank % 2)),
            "{text}"
        );
        assert!(
            text.contains(&format!("slurm {rank}/4")) && !text.contains("at 127."),
            "{text}"
        );
    }
    assert!(
        !submitted.text().contains("rank 1/4"),
        "{}",
        submitted.text()
    );
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn uneven_tasks_are_numbered_as_slurm_spreads_them() {
    let user = User::new();
    let (code, submitted) = ddp(&user, "uneven", RANK, "nodes = 2\ntasks = 3");
    assert_eq!(code, 0, "{}", submitted.text());
    assert!(log_of(&user, &submitted.run, "2").contains("rank 2/3"));
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn killed_rank_of_another_node_is_the_cause() {
    let user = User::new();
    let script = "if [ $RANK = 3 ]; then sleep 1; kill -9 $$; fi; exec sleep 600";
    let (code, submitted) = ddp(&user, "fall", script, "nodes = 2\ntasks_per_node = 2");
    assert_eq!(code, 10, "{}", submitted.text());
    let shown = user.dlrun(&["show", &submitted.run]).ok();
    assert!(
        shown.contains("rank 3 on n") && shown.contains("failed first"),
        "{shown}"
    );
    assert!(shown.contains("SIGKILL"), "{shown}");
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn two_jobs_on_the_same_nodes_do_not_meet_each_other() {
    let user = User::new();
    let run = format!("launcher = \"ddp\"\n{}", sh(&format!("sleep 1; {RANK}")));
    let file = user.job(
        "pair",
        &run,
        "nodes = 2\nnodelist = \"n1,n2\"\nwalltime = \"3m\"",
    );
    let both = [user.submit(&file), user.submit(&file)];
    for submitted in both {
        assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
        assert!(log_of(&user, &submitted.run, "1").contains("rank 1/2"));
    }
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn rendered_job_trains_on_the_nodes_that_it_got() {
    let user = User::new();
    let run = format!("launcher = \"ddp\"\n{}", sh(RANK));
    let file = user.job("other", &run, "nodes = 2\nwalltime = \"3m\"");
    let (dlrun, shown) = (user.binary().display(), file.display());
    for nodes in [1, 3] {
        let piped = format!("{dlrun} render {shown} | sbatch --parsable --wait -N{nodes}");
        let job = user.shell(&piped).ok();
        let run = until("the piped job's run", 60, || {
            let mut all = user.list().into_iter();
            all.find(|row| row["job_id"] == job.trim())
        });
        let run = run["run_id"].as_str().expect("an id").to_owned();
        assert_eq!(user.wait(&run), 0);
        let last = log_of(&user, &run, &(nodes - 1).to_string());
        assert!(
            last.contains(&format!("rank {}/{nodes} on", nodes - 1)),
            "{last}"
        );
    }
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn stopped_rank_ends_with_the_others() {
    let user = User::new();
    let script = "if [ $RANK = 1 ]; then kill -STOP $$; fi; exec sleep 600";
    let run = format!("launcher = \"ddp\"\n{}", sh(script));
    let hung = user.submit(&user.job("hung", &run, "nodes = 2\nwalltime = \"3m\""));
    user.until_state(&hung.run, "running");
    std::thread::sleep(std::time::Duration::from_secs(2));
    let _ = user.dlrun(&["cancel", &hung.run]).ok();
    assert_eq!(user.wait(&hung.run), 15, "{}", hung.text());
    assert_eq!(user.state(&hung.run), "cancelled");

    // Where another rank fails, the stopped one continues, to end: KILL would come after 30 s.
    let script = "if [ $RANK = 1 ]; then kill -STOP $$; fi; sleep 2; exit 7";
    let began = Instant::now();
    let (code, failed) = ddp(&user, "stopped", script, "nodes = 2");
    assert_eq!(code, 10, "{}", failed.text());
    let shown = user.dlrun(&["show", &failed.run]).ok();
    assert!(shown.contains("rank 0 on n"), "{shown}");
    assert!(began.elapsed().as_secs() < 25, "{:?}", began.elapsed());
}
