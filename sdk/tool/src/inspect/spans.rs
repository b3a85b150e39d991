//! The spans that are open at the end of a trace.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Read;

use tracezero_reader::{
    Damage, Event, EventHead, EventKind, InTimeOrder, NameTable, ReadError, Record, TraceReader,
    TrackId, TrackKind, TrackTable, Value,
};

use super::lists::{List, ThreadList, TrackList};
use super::open_span::OpenSpan;

/// The maximum length of the arguments of a span.
const ARGS_MAX_BYTES: usize = 200;
/// The maximum number of spans inside each other on a track. Deeper ones are left out.
const DEPTH_MAX: usize = 4096;
/// The maximum number of flows whose polls are counted.
const FLOWS_MAX: usize = 1 << 20;

/// A track.
#[derive(Clone, Debug, Default)]
pub(super) struct TrackSpans {
    /// The outermost first.
    pub(super) open: Vec<OpenSpan>,
    /// The number of open spans that are left out because they are too deep.
    left_out: u64,
    /// The time of the last event.
    pub(super) last_ns: u64,
    /// What lists say of a track that all threads may write to, each with the time of the list.
    listed: Vec<(u64, OpenSpan)>,
}

/// The polls of a future.
#[derive(Clone, Copy, Debug)]
pub(super) struct Polls {
    pub(super) count: u64,
    pub(super) last_begin_ns: u64,
    /// The track of the thread that polled last.
    pub(super) thread: TrackId,
}

/// What is open at the end of a trace.
#[derive(Debug, Default)]
pub(super) struct OpenSpans {
    /// By the index of the track.
    spans: Vec<TrackSpans>,
    /// By the id of the flow.
    polls: HashMap<u64, Polls>,
    pub(super) tracks: TrackTable,
    pub(super) names: NameTable,
    pub(super) events: u64,
    /// The times of the first and the last event.
    pub(super) times_ns: Option<(u64, u64)>,
    /// The number of open spans that the last list of tracks left out. Their begins are
    /// overwritten.
    pub(super) left_out: u64,
    begins: Begins,
}

/// Parts of begins that wait to be put into the order of time, by the index of their packet.
type Begins = HashMap<u64, (String, Option<u64>)>;

impl OpenSpans {
    /// Reads a trace to its end. Calls `report` for each damaged place.
    pub(super) fn read(
        reader: &mut TraceReader<impl Read>,
        mut report: impl FnMut(&Damage),
    ) -> Result<Self, ReadError> {
        let mut found = Self::default();
        let mut order = InTimeOrder::new();
        // By sequence.
        let mut of_threads: HashMap<u32, ThreadList> = HashMap::new();
        while let Some(record) = reader.next()? {
            match record {
                Record::Event(event) => {
                    let head = event.head;
                    found.note(&event);
                    let list = of_threads.remove(&head.sequence_id);
                    let (tracks, names) = (reader.tracks(), reader.names());
                    let is_replaced = list.is_some_and(|list| {
                        let track = tracks.find(list.track_uuid);
                        found.replace(list, tracks, Some(&head));
                        track == Some(head.track)
                    });
                    if !is_replaced {
                        order.add(&head, tracks, |head| found.add(head, names));
                    }
                }
                Record::Packet(other) => {
                    let sequence_id = other.packet.head.sequence_id;
                    match List::decode(other.packet.bytes()) {
                        Some(List::OfThread(list)) => {
                            of_threads.insert(sequence_id, list);
                        }
                        Some(List::OfTracks(list)) => found.note_listed(list, reader.tracks()),
                        None => {}
                    }
                }
                Record::Damage(damage) => report(&damage),
                _ => {}
            }
        }
        order.finish(|head| found.add(head, reader.names()));
        for track in &mut found.spans {
            track.insert_listed(u64::MAX);
        }
        for list in of_threads.into_values() {
            found.replace(list, reader.tracks(), None);
        }
        found.tracks = reader.tracks().clone();
        found.names = reader.names().clone();
        Ok(found)
    }

    /// Returns the spans of a track.
    pub(super) fn of(&self, track: TrackId) -> Option<&TrackSpans> {
        self.spans.get(track.index())
    }

    /// Returns the polls of the future whose track has this uuid.
    pub(super) fn polls(&self, track_uuid: u64) -> Option<Polls> {
        self.polls.get(&track_uuid).copied()
    }

