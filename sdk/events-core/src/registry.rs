//! Which call sites and recorders there are.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use crate::call_site::{CallSite, RECORDERS_MAX, Recorder, UNREGISTERED};

/// How often a thread tries to lock the registry. In a forked child, a thread of the parent may hold it for ever.
const LOCK_ATTEMPTS: u32 = 10_000;

/// In the order in which they were connected.
type Recorders = [Option<&'static dyn Recorder>; RECORDERS_MAX];

struct Registry {
    /// The call site that was registered last. Each one leads to the one before.
    newest: Option<&'static CallSite>,
    recorders: Recorders,
}

/// Nothing that is done under the lock allocates or calls a recorder.
static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    newest: None,
    recorders: [None; RECORDERS_MAX],
});

/// The error of [`connect`]: the program has [`RECORDERS_MAX`] recorders already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyRecorders;

impl fmt::Display for TooManyRecorders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "events of libraries: the program has {RECORDERS_MAX} recorders already; \
             use one of them, as by depending on one version of `tracezero`"
        )
    }
}

impl std::error::Error for TooManyRecorders {}

/// Connects a recorder for good. It gets to know all call sites: those that threads have reached before this call
/// returns, the others when a thread reaches them.
///
/// # Errors
///
/// If there are [`RECORDERS_MAX`] recorders.
pub fn connect(recorder: &'static dyn Recorder) -> Result<(), TooManyRecorders> {
    let (index, newest) = {
        let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
        let mut places = registry.recorders.iter();
        let index = places.position(Option::is_none).ok_or(TooManyRecorders)?;
        registry.recorders[index] = Some(recorder);
        (index, registry.newest)
    };
    let mut next = newest;
    while let Some(site) = next {
        // First: a thread that finds the call site on before the recorder is in its place introduces it again.
        site.forget_registration();
        site.introduce(index, recorder);
        next = site.previous.get().copied().flatten();
    }
    Ok(())
}

impl CallSite {
    /// Makes the call site known to all recorders. Returns those that have turned it on.
    #[cold]
    #[inline(never)]
    pub(crate) fn register(&'static self) -> u32 {
        if let Some(recorders) = add_call_site(self) {
            let mut is_known_to_all = true;
            for (index, recorder) in recorders.iter().enumerate() {
                if let Some(recorder) = recorder {
                    is_known_to_all &= self.introduce(index, *recorder);
                }
            }
            if is_known_to_all {
                // Relaxed: at worst another thread does the same.
                self.active.fetch_and(!UNREGISTERED, Ordering::Relaxed);
            }
        }
        // Relaxed: as in `active`.
        self.active.load(Ordering::Relaxed) & !UNREGISTERED
    }
}

/// Adds a call site, unless it is there. Returns the recorders that it has to be introduced to; `None` if the
/// registry stays locked.
fn add_call_site(site: &'static CallSite) -> Option<Recorders> {
    let mut registry = lock()?;
    if site.previous.set(registry.newest).is_ok() {
        registry.newest = Some(site);
    }
    Some(registry.recorders)
}

fn lock() -> Option<MutexGuard<'static, Registry>> {
    for _ in 0..LOCK_ATTEMPTS {
        match REGISTRY.try_lock() {
            Ok(registry) => return Some(registry),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => thread::yield_now(),
        }
    }
    None
}
