//! Metrics as text: OpenMetrics 1.0 for who scrapes, and Prometheus' own older format (0.0.4), which node_exporter's
//! textfile collector reads.
//!
//! The two differ in little: in OpenMetrics a counter's family is named without `_total`, units have a line, and the last
//! line is `# EOF`.

use std::borrow::Cow;
use std::io::{self, Write};

/// Which of the two formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
    /// `text/plain; version=0.0.4`.
    Prometheus,
}

impl Flavour {
    /// What an HTTP answer calls it.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// How values of a family relate to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows. The name of the sample ends with `_total`.
    Counter,
    /// Stands for itself.
    Gauge,
    /// Always 1; its labels are what it says. The name of the sample ends with `_info`.
    Info,
}

/// One value with its labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Names and values; the names are `[a-zA-Z_][a-zA-Z0-9_]*`.
    pub labels: Vec<(&'static str, String)>,
    /// The value, in the base unit of the family.
    pub value: f64,
}

/// Values of one meaning.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Its name without suffix, the unit at its end: `dlrun_daemon_cpu_seconds`.
    pub name: Cow<'static, str>,
    /// What it means.
    pub help: &'static str,
    /// Its unit, `""` where there is none.
    pub unit: &'static str,
    /// How it relates to time.
    pub kind: MetricKind,
    /// Its values.
    pub points: Vec<Point>,
}

/// Writes families; those without a value are left out.
///
/// # Errors
/// Those of `to`.
pub fn write_metrics(to: &mut impl Write, flavour: Flavour, families: &[Family]) -> io::Result<()> {
    for family in families.iter().filter(|family| !family.points.is_empty()) {
        family.write_head(to, flavour)?;
        for point in &family.points {
            let labels = point
                .labels
                .iter()
                .map(|(name, value)| (*name, value.as_str()));
            family.write_point(to, labels, point.value, None)?;
        }
    }
    if flavour == Flavour::OpenMetrics {
        write_end(to)
    } else {
        Ok(())
    }
}

impl Family {
    fn suffix(&self) -> &'static str {
        match self.kind {
            MetricKind::Counter => "_total",
            MetricKind::Gauge => "",
            MetricKind::Info => "_info",
        }
    }

    /// What comes before the points of a family.
    pub(super) fn write_head(&self, to: &mut impl Write, flavour: Flavour) -> io::Result<()> {
        let word = match (self.kind, flavour) {
            (MetricKind::Counter, _) => "counter",
            (MetricKind::Info, Flavour::OpenMetrics) => "info",
            _ => "gauge",
        };
        let suffix = match flavour {
            Flavour::OpenMetrics => "",
            Flavour::Prometheus => self.suffix(),
        };
        let (name, unit) = (&self.name, self.unit);
        writeln!(to, "# HELP {name}{suffix} {}", escaped(self.help, flavour))?;
        writeln!(to, "# TYPE {name}{suffix} {word}")?;
        if flavour == Flavour::OpenMetrics && !unit.is_empty() {
            writeln!(to, "# UNIT {name} {unit}")?;
        }
        Ok(())
    }

    /// One value; its time in Unix milliseconds UTC, where it is not that of the reading.
    pub(super) fn write_point<'a>(
        &self,
        to: &mut impl Write,
        labels: impl Iterator<Item = (&'a str, &'a str)>,
        value: f64,
        at_ms: Option<i64>,
    ) -> io::Result<()> {
        write!(to, "{}{}", self.name, self.suffix())?;
        let mut before = '{';
        for (label, value) in labels {
            let value = escaped(value, Flavour::OpenMetrics);
            write!(to, "{before}{label}=\"{value}\"")?;
            before = ',';
        }
        let after = if before == '{' { "" } else { "}" };
        match value {
            f64::INFINITY => write!(to, "{after} +Inf")?,
            f64::NEG_INFINITY => write!(to, "{after} -Inf")?,
            _ => write!(to, "{after} {value}")?,
        }
        if let Some(at_ms) = at_ms {
            let (seconds, rest) = (at_ms.div_euclid(1000), at_ms.rem_euclid(1000));
            write!(to, " {seconds}.{rest:03}")?;
        }
        writeln!(to)
    }
}

/// The last line of OpenMetrics.
pub(super) fn write_end(to: &mut impl Write) -> io::Result<()> {
    writeln!(to, "# EOF")
}

/// Backslashes, line feeds and, but for help texts of Prometheus, quotes.
fn escaped(text: &str, flavour: Flavour) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if flavour == Flavour::OpenMetrics {
        text.replace('"', "\\\"")
    } else {
        text
    }
}

#[cfg(test)]
impl Family {
    /// A family of one value without labels.
    pub(crate) fn single(
        name: &'static str,
        unit: &'static str,
        kind: MetricKind,
        value: f64,
        help: &'static str,
    ) -> Self {
        let labels = Vec::new();
        Self {
            name: name.into(),
            help,
            unit,
            kind,
            points: vec![Point { labels, value }],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(flavour: Flavour, families: &[Family]) -> String {
        let mut bytes = Vec::new();
        write_metrics(&mut bytes, flavour, families).expect("memory");
        String::from_utf8(bytes).expect("text")
    }

    fn families() -> [Family; 3] {
        let labels = vec![
            ("version", "0.1 \"x\"\\\n".to_owned()),
            ("host", "n1".to_owned()),
        ];
        [
            Family::single(
                "dlrun_cpu_seconds",
                "seconds",
                MetricKind::Counter,
                1.5,
                "CPU time.",
            ),
            Family {
                name: "dlrun_build".into(),
                help: "Which \"dlrun\" runs.",
                unit: "",
                kind: MetricKind::Info,
                points: vec![Point { labels, value: 1.0 }],
            },
            Family {
                points: Vec::new(),
                ..Family::single("dlrun_runs", "", MetricKind::Gauge, 0.0, "")
            },
        ]
    }

    #[test]
    fn openmetrics_names_families_without_suffix_and_ends() {
        let expected = "# HELP dlrun_cpu_seconds CPU time.\n# TYPE dlrun_cpu_seconds counter\n\
             # UNIT dlrun_cpu_seconds seconds\ndlrun_cpu_seconds_total 1.5\n\
             # HELP dlrun_build Which \\\"dlrun\\\" runs.\n# TYPE dlrun_build info\n\
             dlrun_build_info{version=\"0.1 \\\"x\\\"\\\\\\n\",host=\"n1\"} 1\n# EOF\n";
        assert_eq!(text(Flavour::OpenMetrics, &families()), expected);
    }

    #[test]
    fn prometheus_names_families_as_their_samples() {
        let text = text(Flavour::Prometheus, &families());
        assert!(text.starts_with(
            "# HELP dlrun_cpu_seconds_total CPU time.\n# TYPE dlrun_cpu_seconds_total counter\n"
        ));
        assert!(
            text.contains("# TYPE dlrun_build_info gauge\n")
                && text.contains("Which \"dlrun\" runs.")
        );
        assert!(!text.contains("EOF") && !text.contains("UNIT"));
    }
}
