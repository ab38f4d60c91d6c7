//! Many samples to few points: the figures of a run and of its GPUs, column by column. Pure.

use super::figure::{Figure, MOST_SOURCES, of_gpu, of_run};
use super::track::{Axis, Moment, Track};
use crate::record::{Columns, Gap};
use crate::report::Timeline;
use crate::report::timeline::Curves;

/// The most GPUs of a node: eight, each in seven slices, and a few that came later. A damaged record may name any number.
const MAX_GPUS: usize = 72;

/// Figures on their way through the samples.
type Figures = Vec<(&'static Figure, Track)>;

/// A reading: when, in which of the blocks, and its place there.
type Reading = (Moment, usize, usize);

/// Takes the samples of some figures one after the other.
#[derive(Debug)]
pub(in crate::report) struct Tracks {
    /// The middles of the gaps, ascending: nothing is derived across one.
    cuts: Vec<u64>,
    passed: usize,
    pub(in crate::report) samples: u64,
    pub(in crate::report) run: Figures,
    /// The figures of each GPU.
    of_gpu: Vec<&'static Figure>,
    pub(in crate::report) gpus: Vec<(String, Figures)>,
}

impl Tracks {
    pub(in crate::report) fn new(
        of_run: impl Iterator<Item = &'static Figure>,
        of_gpu: impl Iterator<Item = &'static Figure>,
        gaps: &[Gap],
    ) -> Self {
        // The ends of a gap are not exactly those of the samples. One that was filled later on costs one sample's reach.
        let mut cuts: Vec<u64> = gaps
            .iter()
            .map(|gap| gap.from_ms + gap.to_ms.saturating_sub(gap.from_ms) / 2)
            .collect();
        cuts.sort_unstable();
        Self {
            cuts,
            passed: 0,
            samples: 0,
            run: of_run.map(|figure| (figure, Track::default())).collect(),
            of_gpu: of_gpu.collect(),
            gpus: Vec::new(),
        }
    }

    /// Takes samples in: rows of these blocks, as block and row, ascending in time and none older than those before. `place`
    /// says in which point or bin each is; along an `axis` a reading counts in all points since the one before.
    pub(in crate::report) fn take(
        &mut self,
        blocks: &[Columns],
        rows: impl IntoIterator<Item = (usize, usize)>,
        axis: Option<&Axis>,
        mut place: impl FnMut(&Moment) -> usize,
    ) {
        let reading = |(block, row): (usize, usize)| {
            let at_ms = *blocks.get(block)?.at_ms.get(row)?;
            while self.cuts.get(self.passed).is_some_and(|cut| *cut <= at_ms) {
                self.passed += 1;
            }
            let cut_ms = self.passed.checked_sub(1).map_or(0, |last| self.cuts[last]);
            let mut now = Moment {
                at_ms,
                place: 0,
                cut_ms,
            };
            now.place = place(&now);
            Some((now, block, row))
        };
        let readings: Vec<Reading> = rows.into_iter().filter_map(reading).collect();
        self.samples += readings.len() as u64;
        take_figures(&mut self.run, axis, &readings, blocks, "");
        let names = blocks.iter().flat_map(|block| &block.columns);
        for uuid in names.filter_map(|(name, _)| gpu_of(name, &self.of_gpu)) {
            if self.gpus.len() < MAX_GPUS && self.gpus.iter().all(|(known, _)| known != uuid) {
                let figures = self.of_gpu.iter();
                let figures = figures.map(|figure| (*figure, Track::default()));
                self.gpus.push((uuid.to_owned(), figures.collect()));
            }
        }
        for (uuid, figures) in &mut self.gpus {
            take_figures(figures, axis, &readings, blocks, &format!("gpu/{uuid}/"));
        }
    }
}

/// The UUID of the GPU that a column is of, where one of its figures is made of it.
fn gpu_of<'a>(name: &'a str, of_gpu: &[&Figure]) -> Option<&'a str> {
    let (uuid, column) = name.strip_prefix("gpu/")?.rsplit_once('/')?;
    let mut figures = of_gpu.iter();
    figures
        .any(|figure| figure.sources.contains(&column))
        .then_some(uuid)
}

