//! Writes the events of one thread in one session as packets.
//!
//! The first packet of the sequence starts its *incremental state*: it names the clock that
//! timestamps count by and the default track, and no names and no tracks are defined yet. Every
//! other event states that it needs this state. The state is started again after a loss. In a ring
//! that overwrites old packets, it is also started again from time to time
//! (`producer/state_start.rs`), so that most of the events that are left in the ring can be read.
//!
//! From time to time, the sequence also lists the open slices of the thread (`slice_list.rs`), and
//! one sequence for all lists those of other tracks (`track_list.rs`).
//!
//! An event uses only names and tracks that were defined since the last start. If its writer has
//! heard of a loss since then, the sequence first starts the state again. So an event only builds
//! on packets that, as far as its writer knows, readers have.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use crate::call_site_names::CallSiteNames;
use crate::counter_track::CounterTrack;
use crate::encoding::EventBody;
use crate::event::{EventParts, EventWriter};
use crate::event_packet::put_event;
use crate::interning::{DefinedNames, NameKind};
use crate::options::EventOptions;
use crate::placement::{EventTime, Placement};
use crate::slice_list::SliceList;
use crate::track::Track;
use crate::track_list::TrackList;
use crate::unusual_form::{INCREMENTAL_CLOCK_ID, UnusualForm};
use tracezero_core::clock::{self, BUILTIN_CLOCK_BOOTTIME};
use tracezero_core::commit::RingProgress;
use tracezero_core::counter_value::CounterValue;
use tracezero_core::protos::trace_packet::SequenceFlags;
use tracezero_core::protos::track_event::Type;
use tracezero_core::protos::{TracePacket, TrackEvent};
use tracezero_producer::{LocalStart, StateStart, TraceWriter};

/// A time in the far future: no event comes a short distance after it.
const FAR_AWAY_NS: u64 = 1 << 63;

/// The maximum number of tracks that a sequence remembers as described. Without a limit,
/// short-lived tracks would add up for ever. Describing a track twice does no harm.
const DESCRIBED_TRACKS_MAX: usize = 4096;

/// The state that the packets of one sequence build on.
#[derive(Debug)]
pub struct EventSequence {
    /// The track of the thread.
    thread: Track,
    /// The progress of the buffer that the packets go to.
    progress: Arc<RingProgress>,
    slice_list: SliceList,
    /// The start of the incremental state; `None` before the first.
    started_at: Option<StateStart>,
    /// The time from which the next distance counts, on the trace clock. [`FAR_AWAY_NS`] if
    /// `unusual` is set: the [`UnusualForm`] keeps its own time, and all events must use that time.
    last_timestamp_ns: u64,
    defined: DefinedNames,
    described: HashSet<u64, BuildHasherDefault<UuidHasher>>,
    slice_end: EventBody,
    /// `None` if the configuration asks for the default encoding.
    unusual: Option<Box<UnusualForm>>,
}

impl EventSequence {
    /// Creates the sequence of the calling thread.
    pub(crate) fn new(start: LocalStart, options: EventOptions) -> Self {
        let thread = Track::current_thread();
        Self {
            slice_list: SliceList::new(&start),
            unusual: UnusualForm::new(options, &thread),
            thread,
            progress: start.progress,
            started_at: None,
            last_timestamp_ns: 0,
            defined: DefinedNames::new(),
            described: HashSet::default(),
            slice_end: EventBody::encode(|event| {
                event.set_type(Type::SLICE_END);
            })
            .expect("a type has two bytes"),
        }
    }

    /// Returns true if the packets go to a ring, which overwrites old begins.
    pub(super) fn is_in_ring(&self) -> bool {
        self.progress.ring_bytes().is_some()
    }

    /// Writes an event of a call site.
    #[inline(always)]
    pub(super) fn event<P: EventParts>(
        &mut self,
        writer: &mut TraceWriter,
        time: EventTime,
        site: &CallSiteNames,
        event_type: Type,
        placement: &Placement<'_>,
        parts: &P,
    ) {
        if !self.start_if_needed(writer, time) {
            return;
        }
        let ids = site.ids();
        if parts.are_short()
            && placement.is_usual()
            && self.defined.contains_site(ids.site)
            && let Some(body) = ids.body(event_type)
        {
            let last_timestamp_ns = &mut self.last_timestamp_ns;
            if write_short(writer, last_timestamp_ns, time, body, &ids.args, parts) {
                return;
            }
        }
        self.write_event(writer, time, site, event_type, placement, parts);
    }

