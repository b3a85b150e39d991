//! What records events.

use std::fmt;

use crate::call_site::CallSite;
use crate::event::Event;
use crate::value::Number;

/// Records the events of all libraries, as far as it wants them.
///
/// Its methods may be called by any thread at any time, also by trace points in an allocator, while another
/// call on the same thread has not returned.
pub trait Recorder: Sync {
    /// Returns what records the events of a call site. The call site is off until `switch` turns it on.
    ///
    /// `None` makes the next event of the call site ask again. Two threads that reach the call site at the same
    /// time may both ask; one of the answers is used then.
    fn recorder_of(
        &'static self,
        site: &'static CallSite,
        switch: Switch,
    ) -> Option<&'static dyn SiteRecorder>;
}

/// Records the events of one call site.
pub trait SiteRecorder: Sync {
    /// Records an instant.
    fn instant(&'static self, event: &Event<'_>);

    /// Begins a slice on the track of this thread. Returns a number for [`end`](Self::end); 0 if nobody records
    /// the slice, so that its end is for nobody either.
    fn begin(&'static self, event: &Event<'_>) -> u64;

    /// Ends a slice. It is the recorder of the end's call site that is called, if the end has one of its own: that
    /// has the names of the arguments.
    fn end(&'static self, span: u64, event: &Event<'_>);

    /// Records the value of the counter with the call site's name.
    fn count(&'static self, value: Number);
}

/// Turns a call site on and off for one recorder.
#[derive(Clone, Copy)]
pub struct Switch {
    pub(crate) site: &'static CallSite,
    pub(crate) recorder_index: usize,
}

impl Switch {
    /// Turns the call site on or off. The call site is on while any recorder has turned it on.
    pub fn set(self, is_on: bool) {
        self.site.set_active(self.recorder_index, is_on);
    }
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switch")
            .field("category", &self.site.category())
            .field("name", &self.site.name())
            .finish_non_exhaustive()
    }
}
