//! Bar charts as SVG, one group per column, in colours that work on light and dark pages.

use super::paper::Table;
use super::subject::Subject;

const WIDTH: f64 = 820.0;
const LABEL: f64 = 230.0;
const VALUE: f64 = 90.0;
const BAR: f64 = 18.0;

/// The plot of a table; `None` if it has no values.
pub(super) fn bars(title: &str, table: &Table<'_>) -> Option<String> {
    let mut body = String::new();
    let mut y = 34.0;
    for column in table.columns {
        let values: Vec<(Subject, f64)> = table
            .results
            .iter()
            .filter_map(|(subject, figures)| Some((*subject, figures.median(column.figure)?)))
            .collect();
        let most = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        if most <= 0.0 {
            continue;
        }
        body += &format!("<text x=\"10\" y=\"{:.0}\" class=\"head\">{}</text>\n", y + 16.0, column.title);
        y += 24.0;
        for (subject, value) in values {
            let length = (value / most * (WIDTH - LABEL - VALUE - 20.0)).max(1.0);
            let middle = y + BAR - 5.0;
            body += &format!(
                "<text x=\"{:.0}\" y=\"{middle:.0}\" text-anchor=\"end\">{}</text>\
                 <rect x=\"{LABEL:.0}\" y=\"{y:.0}\" width=\"{length:.1}\" height=\"{:.0}\" fill=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"{middle:.0}\">{}</text>\n",
                LABEL - 8.0,
                subject.label(),
                BAR - 4.0,
                colour(subject),
                LABEL + length + 6.0,
                column.form.write(value),
            );
            y += BAR;
        }
        y += 10.0;
    }
    (!body.is_empty()).then(|| {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {y:.0}\" role=\"img\" aria-label=\"{title}\">\n\
             <style>text{{font:12px system-ui,sans-serif;fill:#57606a}}.title{{font-size:15px;font-weight:600}}\
             .head{{font-weight:600}}@media(prefers-color-scheme:dark){{text{{fill:#c9d1d9}}}}</style>\n\
             <text x=\"10\" y=\"22\" class=\"title\">{title}</text>\n{body}</svg>\n"
        )
    })
}

fn colour(subject: Subject) -> &'static str {
    match subject {
        Subject::Ours | Subject::OursMetadata => "#1f883d",
        Subject::OursDecoding | Subject::Get => "#4aa564",
        Subject::OursJson => "#7bc48d",
        Subject::ClientGo | Subject::ClientGoMetadata => "#0969da",
        Subject::ClientGoStripped | Subject::Kubectl => "#4490e6",
        Subject::ClientGoJson => "#7fb3ef",
        Subject::KubeRs | Subject::KubeRsMetadata => "#bc4c00",
        Subject::KubeRsStripped => "#d07a36",
        Subject::KubeRsStreaming => "#e3975e",
        Subject::Floor => "#8c959f",
    }
}
