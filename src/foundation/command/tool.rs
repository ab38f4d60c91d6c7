//! Runs a program and reads what it says.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::failure::{CommandError, Words, status_text};
use super::find::{locate, search_path};
use super::pump::{End, GRACE, Heard, Pump, Reach, Sink, Stream};

/// What [`Tool::run`] keeps of a program's output at most, in bytes, by default. `sacct` prints about 10 MB
/// for 10,000 jobs with all fields.
const OUTPUT_LIMIT: usize = 64 << 20;

/// What [`Tool::run_lines`] keeps of each stream, in bytes: enough for a Python traceback.
const TAIL_BYTES: usize = 16 << 10;

/// A longer line is handed over in pieces of this many bytes.
const LINE_BYTES: usize = 64 << 10;

/// A program that ended by itself, well or not.
#[derive(Debug, Clone)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output; bytes that are not UTF-8 are replaced. After [`Tool::run_lines`] only its end.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
}

impl Output {
    /// Passes the output on if the program exited with 0.
    ///
    /// # Errors
    /// [`CommandError::Failed`] otherwise, with the end of standard error (else of standard output) as its cause.
    pub fn require_success(self, program: &str) -> Result<Self, CommandError> {
        if self.status.success() {
            return Ok(self);
        }
        let words = Words::end_of(&self.stderr).or_else(|| Words::end_of(&self.stdout));
        Err(CommandError::Failed {
            program: program.to_owned(),
            status: status_text(self.status),
            words,
        })
    }
}

/// A program with its arguments and surroundings, ready to be run.
///
/// It speaks the C locale (`LC_ALL=C`), because its output is read by us; its standard input is empty unless given.
#[derive(Debug, Clone)]
pub struct Tool {
    program: OsString,
    dirs: Vec<PathBuf>,
    args: Vec<OsString>,
    sets: Vec<(OsString, OsString)>,
    removals: Vec<OsString>,
    prefixes: Vec<String>,
    input: Vec<u8>,
    cwd: Option<PathBuf>,
    timeout: Option<Duration>,
    output_limit: usize,
    grace: Duration,
    ends_with_us: bool,
    is_to_stop: fn() -> bool,
}

