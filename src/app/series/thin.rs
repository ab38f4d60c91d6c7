//! Many samples to few points: the figures of a run and of its GPUs, column by column. Pure.

use std::collections::{BTreeSet, HashMap};

use super::MAX_GPUS;
use super::figure::{Figure, MOST_SOURCES, of_gpu, of_run};
use super::read::Row;
use super::track::{Axis, Moment, Track};
use crate::record::{Columns, Gap};
use crate::report::{Curve, Timeline};

/// Takes the samples one after the other.
pub(super) struct Thinner {
    axis: Axis,
    /// The middles of the gaps, ascending.
    cuts: Vec<u64>,
    passed: usize,
    samples: u64,
    run: Vec<Track>,
    gpus: Vec<(String, Vec<Track>)>,
}

impl Thinner {
    pub(super) fn new(axis: Axis, gaps: &[Gap]) -> Self {
        // The ends of a gap are not exactly those of the samples. One that was filled later on costs one sample's reach.
        let mut cuts: Vec<u64> = gaps
            .iter()
            .map(|gap| gap.from_ms + gap.to_ms.saturating_sub(gap.from_ms) / 2)
            .collect();
        cuts.sort_unstable();
        let run = of_run().map(|_| Track::default()).collect();
        Self {
            axis,
            cuts,
            passed: 0,
            samples: 0,
            run,
            gpus: Vec::new(),
        }
    }

    /// Takes samples in, rows of these blocks; they are ascending in time, and none is older than those before.
    pub(super) fn take(&mut self, blocks: &[Columns], rows: &[Row]) {
        let moments: Vec<(Moment, Row)> = rows
            .iter()
            .map(|row| (self.moment(row.at_ms), *row))
            .collect();
        self.samples += rows.len() as u64;
        let lookup = Lookup::new(blocks);
        for (figure, track) in of_run().zip(&mut self.run) {
            take_rows(
                track,
                &self.axis,
                figure,
                &moments,
                &lookup.sources(figure, ""),
            );
        }
        for uuid in lookup.uuids() {
            // A damaged record may name any number of them.
            if self.gpus.len() < MAX_GPUS && self.gpus.iter().all(|(known, _)| known != uuid) {
                self.gpus.push((
                    uuid.to_owned(),
                    of_gpu().map(|_| Track::default()).collect(),
                ));
            }
        }
        for (uuid, tracks) in &mut self.gpus {
            for (figure, track) in of_gpu().zip(tracks) {
                let sources = lookup.sources(figure, &format!("gpu/{uuid}/"));
                take_rows(track, &self.axis, figure, &moments, &sources);
            }
        }
    }

    fn moment(&mut self, at_ms: u64) -> Moment {
        while self.cuts.get(self.passed).is_some_and(|cut| *cut <= at_ms) {
            self.passed += 1;
        }
        let cut_ms = self.passed.checked_sub(1).map_or(0, |last| self.cuts[last]);
        Moment {
            at_ms,
            place: self.axis.place(at_ms),
            cut_ms,
        }
    }

    pub(super) fn finish(self) -> Timeline {
        let gpu = |(uuid, tracks)| (uuid, curves(of_gpu(), tracks));
        Timeline {
            begin_ms: self.axis.begin_ms,
            interval_ms: self.axis.width_ms,
            points: self.axis.count,
            samples: self.samples,
            run: curves(of_run(), self.run),
            gpus: self.gpus.into_iter().map(gpu).collect(),
        }
    }
}

fn curves(figures: impl Iterator<Item = &'static Figure>, tracks: Vec<Track>) -> Vec<Curve> {
    let curve =
        |(figure, track): (&Figure, Track)| track.finish(figure.name, figure.kind, figure.unit);
    figures.zip(tracks).filter_map(curve).collect()
}

/// Takes the values of a figure in, where it has any.
fn take_rows(
    track: &mut Track,
    axis: &Axis,
    figure: &Figure,
    moments: &[(Moment, Row)],
    sources: &[Sources<'_>],
) {
    if sources.is_empty() {
        return;
    }
    for (now, row) in moments {
        let values = sources[row.block].map(|source| source.and_then(|values| values[row.row]));
        if let Some(value) = (figure.read)(&values) {
            track.take(axis, figure.kind, *now, value);
        }
    }
}

/// The columns that a figure is made of in one block.
type Sources<'a> = [Option<&'a [Option<u64>]>; MOST_SOURCES];

