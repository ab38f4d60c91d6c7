//! The middle of measured values, and which of them may be put together.

use super::TimeSource;

/// Of values with the source of each those of the commonest source: times of two sources are not mixed. Of two sources as common
/// the program's events come first, then what it printed. `None` of no values.
#[must_use]
pub fn of_commonest_source<T>(
    values: impl IntoIterator<Item = (T, TimeSource)>,
) -> Option<(TimeSource, Vec<T>)> {
    let sources = [TimeSource::Clock, TimeSource::Stated, TimeSource::Event];
    let mut groups = sources.map(|source| (source, Vec::new()));
    for (value, source) in values {
        if let Some((_, group)) = groups.iter_mut().find(|(its, _)| *its == source) {
            group.push(value);
        }
    }
    let most = groups.into_iter().max_by_key(|(_, group)| group.len());
    most.filter(|(_, group)| !group.is_empty())
}

/// The median: the middle value, or halfway between the two in the middle. `None` of no values.
#[must_use]
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_values_does_not_matter() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!((median(vec![7.0]), median(Vec::new())), (Some(7.0), None));
    }
}
