//! The board as lines of a screen: a pure function, so that it can be tested without a terminal.

use crossterm::style::{StyledContent, Stylize};

use super::board::Board;
use super::figures::{bytes, clock, one_line, percent, share};
use super::table::{fitting, others};
use super::watched::{Gpu, Watched};
use crate::cli::activity::name;
use crate::foundation::units::{Bytes, counted};
use crate::record::hangs;

/// A line of the screen. Without colours (`NO_COLOR`) crossterm prints the rest of a style.
pub(super) type Line = Vec<StyledContent<String>>;

/// Rows of the table that are kept where the details want more than there is.
const ROWS_LEAST: usize = 3;
/// With fewer lines below the header there are no details.
const DETAILS_FROM: usize = 7;
/// Events that are shown.
const EVENTS: usize = 5;

/// The board on a screen of this size: `height` lines at most, none longer than `width`.
pub(super) fn page(board: &Board, width: usize, height: usize) -> Vec<Line> {
    let mut lines = vec![header(board)];
    if let Some(trouble) = &board.trouble {
        lines.push(vec![one_line(trouble).dark_red().bold()]);
    }
    let free = height.saturating_sub(lines.len() + 1);
    let mut body = match board.runs.get(board.selected()) {
        Some(run) => body(board, run, width, free),
        None => plain([String::new(), format!("no runs to show{}", others(board))]).into(),
    };
    body.resize(free, Line::new());
    lines.extend(body);
    lines.push(vec!["q quit  j, k or arrows choose".to_owned().dark_grey()]);
    lines.truncate(height);
    lines.iter_mut().for_each(|line| cut(line, width));
    lines
}

fn plain<const N: usize>(texts: [String; N]) -> [Line; N] {
    texts.map(|text| vec![text.stylize()])
}

/// Takes off what does not fit; that ends in `~`, since half a number is another number.
fn cut(line: &mut Line, width: usize) {
    let length = |span: &StyledContent<String>| span.content().chars().count();
    if line.iter().map(length).sum::<usize>() <= width {
        return;
    }
    let mut left = width.saturating_sub(1);
    for span in line.iter_mut() {
        let kept: String = span.content().chars().take(left).collect();
        left -= kept.chars().count();
        *span = StyledContent::new(*span.style(), kept);
    }
    line.push("~".repeat(width.min(1)).stylize());
}

fn header(board: &Board) -> Line {
    let runs = counted(board.runs.len() as u64, "run");
    let runs = format!("  {runs}{}", others(board));
    vec![one_line(&board.host).bold(), runs.stylize()]
}

/// The table, and below it the selected run, as far as there is room.
fn body(board: &Board, run: &Watched, width: usize, free: usize) -> Vec<Line> {
    let rows_free = free.saturating_sub(1);
    let below = if rows_free >= DETAILS_FROM {
        details(board, run, width)
    } else {
        Vec::new()
    };
    let least = ROWS_LEAST.min(board.runs.len());
    let rows = rows_free.saturating_sub(below.len()).max(least);
    let mut lines = table(board, width, rows.min(rows_free));
    lines.extend(below);
    lines.truncate(free);
    lines
}

/// The table with its header; of more runs than rows those around the selected one.
fn table(board: &Board, width: usize, rows: usize) -> Vec<Line> {
    let columns = fitting(board, width);
    let joined = |cell: &dyn Fn(usize) -> String| {
        let cells = columns.iter().enumerate().map(|(at, (column, width))| {
            let mut text = cell(at);
            if text.chars().count() > *width {
                text = text.chars().take(*width - 1).collect::<String>() + "~";
            }
            match column.is_text() {
                true => format!("{text:<width$}"),
                false => format!("{text:>width$}"),
            }
        });
        cells.collect::<Vec<_>>().join(" ")
    };
    let head = joined(&|at| columns[at].0.title.to_owned());
    let mut lines = vec![vec![head.bold()]];
    let selected = board.selected();
    let first = (selected + 1).saturating_sub(rows);
    for (place, run) in board.runs.iter().enumerate().skip(first).take(rows) {
        let text = joined(&|at| (columns[at].0.cell)(board, run));
        let mut row = format!("{text:width$}").stylize();
        if run.idle_gpus() > 0
            || hangs(&run.view.events).is_some()
            || run.remarks(board.at_ms).next().is_some()
        {
            row = row.dark_yellow().bold();
        }
        lines.push(vec![if place == selected {
            row.reverse()
        } else {
            row
        }]);
    }
    lines
}

