//! The samples of several segments in the order of their times, with few of them in memory.

use crate::record::Sample;

/// One segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    begin_ms: u64,
    seq: u32,
    end_ms: u64,
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
    /// Finds out what time each segment is of; `times` gives its samples, of which only the time matters.
    pub(super) fn look(
        seqs: &[u32],
        times: impl Fn(u32) -> Result<Vec<Sample>, String>,
        complain: Complain<'_>,
    ) -> Self {
        let mut segments = Self { spans: Vec::new(), samples: 0 };
        for seq in seqs.iter().copied() {
            let samples = match times(seq) {
                Ok(samples) => samples,
                Err(why) => {
                    complain(seq, why);
                    continue;
                }
            };
            let times = || samples.iter().map(|sample| sample.at_ms);
            let (Some(begin_ms), Some(end_ms)) = (times().min(), times().max()) else { continue };
            segments.samples += samples.len();
            segments.spans.push(Span { begin_ms, seq, end_ms });
        }
        segments.spans.sort_unstable_by_key(|span| (span.begin_ms, span.seq));
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

    /// Hands out every sample, ascending in time, of several of one time the first. No more segments are in memory at once
    /// than overlap.
    pub(super) fn in_order(
        &self,
        load: impl Fn(u32) -> Result<Vec<Sample>, String>,
        complain: Complain<'_>,
        mut each: impl FnMut(Sample),
    ) {
        let mut waiting: Vec<Sample> = Vec::new();
        let mut last_ms = None;
        for (place, span) in self.spans.iter().enumerate() {
            match load(span.seq) {
                Ok(samples) => waiting.extend(samples),
                Err(why) => complain(span.seq, why),
            }
            waiting.sort_by_key(|sample| sample.at_ms);
            let next_ms = self.spans.get(place + 1).map(|next| next.begin_ms);
            let ready =
                next_ms.map_or(waiting.len(), |next| waiting.partition_point(|sample| sample.at_ms < next));
            for sample in waiting.drain(..ready) {
                if last_ms.replace(sample.at_ms) != Some(sample.at_ms) {
                    each(sample);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// What comes out of these segments, a list of times each, and who was complained of. The threads of a sample are the
    /// number of its segment.
    fn read(segments: &[&[u64]]) -> (Vec<(u64, u64)>, Vec<u32>) {
        let load = |seq: u32| {
            let times = segments[seq as usize];
            let sample =
                |at_ms: &u64| Sample { at_ms: *at_ms, threads: Some(seq.into()), ..Sample::default() };
            if times == [13] { Err("bad luck".to_owned()) } else { Ok(times.iter().map(sample).collect()) }
        };
        let seqs: Vec<u32> = (0..).take(segments.len()).collect();
        let (complaints, mut samples) = (RefCell::default(), Vec::new());
        let found = Segments::look(&seqs, load, &mut |seq, _| Vec::push(&mut complaints.borrow_mut(), seq));
        found.in_order(load, &mut |seq, _| complaints.borrow_mut().push(seq), |sample| {
            samples.push((sample.at_ms, sample.threads.unwrap_or(99)));
        });
        assert!(samples.len() <= found.samples());
        assert_eq!(found.span(), samples.first().zip(samples.last()).map(|(first, last)| (first.0, last.0)));
        (samples, complaints.into_inner())
    }

    #[test]
    fn segments_that_overlap_give_each_time_once_and_in_order() {
        let (samples, bad) = read(&[&[50, 60], &[10, 20, 30], &[20, 25, 40, 30], &[], &[60, 70, 5]]);
        let expected = [(5, 4), (10, 1), (20, 1), (25, 2), (30, 1), (40, 2), (50, 0), (60, 4), (70, 4)];
        assert_eq!((samples, bad), (expected.to_vec(), vec![]));
    }

    #[test]
    fn a_segment_that_cannot_be_read_is_named_and_the_rest_is_there() {
        assert_eq!(read(&[&[1, 2], &[13], &[30]]), (vec![(1, 0), (2, 0), (30, 2)], vec![1]));
        assert_eq!(read(&[&[13], &[]]), (vec![], vec![0]));
        assert_eq!(read(&[]), (vec![], vec![]));
    }
}
