//! Tasks that go on until one of them was on two threads, which is no matter of luck then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::task;

/// Blocks its thread and gives way by turns, until one of those with this flag was polled on another
/// thread than before: while a thread is blocked, others take over what waits there.
pub async fn wander(has_wandered: Arc<AtomicBool>) {
    let first = thread::current().id();
    // Relaxed, here and below: nothing is handed over with it.
    while !has_wandered.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(1));
        task::yield_now().await;
        if thread::current().id() != first {
            has_wandered.store(true, Ordering::Relaxed);
        }
    }
}
