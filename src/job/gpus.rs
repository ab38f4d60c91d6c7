//! GPUs as a job asks for them: `2`, or with their type `v100:2`.

/// Type, where one is named, and number; 0 where the text has none, which no job file says.
#[must_use]
pub fn kind_and_count(gpus: &str) -> (Option<&str>, u32) {
    let (kind, count) = gpus
        .rsplit_once(':')
        .map_or((None, gpus), |(kind, count)| (Some(kind), count));
    (kind, count.parse().unwrap_or(0))
}

/// The GPUs of a node, as they are said for the node or follow from those of its tasks.
#[must_use]
pub fn gpus_on_node(
    per_node: Option<&str>,
    per_task: Option<&str>,
    tasks_per_node: u32,
) -> Option<String> {
    let of_tasks = || {
        let (kind, count) = kind_and_count(per_task?);
        let count = count.saturating_mul(tasks_per_node.max(1));
        Some(kind.map_or(count.to_string(), |kind| format!("{kind}:{count}")))
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
    }
}
