//! Events of tracks that several sequences write, in the order of their times.

use crate::event::EventHead;
use crate::in_order::InOrder;
use crate::tracks::{TrackKind, TrackTable};

/// Events that wait for earlier ones, unless one asks for another number.
const WINDOW_EVENTS: usize = 512 * 1024;

/// Puts events into the order of their times.
///
/// A thread's own events come in order, so they go straight through. Those of other tracks may come
/// from several threads, and in any order: they wait in a window, until it is full and the earliest
/// of them goes, or until the end. 512 Ki events fit into it, which take 40 MiB.
#[derive(Debug)]
pub struct InTimeOrder {
    waiting: InOrder<EventHead>,
    /// By track.
    tracks: Vec<TrackOrder>,
    late: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct TrackOrder {
    /// The sequence that wrote to it last; 0 if none has.
    writer: u32,
    is_shared: bool,
    /// The time of the last event that went through.
    last_ns: u64,
}

impl Default for InTimeOrder {
    fn default() -> Self {
        Self::with_window(WINDOW_EVENTS)
    }
}

impl InTimeOrder {
    /// With the usual window.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With a window of so many events.
    #[must_use]
    pub const fn with_window(window_events: usize) -> Self {
        Self {
            waiting: InOrder::new(window_events),
            tracks: Vec::new(),
            late: 0,
        }
    }

    /// Adds an event; `deliver` is called for what is next in order.
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

    /// Delivers what is left, after the last event.
    pub fn finish(&mut self, mut deliver: impl FnMut(&EventHead)) {
        while let Some(event) = self.waiting.pop() {
            self.deliver(&event, &mut deliver);
        }
    }

    /// Events of tracks of several sequences that came after later ones were delivered: those are
    /// out of order.
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
    fn events_of_a_track_of_two_sequences_come_in_the_order_of_their_times() {
        let events = [(1, 2, 10), (1, 2, 30), (1, 3, 20), (1, 3, 40)];
        assert_eq!(times(10, &events), (vec![10, 20, 30, 40], 0));
    }

    #[test]
    fn events_of_the_same_time_stay_in_the_order_of_the_file() {
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
    fn what_comes_too_late_for_the_window_is_counted() {
        let events = [(1, 2, 10), (1, 2, 30), (1, 2, 31), (1, 3, 5)];
        assert_eq!(times(2, &events), (vec![10, 5, 30, 31], 1));
    }
}
