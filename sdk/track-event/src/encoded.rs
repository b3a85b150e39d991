//! Events of another library's call sites, with arguments that were encoded earlier.
//!
//! The other library's callbacks pass values one at a time, and may run code of the application for
//! each. So the values are encoded before the thread's writers are in use, once for all sessions.

use protozero::HeapBuffered;

use crate::arg::{ArgValue, write_arg};
use crate::begin_sessions::BeginSessions;
use crate::call_site::CallSite;
use crate::correlation::CorrelationId;
use crate::data_source::TRACK_EVENT;
use crate::event::{EventParts, EventWriter};
use crate::flow::Flow;
use crate::instance::EventThread;
use crate::open_slices::{self, SlicePosition};
use crate::placement::{EventTime, Placement};
use crate::short_event::ShortEvent;
use crate::slice_end::end_around;
use crate::traceparent::Traceparent;
use crate::track::Track;
use tracezero_core::protos::TrackEvent;
use tracezero_core::protos::track_event::Type;

/// Arguments, encoded as fields of an event. The ids of their names are the same in all sequences.
#[derive(Debug, Default)]
pub struct EncodedArgs(HeapBuffered<TrackEvent<'static>>);

impl EncodedArgs {
    /// Removes all arguments, and keeps the memory.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Adds an argument of `site`; `position` is the index of its name.
    #[inline]
    pub fn add(&mut self, site: &CallSite, position: usize, value: &(impl ArgValue + ?Sized)) {
        if let Some(&name_iid) = site.names().ids().args.get(position) {
            write_arg(value, name_iid, &mut self.0.message());
        }
    }

    /// Appends the encoded bytes to `out`.
    #[inline]
    pub fn append_to(&mut self, out: &mut Vec<u8>) {
        for piece in self.0.slices() {
            out.extend_from_slice(piece);
        }
    }
}

/// The contents of an event: encoded arguments, and flows.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'a> {
    args: &'a [u8],
    /// The flows that pass through the event.
    flows: &'a [Flow],
    /// `None` if all of them are `None`.
    links: Option<&'a Links>,
}

/// What few events have: how they belong to others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Links {
    /// The flow that ends at the event.
    pub last_flow: Option<Flow>,
    /// The request that the event belongs to: the id of its trace becomes the correlation id.
    pub request: Option<Traceparent>,
}

impl<'a> Encoded<'a> {
    /// Creates the contents from the bytes of [`EncodedArgs`] and the flows that pass through the
    /// event.
    #[inline]
    #[must_use]
    pub const fn new(args: &'a [u8], flows: &'a [Flow]) -> Self {
        Self {
            args,
            flows,
            links: None,
        }
    }

    /// Sets the flows that pass through the event.
    #[must_use]
    pub const fn through(mut self, flows: &'a [Flow]) -> Self {
        self.flows = flows;
        self
    }

    /// Adds links.
    #[inline]
    #[must_use]
    pub const fn linked(mut self, links: &'a Links) -> Self {
        if links.last_flow.is_some() || links.request.is_some() {
            self.links = Some(links);
        }
        self
    }

    #[inline]
    const fn is_empty(&self) -> bool {
        self.args.is_empty() && self.flows.is_empty() && self.links.is_none()
    }
}

impl EventParts for Encoded<'_> {
    const IS_EMPTY: bool = false;

    #[inline]
    fn write_all(&self, event: &mut EventWriter<'_, '_>) {
        for flow in self.flows {
            event.event.add_flow_ids(flow.id());
        }
        if let Some(links) = self.links {
            links.write(event.event);
        }
        // If there are no names, the session filters arguments out.
        if !event.name_iids.is_empty() {
            event.event.as_message_mut().append_raw(self.args);
        }
    }

    #[inline(always)]
    fn are_short(&self) -> bool {
        self.flows.is_empty() && self.links.is_none()
    }

    #[inline(always)]
    fn put_all(&self, event: &mut ShortEvent<'_, '_>) -> bool {
        event.put_encoded_args(self.args)
    }
}

