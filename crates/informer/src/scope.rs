//! The number of a reflector among those that fill one store.

/// Names one of the reflectors that write to a sink.
///
/// An informer over several namespaces is several reflectors with one sink. Everything that is true of a stream is true of
/// one scope only: its resourceVersion, its epoch, whether it is synced, and which objects a list replaces. One shared
/// resourceVersion would lose events, and an unscoped replace would delete the objects of other scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope(pub u16);
