//! Reads times from the clock snapshots of a file.

use tracezero_core::protos::{BuiltinClock, ClockSnapshotDecoder, TracePacketDecoder};

/// The ids of clocks that belong to one sequence.
const SEQUENCE_CLOCKS: std::ops::Range<u32> = 64..128;

/// Returns the boot time in the clock snapshot that a packet holds. Returns `None` for other
/// packets, and for snapshots that define clocks of a sequence.
pub(super) fn snapshot_time_ns(packet: &[u8]) -> Option<u64> {
    snapshot(packet)?.boottime_ns
}

/// Returns how far the time of day is ahead of boot time in the clock snapshot that a packet holds.
pub(super) fn time_of_day_ns(packet: &[u8]) -> Option<i128> {
    let snapshot = snapshot(packet)?;
    let (day, boot) = (snapshot.realtime_ns?, snapshot.boottime_ns?);
    Some(i128::from(day) - i128::from(boot))
}

struct Snapshot {
    boottime_ns: Option<u64>,
    realtime_ns: Option<u64>,
}

fn snapshot(packet: &[u8]) -> Option<Snapshot> {
    let snapshot: ClockSnapshotDecoder<'_> =
        TracePacketDecoder::new(packet).clock_snapshot().ok()??;
    let mut found = Snapshot {
        boottime_ns: None,
        realtime_ns: None,
    };
    for clock in snapshot.clocks() {
        let clock = clock.ok()?;
        let id = clock.clock_id().ok()??;
        if SEQUENCE_CLOCKS.contains(&id) {
            return None;
        }
        let time_ns = clock.timestamp().ok()?;
        if id == BuiltinClock::BOOTTIME.0 as u32 {
            found.boottime_ns = time_ns;
        } else if id == BuiltinClock::REALTIME.0 as u32 {
            found.realtime_ns = time_ns;
        }
    }
    Some(found)
}
