//! Events of call sites that another library has, with arguments that were encoded before.
//!
//! The library's own callbacks hand out values one at a time, and may run code of the application
//! for each. So they are encoded before the thread's writers are touched, once for all sessions.

use protozero::HeapBuffered;

use super::TRACK_EVENT;
use super::arg::ArgValue;
use super::begun::Begun;
use super::call_site::CallSite;
use super::event::{EventParts, EventWriter};
use super::flow::Flow;
use super::placement::{EventTime, Placement};
use super::short_event::ShortEvent;
use super::track::Track;
use crate::producer::{self, Instance};
use crate::protos::TrackEvent;
use crate::protos::track_event::Type;

/// Arguments as fields of an event. Their names are numbers, which all sequences agree on.
#[derive(Debug, Default)]
pub(crate) struct EncodedArgs(HeapBuffered<TrackEvent<'static>>);

impl EncodedArgs {
    /// Forgets what there was. Memory is kept.
    pub(crate) fn clear(&mut self) {
        self.0.reset();
    }

    /// Adds an argument of `site`, by its position among the names.
    #[inline]
    pub(crate) fn add(
        &mut self,
        site: &CallSite,
        position: usize,
        value: &(impl ArgValue + ?Sized),
    ) {
        if let Some(&name_iid) = site.ids().args.get(position) {
            value.write_named(name_iid, &mut self.0.message());
        }
    }

    /// Appends the bytes to `out`.
    #[inline]
    pub(crate) fn append_to(&mut self, out: &mut Vec<u8>) {
        for piece in self.0.slices() {
            out.extend_from_slice(piece);
        }
    }
}

/// What such an event carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoded<'a> {
    args: &'a [u8],
    /// Flows that pass through it.
    flows: &'a [Flow],
    /// The flow that ends with it.
    last_flow: Option<Flow>,
}

impl<'a> Encoded<'a> {
    /// Arguments, as [`EncodedArgs`] made them, and flows that pass through the event.
    #[inline]
    pub(crate) const fn new(args: &'a [u8], flows: &'a [Flow]) -> Self {
        Self {
            args,
            flows,
            last_flow: None,
        }
    }

    /// The flow ends with the event.
    pub(crate) const fn ending(mut self, flow: Option<Flow>) -> Self {
        self.last_flow = flow;
        self
    }

    #[inline]
    const fn is_empty(&self) -> bool {
        self.args.is_empty() && self.flows.is_empty() && self.last_flow.is_none()
    }
}

impl EventParts for Encoded<'_> {
    const IS_EMPTY: bool = false;

    #[inline]
    fn write_all(&self, event: &mut EventWriter<'_, '_>) {
        for flow in self.flows {
            event.event.add_flow_ids(flow.id());
        }
        if let Some(flow) = self.last_flow {
            event.event.add_terminating_flow_ids(flow.id());
        }
        // Without names the session wants no arguments.
        if !event.name_iids.is_empty() {
            event.event.as_message_mut().append_raw(self.args);
        }
    }

    #[inline(always)]
    fn are_short(&self) -> bool {
        self.flows.is_empty() && self.last_flow.is_none()
    }

    #[inline(always)]
    fn put_all(&self, event: &mut ShortEvent<'_, '_>) -> bool {
        event.put_encoded_args(self.args)
    }
}

impl CallSite {
    /// Begins a slice without arguments in the sessions of `begun`.
    #[inline]
    pub(crate) fn begin_plain(&'static self, begun: Begun, time: EventTime) {
        begun.begin(|instance| {
            let (writer, events) = (&mut instance.writer, &mut instance.events);
            let placement = Placement::new();
            events.event(writer, time, self, Type::SLICE_BEGIN, &placement, &());
        });
    }

    /// Begins a slice in the sessions of `begun`.
    #[inline]
    pub(crate) fn begin_encoded(
        &'static self,
        begun: Begun,
        time: EventTime,
        placement: &Placement<'_>,
        parts: Encoded<'_>,
    ) {
        begun.begin(|instance| {
            self.write_encoded(instance, time, Type::SLICE_BEGIN, placement, parts);
        });
    }

    /// Begins a slice in one session.
    pub(crate) fn begin_encoded_in(
        &'static self,
        instance: &mut Instance,
        time: EventTime,
        placement: &Placement<'_>,
        parts: Encoded<'_>,
    ) {
        self.write_encoded(instance, time, Type::SLICE_BEGIN, placement, parts);
    }

    /// Ends the innermost slice on a track, that of the thread for `None`, where it began.
    #[inline]
    pub(crate) fn end_encoded(
        &'static self,
        begun: Begun,
        time: EventTime,
        track: Option<&Track>,
        parts: Encoded<'_>,
    ) {
        begun.each(begun.active_slots(), |instance| {
            if parts.is_empty() {
                instance.events.slice_end(&mut instance.writer, time, track);
                return;
            }
            let placement = track.map_or(Placement::new(), |track| Placement::new().on(track));
            self.write_encoded(instance, time, Type::SLICE_END, &placement, parts);
        });
    }

    /// Records an instant in the sessions of `slots`.
    #[inline]
    pub(crate) fn instant_encoded(
        &'static self,
        slots: u32,
        time: EventTime,
        placement: &Placement<'_>,
        parts: Encoded<'_>,
    ) {
        producer::with_instances(&TRACK_EVENT, slots, |instance| {
            self.write_encoded(instance, time, Type::INSTANT, placement, parts);
        });
    }

    #[inline]
    fn write_encoded(
        &'static self,
        instance: &mut Instance,
        time: EventTime,
        event_type: Type,
        placement: &Placement<'_>,
        parts: Encoded<'_>,
    ) {
        let (writer, events) = (&mut instance.writer, &mut instance.events);
        events.event(writer, time, self, event_type, placement, &parts);
    }
}
