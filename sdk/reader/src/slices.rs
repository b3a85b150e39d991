//! Pairs begins and ends of slices.

use crate::event::{EventHead, EventKind};
use crate::names::NameId;
use crate::tracks::TrackId;

/// The maximum number of slices that are open on a track, inside each other. Deeper ones are
/// counted and left out.
pub const SLICES_MAX_DEPTH: usize = 4096;

/// The maximum number of slices that are open on all tracks together; they take about 500 MiB.
/// Further ones are counted as too deep.
const OPEN_SLICES_MAX: usize = 1 << 20;

/// The number of tracks whose stacks keep their memory while no slice is open. All other tracks
/// free the memory, because they often belong to short operations.
const KEPT_STACKS: usize = 4096;

/// Pairs the begins and ends of slices on each track.
///
/// The events of each track must be added in the order of their times: see
/// [`InTimeOrder`](super::InTimeOrder). Each open slice carries a value of type `T`, for instance a
/// node of a tree.
///
/// ```
/// use tracezero::reader::{InTimeOrder, Record, Slices, TraceReader};
/// use tracezero::{InMemorySession, span};
///
/// let session = InMemorySession::start()?;
/// {
///     let _outer = span!("app", "outer");
///     let _inner = span!("app", "inner");
/// }
/// let (trace, _) = session.finish();
///
/// let mut reader = TraceReader::new(&trace[..]);
/// let (mut order, mut slices) = (InTimeOrder::new(), Slices::new());
/// let mut found = Vec::new();
/// while let Some(record) = reader.next()? {
///     if let Record::Event(event) = record {
///         let event = event.head;
///         order.add(&event, reader.tracks(), |event| {
///             slices.add(event, |_| (), |slice| found.push((slice.begin.name, slice.depth)));
///         });
///     }
/// }
/// order.finish(|event| {
///     slices.add(event, |_| (), |slice| found.push((slice.begin.name, slice.depth)));
/// });
/// let found: Vec<_> = found.iter().map(|(name, depth)| (reader.names().text(*name), *depth)).collect();
/// assert_eq!(found, [("inner", 1), ("outer", 0)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Slices<T = ()> {
    /// The stack of open slices of each track.
    stacks: Vec<Stack<T>>,
    /// The number of slices on all stacks.
    open: usize,
    counts: SliceCounts,
}

/// The numbers of events that did not become slices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SliceCounts {
    /// Ends on a track that has no open slice to end.
    pub unmatched_ends: u64,
    /// Slices that were nested deeper than [`SLICES_MAX_DEPTH`], or began while 1 Mi (2^20) slices
    /// were open.
    pub too_deep: u64,
    /// Slices whose end is earlier than their begin. Their duration is 0.
    pub backwards: u64,
}

/// A slice that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Slice<T = ()> {
    /// The event that began the slice.
    pub begin: EventHead,
    /// The name of the slice around this slice, or [`NameId::NONE`] if this slice is outermost.
    pub parent_name: NameId,
    /// The time from begin to end.
    pub duration_ns: u64,
    /// The part of the duration that no nested slice covers.
    pub self_ns: u64,
    /// The number of slices around this slice.
    pub depth: usize,
    /// The value that the caller gave it.
    pub value: T,
}

/// A slice that has not ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenSlice<T = ()> {
    /// The event that began the slice.
    pub begin: EventHead,
    /// The value that the caller gave it.
    pub value: T,
    /// The total duration of the slices directly inside that have ended.
    children_ns: u64,
    /// The time when the slice ends, if the begin event says so.
    end_ns: Option<u64>,
}

#[derive(Clone, Debug)]
struct Stack<T> {
    open: Vec<OpenSlice<T>>,
    /// The number of slices that were left out because there was no room, and that have not ended.
    left_out: u64,
}

impl<T> Default for Slices<T> {
    fn default() -> Self {
        Self {
            stacks: Vec::new(),
            open: 0,
            counts: SliceCounts::default(),
        }
    }
}

impl<T> Default for Stack<T> {
    fn default() -> Self {
        Self {
            open: Vec::new(),
            left_out: 0,
        }
    }
}

