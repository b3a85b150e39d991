//! The start of a sequence's incremental state, and whether packets may still build on it.
//!
//! Packets that build on earlier ones, for example on names that were defined once, are unreadable
//! if the earlier ones are gone. So a sequence starts its state again after a loss. In a ring that
//! overwrites old packets, the sequence must also start its state again before the ring has
//! overwritten the last start. The more often the sequence does so, the fewer packets at the old
//! end of the ring are unreadable.
//!
//! In Perfetto, the user has to know the setting `clear_period_ms`; without it, a ring that has
//! wrapped around shows nothing. Here the service counts how many parts of the ring were filled,
//! 128 per lap (`RingProgress`). A sequence starts its state again in each part or, in rings below
//! 512 KiB, in every second part. A sequence with few packets does so only in each quarter of a
//! lap. For rings of at least 256 KiB, measurements show that at most a fiftieth of the packets
//! lack names.

use crate::trace_writer::TraceWriter;
use tracezero_core::commit::RingProgress;

/// A sequence with fewer packets than this since its start waits for another
/// [quarter](RingProgress::QUARTER) of the ring: writing its state again would take more room than
/// those packets.
const PACKETS_MIN: u64 = 16;

/// The moment when a sequence started its incremental state.
#[derive(Debug)]
pub struct StateStart {
    /// The value of the writer's [`TraceWriter::loss_mark`].
    losses: u64,
    /// The value of [`RingProgress::parts`].
    parts: u64,
    packets_begun: u64,
}

impl StateStart {
    /// Returns a start now, for the sequence of `writer`. `progress` belongs to the buffer that the
    /// writer writes to.
    pub fn now(writer: &TraceWriter, progress: &RingProgress) -> Self {
        Self {
            losses: writer.loss_mark(),
            parts: progress.parts(),
            packets_begun: writer.packets_begun(),
        }
    }

    /// Returns true if further packets may build on this start.
    #[inline]
    pub fn holds(&self, writer: &TraceWriter, progress: &RingProgress) -> bool {
        let is_unchanged = self.losses == writer.loss_mark() && self.parts == progress.parts();
        is_unchanged || self.holds_after_change(writer, progress)
    }

    /// Returns true if packets of `writer` were lost since this start.
    #[must_use]
    pub fn has_losses(&self, writer: &TraceWriter) -> bool {
        self.losses != writer.loss_mark()
    }

    #[cold]
    #[inline(never)]
    fn holds_after_change(&self, writer: &TraceWriter, progress: &RingProgress) -> bool {
        let parts = progress.parts() - self.parts;
        let packets = writer.packets_begun() - self.packets_begun;
        self.losses == writer.loss_mark() && parts < RingProgress::QUARTER && packets < PACKETS_MIN
    }
}
