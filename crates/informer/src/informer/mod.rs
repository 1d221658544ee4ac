//! Informers: one watch and one store, shared by all who use a kind.
//!
//! Reflectors fill a queue (`sink.rs`); the apply loop (`core.rs`) takes batches from it, applies them to the store, and
//! publishes the changes to the listeners (`listeners.rs`), each of which has a backlog (`backlog.rs`). All of that is
//! independent of types. [`Informer`], [`Object`] and [`Event`] are the thin typed layer.

mod backlog;
mod builder;
mod coalesce;
mod core;
mod decode;
mod decoder;
mod error;
mod event;
mod factory;
mod handler;
#[expect(clippy::module_inception, reason = "the file of the type that the module is named for")]
mod informer;
mod listeners;
mod mailbox;
mod object;
mod settings;
mod sink;
mod subscription;

pub use self::core::{InformerState, ScopeStatus};
pub use builder::InformerBuilder;
pub use error::{DecodeError, StartError, Stopped, SyncError, WaitError};
pub use event::Event;
pub use factory::{InformerFactory, NotSynced, Unsynced};
pub use handler::{EventHandler, Filtered, HandlerHandle};
pub use informer::Informer;
pub use listeners::ListenerConfig;
pub use object::Object;
pub use settings::Selectors;
pub use sink::{StoreReplace, StoreSink};
pub use subscription::Subscription;

#[cfg(feature = "metrics")]
pub(crate) use self::core::Core;
pub(crate) use self::core::Owner;
pub(crate) use decoder::Decoder;
