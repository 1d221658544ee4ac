use super::ListHead;
use crate::{Limits, Result};
use bytes::Bytes;
use std::borrow::Cow;
#[derive(Debug)]
pub(crate) struct Lines;
pub(crate) struct EventText<'a> {
    pub(crate) event_type: Cow<'a, str>,
    pub(crate) object: &'a [u8],
}
impl Lines {
    pub(crate) fn new(_: &Limits) -> Self {
        todo!()
    }
    pub(crate) fn push(&mut self, _: Bytes) {
        todo!()
    }
    pub(crate) fn next(&mut self) -> Option<Result<EventText<'_>>> {
        todo!()
    }
    pub(crate) fn finish(&mut self) -> Result<()> {
        todo!()
    }
}
#[derive(Debug)]
pub(crate) struct ListBody;
impl ListBody {
    pub(crate) fn new(_: &Limits) -> Self {
        todo!()
    }
    pub(crate) fn push(&mut self, _: Bytes) {
        todo!()
    }
    pub(crate) fn next(&mut self) -> Option<Result<(&ListHead, &[u8])>> {
        todo!()
    }
    pub(crate) fn head(&self) -> &ListHead {
        todo!()
    }
    pub(crate) fn finish(self) -> Result<ListHead> {
        todo!()
    }
}
