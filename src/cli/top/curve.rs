//! A curve over the last minutes in one line of letters.

const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The letter for `value` between 0 and `most`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and 7"
)]
fn height(value: f64, most: f64) -> char {
    let part = if most > 0.0 { value / most } else { 0.0 };
    HEIGHTS[(part.clamp(0.0, 1.0) * 7.0).round() as usize]
}

/// How much time a letter stands for, in milliseconds: `span_ms` over the width, but no less than the points are apart, so
/// that there are no holes between them.
pub(super) fn letter_ms(times: &[u64], span_ms: u64, width: usize) -> u64 {
    let apart = times
        .windows(2)
        .next_back()
        .map_or(0, |pair| pair[1].saturating_sub(pair[0]));
    (span_ms / u64::try_from(width.max(1)).unwrap_or(u64::MAX))
        .max(apart)
        .max(1)
}

/// The curve of `points`, times in milliseconds and values, between 0 and `most`; the newest at the right. A letter shows
/// the mean over its time, and is blank where nothing is known.
pub(super) fn curve(
    points: &[(u64, Option<f64>)],
    letter_ms: u64,
    width: usize,
    most: f64,
) -> String {
    let Some((newest, _)) = points.last() else {
        return " ".repeat(width);
    };
    let place = |at_ms: u64| {
        // Letters begin at fixed times, so that a curve moves and does not flicker.
        let back = (newest / letter_ms).saturating_sub(at_ms / letter_ms);
        usize::try_from(back)
            .ok()
            .and_then(|back| width.checked_sub(back + 1))
    };
    let mut sums = vec![(0.0, 0_u32); width];
    for (at_ms, value) in points {
        if let (Some(place), Some(value)) = (place(*at_ms), value) {
            sums[place].0 += value;
            sums[place].1 += 1;
        }
    }
    sums.into_iter()
        .map(|(sum, count)| {
            if count == 0 {
                ' '
            } else {
                height(sum / f64::from(count), most)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_at_the_right_and_holes_are_blank() {
        let points = [
            (1000, Some(0.0)),
            (2000, Some(4.0)),
            (3000, None),
            (4000, Some(8.0)),
        ];
        assert_eq!(curve(&points, 1000, 6, 8.0), "  ▁▅ █");
        assert_eq!(curve(&points, 1000, 2, 8.0), " █");
        assert_eq!(curve(&points, 2000, 3, 8.0), "▁▅█");
        assert_eq!(curve(&[], 1000, 3, 8.0), "   ");
        assert_eq!(curve(&points, 1000, 0, 8.0), "");
        assert_eq!(curve(&[(0, Some(5.0))], 1, 1, 0.0), "▁");
    }

    #[test]
    fn a_letter_is_no_shorter_than_the_points_are_apart() {
        assert_eq!(letter_ms(&[0, 1000], 300_000, 30), 10_000);
        assert_eq!(letter_ms(&[0, 1000, 16_000], 300_000, 30), 15_000);
        assert_eq!(letter_ms(&[], 300_000, 0), 300_000);
    }
}
