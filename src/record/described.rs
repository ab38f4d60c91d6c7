//! What was run, as text for people.

use super::{Asked, Conditions, Identity};
use crate::foundation::units::{Bytes, Walltime, counted};
use crate::job::quoted;

impl Identity {
    /// The command as a shell would take it; `None`: an older dlrun did not write it down.
    #[must_use]
    pub fn command_line(&self) -> Option<String> {
        let words: Vec<String> = self.command.iter().map(|word| quoted(word)).collect();
        (!words.is_empty()).then(|| words.join(" "))
    }

    /// The Python environment that the job file names or that dlrun made of its requirements.
    #[must_use]
    pub fn python_environment(&self) -> Option<&str> {
        let first = self.environment.split("; ").next()?;
        first
            .strip_prefix("python ")
            .or(Some(first).filter(|first| first.starts_with("conda ")))
    }

    /// The commit with its branch: `4b825dc with changes (main)`.
    #[must_use]
    pub fn commit_text(&self) -> Option<String> {
        let git = self.git.as_ref()?;
        let branch = git
            .branch
            .as_ref()
            .map(|branch| format!(" ({branch})"))
            .unwrap_or_default();
        Some(git.short() + &branch)
    }
}

impl Asked {
    /// What was asked for, in one line: `2 nodes, 4 CPUs a task, 2 GPUs, 32 GiB a node, time limit 2h, queue gpu`.
    #[must_use]
    pub fn text(&self) -> String {
        let mut parts = vec![counted(self.nodes.into(), "node")];
        if self.tasks_per_node > 1 {
            parts.push(format!("{} tasks on each", self.tasks_per_node));
        }
        if let Some(cpus) = self.cpus_per_task {
            parts.push(format!("{} a task", counted(cpus.into(), "CPU")));
        }
        if let Some(gpus) = &self.gpus_per_node {
            parts.push(format!("GPUs {gpus} a node"));
        }
        if let Some(bytes) = self.memory_bytes {
            parts.push(format!("{} a node", Bytes(bytes)));
        }
        if let Some(seconds) = self.walltime_seconds {
            parts.push(format!("time limit {}", Walltime(seconds)));
        }
        parts.extend(place_parts(&self.queue, &self.account, &self.qos));
        parts.join(", ")
    }
}

impl Conditions {
    /// Queue, account and QOS that the job really had; `None`: none is known.
    #[must_use]
    pub fn place_text(&self) -> Option<String> {
        let parts = place_parts(&self.queue, &self.account, &self.qos);
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// `python 3.11, torch 2.5.1`.
    #[must_use]
    pub fn software_text(&self) -> Option<String> {
        let parts: Vec<String> = self
            .software
            .iter()
            .map(|software| format!("{} {}", software.name, software.version))
            .collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

fn place_parts(
    queue: &Option<String>,
    account: &Option<String>,
    qos: &Option<String>,
) -> Vec<String> {
    [("queue", queue), ("account", account), ("QOS", qos)]
        .into_iter()
        .filter_map(|(what, name)| Some(format!("{what} {}", name.as_ref()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_pasted() {
        let command = ["python", "train.py", "--name", "it's", "", "a b"]
            .map(str::to_owned)
            .to_vec();
        let identity = Identity {
            command,
            ..Identity::default()
        };
        assert_eq!(
            identity.command_line().as_deref(),
            Some(r"python train.py --name 'it'\''s' '' 'a b'")
        );
        assert_eq!(Identity::default().command_line(), None);
    }

    #[test]
    fn the_python_environment_is_what_was_named() {
        let of = |environment: &str| {
            let identity = Identity {
                environment: environment.into(),
                ..Identity::default()
            };
            identity.python_environment().map(str::to_owned)
        };
        assert_eq!(
            of("python /home/u/venv; site 12ab").as_deref(),
            Some("/home/u/venv")
        );
        assert_eq!(of("conda torch").as_deref(), Some("conda torch"));
        assert_eq!(
            (of("host"), of("image sha256:1"), of("")),
            (None, None, None)
        );
    }

    #[test]
    fn what_was_asked_for_is_one_line() {
        let asked = Asked {
            nodes: 2,
            tasks_per_node: 4,
            gpus_per_node: Some("v100:2".into()),
            memory_bytes: Some(32 << 30),
            walltime_seconds: Some(7200),
            queue: Some("gpu".into()),
            ..Asked::default()
        };
        let text =
            "2 nodes, 4 tasks on each, GPUs v100:2 a node, 32GiB a node, time limit 2h, queue gpu";
        assert_eq!(asked.text(), text);
    }
}
