//! The terminal: taken over, drawn on, given back however this ends.

use std::io::{self, BufWriter, IsTerminal, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::{Attribute, PrintStyledContent, SetAttribute};
use crossterm::terminal::{
    self, Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::board::{Board, Key, keys};
use super::page::page;

/// Columns and lines of a terminal that does not know its own size.
const USUAL_SIZE: (u16, u16) = (80, 24);

/// True where there is a terminal that can be drawn on and typed at.
pub(crate) fn is_screen() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    stdin().is_terminal() && stdout().is_terminal() && !dumb
}

/// Why waiting ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The time came.
    Time,
    /// Keys were typed, or the terminal has another size.
    Keys(Vec<Key>),
    /// A signal wants an end; or the terminal is gone, which is a hang-up.
    End(Signal),
}

/// The terminal, taken over: no echo, another page than the shell's, no cursor. It is given back when this goes, in a panic
/// too. Signals that would end the process, or say that the size changed, come through [`Screen::wait`].
pub(crate) struct Screen {
    signals: SignalFd,
}

impl Screen {
    /// Takes the terminal over.
    pub(crate) fn open() -> io::Result<Self> {
        let set = SigSet::from_iter([
            Signal::SIGTERM,
            Signal::SIGINT,
            Signal::SIGHUP,
            Signal::SIGWINCH,
        ]);
        set.thread_block()?;
        let signals = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        // The message of a panic must not go to a page that is then taken away.
        let former = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            former(panic);
        }));
        let screen = Self { signals };
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, DisableLineWrap, Hide)?;
        Ok(screen)
    }

    /// Draws the board.
    pub(crate) fn draw(&self, board: &Board) -> io::Result<()> {
        // Not `terminal::size`, which starts `tput` where the terminal does not say.
        let size = terminal::window_size().map(|size| (size.columns, size.rows));
        let known = size
            .ok()
            .filter(|(width, height)| *width > 0 && *height > 0);
        let (width, height) = known.unwrap_or(USUAL_SIZE);
        let mut out = BufWriter::new(stdout().lock());
        let lines = page(board, usize::from(width), usize::from(height));
        for (line, y) in lines.into_iter().zip(0..) {
            // Before the text: behind a full line the cursor still stands on its last character.
            queue!(out, MoveTo(0, y), Clear(ClearType::UntilNewLine))?;
            for span in line {
                queue!(out, PrintStyledContent(span))?;
            }
        }
        out.flush()
    }

    /// Waits for a time, unless something comes before.
    pub(crate) fn wait(&self, until: Instant) -> io::Result<Wake> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Wake::Time);
            }
            let stdin = stdin();
            let mut fds = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
            ];
            // A millisecond more: waking too early would be in vain.
            let timeout =
                PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
            match poll(&mut fds, timeout) {
                Ok(0) | Err(Errno::EINTR) => continue,
                Ok(_) => {}
                Err(errno) => return Err(errno.into()),
            }
            let [signalled, typed] = fds.map(|fd| fd.any().unwrap_or(false));
            if signalled && let Some(info) = self.signals.read_signal()? {
                let number = i32::try_from(info.ssi_signo).unwrap_or_default();
                return Ok(match Signal::try_from(number) {
                    Ok(Signal::SIGWINCH) | Err(_) => Wake::Keys(Vec::new()),
                    Ok(signal) => Wake::End(signal),
                });
            }
            let mut buffer = [0; 256];
            if typed {
                match nix::unistd::read(&stdin, &mut buffer) {
                    Ok(0) | Err(Errno::EIO) => return Ok(Wake::End(Signal::SIGHUP)),
                    Ok(count) => return Ok(Wake::Keys(keys(&buffer[..count]))),
                    Err(Errno::EINTR | Errno::EAGAIN) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Leaves the terminal as it was. Doing it twice does no harm; a terminal that is gone needs nothing.
fn give_back() {
    let _ = disable_raw_mode();
    let _ = execute!(
        stdout(),
        SetAttribute(Attribute::Reset),
        Show,
        EnableLineWrap,
        LeaveAlternateScreen
    );
}
