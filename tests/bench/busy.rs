//! A training that only computes: a fixed amount of work on one or more threads, with a line for each epoch.

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::measure::number;

/// This program with this first argument is the training.
pub(crate) const VERB: &str = "busy";

const EPOCHS: u64 = 8;

/// What the training says it took, in seconds: from its first line to its last, and CPU time of all its threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    pub(crate) wall: f64,
    pub(crate) cpu: f64,
}

/// `busy THREADS STEPS FILE`: computes and writes into FILE what it took.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    match train(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{VERB}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn train(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let [threads, steps, file] = arguments else {
        return Err("write: busy THREADS STEPS FILE".into());
    };
    let (threads, steps): (u64, u64) = (threads.parse()?, steps.parse()?);
    let (begun, cpu) = (Instant::now(), cpu_seconds()?);
    for epoch in 1..=EPOCHS {
        let epoch_begun = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| work(steps / EPOCHS));
            }
        });
        let seconds = epoch_begun.elapsed().as_secs_f64();
        writeln!(
            std::io::stdout(),
            "Epoch {epoch}/{EPOCHS}\n - {seconds:.2}s - loss: 0.5"
        )?;
    }
    let took = format!("{} {}", begun.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
    Ok(fs::write(file, took)?)
}

/// Reads what [`run`] wrote.
pub(crate) fn read(file: &Path) -> Result<Took, Box<dyn Error>> {
    let text = fs::read_to_string(file)?;
    let (wall, cpu) = text.split_once(' ').ok_or("the training said nothing")?;
    Ok(Took {
        wall: wall.parse()?,
        cpu: cpu.parse()?,
    })
}

/// Steps of [`work`] that take about `seconds` here and now.
pub(crate) fn steps_of(seconds: f64) -> u64 {
    const TRIAL: u32 = 50_000_000;
    let begun = Instant::now();
    work(TRIAL.into());
    let share = seconds / begun.elapsed().as_secs_f64();
    // To the next million, which is exact in either type.
    (1..)
        .take_while(|millions| f64::from(*millions) * 1e6 < share * f64::from(TRIAL))
        .count() as u64
        * 1_000_000
}

/// A chain of multiplications, each of which waits for the one before (Knuth's MMIX generator).
fn work(steps: u64) {
    let mut state = black_box(1_u64);
    for _ in 0..steps {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
    }
    black_box(state);
}

/// CPU time of this process.
pub(crate) fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds =
        |time: TimeVal| -> Result<f64, Box<dyn Error>> {
            Ok(number(usize::try_from(time.tv_sec())?)
                + number(usize::try_from(time.tv_usec())?) / 1e6)
        };
    Ok(seconds(usage.user_time())? + seconds(usage.system_time())?)
}
