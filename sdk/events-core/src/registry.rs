//! The lists of all call sites and recorders of the process.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use crate::call_site::{CallSite, RECORDERS_MAX, Recorder};

/// The number of times that a thread tries to lock the registry before it gives up. In a forked
/// child, the lock may stay locked for ever by a thread that exists only in the parent.
const LOCK_ATTEMPTS: u32 = 10_000;

struct Registry {
    /// The call site that was registered last: the head of a list linked by [`CallSite::previous`].
    newest: Option<&'static CallSite>,
    /// Recorders in the order in which they were connected.
    recorders: [Option<&'static dyn Recorder>; RECORDERS_MAX],
    recorder_count: usize,
}

/// Code that holds this lock neither allocates nor calls a recorder: allocators and recorders may
/// reach a trace point, which may need the lock to register its call site.
static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    newest: None,
    recorders: [None; RECORDERS_MAX],
    recorder_count: 0,
});

/// True once the lock was held for so long that the thread that locked it must be gone. From then
/// on, [`lock`] tries only once.
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
                "cannot record events of libraries: the program has {RECORDERS_MAX} recorders already; use one of \
                 them, for example by depending on only one version of `tracezero`"
            ),
            Reason::Stuck => f.write_str(
                "cannot record events of libraries: this process was forked while another thread registered a call \
                 site; start a new program with exec in the child",
            ),
        }
    }
}

impl std::error::Error for ConnectError {}

/// Connects a recorder for the rest of the process. Asks it for a
/// [`SiteRecorder`](crate::SiteRecorder) for every call site: within this call for the call sites
/// that threads have reached already, later for the other call sites.
///
/// # Errors
///
/// If there are [`RECORDERS_MAX`] recorders already, or if this is a forked child and another
/// thread of the parent was registering a call site at the moment of the fork.
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
        // Do this before `introduce`, which lets the recorder turn the call site on before the
        // `SiteRecorder` is stored. A thread that reaches the call site in between registers it
        // again, and so stores the `SiteRecorder` itself.
        site.forget_registration();
        site.introduce(index, recorder);
        next = site.previous.get().copied().flatten();
    }
    Ok(())
}

impl CallSite {
    /// Adds the call site to the list, and introduces it to all recorders.
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
        // A recorder that was connected meanwhile may have declined the call site. Then the site
        // stays unregistered, and its next event calls this function again.
        let Some(registry) = lock().filter(|_| is_known_to_all) else {
            return;
        };
        if registry.recorder_count == recorder_count {
            self.note_registered();
        }
    }
}

/// Locks the registry. Returns `None` if the thread that locked it is gone.
fn lock() -> Option<MutexGuard<'static, Registry>> {
    // Relaxed: the flag only decides how often to try.
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
