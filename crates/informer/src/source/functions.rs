//! A source from two functions.

use educe::Educe;
use futures::future::{BoxFuture, FutureExt};
use kube_wire::TypeMeta;

use super::{ListOptions, ListStream, ListerWatcher, SourceError, WatchOptions, WatchStream};

/// A source made from a function that lists and one that watches, for objects that do not come from an API server. The
/// documentation of [`ListerWatcher`] has an example.
#[derive(Educe)]
#[educe(Debug)]
pub struct FunctionSource<L, W> {
    describe: String,
    #[educe(Debug(ignore))]
    list: L,
    #[educe(Debug(ignore))]
    watch: W,
    expected: Option<TypeMeta>,
}

impl<L, W> FunctionSource<L, W> {
    /// A source that calls `list` and `watch`; `describe` names the resource in messages.
    pub fn new(describe: impl Into<String>, list: L, watch: W) -> Self {
        Self { describe: describe.into(), list, watch, expected: None }
    }

    /// Sets the type of all objects: objects of another kind are rejected.
    #[must_use]
    pub fn expect(mut self, type_meta: TypeMeta) -> Self {
        self.expected = Some(type_meta);
        self
    }
}

impl<L, W, FL, FW> ListerWatcher for FunctionSource<L, W>
where
    L: Fn(ListOptions) -> FL + Send + Sync + 'static,
    W: Fn(WatchOptions) -> FW + Send + Sync + 'static,
    FL: Future<Output = Result<ListStream, SourceError>> + Send + 'static,
    FW: Future<Output = Result<WatchStream, SourceError>> + Send + 'static,
{
    fn list(&self, options: ListOptions) -> BoxFuture<'_, Result<ListStream, SourceError>> {
        (self.list)(options).boxed()
    }

    fn watch(&self, options: WatchOptions) -> BoxFuture<'_, Result<WatchStream, SourceError>> {
        (self.watch)(options).boxed()
    }

    fn expected_type(&self) -> Option<TypeMeta> {
        self.expected.clone()
    }

    fn describe(&self) -> String {
        self.describe.clone()
    }
}
