//! The history of a recording: the parts that were taken out of the buffers. Newer packets are
//! still in the buffers.
//!
//! ```text
//!    parts, as traces                              in the buffers
//!   +----------------+----+-----------------------+- - - - - - - -
//!   |                |    |                       |  recorded now
//!   +----------------+----+-----------------------+- - - - - - - -
//!                    a snapshot was taken at each line
//! ```
//!
//! A snapshot reads the packets recorded since the last one. These packets become another part, and
//! the snapshot is a list of parts. So nothing is copied while writers wait, no event is in two
//! parts, and events after a request cannot overwrite those before it. Parts are kept for later
//! snapshots until as many bytes were recorded as the buffers hold.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::cut::Part;
use crate::consumer::{BufferFill, SessionControl};
use tracezero_core::clock;

/// The limit on the size of all parts, as a multiple of the size of the buffers. The limit holds
/// even if a request waits for more.
const PARTS_MAX_RINGS: usize = 3;

/// The parts of a recording.
pub(super) struct History {
    control: SessionControl,
    parts: VecDeque<Arc<Part>>,
    /// The fill of the buffers when the newest part was taken.
    fill_then: Vec<BufferFill>,
    /// How far back to keep parts; `None` keeps all.
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

    /// Takes the content of the buffers as a new part.
    pub(super) fn take(&mut self) {
        let (trace, crash_file) = self.control.read_part();
        self.fill_then = self.control.buffer_fill();
        self.parts.push_back(Arc::new(Part {
            trace,
            taken_at_ns: clock::now_ns(),
            _crash_file: crash_file,
        }));
    }

    /// Returns the part that contains the time `from_ns`, and all later parts. Returns all parts
    /// for `None`.
    pub(super) fn parts_from(&self, from_ns: Option<u64>) -> Vec<Arc<Part>> {
        let is_wanted = |part: &&Arc<Part>| part.taken_at_ns >= from_ns.unwrap_or(0);
        self.parts.iter().filter(is_wanted).cloned().collect()
    }

    /// Returns the time at which a snapshot begins, on the trace clock, if its request does not say
    /// how far back it goes. `at_ns` is the time of the request.
    pub(super) fn kept_from_ns(&self, at_ns: u64) -> Option<u64> {
        self.keep.map(|keep| long_before(at_ns, keep))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Drops parts that no snapshot needs any more. `wanted_ns` is the begin of the earliest
    /// snapshot that is still waiting for its end.
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

    /// Returns whether every buffer was filled completely since the newest part was taken.
    fn has_lapped(&self) -> bool {
        let now = self.control.buffer_fill();
        let mut pairs = self.fill_then.iter().zip(&now);
        pairs.all(|(then, now)| {
            // If a snapshot of the session took the buffer, a new buffer has started to count from
            // 0.
            let since = now.written_bytes.checked_sub(then.written_bytes);
            since.unwrap_or(now.written_bytes) >= now.size_bytes
        })
    }
}

/// Returns the time that is `before` earlier than `at_ns`.
pub(super) fn long_before(at_ns: u64, before: Duration) -> u64 {
    at_ns.saturating_sub(u64::try_from(before.as_nanos()).unwrap_or(u64::MAX))
}
