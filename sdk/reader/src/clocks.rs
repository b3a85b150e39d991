//! Converts timestamps of any clock to nanoseconds of the trace clock.

use std::ops::RangeInclusive;

use protozero::{DecodeError, Decoder, Value, types};

use crate::anomaly::Anomaly;
use tracezero_core::protos::{ClockSnapshot, clock_snapshot};

/// The id of the boot time clock. The boot time clock is the trace clock, unless a snapshot names
/// another one. The boot time clock is also the clock of a packet if neither the packet nor its
/// sequence's defaults name a clock.
pub const BOOTTIME_CLOCK_ID: u32 = 6;
/// The ids of clocks that belong to one sequence.
const SEQUENCE_CLOCKS: RangeInclusive<u32> = 64..=127;
/// The maximum number of readings kept per clock. This holds all readings of a trace that lasts a
/// day and takes one every ten seconds.
const READINGS_MAX: usize = 16 * 1024;
/// The maximum number of clocks that are shared by the whole trace. Further ones are ignored.
const GLOBAL_CLOCKS_MAX: usize = 256;
/// The maximum unit of a clock, 36 years: a timestamp in nanoseconds then fits into 124 bits.
const UNIT_MAX_NS: u64 = 1 << 60;

/// The clocks that all sequences of the trace share.
#[derive(Clone, Debug)]
pub(super) struct GlobalClocks {
    trace_clock_id: u32,
    has_primary_clock: bool,
    clocks: Vec<(u32, GlobalClock)>,
}

#[derive(Clone, Debug, Default)]
struct GlobalClock {
    unit_ns: u64,
    /// Pairs of this clock's time and the trace clock's time, in nanoseconds, in the order of the
    /// file. A pair is added only if the difference of the two times has changed since the last
    /// pair.
    readings: Vec<(i128, i128)>,
}

/// The entry of one clock in a snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    pub(super) clock_id: u32,
    pub(super) timestamp: u64,
    is_incremental: bool,
    unit_ns: u64,
}

impl Default for GlobalClocks {
    fn default() -> Self {
        Self {
            trace_clock_id: BOOTTIME_CLOCK_ID,
            has_primary_clock: false,
            clocks: Vec::new(),
        }
    }
}

impl GlobalClocks {
    /// Creates the clocks of a machine that the trace clock is not on. Their times are converted to
    /// the boot time of that machine.
    pub(super) fn of_other_machine() -> Self {
        Self {
            has_primary_clock: true,
            ..Self::default()
        }
    }

    pub(super) const fn trace_clock_id(&self) -> u32 {
        self.trace_clock_id
    }

    /// Converts a timestamp to the trace clock. Uses the last reading that is not later than the
    /// timestamp, or else the first reading.
    pub(super) fn to_trace_ns(&self, clock_id: u32, timestamp: u64) -> Result<u64, ClockError> {
        if clock_id == self.trace_clock_id {
            return Ok(timestamp);
        }
        let clock = self.clocks.iter().find(|(id, _)| *id == clock_id);
        let (_, clock) = clock.ok_or(ClockError::Unknown { clock_id })?;
        let time_ns = i128::from(timestamp) * i128::from(clock.unit_ns);
        let later = clock
            .readings
            .iter()
            .rev()
            .find(|(reading, _)| *reading <= time_ns);
        let (reading, trace_ns) = later
            .or(clock.readings.first())
            .ok_or(ClockError::Unknown { clock_id })?;
        u64::try_from(time_ns - reading + trace_ns).map_err(|_| ClockError::OutOfRange { clock_id })
    }

    /// Adds the readings of a snapshot. `own` are the clocks of the sequence that the snapshot's
    /// packet is on.
    pub(super) fn add(
        &mut self,
        snapshot: &[u8],
        own: Option<&mut SequenceClocks>,
        anomalies: &mut Vec<Anomaly>,
    ) {
        if let Err(error) = self.try_add(snapshot, own, anomalies) {
            anomalies.push(Anomaly::Malformed {
                message: "clock_snapshot",
                error,
            });
        }
    }

