//! The processes of replicas. Only the simulator's build (`--cfg deliberate_bug`) can suspend a process.

#[cfg(deliberate_bug)]
pub(crate) use kube_informer::internals::Process;

/// Whether a process can be suspended.
pub(crate) const CAN_SUSPEND: bool = cfg!(deliberate_bug);

#[cfg(not(deliberate_bug))]
pub(crate) use unsuspended::Process;

#[cfg(not(deliberate_bug))]
mod unsuspended {
    /// A process that cannot be suspended.
    #[derive(Clone, Default)]
    pub(crate) struct Process {}

    impl Process {
        #[allow(clippy::unused_self, reason = "the other build needs it")]
        pub(crate) fn run<F: Future>(&self, task: F) -> F {
            task
        }

        #[allow(clippy::unused_self, reason = "the other build needs it")]
        pub(crate) fn suspend(&self) {}

        #[allow(clippy::unused_self, reason = "the other build needs it")]
        pub(crate) fn resume(&self) {}
    }
}
