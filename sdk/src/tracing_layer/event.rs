//! Records events of `tracing` as instants.

use tracing_core::Event;

use super::fields::with_scratch;
use super::log_record;
use super::site::{Site, site_of};
use tracezero_core::clock;
use tracezero_track_event::{CallSite, Encoded, EventTime, Placement};

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
        let (call_site, placement) = name_of(site, &scratch.name);
        let parts = Encoded::new(&scratch.args, &[]);
        call_site.instant_encoded(slots, time, &placement, parts);
    });
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
