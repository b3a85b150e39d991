//! The tracks of a trace, as their descriptors say what they are.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use protozero::DecodeError;

use crate::names::{NameId, NameTable};
use crate::skip_reason::SkipReason;
use tracezero_core::protos::{
    CounterDescriptorDecoder, ProcessDescriptorDecoder, ThreadDescriptorDecoder,
    TrackDescriptorDecoder, counter_descriptor, track_descriptor,
};

/// Tracks that are kept apart: about 500 MiB. What is on further ones is skipped.
const TRACKS_MAX: usize = 4 << 20;

/// A track of the trace. Ids count from 0, without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackId(u32);

/// What is known of a track.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Track {
    /// By which packets refer to it; 0 is that of events that name no track.
    pub uuid: u64,
    /// The track that it is under.
    pub parent: Option<TrackId>,
    /// What its descriptor calls it. See [`TrackTable::title`] for what it is best called.
    pub name: NameId,
    /// What it stands for.
    pub kind: TrackKind,
    /// Whether there has been a descriptor.
    pub is_described: bool,
    /// How the tracks under it are ordered.
    pub child_ordering: track_descriptor::ChildTracksOrdering,
    /// Where it stands among the tracks under the same parent, if they are ordered by that.
    pub sibling_order_rank: i32,
}

/// What a track stands for.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum TrackKind {
    /// Nothing but itself.
    #[default]
    Plain,
    /// A process.
    Process {
        /// The process id.
        pid: i32,
        /// Its name.
        name: NameId,
    },
    /// A thread.
    Thread {
        /// The id of its process.
        pid: i32,
        /// The thread id.
        tid: i32,
        /// Its name.
        name: NameId,
    },
    /// A counter.
    Counter(Counter),
}

/// How the values of a counter are to be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// What is counted.
    pub unit: counter_descriptor::Unit,
    /// What is counted, in the producer's words.
    pub unit_name: NameId,
    /// How many units a value of 1 in the trace stands for. Values of events have been multiplied.
    pub unit_multiplier: i64,
    /// Whether values in the trace are differences. Those of events have been added up.
    pub is_incremental: bool,
}

/// All tracks of a trace.
#[derive(Clone, Debug)]
pub struct TrackTable {
    tracks: Vec<Track>,
    by_uuid: HashMap<u64, TrackId, BuildHasherDefault<UuidHasher>>,
    tracks_max: usize,
}

impl Default for TrackTable {
    fn default() -> Self {
        Self {
            tracks: Vec::new(),
            by_uuid: HashMap::default(),
            tracks_max: TRACKS_MAX,
        }
    }
}

impl TrackId {
    /// Counts from 0, without gaps.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl TrackTable {
    /// Parents are looked up to this height, in case they go round in circles.
    pub const PARENTS_MAX: usize = 64;

    /// A track.
    ///
    /// # Panics
    ///
    /// If the id is not of this table.
    #[must_use]
    #[inline]
    pub fn track(&self, id: TrackId) -> &Track {
        &self.tracks[id.index()]
    }

