//! Builds spans, instants and counters from the records of a trace.

use super::event::{EventData, Kind};
use super::future_spans::FutureSpans;
use super::trace::{Contents, TrackData};
use tracezero_reader::CounterValue;
use tracezero_reader::{
    self, Event, EventKind, Level, ReadError, Record, Rule, TraceReader, TrackId, TrackKind, Value,
};

/// The name of the thread that started the capture, in messages and outlines.
const THIS_THREAD: &str = "this thread";

/// An event as the reader returns it.
pub(super) struct RawEvent {
    pub(super) timestamp_ns: u64,
    track: TrackId,
    kind: EventKind,
    pub(super) name: String,
    categories: Vec<String>,
    args: Vec<(String, Value)>,
    pub(super) flows: Vec<u64>,
    counters: Vec<(TrackId, CounterValue)>,
}

impl RawEvent {
    fn new(event: &Event<'_>) -> Self {
        let arg = |arg: tracezero_reader::Arg<'_>| (arg.name.into_owned(), arg.value.into());
        Self {
            timestamp_ns: event.head.timestamp_ns,
            track: event.head.track,
            kind: event.head.kind,
            name: event.name().to_owned(),
            categories: event.categories().map(str::to_owned).collect(),
            args: event.args().map(arg).collect(),
            flows: event.flows().chain(event.terminating_flows()).collect(),
            counters: event.extra_counters().to_vec(),
        }
    }
}

impl Contents {
    pub(super) fn read(bytes: &[u8], this_thread: Option<i32>) -> Result<Self, ReadError> {
        let mut contents = Self::default();
        let mut raw_events = Vec::new();
        let mut reader = TraceReader::new(bytes);
        while let Some(record) = reader.next()? {
            match record {
                Record::Event(event) => raw_events.push(RawEvent::new(&event)),
                Record::Packet(other) => {
                    if let Some(payload) = other.packet.payload() {
                        contents
                            .packets
                            .push((payload.field, payload.bytes.to_owned()));
                    }
                }
                // The first packet of each sequence has this mark. It means only that packets from
                // before the trace's begin are missing, so it is no loss.
                Record::Loss(loss) if loss.is_at_start && loss.bits == 1 => {}
                Record::Loss(loss) => {
                    let causes: Vec<&str> = loss.causes().collect();
                    contents.losses.push(format!(
                        "packets of sequence {} before packet {} ({})",
                        loss.sequence_id,
                        loss.place.index,
                        causes.join(", ")
                    ));
                }
                _ => {}
            }
        }
        for (id, track) in reader.tracks().iter() {
            let name = reader.tracks().title(id, reader.names());
            contents
                .tracks
                .push(TrackData::new(name, &track.kind, this_thread));
        }
        // A stable sort: events with the same timestamp stay in the order of the trace.
        raw_events.sort_by_key(|event| event.timestamp_ns);
        contents.put_together(raw_events);
        contents.nest_future_spans(reader.tracks());
        tracezero_reader::check(bytes, |finding| {
            // Spans without a begin or an end were reported above, by name.
            if finding.level == Level::Error && finding.rule != Rule::Nesting {
                contents.faults.push(finding.to_string());
            }
        })?;
        Ok(contents)
    }

