//! What a run's samples say over time: read segment by segment, thinned to a few points.

mod read;

use read::Segments;

use crate::foundation::diagnostic::chain;
use crate::observe::activity::{Analysis, Facts, Signals, analyse};
use crate::record::rundir::RunDir;
use crate::record::{Missing, NodeRecord, decode_columns};
use crate::report::Timeline;
use crate::report::insight::{SampleBins, Sampled};
use crate::report::series::{Axis, Thinner, is_needed};

/// What is known of one measurement over time.
#[derive(Debug)]
pub(crate) struct Series {
    /// The curves; `None` where there is no sample, or none were wanted.
    pub(crate) timeline: Option<Timeline>,
    /// What all of them come to.
    pub(crate) sampled: Option<Sampled>,
    /// Rhythm and phases; `None` where there is no sample.
    pub(crate) analysis: Option<Analysis>,
    /// What could not be read, and why.
    pub(crate) notes: Vec<Missing>,
}

impl Series {
    /// Of rhythm and phases the samples know more than the record, which is up to some minutes old.
    pub(crate) fn put_activity(&self, node: &mut NodeRecord) {
        if let Some(analysis) = &self.analysis {
            node.progress.activity = Some(analysis.activity.clone());
        }
    }

    /// What all samples come to, and every figure in so many `points` at most.
    pub(crate) fn read(run: &RunDir, node: &NodeRecord, points: Option<usize>) -> Self {
        let dir = match run.node_dir(&node.key) {
            Ok(dir) => dir,
            Err(error) => {
                let what = format!("{}.{}", node.key.node, node.key.step);
                let notes = vec![Missing {
                    what,
                    why: chain(&error).join(": "),
                }];
                return Self {
                    timeline: None,
                    sampled: None,
                    analysis: None,
                    notes,
                };
            }
        };
        let mut notes = Vec::new();
        let mut note = |seq: Option<u32>, why: String| {
            let file =
                seq.map_or_else(|| "series".to_owned(), |seq| format!("series-{seq:04}.seg"));
            notes.push(Missing {
                what: format!("{}.{}/{file}", node.key.node, node.key.step),
                why,
            });
        };
        let seqs = dir.segments().unwrap_or_else(|error| {
            note(None, chain(&error).join(": "));
            Vec::new()
        });
        let load = |seq: u32, all: bool| {
            let bytes = dir
                .read_segment(seq)
                .map_err(|error| chain(&error).join(": "))?;
            let wanted = |name: &str| {
                all && (points.is_some() && is_needed(name)
                    || SampleBins::wants(name)
                    || Signals::wants(name))
            };
            decode_columns(&bytes, wanted).map_err(|error| error.to_string())
        };
        let segments = Segments::look(&seqs, |seq| load(seq, false), &mut |seq, why| {
            note(Some(seq), why)
        });
        let read = segments.span().map(|(begin_ms, end_ms)| {
            let mut thinner = points.map(|points| {
                let axis = Axis::new(begin_ms, end_ms, points.min(segments.samples()));
                Thinner::new(axis, &node.gaps)
            });
            let mut digest = SampleBins::new(node);
            let mut signals = Signals::default();
            segments.in_order(
                |seq| load(seq, true),
                &mut |seq, why| note(Some(seq), why),
                |blocks, rows| {
                    let rows = rows.iter().map(|row| (row.block, row.row));
                    if let Some(thinner) = &mut thinner {
                        thinner.take(blocks, rows.clone());
                    }
                    signals.take_rows(blocks, rows.clone());
                    digest.take(blocks, rows);
                },
            );
            let analysis = analyse(&signals, &Facts::of(node));
            (thinner.map(Thinner::finish), digest.finish(), analysis)
        });
        let (timeline, sampled, analysis) = match read {
            Some((timeline, sampled, analysis)) => (timeline, Some(sampled), analysis),
            None => (None, None, None),
        };
        Self {
            timeline,
            sampled,
            analysis,
            notes,
        }
    }
}