impl Tool {
    /// A program by its name, looked for in `PATH`, or by its path.
    #[must_use]
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            dirs: Vec::new(),
            args: Vec::new(),
            sets: vec![("LC_ALL".into(), "C".into())],
            removals: Vec::new(),
            prefixes: Vec::new(),
            input: Vec::new(),
            cwd: None,
            timeout: None,
            output_limit: OUTPUT_LIMIT,
            grace: GRACE,
            ends_with_us: false,
            is_to_stop: || false,
        }
    }

    /// Looks in `dirs` before `PATH`.
    #[must_use]
    pub fn in_dirs(mut self, dirs: &[PathBuf]) -> Self {
        self.dirs.extend_from_slice(dirs);
        self
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds several arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable of the environment. What is set wins over what is removed, in whatever order they are given.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.sets
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Removes a variable of the environment.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.removals.push(name.as_ref().to_owned());
        self
    }

    /// Leaves the user's locale alone: for a program that hands its environment on.
    #[must_use]
    pub fn keep_locale(mut self) -> Self {
        self.sets.retain(|(name, _)| name != "LC_ALL");
        self
    }

    /// Removes all variables whose names begin with one of `prefixes`.
    #[must_use]
    pub fn env_remove_prefixes(mut self, prefixes: &[&str]) -> Self {
        self.prefixes
            .extend(prefixes.iter().map(|&prefix| prefix.to_owned()));
        self
    }

    /// Gives it something to read. That it does not read it is no error.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Runs it in another working directory.
    #[must_use]
    pub fn current_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.cwd = Some(dir.as_ref().to_owned());
        self
    }

    /// Stops it after this time. Without, it may take for ever.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Bounds what [`Tool::run`] keeps of both streams together, in bytes.
    #[must_use]
    pub fn output_limit(mut self, bytes: usize) -> Self {
        self.output_limit = bytes;
        self
    }

    /// Gives it so long to clear up after SIGTERM before it is killed.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Has it sent SIGTERM when we end, however we do.
    #[must_use]
    pub fn ends_with_us(mut self) -> Self {
        self.ends_with_us = true;
        self
    }

    /// Has [`Tool::run`] stop it once this is true, which is asked ten times a second.
    #[must_use]
    pub fn stops_when(mut self, is_to_stop: fn() -> bool) -> Self {
        self.is_to_stop = is_to_stop;
        self
    }

    /// Returns the program's name as errors show it.
    #[must_use]
    pub fn program(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// Runs it in its own process group and collects what it writes.
    ///
    /// What counts is the end of the program itself: a process that it left behind with our pipes open keeps nobody
    /// waiting. At the timeout the whole group is stopped.
    ///
    /// # Errors
    /// Any [`CommandError`] but `Failed`: a program that ran and failed is an [`Output`].
    pub fn run(&self) -> Result<Output, CommandError> {
        let mut kept = [Vec::new(), Vec::new()];
        let (mut room, mut is_stopped) = (self.output_limit, false);
        let ended = self.follow(Reach::Group, &mut |heard| {
            let Heard::Bytes(stream, bytes) = heard else {
                is_stopped = (self.is_to_stop)();
                return !is_stopped;
            };
            let Some(left) = room.checked_sub(bytes.len()) else {
                return false;
            };
            room = left;
            kept[stream as usize].extend_from_slice(bytes);
            true
        })?;
        let program = || self.program();
        let status = ended.ok_or_else(|| match is_stopped {
            true => CommandError::Stopped { program: program() },
            false => CommandError::TooMuchOutput {
                program: program(),
                limit_bytes: self.output_limit,
            },
        })?;
        let [stdout, stderr] = kept.map(text_of);
        Ok(Output {
            status,
            stdout,
            stderr,
        })
    }

    /// Runs it and hands over each line as it comes, with the stream it is from and without its end (`\n`, `\r` or both). `None` comes
    /// ten times a second and more often while there is none. It is stopped as soon as `on_news` answers `false`.
    ///
    /// For programs that take minutes. It stays in our process group, so that Ctrl-C at the terminal ends both; at the
    /// timeout it alone is stopped.
    ///
    /// # Errors
    /// As [`Tool::run`], without `TooMuchOutput`: only the end of each stream is kept; and [`CommandError::Stopped`].
    pub fn run_lines(
        &self,
        mut on_news: impl FnMut(Option<(Stream, &str)>) -> bool,
    ) -> Result<Output, CommandError> {
        let mut lines = [Lines::default(), Lines::default()];
        let mut continues = true;
        let ended = self.follow(Reach::Child, &mut |heard| {
            match heard {
                Heard::Bytes(stream, bytes) => lines[stream as usize].feed(bytes, &mut |line| {
                    continues &= on_news(Some((stream, line)));
                }),
                Heard::Tick => continues &= on_news(None),
            }
            continues
        })?;
        let status = ended.ok_or_else(|| CommandError::Stopped {
            program: self.program(),
        })?;
        let mut finish = |lines: Lines, stream| {
            lines.finish(&mut |line| {
                on_news(Some((stream, line)));
            })
        };
        let [stdout, stderr] = lines;
        Ok(Output {
            status,
            stdout: finish(stdout, Stream::Stdout),
            stderr: finish(stderr, Stream::Stderr),
        })
    }

    /// Follows it to its end; `None`: the sink asked to stop it.
    fn follow(
        &self,
        reach: Reach,
        sink: &mut Sink<'_>,
    ) -> Result<Option<ExitStatus>, CommandError> {
        let start = Instant::now();
        let failed = |source| CommandError::Follow {
            program: self.program(),
            source,
        };
        let mut command = self.command()?;
        if reach == Reach::Group {
            command.process_group(0);
        }
        let child = command.spawn().map_err(|source| self.refused(source))?;
        // A missing guard is no reason not to run it.
        let _guard = self.ends_with_us.then(|| Guard::of(&child));
        let deadline = self.timeout.and_then(|limit| start.checked_add(limit));
        let pump = Pump::new(child, reach, self.input.clone(), self.grace).map_err(failed)?;
        let end = pump.follow(deadline, sink).map_err(failed)?;
        let (program, args) = (&self.program, &self.args);
        tracing::debug!(?program, ?args, ?end, elapsed = ?start.elapsed(), "ran");
        match end {
            End::Exited(status) => Ok(Some(status)),
            End::Refused => Ok(None),
            End::TimedOut => Err(CommandError::TimedOut {
                program: self.program(),
                seconds: self.timeout.unwrap_or_default().as_secs_f64(),
            }),
        }
    }

    fn command(&self) -> Result<Command, CommandError> {
        let path = search_path(&self.sets);
        let mut command = Command::new(locate(&self.program, &self.dirs, &path)?);
        let stdin = if self.input.is_empty() {
            Stdio::null()
        } else {
            Stdio::piped()
        };
        command
            .args(&self.args)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for name in &self.removals {
            command.env_remove(name);
        }
        if !self.prefixes.is_empty() {
            let starts = |name: &OsStr| {
                self.prefixes
                    .iter()
                    .any(|p| name.as_bytes().starts_with(p.as_bytes()))
            };
            for (name, _) in std::env::vars_os().filter(|(name, _)| starts(name)) {
                command.env_remove(name);
            }
        }
        command.envs(self.sets.iter().map(|(name, value)| (name, value)));
        if let Some(dir) = &self.cwd {
            command.current_dir(dir);
        }
        Ok(command)
    }

    /// The system's refusal in our words: for a missing working directory it names no file at all.
    fn refused(&self, source: std::io::Error) -> CommandError {
        match &self.cwd {
            Some(dir) if !dir.is_dir() => CommandError::NoDirectory {
                program: self.program(),
                path: dir.clone(),
            },
            _ => CommandError::Spawn {
                program: self.program(),
                source,
            },
        }
    }
}

