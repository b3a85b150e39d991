//! Records events of `tracing` as instants.

use tracing_core::Event;

use super::fields::{Scratch, with_scratch};
use super::log_record;
use super::site::{Site, site_of};
use tracezero_core::clock;
use tracezero_track_event::{CallSite, Encoded, EventTime, Links, Placement, Traceparent};

/// Records an event.
#[inline(always)]
pub(super) fn record_event(event: &Event<'_>) {
    let Some(event_site) = site_of(event.metadata()) else {
        return;
    };
    let log_site = event_site
        .is_log
        .then(|| log_record::site_of(event))
        .flatten();
    let site = log_site.unwrap_or(event_site);
    let slots = site.call_site.active_slots();
    if slots == 0 {
        return;
    }
    let time = EventTime::Now(clock::event_now_ns());
    with_scratch(|scratch| {
        scratch.take(event_site, slots, |values| event.record(values));
        if !scratch.has_values {
            // All fields were counters.
            return;
        }
        scratch.add_level(site);
        if scratch.has_call() {
            let header = scratch.take_call().header;
            return record_with_header(site, slots, time, scratch, header);
        }
        let (call_site, placement) = name_of(site, &scratch.name);
        let parts = Encoded::new(&scratch.args, &[]);
        call_site.instant_encoded(slots, time, &placement, parts);
    });
}

/// Records an event with a field `traceparent`.
#[cold]
#[inline(never)]
fn record_with_header(
    site: &'static Site,
    slots: u32,
    time: EventTime,
    scratch: &Scratch,
    header: Option<Traceparent>,
) {
    let (call_site, placement) = name_of(site, &scratch.name);
    let parts = Encoded::new(&scratch.args, &[]);
    with_header(header, parts, |parts| {
        call_site.instant_encoded(slots, time, &placement, parts);
    });
}

/// Calls `write` with the contents of an event, to which the header of a call between services is added.
#[cold]
pub(super) fn with_header(
    header: Option<Traceparent>,
    parts: Encoded<'_>,
    write: impl FnOnce(Encoded<'_>),
) {
    let flow = header.map(Traceparent::flow);
    let links = Links {
        request: header,
        last_flow: None,
    };
    write(parts.through(flow.as_slice()).linked(&links));
}

/// Returns the call site and the placement of an event, which determine its name.
#[inline]
fn name_of<'a>(site: &'static Site, message: &'a str) -> (&'static CallSite, Placement<'a>) {
    if message.is_empty() {
        return (&site.call_site, Placement::new());
    }
    match site.with_message(message) {
        Some(call_site) => (call_site, Placement::new()),
        None => site.named(message),
    }
}
