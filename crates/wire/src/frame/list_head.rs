//! The head of a list: everything except its items.

use crate::error::Result;
use crate::proto::Reader;

/// The metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListHead {
    /// apiVersion of the list.
    pub api_version: String,
    /// kind of the list: `PodList`; `Table` or `Status` if the server responded with something else.
    pub kind: String,
    /// The resourceVersion of the list.
    pub resource_version: String,
    /// Token for the next page; empty on the last one.
    pub continue_token: String,
    /// The number of items on later pages, if the server reports it.
    pub remaining_item_count: Option<i64>,
    /// Names of the first JSON members that are not part of a list, for error messages about unexpected responses.
    pub other_members: Vec<String>,
}

/// Maximum number of [other members](ListHead::other_members), and maximum length of their names.
const OTHER_MEMBERS_MAX: usize = 8;
const OTHER_MEMBER_BYTES_MAX: usize = 64;

impl ListHead {
    /// Records a member that is not part of a list.
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
