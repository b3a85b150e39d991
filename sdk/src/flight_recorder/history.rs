//! What was recorded: the parts that were taken out of the buffers, and what has come since.
//!
//! ```text
//!    parts, as traces                              in the buffers
//!   +----------------+----+-----------------------+- - - - - - - -
//!   |                |    |                       |  recorded now
//!   +----------------+----+-----------------------+- - - - - - - -
//!                    a snapshot was taken at each line
//! ```
//!
//! A snapshot reads what has come since the last one: that is another part, and the snapshot is a
//! list of parts. So nothing is copied while writers wait, no event is in two parts, and what came
//! before an event cannot be overwritten by what comes after it. Parts stay until as much has come
//! as the buffers hold, for the snapshots that follow.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::cut::Part;
use crate::consumer::{BufferFill, SessionControl};
use tracezero_core::clock;

/// Parts together are at most so many times as large as the buffers, also if somebody waits for
/// more.
const PARTS_MAX_RINGS: usize = 3;

/// The recording so far.
pub(super) struct History {
    control: SessionControl,
    parts: VecDeque<Arc<Part>>,
    /// What the buffers had taken when the newest part was.
    fill_then: Vec<BufferFill>,
    /// What is older is nobody's business.
    keep: Option<Duration>,
}

impl History {
    pub(super) fn new(control: SessionControl, keep: Option<Duration>) -> Self {
        Self {
            fill_then: control.buffer_fill(),
            control,
            parts: VecDeque::new(),
            keep,
        }
    }

    /// Takes what is in the buffers.
    pub(super) fn take(&mut self) {
        let trace = self.control.read_part();
        self.fill_then = self.control.buffer_fill();
        self.parts.push_back(Arc::new(Part {
            trace,
            taken_at_ns: clock::now_ns(),
        }));
    }

    /// What was taken, from the part on that has `from_ns` in it, or from the oldest on.
    pub(super) fn parts_from(&self, from_ns: Option<u64>) -> Vec<Arc<Part>> {
        let is_wanted = |part: &&Arc<Part>| part.taken_at_ns >= from_ns.unwrap_or(0);
        self.parts.iter().filter(is_wanted).cloned().collect()
    }

    /// Where a snapshot begins that was asked for at this time and does not say how far back it
    /// goes, on the trace clock.
    pub(super) fn kept_from_ns(&self, at_ns: u64) -> Option<u64> {
        self.keep.map(|keep| long_before(at_ns, keep))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Forgets parts that nobody needs any more. Somebody waits for what came after `wanted_ns`.
    pub(super) fn forget(&mut self, wanted_ns: Option<u64>) {
        if self.parts.is_empty() {
            return;
        }
        let kept_ns = self.kept_from_ns(clock::now_ns()).unwrap_or(0);
        let has_lapped = self.has_lapped();
        let ring_bytes: u64 = self.fill_then.iter().map(|it| it.size_bytes).sum();
        let ring_bytes = usize::try_from(ring_bytes).unwrap_or(usize::MAX);
        while let Some(oldest) = self.parts.front() {
            let later_bytes: usize = self.parts.iter().skip(1).map(|it| it.trace.len()).sum();
            let is_replaced = has_lapped || later_bytes >= ring_bytes;
            let is_wanted = wanted_ns.is_some_and(|wanted_ns| oldest.taken_at_ns >= wanted_ns);
            let is_of_use = is_wanted || (!is_replaced && oldest.taken_at_ns >= kept_ns);
            let all_bytes = later_bytes + oldest.trace.len();
            let is_affordable =
                later_bytes == 0 || all_bytes <= PARTS_MAX_RINGS.saturating_mul(ring_bytes);
            if is_of_use && is_affordable {
                return;
            }
            self.parts.pop_front();
        }
    }

    /// Whether every buffer was filled since the newest part was taken.
    fn has_lapped(&self) -> bool {
        let now = self.control.buffer_fill();
        let mut pairs = self.fill_then.iter().zip(&now);
        pairs.all(|(then, now)| {
            // A snapshot of the session has the buffer that counted; another one counts anew.
            let since = now.written_bytes.checked_sub(then.written_bytes);
            since.unwrap_or(now.written_bytes) >= now.size_bytes
        })
    }
}

/// The time so long before another one.
pub(super) fn long_before(at_ns: u64, before: Duration) -> u64 {
    at_ns.saturating_sub(u64::try_from(before.as_nanos()).unwrap_or(u64::MAX))
}
