//! The runs as a table of text, for where there is no terminal.

use super::board::Board;
use super::table::all;
use crate::cli::table::{rendered, table};

/// One picture.
pub(crate) fn to_text(board: &Board) -> String {
    if board.runs.is_empty() {
        return format!("no runs to show on {}{}\n", board.host, others(board));
    }
    let columns = all(board);
    let mut table = table();
    table.set_header(columns.iter().map(|column| column.title));
    for run in &board.runs {
        table.add_row(columns.iter().map(|column| column.cell(board, run)));
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
    use crate::cli::top::sample_board::board;

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
}
