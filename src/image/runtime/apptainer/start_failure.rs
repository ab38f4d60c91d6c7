//! What a container runtime says when it cannot start a command, told from what the command says.
//!
//! Both write to the same file. Apptainer and Singularity mark their lines: `FATAL:   ` from the part in Go (exit code 255),
//! `ERROR  : ` in red from the starter in C (exit code 1), `Error for command "exec": ` before pages of usage (1).
//! Measured with Apptainer 1.4.5; the same forms stand in `pkg/sylog` and `cmd/starter/c` of Singularity 3.5 and
//! SingularityCE 4.

/// The beginning of a line that is kept, in bytes.
const LINE_BYTES: usize = 2000;
/// Lines of one failure that are kept.
const KEPT: usize = 4;
/// The last line of the usage that follows a wrong flag.
const USAGE_END: &str = "--help' for more detailed usage information.";

/// Follows an output, and knows whether it ends in a runtime's own error.
#[derive(Debug, Default)]
pub(crate) struct StartFailure {
    line: Vec<u8>,
    /// The failure that the output ends in, as of now.
    said: Vec<(Speaker, String)>,
    /// A wrong flag was named, and its usage follows.
    usage: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    Go,
    Starter,
    Usage,
}

impl StartFailure {
    /// Takes in what was written.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let mut parts = bytes.split(|byte| *byte == b'\n');
        let first = parts.next().unwrap_or_default();
        self.add(first);
        for part in parts {
            self.end_line();
            self.add(part);
        }
    }

    fn add(&mut self, part: &[u8]) {
        let room = LINE_BYTES.saturating_sub(self.line.len());
        self.line.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn end_line(&mut self) {
        let line = plain(&String::from_utf8_lossy(&std::mem::take(&mut self.line)));
        let line = line.trim_end();
        if line.is_empty() || is_chatter(line) {
            return;
        }
        match failure(line) {
            Some(said) => {
                self.usage = said.0 == Speaker::Usage;
                if self.said.len() == KEPT {
                    self.said.remove(0);
                }
                self.said.push(said);
            }
            // Usage may be followed by the program's words only where it was the program that printed it.
            None if self.usage => self.usage = !line.ends_with(USAGE_END),
            None => self.said.clear(),
        }
    }

    /// The words of a runtime that ended with this code, where the output ends in such words.
    pub(crate) fn after_exit(&mut self, code: i32) -> Option<String> {
        self.end_line();
        let speaker = self.said.last()?.0;
        let fits = match speaker {
            Speaker::Go => code == 255,
            Speaker::Starter | Speaker::Usage => code == 1,
        };
        let said: Vec<&str> = self.said.iter().map(|(_, text)| text.as_str()).collect();
        (fits && !self.usage).then(|| said.join("; "))
    }
}

/// The line without colours (`ESC [ .. m`).
fn plain(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let codes = part
            .find(|c: char| !c.is_ascii_digit() && c != ';')
            .unwrap_or(part.len());
        text.push_str(part[codes..].strip_prefix('m').unwrap_or(&part[codes..]));
    }
    text
}

/// `INFO:    Converting SIF file to temporary sandbox...`: no failure, and no word of the command's.
fn is_chatter(line: &str) -> bool {
    ["INFO", "WARNING", "VERBOSE", "DEBUG", "LOG"]
        .iter()
        .any(|level| marked(line, level).is_some())
}

fn failure(line: &str) -> Option<(Speaker, String)> {
    if let Some(said) = line.strip_prefix("Error for command \"exec\": ") {
        return Some((Speaker::Usage, said.to_owned()));
    }
    let go = line
        .strip_prefix("FATAL:   ")
        .or_else(|| line.strip_prefix("ERROR:   "));
    let starter = || {
        line.strip_prefix("ERROR  : ")
            .or_else(|| line.strip_prefix("ABORT  : "))
    };
    go.map(|said| (Speaker::Go, said.to_owned()))
        .or_else(|| Some((Speaker::Starter, starter()?.to_owned())))
}