/// Takes the values of figures in; their columns are named behind `prefix`.
fn take_figures(
    figures: &mut Figures,
    axis: Option<&Axis>,
    readings: &[Reading],
    blocks: &[Columns],
    prefix: &str,
) {
    for (figure, track) in figures {
        let blocks = blocks.iter();
        let sources: Vec<Sources<'_>> =
            blocks.map(|block| sources(block, figure, prefix)).collect();
        for (now, block, row) in readings {
            let values = sources[*block].map(|source| *source?.get(*row)?);
            if let Some(value) = (figure.read)(&values) {
                track.take(axis, figure.kind, *now, value);
            }
        }
    }
}

/// The columns that a figure is made of in one block.
type Sources<'a> = [Option<&'a [Option<u64>]>; MOST_SOURCES];

fn sources<'a>(block: &'a Columns, figure: &Figure, prefix: &str) -> Sources<'a> {
    let mut sources = [None; MOST_SOURCES];
    for (source, name) in sources.iter_mut().zip(figure.sources) {
        let is_it = |known: &str| known.strip_prefix(prefix) == Some(name);
        let column = block.columns.iter().rfind(|(known, _)| is_it(known));
        *source = column.map(|(_, values)| values.as_slice());
    }
    sources
}

/// Takes all figures to the points of an axis.
pub(crate) struct Thinner {
    axis: Axis,
    tracks: Tracks,
}

impl Thinner {
    pub(crate) fn new(axis: Axis, gaps: &[Gap]) -> Self {
        let tracks = Tracks::new(of_run(), of_gpu(), gaps);
        Self { axis, tracks }
    }

    /// Takes samples in, as [`Tracks::take`].
    pub(crate) fn take(
        &mut self,
        blocks: &[Columns],
        rows: impl IntoIterator<Item = (usize, usize)>,
    ) {
        let axis = &self.axis;
        let place = |now: &Moment| axis.place(now.at_ms);
        self.tracks.take(blocks, rows, Some(axis), place);
    }

    pub(crate) fn finish(self) -> Timeline {
        let gpu = |(uuid, figures)| (uuid, curves(figures));
        Timeline {
            begin_ms: self.axis.begin_ms,
            interval_ms: self.axis.width_ms,
            points: self.axis.count,
            samples: self.tracks.samples,
            run: curves(self.tracks.run),
            gpus: self.tracks.gpus.into_iter().map(gpu).collect(),
        }
    }
}

fn curves(figures: Figures) -> Curves {
    let curve = |(figure, track): (&Figure, Track)| {
        let curve = track.finish(figure.kind, figure.unit)?;
        Some((figure.name, curve.rounded()))
    };
    figures.into_iter().filter_map(curve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{GpuReading, Sample, decode_columns, encode_segments};
    /// Hands samples over as a segment does.
    fn take(thinner: &mut Thinner, samples: &[Sample]) {
        for bytes in encode_segments(samples) {
            let block = decode_columns(&bytes, |_| true).expect("a segment");
            let rows = 0..block.at_ms.len();
            thinner.take(&[block], rows.map(|row| (0, row)));
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
        let of = |curves: &Curves| -> Vec<(&str, Option<f64>)> {
            let curves = curves.iter();
            curves
                .map(|(name, curve)| (*name, curve.value[1]))
                .collect()
        };
        let (used, anon) = (
            ("mem_used_bytes", Some(10.0)),
            ("mem_anon_bytes", Some(10.0)),
        );
        assert_eq!(of(&thinned.run), [("cpu_busy", Some(2.0)), anon, used]);
        assert_eq!(
            of(&thinned.gpus["GPU-1"]),
            [("utilisation_percent", Some(25.0))]
        );
        assert_eq!(
            (
                thinned.run["cpu_busy"].mean,
                thinned.run["mem_used_bytes"].mean
            ),
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
