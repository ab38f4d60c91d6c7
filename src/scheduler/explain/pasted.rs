//! What people paste: commands above outputs, and the marks that mails, documents and logs put before lines.

/// One output of a text, with the command above it.
#[derive(Default)]
pub(super) struct Block<'a> {
    /// The command as it was typed, without the prompt.
    pub(super) command: Option<&'a str>,
    lines: Vec<&'a str>,
}

const COMMANDS: [&str; 15] = [
    "sacct", "squeue", "sinfo", "scontrol", "seff", "sprio", "sbatch", "srun", "salloc", "scancel",
    "qstat", "qsub", "pbsnodes", "tracejob", "checkjob",
];

/// A command behind a prompt, or alone with an option, an id or `show`.
fn command(line: &str) -> Option<&str> {
    let line = line.trim().trim_end_matches('`');
    let at = line
        .split_whitespace()
        .take(6)
        .position(|word| COMMANDS.contains(&word.trim_start_matches('`')))?;
    let mut words = line.split_whitespace().skip(at.saturating_sub(1));
    let is_prompt = at > 0 && words.next()?.ends_with(['$', '#', '>', '%']);
    let tool = words.next()?.trim_start_matches('`');
    let is_typed =
        |word: &str| word == "show" || word.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    let is_alone = at == 0 && words.next().is_none_or(is_typed);
    (is_prompt || is_alone).then(|| &line[line.find(tool).unwrap_or(0)..])
}

/// A text at its commands, and where records of `scontrol` come after something else.
pub(super) fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = vec![Block::default()];
    let begins = |line: &str| {
        ["NodeName=", "JobId="]
            .iter()
            .any(|key| line.trim_start().starts_with(key))
    };
    for line in text
        .lines()
        .filter(|line| !line.trim_start().starts_with("```"))
    {
        let command = command(line);
        let Some(last) = blocks.last_mut() else {
            continue;
        };
        let is_next =
            begins(line) && !last.is_empty() && !last.lines.iter().any(|line| begins(line));
        if command.is_none() && !is_next {
            last.lines.push(line);
        } else {
            blocks.push(Block {
                command,
                lines: if is_next { vec![line] } else { Vec::new() },
            });
        }
    }
    blocks.retain(|block| block.command.is_some() || !block.is_empty());
    blocks
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

impl Block<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| is_blank(line))
    }

    /// The lines without what is before each of them: `>`, `#`, `[TIME] `, blanks.
    pub(super) fn text(&self) -> String {
        let mut lines = self.lines.clone();
        let strips: [fn(&str) -> Option<&str>; 3] = [
            |line| Some(line.trim_start().strip_prefix('>')?.trim_start_matches('>')),
            |line| Some(line.trim_start().strip_prefix('#')?.trim_start_matches('#')),
            |line| {
                Some(
                    line.strip_prefix('[')
                        .filter(|rest| rest.starts_with("20"))?
                        .split_once("] ")?
                        .1,
                )
            },
        ];
        for strip in strips {
            if lines
                .iter()
                .all(|line| is_blank(line) || strip(line).is_some())
            {
                lines
                    .iter_mut()
                    .for_each(|line| *line = strip(line).unwrap_or_default());
            }
        }
        let full = lines.iter().filter(|line| !is_blank(line));
        let indent = full
            .map(|line| line.len() - line.trim_start().len())
            .min()
            .unwrap_or(0);
        let bare = |line: &&str| {
            let line = line.get(indent..).unwrap_or(line.trim_start());
            line.to_owned() + "\n"
        };
        lines.iter().map(bare).collect()
    }

    /// The columns that the command names.
    pub(super) fn columns(&self) -> Option<Vec<String>> {
        let command = self.command?;
        let after =
            |option: &str| Some(command.split_once(option)?.1.trim_start_matches(['=', ' ']));
        let options = ["--format", "--Format", " -o", " -O"];
        let value = options.into_iter().find_map(after)?;
        let quotes = ['"', '\'', '\u{201c}', '\u{201d}'];
        let value = match value.strip_prefix(quotes) {
            Some(quoted) => quoted.split(quotes).next()?,
            None => value.split_whitespace().next()?,
        };
        (!value.starts_with('%')).then(|| value.split(',').map(str::to_owned).collect())
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_found_behind_prompt() {
        for (line, expected) in [
            ("[root@login ~]# sinfo -N", Some("sinfo -N")),
            ("user@fe1:~$ sacct -b", Some("sacct -b")),
            ("squeue --me", Some("squeue --me")),
            ("squeue shows my jobs", None),
            ("squeue: error: no", None),
            ("my squeue", None),
        ] {
            assert_eq!(command(line), expected, "{line}");
        }
    }

    #[test]
    fn columns_are_those_of_the_command() {
        let of = |command| {
            Block {
                command: Some(command),
                lines: Vec::new(),
            }
            .columns()
            .map(|names| names.join(" "))
        };
        assert_eq!(
            of("sacct -n -o jobid,state%20 -j 7"),
            Some("jobid state%20".to_owned())
        );
        assert_eq!(of("squeue -O JobID,State"), Some("JobID State".to_owned()));
        assert_eq!(of("squeue -h -o \"%.18i|%T\""), None);
        assert_eq!(of("squeue --me"), None);
    }
}
