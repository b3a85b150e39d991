//! The stack of open slices on each thread's own track, the outermost first.
//!
//! In a trace, an end belongs to the innermost slice of its track. So if a guard is dropped while
//! slices inside of its slice are still open, it must first end these inner slices. This stack
//! knows them.
//!
//! The usual push and pop touch no lock, no heap and no destructor. Removing a slice from the
//! middle leaves a gap, so the other guards keep their positions. `pop` only takes the slice on top
//! of the stack, and leaves gaps below it. So while there is a gap, an extra gap is kept on top:
//! then no older slice is on top, and the guards of older slices take the slow path (`remove`),
//! which clears gaps:
//!
//! ```text
//!  a b c     a is dropped:   _ b c _     c is dropped:   _ b _     b is dropped: empty
//! ```
//!
//! Spans that overlap in a chain, each of which begins before the guard of the previous span is
//! dropped, would pile up gaps. So a slice that would need the heap takes a gap instead, if there
//! is one.
//!
//! Slices nest in the order of their *ranks*. The rank of a slice is its position, with two
//! exceptions: slices that went on in reverse order after an outer slice ended, and slices that
//! took a gap. No rank is larger than the largest position.

use std::cell::{Cell, RefCell};
use std::mem;
use std::num::NonZeroU32;

use crate::altered::note_too_deep_span;
use crate::begin_sessions::BeginSessions;
use crate::call_site::CallSite;
use crate::flow::Flow;
use crate::instance::EventThread;
use crate::pieces::{self, Piece, Pieces};
use crate::placement::EventTime;
use crate::slice_details::{Details, DetailsTable};
use crate::slice_list::{Listed, ListingSession, Visit};

/// The number of slices of a thread that need no heap.
const SHALLOW: usize = 32;
/// The maximum number of spans that can be open on a thread's track at once. A span that begins
/// while so many are open is not recorded. The report counts these spans: `Warning::TooDeepSpans`.
pub const OPEN_SPANS_MAX: usize = 1 << 16;

thread_local! {
    static OPEN: OpenSlices = const {
        OpenSlices {
            len: Cell::new(0),
            shallow: [const { Cell::new(Place::GAP) }; SHALLOW],
        }
    };
    static REST: RefCell<Rest> = const { RefCell::new(Rest::new()) };
}

/// This part of the stack has no destructor, so a thread reaches it without a check.
struct OpenSlices {
    /// The number of positions in use, including gaps. At most [`OPEN_SPANS_MAX`], apart from an
    /// extra gap.
    len: Cell<u32>,
    shallow: [Cell<Place>; SHALLOW],
}

/// A position of the stack: an open slice or a gap.
#[derive(Clone, Copy)]
struct Place {
    /// The words of [`BeginSessions::to_words`]; 0 for a gap.
    begun: [u64; 2],
    /// `None` for a gap.
    site: Option<&'static CallSite>,
    began: BeginStamp,
}

/// The part of the stack that only some slices need.
struct Rest {
    /// The positions after [`OpenSlices::shallow`].
    deep: Vec<Place>,
    details: DetailsTable,
    /// A buffer for the slices inside of a slice that ends.
    pieces: Vec<Piece>,
    /// Buffers for [`OpenSlices::renumber`] and [`each_in_session`].
    ranks: Vec<(u32, SlicePosition)>,
    positions: Vec<u32>,
}

/// The position of an open slice, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlicePosition(NonZeroU32);

/// An open slice on the thread's track.
#[derive(Clone, Copy, Debug)]
struct OpenSlice {
    /// The sessions that have seen its begin.
    begun: BeginSessions,
    site: &'static CallSite,
    began: BeginStamp,
}

/// The time when a slice began, on the trace clock, and two flags.
#[derive(Clone, Copy, Debug)]
struct BeginStamp(u64);

impl BeginStamp {
    /// Set if the slice has [`Details`].
    const HAS_DETAILS: u64 = 1 << 63;
    /// Set if [`begin!`](crate::begin) began the slice, so that no guard knows its position.
    const BY_MACRO: u64 = 1 << 62;
    const TIME: u64 = Self::BY_MACRO - 1;

    #[inline(always)]
    const fn at(time: EventTime) -> Self {
        match time {
            // No clock reaches the two flag bits: 2^62 ns are 146 years.
            EventTime::Now(timestamp_ns) => Self(timestamp_ns),
            EventTime::At(timestamp_ns) => Self(timestamp_ns & Self::TIME),
        }
    }
}

