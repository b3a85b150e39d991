//! The open slices on tracks other than the thread's own.
//!
//! Slices that [`begin!`](crate::begin) began are only kept while the track also has a slice that a
//! guard ends: without guards, no slice ends before a slice inside of it.
//!
//! Any thread may begin and end these slices, so they are kept for the whole process, in shards
//! with a lock each. The time of a begin or an end is taken under the lock, so the order of the
//! slices is the order of their times. No packet is written under the lock.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::begin_sessions::BeginSessions;
use crate::call_site::CallSite;
use crate::pieces::{self, Piece, Pieces};
use crate::placement::{EventTime, Placement};
use crate::slice_list::{ListingSession, SliceName, TrackSlice, TrackVisitor};
use crate::track::Track;
use tracezero_core::forked_child;
use tracezero_core::reentry;
use tracezero_producer as producer;

/// The number of shards; a track's uuid chooses its shard.
const SHARDS: usize = 32;

static OPEN: [Mutex<Vec<OpenSlice>>; SHARDS] = [const { Mutex::new(Vec::new()) }; SHARDS];

/// The number of guards on all tracks. While it is 0, [`begin!`](crate::begin) and
/// [`end!`](crate::end) take no lock.
static GUARDS: AtomicUsize = AtomicUsize::new(0);

/// An open slice. The slices of a track are in nesting order, the outermost first.
#[derive(Debug)]
struct OpenSlice {
    track: Track,
    /// `None` if [`begin!`](crate::begin) began it.
    guard: Option<GuardId>,
    piece: Piece,
}

/// The identity of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GuardId(u64);

/// Adds a slice that a guard ends. Returns its begin time too. Returns `None` where nothing is
/// recorded: inside of another trace point, and in a forked child.
pub(super) fn push(
    track: &Track,
    begun: BeginSessions,
    site: &'static CallSite,
    placement: &Placement<'_>,
) -> Option<(GuardId, EventTime)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    if producer::is_nested() {
        return None;
    }
    let mut open = lock(track)?;
    // Relaxed: the numbers must only be unique.
    let guard = GuardId(NEXT.fetch_add(1, Ordering::Relaxed));
    let time = placement.time();
    // Relaxed: a thread that knows of this slice, by any synchronization, also sees this count. For
    // other threads, either count is right.
    GUARDS.fetch_add(1, Ordering::Relaxed);
    open.slices.push(OpenSlice {
        track: track.clone(),
        guard: Some(guard),
        piece: piece(begun, site, time, placement),
    });
    Some((guard, time))
}

/// Adds a slice that [`end!`](crate::end) ends, if the track has guards. Returns its begin time.
pub(super) fn push_by_macro(
    track: &Track,
    begun: BeginSessions,
    site: &'static CallSite,
    placement: &Placement<'_>,
) -> EventTime {
    let Some(mut open) = lock_if_guarded(track) else {
        return placement.time();
    };
    let time = placement.time();
    if open.has_guard(track) {
        open.slices.push(OpenSlice {
            track: track.clone(),
            guard: None,
            piece: piece(begun, site, time, placement),
        });
    }
    time
}

/// Removes the slice of a guard. Returns the time of its end, and the slices inside of it.
pub(super) fn remove(
    track: &Track,
    guard: GuardId,
    begun: BeginSessions,
    time: impl FnOnce() -> EventTime,
) -> Option<(EventTime, Pieces)> {
    // Relaxed: as in `push`. Call `is_recorded` before locking, because it may need the same lock.
    let are_many = GUARDS.load(Ordering::Relaxed) > pieces::IN_ORDER_MAX;
    let is_recorded = are_many && pieces::is_recorded(begun);
    let mut open = lock(track)?;
    let time = time();
    let at = open.slices.iter().rposition(|it| it.guard == Some(guard))?;
    open.slices.remove(at);
    // Relaxed: as in `push`.
    GUARDS.fetch_sub(1, Ordering::Relaxed);
    let inner = open.inside(at, track);
    let is_reversed = pieces::are_reversed(begun, time, &inner, || is_recorded);
    if is_reversed {
        let mut places = inner.iter().map(|piece| piece.at);
        while let (Some(first), Some(last)) = (places.next(), places.next_back()) {
            open.slices.swap(first, last);
        }
    }
    if !open.has_guard(track) {
        open.slices.retain(|it| it.track != *track);
    }
    Some((time, Pieces { inner, is_reversed }))
}

