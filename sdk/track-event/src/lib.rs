//! Track events: what the macros record.
//!
//! Every call site owns a `static` with its enablement and the ids of its names; every thread has
//! a sequence of its own per session. Encoding: section "TrackEvent" of the trace format, with
//! interned names and timestamps as distances.

mod macros; // span!, begin!, end!, instant!, counter!
mod macro_parts; // how their arguments are taken apart
mod category_macros; // categories!, enabled!

// The contents of events.
mod arg; // values of arguments
mod arg_limit; // how large they may be
mod altered; // how many values are not in traces as they were given
mod event; // what an event carries
mod flow; // arrows between events
mod identity; // numbers of tracks and flows
mod track; // where events are drawn
mod quantity; // units of counters
mod counter_track; // where values are drawn
mod process_track; // what is said of this process and its threads
mod placement; // name, time and track, where they are given
// Events of one thread in one session, as packets.
mod call_site_names; // names of call sites, and their numbers
mod interning; // names as numbers, and who has been told
mod encoding; // events that are mostly constants
mod scalar; // values that one field of an annotation holds
mod short_event; // arguments of an event that is put together in one go
mod event_packet; // its packet
mod unusual_form; // other timestamps, and thread times
mod sequence; // all of them
// The choice of a session.
mod category_filter; // which categories
mod options; // how events are written
mod event_config; // the configuration that says both
mod instance; // track events in one session
mod declared_categories; // what declarations say about categories
mod event_schema; // fields beside the published ones
mod data_source; // what is on while a session records a category
mod category; // declarations, and switches that hang on categories
// The trace points of macros.
mod call_site; // the static behind each use of a macro
mod begun; // who has seen the begin of a slice
mod pieces; // slices that end while others are open inside
mod open_slices; // the slices that are open on the thread's track
mod track_slices; // those of guards on other tracks
mod slice_end; // an end, with arguments or without
mod recorded; // what guards keep, unless `cfg(tracezero_off)` says that they are nothing
mod span; // the guards that end spans
mod call_site_events; // the events of call sites
mod async_span; // spans of futures: their lives and polls
mod future; // futures that have such a span
mod encoded; // events of another library's call sites, with arguments that are encoded already
mod library_events; // events of libraries that depend on `tracezero-events`

pub use altered::AlteredCounts;
pub use altered::note_cut_arg;
pub use arg::{ArgValue, AsDebug, AsDisplay, Dict, DictWriter, debug, dict, display};
pub use arg_limit::ARG_MAX_BYTES;
pub use async_span::{AsyncSpan, EndingSpan};
pub use call_site::CallSite;
pub use category::{Category, CategorySwitch};
pub use category_filter::CategoryFilter;
pub use counter_track::CounterTrack;
pub use data_source::{TRACK_EVENT, declare_event_schema, known_categories};
pub use event::{Arg, EndOf, EventPart, EventParts, EventWriter, Fields, Through};
pub use event_config::EventConfig;
pub use flow::Flow;
pub use future::{TraceFuture, Traced, TracedWithEnd};
pub use library_events::connect_libraries;
pub use open_slices::OPEN_SPANS_MAX;
pub use placement::Placement;
pub use quantity::Unit;
pub use span::{Span, TrackSpan};
pub use track::{ChildOrder, Track};
pub use {
    begun::Begun,
    call_site_names::Origin,
    encoded::{Encoded, EncodedArgs},
    open_slices::SlicePosition,
    placement::EventTime,
};

/// Functions that the attribute `trace` expands to.
#[doc(hidden)]
pub mod __private {
    pub use crate::future::{call_once, result_of};
}

pub use tracezero_core::counter_value::CounterValue;
pub use tracezero_producer::ENABLED;
