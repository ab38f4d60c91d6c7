//! The board as a picture: a pure function, so that it can be tested without a terminal.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::text::{Line, Span};

use super::board::Board;
use super::details::details;
use super::plain::others;
use super::style::Palette;
use super::table::{Column, fitting};
use super::text::one_line;

/// Rows of the table that are kept where the details want more than there is.
const ROWS_LEAST: usize = 3;
/// With fewer lines below the header there are no details.
const DETAILS_FROM: usize = 7;

const HELP: [&str; 13] = [
    "up, k   down, j    choose a run",
    "g, Home   G, End   the first, the last run",
    "p                  its processes, or all else of it",
    "s                  sort by start, CPU, memory, GPU",
    "?                  this help, and away again",
    "q, Esc, Ctrl-C     quit",
    "",
    "CPU%    100 is one CPU kept busy",
    "MEMORY  in use: what cannot be dropped",
    "GPU     how many: mean utilisation, and those that no process of",
    "        the run is on",
    "throttled, waits   share of the time; waits are those of some task",
    "                   of the run (pressure stall information)",
];

/// Draws the board.
pub(crate) fn draw(board: &Board, palette: Palette, area: Rect, buf: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let lines = page(
        board,
        palette,
        usize::from(area.width),
        usize::from(area.height),
    );
    for (line, y) in lines.iter().zip(area.top()..area.bottom()) {
        buf.set_line(area.x, y, line, area.width);
        // Half a number is another number.
        if line.width() > usize::from(area.width) {
            buf[(area.right() - 1, y)].set_symbol("~");
        }
    }
}

/// As many lines as the screen has, at most.
fn page(board: &Board, palette: Palette, width: usize, height: usize) -> Vec<Line<'static>> {
    let mut lines = vec![header(board, palette)];
    if let Some(trouble) = &board.trouble {
        lines.push(Line::styled(one_line(trouble), palette.trouble()));
    }
    let free = height.saturating_sub(lines.len() + 1);
    let mut body = if board.shows_help {
        HELP.map(Line::raw).to_vec()
    } else if board.runs.is_empty() {
        vec![
            Line::default(),
            Line::raw(format!("no runs to show{}", others(board))),
        ]
    } else {
        body(board, palette, width, free)
    };
    body.resize(free, Line::default());
    lines.extend(body);
    lines.push(footer(board, palette));
    lines.truncate(height);
    lines
}

fn header(board: &Board, palette: Palette) -> Line<'static> {
    let runs = match board.runs.len() {
        1 => "1 run".to_owned(),
        count => format!("{count} runs"),
    };
    let mut spans = vec![
        Span::styled(one_line(&board.host), palette.heading()),
        Span::raw(format!("  {runs}{}", others(board))),
    ];
    if let Some(daemon) = &board.daemon {
        // A slice of a divided GPU is none of its own.
        let gpus: Vec<_> = daemon
            .gpus
            .iter()
            .filter(|gpu| gpu.parent.is_none())
            .collect();
        if let Some(first) = gpus.first() {
            let same = gpus.iter().all(|gpu| gpu.name == first.name);
            let name = if same {
                one_line(&first.name)
            } else {
                "GPUs".to_owned()
            };
            spans.push(Span::raw(format!("  {} x {name}", gpus.len())));
        }
        if !daemon.problems.is_empty() || daemon.store.error.is_some() {
            spans.push(Span::styled(
                "  dlrund has problems: `dlrun doctor`",
                palette.warning(),
            ));
        }
    }
    Line::from(spans)
}

fn footer(board: &Board, palette: Palette) -> Line<'static> {
    let processes = if board.shows_processes {
        "p details"
    } else {
        "p processes"
    };
    Line::styled(
        format!("q quit  ? help  {processes}  s sort: {}", board.sort.word()),
        palette.quiet(),
    )
}

fn body(board: &Board, palette: Palette, width: usize, free: usize) -> Vec<Line<'static>> {
    let rows_free = free.saturating_sub(1);
    let below = match board.runs.get(board.selected()) {
        Some(run) if rows_free >= DETAILS_FROM => details(board, run, palette, width),
        _ => Vec::new(),
    };
    let least = ROWS_LEAST.min(board.runs.len());
    let rows = board
        .runs
        .len()
        .min(rows_free.saturating_sub(below.len()).max(least))
        .min(rows_free);
    let mut lines = table(board, palette, width, rows);
    lines.extend(below);
    lines.truncate(free);
    lines
}

