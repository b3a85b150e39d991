//! What must be connected before the first session of the process.

use crate::library_events;
use crate::open_slices;
use crate::slice_list::OPEN_SLICES;

/// Connects the parts of this package, and libraries that depend on `tracezero-events`. Further calls
/// have no effect.
pub fn connect() {
    OPEN_SLICES.get_or_init(|| open_slices::each_in_session);
    library_events::connect_libraries();
}