/// The selected run, title first, then what matters most, since what does not fit is left out.
fn details(board: &Board, run: &Watched, width: usize) -> Vec<Line> {
    let (view, now, rates) = (&run.view, &run.now, &run.rates);
    let job = view.job_id.as_ref().map(|job| format!(", job {job}"));
    let age = run.sampled_at_ms.map(|at| board.at_ms.saturating_sub(at));
    let sampled = match age {
        None => ", no sample yet".to_owned(),
        Some(ms @ 10_000..) => format!(", last sample {} ago", clock(ms)),
        Some(_) => String::new(),
    };
    let title = format!(
        "-- {}: run {}{}, {}{sampled} ",
        view.name,
        view.key.run_id,
        job.unwrap_or_default(),
        run.user
    );
    let mut lines = vec![vec![format!("{:-<width$}", one_line(&title)).bold()]];
    let shares = [
        ("throttled", rates.cpu_throttled_us),
        ("waits for CPU", rates.psi_cpu_some_us),
        ("memory", rates.psi_mem_some_us),
        ("I/O", rates.psi_io_some_us),
    ];
    let waits = shares.map(|(what, us)| Some(format!("{what} {:.0}%  ", share(us)? * 100.0)));
    let waits: String = waits.into_iter().flatten().collect();
    let mut held_back = vec![waits.stylize()];
    if let Some(kills @ 1..) = now.mem_oom_kills {
        held_back.push(format!("OOM kills {kills}").dark_red().bold());
    }
    lines.push(held_back);
    let remarks = run.remarks(board.at_ms);
    lines.extend(remarks.map(|text| vec![one_line(&text).dark_yellow().bold()]));
    lines.push(vec![progress(run).stylize()]);
    lines.retain(|line| line.iter().any(|span| !span.content().is_empty()));
    lines.extend(run.gpus.iter().map(gpu_line));
    let (used, peak) = (now.mem_used_bytes(), view.usage.mem_peak_bytes);
    let memory = format!("memory {} (most {})", bytes(used), bytes(peak.max(used)));
    let io = format!(
        "I/O: read {}/s of {}  write {}/s of {}",
        bytes(rates.io_read_bytes),
        bytes(now.io_read_bytes),
        bytes(rates.io_write_bytes),
        bytes(now.io_write_bytes)
    );
    lines.extend(plain([memory, io]));
    // The newest first: they are cut off at the end.
    lines.extend(view.events.iter().rev().take(EVENTS).map(|event| {
        let ago = clock(board.at_ms.saturating_sub(event.at_ms));
        let text = format!("{ago} ago: {} {}", event.kind.as_str(), event.detail);
        vec![one_line(&text).stylize()]
    }));
    lines
}

fn progress(run: &Watched) -> String {
    let progress = &run.view.progress;
    let planned = progress.epochs_announced;
    let mut parts = Vec::new();
    if progress.epochs_completed > 0 || planned.is_some() {
        parts.push(format!("epochs {}", progress.epochs_text(planned)));
    }
    parts.extend(progress.last_step_text());
    let step = progress.step_seconds;
    parts.extend(step.map(|seconds| format!("{seconds:.3} s/step")));
    let rate = progress.throughput.as_ref();
    parts.extend(rate.map(|rate| format!("{:.0} {}", rate.value, rate.unit)));
    parts.extend(run.phase().map(name));
    let activity = run
        .activity()
        .and_then(|activity| activity.pattern.period_seconds);
    parts.extend(activity.map(|seconds| format!("repeats every {seconds:.1} s")));
    let metrics = progress.last_metrics.iter().take(3);
    parts.extend(metrics.map(|(name, value)| format!("{name} {value:.4}")));
    one_line(&parts.join("  "))
}

