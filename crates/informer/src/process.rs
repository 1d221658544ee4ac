//! Simulated processes. A process can be suspended, as by SIGSTOP: none of its tasks runs until it resumes. Only the
//! simulator's build (`--cfg deliberate_bug`) has them.

#[cfg(deliberate_bug)]
pub use simulated::{Process, in_process};

/// A task of the current process. Outside of the simulator, this is the task itself.
#[cfg(not(deliberate_bug))]
#[inline(always)]
pub fn in_process<F: Future>(task: F) -> F {
    task
}

#[cfg(deliberate_bug)]
mod simulated {
    use std::cell::RefCell;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use parking_lot::Mutex;

    thread_local! {
        /// The process of the task that is being polled.
        static CURRENT: RefCell<Option<Process>> = const { RefCell::new(None) };
    }

    /// A process: the tasks that run in it, and those that they spawn. Clones are handles to the same one.
    #[derive(Clone, Debug, Default)]
    pub struct Process(Arc<Mutex<Execution>>);

    #[derive(Debug, Default)]
    struct Execution {
        is_suspended: bool,
        /// The tasks that were due meanwhile.
        due: Vec<Waker>,
    }

    /// A task of a process.
    struct ProcessTask<F> {
        process: Option<Process>,
        task: Pin<Box<F>>,
    }

    /// Restores the process of the outer task.
    struct Outer(Option<Process>);

    /// A task of the current process.
    pub fn in_process<F: Future>(task: F) -> impl Future<Output = F::Output> {
        ProcessTask { process: CURRENT.with_borrow(Clone::clone), task: Box::pin(task) }
    }

    impl Process {
        /// Runs a task in this process.
        pub fn run<F: Future>(&self, task: F) -> impl Future<Output = F::Output> + use<F> {
            ProcessTask { process: Some(self.clone()), task: Box::pin(task) }
        }

        /// Suspends all tasks.
        pub fn suspend(&self) {
            self.0.lock().is_suspended = true;
        }

        /// Continues.
        pub fn resume(&self) {
            let due = {
                let mut execution = self.0.lock();
                execution.is_suspended = false;
                std::mem::take(&mut execution.due)
            };
            due.into_iter().for_each(Waker::wake);
        }
    }

    impl<F: Future> Future for ProcessTask<F> {
        type Output = F::Output;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
            if let Some(process) = &self.process {
                let mut execution = process.0.lock();
                if execution.is_suspended {
                    execution.due.push(context.waker().clone());
                    return Poll::Pending;
                }
            }
            let process = self.process.clone();
            let _outer = Outer(CURRENT.with_borrow_mut(|current| std::mem::replace(current, process)));
            self.task.as_mut().poll(context)
        }
    }

    impl Drop for Outer {
        fn drop(&mut self) {
            CURRENT.with_borrow_mut(|current| *current = self.0.take());
        }
    }
}
