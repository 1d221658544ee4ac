//! Gets the complete state by LIST: which resourceVersion to request, with which page size, and what to do when the server
//! no longer has it.

use std::sync::Arc;

use futures::StreamExt;
use kube_wire::{ListHead, RawObject};
use tokio::task::coop::cooperative;

use super::decide::{Decision, During, decide};
use super::{CycleEnd, NextStep, Reflector, ReflectorConfig, ReflectorError, ReflectorState};
use crate::queue::{Replace, Sink};
use crate::source::{ListOptions, ListPart, SourceError, list_type};

/// A list read to its end, ready to commit.
struct Listed<R> {
    replace: R,
    version: String,
    paginated: bool,
}

/// A list whose pages never end.
#[derive(Debug, thiserror::Error)]
#[error("invalid list: the server answers a `continue` token with the same token")]
struct EndlessList;

impl<S: Sink> Reflector<S> {
    /// Lists everything and commits it to the sink as one replace.
    pub(super) async fn list(&mut self) -> Result<(), CycleEnd> {
        self.enter(ReflectorState::Listing);
        let version = self.relist_version();
        let limit = self.page_limit(&version);
        let listed = match self.list_pages(&version, limit).await? {
            Ok(listed) => listed,
            Err(error) if decide(During::List, &error) == Decision::AskForMostRecent => {
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
        let mut replace = self.sink.begin_replace(self.scope).await?;
        let mut paginated = false;
        let mut list_version = None;
        loop {
            let on_later_page = !options.continue_token.is_empty();
            let head = match self.list_page(options.clone(), &mut replace).await? {
                Ok(head) => head,
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
                        return Ok(Ok(Listed { replace, version, paginated }));
                    }
                    drop(replace);
                    replace = self.sink.begin_replace(self.scope).await?;
                    list_version = None;
                    options = ListOptions { limit: None, ..first.clone() };
                    continue;
                }
                Err(error) => return Ok(Err(error)),
            };
            // All pages show the state of the first one.
            let list_version = list_version.get_or_insert(head.resource_version);
            if head.continue_token.is_empty() {
                return Ok(Ok(Listed { replace, version: list_version.clone(), paginated }));
            }
            if head.continue_token == options.continue_token {
                return Ok(Err(SourceError::Other(Arc::new(EndlessList))));
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

    /// Reads one page into a replace.
    async fn list_page(
        &self,
        options: ListOptions,
        replace: &mut S::Replace,
    ) -> Result<Result<ListHead, SourceError>, CycleEnd> {
        let mut parts = match self.source.list(options).await {
            Ok(parts) => parts,
            Err(error) => return Ok(Err(error)),
        };
        // Let other tasks run, however much of the list has arrived.
        while let Some(part) = cooperative(parts.next()).await {
            match part {
                Ok(ListPart::Item(object)) => {
                    if let Some(error) = self.unexpected_item(&object) {
                        return Ok(Err(error));
                    }
                    if !self.is_foreign(&object)
                        && let Err(error) = replace.put(object)
                    {
                        self.refused(error)?;
                    }
                }
                Ok(ListPart::End(head)) => return Ok(self.check_list(head)),
                Err(error) if error.is_about_one_object() => {
                    // Skip it. Its cached state stays, if the error names its key.
                    if let Some(key) = error.key() {
                        replace.keep(&key);
                    }
                    self.report(&ReflectorError::Object(error).into(), NextStep::ReadOn);
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Err(SourceError::Wire(kube_wire::Error::Truncated { what: "list", at: 0 })))
    }

    /// An item of another kind invalidates the whole list: without the item, the object would count as deleted.
    fn unexpected_item(&self, object: &RawObject) -> Option<SourceError> {
        let expected = self.expected.as_ref().filter(|expected| *expected != object.type_meta())?;
        let found = format!("an item of kind {}", object.type_meta());
        Some(SourceError::UnexpectedKind { expected: format!("a list of {expected}"), found })
    }

    /// A list of another kind is not the state of this one. (Only sources other than API servers return lists without a
    /// kind.)
    pub(super) fn check_list(&self, head: ListHead) -> Result<ListHead, SourceError> {
        if !(head.kind.is_empty() && head.api_version.is_empty()) {
            list_type::check(&head, self.expected.as_ref())?;
        }
        Ok(head)
    }
}
