//! The runs as a table: which columns there are, and which of them fit.

use super::board::Board;
use super::figures::{bytes, clock, cpu_percent, one_line, percent};
use super::watched::Watched;
use crate::cli::activity::name;
use crate::cli::table::{or_dash, rendered, table};
use crate::record::hangs;

/// A column.
pub(super) struct Column {
    pub(super) title: &'static str,
    /// In characters. That of the name is the least it gets.
    pub(super) width: usize,
    /// Of the columns that do not fit together those of the highest rank are left out.
    rank: u8,
    /// What it shows of a run.
    pub(super) cell: fn(&Board, &Watched) -> String,
}

impl Column {
    /// Columns of text are aligned at the left, those of numbers at the right.
    pub(super) fn is_text(&self) -> bool {
        ["RUN", "NAME", "JOB", "USER", "PHASE"].contains(&self.title)
    }
}

const fn column(
    title: &'static str,
    width: usize,
    rank: u8,
    cell: fn(&Board, &Watched) -> String,
) -> Column {
    Column {
        title,
        width,
        rank,
        cell,
    }
}

/// The most that the name is given, in characters.
const NAME_MOST: usize = 32;

static COLUMNS: [Column; 14] = [
    column("RUN", 6, 0, |_, run| {
        run.view.key.run_id.as_str()[..6].into()
    }),
    column("NAME", 8, 0, |_, run| one_line(&run.view.name)),
    column("JOB", 9, 6, |_, run| {
        or_dash(run.view.job_id.as_ref().map(|job| one_line(&job.0)))
    }),
    column("USER", 8, 5, |_, run| one_line(&run.user)),
    column("EPOCH", 7, 3, |_, run| epoch(run)),
    column("PHASE", 10, 7, |_, run| or_dash(run.phase().map(name))),
    column("TIME", 7, 4, |board, run| {
        clock(board.at_ms.saturating_sub(run.view.started_at_ms))
    }),
    column("LEFT", 7, 4, |board, run| {
        let end = run.view.progress.expected_end;
        match hangs(&run.view.events) {
            Some(_) => "hangs".to_owned(),
            None => or_dash(end.map(|end| clock(end.at_ms.saturating_sub(board.at_ms)))),
        }
    }),
    column("CPU%", 6, 0, |_, run| cpu_percent(run.cpus)),
    column("MEMORY", 9, 1, |_, run| bytes(run.now.mem_used_bytes())),
    column("READ/s", 9, 9, |_, run| bytes(run.rates.io_read_bytes)),
    column("WRITE/s", 9, 9, |_, run| bytes(run.rates.io_write_bytes)),
    column("GPU", 14, 2, |_, run| gpus(run)),
    column("GPU MEM", 9, 8, |_, run| {
        let readings = run.gpus.iter().filter_map(|gpu| gpu.reading.as_ref());
        let used = readings.filter_map(|reading| reading.mem_used_bytes);
        bytes(used.reduce(u64::saturating_add))
    }),
];

fn epoch(run: &Watched) -> String {
    let progress = &run.view.progress;
    match (progress.epochs_done(), progress.epochs_announced) {
        (0, None) => "-".to_owned(),
        (done, None) => done.to_string(),
        (done, Some(of)) => format!("{done}/{of}"),
    }
}

/// How many there are, how busy they are on average, and those that no process of the run is on.
fn gpus(run: &Watched) -> String {
    let mean = percent(run.gpu_percent());
    match (run.gpus.len(), run.idle_gpus()) {
        (0, _) => "-".to_owned(),
        (count, 0) => format!("{count}: {mean}"),
        (count, idle) => format!("{count}: {mean} {idle} idle"),
    }
}

