//! The files of the page, compiled into the binary: nothing is read from disk or loaded from another host.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;

use super::Refusal;

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

const INDEX: &str = include_str!("../../assets/index.html");

/// Name, type and content.
const FILES: [(&str, &str, &str); 21] = [
    ("page.css", STYLE, include_str!("../../assets/page.css")),
    ("icon.svg", IMAGE, include_str!("../../assets/icon.svg")),
    ("app.js", SCRIPT, include_str!("../../assets/app.js")),
    ("api.js", SCRIPT, include_str!("../../assets/api.js")),
    ("storage.js", SCRIPT, include_str!("../../assets/storage.js")),
    ("stream.js", SCRIPT, include_str!("../../assets/stream.js")),
    ("timelines.js", SCRIPT, include_str!("../../assets/timelines.js")),
    ("dom.js", SCRIPT, include_str!("../../assets/dom.js")),
    ("format.js", SCRIPT, include_str!("../../assets/format.js")),
    ("rows.js", SCRIPT, include_str!("../../assets/rows.js")),
    ("charts.js", SCRIPT, include_str!("../../assets/charts.js")),
    ("pipeline.js", SCRIPT, include_str!("../../assets/pipeline.js")),
    ("controllers.js", SCRIPT, include_str!("../../assets/controllers.js")),
    ("replicas.js", SCRIPT, include_str!("../../assets/replicas.js")),
    ("overview.js", SCRIPT, include_str!("../../assets/overview.js")),
    ("changes.js", SCRIPT, include_str!("../../assets/changes.js")),
    ("objects.js", SCRIPT, include_str!("../../assets/objects.js")),
    ("object.js", SCRIPT, include_str!("../../assets/object.js")),
    ("yaml.js", SCRIPT, include_str!("../../assets/yaml.js")),
    ("query.js", SCRIPT, include_str!("../../assets/query.js")),
    ("demo.js", SCRIPT, include_str!("../../assets/demo.js")),
];

pub(super) async fn index() -> Response {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], INDEX).into_response()
}

pub(super) async fn asset(Path(name): Path<String>) -> Result<Response, Refusal> {
    let file = FILES.iter().find(|(file, ..)| *file == name);
    let (_, content_type, content) = file.ok_or_else(|| Refusal::not_found(format!("no file {name:?}")))?;
    Ok(([(CONTENT_TYPE, *content_type)], *content).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of a file between `before` and `after`.
    fn mentioned<'a>(content: &'a str, before: &str, after: char) -> impl Iterator<Item = &'a str> {
        content.split(before).skip(1).filter_map(move |rest| rest.split(after).next())
    }

    #[test]
    fn the_page_has_every_file_that_it_mentions_and_no_inline_script_or_style() {
        let known = |name: &str| FILES.iter().any(|(file, ..)| *file == name);
        for name in mentioned(INDEX, "\"/assets/", '"') {
            assert!(known(name), "{name}");
        }
        for (file, _, content) in FILES {
            for name in mentioned(content, "from \"./", '"') {
                assert!(known(name), "{file}: {name}");
            }
            for forbidden in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "https://"]
            {
                assert!(!content.contains(forbidden), "{file}: {forbidden}");
            }
        }
        // The browser can refuse both: only one file handles that.
        for (file, _, content) in FILES.iter().filter(|(file, ..)| *file != "storage.js") {
            for method in ["localStorage.", "sessionStorage."] {
                assert!(!content.contains(method), "{file}: {method}");
            }
        }
        for forbidden in ["style=", "onclick=", "<style", "http://", "https://"] {
            assert!(!INDEX.contains(forbidden), "{forbidden}");
        }
        let scripts: Vec<_> = mentioned(INDEX, "<script", '>').collect();
        assert!(scripts.iter().all(|script| script.contains("src=\"/assets/")), "{scripts:?}");
    }
}
