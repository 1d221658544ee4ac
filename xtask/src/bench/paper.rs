//! Tables, and the document they are written to. Each scenario's section is between two comments that name it, and
//! running the scenario again replaces only that section.

use std::path::Path;

use super::figures::Repeated;
use super::subject::Subject;
use super::{Outcome, Section, machine};

const DOCUMENT: &str = "benchmarks.md";

/// A figure that is shown for every subject.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Column {
    pub(super) figure: &'static str,
    pub(super) title: &'static str,
    pub(super) form: Form,
    better: Better,
    done_before: bool,
}

/// How a figure is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
    Bytes,
    Rate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Better {
    Less,
    More,
}

impl Column {
    pub(super) const fn new(figure: &'static str, title: &'static str, form: Form, better: Better) -> Self {
        Self { figure, title, form, better, done_before: false }
    }

    /// The peers did this work earlier, so a better figure is not reported as an advantage.
    pub(super) const fn done_before_by_peers(self) -> Self {
        Self { done_before: true, ..self }
    }

    /// How many times worse than the reference a value is.
    fn ratio(self, value: f64, reference: f64) -> f64 {
        if self.better == Better::Less { value / reference } else { reference / value }
    }
}

impl Form {
    pub(super) fn write(self, value: f64) -> String {
        let (value, unit) = match self {
            Self::Seconds if value < 0.1 => (value * 1e3, " ms"),
            Self::Seconds => (value, " s"),
            Self::Milliseconds => (value, " ms"),
            Self::Microseconds => (value, " µs"),
            Self::Nanoseconds if value >= 1e6 => (value / 1e6, " ms"),
            Self::Nanoseconds if value >= 1e3 => (value / 1e3, " µs"),
            Self::Nanoseconds => (value, " ns"),
            Self::Bytes => (value / 1e6, " MB"),
            Self::Rate if value >= 1e3 => (value / 1e3, " k"),
            Self::Rate => (value, ""),
        };
        format!("{}{unit}", digits(value))
    }
}

/// Rounds to a few significant digits.
fn digits(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        small if small < 0.01 && small > 0.0 => format!("{value:.4}"),
        _ => format!("{value:.2}"),
    }
}

/// The figures of all subjects in one scenario.
pub(super) struct Table<'a> {
    pub(super) columns: &'a [Column],
    pub(super) results: &'a [(Subject, Repeated)],
}

impl Table<'_> {
    /// As Markdown: medians, spreads and ratios, then the columns in which a peer is better than ours.
    pub(super) fn text(&self) -> String {
        let mut text = format!("| |{}\n|---|", self.line(|column| column.title.to_owned()));
        text += &format!("{}\n", self.line(|_| "---".to_owned()));
        for (subject, figures) in self.results {
            text += &format!(
                "| {} |{}\n",
                subject.label(),
                self.line(|column| self.cell(column, *subject, figures))
            );
        }
        for (ours, title) in [(self.first(), "ours"), (self.decoding(), "ours, decoded in the handler")] {
            let better = ours.map_or_else(Vec::new, |ours| self.better(ours));
            if !better.is_empty() {
                text += &format!("\nBetter than {title}: {}.\n", better.join("; "));
            }
        }
        let before: Vec<_> =
            self.columns.iter().filter(|column| column.done_before).map(|column| column.title).collect();
        if !before.is_empty() {
            let before = before.join("” and “");
            text += &format!(
                "\n“{before}”: the peers decode every object on arrival, ours decodes at the first read.\n"
            );
        }
        text
    }

    fn line(&self, cell: impl Fn(Column) -> String) -> String {
        self.columns.iter().map(|column| format!(" {} |", cell(*column))).collect()
    }

    fn cell(&self, column: Column, subject: Subject, figures: &Repeated) -> String {
        let Some(median) = figures.median(column.figure) else { return "–".to_owned() };
        let mut cell = column.form.write(median);
        if let Some((least, most)) = figures.spread(column.figure) {
            cell += &format!(" ({} – {})", column.form.write(least), column.form.write(most));
        }
        match self.reference(column) {
            Some(reference) if self.first() != Some(subject) && reference > 0.0 && median > 0.0 => {
                format!("{cell}, **{}×**", digits(column.ratio(median, reference)))
            }
            _ => cell,
        }
    }

    /// The others are compared with the first, which is always one of ours.
    fn first(&self) -> Option<Subject> {
        self.results.first().map(|(subject, _)| *subject)
    }

    fn reference(&self, column: Column) -> Option<f64> {
        self.median(self.first()?, column)
    }

    /// Our row that does the peers' work: every object is decoded on arrival.
    fn decoding(&self) -> Option<Subject> {
        self.results.iter().map(|(subject, _)| *subject).find(|subject| *subject == Subject::OursDecoding)
    }

    fn median(&self, subject: Subject, column: Column) -> Option<f64> {
        self.results.iter().find(|(other, _)| *other == subject)?.1.median(column.figure)
    }

    /// The columns in which a peer's median is better than that of one of our rows by at least 5 %.
    fn better(&self, than: Subject) -> Vec<String> {
        let peers =
            self.results.iter().filter(|(subject, _)| !subject.is_ours() && *subject != Subject::Floor);
        let found = peers.filter_map(|(subject, figures)| {
            let columns = self.columns.iter().filter(|column| !column.done_before).filter_map(|column| {
                let (theirs, ours) = (figures.median(column.figure)?, self.median(than, *column)?);
                let times = 1.0 / column.ratio(theirs, ours);
                (times >= 1.05).then(|| format!("“{}” ({times:.1}×)", column.title))
            });
            let columns: Vec<_> = columns.collect();
            (!columns.is_empty()).then(|| format!("{} in {}", subject.label(), columns.join(", ")))
        });
        found.collect()
    }
}

