//! Shell text that is one command: what bash makes of it is the same behind `bash -c`.

use crate::job::convert::shell_words::{assignment, is_builtin};

/// Says whether a line is one command or one pipeline, whole in itself: no further command, no background, no text that
/// goes on in the next line, no parameter of the script, and no variable of `locals`, which only the script has.
pub(super) fn is_one_command(line: &str, locals: &[String]) -> bool {
    let first = line
        .split_whitespace()
        .find(|word| assignment(word).is_none())
        .unwrap_or("");
    // What these do ends with the shell that does it.
    let changes_shell = [
        "module",
        "ml",
        "conda",
        "mamba",
        "micromamba",
        "spack",
        "[",
        "[[",
        "!",
    ];
    if first.is_empty() || (is_builtin(first) && first != "time") || changes_shell.contains(&first)
    {
        return false;
    }
    !first.contains("()") && scan(line, locals).is_some()
}

fn scan(line: &str, locals: &[String]) -> Option<()> {
    let chars: Vec<char> = line.chars().collect();
    let (mut quote, mut depth, mut at) = (None, 0_u32, 0);
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1).copied();
        match (quote, c) {
            (Some('\''), c) => quote = Some('\'').filter(|_| c != '\''),
            (_, '\\') => at += 1,
            (Some(_), '"') => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (_, '$') => {
                let rest: String = chars[at + 1..].iter().collect();
                let name = rest.strip_prefix('{').unwrap_or(&rest);
                let end = name
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .unwrap_or(name.len());
                let is_call = next == Some('(') && chars.get(at + 2) != Some(&'(');
                if !is_call && !is_of_environment(&name[..end], locals) {
                    return None;
                }
            }
            (_, '`') => return None,
            (Some(_), _) => {}
            (None, '(') => {
                let is_call = at > 0 && chars[at - 1] == '$';
                depth = Some(depth + 1).filter(|_| is_call)?;
            }
            (None, ')') => depth = depth.checked_sub(1)?,
            (None, _) if depth > 0 => {}
            (None, '<') if next == Some('<') => return None,
            (None, '|') if next == Some('|') => return None,
            (None, ';') => return None,
            (None, '&') => {
                let is_stream =
                    next == Some('>') || (at > 0 && ['>', '<', '|'].contains(&chars[at - 1]));
                if !is_stream {
                    return None;
                }
            }
            _ => {}
        }
        at += 1;
    }
    // A backslash at the end would take the quote of the next line.
    (quote.is_none() && depth == 0 && at == chars.len()).then_some(())
}

/// Names that mean the same in a shell of its own: no parameters, nothing that bash counts or keeps.
fn is_of_environment(name: &str, locals: &[String]) -> bool {
    let own = [
        "LINENO", "SECONDS", "RANDOM", "FUNCNAME", "PPID", "SHLVL", "OLDPWD", "_",
    ];
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.starts_with("BASH")
        && !own.contains(&name)
        && !locals.iter().any(|local| local == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_or_pipeline_is_taken() {
        for line in [
            "python train.py --seed $SLURM_ARRAY_TASK_ID > log.$SLURM_JOB_ID 2>&1",
            "time python a.py | tee log",
            "python a.py --dir $(date +%s; pwd) &> log",
            "A=1 B=$C python a.py '$1' \"${X:-0}\"",
            "awk '{print $1}' a",
        ] {
            assert!(is_one_command(line, &[]), "{line}");
        }
    }

    #[test]
    fn what_hangs_on_the_script_is_not_taken() {
        for line in [
            "python a.py $1",
            "python a.py \"$@\"",
            "python a.py ${1:-x}",
            "python a.py $local",
            "a; b",
            "a && b",
            "a || b",
            "a &",
            "cat << END",
            "echo 'a",
            "(cd x; a)",
            "for i in 1 2",
            "f() {",
            "if a",
            "source x",
            "module load $X",
            "X=$Y",
            "a \\",
            "echo $LINENO $$",
            "a `b`",
            "",
        ] {
            assert!(!is_one_command(line, &["local".to_owned()]), "{line}");
        }
    }
}
