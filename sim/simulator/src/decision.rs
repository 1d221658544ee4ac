//! The rows and columns of the reflector's decision table (see the docs of `reflector/decide.rs`), as far as error
//! reports show them.

use kube_informer::ErrorReport;
use kube_informer::building_blocks::{ReflectorError, SourceError};

/// The operation that failed.
pub(crate) const COLUMNS: [&str; 4] = ["list", "watch-list", "opening a watch", "in the stream"];

/// The error.
pub(crate) const ROWS: [&str; 7] = [
    "410 expired",
    "resourceVersion too large",
    "connection refused, 429",
    "500 InternalError",
    "5xx, connection broke, idle",
    "unreadable, cut in an event",
    "anything else",
];

/// The category under which cells are counted.
pub(crate) const CELL: &str = "decision";

/// The name of a cell.
pub(crate) fn cell(row: &str, column: &str) -> String {
    format!("{row} | {column}")
}

/// The cell of a report; `None` if the table does not cover its error.
pub(crate) fn cell_of(report: &ErrorReport) -> Option<String> {
    let (error, column) = match report.error.reflector_error() {
        ReflectorError::List(error) => (error, COLUMNS[0]),
        ReflectorError::WatchList(error) => (error, COLUMNS[1]),
        ReflectorError::Open(error) | ReflectorError::Verify(error) => (error, COLUMNS[2]),
        ReflectorError::Watch(error) => (error, COLUMNS[3]),
        _ => return None,
    };
    Some(cell(row(error), column))
}

fn row(error: &SourceError) -> &'static str {
    let number = match error {
        SourceError::Status(status) if status.is_expired() => 0,
        SourceError::Status(status) if status.is_too_large_resource_version() => 1,
        SourceError::Status(status) if status.is_too_many_requests() => 2,
        SourceError::ConnectionRefused(_) => 2,
        SourceError::Status(status) if status.is_internal_error() => 3,
        SourceError::Status(status) if status.code >= 500 => 4,
        SourceError::Connect(_) | SourceError::Interrupted(_) | SourceError::Idle(_) => 4,
        SourceError::Wire(_) | SourceError::StreamBroken(_) => 5,
        _ => 6,
    };
    ROWS[number]
}