/// Removes the innermost slice that [`begin!`](crate::begin) began. Returns the time of its end,
/// and the slices inside of it. If the slice is not in the list, it began before the slices of all
/// guards, so all of these are inside of it.
pub(super) fn remove_by_macro(track: &Track, placement: &Placement<'_>) -> (EventTime, Pieces) {
    let Some(mut open) = lock_if_guarded(track) else {
        return (placement.time(), Pieces::default());
    };
    let time = placement.time();
    let is_by_macro = |it: &OpenSlice| it.track == *track && it.guard.is_none();
    let at = open.slices.iter().rposition(is_by_macro);
    if let Some(at) = at {
        open.slices.remove(at);
    }
    let pieces = Pieces {
        inner: open.inside(at.unwrap_or(0), track),
        is_reversed: false,
    };
    (time, pieces)
}

/// Shows the visitor the open slices that a session has seen, except for those on the tracks of
/// threads, which their threads list. A shard is locked meanwhile. Leaves out shards that are
/// locked already.
pub(super) fn each_in_session(session: ListingSession, visitor: &mut dyn TrackVisitor) {
    // Relaxed: as in `push`.
    if GUARDS.load(Ordering::Relaxed) == 0 {
        return;
    }
    for open in OPEN.iter().filter_map(lock_shard) {
        for OpenSlice { track, piece, .. } in &*open.slices {
            let begun = piece.begun;
            let is_listed =
                !track.is_thread() && begun.includes_session(session.slot, session.generation);
            if !is_listed || !visitor.wants(piece.begun_at_ns) {
                continue;
            }
            let slice = TrackSlice {
                begun_at_ns: piece.begun_at_ns,
                site: piece.site.names(),
                name: match &*piece.name {
                    "" => SliceName::OfSite,
                    name => SliceName::Own(name),
                },
            };
            visitor.visit(track, slice);
        }
    }
}

fn piece(
    begun: BeginSessions,
    site: &'static CallSite,
    time: EventTime,
    placement: &Placement<'_>,
) -> Piece {
    Piece {
        begun,
        site,
        begun_at_ns: time.timestamp_ns(),
        name: placement.name.unwrap_or_default().to_owned(),
        flow: None,
        at: 0,
        rank: 0,
    }
}

/// A locked shard. While it is locked, trace points of this thread are only counted: an allocator
/// may contain some, and they must not lock again.
struct LockedShard {
    slices: MutexGuard<'static, Vec<OpenSlice>>,
    _inside: reentry::TracerGuard,
}

/// Locks the shard of a track.
fn lock(track: &Track) -> Option<LockedShard> {
    lock_shard(OPEN.get(track.uuid() as usize % SHARDS)?)
}

/// Locks a shard. Returns `None` in a forked child, because a thread of the parent may have held
/// the lock. Does not wait inside of the tracer, because this thread may hold the lock: returns
/// `None` if the shard is locked.
fn lock_shard(shard: &'static Mutex<Vec<OpenSlice>>) -> Option<LockedShard> {
    if forked_child::is_disabled() {
        return None;
    }
    let slices = if reentry::is_inside() {
        shard.try_lock()?
    } else {
        shard.lock()
    };
    Some(LockedShard {
        slices,
        _inside: reentry::TracerGuard::enter(),
    })
}

fn lock_if_guarded(track: &Track) -> Option<LockedShard> {
    // Relaxed: as in `push`.
    (GUARDS.load(Ordering::Relaxed) > 0).then(|| lock(track))?
}

impl LockedShard {
    fn has_guard(&self, track: &Track) -> bool {
        let mut slices = self.slices.iter();
        slices.any(|it| it.track == *track && it.guard.is_some())
    }

    /// Returns copies of a track's slices from index `from` on.
    fn inside(&self, from: usize, track: &Track) -> Vec<Piece> {
        let slices = self.slices.iter().enumerate().skip(from);
        slices
            .filter(|(_, it)| it.track == *track)
            .map(|(at, it)| Piece {
                at,
                ..it.piece.clone()
            })
            .collect()
    }
}
