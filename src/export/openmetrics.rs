//! Metrics as text: OpenMetrics 1.0 for who scrapes, and Prometheus' own older format (0.0.4), which node_exporter's
//! textfile collector reads.
//!
//! The two differ in little: in OpenMetrics a counter's family is named without `_total`, units have a line, and the last
//! line is `# EOF`.

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
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Its unit, `""` where there is none.
    pub unit: &'static str,
    /// How it relates to time.
    pub kind: MetricKind,
    /// Its values.
    pub points: Vec<Point>,
}

impl Family {
    /// A family of one value without labels.
    #[must_use]
    pub fn single(
        name: &'static str,
        unit: &'static str,
        kind: MetricKind,
        value: f64,
        help: &'static str,
    ) -> Self {
        Self { name, help, unit, kind, points: vec![Point { labels: Vec::new(), value }] }
    }
}

/// Writes families; those without a value are left out.
///
/// # Errors
/// Those of `to`.
pub fn write_metrics(to: &mut impl Write, flavour: Flavour, families: &[Family]) -> io::Result<()> {
    for family in families.iter().filter(|family| !family.points.is_empty()) {
        let suffix = match family.kind {
            MetricKind::Counter => "_total",
            MetricKind::Gauge => "",
            MetricKind::Info => "_info",
        };
        let (kind, name) = match (flavour, family.kind) {
            (Flavour::OpenMetrics, MetricKind::Counter) => ("counter", family.name.to_owned()),
            (Flavour::OpenMetrics, MetricKind::Gauge) => ("gauge", family.name.to_owned()),
            (Flavour::OpenMetrics, MetricKind::Info) => ("info", family.name.to_owned()),
            (Flavour::Prometheus, MetricKind::Counter) => ("counter", format!("{}{suffix}", family.name)),
            (Flavour::Prometheus, _) => ("gauge", format!("{}{suffix}", family.name)),
        };
        writeln!(to, "# HELP {name} {}", escaped(family.help, flavour))?;
        writeln!(to, "# TYPE {name} {kind}")?;
        if flavour == Flavour::OpenMetrics && !family.unit.is_empty() {
            writeln!(to, "# UNIT {name} {}", family.unit)?;
        }
        for point in &family.points {
            write!(to, "{}{suffix}", family.name)?;
            for (index, (label, value)) in point.labels.iter().enumerate() {
                let before = if index == 0 { '{' } else { ',' };
                write!(to, "{before}{label}=\"{}\"", escaped(value, Flavour::OpenMetrics))?;
            }
            let after = if point.labels.is_empty() { "" } else { "}" };
            writeln!(to, "{after} {}", point.value)?;
        }
    }
    if flavour == Flavour::OpenMetrics { writeln!(to, "# EOF") } else { Ok(()) }
}

/// Backslashes, line feeds and, but for help texts of Prometheus, quotes.
fn escaped(text: &str, flavour: Flavour) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if flavour == Flavour::OpenMetrics { text.replace('"', "\\\"") } else { text }
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
        let labels = vec![("version", "0.1 \"x\"\\\n".to_owned()), ("host", "n1".to_owned())];
        [
            Family::single("dlrun_cpu_seconds", "seconds", MetricKind::Counter, 1.5, "CPU time."),
            Family {
                name: "dlrun_build",
                help: "Which \"dlrun\" runs.",
                unit: "",
                kind: MetricKind::Info,
                points: vec![Point { labels, value: 1.0 }],
            },
            Family { points: Vec::new(), ..Family::single("dlrun_runs", "", MetricKind::Gauge, 0.0, "") },
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
        assert!(text.contains("# TYPE dlrun_build_info gauge\n") && text.contains("Which \"dlrun\" runs."));
        assert!(!text.contains("EOF") && !text.contains("UNIT"));
    }
}