/// Writes a section into the document, replacing its predecessor or after the last section, and its plot next to it.
pub(super) fn write(root: &Path, section: &Section) -> Outcome {
    let docs = root.join("docs");
    section.write_plot(&docs)?;
    let mut text = format!("{}\n*{}*\n", section.text, machine::describe());
    if section.plot.is_some() {
        text += &format!("\n![{}]({})\n", section.name, section.plot_file());
    }
    let path = docs.join(DOCUMENT);
    let document = std::fs::read_to_string(&path)?;
    Ok(std::fs::write(path, placed(&document, &section.name, &text, section.end())?)?)
}

/// The document with the section in its place, or after the last section of its kind.
fn placed(document: &str, name: &str, text: &str, end: &str) -> Outcome<String> {
    let (open, close) = (format!("<!-- bench {name} -->\n"), format!("<!-- /bench {name} -->\n"));
    let section = format!("{open}{text}{close}");
    if let Some((before, rest)) = document.split_once(&open) {
        let (_, after) = rest.split_once(&close).ok_or_else(|| format!("docs/{DOCUMENT}: no {close}"))?;
        return Ok(format!("{before}{section}{after}"));
    }
    let (before, after) = document.split_once(end).ok_or_else(|| format!("docs/{DOCUMENT}: no {end}"))?;
    Ok(format!("{before}{section}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::parse;

    const COLUMNS: &[Column] = &[
        Column::new("cpu", "client CPU", Form::Seconds, Better::Less),
        Column::new("rate", "per second", Form::Rate, Better::More),
    ];

    fn figures(cpu: f64, rate: f64) -> Repeated {
        let mut repeated = Repeated::default();
        repeated.add(&parse(&format!("cpu\t{cpu}\ts\nrate\t{rate}\t1/s")).unwrap());
        repeated
    }

    #[test]
    fn a_table_has_ratios_and_the_columns_in_which_a_peer_is_better() {
        let results = [(Subject::Ours, figures(2.0, 500.0)), (Subject::ClientGo, figures(7.0, 2_000.0))];
        let text = Table { columns: COLUMNS, results: &results }.text();
        assert!(text.contains("| ours, protobuf | 2.00 s | 500 |"), "{text}");
        assert!(text.contains("| client-go, protobuf | 7.00 s, **3.50×** | 2.00 k, **0.25×** |"), "{text}");
        assert!(text.ends_with("Better than ours: client-go, protobuf in “per second” (4.0×).\n"), "{text}");
    }

    #[test]
    fn peers_that_are_better_than_our_row_that_decodes_are_named() {
        let results = [
            (Subject::Ours, figures(2.0, 500.0)),
            (Subject::OursDecoding, figures(8.0, 500.0)),
            (Subject::ClientGo, figures(4.0, 500.0)),
        ];
        let text = Table { columns: COLUMNS, results: &results }.text();
        assert!(!text.contains("Better than ours:"), "{text}");
        let expected =
            "\nBetter than ours, decoded in the handler: client-go, protobuf in “client CPU” (2.0×).\n";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn work_that_peers_did_earlier_is_noted_instead_of_a_ratio() {
        let results = [(Subject::Ours, figures(2.0, 1.0)), (Subject::ClientGo, figures(0.002, 1.04))];
        let columns = [COLUMNS[0].done_before_by_peers(), COLUMNS[1]];
        let text = Table { columns: &columns, results: &results }.text();
        assert!(!text.contains("Better than ours"), "{text}");
        assert!(text.contains("“client CPU”: the peers decode every object on arrival"), "{text}");
    }

    #[test]
    fn a_section_replaces_its_predecessor_and_a_new_one_is_appended() {
        let (end, other) = ("<!-- end -->\n", "<!-- another end -->\n");
        let empty = "# B\n<!-- end -->\nmore\n<!-- another end -->\n";
        let one = placed(empty, "sync", "1\n", end).unwrap();
        let two = placed(&one, "watch", "2\n", end).unwrap();
        let three = placed(&two, "real-sync", "4\n", other).unwrap();
        let again = placed(&three, "sync", "3\n", end).unwrap();
        let expected = "# B\n<!-- bench sync -->\n3\n<!-- /bench sync -->\n\n<!-- bench watch -->\n2\n<!-- /bench watch -->\n\n\
                        <!-- end -->\nmore\n<!-- bench real-sync -->\n4\n<!-- /bench real-sync -->\n\n<!-- another end -->\n";
        assert_eq!(again, expected);
        assert!(placed("nothing", "sync", "", end).is_err());
    }
}
