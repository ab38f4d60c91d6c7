//! Where `tracing` goes: standard error, as much as the user asked for.

use tracing::level_filters::LevelFilter;

/// Starts logging. 0 shows warnings, 1 state changes, 2 every command that is run, 3 all. Values of environment
/// variables are never logged.
pub fn start(verbosity: u8) {
    let level = match verbosity {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    start_with(level);
}

/// Starts logging at a level by its name: `error`, `warn`, `info`, `debug`, `trace`. The journal adds the time.
pub fn start_at(level: &str) {
    start_with(level.parse().unwrap_or(LevelFilter::INFO));
}

fn start_with(level: LevelFilter) {
    // Fails where a logger is there already, as in tests.
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .without_time()
        .with_target(false)
        .try_init();
}
