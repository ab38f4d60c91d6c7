//! The selected run, below the table: what matters most first, since what does not fit is left out.

use ratatui_core::text::{Line, Span};

use super::board::Board;
use super::curve::{curve, letter_ms};
use super::style::Palette;
use super::text::{bytes, clock, cpu_percent, one_line, percent, share};
use super::watched::{CURVE_MS, Gpu, Point, Watched, is_idle};
use crate::foundation::units::Bytes;

/// What stands before a curve and after it, in letters.
const BEFORE_CURVE: usize = 8;
const AFTER_CURVE: usize = 24;
/// Events that are shown.
const EVENTS: usize = 5;

/// The lines, title first.
pub(super) fn details(
    board: &Board,
    run: &Watched,
    palette: Palette,
    width: usize,
) -> Vec<Line<'static>> {
    let mut lines = vec![title(board, run, palette, width)];
    if board.shows_processes {
        lines.extend(processes(run, palette));
        return lines;
    }
    lines.extend(curves(run, palette, width));
    lines.extend(held_back(run, palette));
    lines.extend(progress(run));
    lines.extend(run.gpus().iter().map(|gpu| gpu_line(gpu, palette)));
    lines.push(memory(run));
    lines.push(io(run));
    lines.extend(events(board, run));
    lines
}

fn title(board: &Board, run: &Watched, palette: Palette, width: usize) -> Line<'static> {
    let view = &run.view;
    let job = view
        .job_id
        .as_ref()
        .map(|job| format!(", job {job}"))
        .unwrap_or_default();
    let age = run
        .sampled_at_ms()
        .map(|at_ms| board.at_ms.saturating_sub(at_ms));
    let sampled = match age {
        None => ", no sample yet".to_owned(),
        Some(ms @ 10_000..) => format!(", last sample {} ago", clock(ms)),
        Some(_) => String::new(),
    };
    let text = format!(
        "-- {}: run {}{job}, {}{sampled} ",
        view.name, view.key.run_id, run.user
    );
    Line::styled(format!("{:-<width$}", one_line(&text)), palette.heading())
}

/// CPU, memory and GPUs over the last minutes.
fn curves(run: &Watched, palette: Palette, width: usize) -> Vec<Line<'static>> {
    let times: Vec<u64> = run.points.iter().map(|point| point.at_ms).collect();
    let width = width.saturating_sub(BEFORE_CURVE + AFTER_CURVE);
    let letter_ms = letter_ms(&times, CURVE_MS, width);
    let line =
        |name: &str, value: fn(&Point) -> Option<f64>, least: f64, text: &dyn Fn(f64) -> String| {
            let points: Vec<_> = run
                .points
                .iter()
                .map(|point| (point.at_ms, value(point)))
                .collect();
            let most = points
                .iter()
                .filter_map(|(_, value)| *value)
                .fold(least, f64::max);
            Line::from(vec![
                Span::raw(format!("{name:<BEFORE_CURVE$}")),
                Span::styled(curve(&points, letter_ms, width, most), palette.curve()),
                Span::raw(format!(" {}", text(most))),
            ])
        };
    let now = run.now();
    let cpu = cpu_percent(run.cpus());
    let mut lines = vec![
        line("CPU", |point| point.cpus, 0.0, &|most| {
            format!("{cpu}% (most {}%)", cpu_percent(Some(most)))
        }),
        line("memory", |point| point.memory.map(real), 0.0, &|_| {
            let peak = run.view.usage.mem_peak_bytes.max(now.mem_used_bytes());
            format!("{} (most {})", bytes(now.mem_used_bytes()), bytes(peak))
        }),
    ];
    if !run.gpus().is_empty() {
        let gpus = percent(run.gpu_percent());
        lines.push(line("GPU", |point| point.gpus, 100.0, &|_| gpus.clone()));
    }
    lines
}

#[expect(clippy::cast_precision_loss, reason = "for a curve")]
fn real(value: u64) -> f64 {
    value as f64
}

/// What keeps it from running: its quota, waiting, want of memory.
fn held_back(run: &Watched, palette: Palette) -> Option<Line<'static>> {
    let (now, rates) = (run.now(), run.rates());
    let mut words = Vec::new();
    let mut say = |what: &str, us| {
        if let Some(percent) = share(us) {
            words.push(format!("{what} {percent:.0}%"));
        }
    };
    say("throttled", rates.cpu_throttled_us);
    say("waits for CPU", rates.psi_cpu_some_us);
    say("memory", rates.psi_mem_some_us);
    say("I/O", rates.psi_io_some_us);
    let mut spans = vec![Span::raw(words.join("  "))];
    if let Some(kills @ 1..) = now.mem_oom_kills {
        let gap = if words.is_empty() { "" } else { "  " };
        spans.push(Span::styled(
            format!("{gap}OOM kills {kills}"),
            palette.trouble(),
        ));
    }
    (spans.len() > 1 || !words.is_empty()).then(|| Line::from(spans))
}

