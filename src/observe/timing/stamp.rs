//! The time that a logger writes at the beginning of a line, for outputs of which nobody saw when they came.
//!
//! ```text
//! [2023-04-18 03:36:02,683] [INFO] ...        Python's logging         I0828 22:17:48.338963 11510 ...   glog
//! 2022-08-22T15:51:56.123Z ...                ISO 8601                 08/16/2016 09:56:36: ...          CNTK
//! 2022/08/22 15:51:56 - mmengine - ...        MMEngine                 [04/05 01:30:24 d2.utils.events]: Detectron2
//! ```
//!
//! Zones are not looked at and a missing year is one year: only differences of such times are used.

use jiff::civil;

use super::scan;

/// How far in a line, in bytes, the time may begin.
const MAX_PREFIX: usize = 48;

/// The year where none is written; a leap year, so that 29 February is a day.
const NO_YEAR: i16 = 1972;

/// The time at the beginning of a line, in milliseconds since 1970 of an unnamed zone.
pub(super) fn read(text: &str) -> Option<u64> {
    let head = &text[..text.floor_char_boundary(MAX_PREFIX)];
    if let Some(glog) = head.strip_prefix(['I', 'W', 'E', 'F'])
        && let Some(at) = glog_time(glog, text)
    {
        return Some(at);
    }
    let mut from = 0;
    // The first numbers of a line may be a rank, a process, a step.
    for _ in 0..3 {
        let begin = from + head[from..].find(|c: char| c.is_ascii_digit())?;
        let alone = !head[..begin]
            .ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '/'));
        if alone && let Some(at) = date_time(&text[begin..]) {
            return Some(at);
        }
        from = begin + head[begin..].find(|c: char| !c.is_ascii_digit())?;
    }
    None
}

/// `0828 22:17:48.338963` behind the letter of the level.
fn glog_time(glog: &str, text: &str) -> Option<u64> {
    let day = glog
        .get(..4)
        .filter(|day| day.bytes().all(|byte| byte.is_ascii_digit()))?;
    let clock = text.get(5..)?.strip_prefix(' ')?;
    let (month, day) = (day[..2].parse().ok()?, day[2..].parse().ok()?);
    at(NO_YEAR, month, day, clock)
}

/// `2022-08-22 15:51:56`, `08/16/2016 09:56:36`, `04/05 01:30:24`.
fn date_time(text: &str) -> Option<u64> {
    let (first, rest) = scan::unsigned(text)?;
    let mark = rest
        .chars()
        .next()
        .filter(|mark| matches!(mark, '-' | '/'))?;
    let (second, rest) = scan::unsigned(&rest[1..])?;
    let (year, month, day, rest) = match rest.strip_prefix(mark).and_then(scan::unsigned) {
        Some((third, rest)) if first > 31 => (first, second, third, rest),
        // The American order; a month above 12 is a day.
        Some((third, rest)) if first > 12 => (third, second, first, rest),
        Some((third, rest)) => (third, first, second, rest),
        None => (NO_YEAR.unsigned_abs().into(), first, second, rest),
    };
    let clock = rest.strip_prefix(['T', ' ', ',', '_'])?.trim_start();
    let (month, day) = (i8::try_from(month).ok()?, i8::try_from(day).ok()?);
    at(i16::try_from(year).ok()?, month, day, clock)
}

/// The milliseconds of a day and what begins with `15:51:56.123`.
fn at(year: i16, month: i8, day: i8, clock: &str) -> Option<u64> {
    let colons = clock.bytes().take(8).filter(|byte| *byte == b':').count();
    let clock = Some(until_zone(clock)).filter(|_| colons == 2)?;
    let (seconds, rest) = scan::clock(clock).filter(|(seconds, _)| *seconds < 86_400.0)?;
    // Python's logging writes a comma.
    let comma = rest
        .strip_prefix(',')
        .and_then(scan::unsigned)
        .filter(|(ms, _)| *ms < 1000);
    let date = civil::Date::new(year, month, day).ok()?;
    let days = civil::date(1970, 1, 1).until(date).ok()?.get_days();
    let day_ms = u64::try_from(days).ok()?.checked_mul(86_400_000)?;
    let clock_ms = std::time::Duration::from_secs_f64(seconds).as_millis();
    Some(day_ms + u64::try_from(clock_ms).ok()? + comma.map_or(0, |(ms, _)| ms))
}

/// A clock without the `Z`, `T` or other letters that may touch it.
fn until_zone(clock: &str) -> &str {
    let end = clock
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, ':' | '.' | ',')))
        .unwrap_or(clock.len());
    clock[..end].trim_end_matches([':', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loggers_times_are_read() {
        let day = 86_400_000;
        for (text, days, ms) in [
            ("[2023-04-18 03:36:02,683] [INFO] x", 19_465, 12_962_683),
            ("2023-04-18T03:36:02.683Z stdout", 19_465, 12_962_683),
            ("2023-04-18T03:36:02+02:00 x", 19_465, 12_962_000),
            ("2023/04/18 03:36:02 - mmengine - INFO", 19_465, 12_962_000),
            ("04/18/2023 03:36:02: Starting", 19_465, 12_962_000),
            (
                "DLL 2023-04-18 03:36:02.683000 - epoch 1",
                19_465,
                12_962_683,
            ),
            ("0: 2023-04-18 03:36:02 x", 19_465, 12_962_000),
            (
                "I0418 03:36:02.683963 11510 solver.cpp:195] x",
                838,
                12_962_683,
            ),
            ("[04/18 03:36:02 d2.utils.events]: x", 838, 12_962_000),
        ] {
            assert_eq!(read(text), Some(days * day + ms), "{text}");
        }
    }

    #[test]
    fn other_numbers_are_no_times() {
        for text in [
            "Epoch 1/5",
            "60000/60000 [====] - 2s",
            "12/31 12:30",
            "2023-13-45 03:36:02",
            "99/99 25:61:61",
            "I0 12",
            "1/2/3 4:5",
            "",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