/// All columns that say something.
fn all(board: &Board) -> Vec<&'static Column> {
    // With `--all` even one run may be a stranger's.
    let first = board.runs.first().map(|run| run.view.uid);
    let users = board.all_users || board.runs.iter().any(|run| Some(run.view.uid) != first);
    let gpus = board.runs.iter().any(|run| !run.gpus.is_empty());
    let phases = board.runs.iter().any(|run| run.phase().is_some());
    let says = |column: &&Column| match column.title {
        "USER" => users,
        "GPU" | "GPU MEM" => gpus,
        "PHASE" => phases,
        _ => true,
    };
    COLUMNS.iter().filter(says).collect()
}

/// The columns that fit into a width with a blank between them, and the width of each.
pub(super) fn fitting(board: &Board, width: usize) -> Vec<(&'static Column, usize)> {
    let mut columns = all(board);
    let needed = |columns: &[&Column]| columns.iter().map(|one| one.width + 1).sum::<usize>() - 1;
    while needed(&columns) > width {
        let highest = columns.iter().map(|column| column.rank).max();
        let Some(highest) = highest.filter(|rank| *rank > 0) else {
            break;
        };
        columns.retain(|column| column.rank != highest);
    }
    let left = width.saturating_sub(needed(&columns));
    let wide = |column: &'static Column| match column.title {
        "NAME" => (column, (column.width + left).min(NAME_MOST)),
        _ => (column, column.width),
    };
    columns.into_iter().map(wide).collect()
}

/// The runs as text, for where there is no terminal.
pub(crate) fn to_text(board: &Board) -> String {
    if board.runs.is_empty() {
        return format!("no runs to show on {}{}\n", board.host, others(board));
    }
    let columns = all(board);
    let mut table = table();
    table.set_header(columns.iter().map(|column| column.title));
    for run in &board.runs {
        table.add_row(columns.iter().map(|column| (column.cell)(board, run)));
    }
    rendered(table)
}

/// Who else has runs.
pub(super) fn others(board: &Board) -> String {
    match board.hidden {
        0 => String::new(),
        1 => "; 1 of another user, with `--all`".to_owned(),
        hidden => format!("; {hidden} of other users, with `--all`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::tests_board::board;

    #[test]
    fn all_columns_are_there() {
        insta::assert_snapshot!(to_text(&board()));
    }

    #[test]
    fn a_node_without_runs_says_so() {
        let mut board = Board {
            host: "node01".into(),
            ..Board::default()
        };
        assert_eq!(to_text(&board), "no runs to show on node01\n");
        board.hidden = 2;
        assert_eq!(
            to_text(&board),
            "no runs to show on node01; 2 of other users, with `--all`\n"
        );
    }

    #[test]
    fn narrow_screens_show_what_matters_most() {
        let board = board();
        for (width, expected) in [
            (20, "RUN NAME CPU%"),
            (60, "RUN NAME EPOCH CPU% MEMORY GPU"),
            (80, "RUN NAME USER EPOCH TIME LEFT CPU% MEMORY GPU"),
            (
                140,
                "RUN NAME JOB USER EPOCH TIME LEFT CPU% MEMORY READ/s WRITE/s GPU GPU MEM",
            ),
        ] {
            let fitting = fitting(&board, width);
            let titles: Vec<&str> = fitting.iter().map(|(column, _)| column.title).collect();
            assert_eq!(titles.join(" "), expected, "{width}");
            let taken: usize = fitting.iter().map(|(_, width)| width + 1).sum::<usize>() - 1;
            assert!(taken <= width.max(22), "{taken} of {width}");
        }
    }

    #[test]
    fn users_and_gpus_have_columns_where_there_are_any() {
        let mut board = board();
        board
            .runs
            .retain(|run| run.user == "ann" && run.gpus.is_empty());
        assert!(!board.runs.is_empty());
        let titles: Vec<&str> = all(&board).iter().map(|column| column.title).collect();
        assert_eq!(
            titles.join(" "),
            "RUN NAME JOB EPOCH TIME LEFT CPU% MEMORY READ/s WRITE/s"
        );
        board.all_users = true;
        assert!(all(&board).iter().any(|column| column.title == "USER"));
        assert!(all(&Board::default()).len() > 5);
    }
}
