//! Reads traces of this SDK, and track events of any other producer.
//!
//! [`PacketReader`] splits a file into packets. [`TraceReader`] decodes them: it yields the events
//! of a trace with names, tracks and times resolved, and reports losses and damage. [`InTimeOrder`]
//! sorts events by time, [`Slices`] pairs begins with ends, and [`check()`] checks a trace against
//! the rules that tools rely on.
//!
//! Any input is safe to read, whatever its bytes are: reading always ends. Memory is bounded by
//! constants, independent of the length of the trace.
//!
//! ```
//! use tracezero::reader::{EventKind, Record, TraceReader};
//! use tracezero::{InMemorySession, counter};
//!
//! let session = InMemorySession::start()?;
//! counter!("queue", "jobs", 7);
//! let (trace, _) = session.finish();
//!
//! let mut reader = TraceReader::new(&trace[..]);
//! let mut last = None;
//! while let Some(record) = reader.next()? {
//!     match record {
//!         Record::Event(event) => {
//!             if let EventKind::Counter(value) = event.head.kind {
//!                 last = Some((event.head.track, value));
//!             }
//!         }
//!         Record::Damage(damage) => println!("damaged: {damage}"),
//!         _ => {}
//!     }
//! }
//! let (track, value) = last.expect("a value");
//! assert_eq!(reader.tracks().title(track, reader.names()), "jobs");
//! assert_eq!(value, tracezero::CounterValue::Int(7));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// With this attribute, docs.rs shows which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

// `sdk/tests/reader_hostile.rs`, the fuzz target `reader` and `ci/tool.sh` check that reading
// always ends and needs little memory.

// Errors.
mod damage; // bytes that are not a packet
mod error; // errors that end the reading
mod anomaly; // faults found while a packet is decoded, for `check`
// Bytes to packets.
mod fields; // field numbers of packets
mod place; // the position of a packet
mod stream; // a window that moves over the file
mod plausible; // tests whether bytes look like a packet
mod framer; // splits a stream into packets, and finds the next packet after damage
mod bundle; // compressed packets
mod packets; // all packets of a file
mod cursor; // fast decoding of common fields
mod packet; // the fields of a packet beside its payload
mod full_states; // changes as full states
// Packets to events.
mod names; // the names of the trace
mod iid_table; // interned ids of a sequence
mod location; // places in the source code
mod interning; // definitions of interned ids
mod clocks; // converts timestamps to nanoseconds of the trace clock
mod machines; // converts times of other machines to the trace clock
mod tracks; // tracks and their descriptors
mod identity; // where a trace comes from
mod recordings; // tells whether a recording is complete
mod sequence; // the incremental state of a sequence
mod track_event; // field numbers of older events
mod decode_event; // decodes track events
mod args; // arguments of events
mod event; // an event
mod skip_reason; // reasons why packets cannot be decoded
mod record; // the items that a reader yields
mod trace_state; // the state that packets so far have built up, and how the next is decoded with it
mod losses; // adds up losses
mod trace_reader; // the reader that joins all of the above
// Events to slices.
mod in_order; // sorts values that come in nearly the order of their times
mod time_order; // sorts events of tracks that several threads write to
mod slices; // pairs begins with ends
// A trace as text.
mod value; // owned values of arguments
mod first_polls; // finds first polls that lack the flow of their future
mod outline; // prints a trace without details that differ between two runs
// Rules that a trace must keep.
mod check;
// The kernel's half of a trace.
#[cfg(feature = "kernel")]
#[cfg_attr(docsrs, doc(cfg(feature = "kernel")))]
pub mod kernel; // what threads did, and what they waited for

pub use args::{ARGS_MAX_DEPTH, Arg, ArgValue, Args};
pub use check::{CheckSummary, Checker, FINDINGS_PER_RULE, Finding, Level, Rule, check};
pub use clocks::BOOTTIME_CLOCK_ID;
pub use damage::{Damage, DamageKind};
pub use error::{FileKind, ReadError};
pub use event::{Correlation, Event, EventHead, EventKind, LogLine};
#[doc(hidden)]
pub use first_polls::FreshSpans;
pub use full_states::FullStates;
pub use identity::{TraceIdentities, TraceIdentity};
pub use location::Location;
pub use losses::{BufferLosses, Losses, SequenceLosses};
pub use names::{NameId, NameTable};
pub use outline::Outline;
pub use packet::{Packet, PacketHead, Payload};
pub use packets::{PacketItem, PacketReader, RawPacket};
pub use place::PacketPlace;
pub use record::{Loss, OtherPacket, Record, Skipped, TrackRecord};
pub use recordings::RecordingEnd;
pub use skip_reason::SkipReason;
pub use slices::{OpenSlice, SLICES_MAX_DEPTH, Slice, SliceCounts, Slices};
pub use time_order::InTimeOrder;
pub use trace_reader::TraceReader;
pub use tracezero_core::attributes::TraceAttributeValue;
pub use tracezero_core::counter_value::CounterValue;
pub use tracks::{Counter, Track, TrackId, TrackIter, TrackKind, TrackTable};
pub use value::Value;
#[doc(hidden)]
pub use value::find as find_value;
