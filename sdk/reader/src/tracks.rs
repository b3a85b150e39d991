//! The tracks of a trace, as their descriptors describe them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::slice;

use protozero::DecodeError;

use crate::names::{NameId, NameTable};
use crate::skip_reason::SkipReason;
use tracezero_core::protos::{
    CounterDescriptorDecoder, ProcessDescriptorDecoder, ThreadDescriptorDecoder,
    TrackDescriptorDecoder, counter_descriptor, track_descriptor,
};

/// The maximum number of tracks, which take about 500 MiB. Events on further tracks are skipped.
const TRACKS_MAX: usize = 4 << 20;

/// The id of a track in a [`TrackTable`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackId(u32);

/// A track of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Track {
    /// The uuid by which packets refer to the track. 0 for the track of events that name no track.
    pub uuid: u64,
    /// The machine that has described the track; 0 for the machine of the service. Processes and
    /// threads of different machines may have the same ids.
    pub machine_id: u32,
    /// The parent track.
    pub parent: Option<TrackId>,
    /// The name in the track's descriptor. [`TrackTable::title`] also considers the name of its
    /// thread or process.
    pub name: NameId,
    /// The kind of track.
    pub kind: TrackKind,
    /// True if the trace has a descriptor of the track.
    pub is_described: bool,
    /// The order of its child tracks.
    pub child_ordering: track_descriptor::ChildTracksOrdering,
    /// The rank among its siblings, if the parent orders its children by explicit rank.
    pub sibling_order_rank: i32,
}

/// The kind of a track.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrackKind {
    /// A track that is not tied to a process, a thread or a counter.
    #[default]
    Plain,
    /// A process.
    Process {
        /// The process id.
        pid: i32,
        /// The name of the process.
        name: NameId,
    },
    /// A thread.
    Thread {
        /// The id of the thread's process.
        pid: i32,
        /// The thread id.
        tid: i32,
        /// The name of the thread.
        name: NameId,
    },
    /// A counter.
    Counter(Counter),
}

/// The properties of a counter that say how to interpret its values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counter {
    /// The unit of the values.
    pub unit: counter_descriptor::Unit,
    /// The unit in the producer's words, if it is not a standard one.
    pub unit_name: NameId,
    /// The number of units that a value of 1 in the trace stands for. The values of
    /// [events](crate::EventKind::Counter) are already multiplied by it.
    pub unit_multiplier: i64,
    /// True if values in the trace are differences. The values of
    /// [events](crate::EventKind::Counter) are already added up.
    pub is_incremental: bool,
}

/// All tracks of a trace.
///
/// ```
/// use tracezero::reader::TraceReader;
/// use tracezero::{InMemorySession, Track, instant};
///
/// let queue = Track::new("GPU").child("copy queue");
/// let session = InMemorySession::start()?;
/// instant!("render", "submitted", track: &queue);
/// let (trace, _) = session.finish();
///
/// let mut reader = TraceReader::new(&trace[..]);
/// while reader.next()?.is_some() {}
/// let (tracks, names) = (reader.tracks(), reader.names());
/// let queue = tracks.find(queue.uuid()).expect("the track has an event");
/// let parent = tracks.track(queue).parent.expect("it has a parent");
/// assert_eq!(tracks.title(queue, names), "copy queue");
/// assert_eq!(tracks.title(parent, names), "GPU");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TrackTable {
    tracks: Vec<Track>,
    by_uuid: HashMap<u64, TrackId, BuildHasherDefault<UuidHasher>>,
    tracks_max: usize,
}

/// An iterator over the tracks of a [`TrackTable`], in the order in which they appeared.
#[derive(Clone, Debug)]
pub struct TrackIter<'t> {
    /// The id of the next track.
    next: u32,
    /// The tracks from `next` on.
    tracks: slice::Iter<'t, Track>,
}

impl<'t> Iterator for TrackIter<'t> {
    type Item = (TrackId, &'t Track);

    fn next(&mut self) -> Option<Self::Item> {
        let track = self.tracks.next()?;
        let id = TrackId(self.next);
        self.next += 1;
        Some((id, track))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.tracks.size_hint()
    }
}

impl ExactSizeIterator for TrackIter<'_> {}

impl<'t> IntoIterator for &'t TrackTable {
    type Item = (TrackId, &'t Track);
    type IntoIter = TrackIter<'t>;

    fn into_iter(self) -> TrackIter<'t> {
        self.iter()
    }
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
    /// Returns the id as an index. Ids count from 0 without gaps.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl TrackTable {
    /// The maximum number of tracks that [`ancestry`](Self::ancestry) yields. The limit also ends
    /// cycles of parents.
    pub const PARENTS_MAX: usize = 64;