/// Pushes a slice; `None` if too many are open.
#[inline(always)]
pub(super) fn push(
    begun: BeginSessions,
    site: &'static CallSite,
    time: EventTime,
) -> Option<SlicePosition> {
    let began = BeginStamp::at(time);
    push_slice(OpenSlice { begun, site, began })
}

/// Pushes a slice that may have its own name and be part of a flow.
#[inline(always)]
pub(super) fn push_with(
    begun: BeginSessions,
    site: &'static CallSite,
    time: EventTime,
    name: &str,
    flow: Option<Flow>,
) -> Option<SlicePosition> {
    if name.is_empty() && flow.is_none() {
        return push(begun, site, time);
    }
    push_detailed(begun, site, time, name, flow)
}

#[inline(never)]
fn push_detailed(
    begun: BeginSessions,
    site: &'static CallSite,
    time: EventTime,
    name: &str,
    flow: Option<Flow>,
) -> Option<SlicePosition> {
    let position = SlicePosition::new(OPEN.with(|open| open.len.get()) + 1)?;
    // Fails on a thread that is ending.
    let is_kept = REST.try_with(|rest| {
        let mut rest = rest.try_borrow_mut().ok()?;
        rest.details.keep(position.0, name, flow);
        Some(())
    });
    let flag = match is_kept {
        Ok(Some(())) => BeginStamp::HAS_DETAILS,
        _ => 0,
    };
    let began = BeginStamp(BeginStamp::at(time).0 | flag);
    push_slice(OpenSlice { begun, site, began })
}

/// Pushes a slice that [`end!`](crate::end) ends.
pub(super) fn push_by_macro(
    begun: BeginSessions,
    site: &'static CallSite,
    time: EventTime,
    name: &str,
) -> Option<SlicePosition> {
    drop_forgotten();
    let position = push_with(begun, site, time, name, None)?;
    OPEN.with(|open| {
        let mut slice = open.at(position)?;
        slice.began.0 |= BeginStamp::BY_MACRO;
        open.replace(position, Some(slice));
        Some(position)
    })
}

/// Pops the slice if it is on top of the stack and within the first [`SHALLOW`] positions. Returns
/// the sessions that have seen its begin, in the form of [`BeginSessions::to_words`]. Returns
/// `None` if the caller must use [`remove`].
#[inline(always)]
pub(super) fn pop(position: SlicePosition) -> Option<[u64; 2]> {
    OPEN.with(|open| {
        let len = open.len.get();
        if len != position.0.get() {
            return None;
        }
        let place = open.shallow.get(len as usize - 1)?.get();
        open.len.set(len - 1);
        Some(place.begun)
    })
}

/// Removes a slice at any position, which ends at `time`. Returns the sessions that have seen its
/// begin, and the slices inside of it.
#[cold]
#[inline(never)]
pub(super) fn remove(position: SlicePosition, time: EventTime) -> Option<(BeginSessions, Pieces)> {
    OPEN.with(|open| {
        let begun = open.at(position)?.begun;
        if open.len.get() == position.0.get() {
            // The slice is on top, but beyond the first `SHALLOW` positions.
            open.len.set(position.0.get() - 1);
            return Some((begun, Pieces::default()));
        }
        let inner = open.inside(position);
        open.replace(position, None);
        let is_reversed = pieces::are_reversed(begun, time, &inner, || pieces::is_recorded(begun));
        if is_reversed {
            open.reverse(&inner);
        }
        open.clear_gaps();
        Some((begun, Pieces { inner, is_reversed }))
    })
}

/// Removes the innermost slice that [`begin!`](crate::begin) began, as one session sees it. Returns
/// the slices inside of it.
pub(super) fn remove_by_macro(instance: &EventThread) -> Option<Pieces> {
    OPEN.with(|open| {
        let mut innermost: Option<(u32, SlicePosition, OpenSlice)> = None;
        open.each(|position, slice| {
            let rank = rank(position, &slice);
            if slice.began.0 & BeginStamp::BY_MACRO != 0
                && innermost.is_none_or(|(highest, ..)| rank > highest)
                && slice.begun.includes(instance)
            {
                innermost = Some((rank, position, slice));
            }
        });
        let (_, position, slice) = innermost?;
        let inner = open.inside(position);
        let begun = slice.begun.without(instance);
        open.replace(position, begun.map(|begun| OpenSlice { begun, ..slice }));
        if begun.is_none() {
            open.clear_gaps();
        }
        Some(Pieces {
            inner,
            is_reversed: false,
        })
    })
}

