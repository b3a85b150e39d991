//! Reads a trace into the timeline of a page.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::ops::RangeInclusive;

use tracezero_reader::kernel::{KernelEvents, KernelTimelines};
use tracezero_reader::{
    Event, EventKind, NameId, NameTable, ReadError, Record, RecordingEnd, TraceReader, TrackId,
    TrackKind, TrackTable,
};

use crate::packets::DamageLog;
use crate::units::plural;

use super::args::ArgsId;
use super::event_args::ArgsReader;
use super::kernel_lanes::KernelHalf;
use super::losses::LossTracker;
use super::timeline::{EventFacts, LabelId, Timeline, TrackIndex};
use super::tracks;
use super::window::{OpenSlice, OpenSlices, Place, Window};

/// The maximum number of flows per event.
const FLOWS_MAX: usize = 1000;
/// The maximum number of damaged places that a page lists. Further ones are only counted.
const DAMAGES_MAX: usize = 1000;
/// The maximum number of different reasons for skipped packets. Packets with further ones are
/// counted together.
const SKIP_REASONS_MAX: usize = 100;

/// Reads a trace into a timeline.
pub(crate) struct Loader {
    timeline: Timeline,
    window: Option<Window>,
    losses: LossTracker,
    args: ArgsReader,
    /// A cache of labels, by name and category. Only for events that have one category at most, and
    /// whose name and category are in the table of names.
    labels: HashMap<(NameId, NameId), LabelId>,
    kernel: KernelEvents,
    latest_ns: u64,
    damages_beyond_limit: u64,
    skipped: BTreeMap<String, u64>,
}

/// Returns the first and the last time of a trace's events; `None` if the trace has no events. A
/// trace that has only events of the kernel begins with the first of them.
///
/// # Errors
///
/// If the trace cannot be read.
pub(crate) fn time_range(source: impl Read) -> Result<Option<RangeInclusive<u64>>, ReadError> {
    let mut reader = TraceReader::new(source);
    let (mut first_ns, mut last_ns) = (u64::MAX, 0);
    let mut kernel = KernelEvents::new();
    while let Some(record) = reader.next()? {
        match record {
            Record::Event(event) => {
                let begin_ns = event.head.timestamp_ns;
                let end_ns = match event.head.kind {
                    EventKind::Slice { duration_ns } => begin_ns.saturating_add(duration_ns),
                    _ => begin_ns,
                };
                first_ns = first_ns.min(begin_ns);
                last_ns = last_ns.max(end_ns);
            }
            Record::Packet(_) => kernel.add(&reader),
            _ => {}
        }
    }
    let kernel = kernel.finish();
    if kernel.counts().switches > 0 {
        let range = kernel.range();
        if first_ns == u64::MAX {
            first_ns = range.start;
        }
        last_ns = last_ns.max(range.end);
    }
    Ok((first_ns <= last_ns).then_some(first_ns..=last_ns))
}

impl Loader {
    /// Creates a loader that fills `timeline`; if there is a window, the loader reads only this
    /// part of the trace.
    pub(crate) fn new(timeline: Timeline, window: Option<Window>) -> Self {
        Self {
            timeline,
            window,
            losses: LossTracker::default(),
            args: ArgsReader::default(),
            labels: HashMap::new(),
            kernel: KernelEvents::new(),
            latest_ns: 0,
            damages_beyond_limit: 0,
            skipped: BTreeMap::new(),
        }
    }

    /// Reads a whole trace.
    ///
    /// # Errors
    ///
    /// If the trace cannot be read to its end. Damage is not an error: it is reported to `damages`
    /// and shown in the page.
    pub(crate) fn load(
        mut self,
        source: impl Read,
        damages: &mut DamageLog,
    ) -> Result<Timeline, ReadError> {
        let mut reader = TraceReader::new(source);
        while let Some(record) = reader.next()? {
            match record {
                Record::Event(event) => self.event(&event),
                Record::Loss(loss) => self.losses.loss(&loss),
                Record::Damage(damage) => {
                    damages.report(&damage);
                    self.damage(damage.to_string());
                }
                Record::Skipped(skipped) => self.skip(skipped.reason.to_string()),
                Record::Packet(_) => self.kernel.add(&reader),
                _ => {}
            }
        }
        for end in reader
            .recording_ends()
            .filter(|end| *end != RecordingEnd::Whole)
        {
            self.timeline.notes.push(end.to_string());
        }
        self.timeline.file_bytes = reader.offset();
        self.timeline.packets = reader.packets();
        self.timeline.ensure_tracks(reader.tracks().len());
        self.timeline.tracks = tracks::describe(reader.tracks(), reader.names());
        let kernel = std::mem::take(&mut self.kernel).finish();
        self.note_kernel(&kernel);
        if kernel.counts().switches > 0 {
            self.add_kernel(kernel, reader.tracks());
        }
        Ok(self.finish(reader.names()))
    }

