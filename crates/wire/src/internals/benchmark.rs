//! The inner steps of reading an object, for benchmarks.

use crate::json;
use crate::limits::Limits;
use crate::projection::{Plan, Projection};
use crate::schema::Message;
use crate::{Result, head};

/// Copies a JSON object through a projection and finds its head, as reading an object does. Returns a digest of the
/// head.
///
/// # Errors
/// If the object is malformed.
pub fn copy_and_head(input: &[u8], projection: &Projection, out: &mut Vec<u8>) -> Result<u64> {
    json::copy::copy(input, projection.root(), &Limits::DEFAULT, out)?;
    let spans = head::json::spans(out)?;
    Ok(u64::from(spans.name.end) + u64::from(spans.labels.end))
}

/// Copies a JSON object through a projection.
///
/// # Errors
/// If the object is malformed.
pub fn copy(input: &[u8], projection: &Projection, out: &mut Vec<u8>) -> Result<usize> {
    Ok(json::copy::copy(input, projection.root(), &Limits::DEFAULT, out)?.consumed)
}

/// The end of the JSON value at the start of `input`.
///
/// # Errors
/// If the value is malformed.
pub fn find_end(input: &[u8]) -> Result<Option<usize>> {
    json::Finder::new().push(input)
}

/// Walks all levels of a JSON value and counts its scalars.
///
/// # Errors
/// If a level is malformed.
pub fn walk(input: &[u8]) -> Result<usize> {
    let mut scalars = 0;
    match json::Value::new(input).kind()? {
        json::JsonType::Object => {
            for member in json::Members::new(input) {
                scalars += walk(member?.1.bytes())?;
            }
        }
        json::JsonType::Array => {
            for element in json::Elements::new(input) {
                scalars += walk(element?.bytes())?;
            }
        }
        _ => scalars = 1,
    }
    Ok(scalars)
}

/// A projection compiled for a protobuf message.
#[derive(Debug)]
pub struct ProtobufPlan(Plan);

impl ProtobufPlan {
    /// Compiles the projection.
    pub fn new(projection: &Projection, message: Option<&'static Message>) -> Self {
        Self(Plan::new(projection, message))
    }

    /// Copies an object's message.
    ///
    /// # Errors
    /// If the message is malformed.
    pub fn copy(&self, body: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.0.copy(body, out)
    }

    /// Copies an object's message and finds its head, as reading an object does. Returns a digest of the head.
    ///
    /// # Errors
    /// If the message is malformed.
    pub fn copy_and_head(&self, body: &[u8], out: &mut Vec<u8>) -> Result<u64> {
        self.0.copy(body, out)?;
        let spans = head::proto::spans(out)?;
        Ok(u64::from(spans.name.end) + u64::from(spans.labels.end))
    }
}
