//! The time that a logger writes at the beginning of a line, for outputs of which nobody saw when they came.
//!
//! ```text
//! [2023-04-18 03:36:02,683] [INFO] ...        Python's logging         I0828 22:17:48.338963 11510 ...   glog
//! 2022-08-22T15:51:56.123Z ...                ISO 8601                 08/16/2016 09:56:36: ...          CNTK
//! 2022/08/22 15:51:56 - mmengine - ...        MMEngine                 [04/05 01:30:24 d2.utils.events]: Detectron2
//! ```
//!
//! Zones are not looked at and a missing year is one year: only differences of such times are used.

use std::sync::LazyLock;

use jiff::civil::{DateTime, date};
use regex_lite::Regex;

/// The year where none is written; a leap year, so that 29 February is a day.
const NO_YEAR: i16 = 1972;

/// A date, begun at most 48 bytes into the line and not inside a word, and a clock with seconds behind it.
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    let date = r"(?:(\d{4})[-/])?(\d\d?)[-/]?(\d\d?)(?:/(\d{4}))?";
    let clock = r"(\d\d?):(\d\d):(\d\d)(?:[.,](\d{1,9}))?";
    let time = format!(r"^(?:[IWEF]|.{{0,47}}?[^\w./-])?{date}[T ,_]\s*{clock}");
    Regex::new(&time).expect("a tested expression")
});

/// The time at the beginning of a line, in milliseconds since 1970 of an unnamed zone.
pub(super) fn read(text: &str) -> Option<u64> {
    let groups = TIME.captures(text)?;
    let text = |at| groups.get(at).map(|group| group.as_str());
    let number = |at| text(at)?.parse::<i8>().ok();
    let year = text(1).or(text(4)).and_then(|year| year.parse().ok());
    let (mut month, mut day) = (number(2)?, number(3)?);
    // The month may come second.
    if month > 12 {
        (month, day) = (day, month);
    }
    let nanoseconds = format!("{:0<9}", text(8).unwrap_or_default())
        .parse()
        .ok()?;
    let (hour, minute, second) = (number(5)?, number(6)?, number(7)?);
    let time = DateTime::new(
        year.unwrap_or(NO_YEAR),
        month,
        day,
        hour,
        minute,
        second,
        nanoseconds,
    );
    let since = time.ok()?.duration_since(date(1970, 1, 1).at(0, 0, 0, 0));
    u64::try_from(since.as_millis()).ok()
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
