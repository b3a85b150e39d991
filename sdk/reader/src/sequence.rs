//! The state of each sequence: its definitions and defaults, as far as the trace has been read.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;

use protozero::DecodeError;

use crate::clocks::SequenceClocks;
use crate::iid_table::IidTable;
use crate::tracks::{TrackId, UuidHasher};
use tracezero_core::counter_value::CounterValue;
use tracezero_core::protos::TracePacketDefaultsDecoder;

/// The maximum number of extra counters per event of a sequence. Further ones are left out.
pub(super) const EXTRA_COUNTERS_MAX: usize = 1024;

/// The maximum memory for the states of all sequences. Beyond it, the least recently used states
/// are forgotten. This loses little: in a trace with millions of short threads, most of these
/// threads have ended.
const STATES_MAX_BYTES: usize = 64 << 20;

/// The state of a sequence up to the current packet.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    pub(super) id: u32,
    pub(super) packets: u64,
    /// The index of the sequence's last packet.
    pub(super) last_packet: u64,
    /// True if the incremental state is valid: it has been started, and no packet has been lost
    /// since.
    pub(super) is_valid: bool,
    pub(super) default_clock_id: Option<u32>,
    pub(super) default_track_uuid: Option<u64>,
    /// The track of `default_track_uuid`, once it was needed.
    pub(super) default_track: Option<TrackId>,
    pub(super) extra_counter_tracks: Vec<u64>,
    pub(super) extra_double_counter_tracks: Vec<u64>,
    pub(super) iids: IidTable,
    pub(super) clocks: SequenceClocks,
    /// The sums of incremental counters, whose values in the trace are differences.
    sums: HashMap<TrackId, CounterValue, BuildHasherDefault<UuidHasher>>,
    /// The part of `Sequences::size_bytes` that this state accounts for.
    counted_bytes: usize,
}

impl Sequence {
    /// Clears the incremental state, and marks it as valid.
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

    /// Replaces the defaults by those of a packet.
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

    /// Adds a difference to a counter's sum on this sequence. Returns the sum.
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
    /// Indexes into `all`, by sequence id.
    by_id: HashMap<u32, u32, BuildHasherDefault<UuidHasher>>,
    /// The index of the sequence that was used last. Packets of a sequence come in runs.
    current: usize,
    /// The memory of all states. The growth of the current state since the last `update_size` is
    /// not yet included.
    size_bytes: usize,
    forgotten: u64,
}

impl Sequences {
    /// Returns the sequence with this id, which is added if it is new, and makes it the current
    /// one.
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
        self.update_size();
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
        self.update_size();
    }

    /// Updates the size of all states after the current state has changed. If the size is too
    /// large, forgets some states.
    pub(super) fn update_size(&mut self) {
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

    /// Keeps the current sequence, and as many recently used ones as fit into half of the memory
    /// limit.
    #[cold]
    fn forget_some(&mut self) {
        self.all.swap(0, self.current);
        self.all[1..].sort_unstable_by_key(|sequence| std::cmp::Reverse(sequence.last_packet));
        if self.all[0].size_bytes() > STATES_MAX_BYTES {
            // This state alone is too large: the sequence is invalid until its producer defines
            // everything again.
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

    /// Returns the sequence that was used last.
    #[inline]
    pub(super) fn current(&self) -> Option<&Sequence> {
        self.all.get(self.current)
    }

    /// Returns the number of states that were forgotten to save memory.
    pub(super) const fn forgotten(&self) -> u64 {
        self.forgotten
    }
}
