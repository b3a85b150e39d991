//! The slices that are open on the track of each thread, the outermost first.
//!
//! An end in a trace belongs to the innermost slice of its track. A guard that is dropped while a
//! slice inside its own is open must end that one first: this stack tells which ones those are.
//!
//! The usual push and pop touch no lock, no heap and no destructor. A slice that is removed from the
//! middle leaves a gap, so that the other guards keep their positions. While there is a gap, another
//! one on top makes every older guard take the way that clears gaps:
//!
//! ```text
//!  a b c     a is dropped:   _ b c _     c is dropped:   _ b _     b is dropped: empty
//! ```
//!
//! Where spans overlap in a chain, each begun before the one before it is dropped, gaps would pile up.
//! So a slice that would need the heap takes a gap instead, if there is one.
//!
//! Slices nest in the order of their ranks. The rank of a slice is its position, unless slices went on
//! in another order behind one that ended around them, or a slice took a gap. No rank is above all
//! positions.

use std::cell::{Cell, RefCell};
use std::mem;
use std::num::NonZeroU32;

use crate::altered::note_too_deep_span;
use crate::begun::Begun;
use crate::call_site::CallSite;
use crate::flow::Flow;
use crate::instance::EventThread;
use crate::pieces::{self, Piece, Pieces};
use crate::placement::EventTime;

/// Slices of a thread that need no heap.
const SHALLOW: usize = 32;
/// Spans that can be open on a thread's track at once. Those that begin inside are not recorded; the report
/// counts them: `Warning::TooDeepSpans`.
pub const OPEN_SPANS_MAX: usize = 1 << 16;
/// Names that are longer give their memory back.
const KEPT_NAME_BYTES: usize = 1024;

thread_local! {
    static OPEN: OpenSlices = const {
        OpenSlices {
            len: Cell::new(0),
            shallow: [const { Cell::new(Place::GAP) }; SHALLOW],
        }
    };
    static REST: RefCell<Rest> = const { RefCell::new(Rest::new()) };
}

/// Without a destructor: a thread reaches it without asking whether it is there.
struct OpenSlices {
    /// At most [`OPEN_SPANS_MAX`], and gaps.
    len: Cell<u32>,
    shallow: [Cell<Place>; SHALLOW],
}

/// Where a slice is, or was.
#[derive(Clone, Copy)]
struct Place {
    /// [`Begun::to_words`]; 0 for a gap.
    begun: [u64; 2],
    /// `None` for a gap.
    site: Option<&'static CallSite>,
    began: Began,
}

/// What only some slices need.
struct Rest {
    /// Those that are not in [`OpenSlices::shallow`].
    deep: Vec<Place>,
    /// By ascending position. Some are of slices that have ended.
    details: Vec<(SlicePosition, Details)>,
    /// How many of them count; the others lend their memory.
    details_len: usize,
    /// Memory for slices inside of others.
    pieces: Vec<Piece>,
    /// Memory for [`OpenSlices::renumber`].
    ranks: Vec<(u32, SlicePosition)>,
    positions: Vec<u32>,
}

/// The position of an open slice, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlicePosition(NonZeroU32);

/// A slice that is open on the thread's track.
#[derive(Clone, Copy, Debug)]
struct OpenSlice {
    /// The sessions that have seen its begin.
    begun: Begun,
    site: &'static CallSite,
    began: Began,
}

/// When a slice began, on the trace clock, and two flags.
#[derive(Clone, Copy, Debug)]
struct Began(u64);

impl Began {
    /// The slice has [`Details`].
    const HAS_DETAILS: u64 = 1 << 63;
    /// [`begin!`](crate::begin) began the slice: no guard knows its position.
    const BY_MACRO: u64 = 1 << 62;
    const TIME: u64 = Self::BY_MACRO - 1;

    #[inline(always)]
    const fn at(time: EventTime) -> Self {
        match time {
            // Of so many years there is no clock.
            EventTime::Now(timestamp_ns) => Self(timestamp_ns),
            EventTime::At(timestamp_ns) => Self(timestamp_ns & Self::TIME),
        }
    }
}

