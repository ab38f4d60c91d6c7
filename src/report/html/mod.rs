//! The report as one file of HTML: no script, no request, readable without its style.

mod comparison;
mod epochs;
mod phases;
mod run;
mod scaling;
mod style;
mod sweep;
mod table;
mod timelines;
mod writer;

pub use sweep::sweep_page;
pub(super) use writer::Html;

use super::number::instant;
use super::{Findings, Report, Run};

/// The report of runs.
pub(super) fn page(findings: &Findings<'_>) -> String {
    let report = findings.report;
    let is_comparison = report.runs.len() > 1;
    let mut html = Html::default();
    html.markup("<!DOCTYPE html>\n");
    html.element("html", &[("lang", "en")], |html| {
        let title = report.title();
        html.element("head", &[], |html| head(html, &title));
        html.element("body", &[], |html| {
            html.markup("<a class=\"skip\" href=\"#main\">Skip to the report</a>\n");
            html.element("header", &[], |html| header(html, report));
            html.element("main", &[("id", "main")], |html| {
                if is_comparison {
                    comparison::write(html, findings);
                }
                for (place, run) in report.runs.iter().enumerate() {
                    run::write(html, place, run, is_comparison);
                }
                html.element("footer", &[], footer);
            });
        });
    });
    html.into_text()
}

/// What the report is, and what the reader must know before all else.
fn header(html: &mut Html, report: &Report) {
    html.paragraph("kind", "Training report");
    html.leaf("h1", &[], &report.title());
    let written = format!(
        "Written {} UTC by dlrun {}. All times of day are UTC.",
        instant(report.written_at_ms),
        env!("CARGO_PKG_VERSION")
    );
    html.paragraph("muted", &written);
    for remark in &report.remarks {
        html.paragraph("remark", remark);
    }
}

fn head(html: &mut Html, title: &str) {
    html.markup("\n<meta charset=\"utf-8\">\n");
    // Before anything that it is about.
    let policy = format!(
        "default-src 'none'; style-src '{}'; base-uri 'none'; form-action 'none'",
        style::hash()
    );
    html.open(
        "meta",
        &[
            ("http-equiv", "Content-Security-Policy"),
            ("content", &policy),
        ],
    );
    html.markup("\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    html.markup("<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n");
    html.leaf("title", &[], &format!("{title} – dlrun report"));
    html.markup("\n<style>");
    html.markup(style::STYLE);
    html.markup("</style>\n");
}

/// `2 resnet50 (k7f2)`.
fn label(place: usize, run: &Run) -> String {
    format!("{} {} ({})", place + 1, run.name(), run.id())
}

fn footer(html: &mut Html) {
    html.markup(
        "<h2>How the figures are made</h2>\n<ul>\n\
         <li>Curves: the line is the mean over each point’s time (of memory the most), the band reaches from the least to the \
         highest reading within it. Where nothing was read there is no line.</li>\n\
         <li>Epochs: <em>stated</em> times are the program’s own, <em>event</em> times it reported through <code>DLRUN_EVENTS</code>, \
         <em>clock</em> times are between two lines of its output. Warm-up (the first epoch of each start) is no part of means, \
         medians and intervals.</li>\n\
         <li>Intervals hold the true value in 95 % of all cases: Student’s t for the mean of the steady epochs; for ratios the \
         logarithm of the ratio of means with Welch’s degrees of freedom. p is raised for the number of comparisons (Holm).</li>\n\
         <li>n counts epochs. Epochs of one run are no repeats of it: they share its node, its caches and its hour. Repeat runs \
         before you trust a small difference.</li>\n\
         </ul>\n",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;
    use crate::report::tests::{assert_sound, derived, timed, untimed};

    fn html(runs: Vec<Run>) -> String {
        Report {
            runs,
            written_at_ms: 0,
            remarks: vec!["a remark".into()],
        }
        .to_html()
    }

    #[test]
    fn pages_are_sound_whatever_is_missing() {
        let mut bare = untimed();
        bare.nodes.clear();
        for runs in [
            vec![timed(&[9.5, 3.25, 3.5])],
            vec![untimed()],
            vec![derived(bare.clone())],
            vec![
                timed(&[9.5, 3.25, 3.5]),
                timed(&[3.5]),
                untimed(),
                derived(bare),
            ],
            (0..50).map(|_| timed(&[9.5, 3.25, 3.5])).collect(),
        ] {
            assert_sound(&html(runs));
        }
    }

    #[test]
    fn names_of_others_are_text_and_nothing_else() {
        let evil = "\"><script src=//evil.example></script><img src=x onerror=alert(1)>\u{202e}";
        let mut run = timed(&[9.5, 3.25, 3.5]);
        run.record.name = evil.into();
        run.record.user = evil.into();
        let node = &mut run.nodes[0].record;
        node.host.cpu_model = Some(evil.into());
        node.gaps = vec![crate::record::Gap {
            from_ms: 1,
            to_ms: 2,
            why: evil.into(),
        }];
        node.missing = vec![crate::record::Missing {
            what: evil.into(),
            why: evil.into(),
        }];
        node.progress.epochs[1].metrics.insert(evil.into(), 0.5);
        let page = html(vec![derived(run), timed(&[3.5])]);
        assert_sound(&page);
        assert!(page.contains("&lt;script src=//evil.example&gt;"));
        for never in [
            "<script",
            "<img",
            "\u{202e}",
            "style=",
            "javascript:",
            "http://",
            "https://",
            "url(h",
        ] {
            assert!(!page.contains(never), "{never}");
        }
        assert!(!page.contains(" onerror=\""));
    }
}