impl<T: Copy> Slices<T> {
    /// Creates an instance with no open slices.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event. If it begins a slice, calls `value` with the slice around it to get the
    /// slice's value. Calls `ended` for each slice that has ended.
    #[inline]
    pub fn add(
        &mut self,
        event: &EventHead,
        value: impl FnOnce(Option<&OpenSlice<T>>) -> T,
        mut ended: impl FnMut(Slice<T>),
    ) {
        let index = event.track.index();
        if index >= self.stacks.len() {
            self.stacks.resize_with(index + 1, Stack::default);
        }
        let stack = &mut self.stacks[index];
        let open_before = stack.open.len();
        if open_before > 0 {
            stack.end_due(event.timestamp_ns, &mut ended);
        }
        let is_full = self.open >= OPEN_SLICES_MAX
            || stack.open.len() >= SLICES_MAX_DEPTH
            // While a slice that was left out is open, new slices are left out as well, because an
            // end belongs to the slice that began last.
            || stack.left_out > 0;
        match event.kind {
            EventKind::SliceBegin if is_full => {
                self.counts.too_deep += 1;
                stack.left_out += 1;
            }
            EventKind::Slice { .. } if is_full => self.counts.too_deep += 1,
            EventKind::SliceBegin => stack.begin(event, None, value),
            EventKind::Slice { duration_ns } => {
                let end_ns = event.timestamp_ns.saturating_add(duration_ns);
                stack.begin(event, Some(end_ns), value);
            }
            EventKind::SliceEnd => {
                stack.end(event.timestamp_ns, &mut self.counts, &mut ended);
                if index >= KEPT_STACKS && stack.open.is_empty() {
                    stack.open = Vec::new();
                }
            }
            EventKind::Instant | EventKind::Counter(_) => {}
        }
        self.open = self.open + stack.open.len() - open_before;
    }

    /// Ends the open slices whose end time is known from their begin event. Call it after the last
    /// event.
    pub fn finish(&mut self, mut ended: impl FnMut(Slice<T>)) {
        for stack in &mut self.stacks {
            let open_before = stack.open.len();
            stack.end_due(u64::MAX, &mut ended);
            self.open = self.open + stack.open.len() - open_before;
        }
    }

    /// Returns the open slices of a track, outermost first.
    #[must_use]
    pub fn open_on(&self, track: TrackId) -> &[OpenSlice<T>] {
        let stack = self.stacks.get(track.index());
        stack.map_or(&[], |stack| &stack.open)
    }

    /// Returns all open slices, track by track, outermost first.
    pub fn open(&self) -> impl Iterator<Item = &OpenSlice<T>> {
        self.stacks.iter().flat_map(|stack| &stack.open)
    }

    /// Returns the numbers of events that did not become slices.
    #[must_use]
    pub const fn counts(&self) -> SliceCounts {
        self.counts
    }
}

impl<T: Copy> Stack<T> {
    #[inline]
    fn begin(
        &mut self,
        begin: &EventHead,
        end_ns: Option<u64>,
        value: impl FnOnce(Option<&OpenSlice<T>>) -> T,
    ) {
        let value = value(self.open.last());
        self.open.push(OpenSlice {
            begin: *begin,
            value,
            children_ns: 0,
            end_ns,
        });
    }

    /// Ends the innermost slice whose end was not known. Slices inside it end now too, even if
    /// their known end is later.
    #[inline]
    fn end(&mut self, now_ns: u64, counts: &mut SliceCounts, ended: &mut impl FnMut(Slice<T>)) {
        if self.left_out > 0 {
            self.left_out -= 1;
            return;
        }
        let Some(position) = self.open.iter().rposition(|slice| slice.end_ns.is_none()) else {
            counts.unmatched_ends += 1;
            return;
        };
        counts.backwards += u64::from(self.open[position].begin.timestamp_ns > now_ns);
        while self.open.len() > position {
            self.pop(now_ns, ended);
        }
    }

    /// Ends the innermost slices whose known end has passed.
    #[inline]
    fn end_due(&mut self, now_ns: u64, ended: &mut impl FnMut(Slice<T>)) {
        while let Some(end_ns) = self.open.last().and_then(|slice| slice.end_ns)
            && end_ns <= now_ns
        {
            self.pop(end_ns, ended);
        }
    }