    /// How many tracks there are; their ids count up to here.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.tracks.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tracks.is_empty()
    }

    /// All tracks, in the order in which they appeared.
    pub fn iter(&self) -> impl Iterator<Item = (TrackId, &Track)> {
        (0..).map(TrackId).zip(&self.tracks)
    }

    /// The track with this uuid, if it is in the trace so far.
    #[must_use]
    pub fn find(&self, uuid: u64) -> Option<TrackId> {
        self.by_uuid.get(&uuid).copied()
    }

    /// What to call a track: its own name, or that of the thread or process that it stands for;
    /// empty if it has none.
    #[must_use]
    pub fn title<'a>(&self, id: TrackId, names: &'a NameTable) -> &'a str {
        let track = self.track(id);
        let name = match track.kind {
            _ if !track.name.is_none() => track.name,
            TrackKind::Process { name, .. } | TrackKind::Thread { name, .. } => name,
            _ => NameId::NONE,
        };
        names.text(name)
    }

    /// A track in a message: `track "main" (77)`, or `track 77` if nothing has named it.
    pub(super) fn label(&self, id: TrackId, names: &NameTable) -> String {
        let uuid = self.track(id).uuid;
        match self.title(id, names) {
            "" => format!("track {uuid}"),
            title => format!("track {title:?} ({uuid})"),
        }
    }

    /// A track and those above it, innermost first. At most [`TrackTable::PARENTS_MAX`].
    pub fn ancestry(&self, id: TrackId) -> impl Iterator<Item = (TrackId, &Track)> {
        std::iter::successors(Some(id), |id| self.track(*id).parent)
            .take(Self::PARENTS_MAX)
            .map(|id| (id, self.track(id)))
    }

    /// The track of the thread that a track belongs to, if it is a thread's or under one.
    #[must_use]
    pub fn thread_of(&self, id: TrackId) -> Option<TrackId> {
        self.ancestry(id)
            .find(|(_, track)| matches!(track.kind, TrackKind::Thread { .. }))
            .map(|(id, _)| id)
    }

    /// The process that a track belongs to, if its descriptors or those above it say so.
    #[must_use]
    pub fn pid_of(&self, id: TrackId) -> Option<i32> {
        self.ancestry(id).find_map(|(_, track)| match track.kind {
            TrackKind::Process { pid, .. } | TrackKind::Thread { pid, .. } => Some(pid),
            _ => None,
        })
    }

    /// The id of the track with this uuid, which is added if it is new and there is room.
    pub(super) fn id(&mut self, uuid: u64) -> Option<TrackId> {
        match self.by_uuid.entry(uuid) {
            Entry::Occupied(known) => Some(*known.get()),
            Entry::Vacant(_) if self.tracks.len() >= self.tracks_max => None,
            Entry::Vacant(place) => {
                let id = TrackId(self.tracks.len() as u32);
                self.tracks.push(Track {
                    uuid,
                    ..Track::default()
                });
                Some(*place.insert(id))
            }
        }
    }

    /// Takes over a descriptor, which replaces an earlier one of the same track. `None` if it has no
    /// uuid.
    pub(super) fn describe(
        &mut self,
        descriptor: &[u8],
        names: &mut NameTable,
    ) -> Result<Option<(TrackId, Change)>, SkipReason> {
        let descriptor = TrackDescriptorDecoder::new(descriptor);
        let Some(uuid) = descriptor.uuid()? else {
            return Ok(None);
        };
        let static_name = descriptor.static_name()?;
        let name = match static_name {
            Some(name) => Some(name),
            None => descriptor.name()?,
        };
        let mut track = Track {
            uuid,
            parent: None,
            name: names.id(name.unwrap_or_default()),
            kind: TrackKind::Plain,
            is_described: true,
            child_ordering: descriptor.child_ordering()?.unwrap_or_default(),
            sibling_order_rank: descriptor.sibling_order_rank()?.unwrap_or_default(),
        };
        if let Some(counter) = descriptor.counter()? {
            track.kind = TrackKind::Counter(Counter::decode(counter, names)?);
        } else if let Some(thread) = descriptor.thread()? {
            track.kind = thread_kind(thread, names)?;
        } else if let Some(process) = descriptor.process()? {
            track.kind = process_kind(process, names)?;
        }
        // 0 is where tracks without a parent are.
        let parent_uuid = descriptor.parent_uuid()?.filter(|uuid| *uuid != 0);
        let id = self.id(uuid).ok_or(SkipReason::TooManyTracks)?;
        track.parent = parent_uuid.and_then(|uuid| self.id(uuid));
        let place = &mut self.tracks[id.index()];
        let change = match place.is_described {
            false => Change::New,
            true if *place == track => Change::None,
            true => Change::Changed,
        };
        *place = track;
        Ok(Some((id, change)))
    }
}

/// What a descriptor says that was not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    New,
    Changed,
    None,
}

impl Counter {
    fn decode(
        counter: CounterDescriptorDecoder<'_>,
        names: &mut NameTable,
    ) -> Result<Self, DecodeError> {
        Ok(Self {
            unit: counter.unit()?.unwrap_or_default(),
            unit_name: names.id(counter.unit_name()?.unwrap_or_default()),
            unit_multiplier: match counter.unit_multiplier()? {
                None | Some(0) => 1,
                Some(multiplier) => multiplier,
            },
            is_incremental: counter.is_incremental()?.unwrap_or_default(),
        })
    }
}

fn thread_kind(
    thread: ThreadDescriptorDecoder<'_>,
    names: &mut NameTable,
) -> Result<TrackKind, DecodeError> {
    Ok(TrackKind::Thread {
        pid: thread.pid()?.unwrap_or_default(),
        tid: thread.tid()?.unwrap_or_default(),
        name: names.id(thread.thread_name()?.unwrap_or_default()),
    })
}

fn process_kind(
    process: ProcessDescriptorDecoder<'_>,
    names: &mut NameTable,
) -> Result<TrackKind, DecodeError> {
    Ok(TrackKind::Process {
        pid: process.pid()?.unwrap_or_default(),
        name: names.id(process.process_name()?.unwrap_or_default()),
    })
}

/// Uuids of tracks are random as a rule; those that are not get spread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UuidHasher(u64);

impl Hasher for UuidHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracks_for_which_there_is_no_room_have_no_id() {
        let mut tracks = TrackTable {
            tracks_max: 2,
            ..TrackTable::default()
        };
        let first = tracks.id(10).expect("room");
        let second = tracks.id(20).expect("room");
        assert_eq!(tracks.id(30), None);
        assert_eq!((tracks.id(10), tracks.id(20)), (Some(first), Some(second)));
        assert_eq!(tracks.len(), 2);

        let names = &mut NameTable::new();
        // Uuid 30; then uuid 20, under track 30.
        let described = tracks.describe(&[0x08, 30], names);
        assert_eq!(described, Err(SkipReason::TooManyTracks));
        let described = tracks.describe(&[0x08, 20, 0x28, 30], names);
        assert_eq!(described, Ok(Some((second, Change::New))));
        assert_eq!(tracks.track(second).parent, None);
    }
}
