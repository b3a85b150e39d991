//! When the incremental state of a sequence was started, and whether it still holds.
//!
//! Packets that build on earlier ones, on names that were defined once for instance, cannot be read
//! when those are gone. So a sequence starts anew after a loss. In a ring that overwrites, it also
//! does so before the ring has lapped its start: the more often, the fewer packets at the old end of
//! the ring cannot be read.
//!
//! In Perfetto a user has to know the setting `clear_period_ms`, or a ring that has lapped shows nothing.
//! Here the service counts the parts of a ring that were filled, 128 per lap (`RingProgress`). A sequence
//! starts anew in each part (in rings below 512 KiB, in each second one), and one with few packets in each quarter. Of rings from 256 KiB up, at most a
//! fiftieth was measured to lack the names that it needs.

use crate::trace_writer::TraceWriter;
use tracezero_core::commit::RingProgress;

/// A sequence with fewer packets since its start waits for another [quarter](RingProgress::QUARTER) of
/// the ring: writing its state again would take more room than those packets.
const PACKETS_MIN: u64 = 16;

/// The moment at which a sequence started its incremental state.
#[derive(Debug)]
pub struct StateStart {
    /// The writer's [`TraceWriter::loss_mark`].
    losses: u64,
    /// [`RingProgress::parts`].
    parts: u64,
    packets_begun: u64,
}

impl StateStart {
    /// The sequence of `writer`, whose buffer is as far as `progress`, starts now.
    pub fn now(writer: &TraceWriter, progress: &RingProgress) -> Self {
        Self {
            losses: writer.loss_mark(),
            parts: progress.parts(),
            packets_begun: writer.packets_begun(),
        }
    }

    /// Whether packets may go on to build on this start.
    #[inline]
    pub fn holds(&self, writer: &TraceWriter, progress: &RingProgress) -> bool {
        let is_unchanged = self.losses == writer.loss_mark() && self.parts == progress.parts();
        is_unchanged || self.holds_after_change(writer, progress)
    }

    #[cold]
    #[inline(never)]
    fn holds_after_change(&self, writer: &TraceWriter, progress: &RingProgress) -> bool {
        let parts = progress.parts() - self.parts;
        let packets = writer.packets_begun() - self.packets_begun;
        self.losses == writer.loss_mark() && parts < RingProgress::QUARTER && packets < PACKETS_MIN
    }
}