/// Calls `visit` for all open slices of this thread that a session has seen, the outermost first.
pub(super) fn each_in_session(session: ListingSession, visit: &mut Visit<'_>) {
    OPEN.with(|open| {
        let memory = REST.try_with(|rest| Some(mem::take(&mut rest.try_borrow_mut().ok()?.ranks)));
        // Fails on a thread that is ending.
        let Ok(Some(mut ranks)) = memory else {
            return;
        };
        open.each(|position, slice| {
            if slice
                .begun
                .includes_session(session.slot, session.generation)
            {
                ranks.push((rank(position, &slice), position));
            }
        });
        ranks.sort_unstable_by_key(|(rank, _)| *rank);
        for &(_, position) in &ranks {
            let Some(slice) = open.at(position) else {
                continue;
            };
            let names = slice.site.names();
            let listed = Listed {
                begun_at_ns: slice.began.0 & BeginStamp::TIME,
                name: names.name,
                is_name_dynamic: names.origin.is_some_and(|it| it.is_name_dynamic),
                category: names.category,
                flow: None,
            };
            let detailed = with_details(position, slice, |details| {
                let listed = Listed {
                    flow: details.flow,
                    ..listed
                };
                visit(match &*details.name {
                    "" => listed,
                    name => Listed {
                        name,
                        is_name_dynamic: true,
                        ..listed
                    },
                });
            });
            if detailed.is_none() {
                visit(listed);
            }
        }
        ranks.clear();
        // Not needed on a thread that is ending.
        let _ = REST.try_with(|rest| {
            rest.try_borrow_mut().ok()?.ranks = ranks;
            Some(())
        });
    });
}

/// Removes slices on top that [`begin!`](crate::begin) began, if no session that has seen their
/// begin still records.
fn drop_forgotten() {
    OPEN.with(|open| {
        while let Some(position) = SlicePosition::new(open.len.get())
            && let Some(slice) = open.at(position)
            && slice.began.0 & BeginStamp::BY_MACRO != 0
            && slice.begun.still_recording().is_none()
        {
            open.replace(position, None);
            open.clear_gaps();
        }
    });
}

#[inline(always)]
fn push_slice(slice: OpenSlice) -> Option<SlicePosition> {
    OPEN.with(|open| {
        let len = open.len.get();
        let Some(place) = open.shallow.get(len as usize) else {
            return open.push_deep(slice.place());
        };
        place.set(slice.place());
        open.len.set(len + 1);
        SlicePosition::new(len + 1)
    })
}

impl SlicePosition {
    #[inline(always)]
    const fn new(position: u32) -> Option<Self> {
        match NonZeroU32::new(position) {
            Some(position) => Some(Self(position)),
            None => None,
        }
    }

    const fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// Returns the position as a number that is not 0.
    pub(super) fn number(self) -> u64 {
        self.0.get().into()
    }

    /// Returns the position with this [`number`](Self::number).
    pub(super) fn from_number(number: u64) -> Option<Self> {
        Self::new(u32::try_from(number).ok()?)
    }
}

impl Place {
    const GAP: Self = Self {
        begun: [0; 2],
        site: None,
        began: BeginStamp(0),
    };

    fn slice(self) -> Option<OpenSlice> {
        Some(OpenSlice {
            begun: BeginSessions::from_words(self.begun)?,
            site: self.site?,
            began: self.began,
        })
    }
}

impl OpenSlice {
    #[inline(always)]
    const fn place(self) -> Place {
        Place {
            begun: self.begun.to_words(),
            site: Some(self.site),
            began: self.began,
        }
    }

    fn piece(self, position: SlicePosition) -> Piece {
        let details = with_details(position, self, Details::clone).unwrap_or_default();
        Piece {
            begun: self.begun,
            site: self.site,
            begun_at_ns: self.began.0 & BeginStamp::TIME,
            name: details.name,
            flow: details.flow,
            at: position.index(),
            rank: details.rank.unwrap_or(position.0.get()),
        }
    }
}

