//! Each way to break a trace is found by the checker: this, at its place, and nothing else.

#[path = "reader_damage/edit.rs"]
mod edit; // messages as lists of fields
#[path = "reader_damage/good_trace.rs"]
mod good_trace; // what is broken
#[path = "reader_damage/verdict.rs"]
mod verdict; // what the checker is to say

#[path = "reader_damage/clocks.rs"]
mod clocks;
#[path = "reader_damage/events.rs"]
mod events;
#[path = "reader_damage/framing.rs"]
mod framing;
#[path = "reader_damage/interning.rs"]
mod interning;
#[path = "reader_damage/sequences.rs"]
mod sequences;
#[path = "reader_damage/tracks.rs"]
mod tracks;
