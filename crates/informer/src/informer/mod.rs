//! Informers: one watch and one store per kind, shared by all users.
//!
//! Reflectors fill a queue (`sink.rs`). The apply loop (`core.rs`) takes batches from it, applies them to the store, and
//! publishes the changes to the listeners (`listeners.rs`), each with its own backlog (`backlog.rs`). All of that is
//! independent of types; [`Informer`], [`Object`] and [`Event`] are a thin typed layer on top.

mod backlog;
mod builder;
mod coalesce;
mod core;
mod decode;
mod decoder;
mod defaults;
mod definition;
mod error;
mod event;
mod factory;
mod handler;
#[expect(clippy::module_inception, reason = "the file of the type that the module is named for")]
mod informer;
mod label_query;
mod listeners;
mod mailbox;
mod namespaces;
mod object;
mod scopes;
mod settings;
mod shards;
mod sink;
mod subscription;

pub use self::core::InformerState;
pub use builder::InformerBuilder;
pub use error::{DecodeError, StartError, Stopped, SyncError, WaitError};
pub use event::Event;
pub use factory::{InformerFactory, NotSynced};
pub use handler::{EventHandler, Filtered, HandlerHandle};
pub use informer::Informer;
pub use label_query::LabelQuery;
pub use listeners::ListenerConfig;
pub use object::Object;
pub use scopes::ScopeStatus;
pub use settings::Selectors;
pub use sink::{StoreReplace, StoreSink};
pub use subscription::Subscription;

#[cfg(feature = "metrics")]
pub(crate) use self::core::Core;
pub(crate) use self::core::Owner;
pub(crate) use decoder::Decoder;
