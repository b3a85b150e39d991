//! Recording into segments: files of limited size and duration, each a trace of its own, in a folder
//! under a budget.
//!
//! `service/segments.rs` says how a trace is cut. This module decides when, and looks after the
//! files.

mod settings; // what the application chooses
mod segment; // a complete segment, as the application gets it
mod leftovers; // what an earlier process has left in the folder
mod hook; // the thread that hands segments to the application
mod files; // the folder, and the files that are open
mod rotation; // when another segment begins
#[cfg(test)]
mod tests;

pub(super) use files::SegmentFiles;
pub(super) use rotation::Rotation;
pub use segment::Segment;
pub use settings::Segments;
