//! One agent of torchrun on each node. It reads its options from `PET_*` (`torch.distributed.run`, `torch.distributed.argparse_util`),
//! so the command is the same on every node.

use super::{Launch, Variables, Worker};
use crate::foundation::command::is_python;
use crate::launch::ranks::{Meeting, Rank};

pub(super) struct Torchrun;

impl Launch for Torchrun {
    fn variables(&self, rank: &Rank, meeting: &Meeting) -> Variables {
        let mut variables = vec![
            ("PET_NNODES", rank.nodes.to_string()),
            ("PET_NPROC_PER_NODE", rank.local_world.to_string()),
            // The agents keep the nodes' order; c10d's rendezvous numbers them by their addresses as text.
            ("PET_RDZV_BACKEND", "static".to_owned()),
            ("PET_NODE_RANK", rank.node.to_string()),
            ("PET_RDZV_ID", meeting.name.clone()),
            // A rank that fails ends the run: what is to be repeated is the scheduler's business.
            ("PET_MAX_RESTARTS", "0".to_owned()),
        ];
        if let Some(first) = meeting.first() {
            // For both kinds of rendezvous, without the brackets of IPv6, which torch refuses there.
            let endpoint = format!("{}:{}", first.ip(), first.port());
            variables.push(("PET_RDZV_ENDPOINT", endpoint));
        }
        variables
    }

    fn workers(&self, node: usize, meeting: &Meeting) -> Vec<Worker> {
        let agent = |rank: Rank| Worker {
            variables: self.variables(&rank, meeting),
            rank: Some(rank),
            role: Some("agent"),
        };
        meeting.ranks_of(node).take(1).map(agent).collect()
    }

    /// `python train.py` becomes `python -m torch.distributed.run train.py`; another program is started as it is.
    fn command(&self, command: &[String]) -> Vec<String> {
        let module = ["-m", "torch.distributed.run"].map(str::to_owned);
        match command.split_first() {
            Some((first, rest)) if is_python(first) => {
                // Options of the interpreter itself stay its own.
                let options = options_of_python(rest);
                let (options, rest) = rest.split_at(options);
                [std::slice::from_ref(first), options, &module, rest].concat()
            }
            _ => [
                &["python3".to_owned()],
                &module[..],
                &["--no-python".to_owned()],
                command,
            ]
            .concat(),
        }
    }
}

/// How many of the words after `python` are options of the interpreter, with their values, as far as the script or `-m`.
fn options_of_python(words: &[String]) -> usize {
    let mut count = 0;
    while let Some(word) = words
        .get(count)
        .filter(|word| word.starts_with('-') && *word != "-m")
    {
        count += if ["-W", "-X"].contains(&word.as_str()) {
            2
        } else {
            1
        };
    }
    count.min(words.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::ranks::tests::meeting;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn command_goes_through_the_module() {
        let of = |text: &str| Torchrun.command(&words(text)).join(" ");
        assert_eq!(
            of("python3 -u train.py --lr 1"),
            "python3 -u -m torch.distributed.run train.py --lr 1"
        );
        assert_eq!(
            of("/env/bin/python -m pkg.train"),
            "/env/bin/python -m torch.distributed.run -m pkg.train"
        );
        assert_eq!(
            of("python -W ignore -O train.py"),
            "python -W ignore -O -m torch.distributed.run train.py"
        );
        assert_eq!(
            of("./train.sh a"),
            "python3 -m torch.distributed.run --no-python ./train.sh a"
        );
    }

    #[test]
    fn one_agent_runs_on_a_node() {
        let workers = Torchrun.workers(0, &meeting(&[2, 1]));
        assert_eq!(workers.len(), 1);
        assert!(
            workers[0]
                .variables
                .contains(&("PET_NPROC_PER_NODE", "2".to_owned()))
        );
        assert!(
            workers[0]
                .variables
                .contains(&("PET_RDZV_ENDPOINT", "10.0.0.1:30000".to_owned()))
        );
    }

    #[test]
    fn agents_keep_the_order_of_the_nodes() {
        let meeting = meeting(&[2, 1]);
        for (node, number) in [(0, "0"), (1, "1")] {
            let variables = &Torchrun.workers(node, &meeting)[0].variables;
            assert!(variables.contains(&("PET_NODE_RANK", number.to_owned())));
            assert!(variables.contains(&("PET_RDZV_BACKEND", "static".to_owned())));
        }
    }
}
