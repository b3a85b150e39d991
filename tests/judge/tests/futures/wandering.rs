//! Tasks that continue until one of them has moved to another thread, so that a test need not rely
//! on luck.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::task;

/// Blocks its thread and yields, by turns, until one of the tasks that share this flag was polled
/// on another thread than before. While a thread is blocked, other threads take over its waiting
/// tasks.
pub async fn wander(has_wandered: Arc<AtomicBool>) {
    let first = thread::current().id();
    // Relaxed, here and below: the flag orders no other memory.
    while !has_wandered.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(1));
        task::yield_now().await;
        if thread::current().id() != first {
            has_wandered.store(true, Ordering::Relaxed);
        }
    }
}
