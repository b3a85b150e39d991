//! The thread of an instance: reads the kernel's pages in time, and answers flushes.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tracezero::{Flushing, Stopping};

use super::recorder::Recorder;

/// The name of the thread.
const THREAD_NAME: &str = "tracezero-ftrace";

/// The thread of an instance.
#[derive(Debug)]
pub(super) struct Reader(Requests);

/// The way to the thread of an instance.
#[derive(Clone, Debug)]
pub(super) struct Requests(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    requests: Mutex<Queue>,
    /// Wakes up the thread, which looks at `requests` then.
    wake: OwnedFd,
}

#[derive(Debug, Default)]
struct Queue {
    requests: VecDeque<Request>,
    /// True if no thread will take further requests.
    has_ended: bool,
}

/// What the thread is asked to do.
#[derive(Debug)]
enum Request {
    Flush(Flushing),
    Stop(Stopping),
    /// Nobody waits for packets any more.
    Quit,
}

impl Reader {
    /// Starts the thread, for a recorder that has started.
    pub(super) fn start(recorder: Recorder) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared {
            requests: Mutex::default(),
            wake,
        });
        let of_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name(THREAD_NAME.to_owned())
            .spawn(move || {
                let _end = End(&of_thread);
                run(recorder, &of_thread);
            })?;
        Ok(Self(Requests(shared)))
    }

    /// Returns the way to the thread.
    pub(super) fn requests(&self) -> Requests {
        self.0.clone()
    }
}

impl Requests {
    /// Writes all events up to now, then drops `flushing`.
    pub(super) fn flush(&self, flushing: Flushing) {
        self.0.ask(Request::Flush(flushing));
    }

    /// Stops the tracer, writes all events, then drops `stopping`. The thread ends.
    pub(super) fn stop(&self, stopping: Stopping) {
        self.0.ask(Request::Stop(stopping));
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Does not wait for the thread: this may run on it.
        self.0.0.ask(Request::Quit);
    }
}

impl Shared {
    fn ask(&self, request: Request) {
        let mut requests = self.requests.lock();
        if requests.has_ended {
            // Not locked: an answer calls the service.
            drop(requests);
            return drop(request);
        }
        requests.requests.push_back(request);
        drop(requests);
        // Fails only if the counter is full, and then the thread wakes up anyway.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Waits for a request, for a buffer of the kernel that has filled, or until the time has come.
    fn wait(&self, pipes: &[BorrowedFd<'_>], time: Duration) {
        let wake = self.wake.as_fd();
        let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds: Vec<PollFd<'_>> = pipes.iter().copied().chain([wake]).map(readable).collect();
        // An interrupted wait is a wake-up: the thread looks around and waits again.
        let _ = poll(&mut fds, Timespec::try_from(time).ok().as_ref());
        // The buffer of a CPU that is offline is always ready, and has nothing.
        if fds.iter().any(|fd| fd.revents().contains(PollFlags::ERR)) {
            fds.retain(|fd| !fd.revents().contains(PollFlags::ERR));
            let _ = poll(&mut fds, Timespec::try_from(time).ok().as_ref());
        }
        let _ = rustix::io::read(&self.wake, &mut [0_u8; 8]);
    }
}

/// Answers everything when the thread ends, also by a panic.
struct End<'s>(&'s Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let left = {
            let mut requests = self.0.requests.lock();
            requests.has_ended = true;
            std::mem::take(&mut requests.requests)
        };
        // Not locked: an answer calls the service.
        drop(left);
    }
}

fn run(mut recorder: Recorder, shared: &Shared) {
    recorder.write_start();
    loop {
        shared.wait(
            &recorder.filling_pipes(),
            until_tick(recorder.drain_period()),
        );
        let requests = std::mem::take(&mut shared.requests.lock().requests);
        if requests.is_empty() {
            // A daemon that disconnects ends the session without a word to this thread.
            if !recorder.has_session() {
                return;
            }
            recorder.read();
        }
        for request in requests {
            match request {
                Request::Flush(flushing) => {
                    recorder.flush();
                    drop(flushing);
                }
                Request::Stop(stopping) => {
                    recorder.stop();
                    // The process may end as soon as the session has stopped.
                    drop(recorder);
                    drop(stopping);
                    return;
                }
                Request::Quit => return,
            }
        }
    }
}

/// Returns the time until the next multiple of the period by the wall clock, at which all recorders of
/// a machine wake up together.
fn until_tick(period: Duration) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ns = now.unwrap_or_default().as_nanos();
    let period_ns = period.as_nanos().max(1);
    let rest_ns = period_ns - now_ns % period_ns;
    Duration::from_nanos(u64::try_from(rest_ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_tick_is_within_a_period() {
        for ms in [1, 100, 60_000] {
            let period = Duration::from_millis(ms);
            let wait = until_tick(period);
            assert!(!wait.is_zero() && wait <= period, "{wait:?} of {period:?}");
        }
    }
}
