//! GPUs as a job asks for them: `2`, or with their type `v100:2`; and parts of GPUs: `shard:4`, `mps:50`, `mig:1g.10gb:1`.

/// Parts of a GPU that several jobs use at once. `mig:` is a type of GPU to schedulers and programs alike.
pub const SHARES: [&str; 2] = ["shard", "mps"];
const MIG: &str = "mig:";

/// Whether a job asks for a part of a GPU.
#[must_use]
pub fn is_part(gpus: &str) -> bool {
    gpus.starts_with(MIG) || is_share(gpus)
}

/// Whether it is one that other jobs use at the same time.
#[must_use]
pub fn is_share(gpus: &str) -> bool {
    let (kind, _) = kind_and_amount(gpus);
    kind.is_some_and(|kind| SHARES.contains(&kind))
}

/// As [`kind_and_count`], but of shares their number, and of MIG devices the type that the scheduler has.
#[must_use]
pub fn kind_and_amount(gpus: &str) -> (Option<&str>, u32) {
    let gpus = gpus.strip_prefix(MIG).unwrap_or(gpus);
    let (kind, count) = gpus
        .rsplit_once(':')
        .map_or((None, gpus), |(kind, count)| (Some(kind), count));
    (kind, count.parse().unwrap_or(0))
}

/// Type, where one is named, and number of GPUs: a share is of one. 0 where the text has none, which no job file says.
#[must_use]
pub fn kind_and_count(gpus: &str) -> (Option<&str>, u32) {
    let (kind, count) = kind_and_amount(gpus);
    match is_share(gpus) {
        true => (kind, count.min(1)),
        false => (kind, count),
    }
}

/// What Slurm calls it: `gpu:v100:2`, `gpu:1g.10gb:1`, `shard:4`.
#[must_use]
pub fn as_gres(gpus: &str) -> String {
    match is_share(gpus) {
        true => gpus.to_owned(),
        false => format!("gpu:{}", gpus.strip_prefix(MIG).unwrap_or(gpus)),
    }
}

/// The GPUs of a node, as they are said for the node or follow from those of its tasks.
#[must_use]
pub fn gpus_on_node(
    per_node: Option<&str>,
    per_task: Option<&str>,
    tasks_per_node: u32,
) -> Option<String> {
    let of_tasks = || {
        let (kind, count) = per_task?.rsplit_once(':').unwrap_or(("", per_task?));
        let count = count.parse().unwrap_or(0_u32);
        let count = count.saturating_mul(tasks_per_node.max(1));
        Some(match kind {
            "" => count.to_string(),
            kind => format!("{kind}:{count}"),
        })
    };
    per_node.map(str::to_owned).or_else(of_tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_of_a_node_are_those_of_its_tasks() {
        let of = |node, task, tasks| gpus_on_node(node, task, tasks);
        assert_eq!(of(None, Some("1"), 4).as_deref(), Some("4"));
        assert_eq!(of(None, Some("v100:2"), 2).as_deref(), Some("v100:4"));
        assert_eq!(
            of(Some("v100:2"), Some("v100:1"), 2).as_deref(),
            Some("v100:2")
        );
        assert_eq!(of(None, None, 2), None);
        assert_eq!(kind_and_count("a.b:3"), (Some("a.b"), 3));
        assert_eq!(
            of(None, Some("mig:1g.10gb:1"), 2).as_deref(),
            Some("mig:1g.10gb:2")
        );
    }

    #[test]
    fn share_is_of_one_gpu_and_mig_device_is_a_type() {
        assert_eq!(kind_and_count("shard:4"), (Some("shard"), 1));
        assert_eq!(kind_and_amount("mps:50"), (Some("mps"), 50));
        assert_eq!(kind_and_count("mig:1g.10gb:2"), (Some("1g.10gb"), 2));
        let gres = ["2", "v100:2", "shard:4", "mps:50", "mig:1g.10gb:2"].map(as_gres);
        let expected = ["gpu:2", "gpu:v100:2", "shard:4", "mps:50", "gpu:1g.10gb:2"];
        assert_eq!(gres, expected);
        assert!(is_part("mig:1g.10gb:1") && is_part("mps:1") && !is_part("shards:1"));
        assert!(!is_share("mig:1g.10gb:1") && !is_share("4"));
    }
}