    /// Notes what only the event itself has.
    fn note(&mut self, event: &Event<'_>) {
        let head = &event.head;
        self.events += 1;
        let (first_ns, last_ns) = self.times_ns.unwrap_or((u64::MAX, 0));
        self.times_ns = Some((
            first_ns.min(head.timestamp_ns),
            last_ns.max(head.timestamp_ns),
        ));
        if head.kind != EventKind::SliceBegin {
            return;
        }
        let flow_id = event.flows().next();
        let is_thread = matches!(
            event.tracks().track(head.track).kind,
            TrackKind::Thread { .. }
        );
        if is_thread
            && let Some(id) = flow_id
            && (self.polls.len() < FLOWS_MAX || self.polls.contains_key(&id))
        {
            let polls = self.polls.entry(id).or_insert(Polls {
                count: 0,
                last_begin_ns: 0,
                thread: head.track,
            });
            polls.count += 1;
            if head.timestamp_ns >= polls.last_begin_ns {
                polls.last_begin_ns = head.timestamp_ns;
                polls.thread = head.track;
            }
        }
        let args = args_of(event);
        if !args.is_empty() || flow_id.is_some() {
            self.begins.insert(head.place.index, (args, flow_id));
        }
    }

    fn track(&mut self, track: TrackId) -> &mut TrackSpans {
        if self.spans.len() <= track.index() {
            self.spans.resize(track.index() + 1, TrackSpans::default());
        }
        &mut self.spans[track.index()]
    }

    /// Adds the event that is next on its track.
    fn add(&mut self, head: &EventHead, names: &NameTable) {
        let begin = self.begins.remove(&head.place.index);
        let track = self.track(head.track);
        track.insert_listed(head.timestamp_ns);
        track.last_ns = track.last_ns.max(head.timestamp_ns);
        match head.kind {
            EventKind::SliceBegin => {
                let (args, flow_id) = begin.unwrap_or_default();
                // A list may have named it already.
                let listed = track.open.last_mut();
                let listed = listed.filter(|it| {
                    it.is_listed
                        && it.begin_ns == head.timestamp_ns
                        && it.name == names.text(head.name)
                });
                if let Some(listed) = listed {
                    listed.args = args;
                    listed.is_listed = false;
                } else if track.open.len() < DEPTH_MAX {
                    track.open.push(OpenSpan {
                        begin_ns: head.timestamp_ns,
                        name: names.text(head.name).to_owned(),
                        args,
                        flow_id,
                        is_listed: false,
                    });
                } else {
                    track.left_out += 1;
                }
            }
            EventKind::SliceEnd => match track.left_out.checked_sub(1) {
                Some(left_out) => track.left_out = left_out,
                None => {
                    track.open.pop();
                }
            },
            _ => {}
        }
    }

    /// Replaces the spans of a thread by those of a list. The list is true after the event `head`; if
    /// there is none, at the end of the trace. Spans that are known already keep their arguments.
    fn replace(&mut self, list: ThreadList, tracks: &TrackTable, head: Option<&EventHead>) {
        let Some(id) = tracks.find(list.track_uuid) else {
            return;
        };
        let last_ns = head.map_or(0, |head| head.timestamp_ns);
        let head = head.filter(|head| head.track == id);
        let begin = head.and_then(|head| self.begins.remove(&head.place.index));
        let track = self.track(id);
        track.last_ns = track.last_ns.max(last_ns);
        let known = std::mem::replace(&mut track.open, list.spans);
        let known = known.into_iter().map(|span| (span.begin_ns, span));
        let known: HashMap<u64, OpenSpan> = known.collect();
        for span in &mut track.open {
            if let Some(known) = known.get(&span.begin_ns).filter(|it| it.name == span.name) {
                *span = known.clone();
            }
        }
        track.left_out = 0;
        if head.is_some_and(|head| head.kind == EventKind::SliceBegin)
            && let Some(span) = track.open.last_mut()
        {
            span.is_listed = false;
            span.args = begin.unwrap_or_default().0;
        }
    }

    /// Notes what a list says, until the events of the tracks before it are known.
    fn note_listed(&mut self, list: TrackList, tracks: &TrackTable) {
        for (uuid, span) in list.spans {
            if let Some(id) = tracks.find(uuid) {
                self.track(id).listed.push((list.time_ns, span));
            }
        }
        self.left_out = list.left_out;
    }
}

impl TrackSpans {
    /// Adds the spans that lists up to a time have, unless they are known.
    fn insert_listed(&mut self, until_ns: u64) {
        let Self { open, listed, .. } = self;
        for (_, span) in listed.extract_if(.., |(time_ns, _)| *time_ns <= until_ns) {
            let known = open.iter().filter(|it| it.begin_ns == span.begin_ns);
            let is_known = known.map(|it| &it.name).any(|name| *name == span.name);
            if !is_known && open.len() < DEPTH_MAX {
                let at = open.partition_point(|it| it.begin_ns <= span.begin_ns);
                open.insert(at, span);
            }
        }
    }
}

/// Formats the arguments of an event.
fn args_of(event: &Event<'_>) -> String {
    let mut text = String::new();
    for arg in event.args() {
        if text.len() > ARGS_MAX_BYTES {
            text.truncate(text.floor_char_boundary(ARGS_MAX_BYTES));
            text.push_str(" ..");
            break;
        }
        let separator = if text.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{}={}", arg.name, Value::from(arg.value));
    }
    text
}
