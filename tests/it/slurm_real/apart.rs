//! The nodes of the test cluster are like machines: jobs meet by the nodes' names, on any port, and have their own `/tmp`.

use std::fs;

use super::cluster::{User, conf, sh, until};
use crate::support::skip;

/// Listens, tells the other node its name, and prints whom it heard, and how many marks are in `/tmp`.
const MEET: &str = r#"use strict; use Sys::Hostname; use IO::Socket::INET;
my $me = hostname; my $marks = "/tmp/dlrun-met-$ENV{SLURM_JOB_ID}";
my ($other) = grep { $_ ne $me } split ' ', `scontrol show hostnames "$ENV{SLURM_JOB_NODELIST}"`;
open(my $mark, '>', "$marks-$me") or die;
my $server = IO::Socket::INET->new(LocalPort => 29500, Listen => 5, ReuseAddr => 1) or die "listen: $!";
my $to; until ($to = IO::Socket::INET->new(PeerHost => $other, PeerPort => 29500)) { select(undef, undef, undef, 0.05) }
print $to "$me\n"; close $to;
my $heard = readline $server->accept; chomp $heard;
my @seen = glob "$marks-*";
print "$me heard $heard, marks: ", scalar @seen, "\n";
unlink "$marks-$me";
"#;

#[test]
#[ignore = "needs slurmctld: run tests/run"]
fn nodes_meet_by_name_on_one_port_and_have_their_own_tmp() {
    if !conf().with_file_name("apart").exists() {
        skip("the nodes of this cluster share the network and /tmp of this machine");
        return;
    }
    let user = User::new();
    user.write("meet.pl", MEET);
    let run = format!("launcher = \"each\"\n{}", sh("exec perl meet.pl"));
    let submitted = user.submit(&user.job("meet", &run, "nodes = 2\nwalltime = \"2m\""));
    assert_eq!(user.wait(&submitted.run), 0, "{}", submitted.text());
    let outputs = until("both outputs", 10, || {
        let read = |rank| {
            let name = format!("meet-{}.{rank}.out", submitted.job);
            fs::read_to_string(user.path(&name)).ok()
        };
        Some([read(0)?, read(1)?])
    });
    let [first, second] = outputs.map(|text| {
        let words: Vec<String> = text.split([' ', ',']).map(str::to_owned).collect();
        assert!(text.ends_with(", marks: 1\n"), "{text}");
        (words[0].clone(), words[2].clone())
    });
    assert!(first.0 != second.0, "{first:?} {second:?}");
    assert_eq!((first.0, first.1), (second.1, second.0));
}
