//! PyTorch's `env://` (`torch.distributed.init_process_group`), which DeepSpeed and Accelerate read too. The variables are
//! those of torchrun (PyTorch, "torchrun, environment variables").

use super::{Launch, Variables};
use crate::launch::ranks::{Meeting, Rank};

pub(super) struct Ddp;

impl Launch for Ddp {
    fn variables(&self, rank: &Rank, meeting: &Meeting) -> Variables {
        let mut variables = vec![
            ("RANK", rank.rank.to_string()),
            ("WORLD_SIZE", rank.world.to_string()),
            ("LOCAL_RANK", rank.local.to_string()),
            ("LOCAL_WORLD_SIZE", rank.local_world.to_string()),
            ("NODE_RANK", rank.node.to_string()),
            ("GROUP_RANK", rank.node.to_string()),
            ("GROUP_WORLD_SIZE", rank.nodes.to_string()),
        ];
        if let Some(first) = meeting.first() {
            variables.push(("MASTER_ADDR", first.ip().to_string()));
            variables.push(("MASTER_PORT", first.port().to_string()));
        }
        variables
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::ranks::tests::meeting;

    #[test]
    fn worker_finds_rank_zero() {
        let meeting = meeting(&[2, 1]);
        let workers = Ddp.workers(1, &meeting);
        assert_eq!(workers.len(), 1);
        let value = |name: &str| {
            workers[0]
                .variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| &**value)
        };
        assert_eq!(
            (value("RANK"), value("WORLD_SIZE"), value("LOCAL_RANK")),
            (Some("2"), Some("3"), Some("0"))
        );
        assert_eq!(
            (value("MASTER_ADDR"), value("MASTER_PORT")),
            (Some("10.0.0.1"), Some("30000"))
        );
    }
}