    #[inline]
    fn write_event<P: EventParts>(
        &mut self,
        writer: &mut TraceWriter,
        time: EventTime,
        site: &CallSiteNames,
        event_type: Type,
        placement: &Placement<'_>,
        parts: &P,
    ) {
        if let Some(track) = placement.track {
            self.describe(writer, track);
        }
        let ids = site.ids();
        let mut packet = writer.begin_packet();
        let mut packet = packet.message_as::<TracePacket<'_>>();
        self.set_time(&mut packet, time);
        // Names first: if formatting an argument panics, the packet ends there.
        if !self.defined.contains_site(ids.site) {
            let form = self.unusual.as_deref();
            let arg_ids = form.map_or(&*ids.args, |form| form.arg_ids(ids));
            let name = match (site.origin, form) {
                (Some(origin), Some(form)) if origin.is_name_dynamic => form.name(site.name),
                _ => site.name,
            };
            define_names(&mut packet, &mut self.defined, site, name, arg_ids);
        }
        packet.track_event(|event| {
            match ids.body(event_type) {
                Some(body) => body.append_fields(event),
                None => ids.write_fields(event_type, event),
            }
            if let Some(name) = placement.name {
                event.set_name(self.unusual.as_ref().map_or(name, |form| form.name(name)));
            }
            if let Some(track) = placement.track {
                event.set_track_uuid(track.uuid());
            }
            let arg_ids = match &mut self.unusual {
                None => &ids.args,
                Some(form) => {
                    if placement.track.is_none() {
                        form.add_thread_time(event, time);
                    }
                    form.arg_ids(ids)
                }
            };
            parts.write_all(&mut EventWriter::new(event, arg_ids));
        });
    }

    /// Writes the end of the innermost open slice on the thread's track.
    #[inline(always)]
    pub(super) fn slice_end(&mut self, writer: &mut TraceWriter, time: EventTime) {
        if !self.start_if_needed(writer, time) {
            return;
        }
        let (last_timestamp_ns, body) = (&mut self.last_timestamp_ns, &self.slice_end);
        if !write_short(writer, last_timestamp_ns, time, body, &[], &()) {
            self.write_slice_end(writer, time);
        }
    }

    #[inline(never)]
    fn write_slice_end(&mut self, writer: &mut TraceWriter, time: EventTime) {
        let mut packet = writer.begin_packet();
        let mut packet = packet.message_as::<TracePacket<'_>>();
        self.set_time(&mut packet, time);
        packet.track_event(|event| {
            event.set_type(Type::SLICE_END);
            if let Some(form) = &mut self.unusual {
                form.add_thread_time(event, time);
            }
        });
    }

    /// Writes the end of the innermost open slice on `track`; on the thread's track for `None`.
    pub(super) fn end_slice(
        &mut self,
        writer: &mut TraceWriter,
        time: EventTime,
        track: Option<&Track>,
    ) {
        match track {
            None => self.slice_end(writer, time),
            Some(track) => self.slice_end_on(writer, time, track),
        }
    }

    /// Writes the end of the innermost open slice on another track than the thread's.
    pub(super) fn slice_end_on(
        &mut self,
        writer: &mut TraceWriter,
        time: EventTime,
        track: &Track,
    ) {
        if !self.start_if_needed(writer, time) {
            return;
        }
        self.describe(writer, track);
        self.write_plain(writer, time, |event| {
            event.set_type(Type::SLICE_END);
            event.set_track_uuid(track.uuid());
        });
    }

    /// Writes a value of a counter.
    pub(super) fn counter(
        &mut self,
        writer: &mut TraceWriter,
        time: EventTime,
        track: &CounterTrack,
        value: CounterValue,
    ) {
        if !self.start_if_needed(writer, time) {
            return;
        }
        self.describe(writer, track.track());
        self.write_plain(writer, time, |event| {
            event.set_type(Type::COUNTER);
            event.set_track_uuid(track.track().uuid());
            match value {
                CounterValue::Int(value) => event.set_counter_value(value),
                CounterValue::Double(value) => event.set_double_counter_value(value),
            };
        });
    }