/// What is kept of a slice beside its call site.
#[derive(Clone, Debug, Default)]
struct Details {
    /// [`Piece::name`].
    name: String,
    /// [`Piece::flow`].
    flow: Option<Flow>,
    /// `None` for the position.
    rank: Option<u32>,
}

/// Adds a slice; `None` if there are too many.
#[inline(always)]
pub(super) fn push(
    begun: Begun,
    site: &'static CallSite,
    time: EventTime,
) -> Option<SlicePosition> {
    let began = Began::at(time);
    push_slice(OpenSlice { begun, site, began })
}

/// Adds a slice that may have a name of its own, and be part of a flow.
#[inline(always)]
pub(super) fn push_with(
    begun: Begun,
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
    begun: Begun,
    site: &'static CallSite,
    time: EventTime,
    name: &str,
    flow: Option<Flow>,
) -> Option<SlicePosition> {
    let position = SlicePosition::new(OPEN.with(|open| open.len.get()) + 1)?;
    // Not on a thread that is ending.
    let is_kept = REST.try_with(|rest| {
        let mut rest = rest.try_borrow_mut().ok()?;
        rest.keep_details(position, name, flow);
        Some(())
    });
    let flag = match is_kept {
        Ok(Some(())) => Began::HAS_DETAILS,
        _ => 0,
    };
    let began = Began(Began::at(time).0 | flag);
    push_slice(OpenSlice { begun, site, began })
}

/// Adds a slice that [`end!`](crate::end) ends.
pub(super) fn push_by_macro(
    begun: Begun,
    site: &'static CallSite,
    time: EventTime,
    name: &str,
) -> Option<SlicePosition> {
    drop_forgotten();
    let position = push_with(begun, site, time, name, None)?;
    OPEN.with(|open| {
        let mut slice = open.at(position)?;
        slice.began.0 |= Began::BY_MACRO;
        open.replace(position, Some(slice));
        Some(position)
    })
}

/// Takes the slice out if it is the innermost one, and not at a great depth. Returns the sessions that
/// have seen its begin, as [`Begun::to_words`] does.
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

