//! How a value of a description is written in the job file. A table row names an option, a key and one of these forms.

use super::write::Value;
use super::{depend, size, time};
use crate::foundation::units::Walltime;
use crate::job::Begin;

/// How a value is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As it is.
    Text,
    /// A whole number.
    Number,
    /// A size of memory; a bare number counts in so many bytes.
    Size(u64),
    /// A time limit of PBS or MODAK: a bare number is seconds.
    Seconds,
    /// A time limit of Slurm: a bare number is minutes.
    Minutes,
    /// A moment that does not depend on the day of submission.
    Moment,
    /// `afterok:1:2,afterany:3`.
    Conditions,
    /// `matlab:2,ansys` of Slurm, `matlab:2%tape` of Moab.
    Licenses,
}

impl Form {
    /// The value as the job file has it; `None` where the text says something else.
    pub(super) fn value(self, text: &str) -> Option<Value> {
        let text = text.trim();
        let limit = |seconds: u64| (seconds > 0).then(|| Walltime(seconds).to_string().into());
        match self {
            Self::Text => Some(text.into()),
            Self::Number => text.parse().ok().map(Value::Number),
            Self::Size(unit) => {
                let bytes = size::bytes(text, unit).filter(|bytes| bytes.0 > 0);
                bytes.map(|bytes| size::shown(bytes).into())
            }
            Self::Seconds => time::seconds(text).and_then(limit),
            Self::Minutes => time::slurm(text).and_then(limit),
            Self::Moment => {
                // A person leaves the seconds out where there are none.
                let moment = Begin::parse(text).ok()?.to_string();
                Some(moment.strip_suffix(":00").unwrap_or(&moment).into())
            }
            Self::Conditions => depend::conditions(text).map(Value::Texts),
            Self::Licenses => {
                let parts = text.split([',', '%', '+']).map(license);
                parts.collect::<Option<Vec<_>>>().map(Value::Table)
            }
        }
    }
}

fn license(part: &str) -> Option<(String, Value)> {
    let (name, count) = part.rsplit_once([':', '*', '=']).unwrap_or((part, "1"));
    Some((name.to_owned(), Value::Number(count.parse().ok()?)))
}

/// GPUs as the job file has them: `2`, `v100:2`, or a type alone for one of it.
pub(super) fn gpus(text: &str) -> Value {
    match text.parse() {
        Ok(count) => Value::Number(count),
        Err(_) if text.contains(':') => text.into(),
        Err(_) => format!("{text}:1").into(),
    }
}