    /// Builds events, nested in their parents. `raw_events` are sorted by timestamp.
    fn put_together(&mut self, raw_events: Vec<RawEvent>) {
        // The spans that are open, by track.
        let mut open: Vec<Vec<usize>> = self.tracks.iter().map(|_| Vec::new()).collect();
        let mut future_spans = FutureSpans::default();
        for mut raw in raw_events {
            for (track, value) in raw.counters.drain(..) {
                self.tracks[track.index()].count(raw.timestamp_ns, value);
            }
            let track = raw.track.index();
            let open_here = &mut open[track];
            // A slice that was written with its duration ends by itself.
            while let Some(&last) = open_here.last()
                && self.events[last]
                    .end_ns
                    .is_some_and(|end_ns| end_ns <= raw.timestamp_ns)
            {
                open_here.pop();
            }
            let (kind, end_ns) = match raw.kind {
                EventKind::Counter(value) => {
                    self.tracks[track].count(raw.timestamp_ns, value);
                    continue;
                }
                EventKind::SliceEnd => {
                    match open_here.pop() {
                        Some(begun) => self.events[begun].end(raw),
                        None => self.faults.push(format!(
                            "a span ends on {}, but did not begin there",
                            self.tracks[track].label
                        )),
                    }
                    continue;
                }
                EventKind::SliceBegin => (Kind::Span, None),
                EventKind::Slice { duration_ns } => (
                    Kind::Span,
                    Some(raw.timestamp_ns.saturating_add(duration_ns)),
                ),
                EventKind::Instant => (Kind::Instant, Some(raw.timestamp_ns)),
                // The macros record no other kind.
                _ => continue,
            };
            let index = self.events.len();
            let around = open_here.last().copied();
            if kind == Kind::Span {
                open_here.push(index);
            }
            let is_future_span = |future_span: &usize| {
                let future_span = &self.events[*future_span];
                future_span.end_ns.is_none() && future_span.name == raw.name
            };
            let future_span = match self.tracks[track].is_thread && kind == Kind::Span {
                true => future_spans.of_poll(&raw).find(is_future_span).or_else(|| {
                    let is_unpolled =
                        |future_span: &usize| self.events[*future_span].polls.is_empty();
                    let mut future_spans = future_spans.of_first_poll(&raw);
                    future_spans
                        .find(|future_span| is_unpolled(future_span) && is_future_span(future_span))
                }),
                false => None,
            };
            if raw.kind == EventKind::SliceBegin && !self.tracks[track].is_thread {
                future_spans.add(&raw, index);
            }
            let around = around.map(|around| self.without_poll(around));
            let parent = future_span.or(around);
            if let Some(future_span) =
                future_span.filter(|&future_span| self.events[future_span].polls.is_empty())
            {
                self.events[future_span].polled_in = around;
            }
            let siblings = match (future_span, parent) {
                (Some(future_span), _) => &mut self.events[future_span].polls,
                (None, Some(parent)) => &mut self.events[parent].children,
                (None, None) => &mut self.tracks[track].roots,
            };
            siblings.push(index);
            self.events.push(EventData {
                kind: if future_span.is_some() {
                    Kind::Poll
                } else {
                    kind
                },
                name: raw.name,
                categories: raw.categories,
                args: raw.args,
                track,
                start_ns: raw.timestamp_ns,
                end_ns,
                parent,
                children: Vec::new(),
                polls: Vec::new(),
                polled_in: None,
                flows: raw.flows,
            });
        }
        for event in &self.events {
            if event.end_ns.is_none() {
                let label = &self.tracks[event.track].label;
                let name = &event.name;
                self.faults
                    .push(format!("{} {name:?} on {label} has not ended", event.kind));
            }
        }
    }

    /// Returns the event itself or, for a poll, the future's span.
    fn without_poll(&self, index: usize) -> usize {
        let event = &self.events[index];
        match event.kind {
            Kind::Poll => event.parent.unwrap_or(index),
            _ => index,
        }
    }
}

impl EventData {
    fn end(&mut self, raw: RawEvent) {
        self.end_ns = Some(raw.timestamp_ns);
        self.args.extend(raw.args);
        self.flows.extend(raw.flows);
    }
}

impl TrackData {
    fn new(name: &str, kind: &TrackKind, this_thread: Option<i32>) -> Self {
        let what = match kind {
            TrackKind::Process { .. } => "process",
            TrackKind::Thread { .. } => "thread",
            TrackKind::Counter(_) => "counter",
            _ => "track",
        };
        let is_this_thread = match kind {
            TrackKind::Thread { tid, .. } => Some(*tid) == this_thread,
            _ => false,
        };
        let label = match name {
            _ if is_this_thread => THIS_THREAD.to_owned(),
            _ if name.is_empty() => what.to_owned(),
            _ => format!("{what} {name:?}"),
        };
        Self {
            name: name.to_owned(),
            label,
            is_thread: what == "thread",
            is_this_thread,
            is_counter: what == "counter",
            roots: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Returns whether the track has this name, or is called so in messages and outlines.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.is_this_thread && name == THIS_THREAD
    }

    fn count(&mut self, timestamp_ns: u64, value: CounterValue) {
        self.values.push((timestamp_ns, value.as_f64()));
    }
}
