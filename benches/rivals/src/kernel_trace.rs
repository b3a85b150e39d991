//! Counts the events of the kernel in a Perfetto trace, with decoders that are not ours.

use std::collections::HashSet;
use std::path::Path;

use prost::Message;

use crate::packets::for_each_packet;
use crate::programs::Result;

/// The fields of `perfetto.protos.TracePacket` that are needed.
#[derive(Message)]
struct Packet {
    #[prost(message, optional, tag = "1")]
    bundle: Option<Bundle>,
    #[prost(uint32, tag = "10")]
    sequence_id: u32,
    #[prost(message, optional, tag = "34")]
    stats: Option<Stats>,
    #[prost(bool, tag = "42")]
    previous_packet_dropped: bool,
}

/// The fields of `perfetto.protos.FtraceEventBundle` that are needed.
#[derive(Message)]
struct Bundle {
    #[prost(message, repeated, tag = "2")]
    events: Vec<Event>,
    #[prost(message, optional, tag = "4")]
    columns: Option<Columns>,
}

/// An event that is only counted.
#[derive(Message)]
struct Event {}

/// The fields of `perfetto.protos.FtraceEventBundle.CompactSched` that are needed.
#[derive(Message)]
struct Columns {
    #[prost(uint64, repeated, tag = "1")]
    switch_times: Vec<u64>,
    #[prost(uint64, repeated, tag = "7")]
    waking_times: Vec<u64>,
}

/// The fields of `perfetto.protos.FtraceStats` that are needed.
#[derive(Message)]
struct Stats {
    #[prost(int32, tag = "1")]
    phase: i32,
    #[prost(message, repeated, tag = "2")]
    cpus: Vec<Cpu>,
}

/// The fields of `perfetto.protos.FtraceCpuStats` that are needed.
#[derive(Message)]
struct Cpu {
    #[prost(uint64, tag = "3")]
    overrun: u64,
    #[prost(uint64, tag = "4")]
    commit_overrun: u64,
    #[prost(uint64, tag = "8")]
    dropped_events: u64,
}

const START_OF_TRACE: i32 = 1;
const END_OF_TRACE: i32 = 2;

/// The events of the kernel in a trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelEvents {
    /// Events in the file, with those in columns.
    pub events: u64,
    /// Events that the kernel had no room for, by its own count.
    pub lost_in_kernel: u64,
    /// Losses of packets, as the file marks them.
    pub marked_losses: u64,
    pub bundles: u64,
}

impl KernelEvents {
    /// Counts the events in a file.
    ///
    /// # Errors
    ///
    /// If the file is not a trace.
    pub fn of_file(file: &Path) -> Result<Self> {
        let mut counted = Self::default();
        let mut sequences = HashSet::new();
        let (mut before, mut after) = (0, 0);
        for_each_packet(file, |packet: Packet| {
            let is_first = sequences.insert(packet.sequence_id);
            counted.marked_losses += u64::from(packet.previous_packet_dropped && !is_first);
            if let Some(bundle) = &packet.bundle {
                counted.bundles += 1;
                counted.events += bundle.events.len() as u64;
                let columns = bundle.columns.as_ref();
                counted.events += columns.map_or(0, |columns| {
                    (columns.switch_times.len() + columns.waking_times.len()) as u64
                });
            }
            match packet.stats {
                Some(stats) if stats.phase == START_OF_TRACE => before = stats.lost(),
                Some(stats) if stats.phase == END_OF_TRACE => after = stats.lost(),
                _ => {}
            }
        })?;
        counted.lost_in_kernel = after.saturating_sub(before);
        Ok(counted)
    }
}

impl Stats {
    fn lost(&self) -> u64 {
        let lost = |cpu: &Cpu| cpu.overrun + cpu.commit_overrun + cpu.dropped_events;
        self.cpus.iter().map(lost).sum()
    }
}
