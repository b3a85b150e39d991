//! What the packets of a sequence have said so far.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use protozero::DecodeError;

use super::clocks::SequenceClocks;
use super::interning::IidTable;
use super::tracks::{TrackId, UuidHasher};
use crate::protos::TracePacketDefaultsDecoder;
use crate::track_event::CounterValue;

/// Memory that the states of all sequences may take. Beyond it those that were not used for longest
/// are forgotten: of a trace with millions of short threads most have ended.
const STATES_MAX_BYTES: usize = 64 << 20;

/// A sequence up to the current packet.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    pub(super) id: u32,
    pub(super) packets: u64,
    /// The index of the last one.
    pub(super) last_packet: u64,
    /// Whether what its packets need has been defined, and no packet lost since.
    pub(super) is_valid: bool,
    pub(super) default_clock_id: Option<u32>,
    pub(super) default_track_uuid: Option<u64>,
    /// That of `default_track_uuid`, once it was needed.
    pub(super) default_track: Option<TrackId>,
    pub(super) extra_counter_tracks: Vec<u64>,
    pub(super) extra_double_counter_tracks: Vec<u64>,
    pub(super) iids: IidTable,
    pub(super) clocks: SequenceClocks,
    /// Counters that count differences, with their sums.
    pub(super) sums: Vec<(TrackId, CounterValue)>,
}

impl Sequence {
    /// What was defined so far is void.
    pub(super) fn clear(&mut self) {
        self.is_valid = true;
        self.default_clock_id = None;
        self.default_track_uuid = None;
        self.default_track = None;
        self.extra_counter_tracks.clear();
        self.extra_double_counter_tracks.clear();
        self.iids.clear();
        self.clocks.clear();
        self.sums.clear();
    }

    /// Takes over the defaults of a packet.
    pub(super) fn set_defaults(&mut self, defaults: &[u8]) -> Result<(), DecodeError> {
        let defaults = TracePacketDefaultsDecoder::new(defaults);
        self.default_clock_id = defaults.timestamp_clock_id()?;
        self.default_track = None;
        self.default_track_uuid = None;
        self.extra_counter_tracks.clear();
        self.extra_double_counter_tracks.clear();
        let Some(defaults) = defaults.track_event_defaults()? else {
            return Ok(());
        };
        self.default_track_uuid = defaults.track_uuid()?;
        for uuid in defaults.extra_counter_track_uuids() {
            self.extra_counter_tracks.push(uuid?);
        }
        for uuid in defaults.extra_double_counter_track_uuids() {
            self.extra_double_counter_tracks.push(uuid?);
        }
        Ok(())
    }

    /// Adds a difference to a counter's sum on this sequence.
    pub(super) fn add_up(&mut self, track: TrackId, value: CounterValue) -> CounterValue {
        let position = self.sums.iter().position(|(known, _)| *known == track);
        let Some(position) = position else {
            self.sums.push((track, value));
            return value;
        };
        let sum = &mut self.sums[position].1;
        *sum = match (*sum, value) {
            (CounterValue::Int(sum), CounterValue::Int(value)) => {
                CounterValue::Int(sum.wrapping_add(value))
            }
            (sum, value) => CounterValue::Double(as_double(sum) + as_double(value)),
        };
        *sum
    }

    fn size_bytes(&self) -> usize {
        size_of::<Self>()
            + self.iids.size_bytes()
            + self.clocks.size_bytes()
            + self.sums.capacity() * size_of::<(TrackId, CounterValue)>()
            + (self.extra_counter_tracks.capacity() + self.extra_double_counter_tracks.capacity())
                * size_of::<u64>()
    }
}

pub(super) fn as_double(value: CounterValue) -> f64 {
    match value {
        CounterValue::Int(value) => value as f64,
        CounterValue::Double(value) => value,
    }
}

/// The sequences of a trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequences {
    all: Vec<Sequence>,
    /// Places in `all`.
    by_id: HashMap<u32, u32, BuildHasherDefault<UuidHasher>>,
    /// The one that was used last: packets of a sequence come in runs.
    current: usize,
    /// Room that new sequences may take until sizes are added up again.
    unmeasured: usize,
    forgotten: u64,
}

impl Sequences {
    /// The sequence of this id, which is added if it is new, and what place it has.
    #[inline]
    pub(super) fn get(&mut self, id: u32) -> &mut Sequence {
        let is_current = self
            .all
            .get(self.current)
            .is_some_and(|sequence| sequence.id == id);
        if !is_current {
            self.switch(id);
        }
        &mut self.all[self.current]
    }

    #[inline(never)]
    fn switch(&mut self, id: u32) {
        if let Some(place) = self.by_id.get(&id) {
            self.current = *place as usize;
            return;
        }
        if self.unmeasured == 0 {
            self.forget_some();
        }
        self.unmeasured -= 1;
        self.current = self.all.len();
        self.by_id.insert(id, self.current as u32);
        self.all.push(Sequence {
            id,
            ..Sequence::default()
        });
    }

    /// If all states together take too much memory, forgets the half that was not used for longest.
    #[cold]
    fn forget_some(&mut self) {
        let size_bytes: usize = self.all.iter().map(Sequence::size_bytes).sum();
        self.unmeasured = 1024;
        if size_bytes <= STATES_MAX_BYTES {
            return;
        }
        let kept = self.all.len() / 2;
        self.all
            .sort_unstable_by_key(|sequence| std::cmp::Reverse(sequence.last_packet));
        self.forgotten += (self.all.len() - kept) as u64;
        self.all.truncate(kept);
        self.by_id.clear();
        for (place, sequence) in (0..).zip(&self.all) {
            self.by_id.insert(sequence.id, place);
        }
    }

    /// The sequence that was used last.
    #[inline]
    pub(super) fn current(&self) -> Option<&Sequence> {
        self.all.get(self.current)
    }

    /// How many were forgotten for want of memory.
    pub(super) const fn forgotten(&self) -> u64 {
        self.forgotten
    }
}
