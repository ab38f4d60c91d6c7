//! `dlrun top`: the node's own runs as they are now.

use std::io::{ErrorKind, Write, stdout};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::app::error::{Error, Kind};
use crate::app::session::Session;
use crate::cli::args::Top;
use crate::cli::top::{Board, Feed, Palette, Screen, Wake, is_screen, to_json, to_text};
use crate::foundation::diagnostic::chain;
use crate::observe::client::ClientError;

/// How long a stream of objects waits for a daemon that is started anew.
const RESTART_PATIENCE: Duration = Duration::from_secs(30);
/// Where a sample is waited for, how long after it should have come, and how often it is asked for.
const SAMPLE_GRACE: Duration = Duration::from_millis(500);
const SAMPLE_PAUSE: Duration = Duration::from_millis(100);
/// Pictures between two questions of how the daemon is.
const STATUS_EVERY: u32 = 10;

/// Runs the verb.
pub(crate) fn run(session: &Session, args: &Top) -> Result<u8, Error> {
    let interval = Duration::from_secs_f64(args.interval);
    let mut feed = Feed::open(socket(session)?, args.all).map_err(absent)?;
    if args.once {
        let board = once(&mut feed, interval)?;
        let shown = if session.output.json {
            format!("{}\n", to_json(&board))
        } else {
            to_text(&board)
        };
        return session.output.raw(shown.as_bytes()).map(|()| 0);
    }
    if session.output.json {
        return stream(&mut feed, interval);
    }
    if !is_screen() {
        let board = once(&mut feed, interval)?;
        return session.output.raw(to_text(&board).as_bytes()).map(|()| 0);
    }
    live(
        &mut feed,
        interval,
        Palette::new(session.output.is_colourful()),
    )
}

fn socket(session: &Session) -> Result<&Path, Error> {
    session.settings.daemon_socket().ok_or_else(|| {
        Error::new(
            Kind::Unreachable,
            "the setting `monitor.daemon` is off, so dlrund is not asked",
        )
        .hinted("`dlrun config show` tells where that is set")
    })
}

/// What a user who never heard of the daemon needs to know.
fn absent(error: ClientError) -> Error {
    let is_absent = error.is_absent();
    let error = Error::from(error);
    if !is_absent {
        return error;
    }
    error
        .hinted("dlrund is the service of a compute node that watches its runs; there is often none on a login node")
        .hinted("`dlrun show RUN` tells what is known of a run without it")
}

/// Two pictures with an interval between them, and at least a sample: without two there are no rates.
fn once(feed: &mut Feed, interval: Duration) -> Result<Board, Error> {
    let mut board = Board::default();
    board.take(feed.picture(false)?);
    let daemons = feed.status().map_or(Duration::ZERO, |status| {
        Duration::from_millis(status.interval_ms)
    });
    let latest = Instant::now() + interval.max(daemons + SAMPLE_GRACE);
    sleep(interval);
    loop {
        board.take(feed.picture(false)?);
        if board.has_rates() || Instant::now() >= latest {
            return Ok(board);
        }
        sleep(SAMPLE_PAUSE);
    }
}

/// One object an interval, until nobody reads any more.
fn stream(feed: &mut Feed, interval: Duration) -> Result<u8, Error> {
    let mut board = Board::default();
    let mut next = Instant::now();
    let mut answered = Instant::now();
    loop {
        match feed.picture(false) {
            Ok(picture) => {
                answered = Instant::now();
                board.take(picture);
                let line = format!("{}\n", to_json(&board));
                match stdout()
                    .write_all(line.as_bytes())
                    .and_then(|()| stdout().flush())
                {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(0),
                    other => other?,
                }
            }
            Err(error) if answered.elapsed() > RESTART_PATIENCE => return Err(error.into()),
            Err(error) => tracing::info!("{}", chain(&error).join(": ")),
        }
        next = following(next, interval);
        sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// The screen, until a key or a signal ends it.
fn live(feed: &mut Feed, interval: Duration, palette: Palette) -> Result<u8, Error> {
    let mut board = Board::default();
    board.take(feed.picture(false)?);
    let mut screen = Screen::open()?;
    let mut next = Instant::now();
    let mut pictures = 0_u32;
    loop {
        if Instant::now() >= next {
            look(feed, &mut board, pictures.is_multiple_of(STATUS_EVERY));
            pictures = pictures.wrapping_add(1);
            next = following(next, interval);
        }
        screen.draw(&board, palette)?;
        match screen.wait(next)? {
            Wake::Time => {}
            Wake::End(signal) => return Ok(u8::try_from(128 + signal as i32).unwrap_or(u8::MAX)),
            Wake::Keys(keys) => {
                let asked = board.wants_processes();
                if !keys.into_iter().all(|key| board.press(key)) {
                    return Ok(0);
                }
                if board.wants_processes() && !asked {
                    next = Instant::now();
                }
            }
        }
    }
}

fn look(feed: &mut Feed, board: &mut Board, also_status: bool) {
    match feed.picture(board.wants_processes()) {
        Ok(picture) => board.take(picture),
        Err(error) => return board.fail(chain(&error).join(": ")),
    }
    if also_status && let Ok(status) = feed.status() {
        board.take_status(status);
    }
}

/// The next time; late ones are left out, not made up for.
fn following(last: Instant, interval: Duration) -> Instant {
    let now = Instant::now();
    if last + interval > now {
        last + interval
    } else {
        now + interval
    }
}