/// Takes any slice out, which ends at `time`. Returns the sessions that have seen its begin, and the
/// slices inside.
#[cold]
#[inline(never)]
pub(super) fn remove(position: SlicePosition, time: EventTime) -> Option<(Begun, Pieces)> {
    OPEN.with(|open| {
        let begun = open.at(position)?.begun;
        if open.len.get() == position.0.get() {
            // The innermost, at a great depth.
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

/// Takes out of one session the innermost slice that [`begin!`](crate::begin) began there. Returns the
/// slices inside.
pub(super) fn remove_by_macro(instance: &EventThread) -> Option<Pieces> {
    OPEN.with(|open| {
        let mut innermost: Option<(u32, SlicePosition, OpenSlice)> = None;
        open.each(|position, slice| {
            let rank = rank(position, &slice);
            if slice.began.0 & Began::BY_MACRO != 0
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

/// Drops slices that [`begin!`](crate::begin) began, and that no session wants to see ended.
fn drop_forgotten() {
    OPEN.with(|open| {
        while let Some(position) = SlicePosition::new(open.len.get())
            && let Some(slice) = open.at(position)
            && slice.began.0 & Began::BY_MACRO != 0
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

    /// Returns the position that [`number`](Self::number) stands for.
    pub(super) fn from_number(number: u64) -> Option<Self> {
        Self::new(u32::try_from(number).ok()?)
    }
}

impl Place {
    const GAP: Self = Self {
        begun: [0; 2],
        site: None,
        began: Began(0),
    };

    fn slice(self) -> Option<OpenSlice> {
        Some(OpenSlice {
            begun: Begun::from_words(self.begun)?,
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
            begun_at_ns: self.began.0 & Began::TIME,
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
        // Not on a thread that is ending.
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

    /// Puts a slice into the lowest gap, if there is one on top as well: then some guard was just dropped
    /// out of order. Elsewhere the search would take long.
    fn fill_gap(&self, slice: OpenSlice) -> Option<SlicePosition> {
        let len = self.len.get();
        if self.at(SlicePosition::new(len)?).is_some() {
            return None;
        }
        let mut positions = (1..=len).filter_map(SlicePosition::new);
        let gap = positions.find(|&position| self.at(position).is_none())?;
        // Kept for the position that the slice would have had.
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

    /// Gives the open slices their own positions as ranks, in the order of the ranks that they have.
    fn renumber(&self) {
        // Those of a thread that is ending stay as they are.
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

    /// Keeps what an open slice needs from now on, its rank among it. Returns whether that was possible.
    fn keep_rank(&self, position: SlicePosition, details: Details) -> bool {
        let is_kept = REST.try_with(|rest| {
            let mut rest = rest.try_borrow_mut().ok()?;
            rest.put_details(position, details);
            Some(())
        });
        let is_kept = matches!(is_kept, Ok(Some(())));
        if is_kept && let Some(mut slice) = self.at(position) {
            slice.began.0 |= Began::HAS_DETAILS;
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
        // Those of a thread that is ending are gone.
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
            // Those of a thread that is ending are gone.
            let _ = REST.try_with(|rest| {
                let rest = rest.try_borrow().ok()?;
                let deep = rest.deep.iter().take(len - SHALLOW);
                deep.enumerate()
                    .for_each(|(index, place)| visit(SHALLOW + index, *place));
                Some(())
            });
        }
    }

    /// The open slices inside of one, the outermost first.
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

    /// Gives slices each other's ranks: those of the innermost to the outermost.
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

    /// Drops the gaps on top. Puts one there while any guard must not take the short way.
    fn clear_gaps(&self) {
        let (mut len, mut in_place) = (0, 0);
        self.each(|position, slice| {
            let rank = rank(position, &slice);
            in_place += u32::from(rank == position.0.get());
            // Slices to come are inside of all others.
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

/// Calls `read` with what is kept of a slice, if anything is.
fn with_details<R>(
    position: SlicePosition,
    slice: OpenSlice,
    read: impl FnOnce(&Details) -> R,
) -> Option<R> {
    if slice.began.0 & Began::HAS_DETAILS == 0 {
        return None;
    }
    let details = REST.try_with(|rest| {
        let rest = rest.try_borrow().ok()?;
        let at = rest.find_details(position).ok()?;
        Some(read(&rest.details.get(at)?.1))
    });
    details.ok().flatten()
}

/// Takes back the memory of what [`remove`] has returned.
pub(super) fn give_back(pieces: Pieces) {
    let mut memory = pieces.inner;
    memory.clear();
    // A thread that is ending needs it no more.
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
            details: Vec::new(),
            details_len: 0,
            pieces: Vec::new(),
            ranks: Vec::new(),
            positions: Vec::new(),
        }
    }

    /// Keeps what the next slice needs. Those above have ended.
    fn keep_details(&mut self, position: SlicePosition, name: &str, flow: Option<Flow>) {
        while let Some(last) = self.details_len.checked_sub(1)
            && self
                .details
                .get(last)
                .is_some_and(|(it, _)| *it >= position)
        {
            self.details_len = last;
        }
        if self.details_len == self.details.len() {
            self.details.push((position, Details::default()));
        }
        if let Some((of, details)) = self.details.get_mut(self.details_len) {
            *of = position;
            details.flow = flow;
            details.rank = None;
            if details.name.capacity() > KEPT_NAME_BYTES {
                details.name = String::new();
            }
            details.name.clear();
            details.name.push_str(name);
            self.details_len += 1;
        }
    }

    /// Puts in what an open slice needs from now on.
    fn put_details(&mut self, position: SlicePosition, details: Details) {
        self.details.truncate(self.details_len);
        match self.find_details(position) {
            Ok(at) => self.details[at].1 = details,
            Err(at) => self.details.insert(at, (position, details)),
        }
        self.details_len = self.details.len();
    }

    fn find_details(&self, position: SlicePosition) -> Result<usize, usize> {
        let details = self.details.get(..self.details_len).unwrap_or_default();
        details.binary_search_by_key(&position, |(of, _)| *of)
    }
}
