//! The events of one thread in one session, as packets.
//!
//! The first packet of the sequence starts its *incremental state*: the clock that timestamps count
//! by, the default track, and no names defined. Every other event says that it needs this state. It
//! is started anew after a loss, and for each quarter of a ring that overwrites: so whatever quarter
//! is left of it, the events there can be read.

use std::sync::Arc;

use super::arg::{Args, CounterValue};
use super::call_site::{CallSite, CallSiteIds};
use super::interning::{DefinedNames, NameKind};
use super::track;
use crate::clock::{self, BUILTIN_CLOCK_BOOTTIME};
use crate::commit::RingProgress;
use crate::producer::TraceWriter;
use crate::protos::trace_packet::SequenceFlags;
use crate::protos::track_event::Type;
use crate::protos::{TracePacket, TrackEvent};

/// A clock of the sequence, the first id that sequences may use: timestamps are distances from
/// the sequence's last one, in nanoseconds.
const INCREMENTAL_CLOCK_ID: u32 = 64;

/// State that the packets of one sequence build on.
#[derive(Debug)]
pub(crate) struct EventSequence {
    /// How far the buffer has come that the packets go to.
    progress: Arc<RingProgress>,
    /// When the incremental state was started; `None` before.
    started_at: Option<Mark>,
    /// Where the next distance counts from, on the trace clock.
    last_timestamp_ns: u64,
    defined: DefinedNames,
}

/// Changes when earlier packets may be gone. With a packet, what it defined and the time that it
/// added are lost as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// The writer's [`TraceWriter::loss_mark`].
    losses: u64,
    /// [`RingProgress::quarters`].
    quarters: u64,
}

impl EventSequence {
    pub(crate) const fn new(progress: Arc<RingProgress>) -> Self {
        Self {
            progress,
            started_at: None,
            last_timestamp_ns: 0,
            defined: DefinedNames::new(),
        }
    }

    /// The begin of a slice on the thread's track.
    #[inline]
    pub(super) fn begin_slice(
        &mut self,
        writer: &mut TraceWriter,
        timestamp_ns: u64,
        site: &CallSite,
        ids: &CallSiteIds,
        args: &impl Fn(&mut Args<'_, '_>),
    ) {
        self.named_event(writer, timestamp_ns, Type::SLICE_BEGIN, site, ids, args);
    }

    /// The end of the innermost open slice on the thread's track.
    pub(super) fn end_slice(&mut self, writer: &mut TraceWriter, timestamp_ns: u64) {
        self.event(writer, timestamp_ns, |packet, _| {
            packet.track_event(|event| {
                event.set_type(Type::SLICE_END);
            });
        });
    }

    /// A point in time on the thread's track.
    #[inline]
    pub(super) fn instant(
        &mut self,
        writer: &mut TraceWriter,
        timestamp_ns: u64,
        site: &CallSite,
        ids: &CallSiteIds,
        args: &impl Fn(&mut Args<'_, '_>),
    ) {
        self.named_event(writer, timestamp_ns, Type::INSTANT, site, ids, args);
    }

    /// A value on the track of a counter.
    pub(super) fn counter(
        &mut self,
        writer: &mut TraceWriter,
        timestamp_ns: u64,
        site: &CallSite,
        ids: &CallSiteIds,
        value: CounterValue,
    ) {
        // The descriptor comes in a packet before the event: a packet holds one thing.
        if self.started_at != Some(self.mark(writer)) {
            self.start(writer);
        }
        if self.defined.insert(NameKind::CounterTrack, ids.counter) {
            writer.trace_packet(|packet| {
                packet.track_descriptor(|track| {
                    track::describe_counter(site.name, ids.counter_track, track);
                });
            });
        }
        self.event(writer, timestamp_ns, |packet, _| {
            packet.track_event(|event| {
                event.set_type(Type::COUNTER);
                event.set_track_uuid(ids.counter_track);
                match value {
                    CounterValue::Int(value) => event.set_counter_value(value),
                    CounterValue::Double(value) => event.set_double_counter_value(value),
                };
            });
        });
    }

