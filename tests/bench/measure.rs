//! Runs programs, in turns, and draws figures from what they took.

use std::error::Error;
use std::io;
use std::mem::MaybeUninit;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::libc;

/// What one run of a program took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ran {
    pub(crate) wall: Duration,
    /// The largest resident set of the program or of one that it waited for, in bytes.
    pub(crate) rss_bytes: u64,
}

/// Runs a program to its end; an exit code other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<Ran, Box<dyn Error>> {
    let begun = Instant::now();
    let child = command
        .spawn()
        .map_err(|error| format!("{command:?}: {error}"))?;
    let pid = i32::try_from(child.id())?;
    let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: both pointers are valid for writing during the call, and all-zero bytes are a valid `rusage`.
    let (waited, usage) = unsafe {
        (
            libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()),
            usage.assume_init(),
        )
    };
    let wall = begun.elapsed();
    if waited != pid {
        return Err(io::Error::last_os_error().into());
    }
    if status != 0 {
        return Err(format!("{command:?} ended with wait status {status}").into());
    }
    Ok(Ran {
        wall,
        rss_bytes: u64::try_from(usage.ru_maxrss)? * 1024,
    })
}

/// A program that reads nothing and whose output nobody wants.
pub(crate) fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// `sh -c true`: the least that any command costs.
pub(crate) fn floor() -> Command {
    let mut command = quiet("sh");
    command.args(["-c", "true"]);
    command
}

/// Runs the programs in turns, A B C A B C ..., each `count` times after one round that does not count.
pub(crate) fn in_turns(
    count: usize,
    commands: &mut [Command],
) -> Result<Vec<Vec<Ran>>, Box<dyn Error>> {
    let mut taken = vec![Vec::with_capacity(count); commands.len()];
    for round in 0..=count {
        for (command, taken) in commands.iter_mut().zip(&mut taken) {
            let ran = run(command)?;
            if round > 0 {
                taken.push(ran);
            }
        }
    }
    Ok(taken)
}

/// The median wall time, in milliseconds.
pub(crate) fn median_ms(taken: &[Ran]) -> f64 {
    median(
        taken
            .iter()
            .map(|ran| ran.wall.as_secs_f64() * 1e3)
            .collect(),
    )
}

/// The median; of an even number of values the mean of the middle two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

/// The median of `values` between bounds that hold the true one in at least 95 of 100 cases, whatever the distribution:
/// order statistics, by the sign test. With fewer than six values the bounds are infinite.
pub(crate) fn median_with_bounds(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let middle = median(values.clone());
    match places_outside(count) {
        0 => (f64::NEG_INFINITY, middle, f64::INFINITY),
        outside => (values[outside - 1], middle, values[count - outside]),
    }
}

/// The largest k for which a fair coin thrown `count` times shows fewer than k heads in at most 2.5 % of all cases.
fn places_outside(count: usize) -> usize {
    let mut probability = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let (mut sum, mut heads) = (probability, 0_usize);
    while sum <= 0.025 {
        heads += 1;
        probability *= number(count + 1 - heads) / number(heads);
        sum += probability;
    }
    heads
}

/// Bytes as MiB.
pub(crate) fn mib(bytes: u64) -> f64 {
    usize::try_from(bytes).map_or(f64::NAN, number) / 1_048_576.0
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts are small, and bytes need no last digit"
)]
pub(crate) fn number(count: usize) -> f64 {
    count as f64
}
