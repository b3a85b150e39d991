//! The open slices of futures, for the lists in rings (`track_list.rs`).
//!
//! Any thread may poll a future, and no thread need ever poll it again. So the slices are kept for
//! the whole process, in shards with a lock each.

use std::iter;
use std::num::NonZeroU32;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::begin_sessions::BeginSessions;
use crate::call_site::CallSite;
use crate::placement::EventTime;
use crate::slice_list::{ListingSession, SliceName, TrackSlice, TrackVisitor};
use crate::track::Track;
use tracezero_core::forked_child;
use tracezero_core::reentry;

/// The number of shards; a track's uuid chooses its shard.
const SHARDS: usize = 32;

/// The maximum number of slices in a shard. Further ones are in no list.
const SLICES_MAX: usize = u32::MAX as usize / SHARDS;

/// The longest wait for a shard. It only ends a wait for a lock that this thread holds: locked code
/// allocates, and an allocator may drop futures.
const WAIT_MAX: Duration = Duration::from_millis(100);

static OPEN: [Mutex<Shard>; SHARDS] = [const { Mutex::new(Shard::new()) }; SHARDS];

#[derive(Debug)]
struct Shard {
    slices: Vec<Option<Entry>>,
    /// The indices of all `None` in `slices`.
    free: Vec<usize>,
}

/// The open slice of a future.
#[derive(Debug)]
struct Entry {
    /// Its name is also that of the slice.
    track: Track,
    site: &'static CallSite,
    begin: Begin,
    /// The begins in sessions that started while the future ran.
    later: Vec<Begin>,
}

#[derive(Clone, Copy, Debug)]
struct Begin {
    /// The sessions that have seen this begin, and no other one.
    begun: BeginSessions,
    begun_at_ns: u64,
}

impl Begin {
    fn is_in(&self, ListingSession { slot, generation }: ListingSession) -> bool {
        self.begun.includes_session(slot, generation)
    }
}

/// The place of a future's slice in the lists of rings. It leaves them when this value is dropped.
#[derive(Debug, Default)]
pub struct OpenAsyncSlice(Option<Place>);

/// The shard and the index there, plus 1, in a word: it is a part of every future with a span.
#[derive(Clone, Copy, Debug)]
struct Place(NonZeroU32);

impl OpenAsyncSlice {
    /// Adds `begun` to the sessions whose lists contain the slice: in them, it began at `time`. The
    /// first call creates the slice, with the name of `track` and the category of `site`. Each
    /// later call only adds sessions. The caller passes sessions that record into a ring and that
    /// no earlier call has added; see [`BeginSessions::in_ring_of`].
    #[inline(never)]
    pub fn begin(
        &mut self,
        track: &Track,
        site: &'static CallSite,
        begun: BeginSessions,
        time: EventTime,
    ) {
        let begin = Begin {
            begun,
            begun_at_ns: time.timestamp_ns(),
        };
        if let Some(place) = self.0 {
            with_shard(place.shard(), |shard| shard.add_later(place.index(), begin));
            return;
        }
        let shard = track.uuid() as usize % SHARDS;
        let entry = Entry {
            track: track.clone(),
            site,
            begin,
            later: Vec::new(),
        };
        let index = with_shard(shard, |shard| shard.insert(entry));
        self.0 = index.and_then(|index| Place::new(shard, index));
    }

    /// Removes the slice. Call it before the time of the end is taken: a slice that is in a list
    /// ends after the time of the list.
    #[inline]
    pub fn end(&mut self) {
        if let Some(place) = self.0.take() {
            place.remove();
        }
    }
}

impl Drop for OpenAsyncSlice {
    #[inline]
    fn drop(&mut self) {
        self.end();
    }
}

impl Place {
    fn new(shard: usize, index: usize) -> Option<Self> {
        let number = u32::try_from(index * SHARDS + shard + 1).ok()?;
        NonZeroU32::new(number).map(Self)
    }

    fn shard(self) -> usize {
        (self.0.get() - 1) as usize % SHARDS
    }

    fn index(self) -> usize {
        (self.0.get() - 1) as usize / SHARDS
    }

    #[inline(never)]
    fn remove(self) {
        with_shard(self.shard(), |shard| shard.remove(self.index()));
    }
}

/// Calls `work` with a shard locked.
fn with_shard<R>(index: usize, work: impl FnOnce(&mut Shard) -> Option<R>) -> Option<R> {
    let _inside = reentry::TracerGuard::enter();
    work(&mut *lock(OPEN.get(index)?)?)
}

/// Locks a shard. Returns `None` in a forked child, because a thread of the parent may have held
/// the lock. The caller is inside of the tracer, so that trace points of its allocator do not lock
/// again.
#[inline(never)]
fn lock(shard: &'static Mutex<Shard>) -> Option<MutexGuard<'static, Shard>> {
    if forked_child::is_disabled() {
        return None;
    }
    shard.try_lock_for(WAIT_MAX)
}

impl Shard {
    const fn new() -> Self {
        Self {
            slices: Vec::new(),
            free: Vec::new(),
        }
    }

    fn insert(&mut self, entry: Entry) -> Option<usize> {
        let Some(index) = self.free.pop() else {
            if self.slices.len() >= SLICES_MAX {
                return None;
            }
            self.slices.push(Some(entry));
            return Some(self.slices.len() - 1);
        };
        *self.slices.get_mut(index)? = Some(entry);
        Some(index)
    }

    fn add_later(&mut self, index: usize, begin: Begin) -> Option<()> {
        let entry = self.slices.get_mut(index)?.as_mut()?;
        // Removes the begins whose sessions have all ended. Otherwise the list would grow with each
        // session that starts while the future lives.
        entry.later.retain(|it| it.begun.active_slots() != 0);
        entry.later.push(begin);
        Some(())
    }

    fn remove(&mut self, index: usize) -> Option<()> {
        self.slices.get_mut(index)?.take()?;
        self.free.push(index);
        Some(())
    }
}

/// Shows the visitor the open slices of futures that a session has seen. A shard is locked
/// meanwhile.
pub(super) fn each_in_session(session: ListingSession, visitor: &mut dyn TrackVisitor) {
    let _inside = reentry::TracerGuard::enter();
    for shard in OPEN.iter().filter_map(lock) {
        for entry in shard.slices.iter().flatten() {
            let mut begins = iter::once(&entry.begin).chain(&entry.later);
            let Some(begin) = begins.find(|it| it.is_in(session)) else {
                continue;
            };
            if !visitor.wants(begin.begun_at_ns) {
                continue;
            }
            let slice = TrackSlice {
                begun_at_ns: begin.begun_at_ns,
                site: entry.site.names(),
                name: SliceName::OfTrack,
            };
            visitor.visit(&entry.track, slice);
        }
    }
}
