//! An error response with an arbitrary content type and body.
#![no_main]

use kube_wire::Status;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, u8, &[u8])| {
    let (code, content_type, body) = input;
    let content_type =
        ["application/json", "application/vnd.kubernetes.protobuf", "text/html", ""][usize::from(content_type) % 4];
    let status = Status::from_response(code, content_type, Some("1"), body);
    let _ = (status.to_string(), status.is_expired(), status.is_too_large_resource_version());
});
