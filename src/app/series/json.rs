//! A series as numbers for programs.

use serde_json::{Map, Value, json};

use super::Series;
use crate::record::NodeRecord;
use crate::report::{Curve, Unit};

/// The series of one node; its columns are null where nothing is known.
pub(crate) fn to_json(series: &Series, node: &NodeRecord) -> Value {
    let Some(timeline) = &series.timeline else {
        return json!({ "interval_ms": null, "samples": 0, "columns": null, "gaps": node.gaps });
    };
    let mut columns = columns(&timeline.run);
    let at_ms: Vec<u64> = (0..timeline.points)
        .map(|place| timeline.edge_ms(place))
        .collect();
    columns.insert("at_ms".to_owned(), json!(at_ms));
    let gpus = timeline
        .gpus
        .iter()
        .map(|(uuid, curves)| (uuid.clone(), self::columns(curves).into()));
    columns.insert("gpus".to_owned(), Value::Object(gpus.collect()));
    json!({
        "interval_ms": timeline.interval_ms,
        "samples": timeline.samples,
        "columns": columns,
        "gaps": node.gaps,
    })
}

fn columns(curves: &[Curve]) -> Map<String, Value> {
    let values = |curve: &Curve| {
        curve
            .value
            .iter()
            .map(|value| number(curve.unit, *value))
            .collect()
    };
    curves
        .iter()
        .map(|curve| (curve.name.to_owned(), Value::Array(values(curve))))
        .collect()
}

/// A value with as many digits as mean something.
fn number(unit: Unit, value: Option<f64>) -> Value {
    let Some(value) = value else {
        return Value::Null;
    };
    match unit {
        Unit::Cpus | Unit::Share => json!((value * 1e4).round() / 1e4),
        Unit::Percent => json!((value * 10.0).round() / 10.0),
        Unit::Bytes | Unit::BytesPerSecond | Unit::Milliwatts | Unit::Number => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "made of u64"
            )]
            let whole = value.round() as u64;
            json!(whole)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_of_their_unit() {
        let text = |unit, value| number(unit, Some(value)).to_string();
        assert_eq!(text(Unit::Cpus, 3.123_456), "3.1235");
        assert_eq!(text(Unit::Percent, 33.333), "33.3");
        assert_eq!(text(Unit::BytesPerSecond, 1.5e10 + 0.4), "15000000000");
        assert_eq!(number(Unit::Bytes, None), Value::Null);
    }
}
