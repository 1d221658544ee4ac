//! Gets the complete state by LIST: which resourceVersion to request, with which page size, and what to do when the server
//! no longer has it.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt;
use kube_wire::{ListHead, RawObject};
use tokio::task::coop::cooperative;
use tokio::time::Instant;
use twox_hash::XxHash3_64;

use super::decide::{Decision, During, decide, is_version_in_doubt};
use super::{CycleEnd, InvalidList, NextStep, Reflector, ReflectorConfig, ReflectorError, ReflectorState};
use crate::object::key_hash;
use crate::queue::{Replace, Sink, SinkError};
use crate::source::{ListOptions, ListPart, SourceError, list_type};

/// After this many pages in a row without a new object, a list has no end. A server may return a few empty pages, for
/// example because the objects of a page do not match a selector.
const PAGES_IN_VAIN_MAX: u32 = 100;

/// A list read to its end, ready to commit.
struct Listed<R> {
    replace: R,
    version: String,
    paginated: bool,
    /// Every item could be identified.
    complete: bool,
}

/// Detects a list whose pages never end.
#[derive(Default)]
struct PageProgress {
    /// Hashes of the tokens so far.
    tokens: BTreeSet<u64>,
    /// Hashes of the keys of the first objects of the pages so far. The pages of a list have no object in common.
    firsts: BTreeSet<u64>,
    pages_in_vain: u32,
}

/// One page.
struct ListPage {
    head: ListHead,
    /// The hash of the first object's key.
    first: Option<u64>,
    /// Every item could be identified.
    complete: bool,
}

impl<S: Sink> Reflector<S> {
    /// Lists everything and commits it to the sink as one replace.
    pub(super) async fn list(&mut self) -> Result<(), CycleEnd> {
        self.enter(ReflectorState::Listing);
        self.unwatched_since = Some(Instant::now());
        let version = self.relist_version();
        let limit = self.page_limit(&version);
        let listed = match self.list_pages(&version, limit).await? {
            Ok(listed) => listed,
            Err(error)
                if decide(During::List, &error) == Decision::AskForMostRecent
                    || is_version_in_doubt(&version, &error) =>
            {
                // Immediately: waiting would not make the resourceVersion available again.
                self.version_unavailable = true;
                self.report(&ReflectorError::List(error).into(), NextStep::AskForMostRecent);
                let version = self.relist_version();
                self.list_pages(&version, limit)
                    .await?
                    .map_err(|error| CycleEnd::because(ReflectorError::List(error)))?
            }
            Err(error) => return Err(CycleEnd::because(ReflectorError::List(error))),
        };
        if version == "0" && listed.paginated {
            self.paginated = true;
        }
        let committed = listed.replace.commit(&listed.version).await?;
        self.listed(&listed.version, committed.new_epoch);
        self.incomplete = !listed.complete;
        Ok(())
    }

    /// The resourceVersion to request in a list.
    fn relist_version(&self) -> String {
        let last = self.last_version.get();
        if self.version_unavailable {
            String::new()
        } else if last.is_empty() {
            "0".to_owned()
        } else {
            last
        }
    }

    /// The page size. The server's cache answers a list at a certain resourceVersion only without pages.
    fn page_limit(&self, version: &str) -> Option<u32> {
        self.config
            .page_size
            .or_else(|| (matches!(version, "" | "0") || self.paginated).then_some(ReflectorConfig::PAGE_SIZE))
    }

    /// Reads a list page by page into a replace.
    async fn list_pages(
        &self,
        version: &str,
        limit: Option<u32>,
    ) -> Result<Result<Listed<S::Replace>, SourceError>, CycleEnd> {
        let first = ListOptions { resource_version: version.to_owned(), limit, ..ListOptions::default() };
        let mut options = first.clone();
        let mut replace = self.begin_replace().await?;
        let mut paginated = false;
        let mut complete = true;
        let mut list_version = None;
        let mut progress = PageProgress::default();
        loop {
            let on_later_page = !options.continue_token.is_empty();
            let page = match self.list_page(options.clone(), &mut replace).await? {
                Ok(page) => page,
                // The rest of the list has expired, so the first pages are useless: list again without pages. Only once: a
                // server that ignores the limit would never finish.
                Err(SourceError::Status(status))
                    if on_later_page && options.limit.is_some() && status.reason == "Expired" =>
                {
                    self.report(
                        &ReflectorError::List(SourceError::Status(status)).into(),
                        NextStep::ListInstead(std::time::Duration::ZERO),
                    );
                    if deliberate_bug!("partial-list-accepted")
                        && let Some(version) = list_version
                    {
                        return Ok(Ok(Listed { replace, version, paginated, complete }));
                    }
                    drop(replace);
                    replace = self.begin_replace().await?;
                    list_version = None;
                    complete = true;
                    progress = PageProgress::default();
                    options = ListOptions { limit: None, ..first.clone() };
                    continue;
                }
                Err(error) => return Ok(Err(error)),
            };
            let ListPage { head, first: first_object, complete: is_page_complete } = page;
            complete &= is_page_complete;
            // All pages show the state of the first one.
            let list_version = list_version.get_or_insert(head.resource_version);
            if head.continue_token.is_empty() {
                return Ok(Ok(Listed { replace, version: list_version.clone(), paginated, complete }));
            }
            if let Err(endless) = progress.page(&head.continue_token, first_object) {
                return Ok(Err(SourceError::Other(Arc::new(endless))));
            }
            paginated = true;
            options = ListOptions {
                resource_version: String::new(),
                continue_token: head.continue_token,
                limit: options.limit,
                ..first.clone()
            };
        }
    }

