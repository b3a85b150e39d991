//! Reads traces: those of this SDK, and track events of any other producer.
//!
//! [`PacketReader`] cuts a file into packets. [`TraceReader`] understands them: it yields the events
//! of a trace with names, tracks and times looked up, and says what was lost or is damaged. [`InTimeOrder`]
//! sorts events, [`Slices`] pairs begins and ends, and [`check()`] holds a trace against the rules that
//! tools rely on. All of them work on traces of any length.
//!
//! Reading ends whatever the bytes are. Constants limit how much memory it takes; the length of the trace
//! does not matter.
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
//!             if let EventKind::Counter(value) = event.kind {
//!                 last = Some((event.track, value));
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

// `sdk/tests/reader_hostile.rs`, the fuzz target `reader` and `ci/tool.sh` check that reading ends in little
// memory.

// What can be wrong.
mod damage; // bytes that are no packet
mod error; // what ends the reading
mod anomaly; // what is noticed while a packet is read
// Bytes to packets.
mod fields; // field numbers of packets
mod place; // where a packet is
mod stream; // a window that moves over the file
mod plausible; // what looks like a packet
mod framer; // packets in a stream, and the way back to them after damage
mod bundle; // compressed packets
mod packets; // all packets of a file
mod cursor; // encoded bytes, when speed counts
mod packet; // what a packet says beside its payload
// Packets to events.
mod names; // the names of the trace
mod iid_table; // ids of a sequence
mod location; // places in the source code
mod interning; // what the ids stand for
mod clocks; // timestamps to nanoseconds of the trace clock
mod tracks; // what tracks are
mod recordings; // whether the trace is whole
mod sequence; // what a sequence has said so far
mod track_event; // field numbers of older events
mod decode_event; // what an event says
mod args; // its arguments
mod event; // an event
mod skip_reason; // why packets cannot be understood
mod record; // all that there is in a trace
mod trace_state; // what packets so far have said, and how the next is read with it
mod trace_reader; // puts it together
// Events to slices.
mod in_order; // what comes in nearly the order of its times
mod time_order; // what several threads wrote to one track
mod slices; // begins and ends, paired
// A trace as a text.
mod value; // values of arguments, to be kept
mod first_polls; // futures of which nobody knew
mod outline; // without what differs between two runs
// Traces to what is wrong with them.
mod check;

pub use args::{ARGS_MAX_DEPTH, Arg, ArgValue, Args};
pub use check::{CheckSummary, FINDINGS_PER_RULE, Finding, Level, Rule, check};
pub use clocks::BOOTTIME_CLOCK_ID;
pub use damage::{Damage, DamageKind};
pub use error::{FileKind, ReadError};
pub use event::{Correlation, Event, EventHead, EventKind, LogLine};
#[doc(hidden)]
pub use first_polls::FreshSpans;
pub use location::Location;
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
pub use tracezero_core::counter_value::CounterValue;
pub use tracks::{Counter, Track, TrackId, TrackKind, TrackTable};
pub use value::Value;
#[doc(hidden)]
pub use value::find as find_value;
