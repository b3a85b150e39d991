//! Track events: what the macros record.
//!
//! Every call site owns a `static` with its enablement and the ids of its names; every thread has
//! a sequence of its own per session. Encoding: section "TrackEvent" of the trace format, with
//! interned names and timestamps as distances.

mod macros; // span!, instant!, counter!
mod category_macros; // categories!, enabled!

mod category; // what declarations say about categories
mod category_filter; // which of them an instance records
mod options; // how it writes its events
mod event_config; // the configuration that says both
mod arg; // values of arguments
mod call_site; // the static behind each use of a macro
mod interning; // names as numbers, and who has been told
mod sequence; // events of one thread in one session, as packets
mod span; // the guard that ends a span
mod track; // where events are drawn

pub use arg::{ArgValue, Args, CounterValue};
pub use call_site::{CallSite, no_args};
pub(crate) use category::DeclaredCategories;
pub use category::{Category, CategorySwitch};
pub(crate) use event_config::EventConfig;
pub(crate) use options::EventOptions;
pub(crate) use sequence::EventSequence;
pub use span::Span;

use crate::producer::DataSourceState;

/// The data source that the macros write to; configurations call it `track_event`.
pub(crate) static TRACK_EVENT: DataSourceState = DataSourceState::new("track_event");
