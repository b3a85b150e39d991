//! Tests of the checker. Each test breaks a good trace in one way, and the checker must report
//! exactly this, at its place.

#[path = "reader_damage/edit.rs"]
mod edit; // messages that tests can edit
#[path = "reader_damage/good_trace.rs"]
mod good_trace; // the good trace that tests break
#[path = "reader_damage/verdict.rs"]
mod verdict; // assertions on the checker's findings

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