/// What follows a level: `WARNING: ` padded to nine characters in Go, `INFO   : ` in C.
fn marked<'a>(line: &'a str, level: &str) -> Option<&'a str> {
    let go = format!("{:<9}", format!("{level}:"));
    let starter = format!("{level:<7}: ");
    line.strip_prefix(&go)
        .or_else(|| line.strip_prefix(&starter))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(output: &str, code: i32) -> Option<String> {
        let mut words = StartFailure::default();
        words.feed(output.as_bytes());
        words.after_exit(code)
    }

    #[test]
    fn a_runtimes_own_words_are_known_by_form_place_and_code() {
        let fatal = "FATAL:   \"nosuch\": executable file not found in $PATH\n";
        assert_eq!(
            said(fatal, 255).as_deref(),
            Some("\"nosuch\": executable file not found in $PATH")
        );
        let warned =
            format!("WARNING: passwd file doesn't exist in container, not updating\n{fatal}\n");
        assert!(said(&warned, 255).is_some());
        assert!(said(&format!("{fatal}INFO:    Cleaning up image...\n"), 255).is_some());
        assert_eq!(said(fatal, 1), None);
        assert_eq!(said(fatal, 3), None);
        assert_eq!(said(&format!("{fatal}epoch 2\n"), 255), None);
        assert_eq!(said("FATAL: x\n", 255), None);
        assert_eq!(said("INFO:    x\n", 255), None);
        assert_eq!(said("", 255), None);
    }

    #[test]
    fn the_starters_words_are_in_red_and_its_code_is_one() {
        let output = "INFO   : A system administrator may need to enable user namespaces, install\n\
             INFO   :   apptainer-suid, or compile with ./mconfig --with-suid\n\
             \u{1b}[91mERROR  : Failed to create user namespace: maximum number of user namespaces exceeded\n\u{1b}[0m";
        let words = "Failed to create user namespace: maximum number of user namespaces exceeded";
        assert_eq!(said(output, 1).as_deref(), Some(words));
        assert_eq!(said(output, 255), None);
    }

    #[test]
    fn a_wrong_flag_is_known_through_its_usage() {
        let output = "Error for command \"exec\": unknown flag: --nope\n\nOptions for exec command:\n\n      --add-caps\n\n\
             Run 'apptainer --help' for more detailed usage information.\n";
        assert_eq!(said(output, 1).as_deref(), Some("unknown flag: --nope"));
        assert_eq!(said("Error for command \"exec\": x\nepoch 1\n", 1), None);
        assert_eq!(said(&format!("{output}epoch 1\n"), 1), None);
    }

    #[test]
    fn several_lines_are_one_failure() {
        let output = "ERROR:   first\nFATAL:   second\n";
        assert_eq!(said(output, 255).as_deref(), Some("first; second"));
        let many = "FATAL:   x\n".repeat(1000);
        assert_eq!(said(&many, 255).as_deref(), Some("x; x; x; x"));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_in_which_pieces_it_comes(
            bytes in proptest::collection::vec(prop_oneof![
                Just(b"FATAL:   x".to_vec()), Just(b"\n".to_vec()), Just(b"\x1b[91m".to_vec()), Just(b"INFO:    y".to_vec()),
                proptest::collection::vec(any::<u8>(), 0..6),
            ], 0..12),
            cut in any::<prop::sample::Index>(),
        ) {
            let whole = bytes.concat();
            let mut at_once = StartFailure::default();
            at_once.feed(&whole);
            let mut in_pieces = StartFailure::default();
            let cut = cut.index(whole.len() + 1);
            in_pieces.feed(&whole[..cut]);
            in_pieces.feed(&whole[cut..]);
            prop_assert_eq!(at_once.after_exit(255), in_pieces.after_exit(255));
        }
    }
}