    fn try_add(
        &mut self,
        snapshot: &[u8],
        own: Option<&mut SequenceClocks>,
        anomalies: &mut Vec<Anomaly>,
    ) -> Result<(), DecodeError> {
        let decoder = Decoder::new(snapshot);
        let primary = ClockSnapshot::PRIMARY_TRACE_CLOCK_FIELD_NUMBER;
        if let Some(clock_id) = decoder.last::<types::Uint32>(primary)?
            && !std::mem::replace(&mut self.has_primary_clock, true)
        {
            self.trace_clock_id = clock_id;
        }
        let readings = || {
            decoder
                .repeated::<types::Bytes>(ClockSnapshot::CLOCKS_FIELD_NUMBER)
                .map(|clock| Reading::decode(clock?))
        };
        let mut trace_ns = None;
        for reading in readings() {
            let reading = reading?;
            if !SEQUENCE_CLOCKS.contains(&reading.clock_id) {
                let known_ns = self.to_trace_ns(reading.clock_id, reading.timestamp).ok();
                // The trace clock's own reading is preferred.
                if trace_ns.is_none() || reading.clock_id == self.trace_clock_id {
                    trace_ns = known_ns.or(trace_ns);
                }
            }
        }
        let mut own = own;
        for reading in readings() {
            let reading = reading?;
            let is_own = SEQUENCE_CLOCKS.contains(&reading.clock_id);
            match (trace_ns, &mut own) {
                (None, Some(_)) if is_own => anomalies.push(Anomaly::UntiedClock {
                    clock_id: reading.clock_id,
                }),
                (Some(trace_ns), Some(own)) if is_own => own.define(reading, trace_ns),
                (Some(trace_ns), _) if !is_own && reading.clock_id != self.trace_clock_id => {
                    self.define(reading, trace_ns);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn define(&mut self, reading: Reading, trace_ns: u64) {
        let position = self
            .clocks
            .iter()
            .position(|(id, _)| *id == reading.clock_id);
        if position.is_none() && self.clocks.len() == GLOBAL_CLOCKS_MAX {
            return;
        }
        let position = position.unwrap_or_else(|| {
            self.clocks.push((reading.clock_id, GlobalClock::default()));
            self.clocks.len() - 1
        });
        let clock = &mut self.clocks[position].1;
        clock.unit_ns = reading.unit_ns;
        let time_ns = i128::from(reading.timestamp) * i128::from(reading.unit_ns);
        let trace_ns = i128::from(trace_ns);
        let last = clock.readings.last();
        if last
            .is_some_and(|(last_ns, last_trace_ns)| trace_ns - time_ns == last_trace_ns - last_ns)
        {
            return;
        }
        if clock.readings.len() == READINGS_MAX {
            clock.readings.drain(..READINGS_MAX / 2);
        }
        clock.readings.push((time_ns, trace_ns));
    }
}

impl Reading {
    pub(super) fn decode(clock: &[u8]) -> Result<Self, DecodeError> {
        use clock_snapshot::Clock as C;

        let mut reading = Self {
            unit_ns: 1,
            ..Self::default()
        };
        for field in Decoder::new(clock).fields() {
            let field = field?;
            match (field.number, field.value) {
                (C::CLOCK_ID_FIELD_NUMBER, Value::Varint(id)) => reading.clock_id = id as u32,
                (C::TIMESTAMP_FIELD_NUMBER, Value::Varint(time)) => reading.timestamp = time,
                (C::IS_INCREMENTAL_FIELD_NUMBER, Value::Varint(raw)) => {
                    reading.is_incremental = raw != 0;
                }
                (C::UNIT_MULTIPLIER_NS_FIELD_NUMBER, Value::Varint(unit)) => {
                    reading.unit_ns = unit.clamp(1, UNIT_MAX_NS);
                }
                _ => {}
            }
        }
        Ok(reading)
    }
}

/// The clocks that belong to one sequence.
#[derive(Clone, Debug, Default)]
pub(super) struct SequenceClocks {
    clocks: Vec<SequenceClock>,
}

/// A clock that counts units from the reading in a snapshot.
#[derive(Clone, Copy, Debug)]
struct SequenceClock {
    id: u32,
    is_incremental: bool,
    /// True if it was defined since the sequence's incremental state was last cleared.
    is_current: bool,
    unit_ns: u64,
    /// The reading that defined the clock, in units. Timestamps of an incremental clock do not
    /// change it.
    units: u64,
    /// The time on the trace clock when this clock showed `units`. For an incremental clock, the
    /// time of its last timestamp.
    trace_ns: u64,
}

/// The reason why a timestamp cannot be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClockError {
    Unknown { clock_id: u32 },
    OutOfRange { clock_id: u32 },
}

impl SequenceClocks {
    fn define(&mut self, reading: Reading, trace_ns: u64) {
        self.clocks.retain(|clock| clock.id != reading.clock_id);
        self.clocks.push(SequenceClock {
            id: reading.clock_id,
            is_incremental: reading.is_incremental,
            is_current: true,
            unit_ns: reading.unit_ns,
            units: reading.timestamp,
            trace_ns,
        });
    }

    /// Marks all clocks as defined before the incremental state was cleared.
    pub(super) fn clear(&mut self) {
        for clock in &mut self.clocks {
            clock.is_current = false;
        }
    }

    pub(super) const fn size_bytes(&self) -> usize {
        self.clocks.capacity() * size_of::<SequenceClock>()
    }

    /// Converts a timestamp to the trace clock. A timestamp of an incremental clock is a
    /// difference, and advances that clock.
    #[inline]
    pub(super) fn resolve(
        &mut self,
        clock_id: u32,
        timestamp: u64,
        global: &GlobalClocks,
        anomalies: &mut Vec<Anomaly>,
    ) -> Result<u64, ClockError> {
        if !SEQUENCE_CLOCKS.contains(&clock_id) {
            return global.to_trace_ns(clock_id, timestamp);
        }
        let clock = self.clocks.iter_mut().find(|clock| clock.id == clock_id);
        let clock = clock.ok_or(ClockError::Unknown { clock_id })?;
        if !clock.is_current {
            anomalies.push(Anomaly::ClockBeforeClear { clock_id });
        }
        clock
            .trace_ns(timestamp)
            .ok_or(ClockError::OutOfRange { clock_id })
    }
}

impl SequenceClock {
    #[inline]
    fn trace_ns(&mut self, timestamp: u64) -> Option<u64> {
        if self.is_incremental {
            let passed_ns = timestamp.checked_mul(self.unit_ns)?;
            let trace_ns = self.trace_ns.checked_add(passed_ns)?;
            self.trace_ns = trace_ns;
            return Some(trace_ns);
        }
        let units = i128::from(timestamp) - i128::from(self.units);
        let trace_ns = i128::from(self.trace_ns) + units * i128::from(self.unit_ns);
        u64::try_from(trace_ns).ok()
    }
}
