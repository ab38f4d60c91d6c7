//! The terminal: taken over, drawn on, given back however this ends.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use ratatui_core::terminal::Terminal;

use super::board::Board;
use super::draw::draw;
use super::keys::{Key, is_cut, keys};
use super::style::Palette;
use super::tty::Tty;

/// How long the rest of a key's letters may take.
const REST_OF_KEY: Duration = Duration::from_millis(50);

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
    terminal: Terminal<Tty<BufWriter<Stdout>>>,
    signals: SignalFd,
}

impl Screen {
    /// Takes the terminal over.
    pub(crate) fn open() -> io::Result<Self> {
        let ends = [
            Signal::SIGTERM,
            Signal::SIGINT,
            Signal::SIGHUP,
            Signal::SIGWINCH,
        ];
        let set = SigSet::from_iter(ends);
        set.thread_block()?;
        let signals = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let mut terminal = Terminal::new(Tty::new(BufWriter::new(stdout())))?;
        // The message of a panic must not go to a page that is then taken away.
        let former = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            former(panic);
        }));
        let taken = terminal.backend_mut().take_over();
        let screen = Self { terminal, signals };
        taken.map(|()| screen)
    }

    /// Draws the board.
    pub(crate) fn draw(&mut self, board: &Board, palette: Palette) -> io::Result<()> {
        self.terminal
            .draw(|frame| draw(board, palette, frame.area(), frame.buffer_mut()))
            .map(|_| ())
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
                let signal = i32::try_from(info.ssi_signo)
                    .ok()
                    .and_then(|number| Signal::try_from(number).ok());
                match signal {
                    Some(Signal::SIGWINCH) | None => return Ok(Wake::Keys(Vec::new())),
                    Some(signal) => return Ok(Wake::End(signal)),
                }
            }
            if typed {
                return read_keys();
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
    let _ = Tty::new(stdout()).give_back();
    let _ = stdout().flush();
}

fn read_keys() -> io::Result<Wake> {
    let mut typed = Vec::new();
    let mut buffer = [0; 256];
    loop {
        match nix::unistd::read(stdin(), &mut buffer) {
            Ok(0) | Err(Errno::EIO) => return Ok(Wake::End(Signal::SIGHUP)),
            Ok(read) => typed.extend_from_slice(&buffer[..read]),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
        if !is_cut(&typed) || !has_more() {
            return Ok(Wake::Keys(keys(&typed)));
        }
    }
}

fn has_more() -> bool {
    let stdin = stdin();
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(REST_OF_KEY).unwrap_or(PollTimeout::ZERO);
    matches!(poll(&mut fds, timeout), Ok(1..))
}