fn progress(run: &Watched) -> Option<Line<'static>> {
    let progress = &run.view.progress;
    let mut words = Vec::new();
    if progress.epochs_completed > 0 || progress.epochs_announced.is_some() {
        words.push(format!(
            "epochs {}",
            progress.epochs_text(progress.epochs_announced)
        ));
    }
    words.extend(progress.last_step_text());
    words.extend(
        progress
            .step_seconds
            .map(|seconds| format!("{seconds:.3} s/step")),
    );
    words.extend(
        progress
            .throughput
            .as_ref()
            .map(|rate| format!("{:.0} {}", rate.value, rate.unit)),
    );
    words.extend(
        progress
            .last_metrics
            .iter()
            .take(3)
            .map(|(name, value)| format!("{name} {value:.4}")),
    );
    (!words.is_empty()).then(|| Line::raw(one_line(&words.join("  "))))
}

fn gpu_line(gpu: &Gpu, palette: Palette) -> Line<'static> {
    let facts = &gpu.facts;
    let number = facts
        .minor
        .map_or_else(|| facts.uuid.clone(), |minor| minor.to_string());
    let mut words = vec![format!("GPU {number} {}", facts.name)];
    let Some(reading) = &gpu.reading else {
        return Line::styled(
            one_line(&format!("{} gives no answer", words[0])),
            palette.trouble(),
        );
    };
    words.extend(reading.busy_percent().map(|busy| percent(Some(busy))));
    if let Some(used) = reading.mem_used_bytes {
        let of = facts
            .mem_total_bytes
            .map(|total| format!("/{}", Bytes(total)))
            .unwrap_or_default();
        words.push(format!("{}{of}", Bytes(used)));
    }
    words.extend(
        reading
            .power_milliwatts
            .map(|milliwatts| format!("{} W", milliwatts / 1000)),
    );
    words.extend(
        reading
            .temperature_celsius
            .map(|degrees| format!("{degrees} C")),
    );
    words.extend(reading.sm_clock_mhz.map(|mhz| format!("{mhz} MHz")));
    let mut spans = vec![Span::raw(one_line(&words.join("  ")))];
    if is_idle(reading) == Some(true) {
        spans.insert(1, Span::styled("  idle", palette.warning()));
    }
    Line::from(spans)
}

fn memory(run: &Watched) -> Line<'static> {
    let now = run.now();
    let parts = [
        ("resident", now.mem_rss_bytes),
        ("anonymous", now.mem_anon_bytes),
        ("shared", now.mem_shmem_bytes),
        ("files", now.mem_file_bytes),
    ];
    let words: Vec<String> = parts
        .iter()
        .filter_map(|(name, value)| Some(format!("{name} {}", Bytes((*value)?))))
        .collect();
    Line::raw(format!(
        "memory: {}",
        if words.is_empty() {
            "-".to_owned()
        } else {
            words.join("  ")
        }
    ))
}

fn io(run: &Watched) -> Line<'static> {
    let (now, rates) = (run.now(), run.rates());
    Line::raw(format!(
        "I/O: read {}/s of {}  write {}/s of {}",
        bytes(rates.io_read_bytes),
        bytes(now.io_read_bytes),
        bytes(rates.io_write_bytes),
        bytes(now.io_write_bytes)
    ))
}

/// The newest first: they are cut off at the end.
fn events(board: &Board, run: &Watched) -> impl Iterator<Item = Line<'static>> {
    run.view.events.iter().rev().take(EVENTS).map(|event| {
        let ago = clock(board.at_ms.saturating_sub(event.at_ms));
        Line::raw(one_line(&format!(
            "{ago} ago: {} {}",
            event.kind.as_str(),
            event.detail
        )))
    })
}

fn processes(run: &Watched, palette: Palette) -> Vec<Line<'static>> {
    let total = run
        .now()
        .processes
        .map(|count| format!("  of {count} processes"))
        .unwrap_or_default();
    let head = format!(
        "{:>7} {:<15} {:>6} {:>9} {:>9} {:>9}",
        "PID", "COMMAND", "CPU%", "MEMORY", "READ/s", "WRITE/s"
    );
    let mut lines = vec![Line::styled(head + &total, palette.heading())];
    let all = run.processes();
    if all.is_empty() {
        lines.push(Line::raw("processes are read every few seconds"));
    }
    lines.extend(all.iter().map(|process| {
        let (now, rates) = (&process.reading, &process.rates);
        Line::raw(format!(
            "{:>7} {:<15} {:>6} {:>9} {:>9} {:>9}",
            now.pid,
            one_line(&now.name),
            cpu_percent(rates.cpu_us.map(|us| real(us) / 1e6)),
            bytes(now.mem_rss_bytes),
            bytes(rates.io_read_bytes),
            bytes(rates.io_write_bytes)
        ))
    }));
    lines
}
