//! Waiting for what other threads and processes bring about.

use std::thread;
use std::time::Duration;

/// The number of looks, one in a millisecond: for longer than anything takes that does not hang. Not a time,
/// since the machine may stand still meanwhile.
const LOOKS_MAX: u32 = 30_000;

/// Looks until there is something to return; `None` if it seems to hang.
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

/// Waits until this holds.
#[track_caller]
pub fn wait_until(mut holds: impl FnMut() -> bool) {
    let found = wait_for(|| holds().then_some(()));
    assert!(found.is_some(), "it did not come to that");
}
