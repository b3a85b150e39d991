//! Threads that sort and encode while the caller reads on.

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The maximum number of threads. The thread that reads cannot keep more of them busy.
const THREADS_MAX: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

/// Threads that run jobs. They end when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    jobs: Sender<Job>,
}

/// The result of a job, once it is there.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    result: Receiver<thread::Result<T>>,
}

impl Workers {
    /// Starts a thread per core, but not more than are of use.
    pub(crate) fn start() -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let (jobs, queue) = channel::<Job>();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..cores.min(THREADS_MAX) {
            let queue = Arc::clone(&queue);
            let run = move || {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    match next {
                        Ok(job) => job(),
                        Err(_) => break,
                    }
                }
            };
            // Without this thread, the others do the work; `wait` does it if there is none.
            let _ = thread::Builder::new().name("lake".to_owned()).spawn(run);
        }
        Self { jobs }
    }

    /// Runs `job` on one of the threads.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Pending<T> {
        let (done, result) = channel();
        let job = move || {
            // A caller that has failed does not wait for the result.
            let _ = done.send(catch_unwind(AssertUnwindSafe(job)));
        };
        if let Err(refused) = self.jobs.send(Box::new(job)) {
            (refused.0)();
        }
        Pending { result }
    }
}

impl<T> Pending<T> {
    /// Waits for the result. If the job panicked, so does this.
    pub(crate) fn wait(self) -> T {
        match self.result.recv() {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => unreachable!("a job sends its result"),
        }
    }
}