    fn event(&mut self, event: &Event<'_>) {
        let time_ns = event.head.timestamp_ns;
        let track = index_of(event.head.track);
        let earliest_ns = self.timeline.earliest_ns.unwrap_or(time_ns);
        self.timeline.earliest_ns = Some(earliest_ns.min(time_ns));
        self.timeline.ensure_tracks(event.head.track.index() + 1);
        self.losses.event(event.head.sequence_id, track, time_ns);
        let place = match (&self.window, event.head.kind) {
            (None, _) => Place::Inside,
            (Some(window), EventKind::Slice { duration_ns }) => {
                window.place_of_slice(time_ns, time_ns.saturating_add(duration_ns))
            }
            (Some(window), _) => window.place(time_ns),
        };
        match place {
            Place::Before => self.event_before(event, track),
            Place::Inside => {
                self.take_open(track, event.names());
                self.event_inside(event, track);
            }
            Place::After => {
                self.take_open(track, event.names());
                self.event_after(event, track);
            }
        }
    }

    fn event_inside(&mut self, event: &Event<'_>, track: TrackIndex) {
        let time_ns = event.head.timestamp_ns;
        self.latest_ns = self.latest_ns.max(time_ns);
        for (extra, value) in event.extra_counters() {
            self.timeline.ensure_tracks(extra.index() + 1);
            self.timeline
                .counter(index_of(*extra), time_ns, value.as_f64());
        }
        if let EventKind::Counter(value) = event.head.kind {
            self.timeline.counter(track, time_ns, value.as_f64());
        } else {
            self.slice_or_instant(event, track);
        }
    }

    fn slice_or_instant(&mut self, event: &Event<'_>, track: TrackIndex) {
        let time_ns = event.head.timestamp_ns;
        self.latest_ns = self.latest_ns.max(time_ns);
        let is_end = event.head.kind == EventKind::SliceEnd;
        let is_left_out = match is_end {
            true => self.timeline.is_in_skipped_slice(track),
            false => self.timeline.is_full(),
        };
        // Events that are left out must not add to any table.
        let (label, args, flows) = if is_left_out {
            (LabelId(0), ArgsId::NONE, Vec::new())
        } else {
            let flows = event.flows().chain(event.terminating_flows());
            let flows = flows.take(FLOWS_MAX).collect();
            let Timeline { strings, args, .. } = &mut self.timeline;
            let args = self.args.read(event, strings, args);
            let label = if is_end {
                LabelId(0)
            } else {
                self.label(event)
            };
            (label, args, flows)
        };
        let facts = EventFacts {
            track,
            time_ns,
            label,
            args,
            flows: &flows,
        };
        match event.head.kind {
            EventKind::SliceBegin => self.timeline.begin(facts),
            EventKind::SliceEnd => self.timeline.end(facts),
            EventKind::Slice { duration_ns } => {
                let end_ns = time_ns.saturating_add(duration_ns);
                self.latest_ns = self.latest_ns.max(end_ns);
                self.timeline.begin(facts);
                self.timeline.end(EventFacts {
                    time_ns: end_ns,
                    args: ArgsId::NONE,
                    flows: &[],
                    ..facts
                });
            }
            _ => self.timeline.instant(facts),
        }
    }

    /// Handles an event before the window. Only begins and ends matter: a slice may reach into the
    /// window.
    fn event_before(&mut self, event: &Event<'_>, track: TrackIndex) {
        let Some(window) = &mut self.window else {
            return;
        };
        match event.head.kind {
            EventKind::SliceBegin => window.open(
                track,
                OpenSlice {
                    time_ns: event.head.timestamp_ns,
                    name: event.head.name,
                    category: event.head.category,
                },
            ),
            EventKind::SliceEnd => window.close(track),
            _ => {}
        }
    }

    /// Handles an event after the window. Only ends of slices that began earlier matter.
    fn event_after(&mut self, event: &Event<'_>, track: TrackIndex) {
        match event.head.kind {
            EventKind::SliceBegin => self.timeline.skip_slice(track),
            EventKind::SliceEnd => self.slice_or_instant(event, track),
            _ => {}
        }
    }

    /// Adds the slices of a track that are open at the begin of the window.
    fn take_open(&mut self, track: TrackIndex, names: &NameTable) {
        let Some(window) = &mut self.window else {
            return;
        };
        let OpenSlices { slices, left_out } = window.take_open(track);
        for slice in slices {
            let (name, category) = (names.text(slice.name), names.text(slice.category));
            let label = self.timeline.label(name, category);
            self.timeline.begin(EventFacts {
                track,
                time_ns: slice.time_ns,
                label,
                args: ArgsId::NONE,
                flows: &[],
            });
        }
        for _ in 0..left_out {
            self.timeline.skip_slice(track);
        }
    }

