//! The runs as a table: which columns there are, and which of them fit.

use super::board::Board;
use super::text::{UNKNOWN, bytes, clock, cpu_percent, one_line, percent};
use super::watched::{Watched, is_idle};

/// A column.
pub(super) struct Column {
    pub(super) title: &'static str,
    /// In letters. That of the name is the least it gets.
    pub(super) width: usize,
    /// Numbers stand at the right.
    pub(super) is_number: bool,
    /// Of the columns that do not fit together the higher are left out.
    rank: u8,
    cell: fn(&Board, &Watched) -> String,
}

impl Column {
    /// What stands in it for a run.
    pub(super) fn cell(&self, board: &Board, run: &Watched) -> String {
        (self.cell)(board, run)
    }
}

const fn column(
    title: &'static str,
    width: usize,
    rank: u8,
    is_number: bool,
    cell: fn(&Board, &Watched) -> String,
) -> Column {
    Column {
        title,
        width,
        is_number,
        rank,
        cell,
    }
}

pub(super) const NAME: &str = "NAME";
const USER: &str = "USER";
const GPU: &str = "GPU";
const GPU_MEMORY: &str = "GPU MEM";
/// The most that the name is given.
const NAME_MOST: usize = 32;

static COLUMNS: [Column; 11] = [
    column("RUN", 6, 0, false, |_, run| {
        run.key().run_id.as_str().chars().take(6).collect()
    }),
    column(NAME, 8, 0, false, |_, run| one_line(&run.view.name)),
    column("JOB", 9, 6, false, |_, run| job(run)),
    column(USER, 8, 5, false, |_, run| one_line(&run.user)),
    column("EPOCH", 7, 3, true, |_, run| epoch(run)),
    column("TIME", 7, 4, true, |board, run| {
        clock(board.at_ms.saturating_sub(run.view.started_at_ms))
    }),
    column("CPU%", 6, 0, true, |_, run| cpu_percent(run.cpus())),
    column("MEMORY", 9, 1, true, |_, run| {
        bytes(run.now().mem_used_bytes())
    }),
    column("READ/s", 9, 8, true, |_, run| {
        bytes(run.rates().io_read_bytes)
    }),
    column("WRITE/s", 9, 8, true, |_, run| {
        bytes(run.rates().io_write_bytes)
    }),
    column(GPU, 14, 2, true, |_, run| gpus(run)),
];

static OF_GPUS: Column = column(GPU_MEMORY, 9, 7, true, |_, run| bytes(gpu_memory(run)));

fn job(run: &Watched) -> String {
    run.view
        .job_id
        .as_ref()
        .map_or_else(|| UNKNOWN.to_owned(), |job| one_line(&job.0))
}

fn epoch(run: &Watched) -> String {
    let progress = &run.view.progress;
    match (progress.epochs_completed, progress.epochs_announced) {
        (0, None) => UNKNOWN.to_owned(),
        (done, None) => done.to_string(),
        (done, Some(of)) => format!("{done}/{of}"),
    }
}

/// How many there are, how busy they are on average, and those that the run does nothing on.
fn gpus(run: &Watched) -> String {
    let gpus = run.gpus();
    let idle = idle_gpus(run);
    let mean = percent(run.gpu_percent());
    match (gpus.len(), idle) {
        (0, _) => UNKNOWN.to_owned(),
        (count, 0) => format!("{count}: {mean}"),
        (count, idle) => format!("{count}: {mean} {idle} idle"),
    }
}

/// GPUs of the run on which none of its processes is.
pub(super) fn idle_gpus(run: &Watched) -> usize {
    run.gpus()
        .iter()
        .filter(|gpu| gpu.reading.as_ref().and_then(is_idle) == Some(true))
        .count()
}

fn gpu_memory(run: &Watched) -> Option<u64> {
    let gpus = run.gpus();
    let used = gpus
        .iter()
        .filter_map(|gpu| gpu.reading.as_ref()?.mem_used_bytes);
    used.reduce(u64::saturating_add)
}

/// All columns that say something.
pub(super) fn all(board: &Board) -> Vec<&'static Column> {
    // With `--all` even one run may be a stranger's.
    let users = board.all_users
        || board
            .runs
            .iter()
            .any(|run| run.view.uid != board.runs[0].view.uid);
    let gpus = board.runs.iter().any(|run| !run.gpus().is_empty());
    let says = |column: &&Column| match column.title {
        USER => users,
        GPU | GPU_MEMORY => gpus,
        _ => true,
    };
    COLUMNS
        .iter()
        .chain(std::iter::once(&OF_GPUS))
        .filter(says)
        .collect()
}

/// The columns that fit into a width with a blank between them, and the width of each.
pub(super) fn fitting(board: &Board, width: usize) -> Vec<(&'static Column, usize)> {
    let mut columns = all(board);
    let needed = |columns: &[&Column]| {
        columns
            .iter()
            .map(|column| column.width + 1)
            .sum::<usize>()
            .saturating_sub(1)
    };
    while needed(&columns) > width {
        let Some(least) = columns
            .iter()
            .map(|column| column.rank)
            .max()
            .filter(|rank| *rank > 0)
        else {
            break;
        };
        columns.retain(|column| column.rank != least);
    }
    let left = width.saturating_sub(needed(&columns));
    let wide = |column: &Column| match column.title {
        NAME => (column.width + left).min(NAME_MOST),
        _ => column.width,
    };
    columns
        .into_iter()
        .map(|column| (column, wide(column)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::sample_board::board;

    #[test]
    fn narrow_screens_show_what_matters_most() {
        let board = board();
        for (width, expected) in [
            (20, "RUN NAME CPU%"),
            (60, "RUN NAME EPOCH CPU% MEMORY GPU"),
            (80, "RUN NAME USER EPOCH TIME CPU% MEMORY GPU"),
            (
                140,
                "RUN NAME JOB USER EPOCH TIME CPU% MEMORY READ/s WRITE/s GPU GPU MEM",
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
            .retain(|run| run.user == "ann" && run.gpus().is_empty());
        assert!(!board.runs.is_empty());
        let titles: Vec<&str> = all(&board).iter().map(|column| column.title).collect();
        assert_eq!(
            titles.join(" "),
            "RUN NAME JOB EPOCH TIME CPU% MEMORY READ/s WRITE/s"
        );
        board.all_users = true;
        assert!(all(&board).iter().any(|column| column.title == USER));
        assert!(all(&Board::default()).len() > 5);
    }
}