    /// Begins to replace the state of this scope.
    pub(super) async fn begin_replace(&self) -> Result<S::Replace, SinkError> {
        let mut replace = self.sink.begin_replace(self.scope).await?;
        if let Some(shard) = self.source.shard() {
            replace.within(shard);
        }
        Ok(replace)
    }

    /// Reads one page into a replace.
    async fn list_page(
        &self,
        options: ListOptions,
        replace: &mut S::Replace,
    ) -> Result<Result<ListPage, SourceError>, CycleEnd> {
        let mut parts = match self.source.list(options).await {
            Ok(parts) => parts,
            Err(error) => return Ok(Err(error)),
        };
        let (mut first, mut complete) = (None, true);
        // Let other tasks run, however much of the list has arrived.
        while let Some(part) = cooperative(parts.next()).await {
            match part {
                Ok(ListPart::Item(object)) => {
                    if let Some(error) = self.unexpected_item(&object) {
                        return Ok(Err(error));
                    }
                    let head = object.head();
                    if head.name().is_empty() {
                        complete = false;
                        replace.keep_unlisted();
                    }
                    first.get_or_insert_with(|| key_hash(head.namespace(), head.name()));
                    self.put_or_leave(replace, object)?;
                }
                Ok(ListPart::End(head)) => {
                    return Ok(self.check_list(head).map(|head| ListPage { head, first, complete }));
                }
                Err(error) if error.is_about_one_object() => {
                    // Skip it. Its cached state stays; if its key is unknown, it may be any.
                    match error.key() {
                        Some(key) => replace.keep(&key),
                        None => {
                            complete = false;
                            replace.keep_unlisted();
                        }
                    }
                    self.report(&ReflectorError::Object(error).into(), NextStep::ReadOn);
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Err(SourceError::Wire(kube_wire::Error::Truncated { what: "list", at: 0 })))
    }

    /// Adds an object to a replace, unless it belongs to another shard.
    pub(super) fn put_or_leave(&self, replace: &mut S::Replace, object: RawObject) -> Result<(), CycleEnd> {
        if self.is_foreign(&object) {
            if self.source.selects_by_state() {
                replace.leave(&object.head());
            }
        } else if let Err(error) = replace.put(object) {
            self.refused(error)?;
        }
        Ok(())
    }

    /// An item of another kind invalidates the whole list: without the item, the object would count as deleted.
    fn unexpected_item(&self, object: &RawObject) -> Option<SourceError> {
        let expected = self.expected.as_ref().filter(|expected| *expected != object.type_meta())?;
        let found = format!("an item of kind {}", object.type_meta());
        Some(SourceError::UnexpectedKind { expected: format!("a list of {expected}"), found })
    }

    /// A list of another kind is not the state of this one. (Only sources other than API servers return lists without a
    /// kind.) A list whose resourceVersion cannot be used cannot be followed by a watch.
    pub(super) fn check_list(&self, head: ListHead) -> Result<ListHead, SourceError> {
        if !(head.kind.is_empty() && head.api_version.is_empty()) {
            list_type::check(&head, self.expected.as_ref())?;
        }
        InvalidList::check_version(&head.resource_version)?;
        Ok(head)
    }
}

// === impl PageProgress ===

impl PageProgress {
    /// Records a page that is not the last one: the token of the next page, and its first object.
    fn page(&mut self, token: &str, first: Option<u64>) -> Result<(), InvalidList> {
        if !self.tokens.insert(XxHash3_64::oneshot(token.as_bytes())) {
            return Err(InvalidList::TokenRepeated);
        }
        match first.is_some_and(|first| self.firsts.insert(first)) {
            true => self.pages_in_vain = 0,
            false => self.pages_in_vain += 1,
        }
        if self.pages_in_vain >= PAGES_IN_VAIN_MAX {
            return Err(InvalidList::PagesInVain(self.pages_in_vain));
        }
        Ok(())
    }
}