impl OpenSlices {
    #[cold]
    #[inline(never)]
    fn push_deep(&self, place: Place) -> Option<SlicePosition> {
        let len = self.len.get();
        if let Some(slice) = place.slice()
            && let Some(position) = self.fill_gap(slice)
        {
            return Some(position);
        }
        if len as usize >= OPEN_SPANS_MAX && place.site.is_some() {
            note_too_deep_span();
            return None;
        }
        // Fails on a thread that is ending.
        let is_pushed = REST.try_with(|rest| {
            let deep = &mut rest.try_borrow_mut().ok()?.deep;
            deep.truncate(len as usize - SHALLOW);
            deep.push(place);
            Some(())
        });
        is_pushed.ok()??;
        self.len.set(len + 1);
        SlicePosition::new(len + 1)
    }

    /// Puts a slice into the lowest gap. Does so only if the top is a gap too, which shows that a
    /// guard was just dropped out of order. Without this condition, every push would have to search
    /// the whole stack for a gap.
    fn fill_gap(&self, slice: OpenSlice) -> Option<SlicePosition> {
        let len = self.len.get();
        if self.at(SlicePosition::new(len)?).is_some() {
            return None;
        }
        let mut positions = (1..=len).filter_map(SlicePosition::new);
        let gap = positions.find(|&position| self.at(position).is_none())?;
        // The details were kept for the position that the slice would have had.
        let details = with_details(SlicePosition::new(len + 1)?, slice, Details::clone);
        let details = Details {
            rank: Some(len + 1),
            ..details.unwrap_or_default()
        };
        self.replace(gap, Some(slice));
        if !self.keep_rank(gap, details) {
            self.replace(gap, None);
            return None;
        }
        self.renumber();
        self.clear_gaps();
        Some(gap)
    }

    /// Renumbers the ranks of the open slices: in the same order, each gets one of their positions
    /// as its rank.
    fn renumber(&self) {
        // On a thread that is ending, the ranks stay as they are.
        let memory = REST.try_with(|rest| {
            let mut rest = rest.try_borrow_mut().ok()?;
            let rest = &mut *rest;
            Some((mem::take(&mut rest.ranks), mem::take(&mut rest.positions)))
        });
        let Ok(Some((mut ranks, mut positions))) = memory else {
            return;
        };
        self.each(|position, slice| {
            ranks.push((rank(position, &slice), position));
            positions.push(position.0.get());
        });
        ranks.sort_unstable_by_key(|(rank, _)| *rank);
        for (&(old, position), &new) in ranks.iter().zip(&positions) {
            if old != new
                && let Some(slice) = self.at(position)
            {
                let details = with_details(position, slice, Details::clone);
                let details = Details {
                    rank: Some(new),
                    ..details.unwrap_or_default()
                };
                self.keep_rank(position, details);
            }
        }
        ranks.clear();
        positions.clear();
        let _ = REST.try_with(|rest| {
            let mut rest = rest.try_borrow_mut().ok()?;
            rest.ranks = ranks;
            rest.positions = positions;
            Some(())
        });
    }

    /// Keeps the details of an open slice, which include its rank. Returns false on a thread that
    /// is ending.
    fn keep_rank(&self, position: SlicePosition, details: Details) -> bool {
        let is_kept = REST.try_with(|rest| {
            let mut rest = rest.try_borrow_mut().ok()?;
            rest.details.put(position.0, details);
            Some(())
        });
        let is_kept = matches!(is_kept, Ok(Some(())));
        if is_kept && let Some(mut slice) = self.at(position) {
            slice.began.0 |= BeginStamp::HAS_DETAILS;
            self.replace(position, Some(slice));
        }
        is_kept
    }

    fn at(&self, position: SlicePosition) -> Option<OpenSlice> {
        let index = position.index();
        if position.0.get() > self.len.get() {
            return None;
        }
        match self.shallow.get(index) {
            Some(place) => place.get().slice(),
            None => {
                let deep = |rest: &RefCell<Rest>| {
                    let rest = rest.try_borrow().ok()?;
                    rest.deep.get(index - SHALLOW)?.slice()
                };
                REST.try_with(deep).ok()?
            }
        }
    }

    fn replace(&self, position: SlicePosition, slice: Option<OpenSlice>) {
        let new = slice.map_or(Place::GAP, OpenSlice::place);
        let index = position.index();
        if let Some(place) = self.shallow.get(index) {
            return place.set(new);
        }
        // On a thread that is ending, there are no such positions any more.
        let _ = REST.try_with(|rest| {
            *rest.try_borrow_mut().ok()?.deep.get_mut(index - SHALLOW)? = new;
            Some(())
        });
    }

