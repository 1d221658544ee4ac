//! A live, local mirror of Kubernetes objects.

mod key;
mod lister;
pub mod queue;
pub mod reflector;
mod selector;
mod shared;
pub mod source;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod version;

pub use key::{InvalidKey, Key};
pub use lister::{Lister, View};
pub use selector::{FieldSelector, InvalidSelector, LabelSelector};
pub use shared::{
    DecodeError, Event, EventHandler, Filtered, HandlerHandle, Informer, InformerBuilder, InformerFactory,
    InformerState, ListenerConfig, NotSynced, Object, ScopeStatus, StartError, Stopped, Subscription,
    SyncError, Unsynced, WaitError,
};
pub use store::{Index, Origin};
pub use version::compare_resource_versions;