    fn label(&mut self, event: &Event<'_>) -> LabelId {
        let mut categories = event.categories();
        let first = categories.next().unwrap_or_default();
        let key = (event.head.name, event.head.category);
        if categories.next().is_some() {
            let all = event.categories().collect::<Vec<_>>().join(",");
            return self.timeline.label(event.name(), &all);
        }
        if [event.head.name, event.head.category].contains(&NameId::MANY) {
            return self.timeline.label(event.name(), first);
        }
        let timeline = &mut self.timeline;
        let label = || timeline.label(event.name(), first);
        *self.labels.entry(key).or_insert_with(label)
    }

    /// Notes what is missing of the kernel's half.
    fn note_kernel(&mut self, kernel: &KernelTimelines) {
        let notes = &mut self.timeline.notes;
        for loss in kernel.losses() {
            let events = plural(loss.events, "event");
            notes.push(format!("the kernel lost {events} of CPU {}", loss.cpu));
        }
        let counts = kernel.counts();
        if counts.left_out > 0 {
            let events = plural(counts.left_out, "event");
            notes.push(format!("{events} of the kernel left out for lack of room"));
        }
        if counts.unknown_clock > 0 {
            let bundles = plural(counts.unknown_clock, "bundle");
            notes.push(format!(
                "{bundles} of the kernel's events left out: the trace does not explain their clock"
            ));
        }
    }

    /// Adds the kernel's half: all cores, and the threads that have events.
    fn add_kernel(&mut self, timelines: KernelTimelines, tracks: &TrackTable) {
        let mut threads = Vec::new();
        let mut unknown = 0;
        for (id, track) in tracks.iter() {
            let TrackKind::Thread { pid, tid, .. } = track.kind else {
                continue;
            };
            let Some(first) = self.timeline.events[id.index()].first() else {
                continue;
            };
            if track.machine_id != 0 {
                continue; // The timelines are those of the service's machine.
            }
            match timelines.find_thread(pid, tid, first.time_ns) {
                Some(thread) => threads.push((index_of(id), thread)),
                None => unknown += 1,
            }
        }
        if unknown > 0 {
            let threads = plural(unknown, "thread");
            self.timeline.notes.push(format!(
                "the kernel has no events of {threads}; was the process in another pid namespace, \
                 without linux.process_stats?"
            ));
        }
        let range = timelines.range();
        let range = match &self.window {
            Some(window) => window.clip(&range),
            None => range,
        };
        self.timeline.kernel = Some(KernelHalf {
            timelines,
            threads,
            range,
        });
    }

    fn damage(&mut self, text: String) {
        if self.timeline.damage.len() < DAMAGES_MAX {
            self.timeline.damage.push(text);
        } else {
            self.damages_beyond_limit += 1;
        }
    }

    fn skip(&mut self, reason: String) {
        if self.skipped.len() < SKIP_REASONS_MAX || self.skipped.contains_key(&reason) {
            *self.skipped.entry(reason).or_default() += 1;
        } else {
            *self.skipped.entry("other reasons".to_owned()).or_default() += 1;
        }
    }

    fn finish(mut self, names: &NameTable) -> Timeline {
        let open = self.window.as_ref().map(Window::tracks_with_open);
        for track in open.into_iter().flatten() {
            self.take_open(track, names);
        }
        for (reason, count) in &self.skipped {
            let packets = if *count == 1 {
                "packet was"
            } else {
                "packets were"
            };
            let note = format!("{count} {packets} skipped: {reason}");
            self.timeline.notes.push(note);
        }
        if self.damages_beyond_limit > 0 {
            let more = self.damages_beyond_limit;
            self.timeline
                .notes
                .push(format!("{more} more damaged places"));
        }
        self.losses.finish_all(&mut self.timeline, self.latest_ns);
        self.timeline
    }
}

