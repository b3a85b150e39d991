//! Threads that events of the kernel name, on their way to the lists of processes.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use tracezero::SessionId;

use crate::instance_key::InstanceKey;
use crate::seen_threads::SeenThreads;
use crate::worker::Worker;

/// The instances that look up threads on demand.
static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());

struct Running {
    session: SessionId,
    key: InstanceKey,
    pending: Arc<Pending>,
    worker: Worker,
}

/// The threads that an instance has not looked up yet.
#[derive(Debug, Default)]
pub(super) struct Pending(Mutex<SeenThreads>);

impl Pending {
    /// Takes the threads.
    pub(super) fn take(&self) -> SeenThreads {
        mem::take(&mut self.0.lock())
    }

    fn extend(&self, threads: &SeenThreads) {
        self.0.lock().extend(threads);
    }
}

/// Adds an instance, whose worker looks up what is pending.
pub(super) fn add(session: SessionId, key: InstanceKey, pending: &Arc<Pending>, worker: &Worker) {
    RUNNING.lock().push(Running {
        session,
        key,
        pending: Arc::clone(pending),
        worker: worker.clone(),
    });
}

/// Removes an instance.
pub(super) fn remove(key: InstanceKey) {
    RUNNING.lock().retain(|running| running.key != key);
}

/// Hands threads that events of the kernel named to the lists of processes of a session. The worker of
/// each list looks them up soon, so the caller does not wait for files.
///
/// Call this after each pass over the kernel's buffers, also if no thread was seen: the list then
/// notices sooner that a ring has overwritten it.
///
/// A session of a daemon may have the same number as one of this process. Then both look up the
/// threads, and have some more than they need.
pub(crate) fn note(session: SessionId, threads: &SeenThreads) {
    for running in RUNNING.lock().iter() {
        if running.session == session {
            running.pending.extend(threads);
            running.worker.ask(());
        }
    }
}

/// Returns the sessions whose lists look up threads on demand.
#[cfg(test)]
pub(super) fn sessions() -> Vec<SessionId> {
    let running = RUNNING.lock();
    running.iter().map(|running| running.session).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::worker::Next;

    #[test]
    fn threads_reach_the_lists_of_their_session() {
        let (notes, noted) = channel();
        let instance = |session| {
            let pending = Arc::new(Pending::default());
            let worker = {
                let (pending, notes) = (Arc::clone(&pending), notes.clone());
                Worker::start("test", (), move || {
                    let threads = pending.take();
                    if !threads.seen().is_empty() {
                        let _ = notes.send((session, threads.seen().to_vec()));
                    }
                    Next::WhenAsked
                })
            };
            let key = InstanceKey::unique();
            add(session, key, &pending, &worker);
            (key, worker)
        };
        // No session of a test has such a number.
        let (first, second) = (SessionId::new(u64::MAX), SessionId::new(u64::MAX - 1));
        let workers = [first, second, first].map(instance);
        let mut threads = SeenThreads::default();
        threads.see(42);
        threads.see(0);
        note(first, &threads);
        let reached = [noted.recv().unwrap(), noted.recv().unwrap()];
        assert_eq!(reached, [(); 2].map(|()| (first, [42].into())));
        for (key, worker) in workers {
            remove(key);
            worker.stop(());
        }
        note(second, &threads);
        drop(notes);
        assert!(noted.recv().is_err(), "all workers have ended");
    }
}
