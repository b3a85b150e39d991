//! Sorts the events of tracks that several sequences write to.

use crate::event::EventHead;
use crate::in_order::InOrder;
use crate::tracks::{TrackKind, TrackTable};

/// The default number of events in the window.
const WINDOW_EVENTS: usize = 512 * 1024;

/// Sorts events by time.
///
/// A thread's own events come in order, so they are delivered at once. Events of other tracks may
/// come from several threads, in any order. They wait in a window. When the window is full, the
/// earliest event in it is delivered. [`finish`](Self::finish) delivers the rest. The window holds
/// 512 Ki events, which take 40 MiB.
///
/// ```
/// use std::thread;
/// use tracezero::reader::{InTimeOrder, Record, TraceReader};
/// use tracezero::{InMemorySession, Track, instant};
///
/// let session = InMemorySession::start()?;
/// let track = Track::new("requests");
/// thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| instant!("http", "request", track: &track));
///     }
/// });
/// let (trace, _) = session.finish();
///
/// let mut reader = TraceReader::new(&trace[..]);
/// let mut order = InTimeOrder::new();
/// let mut times_ns = Vec::new();
/// while let Some(record) = reader.next()? {
///     if let Record::Event(event) = record {
///         order.add(&event.head, reader.tracks(), |event| times_ns.push(event.timestamp_ns));
///     }
/// }
/// order.finish(|event| times_ns.push(event.timestamp_ns));
/// assert_eq!(times_ns.len(), 2);
/// assert!(times_ns.is_sorted());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct InTimeOrder {
    waiting: InOrder<EventHead>,
    /// The state of each track.
    tracks: Vec<TrackOrder>,
    late: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct TrackOrder {
    /// The sequence that wrote to the track last; 0 if none has.
    writer: u32,
    is_shared: bool,
    /// The time of the last delivered event.
    last_ns: u64,
}

impl Default for InTimeOrder {
    fn default() -> Self {
        Self::with_window(WINDOW_EVENTS)
    }
}

impl InTimeOrder {
    /// Creates an instance with a window of the default size.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an instance with a window of this many events.
    #[must_use]
    pub const fn with_window(window_events: usize) -> Self {
        Self {
            waiting: InOrder::new(window_events),
            tracks: Vec::new(),
            late: 0,
        }
    }

    /// Adds an event. Calls `deliver` with the event that is next in order, if there is one.
    #[inline]
    pub fn add(
        &mut self,
        event: &EventHead,
        tracks: &TrackTable,
        mut deliver: impl FnMut(&EventHead),
    ) {
        let index = event.track.index();
        if index >= self.tracks.len() {
            self.tracks.resize(index + 1, TrackOrder::default());
        }
        let order = &mut self.tracks[index];
        if order.writer != event.sequence_id {
            let is_thread = matches!(tracks.track(event.track).kind, TrackKind::Thread { .. });
            order.is_shared |= order.writer != 0 || !is_thread;
            order.writer = event.sequence_id;
        }
        if !order.is_shared {
            order.last_ns = event.timestamp_ns;
            deliver(event);
            return;
        }
        if let Some(earliest) = self.waiting.push(event.timestamp_ns, *event) {
            self.deliver(&earliest, &mut deliver);
        }
    }

    fn deliver(&mut self, event: &EventHead, deliver: &mut impl FnMut(&EventHead)) {
        let order = &mut self.tracks[event.track.index()];
        self.late += u64::from(event.timestamp_ns < order.last_ns);
        order.last_ns = event.timestamp_ns;
        deliver(event);
    }

    /// Delivers all waiting events. Call it after the last event.
    pub fn finish(&mut self, mut deliver: impl FnMut(&EventHead)) {
        while let Some(event) = self.waiting.pop() {
            self.deliver(&event, &mut deliver);
        }
    }

    /// Returns the number of events that were delivered out of order: a later event of the same
    /// track had already left the window.
    #[must_use]
    pub const fn late(&self) -> u64 {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use crate::names::NameId;

    fn event(tracks: &mut TrackTable, uuid: u64, sequence_id: u32, timestamp_ns: u64) -> EventHead {
        EventHead {
            place: Default::default(),
            timestamp_ns,
            kind: EventKind::Instant,
            sequence_id,
            track: tracks.id(uuid).expect("room"),
            name: NameId::NONE,
            category: NameId::NONE,
        }
    }

    fn times(window_events: usize, events: &[(u64, u32, u64)]) -> (Vec<u64>, u64) {
        let mut tracks = TrackTable::default();
        let mut order = InTimeOrder::with_window(window_events);
        let mut times = Vec::new();
        for (uuid, sequence_id, timestamp_ns) in events {
            let event = event(&mut tracks, *uuid, *sequence_id, *timestamp_ns);
            order.add(&event, &tracks, |event| times.push(event.timestamp_ns));
        }
        order.finish(|event| times.push(event.timestamp_ns));
        (times, order.late())
    }

    #[test]
    fn events_of_two_sequences_on_a_track_are_sorted() {
        let events = [(1, 2, 10), (1, 2, 30), (1, 3, 20), (1, 3, 40)];
        assert_eq!(times(10, &events), (vec![10, 20, 30, 40], 0));
    }

    #[test]
    fn events_of_the_same_time_keep_their_order() {
        let mut tracks = TrackTable::default();
        let mut order = InTimeOrder::new();
        let mut sequences = Vec::new();
        for sequence_id in [5, 2, 9] {
            let event = event(&mut tracks, 1, sequence_id, 100);
            order.add(&event, &tracks, |event| sequences.push(event.sequence_id));
        }
        order.finish(|event| sequences.push(event.sequence_id));
        assert_eq!(sequences, [5, 2, 9]);
    }

    #[test]
    fn events_too_late_for_the_window_are_counted() {
        let events = [(1, 2, 10), (1, 2, 30), (1, 2, 31), (1, 3, 5)];
        assert_eq!(times(2, &events), (vec![10, 5, 30, 31], 1));
    }
}