    #[inline]
    fn pop(&mut self, end_ns: u64, ended: &mut impl FnMut(Slice<T>)) {
        let Some(slice) = self.open.pop() else { return };
        let duration_ns = end_ns.saturating_sub(slice.begin.timestamp_ns);
        let parent = self.open.last_mut();
        let parent_name = parent.map_or(NameId::NONE, |parent| {
            parent.children_ns = parent.children_ns.saturating_add(duration_ns);
            parent.begin.name
        });
        ended(Slice {
            begin: slice.begin,
            parent_name,
            duration_ns,
            self_ns: duration_ns.saturating_sub(slice.children_ns),
            depth: self.open.len(),
            value: slice.value,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracks::TrackTable;

    fn event(timestamp_ns: u64, kind: EventKind) -> EventHead {
        EventHead {
            place: Default::default(),
            timestamp_ns,
            kind,
            sequence_id: 2,
            track: TrackId::default(),
            name: NameId::NONE,
            category: NameId::NONE,
        }
    }

    /// Returns begin, duration, self time and depth of each slice, in the order of their ends.
    fn slices(events: &[EventHead]) -> (Vec<(u64, u64, u64, usize)>, SliceCounts) {
        let mut slices = Slices::new();
        let mut found = Vec::new();
        let mut ended = |slice: Slice| {
            found.push((
                slice.begin.timestamp_ns,
                slice.duration_ns,
                slice.self_ns,
                slice.depth,
            ));
        };
        for event in events {
            slices.add(event, |_| (), &mut ended);
        }
        slices.finish(&mut ended);
        (found, slices.counts())
    }

    const BEGIN: EventKind = EventKind::SliceBegin;
    const END: EventKind = EventKind::SliceEnd;

    #[test]
    fn self_time_excludes_slices_inside() {
        let events = [
            event(10, BEGIN),
            event(20, BEGIN),
            event(25, EventKind::Instant),
            event(50, END),
            event(60, BEGIN),
            event(70, END),
            event(100, END),
        ];
        let expected = vec![(20, 30, 30, 1), (60, 10, 10, 1), (10, 90, 50, 0)];
        assert_eq!(slices(&events), (expected, SliceCounts::default()));
    }

    #[test]
    fn slices_with_duration_end_without_an_end_event() {
        let events = [
            event(10, EventKind::Slice { duration_ns: 40 }),
            event(20, EventKind::Slice { duration_ns: 30 }),
            event(60, BEGIN),
            event(70, EventKind::Slice { duration_ns: 90 }),
            event(80, END),
            event(90, EventKind::Slice { duration_ns: 5 }),
        ];
        let expected = vec![
            (20, 30, 30, 1),
            (10, 40, 10, 0),
            (70, 10, 10, 1),
            (60, 20, 10, 0),
            (90, 5, 5, 0),
        ];
        assert_eq!(slices(&events), (expected, SliceCounts::default()));
    }

    #[test]
    fn unmatched_and_backward_ends_are_counted() {
        let (found, counts) = slices(&[event(5, END), event(10, BEGIN), event(9, END)]);
        assert_eq!(found, [(10, 0, 0, 0)]);
        assert_eq!((counts.unmatched_ends, counts.backwards), (1, 1));
    }

    #[test]
    fn slices_that_are_too_deep_do_not_affect_others() {
        let depth = SLICES_MAX_DEPTH as u64 + 3;
        let begins = (0..depth).map(|time| event(time, BEGIN));
        let ends = (depth..2 * depth).map(|time| event(time, END));
        let (found, counts) = slices(&begins.chain(ends).collect::<Vec<_>>());
        assert_eq!((found.len(), counts.too_deep), (SLICES_MAX_DEPTH, 3));
        assert_eq!(found.last(), Some(&(0, 2 * depth - 1, 2, 0)));
    }

    #[test]
    fn slices_beyond_the_open_limit_do_not_affect_others() {
        let mut tracks = TrackTable::default();
        let on = |track, event: EventHead| EventHead { track, ..event };
        let mut slices = Slices::new();
        let mut found = Vec::new();
        let mut ended = |slice: Slice| found.push(slice.begin.timestamp_ns);
        let ids: Vec<_> = (0..OPEN_SLICES_MAX as u64 + 2)
            .map(|uuid| tracks.id(uuid).expect("room"))
            .collect();
        for (time, track) in (0..).zip(&ids) {
            slices.add(&on(*track, event(time, BEGIN)), |_| (), &mut ended);
        }
        let [first, .., last] = ids[..] else {
            unreachable!("there are many")
        };
        assert_eq!(slices.counts().too_deep, 2);
        assert_eq!(slices.open().count(), OPEN_SLICES_MAX);
        // There is room again, but a slice inside a slice that was left out is left out, too.
        slices.add(&on(first, event(2_000_000, END)), |_| (), &mut ended);
        for kind in [BEGIN, END, END, BEGIN, END] {
            slices.add(&on(last, event(2_000_001, kind)), |_| (), &mut ended);
        }
        assert_eq!(found, [0, 2_000_001]);
        assert_eq!(slices.counts().unmatched_ends, 0);
        assert_eq!(slices.counts().too_deep, 3);
    }
}
