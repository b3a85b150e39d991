//! Pairs begins with ends, and puts the resulting events into rows: one row for each depth of each
//! track.
//!
//! The events of a row are sorted by time and do not overlap. The page's binary searches and the
//! encoding of times rely on that.

use super::args::ArgsId;
use super::timeline::{Kind, LabelId, RawEvent, Timeline, TrackIndex};

/// The maximum depth of a slice in a track. Deeper ones are left out and counted.
pub(crate) const DEPTH_MAX: usize = 512;

/// The form of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Slice,
    Instant,
    /// A slice that had not ended when the trace did.
    Unfinished,
}

/// A slice or an instant, in its row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) start_ns: u64,
    pub(crate) duration_ns: u64,
    pub(crate) label: LabelId,
    pub(crate) args: ArgsId,
    pub(crate) flows: u32,
    pub(crate) form: Form,
}

/// The events at one depth of one track.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) track: TrackIndex,
    pub(crate) depth: usize,
    pub(crate) events: Vec<Event>,
}

/// The numbers of events that could not be paired or placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unplaced {
    pub(crate) ends_without_begin: u64,
    pub(crate) too_deep: u64,
}

/// Takes the events out of the timeline and returns all rows, sorted by track and depth. Unfinished
/// slices end at `end_ns`.
pub(crate) fn place(timeline: &mut Timeline, end_ns: u64) -> (Vec<Row>, Unplaced) {
    let mut unplaced = Unplaced::default();
    let mut rows = Vec::new();
    for index in 0..timeline.events.len() {
        let mut raw = std::mem::take(&mut timeline.events[index]);
        if !raw.is_sorted_by_key(|event| event.time_ns) {
            raw.sort_by_key(|event| event.time_ns);
        }
        let track = TrackIndex(u32::try_from(index).unwrap_or(u32::MAX));
        let by_depth = place_track(timeline, &raw, end_ns, &mut unplaced);
        let placed = by_depth.into_iter().enumerate();
        rows.extend(placed.map(|(depth, events)| Row {
            track,
            depth,
            events,
        }));
    }
    (rows, unplaced)
}

fn place_track(
    timeline: &mut Timeline,
    raw: &[RawEvent],
    end_ns: u64,
    unplaced: &mut Unplaced,
) -> Vec<Vec<Event>> {
    let mut rows = Vec::new();
    let mut open: Vec<RawEvent> = Vec::new();
    for event in raw {
        match event.kind {
            Kind::Begin => open.push(*event),
            Kind::Instant => {
                let instant = finished(event, event.time_ns, Form::Instant);
                put(&mut rows, open.len(), instant, unplaced);
            }
            Kind::End => {
                let Some(mut begin) = open.pop() else {
                    unplaced.ends_without_begin += 1;
                    continue;
                };
                begin.args = timeline.args.join(begin.args, event.args);
                begin.flows = timeline.join_flows(begin.flows, event.flows);
                let slice = finished(&begin, event.time_ns, Form::Slice);
                put(&mut rows, open.len(), slice, unplaced);
            }
        }
    }
    while let Some(begin) = open.pop() {
        let slice = finished(&begin, end_ns, Form::Unfinished);
        put(&mut rows, open.len(), slice, unplaced);
    }
    rows
}

fn finished(begin: &RawEvent, end_ns: u64, form: Form) -> Event {
    Event {
        start_ns: begin.time_ns,
        duration_ns: end_ns.saturating_sub(begin.time_ns),
        label: begin.label,
        args: begin.args,
        flows: begin.flows,
        form,
    }
}

