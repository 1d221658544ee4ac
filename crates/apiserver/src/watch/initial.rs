//! The initial state of a watch, read in pages: a client that does not read must not cost a list of everything.

use std::sync::Arc;

use super::WatchRequest;
use crate::storage::{Cursor, Lagged, Storage, Stored};

/// Objects per page.
const PAGE: usize = 256;

/// The rest of the initial state.
#[derive(Debug, Default)]
pub(super) struct Initial {
    page: std::vec::IntoIter<Arc<Stored>>,
    /// The first key of the next page.
    start: String,
    /// The current page is the last one.
    last: bool,
}

impl Initial {
    /// The next selected object as of the revision at which the cursor started; `None` at the end.
    pub(super) fn next(
        &mut self,
        storage: &Storage,
        cursor: &Cursor,
        request: &WatchRequest,
    ) -> Result<Option<Arc<Stored>>, Lagged> {
        loop {
            if let Some(object) = self.page.find(|object| request.selection.matches(object)) {
                return Ok(Some(object));
            }
            if self.last {
                self.page = Vec::new().into_iter();
                return Ok(None);
            }
            let page = storage.state(cursor, &request.prefix, &self.start, PAGE)?;
            self.last = page.len() < PAGE;
            if let Some(last) = page.last() {
                self.start = format!("{}\0", last.key);
            }
            self.page = page.into_iter();
        }
    }
}
