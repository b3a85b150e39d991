//! What the packets of a sequence have said so far.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;

use protozero::DecodeError;

use crate::clocks::SequenceClocks;
use crate::iid_table::IidTable;
use crate::tracks::{TrackId, UuidHasher};
use tracezero_core::counter_value::CounterValue;
use tracezero_core::protos::TracePacketDefaultsDecoder;

/// Counters that come along with events of a sequence; further ones are left out.
pub(super) const EXTRA_COUNTERS_MAX: usize = 1024;

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
    sums: HashMap<TrackId, CounterValue, BuildHasherDefault<UuidHasher>>,
    /// How much of the memory of all states is that of this one.
    counted_bytes: usize,
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
        self.sums = HashMap::default();
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
        let tracks = defaults.extra_counter_track_uuids();
        for uuid in tracks.take(EXTRA_COUNTERS_MAX) {
            self.extra_counter_tracks.push(uuid?);
        }
        let tracks = defaults.extra_double_counter_track_uuids();
        for uuid in tracks.take(EXTRA_COUNTERS_MAX) {
            self.extra_double_counter_tracks.push(uuid?);
        }
        Ok(())
    }

    /// Adds a difference to a counter's sum on this sequence.
    pub(super) fn add_up(&mut self, track: TrackId, value: CounterValue) -> CounterValue {
        let sum = match self.sums.entry(track) {
            Entry::Occupied(sum) => sum.into_mut(),
            Entry::Vacant(place) => return *place.insert(value),
        };
        *sum = match (*sum, value) {
            (CounterValue::Int(sum), CounterValue::Int(value)) => {
                CounterValue::Int(sum.wrapping_add(value))
            }
            (sum, value) => CounterValue::Double(sum.as_f64() + value.as_f64()),
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

/// The sequences of a trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequences {
    all: Vec<Sequence>,
    /// Places in `all`.
    by_id: HashMap<u32, u32, BuildHasherDefault<UuidHasher>>,
    /// The one that was used last: packets of a sequence come in runs.
    current: usize,
    /// Memory that all of them take, the current one without what it has grown by.
    size_bytes: usize,
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
        self.settle();
        if let Some(place) = self.by_id.get(&id) {
            self.current = *place as usize;
            return;
        }
        self.current = self.all.len();
        self.by_id.insert(id, self.current as u32);
        self.all.push(Sequence {
            id,
            ..Sequence::default()
        });
        self.settle();
    }

    /// Counts what the current sequence has grown by. If all states together take too much memory,
    /// forgets some.
    pub(super) fn settle(&mut self) {
        let Some(sequence) = self.all.get_mut(self.current) else {
            return;
        };
        let size_bytes = sequence.size_bytes();
        self.size_bytes = self.size_bytes - sequence.counted_bytes + size_bytes;
        sequence.counted_bytes = size_bytes;
        if self.size_bytes > STATES_MAX_BYTES {
            self.forget_some();
        }
    }

    /// Keeps the current sequence and those that were used last, as far as they fit into half of the
    /// memory.
    #[cold]
    fn forget_some(&mut self) {
        self.all.swap(0, self.current);
        self.all[1..].sort_unstable_by_key(|sequence| std::cmp::Reverse(sequence.last_packet));
        if self.all[0].size_bytes() > STATES_MAX_BYTES {
            // It alone is too much: it goes on when its producer defines everything anew.
            let current = &mut self.all[0];
            current.clear();
            current.is_valid = false;
            current.iids = IidTable::default();
            self.forgotten += 1;
        }
        self.size_bytes = 0;
        self.by_id.clear();
        let mut kept = 0;
        for sequence in &mut self.all {
            let size_bytes = sequence.size_bytes();
            if kept > 0 && self.size_bytes + size_bytes > STATES_MAX_BYTES / 2 {
                break;
            }
            self.size_bytes += size_bytes;
            sequence.counted_bytes = size_bytes;
            self.by_id.insert(sequence.id, kept);
            kept += 1;
        }
        self.forgotten += (self.all.len() - kept as usize) as u64;
        self.all.truncate(kept as usize);
        self.current = 0;
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
