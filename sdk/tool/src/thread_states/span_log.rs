//! The spans of a trace, by track and time.

use std::collections::HashMap;

use tracezero_reader::{Event, EventHead, EventKind, NameId, Slice, TrackId};

/// The maximum number of spans. They take 900 MB. Further ones are counted and left out.
const SPANS_MAX: usize = 1 << 24;
/// The maximum number of spans whose flows are remembered until they end.
const FLOWS_MAX: usize = 1 << 21;
/// Stands for no span.
const NONE: u32 = u32::MAX;

/// All spans of a trace.
#[derive(Debug, Default)]
pub(crate) struct SpanLog {
    spans: Vec<LoggedSpan>,
    /// The first flow of each begin, by the index of its packet.
    flows: HashMap<u64, u64>,
    /// For each track, the index of its first span and that after the last.
    of_tracks: HashMap<TrackId, (u32, u32)>,
    pub(crate) left_out: u64,
}

/// A span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoggedSpan {
    pub(crate) track: TrackId,
    pub(crate) name: NameId,
    pub(crate) category: NameId,
    /// The index of the span around this one on its track, or [`NONE`].
    parent: u32,
    pub(crate) begin_ns: u64,
    /// The time of the end; the end of the trace if the span has not ended.
    pub(crate) end_ns: u64,
    /// The first flow of the begin; 0 if it has none.
    pub(crate) flow: u64,
    pub(crate) is_open: bool,
}

impl LoggedSpan {
    pub(crate) const fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}

impl SpanLog {
    /// Notes what only the event itself has. Call it for each event, before its slice is added.
    pub(crate) fn note(&mut self, event: &Event<'_>) {
        let is_begin = matches!(
            event.head.kind,
            EventKind::SliceBegin | EventKind::Slice { .. }
        );
        if is_begin
            && self.flows.len() < FLOWS_MAX
            && let Some(flow) = event.flows().next()
        {
            self.flows.insert(event.head.place.index, flow);
        }
    }

    /// Adds a span that has ended.
    pub(crate) fn add(&mut self, slice: &Slice) {
        let end_ns = slice.begin.timestamp_ns.saturating_add(slice.duration_ns);
        self.push(&slice.begin, end_ns, false);
    }

    /// Adds a span that has not ended. The trace ends at `end_ns`.
    pub(crate) fn add_open(&mut self, begin: &EventHead, end_ns: u64) {
        self.push(begin, end_ns.max(begin.timestamp_ns), true);
    }

    fn push(&mut self, begin: &EventHead, end_ns: u64, is_open: bool) {
        let flow = self.flows.remove(&begin.place.index);
        if self.spans.len() >= SPANS_MAX {
            self.left_out += 1;
            return;
        }
        self.spans.push(LoggedSpan {
            track: begin.track,
            name: begin.name,
            category: begin.category,
            parent: NONE,
            begin_ns: begin.timestamp_ns,
            end_ns,
            flow: flow.unwrap_or_default(),
            is_open,
        });
    }

    /// Sorts the spans. Call it once, after the last span.
    pub(crate) fn finish(&mut self) {
        // Of spans with the same begin, the outer one is longer.
        let key = |span: &LoggedSpan| (span.track, span.begin_ns, std::cmp::Reverse(span.end_ns));
        self.spans.sort_by_key(key);
        let mut open: Vec<u32> = Vec::new();
        let mut track = None;
        for index in 0..self.spans.len() {
            let span = self.spans[index];
            if track.replace(span.track) != Some(span.track) {
                open.clear();
            }
            let is_over = |it: &u32| self.spans[*it as usize].end_ns <= span.begin_ns;
            while open.last().is_some_and(is_over) {
                open.pop();
            }
            self.spans[index].parent = open.last().copied().unwrap_or(NONE);
            open.push(index as u32);
            let range = self.of_tracks.entry(span.track);
            range.or_insert((index as u32, 0)).1 = index as u32 + 1;
        }
    }

    pub(crate) fn spans(&self) -> &[LoggedSpan] {
        &self.spans
    }

    /// Returns the spans of a track, by begin.
    pub(crate) fn on(&self, track: TrackId) -> &[LoggedSpan] {
        let range = self.of_tracks.get(&track).copied().unwrap_or_default();
        let spans = self.spans.get(range.0 as usize..range.1 as usize);
        spans.unwrap_or_default()
    }

    /// Returns the tracks that have spans.
    pub(crate) fn tracks(&self) -> impl Iterator<Item = TrackId> {
        self.of_tracks.keys().copied()
    }

    /// Returns the innermost span that is open on a track at a time.
    pub(crate) fn innermost_at(&self, track: TrackId, time_ns: u64) -> Option<&LoggedSpan> {
        let spans = self.on(track);
        let before = spans.partition_point(|span| span.begin_ns <= time_ns);
        let last = spans.get(before.checked_sub(1)?)?;
        self.with_spans_around(last)
            .find(|span| time_ns < span.end_ns)
    }

    /// Returns true if a span is inside of another one of the same name.
    pub(crate) fn is_inside_itself(&self, span: &LoggedSpan) -> bool {
        let around = self.with_spans_around(span).skip(1);
        around.into_iter().any(|around| around.name == span.name)
    }

    fn with_spans_around<'s>(
        &'s self,
        span: &'s LoggedSpan,
    ) -> impl Iterator<Item = &'s LoggedSpan> {
        std::iter::successors(Some(span), |span| self.spans.get(span.parent as usize))
    }
}

#[cfg(test)]
mod tests {
    use tracezero_reader::{EventHead, NameTable};

    use super::*;

    fn log(spans: &[(&str, u64, u64)]) -> (SpanLog, NameTable) {
        let (mut log, mut names) = (SpanLog::default(), NameTable::new());
        for (name, begin_ns, end_ns) in spans {
            let mut begin = EventHead::default();
            begin.timestamp_ns = *begin_ns;
            begin.name = names.intern(name);
            log.push(&begin, *end_ns, false);
        }
        log.finish();
        (log, names)
    }

    #[test]
    fn innermost_open_span_is_found() {
        let spans = [
            ("outer", 0, 100),
            ("a", 10, 20),
            ("b", 12, 14),
            ("c", 30, 40),
        ];
        let (log, names) = log(&spans);
        let at = |time_ns| {
            let span = log.innermost_at(TrackId::default(), time_ns);
            span.map_or("", |span| names.text(span.name))
        };
        let times = [0, 10, 13, 14, 20, 39, 40, 99, 100];
        let expected = ["outer", "a", "b", "a", "outer", "c", "outer", "outer", ""];
        assert_eq!(times.map(at), expected);
    }

    #[test]
    fn spans_inside_their_own_name_are_found() {
        let (log, names) = log(&[("f", 0, 100), ("g", 10, 90), ("f", 20, 30), ("f", 200, 210)]);
        let inside = log.spans().iter().filter(|span| log.is_inside_itself(span));
        let inside = Vec::from_iter(inside.map(|span| (names.text(span.name), span.begin_ns)));
        assert_eq!(inside, [("f", 20)]);
    }
}
