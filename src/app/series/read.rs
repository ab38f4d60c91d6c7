//! The samples of several segments in the order of their times, with few of them in memory.

use crate::record::Columns;

/// One segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    begin_ms: u64,
    seq: u32,
    end_ms: u64,
}

/// Where a sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) at_ms: u64,
    /// In which of the blocks.
    pub(super) block: usize,
    /// Its place in the columns of that.
    pub(super) row: usize,
}

/// The segments of one measurement that can be read.
#[derive(Debug)]
pub(super) struct Segments {
    /// By their earliest sample.
    spans: Vec<Span>,
    samples: usize,
}

/// Says which segment cannot be read, and why.
pub(super) type Complain<'a> = &'a mut dyn FnMut(u32, String);

impl Segments {
    /// Finds out what time each segment is of; `times` gives its columns, of which only the times matter.
    pub(super) fn look(
        seqs: &[u32],
        times: impl Fn(u32) -> Result<Columns, String>,
        complain: Complain<'_>,
    ) -> Self {
        let mut segments = Self {
            spans: Vec::new(),
            samples: 0,
        };
        for seq in seqs.iter().copied() {
            let at_ms = match times(seq) {
                Ok(columns) => columns.at_ms,
                Err(why) => {
                    complain(seq, why);
                    continue;
                }
            };
            let (Some(begin_ms), Some(end_ms)) = (at_ms.iter().min(), at_ms.iter().max()) else {
                continue;
            };
            segments.samples += at_ms.len();
            segments.spans.push(Span {
                begin_ms: *begin_ms,
                seq,
                end_ms: *end_ms,
            });
        }
        segments
            .spans
            .sort_unstable_by_key(|span| (span.begin_ms, span.seq));
        segments
    }

    /// The times of the first and the last sample.
    pub(super) fn span(&self) -> Option<(u64, u64)> {
        let end_ms = self.spans.iter().map(|span| span.end_ms).max()?;
        Some((self.spans.first()?.begin_ms, end_ms))
    }

    /// How many samples there are, those that are there twice counted twice.
    pub(super) fn samples(&self) -> usize {
        self.samples
    }

    /// Hands out every sample, ascending in time, of several of one time the first; some at once, as rows of blocks. No more
    /// segments are in memory at once than overlap.
    pub(super) fn in_order(
        &self,
        load: impl Fn(u32) -> Result<Columns, String>,
        complain: Complain<'_>,
        mut each: impl FnMut(&[Columns], &[Row]),
    ) {
        let (mut blocks, mut rows): (Vec<Columns>, Vec<Row>) = (Vec::new(), Vec::new());
        let mut last_ms = None;
        for (place, span) in self.spans.iter().enumerate() {
            match load(span.seq) {
                Ok(columns) => {
                    let block = blocks.len();
                    rows.extend((0..).zip(&columns.at_ms).map(|(row, at_ms)| Row {
                        at_ms: *at_ms,
                        block,
                        row,
                    }));
                    blocks.push(columns);
                }
                Err(why) => complain(span.seq, why),
            }
            rows.sort_by_key(|row| row.at_ms);
            let next_ms = self.spans.get(place + 1).map(|next| next.begin_ms);
            let is_ready = |row: &Row| next_ms.is_none_or(|next| row.at_ms < next);
            let mut ready: Vec<Row> = rows.drain(..rows.partition_point(is_ready)).collect();
            ready.retain(|row| last_ms.replace(row.at_ms) != Some(row.at_ms));
            each(&blocks, &ready);
            // What nothing is left of goes; the others keep their places.
            if rows.is_empty() {
                blocks.clear();
            }
            for (place, block) in blocks.iter_mut().enumerate() {
                if rows.iter().all(|row| row.block != place) {
                    *block = Columns::default();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// What comes out of these segments, a list of times each, and who was complained of. Each time comes with the number
    /// of its segment.
    fn read(segments: &[&[u64]]) -> (Vec<(u64, u64)>, Vec<u32>) {
        let load = |seq: u32| {
            let at_ms = segments[seq as usize].to_vec();
            let column = vec![Some(u64::from(seq)); at_ms.len()];
            let columns = vec![("seq".to_owned(), column)];
            if at_ms == [13] {
                Err("bad luck".to_owned())
            } else {
                Ok(Columns { at_ms, columns })
            }
        };
        let seqs: Vec<u32> = (0..).take(segments.len()).collect();
        let (complaints, mut samples) = (RefCell::default(), Vec::new());
        let found = Segments::look(&seqs, load, &mut |seq, _| {
            Vec::push(&mut complaints.borrow_mut(), seq)
        });
        found.in_order(
            load,
            &mut |seq, _| complaints.borrow_mut().push(seq),
            |blocks, rows| {
                for Row { at_ms, block, row } in rows {
                    assert_eq!(blocks[*block].at_ms[*row], *at_ms);
                    samples.push((*at_ms, blocks[*block].columns[0].1[*row].expect("a number")));
                }
            },
        );
        assert!(samples.len() <= found.samples());
        assert_eq!(
            found.span(),
            samples
                .first()
                .zip(samples.last())
                .map(|(first, last)| (first.0, last.0))
        );
        (samples, complaints.into_inner())
    }

    #[test]
    fn segments_that_overlap_give_each_time_once_and_in_order() {
        let (samples, bad) = read(&[
            &[50, 60],
            &[10, 20, 30],
            &[20, 25, 40, 30],
            &[],
            &[60, 70, 5],
        ]);
        let expected = [
            (5, 4),
            (10, 1),
            (20, 1),
            (25, 2),
            (30, 1),
            (40, 2),
            (50, 0),
            (60, 4),
            (70, 4),
        ];
        assert_eq!((samples, bad), (expected.to_vec(), vec![]));
    }

    #[test]
    fn a_segment_that_cannot_be_read_is_named_and_the_rest_is_there() {
        assert_eq!(
            read(&[&[1, 2], &[13], &[30]]),
            (vec![(1, 0), (2, 0), (30, 2)], vec![1])
        );
        assert_eq!(read(&[&[13], &[]]), (vec![], vec![0]));
        assert_eq!(read(&[]), (vec![], vec![]));
    }
}