impl Links {
    #[cold]
    fn write(&self, event: &mut TrackEvent<'_>) {
        if let Some(flow) = self.last_flow {
            event.add_terminating_flow_ids(flow.id());
        }
        if let Some(request) = &self.request {
            request.write(event);
        }
    }
}

impl CallSite {
    /// Begins a slice without arguments on the current thread's track, in the sessions of `begun`.
    /// Returns `None` if too many slices are open.
    #[inline]
    pub fn begin_plain(
        &'static self,
        begun: BeginSessions,
        time: EventTime,
    ) -> Option<SlicePosition> {
        let position = open_slices::push(begun, self, time)?;
        begun.begin(|instance| {
            let (writer, events) = (&mut instance.writer, &mut instance.local);
            let placement = Placement::USUAL;
            events.event(
                writer,
                time,
                self.names(),
                Type::SLICE_BEGIN,
                placement,
                &(),
            );
        });
        Some(position)
    }

    /// Begins a slice on the current thread's track, in the sessions of `begun`. Returns `None` if
    /// too many slices are open. If the slice is cut, its further pieces are part of `flow`.
    #[inline]
    pub fn begin_encoded(
        &'static self,
        begun: BeginSessions,
        time: EventTime,
        placement: &Placement<'_>,
        parts: Encoded<'_>,
        flow: Option<Flow>,
    ) -> Option<SlicePosition> {
        let name = placement.name.unwrap_or_default();
        let position = open_slices::push_with(begun, self, time, name, flow)?;
        begun.begin(|instance| {
            self.write_encoded(instance, time, Type::SLICE_BEGIN, placement, parts);
        });
        Some(position)
    }

    /// Begins a slice in one session.
    pub fn begin_encoded_in(
        &'static self,
        instance: &mut EventThread,
        time: EventTime,
        placement: &Placement<'_>,
        parts: Encoded<'_>,
    ) {
        self.write_encoded(instance, time, Type::SLICE_BEGIN, placement, parts);
    }

    /// Ends a slice on the current thread's track, in the sessions in which it began.
    #[inline]
    pub fn end_slice(&'static self, position: SlicePosition, time: EventTime, parts: Encoded<'_>) {
        let end = |instance: &mut EventThread| {
            if parts.is_empty() {
                let (writer, events) = (&mut instance.writer, &mut instance.local);
                events.slice_end(writer, time);
            } else {
                let placement = Placement::USUAL;
                self.write_encoded(instance, time, Type::SLICE_END, placement, parts);
            }
        };
        let Some(words) = open_slices::pop(position) else {
            return end_around(position, time, end);
        };
        let [slots, _] = words;
        let slots = TRACK_EVENT.active_of(slots as u32);
        if slots != 0 {
            BeginSessions::each_of_words(words, slots, end);
        }
    }

    /// Ends the innermost slice on `track`, in the sessions of `begun`.
    #[inline]
    pub fn end_encoded(
        &'static self,
        begun: BeginSessions,
        time: EventTime,
        track: &Track,
        parts: Encoded<'_>,
    ) {
        let placement = Placement::new().on(track);
        begun.each(begun.active_slots(), |instance| {
            self.write_encoded(instance, time, Type::SLICE_END, &placement, parts);
        });
    }

    /// Records an instant in the sessions whose bits are set in `slots`; see
    /// [`active_slots`](Self::active_slots).
    #[inline]
    pub fn instant_encoded(
        &'static self,
        slots: u32,
        time: EventTime,
        placement: &Placement<'_>,
        parts: Encoded<'_>,
    ) {
        TRACK_EVENT.trace(slots, |instance| {
            self.write_encoded(instance, time, Type::INSTANT, placement, parts);
        });
    }

    #[inline]
    fn write_encoded(
        &'static self,
        instance: &mut EventThread,
        time: EventTime,
        event_type: Type,
        placement: &Placement<'_>,
        parts: Encoded<'_>,
    ) {
        let (writer, events) = (&mut instance.writer, &mut instance.local);
        events.event(writer, time, self.names(), event_type, placement, &parts);
    }
}
