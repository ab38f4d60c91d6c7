//! A series as a report draws it.

use super::figure::Unit as FigureUnit;
use super::thin::Thinned;
use super::track::Curve as Thin;
use super::{Choice, Series};
use crate::record::NodeRecord;
use crate::record::rundir::RunDir;
use crate::report::{Curve, Timeline, Unit};

impl Series {
    /// Everything in so many points at most, with the curves for a report.
    pub(crate) fn timeline(
        run: &RunDir,
        node: &NodeRecord,
        points: usize,
    ) -> (Option<Timeline>, Self) {
        let mut series = Self::read(run, node, Choice::All, points);
        (series.thinned.take().map(timeline), series)
    }
}

fn timeline(thinned: Thinned) -> Timeline {
    let Thinned {
        interval_ms,
        at_ms,
        samples,
        run,
        gpus,
    } = thinned;
    Timeline {
        begin_ms: at_ms.first().copied().unwrap_or(0),
        interval_ms,
        points: at_ms.len(),
        samples,
        run: run.into_iter().map(curve).collect(),
        gpus: gpus
            .into_iter()
            .map(|(uuid, curves)| (uuid, curves.into_iter().map(curve).collect()))
            .collect(),
    }
}

fn curve(thin: Thin) -> Curve {
    let Thin {
        name,
        unit,
        values,
        low,
        high,
        mean,
    } = thin;
    let unit = match unit {
        FigureUnit::Cpus => Unit::Cpus,
        FigureUnit::Share => Unit::Share,
        FigureUnit::Bytes => Unit::Bytes,
        FigureUnit::BytesPerSecond => Unit::BytesPerSecond,
        FigureUnit::Percent => Unit::Percent,
        FigureUnit::Milliwatts => Unit::Milliwatts,
        FigureUnit::Number => Unit::Number,
    };
    Curve {
        name,
        unit,
        low,
        value: values,
        high,
        mean,
    }
}
