//! What the site has, in five questions: `scontrol show config`, `scontrol show partition`, `sinfo`, `scontrol show
//! license`, `srun --mpi=list`. Each takes some 5 ms with four nodes.

use std::collections::BTreeMap;

use super::gres;
use super::scontrol::{pairs, seconds};
use super::states::reason;
use crate::config::site::{MpiTypes, NodeType, Queue, SiteModel};
use crate::foundation::units::{Bytes, Walltime};
use crate::job::SchedulerKind;
use crate::scheduler::SchedulerError;
use crate::scheduler::commands::Commands;

pub(super) fn site(slurm: &Commands) -> Result<SiteModel, SchedulerError> {
    let config = ask(slurm, "scontrol", &["show", "config"])?;
    let partitions = ask(
        slurm,
        "scontrol",
        &["--all", "--oneliner", "show", "partition"],
    )?;
    let nodes = ask(slurm, "sinfo", &["--noheader", "--all", "--Node", NODES])?;
    // A site without licences may say so with an exit code.
    let licenses = ask(slurm, "scontrol", &["--oneliner", "show", "license"]).unwrap_or_default();
    let types = slurm.tool("srun").arg("--mpi=list").run().ok();
    Ok(SiteModel {
        version: setting(&config, "SLURM_VERSION").map(str::to_owned),
        accounting: setting(&config, "AccountingStorageType")
            .map(|kind| !kind.ends_with("/none") && kind != "(null)"),
        accounts_memory: accounts_memory(&config),
        max_array_index: largest_index(&config),
        queues: partitions.lines().filter_map(queue).collect(),
        nodes: node_types(&nodes),
        licenses: licenses.lines().filter_map(license).collect(),
        mpi: types.and_then(|types| mpi_types(&config, &(types.stdout + &types.stderr))),
        ..SiteModel::asked_now(SchedulerKind::Slurm)
    })
}

/// `SelectTypeParameters    = CR_CORE_MEMORY`: without `MEMORY` every job may use all that its nodes have (`slurm.conf(5)`).
fn accounts_memory(config: &str) -> Option<bool> {
    Some(
        setting(config, "SelectTypeParameters")?
            .to_ascii_uppercase()
            .contains("MEMORY"),
    )
}

fn ask(slurm: &Commands, program: &str, arguments: &[&str]) -> Result<String, SchedulerError> {
    let what = format!("describe the site (`{program} {}`)", arguments.join(" "));
    slurm.printed(program, arguments, &[], &what)
}

/// `MaxArraySize            = 1001`
fn setting<'c>(config: &'c str, name: &str) -> Option<&'c str> {
    let lines = config.lines().filter_map(|line| line.split_once('='));
    lines
        .map(|(key, value)| (key.trim(), value.trim()))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

/// `MpiDefault` and the lines of `srun --mpi=list`, which go to its error output in versions before 21.08, behind `srun: `.
fn mpi_types(config: &str, list: &str) -> Option<MpiTypes> {
    let default = setting(config, "MpiDefault")?.trim_start_matches("(null)");
    let words = list
        .lines()
        .map(|line| line.trim_start_matches("srun: ").trim());
    let offered: Vec<String> = words
        .filter(|word| !word.is_empty() && !word.contains(' '))
        .map(str::to_owned)
        .collect();
    let default = if default.is_empty() { "none" } else { default };
    (!offered.is_empty()).then(|| MpiTypes {
        default: default.to_owned(),
        offered,
    })
}

fn largest_index(config: &str) -> Option<u32> {
    setting(config, "MaxArraySize")?
        .parse::<u32>()
        .ok()?
        .checked_sub(1)
}

/// The value of a record's key, which holds no blank.
fn value<'r>(record: &[(&'r str, &'r str)], key: &str) -> Option<&'r str> {
    record
        .iter()
        .find(|(name, _)| *name == key)
        .map(|(_, value)| *value)
}

fn queue(line: &str) -> Option<Queue> {
    let record = pairs(line);
    let word = |key: &str| value(&record, key);
    let number = |key: &str| word(key)?.parse::<u32>().ok().filter(|number| *number > 0);
    let time = |key: &str| {
        seconds(word(key)?)
            .filter(|seconds| *seconds > 0)
            .map(Walltime)
    };
    let accounts =
        word("AllowAccounts").filter(|accounts| !matches!(*accounts, "ALL" | "(null)" | ""));
    Some(Queue {
        name: word("PartitionName")?.to_owned(),
        is_default: word("Default") == Some("YES"),
        is_up: word("State") == Some("UP"),
        // `DOWN` queues jobs and starts none (`scontrol(1)`).
        is_closed: matches!(word("State"), Some("DRAIN" | "INACTIVE")),
        max_walltime: time("MaxTime"),
        default_walltime: time("DefaultTime"),
        min_nodes: number("MinNodes"),
        max_nodes: number("MaxNodes"),
        accounts: accounts
            .map(|list| list.split(',').map(str::to_owned).collect())
            .unwrap_or_default(),
    })
}

