//! What must be connected before the first session of the process.

use crate::async_slices;
use crate::library_events;
use crate::open_slices;
use crate::slice_list::{OPEN_SLICES, OpenSlicesSource};
use crate::track_slices;

/// Connects the parts of this package, and libraries that depend on `tracezero-events`. Further calls
/// have no effect.
pub fn connect() {
    OPEN_SLICES.get_or_init(|| OpenSlicesSource {
        of_thread: open_slices::each_in_session,
        of_tracks: |session, visitor| {
            async_slices::each_in_session(session, visitor);
            track_slices::each_in_session(session, visitor);
        },
    });
    library_events::connect_libraries();
}