    /// Writes an event that uses no interned names.
    fn write_plain(
        &mut self,
        writer: &mut TraceWriter,
        time: EventTime,
        write: impl FnOnce(&mut TrackEvent<'_>),
    ) {
        let mut packet = writer.begin_packet();
        let mut packet = packet.message_as::<TracePacket<'_>>();
        self.set_time(&mut packet, time);
        packet.track_event(write);
    }

    /// Returns the time since the last event, and makes `time` the last one: the caller must write
    /// the event. Returns `None` if the user gave the time, or if it is before the last event.
    #[inline]
    fn distance_ns(&mut self, time: EventTime) -> Option<u64> {
        let EventTime::Now(now_ns) = time else {
            return None;
        };
        // `None` if an argument of this event has written another event meanwhile, whose time is
        // later.
        let distance_ns = now_ns.checked_sub(self.last_timestamp_ns)?;
        self.last_timestamp_ns = now_ns;
        Some(distance_ns)
    }

    #[inline]
    fn set_time(&mut self, packet: &mut TracePacket<'_>, time: EventTime) {
        match (self.distance_ns(time), &mut self.unusual, time) {
            (Some(distance_ns), ..) => {
                packet.set_timestamp(distance_ns);
            }
            (None, Some(form), _) => form.set_time(packet, time),
            (None, None, EventTime::Now(timestamp_ns) | EventTime::At(timestamp_ns)) => {
                packet.set_timestamp(timestamp_ns);
                packet.set_timestamp_clock_id(BUILTIN_CLOCK_BOOTTIME);
            }
        }
        packet.set_sequence_flags(SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE.0 as u32);
    }

    /// Describes a track and its ancestors before the first event on it. Each descriptor takes its
    /// own packet, because a packet can hold only one kind of data.
    #[inline]
    fn describe(&mut self, writer: &mut TraceWriter, track: &Track) {
        if !self.described.contains(&track.uuid()) {
            self.describe_new(writer, track);
        }
    }

    #[cold]
    fn describe_new(&mut self, writer: &mut TraceWriter, track: &Track) {
        if let Some(parent) = track.parent() {
            self.describe(writer, parent);
        }
        if self.described.len() >= DESCRIBED_TRACKS_MAX {
            self.described.clear();
        }
        self.described.insert(track.uuid());
        writer.trace_packet(|packet| packet.track_descriptor(|out| track.describe(out)));
    }

    /// Starts the incremental state for an event at `time`, unless the current one is valid.
    /// Returns false if the event cannot be written.
    #[inline]
    fn start_if_needed(&mut self, writer: &mut TraceWriter, time: EventTime) -> bool {
        let start = self.started_at.as_ref();
        start.is_some_and(|start| start.holds(writer, &self.progress)) || self.start(writer, time)
    }

    /// Starts the incremental state. Returns false if its packet is dropped. That packet then
    /// counts in place of the event, so each lost event counts as one dropped packet.
    #[cold]
    #[inline(never)]
    fn start(&mut self, writer: &mut TraceWriter, time: EventTime) -> bool {
        let last_start = self.started_at.as_ref();
        self.slice_list
            .note_start(last_start, writer, &self.progress);
        self.started_at = Some(StateStart::now(writer, &self.progress));
        self.defined.clear();
        self.described.clear();
        let event_ns = match time {
            EventTime::Now(now_ns) => now_ns,
            EventTime::At(_) => clock::event_now_ns(),
        };
        // The clock must not go back, even if an argument of this event has written the last event.
        let started_ns = match &mut self.unusual {
            None => {
                self.last_timestamp_ns = self.last_timestamp_ns.max(event_ns);
                self.last_timestamp_ns
            }
            Some(form) => {
                self.last_timestamp_ns = FAR_AWAY_NS;
                form.start(event_ns)
            }
        };
        let thread = self.thread.clone();
        let form = self.unusual.as_deref();
        let default_clock_id = form.map_or(INCREMENTAL_CLOCK_ID, UnusualForm::default_clock_id);
        writer.trace_packet(|packet| {
            packet.set_timestamp(started_ns);
            packet.set_timestamp_clock_id(BUILTIN_CLOCK_BOOTTIME);
            packet.set_sequence_flags(SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED.0 as u32);
            packet.trace_packet_defaults(|defaults| {
                defaults.set_timestamp_clock_id(default_clock_id);
                defaults.track_event_defaults(|defaults| {
                    defaults.set_track_uuid(thread.uuid());
                    if let Some(form) = form {
                        form.write_defaults(defaults);
                    }
                });
            });
            if default_clock_id == BUILTIN_CLOCK_BOOTTIME {
                return;
            }
            packet.clock_snapshot(|snapshot| {
                snapshot.add_clocks(|clock| {
                    clock.set_clock_id(BUILTIN_CLOCK_BOOTTIME);
                    clock.set_timestamp(started_ns);
                });
                if let Some(form) = form {
                    return form.write_clocks(started_ns, snapshot);
                }
                snapshot.add_clocks(|clock| {
                    clock.set_clock_id(INCREMENTAL_CLOCK_ID);
                    clock.set_timestamp(started_ns);
                    clock.set_is_incremental(true);
                });
            });
        });
        if writer.is_dropping() {
            self.started_at = None;
            self.slice_list.note_dropped_start();
            return false;
        }
        self.describe(writer, &thread);
        let form = self.unusual.as_deref();
        if let Some(track) = form.and_then(UnusualForm::thread_time_track).cloned() {
            self.describe(writer, &track);
        }
        let form = self.unusual.as_deref();
        self.slice_list
            .write_if_due(writer, &thread, &self.progress, form);
        self.list_tracks(writer);
        true
    }

    /// Lists the open slices of tracks that all threads may write to, if it is this sequence's turn.
    fn list_tracks(&mut self, writer: &mut TraceWriter) {
        let Some(list) = TrackList::take_turn(&self.progress, self.slice_list.session()) else {
            return;
        };
        for track in list.tracks() {
            self.describe(writer, track);
        }
        list.write(writer, self.unusual.as_deref());
    }
}

/// Writes an event in one go, if all its parts fit and its time is a short distance after the last
/// event. Returns false otherwise; with an `UnusualForm` always.
#[inline(always)]
fn write_short(
    writer: &mut TraceWriter,
    last_timestamp_ns: &mut u64,
    time: EventTime,
    body: &EventBody,
    name_iids: &[u32],
    parts: &impl EventParts,
) -> bool {
    let EventTime::Now(now_ns) = time else {
        return false;
    };
    // A time before the last one wraps around to a huge distance, which does not fit.
    let distance_ns = now_ns.wrapping_sub(*last_timestamp_ns);
    let is_written =
        writer.write_packet_by(|packet| put_event(packet, distance_ns, body, name_iids, parts));
    if is_written {
        *last_timestamp_ns = now_ns;
    }
    is_written
}

/// Writes the definitions of the names of a call site that this sequence has not defined yet.
#[cold]
#[inline(never)]
fn define_names(
    packet: &mut TracePacket<'_>,
    defined: &mut DefinedNames,
    site: &CallSiteNames,
    name: &str,
    arg_ids: &[u32],
) {
    let ids = site.ids();
    defined.insert_site(ids.site);
    packet.interned_data(|interned| {
        for (&id, name) in ids.categories.iter().zip(site.categories()) {
            if defined.insert(NameKind::Category, id) {
                interned.add_event_categories(|category| {
                    category.set_iid(u64::from(id));
                    category.set_name(name);
                });
            }
        }
        if ids.event != 0 && defined.insert(NameKind::Event, ids.event) {
            interned.add_event_names(|event| {
                event.set_iid(u64::from(ids.event));
                event.set_name(name);
            });
        }
        if let Some(origin) = site.origin
            && ids.source_location != 0
        {
            interned.add_source_locations(|location| {
                location.set_iid(u64::from(ids.source_location));
                location.set_file_name(origin.file);
                location.set_line_number(origin.line);
            });
        }
        for (&id, name) in arg_ids.iter().zip(site.args) {
            if defined.insert(NameKind::Arg, id) {
                interned.add_debug_annotation_names(|arg| {
                    arg.set_iid(u64::from(id));
                    arg.set_name(name);
                });
            }
        }
    });
}

/// A hasher that does nothing: uuids of tracks are random already.
#[derive(Debug, Default)]
struct UuidHasher(u64);

impl Hasher for UuidHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, uuid: u64) {
        self.0 = uuid;
    }
}
