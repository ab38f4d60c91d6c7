//! What people paste: commands above outputs, and the marks that mails, documents and logs put before lines.

/// Names of columns, and what separates them where that is known.
pub(super) type Asked<'a> = (Vec<String>, Option<&'a str>);

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

    /// The lines without what stands before each of them: `>`, `#`, `[TIME] `, blanks; and without marks of bold letters.
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
            let is_bold = line.contains("**") && !line.contains("***");
            if is_bold {
                line.replace("**", "") + "\n"
            } else {
                line.to_owned() + "\n"
            }
        };
        lines.iter().map(bare).collect()
    }

    /// The columns that the command asks for, and what it puts between them, where that is plain.
    pub(super) fn columns(&self) -> Option<Asked<'_>> {
        let command = self.command?;
        let (tool, rest) = command.split_once(' ')?;
        let names = |list: &str| list.split(',').map(str::to_owned).collect::<Vec<_>>();
        if tool == "sacct"
            && rest
                .split_whitespace()
                .any(|word| ["-b", "--brief"].contains(&word))
        {
            return Some((names("JobID,State,ExitCode"), None));
        }
        let options = ["--format", "--Format", "-o", "-O"];
        let value = options
            .iter()
            .find_map(|option| {
                rest.split_once(&format!("{option}="))
                    .or_else(|| rest.split_once(&format!("{option} ")))
            })?
            .1;
        let value = value.trim_start();
        let quotes = ['"', '\'', '\u{201c}', '\u{201d}'];
        let value = match value.strip_prefix(quotes) {
            Some(quoted) => quoted.split(quotes).next()?,
            None => value.split_whitespace().next()?,
        };
        if !value.starts_with('%') {
            return Some((names(value), None));
        }
        let letters = if tool == "squeue" { SQUEUE } else { SINFO };
        let column = |part: &str| {
            let letter = part.find(|c: char| c.is_ascii_alphabetic())?;
            let mut columns = letters
                .split(' ')
                .filter_map(|column| column.split_once('='));
            let name = columns
                .find(|(known, _)| part[letter..].starts_with(known))?
                .1;
            Some(name.to_owned())
        };
        let found = value
            .split('%')
            .skip(1)
            .map(column)
            .collect::<Option<Vec<_>>>()?;
        let between = value
            .split('%')
            .nth(1)?
            .trim_start_matches(|c: char| !c.is_ascii_alphabetic());
        Some((
            found,
            between
                .get(1..)
                .filter(|separator| !separator.trim().is_empty()),
        ))
    }
}

/// What letters of `squeue --format` and `sinfo --format` mean.
const SQUEUE: &str = "i=JobID A=JobID j=Name u=User a=Account r=Reason R=NodeListReason M=Time S=StartTime C=CPUs \
    l=TimeLimit t=State T=State P=Partition D=Nodes N=NodeList";
const SINFO: &str = "l=TimeLimit t=State T=State P=Partition D=Nodes N=NodeList n=NodeList E=Reason C=CPUsState c=CPUs G=Gres \
    m=Memory";

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
            .map(|(names, by)| (names.join(" "), by.map(str::to_owned)))
        };
        assert_eq!(
            of("sacct -n -o jobid,state%20 -j 7"),
            Some(("jobid state%20".to_owned(), None))
        );
        assert_eq!(
            of("squeue -h -o \"%.18i|%T\""),
            Some(("JobID State".to_owned(), Some("|".to_owned())))
        );
        assert_eq!(
            of("sinfo -h -o '%n %G'"),
            Some(("NodeList Gres".to_owned(), None))
        );
        assert_eq!(of("squeue -o '%i %Z'"), None);
        assert_eq!(of("squeue --me"), None);
    }
}
