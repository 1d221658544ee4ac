//! Informers: one watch and one store, shared by everybody who wants to know.
//!
//! Reflectors fill a queue; one loop takes batches from it, applies them to the store, and then tells every listener. All
//! of that knows nothing of types. [`Informer`], [`Object`] and [`Event`] are the thin layer that does.

mod backlog;
mod builder;
mod core;
mod decode;
mod decoder;
mod error;
mod event;
mod factory;
mod coalesce;
mod handler;
mod listeners;
mod informer;
mod mailbox;
mod object;
mod settings;
mod subscription;

pub use self::core::{InformerState, ScopeStatus};
pub use builder::InformerBuilder;
pub use error::{DecodeError, StartError, Stopped, SyncError, WaitError};
pub use event::Event;
pub use factory::{InformerFactory, NotSynced, Unsynced};
pub use handler::{EventHandler, Filtered, HandlerHandle};
pub use listeners::ListenerConfig;
pub use informer::Informer;
pub use object::Object;
pub use settings::Selectors;
pub use subscription::Subscription;

#[cfg(feature = "metrics")]
pub(crate) use self::core::Core;
pub(crate) use self::core::Owner;
pub(crate) use decoder::Decoder;
