//! The head of a list: what stands beside its items.

use crate::error::Result;
use crate::proto::Reader;

/// What a list says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListHead {
    /// apiVersion of the list.
    pub api_version: String,
    /// kind of the list: `PodList`; `Table` or `Status` when the server answered with something else.
    pub kind: String,
    /// The resourceVersion the list was taken at.
    pub resource_version: String,
    /// Token for the next page; empty on the last one.
    pub continue_token: String,
    /// How many items follow on later pages, where the server says so.
    pub remaining_item_count: Option<i64>,
    /// Names of the first JSON members that no list has, for messages about answers that are something else.
    pub other_members: Vec<String>,
}

/// How many [other members](ListHead::other_members) are remembered, and how long their names may be.
const OTHER_MEMBERS_MAX: usize = 8;
const OTHER_MEMBER_BYTES_MAX: usize = 64;

impl ListHead {
    /// Remembers a member that no list has.
    pub(crate) fn add_other_member(&mut self, name: &str) {
        if self.other_members.len() < OTHER_MEMBERS_MAX && name.len() <= OTHER_MEMBER_BYTES_MAX {
            self.other_members.push(name.to_owned());
        }
    }

    /// Reads a `ListMeta` message.
    pub(super) fn read_protobuf(&mut self, bytes: &[u8]) -> Result<()> {
        let mut reader = Reader::new(bytes);
        while let Some(tag) = reader.tag()? {
            match tag.number {
                2 => reader.expect_string(tag)?.clone_into(&mut self.resource_version),
                3 => reader.expect_string(tag)?.clone_into(&mut self.continue_token),
                4 => self.remaining_item_count = Some(reader.expect_varint(tag)?.cast_signed()),
                _ => reader.skip(tag.wire_type)?,
            }
        }
        Ok(())
    }
}
