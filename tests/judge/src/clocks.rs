//! Converts packets' timestamps to nanoseconds of the trace clock, BOOTTIME.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use perfetto_protos::clock_snapshot::ClockSnapshot;
use perfetto_protos::clock_snapshot::clock_snapshot::Clock;

/// The id of the trace clock, which is also the clock of packets that name none.
pub(crate) const BOOTTIME: u32 = 6;

/// The ids of clocks that are valid on one sequence only.
const SEQUENCE_CLOCKS: RangeInclusive<u32> = 64..=127;

/// The clocks of the whole trace, as defined by the snapshots so far.
#[derive(Debug, Default)]
pub(crate) struct GlobalClocks {
    /// The readings of each clock in file order, each with the clock's distance to BOOTTIME.
    readings: HashMap<u32, Vec<(u64, i128)>>,
}

impl GlobalClocks {
    pub(crate) fn add(&mut self, snapshot: &ClockSnapshot) {
        let boottime = snapshot
            .clocks
            .iter()
            .find(|clock| clock.clock_id() == BOOTTIME);
        let Some(boottime) = boottime else { return };
        for clock in global(snapshot) {
            let distance = i128::from(boottime.timestamp()) - i128::from(clock.timestamp());
            let readings = self.readings.entry(clock.clock_id()).or_default();
            readings.push((clock.timestamp(), distance));
        }
    }

    /// Converts by the last reading that is not later than the timestamp, or by the first reading.
    pub(crate) fn to_trace_ns(&self, clock_id: u32, timestamp_ns: u64) -> Option<u64> {
        let readings = self.readings.get(&clock_id)?;
        let not_later = readings
            .iter()
            .rev()
            .find(|(reading, _)| *reading <= timestamp_ns);
        let (_, distance) = not_later.or(readings.first())?;
        u64::try_from(i128::from(timestamp_ns) + distance).ok()
    }
}

/// The clocks that a sequence defined for itself.
#[derive(Debug, Default)]
pub(crate) struct SequenceClocks {
    clocks: HashMap<u32, SequenceClock>,
}

/// A clock that counts units from an anchor.
#[derive(Debug)]
struct SequenceClock {
    anchor_ns: u64,
    anchor_units: u64,
    unit_ns: u64,
    /// The last timestamp, if timestamps are increments.
    last_units: Option<u64>,
}

impl SequenceClocks {
    /// Adds the sequence's own clocks of a snapshot, anchored to the snapshot's first global clock.
    pub(crate) fn add(
        &mut self,
        snapshot: &ClockSnapshot,
        global_clocks: &GlobalClocks,
    ) -> Result<(), String> {
        let own = snapshot
            .clocks
            .iter()
            .filter(|clock| SEQUENCE_CLOCKS.contains(&clock.clock_id()));
        for clock in own {
            let anchor_ns = global(snapshot).find_map(|anchor| {
                global_clocks.to_trace_ns(anchor.clock_id(), anchor.timestamp())
            });
            let Some(anchor_ns) = anchor_ns else {
                return Err(format!(
                    "clock {} is tied to no known clock",
                    clock.clock_id()
                ));
            };
            let units = clock.timestamp();
            self.clocks.insert(
                clock.clock_id(),
                SequenceClock {
                    anchor_ns,
                    anchor_units: units,
                    unit_ns: clock.unit_multiplier_ns.unwrap_or(1),
                    last_units: clock.is_incremental().then_some(units),
                },
            );
        }
        Ok(())
    }

    /// Advances a clock by a timestamp. Returns the time in nanoseconds.
    fn advance(&mut self, clock_id: u32, timestamp: u64) -> Result<u64, String> {
        let Some(clock) = self.clocks.get_mut(&clock_id) else {
            return Err(format!("clock {clock_id} is not defined on the sequence"));
        };
        let units = match &mut clock.last_units {
            Some(last) => {
                *last = last.wrapping_add(timestamp);
                *last
            }
            None => timestamp,
        };
        let units_since = i128::from(units) - i128::from(clock.anchor_units);
        let ns = i128::from(clock.anchor_ns) + units_since * i128::from(clock.unit_ns);
        u64::try_from(ns).map_err(|_| format!("{timestamp} of clock {clock_id} is out of range"))
    }
}

/// Converts `timestamp` of `clock_id`, on a sequence that has defined the clocks `own`.
pub(crate) fn resolve(
    clock_id: u32,
    timestamp: u64,
    own: Option<&mut SequenceClocks>,
    global_clocks: &GlobalClocks,
) -> Result<u64, String> {
    if SEQUENCE_CLOCKS.contains(&clock_id) {
        let own = own.ok_or_else(|| format!("clock {clock_id} is not defined on the sequence"))?;
        return own.advance(clock_id, timestamp);
    }
    global_clocks
        .to_trace_ns(clock_id, timestamp)
        .ok_or_else(|| format!("clock {clock_id} is in no snapshot together with BOOTTIME"))
}

fn global(snapshot: &ClockSnapshot) -> impl Iterator<Item = &Clock> {
    snapshot
        .clocks
        .iter()
        .filter(|clock| !SEQUENCE_CLOCKS.contains(&clock.clock_id()))
}
