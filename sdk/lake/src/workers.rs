//! Threads that sort and encode while the caller reads on.

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The maximum number of threads. The thread that reads cannot keep more of them busy.
const THREADS_MAX: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

/// Jobs that no thread has begun. A thread that waits for the next one holds the lock.
type Queue = Arc<Mutex<Receiver<Job>>>;

/// Threads that run jobs. They end when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    jobs: Sender<Job>,
    queue: Queue,
}

/// The result of a job, once it is there.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    result: Receiver<thread::Result<T>>,
    queue: Queue,
}

impl Workers {
    /// Starts a thread for each core but the caller's: at least one, and not more than are of use.
    pub(crate) fn start() -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let (jobs, queue) = channel::<Job>();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..cores.saturating_sub(1).clamp(1, THREADS_MAX) {
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
            // Without this thread, the others do the work, and the caller, who waits for it.
            let _ = thread::Builder::new().name("lake".to_owned()).spawn(run);
        }
        Self { jobs, queue }
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
        // The queue is open as long as it is in this value.
        let _ = self.jobs.send(Box::new(job));
        let queue = Arc::clone(&self.queue);
        Pending { result, queue }
    }
}

impl<T> Pending<T> {
    /// Waits for the result, and runs other jobs meanwhile. If the job panicked, so does this.
    pub(crate) fn wait(self) -> T {
        let result = loop {
            match self.result.try_recv() {
                Err(TryRecvError::Empty) => match next_job(&self.queue) {
                    Some(job) => job(),
                    None => break self.result.recv().ok(),
                },
                result => break result.ok(),
            }
        };
        match result {
            Some(Ok(result)) => result,
            Some(Err(panic)) => resume_unwind(panic),
            None => unreachable!("a job sends its result"),
        }
    }
}

/// Returns a job that no thread has begun. If a thread holds the lock, it takes the next one.
fn next_job(queue: &Queue) -> Option<Job> {
    queue.try_lock().ok()?.try_recv().ok()
}
