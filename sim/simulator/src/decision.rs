//! The rows and columns of the reflector's decision table (see the docs of `reflector/decide.rs`), as far as error
//! reports show them.

use kube_informer::ErrorReport;
use kube_informer::building_blocks::{NextStep, ReflectorError, SourceError};

/// The operation that failed.
pub(crate) const COLUMNS: [&str; 4] = ["list", "watch-list", "opening a watch", "in the stream"];

/// The error.
pub(crate) const ROWS: [&str; 10] = [
    "410 expired",
    "resourceVersion too large",
    "connection refused, 429",
    "500 InternalError",
    "5xx, broke, idle or slow",
    "400, 422, 500: version",
    "watch overdue",
    "invalid shard selector",
    "unreadable, cut in an event",
    "anything else",
];

/// Cells that cannot occur, by row and column.
const IMPOSSIBLE: [(usize, usize); 3] = [
    // Only an open watch can be overdue. A watch-list that does not end its initial events is abandoned after two minutes, unless they
    // arrive faster than those of any run.
    (6, 0),
    (6, 1),
    (6, 2),
];

/// The category under which cells are counted.
pub(crate) const CELL: &str = "decision";

/// The name of a cell.
pub(crate) fn cell(row: &str, column: &str) -> String {
    format!("{row} | {column}")
}

/// The names of all cells that can occur.
pub(crate) fn cells() -> impl Iterator<Item = String> {
    let all = (0..ROWS.len()).flat_map(|row| (0..COLUMNS.len()).map(move |column| (row, column)));
    let possible = all.filter(|place| !IMPOSSIBLE.contains(place));
    possible.map(|(row, column)| cell(ROWS[row], COLUMNS[column]))
}

/// The cell of a report; `None` if the table does not cover its error.
pub(crate) fn cell_of(report: &ErrorReport) -> Option<String> {
    let (error, column) = match report.error.reflector_error() {
        ReflectorError::List(error) => (error, 0),
        ReflectorError::WatchList(error) => (error, 1),
        ReflectorError::Open(error) | ReflectorError::Verify(error) => (error, 2),
        ReflectorError::Watch(error) => (error, 3),
        _ => return None,
    };
    Some(cell(ROWS[row(report, error)], COLUMNS[column]))
}

fn row(report: &ErrorReport, error: &SourceError) -> usize {
    match error {
        SourceError::Status(status) if status.is_expired() => 0,
        SourceError::Status(status) if status.is_too_large_resource_version() => 1,
        SourceError::Status(status) if status.is_too_many_requests() => 2,
        SourceError::ConnectionRefused(_) => 2,
        SourceError::Status(status) if status.is_invalid_shard_selector() => 7,
        error if is_about_version(report, error) => 5,
        SourceError::Status(status) if status.is_internal_error() => 3,
        SourceError::Status(status) if status.code >= 500 => 4,
        SourceError::Connect(_)
        | SourceError::Interrupted(_)
        | SourceError::Idle(_)
        | SourceError::Slow { .. } => 4,
        SourceError::Overdue { .. } => 6,
        SourceError::Wire(_) | SourceError::StreamBroken(_) => 8,
        _ => 9,
    }
}

/// Whether the server may have rejected the resourceVersion of a request. A report of a list shows by its next step whether the request
/// had one, and a watch always has one. For a watch-list it makes no difference.
fn is_about_version(report: &ErrorReport, error: &SourceError) -> bool {
    let SourceError::Status(status) = error else { return matches!(error, SourceError::Unsendable(_)) };
    let is_about_version = match status.code {
        400 | 422 => true,
        500 => status.message.contains("resource version"),
        _ => false,
    };
    let is_list = matches!(report.error.reflector_error(), ReflectorError::List(_));
    is_about_version && (!is_list || report.next() == NextStep::AskForMostRecent)
}
