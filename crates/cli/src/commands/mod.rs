//! The subcommands, one module each.

pub(crate) mod apiserver;
pub(crate) mod demo;
pub(crate) mod get;
pub(crate) mod serve;
pub(crate) mod top;
pub(crate) mod wait;
pub(crate) mod watch;
