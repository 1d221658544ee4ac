//! The plot of a run as SVG: memory and p99 lag over time, in colours that work on light and dark pages.

use crate::record::Checkpoint;

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 70.0;
const GAP: f64 = 60.0;

/// The plot of these checkpoints.
pub(crate) fn svg(title: &str, checkpoints: &[Checkpoint]) -> String {
    let end = checkpoints.last().map_or(1.0, |point| point.at);
    let memory: Vec<_> =
        checkpoints.iter().map(|point| (point.at / end, point.resident as f64 / 1048576.0)).collect();
    let lag: Vec<_> =
        checkpoints.iter().map(|point| (point.at / end, point.lag.p99.as_secs_f64() * 1e3)).collect();
    let body = chart(40.0, "resident memory of the clients", "MB", "#1f883d", &memory)
        + &chart(40.0 + HEIGHT + GAP, "p99 lag between two checkpoints", "ms", "#0969da", &lag);
    let height = 40.0 + 2.0 * (HEIGHT + GAP);
    let minutes = end / 60.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" aria-label=\"{title}\">\n\
         <style>text{{font:12px system-ui,sans-serif;fill:#57606a}}.title{{font-size:15px;font-weight:600}}.head{{font-weight:600}}\
         .axis{{stroke:#8c959f;stroke-width:1}}@media(prefers-color-scheme:dark){{text{{fill:#c9d1d9}}}}</style>\n\
         <text x=\"10\" y=\"22\" class=\"title\">{title}</text>\n{body}\
         <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{minutes:.0} min</text>\n</svg>\n",
        WIDTH - 10.0,
        height - GAP + 22.0,
    )
}

fn chart(top: f64, title: &str, unit: &str, colour: &str, values: &[(f64, f64)]) -> String {
    let most = values.iter().map(|(_, value)| *value).fold(0.0, f64::max).max(1.0);
    let width = WIDTH - LEFT - 10.0;
    let bottom = top + 18.0 + HEIGHT - 18.0;
    let place =
        |(x, y): &(f64, f64)| format!("{:.1},{:.1}", LEFT + x * width, bottom - y / most * (HEIGHT - 24.0));
    let line = values.iter().map(place).collect::<Vec<_>>().join(" ");
    let last = values.last().map_or(0.0, |(_, value)| *value);
    format!(
        "<text x=\"10\" y=\"{:.0}\" class=\"head\">{title}: {last:.0} {unit} at the end</text>\n\
         <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{most:.0} {unit}</text>\n\
         <text x=\"{:.0}\" y=\"{bottom:.0}\" text-anchor=\"end\">0</text>\n\
         <line x1=\"{LEFT:.0}\" y1=\"{bottom:.0}\" x2=\"{:.0}\" y2=\"{bottom:.0}\" class=\"axis\"/>\n\
         <polyline points=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n",
        top + 8.0,
        LEFT - 8.0,
        bottom - (HEIGHT - 24.0) + 4.0,
        LEFT - 8.0,
        WIDTH - 10.0,
    )
}
