//! `dlrun top`: the node's own runs as they are now.

use std::io::{ErrorKind, Write, stdout};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::app::error::{Error, Kind};
use crate::app::session::Session;
use crate::cli::args::Top;
use crate::cli::top::{Board, BoardAnswer, Feed, Screen, Wake, is_screen, to_text};
use crate::foundation::diagnostic::chain_text;
use crate::observe::client::ClientError;

/// How long a stream of objects waits for a daemon that is restarted.
const RESTART_PATIENCE: Duration = Duration::from_secs(30);
/// How long a second sample is waited for beyond the interval, and how often it is asked for.
const SAMPLE_PATIENCE: Duration = Duration::from_secs(3);
const SAMPLE_PAUSE: Duration = Duration::from_millis(100);

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Top) -> Result<u8, Error> {
    let interval = Duration::from_secs_f64(args.interval);
    let socket = session.settings.daemon_socket().ok_or_else(|| {
        let message = "the setting `monitor.daemon` is off, so dlrund is not asked";
        Error::new(Kind::Unreachable, message).hinted("`dlrun config show` shows where that is set")
    })?;
    let mut feed = Feed::open(socket, args.all).map_err(absent)?;
    match (args.once, session.output.json) {
        (false, true) => stream(&mut feed, interval),
        (false, false) if is_screen() => live(&mut feed, interval),
        (_, is_json) => {
            let board = once(&mut feed, interval)?;
            let shown = if is_json {
                line(&board)?
            } else {
                to_text(&board)
            };
            session.output.raw(shown.as_bytes()).map(|()| 0)
        }
    }
}

/// What a user who does not know the daemon needs to know.
fn absent(error: ClientError) -> Error {
    let is_absent = error.is_absent();
    let error = Error::from(error);
    if !is_absent {
        return error;
    }
    error
        .hinted("dlrund is the service of a compute node that watches its runs; there is often none on a login node")
        .hinted("`dlrun show RUN` shows what is known of a run without it")
}

/// The board after an interval, and after a second sample where one comes soon: without two there are no rates.
fn once(feed: &mut Feed, interval: Duration) -> Result<Board, Error> {
    let mut board = Board::default();
    board.take(feed.picture()?);
    let latest = Instant::now() + interval + SAMPLE_PATIENCE;
    sleep(interval);
    loop {
        board.take(feed.picture()?);
        if board.has_rates() || Instant::now() >= latest {
            return Ok(board);
        }
        sleep(SAMPLE_PAUSE);
    }
}

/// One object for each interval, until its reader exits.
fn stream(feed: &mut Feed, interval: Duration) -> Result<u8, Error> {
    let mut board = Board::default();
    let mut next = Instant::now();
    let mut answered = Instant::now();
    loop {
        match feed.picture() {
            Ok(picture) => {
                answered = Instant::now();
                board.take(picture);
                let written = stdout().write_all(line(&board)?.as_bytes());
                match written.and_then(|()| stdout().flush()) {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(0),
                    other => other?,
                }
            }
            Err(error) if answered.elapsed() > RESTART_PATIENCE => return Err(error.into()),
            Err(error) => tracing::info!("{}", chain_text(&error)),
        }
        next = following(next, interval);
        sleep(next.saturating_duration_since(Instant::now()));
    }
}

fn line(board: &Board) -> Result<String, Error> {
    let value = serde_json::to_value(BoardAnswer::new(board));
    value
        .map(|value| format!("{value}\n"))
        .map_err(|error| Error::new(Kind::Internal, error))
}

/// The screen, until a key or a signal ends it.
fn live(feed: &mut Feed, interval: Duration) -> Result<u8, Error> {
    let mut board = Board::default();
    board.take(feed.picture()?);
    let screen = Screen::open()?;
    let mut next = Instant::now();
    loop {
        if Instant::now() >= next {
            match feed.picture() {
                Ok(picture) => board.take(picture),
                Err(error) => board.fail(chain_text(&error)),
            }
            next = following(next, interval);
        }
        screen.draw(&board)?;
        match screen.wait(next)? {
            Wake::Time => {}
            Wake::End(signal) => return Ok(u8::try_from(128 + signal as i32).unwrap_or(u8::MAX)),
            Wake::Keys(keys) => {
                if !keys.into_iter().all(|key| board.press(key)) {
                    return Ok(0);
                }
            }
        }
    }
}

/// The next time; late ones are left out, not made up for.
fn following(last: Instant, interval: Duration) -> Instant {
    let now = Instant::now();
    let next = last + interval;
    if next > now { next } else { now + interval }
}
