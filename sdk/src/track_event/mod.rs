//! Track events: what the macros record.
//!
//! Every call site owns a `static` with its enablement and the ids of its names; every thread has
//! a sequence of its own per session. Encoding: section "TrackEvent" of the trace format, with
//! interned names and timestamps as distances.

mod macros; // span!, begin!, end!, instant!, counter!
mod macro_parts; // how their arguments are taken apart
mod category_macros; // categories!, enabled!

mod arg; // values of arguments
mod event; // what an event carries
mod flow; // arrows between events
mod placement; // name, time and track, where they are given
mod span; // the guards that end spans
mod async_span; // spans of futures: their lives and polls
mod future; // futures that have such a span
mod begun; // who has seen the begin of a slice
mod recorded; // what guards keep, unless the feature `off` says that they are nothing
mod track; // where events are drawn
mod counter_track; // where values are drawn
mod process_track; // what is said of this process and its threads

mod category; // what declarations say about categories
mod event_schema; // fields beside the published ones
mod category_filter; // which of them an instance records
mod options; // how it writes its events
mod event_config; // the configuration that says both

mod call_site; // the static behind each use of a macro
mod identity; // numbers of tracks and flows
mod interning; // names as numbers, and who has been told
mod encoding; // events that are mostly constants
mod short_arg; // arguments that fit into a register
mod short_event; // events that are put together in one go
mod unusual_form; // other timestamps, and thread times
mod sequence; // events of one thread in one session, as packets
#[cfg(feature = "tracing")]
mod encoded; // events of another library's call sites, with arguments that are encoded already

pub use arg::{ArgValue, AsDebug, AsDisplay, CounterValue, Dict, DictWriter, debug, dict, display};
pub use async_span::AsyncSpan;
pub use call_site::CallSite;
pub(crate) use category::DeclaredCategories;
pub use category::{Category, CategorySwitch};
pub use counter_track::{CounterTrack, Unit};
pub use event::{Arg, EndOf, EventPart, EventParts, EventWriter, Fields, Through};
pub(crate) use event_config::EventConfig;
pub use event_schema::declare_event_schema;
pub(crate) use event_schema::declared_event_schemas;
pub use flow::Flow;
pub use future::{TraceFuture, Traced, result_of};
pub(crate) use options::EventOptions;
pub use placement::Placement;
pub(crate) use sequence::EventSequence;
pub use span::{Span, TrackSpan};
pub use track::{ChildOrder, Track};
#[cfg(feature = "tracing")]
pub(crate) use {
    begun::Begun,
    call_site::Origin,
    encoded::{Encoded, EncodedArgs},
    placement::EventTime,
};

use crate::producer::DataSourceState;

/// Whether the macros record. With the feature `off` they are nothing: what depends on this
/// constant is not even compiled.
pub const ENABLED: bool = !cfg!(feature = "off");

/// The data source that the macros write to; configurations call it `track_event`.
pub(crate) static TRACK_EVENT: DataSourceState = DataSourceState::new("track_event");
