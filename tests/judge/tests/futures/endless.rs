//! Futures that never end, and waiting until they were polled a number of times. Waiting for a
//! fixed time would not be reliable on a busy machine.

use std::future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::time;

/// Counts the polls of a future.
#[derive(Clone, Default)]
pub struct Polls(Arc<AtomicU32>);

impl Polls {
    /// Waits until the future was polled `count` times.
    pub async fn reach(&self, count: u32) {
        // Relaxed, here and in `endless`: the count orders no other memory.
        while self.0.load(Ordering::Relaxed) < count {
            time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Returns a future that never ends and wakes itself `wakes` times, and the count of its polls.
pub fn endless(wakes: u32) -> (impl Future<Output = ()> + Send + 'static, Polls) {
    let polls = Polls::default();
    let polled = polls.clone();
    let endless = future::poll_fn(move |context| {
        if polled.0.fetch_add(1, Ordering::Relaxed) < wakes {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    });
    (endless, polls)
}
