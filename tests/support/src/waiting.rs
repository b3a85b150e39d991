//! Waits for the effects of other threads and processes.

use std::thread;
use std::time::Duration;

/// The number of checks, one per millisecond, before the wait counts as hung: about 30 s, longer
/// than any operation takes. Counts checks and not time, because the machine may be suspended
/// meanwhile.
const LOOKS_MAX: u32 = 30_000;

/// Calls `look` until it returns `Some`. Returns `None` after about 30 s.
pub fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..LOOKS_MAX {
        let found = look();
        if found.is_some() {
            return found;
        }
        thread::sleep(Duration::from_millis(1));
    }
    None
}

/// Waits until `holds` returns true.
#[track_caller]
pub fn wait_until(mut holds: impl FnMut() -> bool) {
    let found = wait_for(|| holds().then_some(()));
    assert!(found.is_some(), "it did not come to that");
}
