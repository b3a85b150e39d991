//! Reads times from the clock snapshots of a file.

use tracezero_core::protos::{BuiltinClock, ClockSnapshotDecoder, TracePacketDecoder};

/// The ids of clocks that belong to one sequence.
pub(super) const SEQUENCE_CLOCKS: std::ops::Range<u32> = 64..128;

/// The boot time, and the time of day at that moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) boot_ns: Option<u64>,
    pub(super) time_of_day_ns: Option<u64>,
}

/// The clocks of one file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FileClocks {
    /// The boot time in the first snapshot that has it.
    pub(super) first_boot_ns: Option<u64>,
    /// The last snapshot with both times.
    pub(super) last: Option<Reading>,
    first: Option<Reading>,
    /// How far the time of day is ahead of boot time, at least and at most.
    range_ns: (i128, i128),
}

/// A reading of the boot time and the time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) boot_ns: u64,
    pub(super) time_of_day_ns: u64,
}

impl Snapshot {
    /// Decodes the clock snapshot that a packet holds. Returns `None` for other packets, and for
    /// snapshots that define clocks of a sequence.
    pub(super) fn of_packet(packet: &[u8]) -> Option<Self> {
        let snapshot: ClockSnapshotDecoder<'_> =
            TracePacketDecoder::new(packet).clock_snapshot().ok()??;
        let mut found = Self::default();
        for clock in snapshot.clocks() {
            let clock = clock.ok()?;
            let id = clock.clock_id().ok()??;
            if SEQUENCE_CLOCKS.contains(&id) {
                return None;
            }
            let time_ns = clock.timestamp().ok()?;
            if id == BuiltinClock::BOOTTIME.0 as u32 {
                found.boot_ns = time_ns;
            } else if id == BuiltinClock::REALTIME.0 as u32 {
                found.time_of_day_ns = time_ns;
            }
        }
        Some(found)
    }
}

impl FileClocks {
    pub(super) fn add(&mut self, snapshot: Snapshot) {
        self.first_boot_ns = self.first_boot_ns.or(snapshot.boot_ns);
        let (Some(boot_ns), Some(time_of_day_ns)) = (snapshot.boot_ns, snapshot.time_of_day_ns)
        else {
            return;
        };
        let reading = Reading {
            boot_ns,
            time_of_day_ns,
        };
        let ahead_ns = reading.ahead_ns();
        self.range_ns = match self.first {
            None => (ahead_ns, ahead_ns),
            Some(_) => (self.range_ns.0.min(ahead_ns), self.range_ns.1.max(ahead_ns)),
        };
        self.first.get_or_insert(reading);
        self.last = Some(reading);
    }

    /// Returns the first reading of both times.
    pub(super) const fn first(&self) -> Option<Reading> {
        self.first
    }

    /// Returns how far the time of day was ahead of boot time at the beginning.
    pub(super) fn ahead_ns(&self) -> Option<i128> {
        self.first.map(Reading::ahead_ns)
    }

    /// Returns by how much the time of day was set during the recording, all in all.
    pub(super) fn set_by_ns(&self) -> i128 {
        self.range_ns.1 - self.range_ns.0
    }
}

impl Reading {
    /// Returns how far the time of day is ahead of boot time.
    pub(super) fn ahead_ns(self) -> i128 {
        i128::from(self.time_of_day_ns) - i128::from(self.boot_ns)
    }
}