    #[inline]
    fn named_event(
        &mut self,
        writer: &mut TraceWriter,
        timestamp_ns: u64,
        event_type: Type,
        site: &CallSite,
        ids: &CallSiteIds,
        args: &impl Fn(&mut Args<'_, '_>),
    ) {
        self.event(writer, timestamp_ns, |packet, defined| {
            packet.track_event(|event: &mut TrackEvent<'_>| {
                event.set_type(event_type);
                event.add_category_iids(u64::from(ids.category));
                event.set_name_iid(u64::from(ids.event));
                args(&mut Args::new(event, &ids.args));
            });
            define_names(packet, defined, site, ids);
        });
    }

    /// Writes the packet of an event, and starts the sequence before it where needed.
    #[inline]
    fn event(
        &mut self,
        writer: &mut TraceWriter,
        timestamp_ns: u64,
        write: impl FnOnce(&mut TracePacket<'_>, &mut DefinedNames),
    ) {
        if self.started_at != Some(self.mark(writer)) {
            self.start(writer);
        }
        let distance_ns = timestamp_ns.checked_sub(self.last_timestamp_ns);
        let defined = &mut self.defined;
        writer.trace_packet(|packet| {
            match distance_ns {
                Some(distance_ns) => {
                    packet.set_timestamp(distance_ns);
                }
                // The time was taken before the sequence started.
                None => {
                    packet.set_timestamp(timestamp_ns);
                    packet.set_timestamp_clock_id(BUILTIN_CLOCK_BOOTTIME);
                }
            }
            packet.set_sequence_flags(SequenceFlags::SEQ_NEEDS_INCREMENTAL_STATE.0 as u32);
            write(packet, defined);
        });
        if distance_ns.is_some() {
            self.last_timestamp_ns = timestamp_ns;
        }
    }

    #[inline]
    fn mark(&self, writer: &TraceWriter) -> Mark {
        Mark {
            losses: writer.loss_mark(),
            quarters: self.progress.quarters(),
        }
    }

    #[cold]
    #[inline(never)]
    fn start(&mut self, writer: &mut TraceWriter) {
        self.started_at = Some(self.mark(writer));
        self.defined.clear();
        self.last_timestamp_ns = clock::now_ns();
        let now_ns = self.last_timestamp_ns;
        let tid = track::current_tid();
        writer.trace_packet(|packet| {
            packet.set_timestamp(now_ns);
            packet.set_timestamp_clock_id(BUILTIN_CLOCK_BOOTTIME);
            packet.set_sequence_flags(SequenceFlags::SEQ_INCREMENTAL_STATE_CLEARED.0 as u32);
            packet.trace_packet_defaults(|defaults| {
                defaults.set_timestamp_clock_id(INCREMENTAL_CLOCK_ID);
                defaults.track_event_defaults(|defaults| {
                    defaults.set_track_uuid(track::thread_uuid(tid));
                });
            });
            packet.clock_snapshot(|snapshot| {
                snapshot.add_clocks(|clock| {
                    clock.set_clock_id(BUILTIN_CLOCK_BOOTTIME);
                    clock.set_timestamp(now_ns);
                });
                snapshot.add_clocks(|clock| {
                    clock.set_clock_id(INCREMENTAL_CLOCK_ID);
                    clock.set_timestamp(now_ns);
                    clock.set_is_incremental(true);
                });
            });
        });
        writer.trace_packet(|packet| packet.track_descriptor(track::describe_process));
        writer.trace_packet(|packet| {
            packet.track_descriptor(|track| track::describe_thread(tid, track));
        });
    }
}

/// Defines the names of a call site that the sequence has not used before.
#[inline]
fn define_names(
    packet: &mut TracePacket<'_>,
    defined: &mut DefinedNames,
    site: &CallSite,
    ids: &CallSiteIds,
) {
    let category_is_new = defined.insert(NameKind::Category, ids.category);
    let event_is_new = defined.insert(NameKind::Event, ids.event);
    // No short cut: every argument has to be looked at.
    let arg_is_new = ids
        .args
        .iter()
        .fold(false, |any, &id| any | !defined.contains(NameKind::Arg, id));
    if category_is_new | event_is_new | arg_is_new {
        write_definitions(packet, defined, site, ids, category_is_new, event_is_new);
    }
}

#[cold]
#[inline(never)]
fn write_definitions(
    packet: &mut TracePacket<'_>,
    defined: &mut DefinedNames,
    site: &CallSite,
    ids: &CallSiteIds,
    category_is_new: bool,
    event_is_new: bool,
) {
    packet.interned_data(|interned| {
        if category_is_new {
            interned.add_event_categories(|category| {
                category.set_iid(u64::from(ids.category));
                category.set_name(site.category);
            });
        }
        if event_is_new {
            interned.add_event_names(|event| {
                event.set_iid(u64::from(ids.event));
                event.set_name(site.name);
            });
        }
        for (&id, name) in ids.args.iter().zip(site.arg_names) {
            if defined.insert(NameKind::Arg, id) {
                interned.add_debug_annotation_names(|arg| {
                    arg.set_iid(u64::from(id));
                    arg.set_name(name);
                });
            }
        }
    });
}
