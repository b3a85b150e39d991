//! Track events: the slices, instants and counter values that the macros record.
//!
//! Each use of a macro makes a `static`, its call site, which knows the sessions that record it and
//! the interning ids of its names. Each thread writes one packet sequence per session. Names are
//! interned, and timestamps are distances from the event before; section "TrackEvent" of the trace
//! format describes the encoding.

mod macros; // span!, async_span!, instant!, begin!, end!, counter!
mod macro_parts; // parses the arguments of these macros
mod category_macros; // categories!, enabled!

// The contents of events.
mod arg; // values of arguments: ArgValue
mod arg_limit; // cuts long arguments
mod altered; // counts values that were cut, rounded or left out
mod event; // the parts of an event: arguments, flows, fields
mod flow; // arrows between events
mod correlation; // ids of events that belong together
mod traceparent; // the context of a request over several services
mod identity; // ids of tracks and flows
mod track; // the timelines on which events are drawn
mod quantity; // units of counters
mod counter_track; // the tracks of counters
mod process_track; // descriptors of this process and its threads
mod placement; // an event's name, time and track, if the macro is given them
// The events of one thread in one session, encoded as packets.
mod call_site_names; // the names of a call site, and their interning ids
mod interning; // interning ids of names, and which ids a sequence has defined
mod encoding; // the constant part of a call site's events, encoded once
mod scalar; // arguments whose value fits into one field
mod short_event; // writes such arguments straight into the packet
mod event_packet; // encodes the whole packet of a short event in one go
mod unusual_form; // options: other timestamps, thread times, filtered names
mod sequence; // writes all events of the thread's sequence
mod slice_list; // lists the open slices of a thread, for readers of a ring
mod track_list; // lists those of tracks that all threads may write to
// The choices of a session.
mod category_filter; // which categories it records
mod options; // how its events are encoded
mod event_config; // decodes both from the configuration
mod instance; // the track events data source in one session
mod declared_categories; // descriptions and tags of declared categories
mod event_schema; // schemas of extension fields
mod data_source; // the data source, and the switches of call sites
mod category; // declarations of categories, and the switch behind enabled!
// Recording.
mod call_site; // the static behind each use of a macro
mod begin_sessions; // the sessions that have seen the begin of a slice
mod pieces; // cuts slices whose outer slice ends first
mod open_slices; // the stack of open slices on the thread's track
mod slice_details; // data of open slices that most do not need
mod track_slices; // the open slices on other tracks
mod async_slices; // the open slices of futures, for lists in rings
mod slice_end; // writes the end of a slice, with or without arguments
mod guard_state; // the state of a guard; empty under `cfg(tracezero_off)`
mod span; // the guards that end spans
mod call_site_events; // the methods of call sites that record events
mod async_span; // spans of futures
mod future; // futures with a span
mod encoded; // events whose arguments were encoded earlier
mod connect; // connects the parts below with each other, and with libraries
#[cfg(feature = "system")]
mod machine_trace; // connects to a daemon
mod library_events; // events of libraries that depend on `tracezero-events`

pub use altered::AlteredCounts;
pub use altered::note_cut_arg;
pub use arg::{ArgValue, AsDebug, AsDisplay, Dict, DictWriter, debug, dict, display};
pub use arg_limit::ARG_MAX_BYTES;
pub use async_span::{AsyncSpan, EndingSpan};
pub use call_site::CallSite;
pub use category::{Category, CategorySwitch};
pub use category_filter::CategoryFilter;
pub use connect::connect;
pub use correlation::CorrelationId;
pub use counter_track::CounterTrack;
pub use data_source::{TRACK_EVENT, declare_event_schema, known_categories};
pub use event::{Arg, Correlated, EndOf, EventPart, EventParts, EventWriter, Fields, Through};
pub use event_config::EventConfig;
pub use flow::Flow;
pub use future::{TraceFuture, Traced, TracedWithEnd};
pub use library_events::library_recorder;
#[cfg(feature = "system")]
pub use machine_trace::{connect_client, connect_if_asked};
pub use open_slices::OPEN_SPANS_MAX;
pub use placement::Placement;
pub use quantity::Unit;
pub use span::{Span, TrackSpan};
pub use traceparent::{Traceparent, TraceparentError};
pub use track::{ChildOrder, Track};
pub use {
    async_slices::OpenAsyncSlice,
    begin_sessions::BeginSessions,
    call_site_names::Origin,
    encoded::{Encoded, EncodedArgs, Links},
    open_slices::SlicePosition,
    placement::EventTime,
};

#[doc(hidden)]
pub use tracezero_events_core::__wrong_event;

/// Functions that the expansion of the attribute `trace` calls.
#[doc(hidden)]
pub mod __private {
    pub use crate::future::{call_once, result_of};
}

pub use tracezero_core::counter_value::CounterValue;
pub use tracezero_producer::ENABLED;