fn put(rows: &mut Vec<Vec<Event>>, depth: usize, event: Event, unplaced: &mut Unplaced) {
    if depth >= DEPTH_MAX {
        unplaced.too_deep += 1;
        return;
    }
    if rows.len() <= depth {
        rows.resize_with(depth + 1, Vec::new);
    }
    rows[depth].push(event);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::timeline::EventFacts;

    struct Scene {
        timeline: Timeline,
        track: TrackIndex,
    }

    impl Scene {
        fn new(limit: u64) -> Self {
            let mut timeline = Timeline::new("t".to_owned(), 0, limit);
            timeline.ensure_tracks(1);
            Self {
                timeline,
                track: TrackIndex(0),
            }
        }

        fn facts(&mut self, time_ns: u64, name: &str) -> EventFacts<'static> {
            EventFacts {
                track: self.track,
                time_ns,
                label: self.timeline.label(name, ""),
                args: ArgsId::NONE,
                flows: &[],
            }
        }

        fn begin(mut self, time_ns: u64, name: &str) -> Self {
            let facts = self.facts(time_ns, name);
            self.timeline.begin(facts);
            self
        }

        fn end(mut self, time_ns: u64) -> Self {
            let facts = self.facts(time_ns, "");
            self.timeline.end(facts);
            self
        }

        fn instant(mut self, time_ns: u64) -> Self {
            let facts = self.facts(time_ns, "instant");
            self.timeline.instant(facts);
            self
        }

        /// Returns depth, start, duration and form of each event.
        fn place(mut self) -> (Vec<(usize, u64, u64, Form)>, Unplaced) {
            let (rows, unplaced) = place(&mut self.timeline, 100);
            let events = rows.iter().flat_map(|row| {
                let events = row.events.iter();
                events.map(|event| (row.depth, event.start_ns, event.duration_ns, event.form))
            });
            (events.collect(), unplaced)
        }
    }

    #[test]
    fn slices_and_instants_are_in_the_row_of_their_depth() {
        let scene = Scene::new(9)
            .begin(0, "a")
            .begin(1, "b")
            .end(3)
            .instant(4)
            .end(9);
        let (events, unplaced) = scene.place();
        let expected = [
            (0, 0, 9, Form::Slice),
            (1, 1, 2, Form::Slice),
            (1, 4, 0, Form::Instant),
        ];
        assert_eq!(events, expected);
        assert_eq!(unplaced, Unplaced::default());
    }

    #[test]
    fn unfinished_slices_reach_to_the_end_of_the_trace() {
        let (events, _) = Scene::new(9).begin(10, "a").begin(20, "b").place();
        let expected = [(0, 10, 90, Form::Unfinished), (1, 20, 80, Form::Unfinished)];
        assert_eq!(events, expected);
    }

    #[test]
    fn ends_without_a_begin_are_counted() {
        let (events, unplaced) = Scene::new(9).end(1).begin(2, "a").end(3).place();
        assert_eq!(events, [(0, 2, 1, Form::Slice)]);
        assert_eq!(unplaced.ends_without_begin, 1);
    }

    #[test]
    fn events_are_paired_in_the_order_of_their_times() {
        let scene = Scene::new(9).begin(5, "b").begin(0, "a").end(6).end(9);
        let (events, _) = scene.place();
        assert_eq!(events, [(0, 0, 9, Form::Slice), (1, 5, 1, Form::Slice)]);
    }

    #[test]
    fn slices_deeper_than_the_limit_are_counted() {
        let mut scene = Scene::new(2000);
        for time in 0..DEPTH_MAX as u64 + 3 {
            scene = scene.begin(time, "a");
        }
        let (events, unplaced) = scene.place();
        assert_eq!(events.len(), DEPTH_MAX);
        assert_eq!(unplaced.too_deep, 3);
    }

    #[test]
    fn ends_without_begins_are_kept_up_to_the_limit() {
        let scene = Scene::new(2).end(1).end(2).end(3).end(4).end(5);
        assert_eq!(scene.timeline.ends_left_out, 3);
        let (events, unplaced) = scene.place();
        assert!(events.is_empty());
        assert_eq!(unplaced.ends_without_begin, 2);
    }

    #[test]
    fn slices_beyond_the_limit_are_left_out_with_their_ends() {
        let scene = Scene::new(2).begin(0, "a").begin(1, "b").end(2);
        let scene = scene.begin(3, "left out").end(4).instant(5).end(6);
        let left_out = scene.timeline.left_out();
        assert_eq!((left_out.events, left_out.from_ns), (2, 3));
        let (events, unplaced) = scene.place();
        assert_eq!(events, [(0, 0, 6, Form::Slice), (1, 1, 1, Form::Slice)]);
        assert_eq!(unplaced, Unplaced::default());
    }
}