/// The columns of blocks by their names.
struct Lookup<'a>(Vec<HashMap<&'a str, &'a [Option<u64>]>>);

impl<'a> Lookup<'a> {
    fn new(blocks: &'a [Columns]) -> Self {
        let named =
            |(name, values): &'a (String, Vec<Option<u64>>)| (name.as_str(), values.as_slice());
        Self(
            blocks
                .iter()
                .map(|block| block.columns.iter().map(named).collect())
                .collect(),
        )
    }

    /// Where a figure finds its values in each block; its columns are named behind `prefix`. Empty where no block has any.
    fn sources(&self, figure: &Figure, prefix: &str) -> Vec<Sources<'a>> {
        let of = |block: &HashMap<&'a str, &'a [Option<u64>]>| {
            let mut sources = [None; MOST_SOURCES];
            for (source, name) in sources.iter_mut().zip(figure.sources) {
                *source = block.get(format!("{prefix}{name}").as_str()).copied();
            }
            sources
        };
        let found: Vec<Sources<'a>> = self.0.iter().map(of).collect();
        if found.iter().flatten().all(Option::is_none) {
            Vec::new()
        } else {
            found
        }
    }

    /// The GPUs that have columns, in the order of their UUIDs.
    fn uuids(&self) -> BTreeSet<&'a str> {
        let names = self.0.iter().flat_map(HashMap::keys);
        names
            .filter_map(|name| Some(name.strip_prefix("gpu/")?.rsplit_once('/')?.0))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{GpuReading, Sample, decode_columns, encode_segments};
    /// Hands samples over as a segment does.
    fn take(thinner: &mut Thinner, samples: &[Sample]) {
        for bytes in encode_segments(samples) {
            let block = decode_columns(&bytes, |_| true).expect("a segment");
            let rows = (0..).zip(&block.at_ms).map(|(row, at_ms)| Row {
                at_ms: *at_ms,
                block: 0,
                row,
            });
            let rows: Vec<Row> = rows.collect();
            thinner.take(&[block], &rows);
        }
    }

    #[test]
    fn figures_of_run_and_gpus_are_there_where_something_was_read() {
        let sample = |second: u64| Sample {
            at_ms: 1000 * second,
            cpu_user_us: Some(1_500_000 * second),
            cpu_system_us: Some(500_000 * second),
            mem_anon_bytes: Some(second),
            gpus: vec![GpuReading {
                gpm_sm_basis_points: Some(2500),
                ..GpuReading::of("GPU-1".into())
            }],
            ..Sample::default()
        };
        let mut thinner = Thinner::new(Axis::new(0, 10_000, 2), &[]);
        take(&mut thinner, &(0..=10).map(sample).collect::<Vec<_>>());
        let thinned = thinner.finish();
        assert_eq!(
            (thinned.samples, thinned.points, thinned.interval_ms),
            (11, 2, 5001)
        );
        let of = |curves: &[Curve]| -> Vec<(&str, Option<f64>)> {
            curves
                .iter()
                .map(|curve| (curve.name, curve.value[1]))
                .collect()
        };
        let (used, anon) = (
            ("mem_used_bytes", Some(10.0)),
            ("mem_anon_bytes", Some(10.0)),
        );
        assert_eq!(of(&thinned.run), [("cpu_busy", Some(2.0)), used, anon]);
        assert_eq!(thinned.gpus[0].0, "GPU-1");
        assert_eq!(
            of(&thinned.gpus[0].1),
            [("utilisation_percent", Some(25.0))]
        );
        assert_eq!(
            (thinned.run[0].mean, thinned.run[1].mean),
            (Some(2.0), None)
        );
    }

    #[test]
    fn no_more_gpus_than_a_node_can_have() {
        let gpus = (0..200).map(|n| GpuReading {
            utilisation_percent: Some(n),
            ..GpuReading::of(format!("GPU-{n}").into())
        });
        let mut thinner = Thinner::new(Axis::new(0, 1, 2), &[]);
        take(
            &mut thinner,
            &[Sample {
                gpus: gpus.collect(),
                ..Sample::default()
            }],
        );
        assert_eq!(thinner.finish().gpus.len(), MAX_GPUS);
    }
}
