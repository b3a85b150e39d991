//! The packets of one sequence, and what readers know from them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem;

use tracezero::TraceContext;
use tracezero::protos::trace_packet::SequenceFlags;
use tracezero_kernel::protos::KernelPacket;

use super::ProcessStats;
use super::process_counters::COUNTERS;

/// What readers know from the packets of a sequence. It is empty again when earlier packets may be
/// missing.
#[derive(Debug, Default)]
pub struct Emitted {
    /// True if a packet has announced that this state was empty.
    is_announced: bool,
    /// True if all known threads that are alive were written since this state is empty.
    pub(super) is_complete: bool,
    /// The threads that were written, each with its process.
    pub(super) threads: HashMap<i32, i32>,
    /// The last values that were written, by process.
    pub(super) counters: HashMap<i32, ProcessCounters>,
    /// Processes that have no memory of their own, so that it is not read again.
    pub(super) without_memory: HashSet<i32>,
    /// The number of polls since `counters` is empty.
    pub(super) polls: u32,
}

/// The last values of a process that were written.
#[derive(Debug, Default)]
pub(super) struct ProcessCounters {
    pub(super) values: [Option<u64>; COUNTERS.len()],
    /// The open files that were written.
    pub(super) files: BTreeSet<u64>,
}

impl Emitted {
    /// Forgets a thread, whose id may be given to another thread.
    pub(super) fn forget(&mut self, thread: i32) {
        self.threads.remove(&thread);
        self.counters.remove(&thread);
        self.without_memory.remove(&thread);
    }

    /// Forgets all threads whose process is not among `processes`, which are sorted.
    pub(super) fn keep_only(&mut self, processes: &[i32]) {
        let is_there = |process: &i32| processes.binary_search(process).is_ok();
        self.threads.retain(|_, process| is_there(process));
        self.counters.retain(|process, _| is_there(process));
        self.without_memory.retain(is_there);
    }
}

/// A sequence of packets: that of a session, or a list in a test.
pub(super) trait Packets {
    /// Returns the time on the trace clock.
    fn now_ns(&self) -> u64;

    /// Returns what readers know so far.
    fn emitted(&mut self) -> &mut Emitted;

    /// Returns the number of packets that were dropped.
    fn drop_count(&self) -> u64;

    /// Writes a packet with an encoded `ProcessTree`.
    fn write_tree(&mut self, timestamp_ns: u64, tree: &[u8]);

    /// Writes a packet with an encoded `ProcessStats`.
    fn write_stats(&mut self, timestamp_ns: u64, stats: &[u8]);
}

impl Packets for TraceContext<'_, ProcessStats> {
    fn now_ns(&self) -> u64 {
        TraceContext::now_ns(self)
    }

    fn emitted(&mut self) -> &mut Emitted {
        self.incremental_state()
    }

    fn drop_count(&self) -> u64 {
        TraceContext::drop_count(self)
    }

    fn write_tree(&mut self, timestamp_ns: u64, tree: &[u8]) {
        write::<{ KernelPacket::PROCESS_TREE_FIELD_NUMBER }>(self, timestamp_ns, tree);
    }

    fn write_stats(&mut self, timestamp_ns: u64, stats: &[u8]) {
        write::<{ KernelPacket::PROCESS_STATS_FIELD_NUMBER }>(self, timestamp_ns, stats);
    }
}

/// Writes a packet, which announces that readers know nothing if it is the first of the state. Other
/// packets do not claim to need earlier ones: each can be read alone, also if a ring has overwritten
/// the first one.
fn write<const FIELD: u32>(
    cx: &mut TraceContext<'_, ProcessStats>,
    timestamp_ns: u64,
    content: &[u8],
) {
    let is_first = !mem::replace(&mut cx.incremental_state().is_announced, true);
    cx.packet(|packet| {
        packet.set_timestamp(timestamp_ns);
        if is_first {
            packet.set_sequence_flags(SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED.0 as u32);
        }
        packet.as_message_mut().append_bytes::<FIELD>(content);
    });
}
