//! The packet counts of a buffer over its trace buffers: a clone takes one out, and another one
//! replaces it.

use std::collections::HashMap;
use std::mem;

use super::packet_framer::Writer;
use super::trace_buffer::{PacketCounts, TraceBuffer};

/// The packet counts of one sequence in a buffer.
#[derive(Clone, Copy, Default)]
pub(super) struct BufferCounts {
    pub(super) counts: PacketCounts,
    /// The number of packets that are not in `counts`, because they went into another trace or were
    /// cleared.
    pub(super) removed: u64,
}

/// The place of packets that were read before a buffer was taken or copied for a clone.
#[derive(Clone, Copy, Debug)]
pub(super) enum AlreadyRead {
    /// In the clone's trace, which begins with the file of the source.
    InTrace,
    InAnotherTrace,
}

/// Packet counts by sequence that correct the counts of the trace buffer itself.
#[derive(Default)]
pub(super) struct EarlierCounts(HashMap<Writer, Earlier>);

#[derive(Clone, Copy, Default)]
struct Earlier {
    /// The counts of earlier trace buffers, which this buffer replaced when a clone took them.
    /// Packets that were unread at that time are in the clone.
    replaced: PacketCounts,
    /// The number of packets that were read from this buffer into another trace.
    read: u64,
}

impl EarlierCounts {
    /// Returns the counts that a clone of the buffer starts with.
    pub(super) fn of_clone(&self, buffer: &TraceBuffer, read: AlreadyRead) -> Self {
        let all = buffer.all_packet_counts();
        let of_clone = all.map(|(producer, writer, counts)| {
            let writer = (producer, writer);
            let mut earlier = self.of(writer);
            match read {
                AlreadyRead::InTrace => {}
                AlreadyRead::InAnotherTrace => {
                    earlier.replaced.unread += mem::take(&mut earlier.replaced.read);
                    earlier.read = counts.read;
                }
            }
            (writer, earlier)
        });
        Self(of_clone.collect())
    }

    /// Adds the counts of a trace buffer that is replaced.
    pub(super) fn add_replaced(&mut self, buffer: &TraceBuffer) {
        for (producer, writer, counts) in buffer.all_packet_counts() {
            self.0.entry((producer, writer)).or_default().replaced += counts;
        }
    }

    /// Returns the counts of all sequences in the buffer.
    pub(super) fn correct(&self, buffer: &TraceBuffer) -> Vec<(Writer, BufferCounts)> {
        let all = buffer.all_packet_counts();
        all.map(|(producer, writer, counts)| {
            let writer = (producer, writer);
            let Earlier { replaced, read } = self.of(writer);
            let mut sum = counts;
            sum += PacketCounts {
                unread: 0,
                ..replaced
            };
            sum.read -= read;
            let counts = BufferCounts {
                counts: sum,
                removed: replaced.unread + read,
            };
            (writer, counts)
        })
        .collect()
    }

    fn of(&self, writer: Writer) -> Earlier {
        self.0.get(&writer).copied().unwrap_or_default()
    }
}
