//! Folders of trace files under a budget, for segments and for the snapshots of flight recorders.

mod names; // the names of files
mod budget; // which files are removed

pub(crate) use budget::{FolderError, FoundFile, Held, Limits, Room, TraceFolder, partial_path};
pub(crate) use names::FileNames;