/// Partition, name, CPUs, sockets, memory in MiB, generic resources, state, features: a line for each node in each of its
/// partitions. Features may hold everything but a `|`.
const NODES: &str = "--format=%R|%N|%c|%X|%m|%G|%t|%f";

/// What makes nodes alike: CPUs, sockets, memory, generic resources, features.
type Kind<'l> = [&'l str; 5];

fn node_type(
    [cpus, sockets, memory, gres, features]: Kind<'_>,
    queues: &[&str],
    (count, up): (u32, u32),
) -> NodeType {
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
    let small = |text: &str| number(text).and_then(|number| u32::try_from(number).ok());
    let features = reason(features).unwrap_or_default();
    let features = features.split(',').filter(|feature| !feature.is_empty());
    NodeType {
        queues: queues.iter().map(|&queue| queue.to_owned()).collect(),
        count,
        up,
        cpus: small(cpus),
        sockets: small(sockets),
        memory: number(memory)
            .and_then(|memory| memory.checked_mul(1 << 20))
            .map(Bytes),
        gpus: gres::gpus(gres),
        features: features.map(str::to_owned).collect(),
    }
}

/// Nodes that are alike and in the same queues. `sinfo` lists a node's partitions in an order that may change from node to
/// node, so queues are in the order of their names.
fn node_types(text: &str) -> Vec<NodeType> {
    let mut by_name: BTreeMap<&str, (Kind<'_>, Vec<&str>, bool)> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.splitn(8, '|').map(str::trim).collect();
        let [queue, name, cpus, sockets, memory, gres, state, features] = fields[..] else {
            continue;
        };
        let kind = [cpus, sockets, memory, gres, features];
        let new = || (kind, Vec::new(), false);
        let (_, queues, up) = by_name.entry(name).or_insert_with(new);
        if !queues.contains(&queue) {
            queues.push(queue);
        }
        *up |= is_up(state);
    }
    let mut groups: BTreeMap<(Vec<&str>, Kind<'_>), (u32, u32)> = BTreeMap::new();
    for (kind, mut queues, up) in by_name.into_values() {
        queues.sort_unstable();
        let (count, ups) = groups.entry((queues, kind)).or_default();
        *count += 1;
        *ups += u32::from(up);
    }
    let groups = groups.into_iter();
    groups
        .map(|((queues, kind), counts)| node_type(kind, &queues, counts))
        .collect()
}

/// Short states (`sinfo(1)`, "NODE STATE CODES"); `*` says that the node does not answer, `~` that it is off to save power.
fn is_up(state: &str) -> bool {
    let word = state.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    const GONE: [&str; 14] = [
        "", "down", "drain", "drained", "drng", "draining", "fail", "failg", "failing", "inval",
        "unk", "unknown", "futr", "err",
    ];
    !state.contains('*') && !GONE.contains(&word)
}

/// `LicenseName=matlab Total=4 Used=0 Free=4 Reserved=0 Remote=no`
fn license(line: &str) -> Option<(String, u32)> {
    let record = pairs(line);
    let name = value(&record, "LicenseName").filter(|name| !name.is_empty())?;
    Some((name.to_owned(), value(&record, "Total")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn partitions_are_read() {
        let line = "PartitionName=gpu AllowGroups=ALL AllowAccounts=proj,teach AllowQos=ALL AllocNodes=ALL Default=YES \
                    QoS=N/A DefaultTime=01:00:00 DisableRootJobs=NO MaxNodes=8 MaxTime=7-00:00:00 MinNodes=0 LLN=NO \
                    Nodes=n[1-4] State=UP TotalCPUs=64 TotalNodes=4";
        let queue = queue(line).expect("a partition");
        assert_eq!(
            (queue.name.as_str(), queue.is_default, queue.is_up),
            ("gpu", true, true)
        );
        assert_eq!((queue.min_nodes, queue.max_nodes), (None, Some(8)));
        assert_eq!(queue.max_walltime, Some(Walltime(604_800)));
        assert_eq!(queue.default_walltime, Some(Walltime(3600)));
        assert_eq!(queue.accounts, ["proj", "teach"]);
        let open = super::queue(
            "PartitionName=x AllowAccounts=ALL Default=NO MaxTime=UNLIMITED State=DRAIN",
        );
        let open = open.expect("a partition");
        assert_eq!(
            (open.is_up, open.max_walltime, open.accounts.len()),
            (false, None, 0)
        );
        let closed = |state: &str| {
            super::queue(&format!("PartitionName=x State={state}"))
                .map(|queue| (queue.is_up, queue.is_closed))
        };
        assert_eq!(closed("DOWN"), Some((false, false)));
        assert_eq!(
            (open.is_closed, closed("INACTIVE"), closed("UP")),
            (true, Some((false, true)), Some((true, false)))
        );
        assert_eq!(super::queue("No partitions"), None);
    }

    #[test]
    fn a_node_of_several_partitions_is_counted_once() {
        let node = |queue: &str, name: &str, state: &str| {
            format!("{queue}|{name}|16|1|64000|gpu:v100:4|{state}|ib,rack2\n")
        };
        let nodes =
            ["n1", "n3"].map(|name| node("batch", name, "idle") + &node("debug", name, "idle"));
        let down = node("debug", "n5", "down*") + &node("batch", "n5", "down*");
        let others = (0..100).map(|n| format!("batch|c{n}|8|2|32000|(null)|mix|(null)\n"));
        let text = nodes.concat() + &down + &others.collect::<String>() + "cut|1|8";
        let types = node_types(&text);
        let shown: Vec<_> = types
            .iter()
            .map(|kind| {
                (
                    kind.queues.join("+"),
                    kind.count,
                    kind.up,
                    kind.gpus.len(),
                    kind.features.len(),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("batch".into(), 100, 100, 0, 0),
                ("batch+debug".into(), 3, 2, 1, 2)
            ]
        );
        assert_eq!(types[1].gpus, [("v100".to_owned(), 4)]);
        assert_eq!(types[0].memory, Some(Bytes(32_000 << 20)));
        assert_eq!((types[0].cpus, types[0].sockets), (Some(8), Some(2)));
    }

    #[test]
    fn settings_and_licences_are_read() {
        let config = "Configuration data as of 2026-11-20T21:06:08\nMaxArraySize            = 101\n\
                      SLURM_VERSION           = 22.05.8\nAccountingStorageType   = accounting_storage/none\n";
        assert_eq!(
            (setting(config, "SLURM_VERSION"), largest_index(config)),
            (Some("22.05.8"), Some(100))
        );
        let line = "LicenseName=matlab Total=4 Used=0 Free=4 Reserved=0 Remote=no";
        assert_eq!(license(line), Some(("matlab".to_owned(), 4)));
        assert_eq!(license("No licenses configured in Slurm."), None);
        let accounts = |parameters: &str| {
            accounts_memory(&format!("SelectTypeParameters    = {parameters}\n"))
        };
        assert_eq!(
            [
                accounts("CR_CORE_MEMORY"),
                accounts("CR_CORE,CR_ONE_TASK_PER_CORE")
            ],
            [Some(true), Some(false)]
        );
        assert_eq!(accounts_memory(config), None);
    }

    #[test]
    fn types_of_mpi_are_read_from_either_output() {
        let new = "MPI plugin types are...\n\tpmix\n\tnone\n\tpmi2\nspecific pmix plugin versions available: pmix_v4\n";
        let old = "srun: MPI types are...\nsrun: pmix\nsrun: none\nsrun: pmi2\n";
        for (default, list) in [("none", new), ("(null)", old)] {
            let types = mpi_types(&format!("MpiDefault              = {default}\n"), list);
            let types = types.expect("types");
            assert_eq!(types.default, "none");
            assert_eq!(types.offered, ["pmix", "none", "pmi2"]);
        }
        assert_eq!(mpi_types("", new), None);
        assert_eq!(
            mpi_types("MpiDefault = pmix\n", "srun: command not found\n"),
            None
        );
    }

    #[test]
    fn nodes_that_take_jobs_are_told_from_those_that_do_not() {
        for state in [
            "idle", "mix", "alloc", "idle~", "comp", "resv", "maint", "plnd", "mix-",
        ] {
            assert!(is_up(state), "{state}");
        }
        for state in [
            "down", "down*", "idle*", "drain", "drng", "drain*", "inval", "unk*", "fail", "down~",
            "",
        ] {
            assert!(!is_up(state), "{state}");
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_panic(text in "[a-z0-9|,\\[\\]*=\\n -]{0,80}|\\PC{0,40}") {
            let _ = (node_types(&text), queue(&text), license(&text), largest_index(&text));
        }
    }
}
