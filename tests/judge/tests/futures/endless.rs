//! Futures that are never done, and what waits for a poll of theirs: no sleep is long enough on a
//! machine that is busy.

use std::future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::time;

/// How often a future was polled.
#[derive(Clone, Default)]
pub struct Polls(Arc<AtomicU32>);

impl Polls {
    /// Waits until the future was polled so often.
    pub async fn reach(&self, count: u32) {
        // Relaxed, here and in `endless`: nothing is handed over with it.
        while self.0.load(Ordering::Relaxed) < count {
            time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A future that wakes itself so often, is never done, and counts.
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
