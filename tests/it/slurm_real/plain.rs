//! A job behaves as it would under plain `sbatch`: what it is given, who gets a signal, which environment it finds.

use std::collections::BTreeSet;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use super::cluster::{User, argv, sh, until};

/// The job's id and output of a plain `sbatch --wait`.
fn sbatch(user: &User, script: &str, options: &[&str]) -> String {
    user.write("plain.sh", script);
    let output = user.path("plain.out");
    let output = format!("--output={}", output.display());
    let mut words = vec!["--wait", "--parsable", &output];
    words.extend(options);
    words.push("plain.sh");
    user.run("sbatch", &words).ok();
    user.read("plain.out")
}

/// Variables of dlrun's own, and what differs between any two jobs.
fn names(environment: &str) -> BTreeSet<&str> {
    let names = environment
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0));
    names
        .filter(|name| !name.starts_with("DLRUN_") && *name != "_")
        .collect()
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn job_without_tasks_has_the_variables_of_plain_sbatch() {
    let mut user = User::new();
    user.set("MINE", "from the shell");
    // A login shell would read it.
    user.write(".bash_profile", "export LOGIN_SHELL=1\n");
    user.write(".profile", "export LOGIN_SHELL=1\n");
    let plain = sbatch(
        &user,
        "#!/bin/bash\n#SBATCH --cpus-per-task=2 --time=5\nenv\n",
        &[],
    );
    let job = user.job(
        "same",
        &argv(&["env"]),
        "cpus_per_task = 2\nwalltime = \"5m\"",
    );
    let submitted = user.submit(&job);
    assert_eq!(user.wait(&submitted.run), 0);
    let text = submitted.text();
    let (plain, ours) = (names(&plain), names(&text));
    assert_eq!(
        plain.difference(&ours).collect::<Vec<_>>(),
        Vec::<&&str>::new(),
        "missing"
    );
    assert_eq!(
        ours.difference(&plain).collect::<Vec<_>>(),
        [&"PYTHONUNBUFFERED"],
        "added"
    );
    assert!(text.contains("MINE=from the shell\n"), "{text}");
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn only_what_the_job_file_asks_for_is_asked_of_slurm() {
    let user = User::new();
    let shape = "echo [${SLURM_NTASKS-}] [${SLURM_NTASKS_PER_NODE-}] [${SLURM_NNODES-}]";
    for (name, asked, seen) in [
        ("nothing", "", "[] [] [1]\n"),
        ("node", "nodes = 1", "[] [] [1]\n"),
        ("tasks", "tasks = 3", "[3] [] [1]\n"),
        ("per-node", "nodes = 1\ntasks_per_node = 1", "[1] [1] [1]\n"),
    ] {
        let submitted = user.submit(&user.job(name, &sh(shape), asked));
        assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
        assert_eq!(submitted.text(), seen, "{name}");
    }
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn tasks_in_all_are_spread_over_nodes_by_slurm() {
    let user = User::new();
    // A node has 16 CPUs.
    let command = argv(&["/bin/sh", "-c", "echo $SLURM_PROCID-$SLURM_NODEID"]);
    let submitted = user.submit(&user.job(
        "spread",
        &format!("launcher = \"mpi\"\n{command}"),
        "tasks = 18",
    ));
    assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
    let text = submitted.text();
    let ranks: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| Some(line.split_once('-')?.0))
        .collect();
    let nodes: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| Some(line.split_once('-')?.1))
        .collect();
    assert_eq!((ranks.len(), nodes.len()), (18, 2), "{text}");
}

/// The usual way to save a training before its time is over: the script hears of it, tells the training by a file and waits.
const SAVES: &str = r#"#!/bin/bash
#SBATCH --job-name=saves
#SBATCH --signal=B:USR1@20
trap 'echo script got USR1; touch STOP' USR1
perl -e '$SIG{USR1} = "DEFAULT"; $| = 1; until (-e "STOP") { select(undef, undef, undef, 0.05) } print "saved\n"' &
child=$!
echo ready
wait $child; code=$?
if [ $code -gt 128 ]; then wait $child; code=$?; fi # the signal ended the first wait
echo child ended with $code
"#;

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn signal_for_the_batch_script_reaches_the_script_alone() {
    let user = User::new();
    user.write("saves.sh", SAVES);
    user.dlrun(&["convert", "saves.sh", "-o", "saves.toml"])
        .ok();
    let submitted = user.submit(&user.path("saves.toml"));
    until("the script to be ready", 60, || {
        submitted.text().contains("ready\n").then_some(())
    });
    user.run("scancel", &["--batch", "--signal=USR1", &submitted.job])
        .ok();
    assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
    assert_eq!(
        submitted.text(),
        "ready\nscript got USR1\nsaved\nchild ended with 0\n"
    );
}

/// Notes each signal that reaches it, with its name: a command, its child in the same group, and one in a session of its own.
const FAMILY: &str = r#"use strict; use POSIX; use IO::Handle;
sub note { my ($name) = @_; open(my $file, '>>', "got.$name") or die; $file->autoflush(1);
  $SIG{$_} = eval "sub { print \$file '$_', qq(\\n) }" for qw(USR1 USR2 HUP);
  print $file "ready\n"; }
if (!fork) { note('child'); sleep 1 while 1 }
if (!fork) { POSIX::setsid(); note('apart'); sleep 1 while 1 }
note('command');
sleep 1 while 1;
"#;

/// What each member of the family has got, without `ready`.
fn got(user: &User) -> [Vec<String>; 3] {
    ["command", "child", "apart"].map(|name| {
        let text = fs::read_to_string(user.path(&format!("got.{name}"))).unwrap_or_default();
        text.lines().skip(1).map(str::to_owned).collect()
    })
}

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn signals_reach_those_whom_slurm_signals_without_dlrun() {
    let user = User::new();
    user.write("family.pl", FAMILY);
    let names = ["command", "child", "apart"];
    let ready = |user: &User| {
        until("the family to be ready", 60, || {
            names
                .iter()
                .all(|name| user.path(&format!("got.{name}")).exists())
                .then_some(())
        });
        sleep(Duration::from_millis(500));
    };
    let signals = |job: &str| {
        for options in [
            &["--batch", "--signal=USR1"][..],
            &["--full", "--signal=USR2"],
            &["--signal=HUP"],
        ] {
            user.run("scancel", &[options, &[job]].concat()).ok();
            sleep(Duration::from_millis(1500));
        }
        let got = got(&user);
        user.run("scancel", &[job]).ok();
        got
    };
    // The program in the place of the batch script.
    user.write("plain.sh", "#!/bin/bash\nexec perl family.pl\n");
    let job = user
        .run("sbatch", &["--parsable", "--output=/dev/null", "plain.sh"])
        .ok();
    ready(&user);
    let plain = signals(job.trim());
    for name in names {
        fs::remove_file(user.path(&format!("got.{name}"))).expect("it was written");
    }
    let submitted = user.submit(&user.job("family", &argv(&["perl", "family.pl"]), ""));
    ready(&user);
    assert_eq!(signals(&submitted.job), plain);
    assert!(
        plain[0].contains(&"USR1".to_owned()) && !plain[1].contains(&"USR1".to_owned()),
        "{plain:?}"
    );
    user.wait(&submitted.run);
}