    /// Returns a track.
    ///
    /// # Panics
    ///
    /// If the id is from another table and too large for this one.
    #[must_use]
    #[inline]
    pub fn track(&self, id: TrackId) -> &Track {
        &self.tracks[id.index()]
    }

    /// Returns the number of tracks. The indexes of ids are smaller than this.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.tracks.len()
    }

    /// Returns true if there are no tracks.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tracks.is_empty()
    }

    /// Returns all tracks, in the order in which they appeared.
    #[must_use]
    pub fn iter(&self) -> TrackIter<'_> {
        TrackIter {
            next: 0,
            tracks: self.tracks.iter(),
        }
    }

    /// Returns the track with this uuid, if the trace has mentioned it so far.
    #[must_use]
    pub fn find(&self, uuid: u64) -> Option<TrackId> {
        self.by_uuid.get(&uuid).copied()
    }

    /// Returns the name to show for a track: its own name, or else the name of its thread or
    /// process. Empty if there is neither.
    ///
    /// # Panics
    ///
    /// If the id is from another table and too large for this one.
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

    /// Formats a track for a message: `track "main" (77)`, or `track 77` if it has no name.
    pub(super) fn label(&self, id: TrackId, names: &NameTable) -> String {
        let uuid = self.track(id).uuid;
        match self.title(id, names) {
            "" => format!("track {uuid}"),
            title => format!("track {title:?} ({uuid})"),
        }
    }

    /// Returns a track and the tracks above it, innermost first. Returns at most
    /// [`TrackTable::PARENTS_MAX`] tracks.
    ///
    /// # Panics
    ///
    /// If the id is from another table and too large for this one.
    pub fn ancestry(&self, id: TrackId) -> impl Iterator<Item = (TrackId, &Track)> {
        std::iter::successors(Some(id), |id| self.track(*id).parent)
            .take(Self::PARENTS_MAX)
            .map(|id| (id, self.track(id)))
    }

    /// Returns this track if it is a thread's track, or else the nearest thread's track above it.
    /// `None` if there is no thread's track above it.
    ///
    /// # Panics
    ///
    /// If the id is from another table and too large for this one.
    #[must_use]
    pub fn thread_of(&self, id: TrackId) -> Option<TrackId> {
        self.ancestry(id)
            .find(|(_, track)| matches!(track.kind, TrackKind::Thread { .. }))
            .map(|(id, _)| id)
    }

    /// Returns the id of the process that a track belongs to, if the descriptor of the track, or of
    /// a track above it, contains the process id.
    ///
    /// # Panics
    ///
    /// If the id is from another table and too large for this one.
    #[must_use]
    pub fn pid_of(&self, id: TrackId) -> Option<i32> {
        self.ancestry(id).find_map(|(_, track)| match track.kind {
            TrackKind::Process { pid, .. } | TrackKind::Thread { pid, .. } => Some(pid),
            _ => None,
        })
    }

    /// Returns the id of the track with this uuid. Adds the track if it is new. Returns `None` if
    /// there is no room for it.
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

    /// Adds a descriptor, which replaces an earlier one of the same track. Returns `None` if it has
    /// no uuid.
    pub(super) fn describe(
        &mut self,
        machine_id: u32,
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
            machine_id,
            parent: None,
            name: names.intern(name.unwrap_or_default()),
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
        // Uuid 0 means no parent.
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

/// The difference of a descriptor from the one before.
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
            unit_name: names.intern(counter.unit_name()?.unwrap_or_default()),
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
        name: names.intern(thread.thread_name()?.unwrap_or_default()),
    })
}

fn process_kind(
    process: ProcessDescriptorDecoder<'_>,
    names: &mut NameTable,
) -> Result<TrackKind, DecodeError> {
    Ok(TrackKind::Process {
        pid: process.pid()?.unwrap_or_default(),
        name: names.intern(process.process_name()?.unwrap_or_default()),
    })
}

/// A fast hasher for uuids of tracks. Uuids are random as a rule. A multiplication spreads those
/// that are not random.
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
    fn tracks_beyond_the_limit_have_no_id() {
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
        // Describe track 30, and then track 20 under it.
        let described = tracks.describe(0, &[0x08, 30], names);
        assert_eq!(described, Err(SkipReason::TooManyTracks));
        let described = tracks.describe(0, &[0x08, 20, 0x28, 30], names);
        assert_eq!(described, Ok(Some((second, Change::New))));
        assert_eq!(tracks.track(second).parent, None);
    }
}