/// A process that signals a child of ours once its pipe from us is closed, which the kernel does whatever ended us. The kernel's own
/// way, `PR_SET_PDEATHSIG`, is lost where a program changes who it is, as container runtimes do.
struct Guard(Option<Child>);

impl Guard {
    fn of(child: &Child) -> Self {
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", "read -r _; kill -s TERM \"$1\"", "dlrun-guard"])
            .arg(child.id().to_string());
        // A signal to our group is not for it.
        shell
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        Self(shell.spawn().ok())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut shell) = self.0.take() {
            let _ = shell.kill();
            let _ = shell.wait();
        }
    }
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Cuts bytes into lines and keeps the last of them.
#[derive(Default)]
struct Lines {
    begun: Vec<u8>,
    tail: Vec<u8>,
}

impl Lines {
    fn feed(&mut self, bytes: &[u8], on_line: &mut dyn FnMut(&str)) {
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let ended = piece.ends_with(b"\n") || piece.ends_with(b"\r");
            self.begun
                .extend_from_slice(&piece[..piece.len() - usize::from(ended)]);
            if ended || self.begun.len() >= LINE_BYTES {
                self.hand_over(on_line);
            }
        }
    }

    fn finish(mut self, on_line: &mut dyn FnMut(&str)) -> String {
        self.hand_over(on_line);
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
        text_of(self.tail.split_off(surplus))
    }

    /// Blank lines are left out: `\r\n` would give one after each line, and none is worth showing.
    fn hand_over(&mut self, on_line: &mut dyn FnMut(&str)) {
        if self.begun.is_empty() {
            return;
        }
        on_line(&String::from_utf8_lossy(&self.begun));
        self.tail.append(&mut self.begun);
        self.tail.push(b'\n');
        if self.tail.len() > 2 * TAIL_BYTES {
            self.tail.drain(..self.tail.len() - TAIL_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Tool {
        Tool::new("sh").args(["-c", script])
    }

    /// Whether a process is there and not a zombie.
    fn lives(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    /// The process that a script named by writing `$$ > leader`; it may not even be a zombie.
    fn is_reaped(dir: &Path) -> bool {
        let pid = std::fs::read_to_string(dir.join("leader")).expect("it was written");
        !Path::new("/proc").join(pid.trim()).exists()
    }

    #[test]
    fn run_returns_streams_and_status() {
        let output = shell("echo out; echo err >&2; exit 3")
            .run()
            .expect("it runs");
        assert_eq!(
            (output.stdout.as_str(), output.stderr.as_str()),
            ("out\n", "err\n")
        );
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn failure_is_a_chain_of_status_and_words() {
        let output = shell("echo 'sbatch: error: invalid partition' >&2; exit 1")
            .run()
            .expect("it runs");
        let error = output.require_success("sbatch").expect_err("it failed");
        assert_eq!(error.to_string(), "`sbatch` exited with status 1");
        let cause = std::error::Error::source(&error)
            .expect("it spoke")
            .to_string();
        assert_eq!(cause, "sbatch: error: invalid partition");
        let silent = shell("kill -9 $$")
            .run()
            .expect("it runs")
            .require_success("x")
            .expect_err("it failed");
        assert_eq!(silent.to_string(), "`x` was killed by SIGKILL");
        assert!(std::error::Error::source(&silent).is_none());
    }

    #[test]
    fn missing_program_is_named_with_where_it_was_searched() {
        let error = Tool::new("no-such-program")
            .in_dirs(&["/opt/none".into()])
            .run()
            .expect_err("none");
        assert!(matches!(&error, CommandError::NotFound { searched, .. } if searched.len() == 1));
        let error = Tool::new("true")
            .current_dir("/no/such/place")
            .run()
            .expect_err("none");
        assert!(matches!(error, CommandError::NoDirectory { .. }), "{error}");
    }

    #[test]
    fn timeout_stops_the_group_even_if_it_ignores_sigterm_and_holds_the_pipe() {
        let dir = tempfile::tempdir().expect("temp");
        let script = "echo $$ > leader; trap '' TERM; sleep 600 & echo $! > pid; wait";
        let start = Instant::now();
        let error = shell(script)
            .current_dir(dir.path())
            .timeout(Duration::from_millis(200))
            .run();
        let error = error.expect_err("it takes too long");
        assert_eq!(
            error.to_string(),
            "`sh` gave no answer within 0.2 s and was stopped"
        );
        assert!(
            start.elapsed() < Duration::from_secs(8),
            "{:?}",
            start.elapsed()
        );
        let grandchild = std::fs::read_to_string(dir.path().join("pid")).expect("it was written");
        assert!(!lives(&grandchild), "{grandchild}");
        assert!(is_reaped(dir.path()));
    }

    #[test]
    fn timeout_of_an_obedient_group_is_quick() {
        let (start, dir) = (Instant::now(), tempfile::tempdir().expect("temp"));
        let tool = shell("echo $$ > leader; sleep 600 & sleep 600").current_dir(dir.path());
        tool.timeout(Duration::from_millis(100))
            .run()
            .expect_err("it takes too long");
        // A container without an init keeps the grandchild as a zombie in the group, which costs the grace.
        assert!(
            start.elapsed() < Duration::from_secs(6),
            "{:?}",
            start.elapsed()
        );
        assert!(is_reaped(dir.path()));
    }

    #[test]
    fn grandchild_that_keeps_the_pipe_keeps_nobody_waiting() {
        let start = Instant::now();
        let output = shell("echo said; sleep 30 & echo $! >&2")
            .run()
            .expect("it runs");
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{:?}",
            start.elapsed()
        );
        assert_eq!(output.stdout, "said\n");
        assert!(
            lives(&output.stderr),
            "what it left behind is not ours to kill"
        );
        let pid = output.stderr.trim().parse().expect("a number");
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL)
            .expect("it lives");
    }

    #[test]
    fn output_is_bounded_and_the_writer_stopped() {
        let tool = Tool::new("head").args(["-c", "200000000", "/dev/zero"]);
        let error = tool.clone().run().expect_err("it writes too much");
        assert!(
            matches!(
                error,
                CommandError::TooMuchOutput {
                    limit_bytes: OUTPUT_LIMIT,
                    ..
                }
            ),
            "{error}"
        );
        let error = tool.output_limit(10).run().expect_err("it writes too much");
        assert_eq!(
            error.to_string(),
            "`head` wrote more than 10 bytes and was stopped"
        );
        let dir = tempfile::tempdir().expect("temp");
        shell("echo $$ > leader; exec yes")
            .current_dir(dir.path())
            .run()
            .expect_err("it writes too much");
        assert!(is_reaped(dir.path()));
    }

    #[test]
    fn run_stops_when_asked() {
        let error = shell("sleep 60 & wait").stops_when(|| true).run();
        let error = error.expect_err("it is stopped");
        assert!(matches!(error, CommandError::Stopped { .. }), "{error}");
        let output = shell("echo fine").stops_when(|| false).run();
        assert_eq!(output.expect("it runs").stdout, "fine\n");
    }

    #[test]
    fn large_output_on_both_streams_and_large_input_pass_whole() {
        let input = "0123456789abcde\n".repeat(200_000);
        let output = Tool::new("tee")
            .arg("/dev/stderr")
            .stdin(input.clone())
            .run()
            .expect("it runs");
        assert_eq!(
            (output.stdout.len(), output.stderr.len()),
            (input.len(), input.len())
        );
        assert!(output.stdout == input && output.stderr == input);
    }

    #[test]
    fn input_that_is_not_read_is_no_failure() {
        let input = vec![b'x'; 4 << 20];
        let output = Tool::new("true")
            .stdin(input.clone())
            .run()
            .expect("it runs");
        assert!(output.status.success());
        let output = shell("exec <&-; sleep 0.1; echo done")
            .stdin(input)
            .run()
            .expect("it runs");
        assert_eq!(output.stdout, "done\n");
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let output = shell(r"printf 'a\377b'").run().expect("it runs");
        assert_eq!(output.stdout, "a\u{fffd}b");
    }

    #[test]
    fn environment_is_removed_by_name_and_prefix_and_then_set() {
        let base = || Tool::new("sh").args(["-c", "exec env"]);
        assert!(base().run().expect("it runs").stdout.contains("LC_ALL=C\n"));
        let gone = base()
            .env_remove("HOME")
            .env_remove_prefixes(&["CARGO", "PATH"])
            .run();
        let (kept, gone) = (
            base().run().expect("it runs").stdout,
            gone.expect("it runs").stdout,
        );
        let has = |text: &str, name: &str| text.lines().any(|line| line.starts_with(name));
        assert!(
            has(&kept, "CARGO") && has(&kept, "HOME="),
            "cargo and nextest set them\n{kept}"
        );
        assert!(!has(&gone, "CARGO") && !has(&gone, "HOME="), "{gone}");
        let set = base()
            .env("CARGO_SET", "1")
            .env("LC_ALL", "C.UTF-8")
            .env_remove_prefixes(&["CARGO"]);
        let set = set.run().expect("it runs").stdout;
        assert!(
            has(&set, "CARGO_SET=1") && has(&set, "LC_ALL=C.UTF-8"),
            "{set}"
        );
    }

    #[test]
    fn lines_come_as_they_are_written() {
        let mut seen = Vec::new();
        let script = r"printf 'one\r\ntwo\rthree\n\n'; sleep 0.2; echo err >&2; printf last";
        let start = Instant::now();
        let output = shell(script)
            .run_lines(|news| {
                let at = start.elapsed();
                seen.extend(news.map(|(stream, line)| (stream, line.to_owned(), at)));
                true
            })
            .expect("it runs");
        let of = |stream| {
            seen.iter()
                .filter(|s| s.0 == stream)
                .map(|s| s.1.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(of(Stream::Stdout), ["one", "two", "three", "last"]);
        assert_eq!(of(Stream::Stderr), ["err"]);
        assert_eq!(output.stdout, "one\ntwo\nthree\nlast\n");
        assert!(
            seen[0].2 + Duration::from_millis(100) < start.elapsed(),
            "the first line came at once"
        );
    }

    #[test]
    fn lines_have_no_total_bound_but_only_the_end_is_kept() {
        let (mut bytes, mut longest) = (0, 0);
        let script = "head -c 200000000 /dev/zero; echo; echo end";
        let output = shell(script)
            .run_lines(|news| {
                let length = news.map_or(0, |(_, line)| line.len());
                bytes += length;
                longest = longest.max(length);
                true
            })
            .expect("it runs");
        assert_eq!(bytes, 200_000_003);
        assert!(longest <= 2 * LINE_BYTES, "{longest}");
        assert!(output.stdout.len() <= TAIL_BYTES && output.stdout.ends_with("\nend\n"));
    }

    #[test]
    fn lines_stop_when_told_and_the_child_may_clear_up() {
        let dir = tempfile::tempdir().expect("temp");
        let script = "echo $$ > leader; trap 'sleep 2.5; echo done > cleared; exit 1' TERM; echo up; sleep 60 & wait";
        let (mut up, start) = (false, Instant::now());
        let tool = shell(script)
            .current_dir(dir.path())
            .grace(Duration::from_secs(20));
        let error = tool.run_lines(|news| {
            up |= news == Some((Stream::Stdout, "up"));
            !(up && news.is_none())
        });
        assert!(
            matches!(error, Err(CommandError::Stopped { .. })),
            "{error:?}"
        );
        assert!(dir.path().join("cleared").exists() && is_reaped(dir.path()));
        assert!(
            start.elapsed() < Duration::from_secs(15),
            "{:?}",
            start.elapsed()
        );
    }

    #[test]
    fn guard_whose_pipe_closes_ends_the_child_and_one_that_is_dropped_does_not() {
        let mut child = Command::new("sleep").arg("600").spawn().expect("sleep");
        drop(Guard::of(&child));
        assert!(
            child.try_wait().expect("it is ours").is_none(),
            "it goes on"
        );
        let mut guard = Guard::of(&child);
        // As the kernel does when we are killed.
        drop(guard.0.as_mut().expect("a shell").stdin.take());
        let ended = child.wait().expect("it is ours");
        assert_eq!(status_text(ended), "was killed by SIGTERM");
    }

    #[test]
    fn lines_stop_at_the_timeout_and_stay_in_our_group() {
        let start = Instant::now();
        let mut group = String::new();
        let error = shell("cat /proc/$$/stat; sleep 5 & wait")
            .timeout(Duration::from_millis(200))
            .run_lines(|news| {
                if let Some((_, line)) = news {
                    group = line.split(' ').nth(4).unwrap_or_default().to_owned();
                }
                true
            })
            .expect_err("it takes too long");
        assert!(matches!(error, CommandError::TimedOut { .. }), "{error}");
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{:?}",
            start.elapsed()
        );
        assert_eq!(group, nix::unistd::getpgrp().to_string());
    }
}