fn gpu_line(gpu: &Gpu) -> Line {
    let facts = &gpu.facts;
    let minor = facts.minor.map(|minor| minor.to_string());
    let number = minor.unwrap_or_else(|| facts.uuid.clone());
    let mut parts = vec![format!("GPU {number} {}", facts.name)];
    let Some(reading) = &gpu.reading else {
        let text = one_line(&format!("{} gives no answer", parts[0]));
        return vec![text.dark_red().bold()];
    };
    let busy = reading.busy_percent();
    parts.extend(busy.map(|busy| percent(Some(busy))));
    if let Some(used) = reading.mem_used_bytes {
        let total = facts
            .mem_total_bytes
            .map(|total| format!("/{}", Bytes(total)));
        parts.push(format!("{}{}", Bytes(used), total.unwrap_or_default()));
    }
    let power = reading.power_milliwatts;
    parts.extend(power.map(|power| format!("{} W", power / 1000)));
    let celsius = reading.temperature_celsius;
    parts.extend(celsius.map(|celsius| format!("{celsius} C")));
    parts.extend(reading.sm_clock_mhz.map(|mhz| format!("{mhz} MHz")));
    let idle = if gpu.is_idle() == Some(true) {
        "  idle"
    } else {
        ""
    };
    vec![
        one_line(&parts.join("  ")).stylize(),
        idle.to_owned().dark_yellow().bold(),
    ]
}

#[cfg(test)]
mod tests {
    use crossterm::style::Attribute;

    use super::*;
    use crate::cli::top::board::Key;
    use crate::cli::top::tests_board::board;

    /// The page as text, without blanks at the ends of lines.
    fn text(board: &Board, width: usize, height: usize) -> String {
        let lines = page(board, width, height);
        assert!(lines.len() <= height);
        let line = |line: &Line| -> String {
            let text: String = line.iter().map(|span| span.content().as_str()).collect();
            assert!(text.chars().count() <= width, "{text:?}");
            text.trim_end().to_owned()
        };
        lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn on_a_small_screen() {
        insta::assert_snapshot!(text(&board(), 60, 15));
    }

    #[test]
    fn on_a_usual_screen_with_a_run_on_gpus() {
        let mut board = board();
        let _ = board.press(Key::Down);
        insta::assert_snapshot!(text(&board, 80, 24));
    }

    #[test]
    fn on_a_wide_screen() {
        let mut board = board();
        let _ = board.press(Key::Down);
        insta::assert_snapshot!(text(&board, 150, 30));
    }

    #[test]
    fn when_the_daemon_is_gone() {
        let mut board = board();
        board.fail("dlrund closed the connection".into());
        insta::assert_snapshot!(text(&board, 60, 15));
    }

    #[test]
    fn without_any_run() {
        let board = Board {
            host: "node02".into(),
            hidden: 3,
            ..Board::default()
        };
        insta::assert_snapshot!(text(&board, 60, 6));
    }

    #[test]
    fn any_size_can_be_drawn() {
        let mut board = board();
        for key in [Key::Down, Key::Up] {
            for (width, height) in [
                (0, 0),
                (0, 5),
                (1, 1),
                (3, 2),
                (10, 4),
                (20, 9),
                (59, 11),
                (300, 90),
            ] {
                let _ = text(&board, width, height);
            }
            let _ = board.press(key);
        }
    }

    #[test]
    fn lines_that_are_cut_off_say_so() {
        let mut board = board();
        let _ = board.press(Key::Down);
        let shown = text(&board, 50, 24);
        let gpu = shown
            .lines()
            .find(|line| line.starts_with("GPU 0"))
            .expect("a GPU");
        assert_eq!(gpu, "GPU 0 NVIDIA H200  50%  51GiB/140GiB  350 W  41 C~");
    }

    #[test]
    fn the_selected_run_is_always_on_the_screen() {
        let mut board = board();
        for _ in 0..2 {
            let _ = board.press(Key::Down);
        }
        let shown = text(&board, 60, 4);
        assert!(shown.contains("idle"), "{shown}");
        let lines = page(&board, 60, 4);
        let reversed = |line: &&Line| {
            line.iter()
                .any(|span| span.style().attributes.has(Attribute::Reverse))
        };
        assert_eq!(lines.iter().filter(reversed).count(), 1);
    }

    #[test]
    fn names_cannot_drive_the_terminal() {
        let mut board = board();
        board.host = "a\u{1b}[2J".into();
        board.runs[0].view.name = "b\u{9b}\r\nc".into();
        board.runs[0].user = "\u{7}".into();
        board.fail("x\u{1b}]0;t\u{7}".into());
        let shown = text(&board, 100, 30);
        assert!(
            !shown.chars().any(|c| c.is_control() && c != '\n'),
            "{shown:?}"
        );
    }
}