fn index_of(track: TrackId) -> TrackIndex {
    TrackIndex(u32::try_from(track.index()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::view::encode::Encoder;
    use crate::view::page;
    use protozero::HeapBuffered;
    use tracezero_core::protos::{Trace, track_event};

    /// Encodes a trace of tracks with uuids from 1 on, given by name and the parent's uuid. Each
    /// has a slice with an argument.
    fn trace(tracks: &[(&str, u64)]) -> Vec<u8> {
        let mut buffer = HeapBuffered::<Trace<'_>>::new();
        let mut trace = buffer.message();
        for (uuid, (name, parent_uuid)) in (1..).zip(tracks) {
            trace.add_packet(|packet| {
                packet.track_descriptor(|track| {
                    track.set_uuid(uuid);
                    track.set_parent_uuid(*parent_uuid);
                    track.set_name(name);
                });
                packet.set_trusted_packet_sequence_id(1);
                packet.set_sequence_flags(u32::from(uuid == 1));
            });
        }
        for (uuid, (name, _)) in (1..).zip(tracks) {
            for kind in [track_event::Type::SLICE_BEGIN, track_event::Type::SLICE_END] {
                trace.add_packet(|packet| {
                    packet.set_timestamp(1000 * uuid + 100 * u64::from(kind.0.unsigned_abs()));
                    packet.set_trusted_packet_sequence_id(1);
                    packet.track_event(|event| {
                        event.set_type(kind);
                        event.set_track_uuid(uuid);
                        event.set_name(name);
                        event.add_flow_ids(7);
                        event.add_debug_annotations(|arg| {
                            arg.set_name("list");
                            arg.add_array_values(|item| {
                                item.set_string_value(name);
                            });
                            arg.add_array_values(|_| {});
                        });
                    });
                });
            }
        }
        drop(trace);
        buffer.to_vec()
    }

    fn load(trace: &[u8], window: Option<Window>) -> Result<Timeline, ReadError> {
        let timeline = Timeline::new("t".to_owned(), 0, 1000);
        let mut damages = DamageLog::new(Path::new("t"));
        Loader::new(timeline, window).load(trace, &mut damages)
    }

    #[test]
    fn page_notes_that_a_recording_was_cut_off() {
        let session = tracezero::InMemorySession::start().unwrap();
        let whole = session.finish().0;
        assert_eq!(load(&whole, None).unwrap().notes, [""; 0]);
        // Cuts off the last packet, which marks the end of the recording.
        let mut fields = protozero::Decoder::new(&whole).fields();
        let mut starts = vec![0];
        while fields.next().is_some() {
            starts.push(fields.offset());
        }
        let cut = &whole[..starts[starts.len() - 2]];
        let notes = load(cut, None).unwrap().notes;
        assert_eq!(notes, ["recording was cut off after 0.00 s"]);
    }

    #[test]
    fn tracks_are_below_the_parents_in_their_descriptors() {
        let timeline = load(&trace(&[("outer", 0), ("inner", 1)]), None).unwrap();
        assert_eq!(timeline.tracks[0].parent, None);
        assert_eq!(timeline.tracks[1].parent, Some(0));
        assert_eq!(timeline.events[0].len(), 2);
    }

    #[test]
    fn cycles_of_parents_are_ignored() {
        let timeline = load(&trace(&[("a", 2), ("b", 1), ("c", 3), ("d", 3)]), None).unwrap();
        assert!(timeline.tracks.iter().all(|track| track.parent.is_none()));
        let encoder = Encoder::new(timeline);
        assert_eq!(encoder.event_count(), 4);
    }

    #[test]
    fn events_beyond_the_limit_add_to_no_table() {
        let timeline = Timeline::new("t".to_owned(), 0, 0);
        let mut damages = DamageLog::new(Path::new("t"));
        let trace = trace(&[("outer", 0), ("inner", 1)]);
        let timeline = Loader::new(timeline, None).load(&trace[..], &mut damages);
        let timeline = timeline.unwrap();
        assert_eq!(timeline.left_out().events, 2);
        assert_eq!(timeline.strings.iter().collect::<Vec<_>>(), [""]);
        assert!(timeline.flow_lists.is_empty() && timeline.labels.is_empty());
    }

    #[test]
    fn slices_that_began_before_the_window_have_names() {
        let trace = trace(&[("outer", 0), ("inner", 1)]);
        let timeline = load(&trace, Some(Window::new(1150, 2150))).unwrap();
        let names: Vec<_> = timeline.strings.iter().collect();
        assert!(
            names.contains(&"outer") && names.contains(&"inner"),
            "{names:?}"
        );
        let encoder = Encoder::new(timeline);
        assert_eq!(encoder.event_count(), 2);
    }

    #[test]
    fn random_bytes_yield_a_page_or_an_error() {
        let good = trace(&[("a", 0), ("b", 1), ("b", 1), ("c", 2)]);
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut pages = 0;
        for _ in 0..2000 {
            let mut bytes = good.clone();
            for _ in 0..4 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let place = (random >> 8) as usize % bytes.len();
                bytes[place] ^= 1 << (random & 7);
            }
            let window = (random & 0x100 != 0).then(|| Window::new(random % 4000, 4000));
            if let Ok(timeline) = load(&bytes, window) {
                page::write(&Encoder::new(timeline), &mut std::io::sink()).unwrap();
                pages += 1;
            }
        }
        assert!(pages > 1000, "{pages}");
    }
}
