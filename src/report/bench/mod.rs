//! A matrix of runs: the figures of its cells, what makes a difference, and under what conditions that was measured. Each run
//! counts once, however many epochs it had.

mod environment;
mod figures;
mod rows;

pub use environment::{Environment, Kind};
pub use figures::{Asked, AxisFigures, CellFigures, Comparison, Effect, Failure, Figures, Result};
pub use rows::Rows;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobState, RunId, SchedulerKind};
    use crate::learn::bench::{Entry, Header, Journal, Measured, Slot, parse};

    const TEXT: &str = "[run]\ncommand = [\"a\", \"{{size}}\", \"{{threads}}\"]\n[bench]\nname = \"m\"\nrepeats = 3\n\
                        [bench.axes]\nvars.size = [\"small\", \"large\"]\nvars.threads = [1, 2, 4]\n\
                        [[bench.exclude]]\nsize = \"large\"\nthreads = 4\n";

    fn header(repeats: u32) -> Header {
        Header {
            format: Header::FORMAT,
            name: "m".into(),
            file: "/m.toml".into(),
            began_at_ms: 0,
            scheduler: SchedulerKind::Local,
            repeats,
        }
    }

    /// Adds a run that took so long, or failed.
    fn add(journal: &mut Journal, cell: usize, repeat: u32, seconds: Option<f64>) {
        let number = journal.unfinished().count() + 7 * cell + 100 * repeat as usize;
        let tries = journal.tries(Slot { cell, repeat }).len();
        let byte = |value: usize| u8::try_from(value % 256).expect("below 256");
        let bytes = [
            byte(number),
            byte(tries),
            byte(cell),
            byte(repeat as usize),
            1,
            2,
            3,
            4,
            5,
            6,
        ];
        let run_id = RunId::from_random(bytes);
        let measured = match seconds {
            Some(_) => Measured {
                state: JobState::Completed,
                failure: None,
                epoch_seconds: seconds,
                samples: Some(100),
                first_extra_seconds: Some(-0.5),
                ..Measured::lost("")
            },
            None => Measured::lost("<script>"),
        };
        journal.add(Entry::Begun {
            at_ms: 1,
            slot: Slot { cell, repeat },
            run_id: run_id.clone(),
        });
        journal.add(Entry::Over {
            at_ms: 2,
            run_id,
            measured: Box::new(measured),
        });
    }

    fn figures(journal: &Journal, repeats: u32) -> Figures {
        let matrix = parse(TEXT, "stem").expect("valid");
        Figures::new(&matrix, &header(repeats), journal, 1)
    }

    /// Cells are small 1, small 2, small 4, large 1, large 2; 2 threads take half the time, 4 a bit more than 1.
    fn measured() -> Journal {
        let mut journal = Journal::default();
        for (cell, seconds) in [(0, 2.0), (1, 1.0), (2, 2.02), (3, 20.0), (4, 10.0)] {
            for (repeat, noise) in [(0, 0.99), (1, 1.0), (2, 1.02)] {
                add(&mut journal, cell, repeat, Some(seconds * noise));
            }
        }
        journal
    }

    #[test]
    fn effects_are_over_pairs_that_differ_by_nothing_else() {
        let figures = figures(&measured(), 3);
        let found: Vec<(&str, &str, usize, bool)> = figures
            .effects
            .iter()
            .map(|effect| {
                (
                    effect.axis.as_str(),
                    effect.value.as_str(),
                    effect.effect.pairs,
                    effect.effect.significant,
                )
            })
            .collect();
        let expected = [
            ("vars.size", "large", 2, true),
            ("vars.threads", "2", 2, true),
            ("vars.threads", "4", 1, false),
        ];
        assert_eq!(found, expected);
        let halved = figures.effects[1].effect;
        assert!((halved.time_ratio - 0.5).abs() < 1e-12, "{halved:?}");
        assert!(
            halved
                .rate_ratio
                .is_some_and(|rate| (rate - 2.0).abs() < 1e-12),
            "{halved:?}"
        );
        assert!(
            halved
                .time_ratio_low
                .is_some_and(|low| low > 0.45 && low < 0.5),
            "{halved:?}"
        );
        assert!((halved.least_time_ratio, halved.most_time_ratio).0 <= halved.time_ratio);
        assert_eq!(figures.comparisons.len(), 5);
        let on_large = figures
            .comparisons
            .iter()
            .find(|one| one.others == "size=large")
            .expect("a pair");
        assert_eq!((on_large.cell, on_large.baseline_cell), (5, 4));
        assert_eq!(
            (
                figures.runs_asked,
                figures.runs_measured,
                figures.runs_failed
            ),
            (15, 15, 0)
        );
        let first = &figures.cells[0];
        assert_eq!(
            (first.epoch_seconds_median, first.samples_per_second),
            (Some(2.0), Some(50.0))
        );
        assert_eq!(first.first_extra_seconds_median, Some(-0.5));
    }

    #[test]
    fn failures_and_what_is_open_are_counted_and_compared_with_nothing() {
        let mut journal = measured();
        // A fourth repeat: one cell fails twice, one is mended, the others are open.
        add(&mut journal, 1, 3, None);
        add(&mut journal, 1, 3, None);
        add(&mut journal, 2, 3, None);
        add(&mut journal, 2, 3, Some(2.0));
        let figures = figures(&journal, 4);
        assert_eq!(
            (
                figures.runs_asked,
                figures.runs_measured,
                figures.runs_failed
            ),
            (20, 16, 1)
        );
        let failures: Vec<(usize, bool)> = figures
            .cells
            .iter()
            .flat_map(|cell| {
                cell.failures
                    .iter()
                    .map(|failure| (cell.cell, failure.mended))
            })
            .collect();
        assert_eq!(failures, [(2, false), (2, false), (3, true)]);
        assert!(
            figures.remarks[0].starts_with("3 of 20 runs are not over"),
            "{:?}",
            figures.remarks
        );
        let none = super::tests::figures(&Journal::default(), 1);
        assert_eq!(
            (
                none.comparisons.len(),
                none.effects.len(),
                none.cells[0].epoch_seconds_mean
            ),
            (0, 0, None)
        );
    }

    /// Two runs of 1 and 9 s: the mean is 5 s, and may be anything.
    #[test]
    fn a_lower_end_below_zero_is_a_number_in_every_form() {
        let mut journal = Journal::default();
        add(&mut journal, 0, 0, Some(1.0));
        add(&mut journal, 0, 1, Some(9.0));
        let figures = figures(&journal, 2);
        let low = figures.cells[0].epoch_seconds_low.expect("two runs");
        assert!((low + 45.824_819).abs() < 1e-3, "{low}");
        let shown = "-45.8 to 55.8";
        assert!(
            figures.cell_rows().1[0].contains(&shown.to_owned()),
            "{:?}",
            figures.cell_rows()
        );
        // The four other cells have nothing to tell yet.
        assert_eq!(figures.cell_rows().1.len(), 1);
        assert!(
            figures.remarks[0].ends_with("4 cells have none yet and are left out of the tables.")
        );
    }
}