/// The table with its header; of more runs than rows those around the selected one.
fn table(board: &Board, palette: Palette, width: usize, rows: usize) -> Vec<Line<'static>> {
    let columns = fitting(board, width);
    let head = columns
        .iter()
        .map(|(column, width)| cell(column, column.title.to_owned(), *width));
    let mut lines = vec![Line::styled(joined(head), palette.heading())];
    let selected = board.selected();
    let first = (selected + 1).saturating_sub(rows);
    for (place, run) in board.runs.iter().enumerate().skip(first).take(rows) {
        let cells = columns
            .iter()
            .map(|(column, width)| cell(column, column.cell(board, run), *width));
        let text = joined(cells);
        let idle = super::table::idle_gpus(run) > 0;
        let style = if idle {
            palette.warning()
        } else {
            Default::default()
        };
        let style = if place == selected {
            style.patch(palette.selected())
        } else {
            style
        };
        lines.push(Line::styled(format!("{text:width$}"), style));
    }
    lines
}

fn joined(cells: impl Iterator<Item = String>) -> String {
    cells.collect::<Vec<_>>().join(" ")
}

/// Text in a column; what is too long ends in `~`.
fn cell(column: &Column, text: String, width: usize) -> String {
    let length = text.chars().count();
    if length > width {
        let kept: String = text.chars().take(width.saturating_sub(1)).collect();
        return kept + "~";
    }
    if column.is_number {
        format!("{text:>width$}")
    } else {
        format!("{text:<width$}")
    }
}

#[cfg(test)]
mod tests {
    use ratatui_core::backend::TestBackend;
    use ratatui_core::style::{Color, Modifier};
    use ratatui_core::terminal::Terminal;

    use super::*;
    use crate::cli::top::keys::Key;
    use crate::cli::top::sample_board::board;

    fn drawn(board: &Board, width: u16, height: u16) -> TestBackend {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("it cannot fail");
        let palette = Palette::new(false);
        terminal
            .draw(|frame| draw(board, palette, frame.area(), frame.buffer_mut()))
            .expect("likewise");
        terminal.backend().clone()
    }

    /// The picture as text, without blanks at the ends of lines.
    fn text(board: &Board, width: u16, height: u16) -> String {
        let buffer = drawn(board, width, height).buffer().clone();
        let rows = buffer.content().chunks(usize::from(width.max(1)));
        let row = |cells: &[ratatui_core::buffer::Cell]| -> String {
            cells
                .iter()
                .map(|cell| cell.symbol())
                .collect::<String>()
                .trim_end()
                .to_owned()
        };
        rows.map(row).collect::<Vec<_>>().join("\n")
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
    fn with_processes() {
        let mut board = board();
        let _ = board.press(Key::Processes);
        insta::assert_snapshot!(text(&board, 80, 24));
    }

    #[test]
    fn with_help() {
        let mut board = board();
        let _ = board.press(Key::Help);
        insta::assert_snapshot!(text(&board, 80, 18));
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
        for key in [Key::Down, Key::Processes, Key::Help] {
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
        let _ = board.press(Key::Last);
        assert!(
            text(&board, 60, 4).contains("idle"),
            "{}",
            text(&board, 60, 4)
        );
    }

    #[test]
    fn names_cannot_drive_the_terminal() {
        let mut board = board();
        board.host = "a\u{1b}[2J".into();
        board.runs[0].view.name = "b\u{9b}\r\nc".into();
        board.runs[0].user = "\u{7}".into();
        board.fail("x\u{1b}]0;t\u{7}".into());
        let _ = board.press(Key::Processes);
        let shown = text(&board, 100, 30);
        assert!(
            !shown.chars().any(|c| c.is_control() && c != '\n'),
            "{shown:?}"
        );
    }

    #[test]
    fn without_colours_there_are_none() {
        let is_plain = |colour| {
            let (mut buffer, area) = (
                Buffer::empty(Rect::new(0, 0, 80, 24)),
                Rect::new(0, 0, 80, 24),
            );
            draw(&board(), Palette::new(colour), area, &mut buffer);
            let reversed = buffer
                .content()
                .iter()
                .filter(|cell| cell.modifier.contains(Modifier::REVERSED));
            assert_eq!(reversed.count(), 80, "one run is selected");
            buffer
                .content()
                .iter()
                .all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset)
        };
        assert!(is_plain(false) && !is_plain(true));
    }
}
