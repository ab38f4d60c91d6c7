//! What a run's samples say over time: read segment by segment, thinned to a few points.

mod figure;
mod json;
mod read;
mod thin;
mod track;

pub(crate) use json::to_json;

use figure::is_needed;
use read::Segments;
use thin::Thinner;
use track::Axis;

use crate::foundation::diagnostic::chain;
use crate::record::rundir::RunDir;
use crate::record::{Missing, NodeRecord, decode_columns};
use crate::report::Timeline;
use crate::report::insight::{SampleBins, Sampled};

/// The most GPUs of a node: eight, each in seven slices, and a few that came later.
const MAX_GPUS: usize = 72;
/// Segments of which single processes are looked at; of a longer run they are spread over it.
const SEGMENTS_WITH_PROCESSES: usize = 64;

/// What is known of one measurement over time.
#[derive(Debug)]
pub(crate) struct Series {
    /// The curves; `None` where there is no sample, or none were wanted.
    pub(crate) timeline: Option<Timeline>,
    /// What all of them come to.
    pub(crate) sampled: Option<Sampled>,
    /// What could not be read, and why.
    pub(crate) notes: Vec<Missing>,
}

impl Series {
    /// Every figure, in so many points at most, and what all samples come to.
    pub(crate) fn curves(run: &RunDir, node: &NodeRecord, points: usize) -> Self {
        Self::read(run, node, Some(points))
    }

    /// What all samples come to, without curves.
    pub(crate) fn digest(run: &RunDir, node: &NodeRecord) -> Self {
        Self::read(run, node, None)
    }

    fn read(run: &RunDir, node: &NodeRecord, points: Option<usize>) -> Self {
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
        let stride = u32::try_from(seqs.len().div_ceil(SEGMENTS_WITH_PROCESSES))
            .unwrap_or(u32::MAX)
            .max(1);
        let load = |seq: u32, all: bool| {
            let bytes = dir
                .read_segment(seq)
                .map_err(|error| chain(&error).join(": "))?;
            let processes = seq.is_multiple_of(stride);
            let digested = |name: &str| {
                SampleBins::wants(name) || (processes && SampleBins::wants_process(name))
            };
            let wanted =
                |name: &str| all && (points.is_some() && is_needed(name) || digested(name));
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
            segments.in_order(
                |seq| load(seq, true),
                &mut |seq, why| note(Some(seq), why),
                |blocks, rows| {
                    if let Some(thinner) = &mut thinner {
                        thinner.take(blocks, rows);
                    }
                    digest.take(blocks, rows.iter().map(|row| (row.block, row.row)));
                },
            );
            (thinner.map(Thinner::finish), digest.finish())
        });
        let (timeline, sampled) = read.unzip();
        Self {
            timeline: timeline.flatten(),
            sampled,
            notes,
        }
    }
}
