//! Which call sites and recorders there are.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use crate::call_site::{CallSite, RECORDERS_MAX, Recorder};

/// How often a thread tries to lock the registry. In a forked child, a thread of the parent may hold it for ever.
const LOCK_ATTEMPTS: u32 = 10_000;

struct Registry {
    /// The call site that was registered last. Each one leads to the one before.
    newest: Option<&'static CallSite>,
    /// In the order in which they were connected.
    recorders: [Option<&'static dyn Recorder>; RECORDERS_MAX],
    recorder_count: usize,
}

/// Nothing that is done under the lock allocates or calls a recorder.
static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    newest: None,
    recorders: [None; RECORDERS_MAX],
    recorder_count: 0,
});

/// Whether the registry was locked for so long that its owner is gone: each attempt is one look then.
static IS_STUCK: AtomicBool = AtomicBool::new(false);

/// The error of [`connect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectError(Reason);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    TooMany,
    Stuck,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reason::TooMany => write!(
                f,
                "events of libraries: the program has {RECORDERS_MAX} recorders already; use one of them, as by \
                 depending on one version of `tracezero`"
            ),
            Reason::Stuck => f.write_str(
                "events of libraries: this process was forked while another thread registered a call site; \
                 execute a program in the child",
            ),
        }
    }
}

impl std::error::Error for ConnectError {}

/// Connects a recorder for good. It gets to know all call sites: those that threads have reached already within this
/// call, the others when a thread reaches them.
///
/// # Errors
///
/// If there are [`RECORDERS_MAX`] recorders, or in a forked child of a process that was just registering a call site.
pub fn connect(recorder: &'static dyn Recorder) -> Result<(), ConnectError> {
    let (index, newest) = {
        let mut registry = lock().ok_or(ConnectError(Reason::Stuck))?;
        let index = registry.recorder_count;
        let place = registry.recorders.get_mut(index);
        *place.ok_or(ConnectError(Reason::TooMany))? = Some(recorder);
        registry.recorder_count += 1;
        (index, registry.newest)
    };
    let mut next = newest;
    while let Some(site) = next {
        // Before: a thread that finds the call site on while the recorder is not in its place introduces it again.
        site.forget_registration();
        site.introduce(index, recorder);
        next = site.previous.get().copied().flatten();
    }
    Ok(())
}

impl CallSite {
    /// Makes the call site known to all recorders.
    #[cold]
    #[inline(never)]
    pub(crate) fn register(&'static self) {
        let Some(mut registry) = lock() else {
            return;
        };
        if self.previous.set(registry.newest).is_ok() {
            registry.newest = Some(self);
        }
        let (recorders, recorder_count) = (registry.recorders, registry.recorder_count);
        drop(registry);
        let mut is_known_to_all = true;
        for (index, recorder) in recorders.iter().enumerate() {
            if let Some(recorder) = recorder {
                is_known_to_all &= self.introduce(index, *recorder);
            }
        }
        // A recorder that was connected meanwhile may have declined the call site: the next event asks again.
        let Some(registry) = lock().filter(|_| is_known_to_all) else {
            return;
        };
        if registry.recorder_count == recorder_count {
            self.note_registered();
        }
    }
}

fn lock() -> Option<MutexGuard<'static, Registry>> {
    // Relaxed: a hint.
    let attempts = if IS_STUCK.load(Ordering::Relaxed) {
        1
    } else {
        LOCK_ATTEMPTS
    };
    for _ in 0..attempts {
        match REGISTRY.try_lock() {
            Ok(registry) => return Some(registry),
            Err(TryLockError::Poisoned(poisoned)) => {
                return Some(PoisonError::into_inner(poisoned));
            }
            Err(TryLockError::WouldBlock) => thread::yield_now(),
        }
    }
    IS_STUCK.store(true, Ordering::Relaxed);
    None
}
