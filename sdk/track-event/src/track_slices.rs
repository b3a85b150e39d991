//! The slices that are open on tracks other than the thread's, because of guards.
//!
//! Any thread may begin and end them, so they are kept for the whole process, under locks that tracks
//! share. The time of a begin or an end is taken under the lock: the order of the slices here is the
//! order of their times. Nothing is written under the lock.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::begun::Begun;
use crate::call_site::CallSite;
use crate::pieces::{self, Piece, Pieces};
use crate::placement::{EventTime, Placement};
use crate::track::Track;
use tracezero_core::forked_child;
use tracezero_core::reentry;
use tracezero_producer as producer;

/// Locks, to which tracks are spread.
const SHARDS: usize = 32;

static OPEN: [Mutex<Vec<OpenSlice>>; SHARDS] = [const { Mutex::new(Vec::new()) }; SHARDS];

/// Guards of all tracks. Without any, nobody locks for [`begin!`](crate::begin) and
/// [`end!`](crate::end).
static GUARDS: AtomicUsize = AtomicUsize::new(0);

/// A slice that is open. Those of a track are in the order in which they nest.
#[derive(Debug)]
struct OpenSlice {
    track_uuid: u64,
    /// `None` if [`begin!`](crate::begin) began it.
    guard: Option<GuardId>,
    piece: Piece,
}

/// Tells the guard of a slice from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GuardId(u64);

/// Adds a slice that a guard ends. Returns when it begins as well; `None` where nothing is recorded, inside
/// of another trace point and in a forked child.
pub(super) fn push(
    track: &Track,
    begun: Begun,
    site: &'static CallSite,
    placement: &Placement<'_>,
) -> Option<(GuardId, EventTime)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    if producer::is_nested() {
        return None;
    }
    let mut open = lock(track)?;
    // Relaxed: only that each number is given once counts.
    let guard = GuardId(NEXT.fetch_add(1, Ordering::Relaxed));
    let time = placement.time();
    // Relaxed: whoever uses the same track meanwhile is ordered by the lock, or by nothing.
    GUARDS.fetch_add(1, Ordering::Relaxed);
    open.slices.push(OpenSlice {
        track_uuid: track.uuid(),
        guard: Some(guard),
        piece: piece(begun, site, time, placement),
    });
    Some((guard, time))
}

/// Adds a slice that [`end!`](crate::end) ends, if there are guards on the track. Returns when it begins.
pub(super) fn push_by_macro(
    track: &Track,
    begun: Begun,
    site: &'static CallSite,
    placement: &Placement<'_>,
) -> EventTime {
    let Some(mut open) = lock_if_guarded(track) else {
        return placement.time();
    };
    let time = placement.time();
    if open.has_guard(track) {
        open.slices.push(OpenSlice {
            track_uuid: track.uuid(),
            guard: None,
            piece: piece(begun, site, time, placement),
        });
    }
    time
}

/// Takes out the slice of a guard, which ends at `time`. Returns the ones inside.
pub(super) fn remove(
    track: &Track,
    guard: GuardId,
    begun: Begun,
    time: impl FnOnce() -> EventTime,
) -> Option<(EventTime, Pieces)> {
    // Relaxed: as in `push`. Before the lock, which who asks the sessions may want.
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
        open.slices.retain(|it| it.track_uuid != track.uuid());
    }
    Some((time, Pieces { inner, is_reversed }))
}

/// Takes out the innermost slice that [`begin!`](crate::begin) began. Returns when it ends, and the ones
/// inside: those of all guards if it began before them.
pub(super) fn remove_by_macro(track: &Track, placement: &Placement<'_>) -> (EventTime, Pieces) {
    let Some(mut open) = lock_if_guarded(track) else {
        return (placement.time(), Pieces::default());
    };
    let time = placement.time();
    let is_by_macro = |it: &OpenSlice| it.track_uuid == track.uuid() && it.guard.is_none();
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

fn piece(
    begun: Begun,
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

/// The slices of some tracks. Trace points of this thread are counted only while it has them: an
/// allocator may have some.
struct Locked {
    slices: MutexGuard<'static, Vec<OpenSlice>>,
    _inside: reentry::Inside,
}

/// `None` in a forked child, whose parent may have had them locked, and inside of the tracer if this
/// thread may.
fn lock(track: &Track) -> Option<Locked> {
    if forked_child::is_quiet() {
        return None;
    }
    let shard = OPEN.get(track.uuid() as usize % SHARDS)?;
    let slices = if reentry::is_inside() {
        shard.try_lock()?
    } else {
        shard.lock()
    };
    Some(Locked {
        slices,
        _inside: reentry::Inside::enter(),
    })
}

fn lock_if_guarded(track: &Track) -> Option<Locked> {
    // Relaxed: as in `push`.
    (GUARDS.load(Ordering::Relaxed) > 0).then(|| lock(track))?
}

impl Locked {
    fn has_guard(&self, track: &Track) -> bool {
        let mut slices = self.slices.iter();
        slices.any(|it| it.track_uuid == track.uuid() && it.guard.is_some())
    }

    /// Copies of a track's slices from a place on.
    fn inside(&self, from: usize, track: &Track) -> Vec<Piece> {
        let slices = self.slices.iter().enumerate().skip(from);
        slices
            .filter(|(_, it)| it.track_uuid == track.uuid())
            .map(|(at, it)| Piece {
                at,
                ..it.piece.clone()
            })
            .collect()
    }
}
