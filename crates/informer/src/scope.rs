//! Numbers the reflectors that fill one store.

/// Identifies one of the reflectors that write to a sink.
///
/// An informer over several namespaces has one reflector per namespace and one sink. Each scope has its own
/// resourceVersion, epoch and synced state, and a list replaces only the objects of its scope. One shared resourceVersion
/// would lose events; an unscoped replace would delete the objects of other scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope(pub u16);