    /// Calls `visit` for all open slices, by ascending position.
    fn each(&self, mut visit: impl FnMut(SlicePosition, OpenSlice)) {
        let len = self.len.get() as usize;
        let mut visit = |index: usize, place: Place| {
            let position = SlicePosition::new(index as u32 + 1);
            if let (Some(position), Some(slice)) = (position, place.slice()) {
                visit(position, slice);
            }
        };
        for (index, place) in self.shallow.iter().enumerate().take(len) {
            visit(index, place.get());
        }
        if len > SHALLOW {
            // On a thread that is ending, there are no such positions any more.
            let _ = REST.try_with(|rest| {
                let rest = rest.try_borrow().ok()?;
                let deep = rest.deep.iter().take(len - SHALLOW);
                deep.enumerate()
                    .for_each(|(index, place)| visit(SHALLOW + index, *place));
                Some(())
            });
        }
    }

    /// Returns the open slices inside of the slice at `position`, the outermost first.
    fn inside(&self, position: SlicePosition) -> Vec<Piece> {
        let mut inner = REST
            .try_with(|rest| Some(mem::take(&mut rest.try_borrow_mut().ok()?.pieces)))
            .ok()
            .flatten()
            .unwrap_or_default();
        if let Some(slice) = self.at(position) {
            let around = rank(position, &slice);
            self.each(|position, slice| {
                if rank(position, &slice) > around {
                    inner.push(slice.piece(position));
                }
            });
            inner.sort_unstable_by_key(|piece| piece.rank);
        }
        inner
    }

    /// Reverses the ranks of these slices: the outermost gets the rank of the innermost, and so on.
    fn reverse(&self, inner: &[Piece]) {
        for (piece, other) in inner.iter().zip(inner.iter().rev()) {
            let Some(position) = SlicePosition::new(piece.at as u32 + 1) else {
                continue;
            };
            let details = Details {
                name: piece.name.clone(),
                flow: piece.flow,
                rank: Some(other.rank),
            };
            self.keep_rank(position, details);
        }
    }

    /// Removes the gaps on top. Puts one gap there as long as any guard must take the slow path.
    fn clear_gaps(&self) {
        let (mut len, mut in_place) = (0, 0);
        self.each(|position, slice| {
            let rank = rank(position, &slice);
            in_place += u32::from(rank == position.0.get());
            // Positions of later slices must be higher than all ranks, because later slices must be
            // inside of these slices.
            len = len.max(rank).max(position.0.get());
        });
        self.len.set(len);
        if in_place < len {
            match self.shallow.get(len as usize) {
                Some(place) => {
                    place.set(Place::GAP);
                    self.len.set(len + 1);
                }
                None => {
                    self.push_deep(Place::GAP);
                }
            }
        }
    }
}

fn rank(position: SlicePosition, slice: &OpenSlice) -> u32 {
    let moved = with_details(position, *slice, |details| details.rank);
    moved.flatten().unwrap_or(position.0.get())
}

/// Calls `read` with the details of a slice, if it has any.
fn with_details<R>(
    position: SlicePosition,
    slice: OpenSlice,
    read: impl FnOnce(&Details) -> R,
) -> Option<R> {
    if slice.began.0 & BeginStamp::HAS_DETAILS == 0 {
        return None;
    }
    let details = REST.try_with(|rest| {
        let rest = rest.try_borrow().ok()?;
        Some(read(rest.details.get(position.0)?))
    });
    details.ok().flatten()
}

/// Takes back the buffer of the `Pieces` that [`remove`] has returned.
pub(super) fn give_back(pieces: Pieces) {
    let mut memory = pieces.inner;
    memory.clear();
    // Not needed on a thread that is ending.
    let _ = REST.try_with(|rest| {
        let mut rest = rest.try_borrow_mut().ok()?;
        if memory.capacity() > rest.pieces.capacity() {
            rest.pieces = memory;
        }
        Some(())
    });
}

impl Rest {
    const fn new() -> Self {
        Self {
            deep: Vec::new(),
            details: DetailsTable::new(),
            pieces: Vec::new(),
            ranks: Vec::new(),
            positions: Vec::new(),
        }
    }
}
