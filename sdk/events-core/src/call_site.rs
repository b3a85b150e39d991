//! One place in the code that records events, and who records them.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::event::Event;
use crate::value::Number;

/// The number of recorders that a program can have.
pub const RECORDERS_MAX: usize = 4;

/// Bit of [`CallSite::active`] that says: a recorder may not know the call site yet.
pub(crate) const UNREGISTERED: u32 = 1 << 31;

/// One place in the code that records events: a `static` behind each use of a macro.
pub struct CallSite {
    category: &'static str,
    name: &'static str,
    arg_names: &'static [&'static str],
    /// The recorders that have the call site turned on, as a bit mask.
    pub(crate) active: AtomicU32,
    /// By recorder. One that has turned the call site on is there.
    recorders: [OnceLock<&'static dyn SiteRecorder>; RECORDERS_MAX],
    /// The call site that was registered before this one. Set with the registry locked.
    pub(crate) previous: OnceLock<Option<&'static CallSite>>,
}

impl CallSite {
    /// Creates a call site. `category` is one name, or several with commas between them; `name` is empty if each
    /// event has a name of its own.
    #[must_use]
    pub const fn new(
        category: &'static str,
        name: &'static str,
        arg_names: &'static [&'static str],
    ) -> Self {
        Self {
            category,
            name,
            arg_names,
            active: AtomicU32::new(UNREGISTERED),
            recorders: [const { OnceLock::new() }; RECORDERS_MAX],
            previous: OnceLock::new(),
        }
    }

    /// Returns the names of the categories, with commas between them.
    #[must_use]
    pub const fn category(&self) -> &'static str {
        self.category
    }

    /// Returns the name of the events; empty if each has a name of its own.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the names of the arguments.
    #[must_use]
    pub const fn arg_names(&self) -> &'static [&'static str] {
        self.arg_names
    }

    /// Returns the recorders that have the call site turned on, as a bit mask: one relaxed load. Registers the call
    /// site with the first call.
    #[inline(always)]
    pub fn active(&'static self) -> u32 {
        // Relaxed: who goes on because a bit is set finds the recorder by `OnceLock`, which synchronizes.
        let active = self.active.load(Ordering::Relaxed);
        // Zero first: most call sites are off, and this is all that they cost.
        if active == 0 || active & UNREGISTERED == 0 {
            return active;
        }
        self.register()
    }

    /// Records an instant by the recorders of `active`.
    #[inline(never)]
    pub fn instant(&'static self, active: u32, event: &Event<'_>) {
        for recorder in self.recorders_of(active) {
            recorder.instant(event);
        }
    }

    /// Begins a slice by the recorders of `active`.
    #[inline(never)]
    pub fn begin(&'static self, active: u32, event: &Event<'_>) -> OpenSpan {
        let mut spans = [0; RECORDERS_MAX];
        for (index, span) in spans.iter_mut().enumerate() {
            let is_active = active & 1 << index != 0;
            if let Some(recorder) = self.recorders[index].get().filter(|_| is_active) {
                *span = recorder.begin(event);
            }
        }
        OpenSpan { site: self, spans }
    }

    /// Records a value of the counter with the call site's name by the recorders of `active`.
    #[inline(never)]
    pub fn count(&'static self, active: u32, value: Number) {
        for recorder in self.recorders_of(active) {
            recorder.count(value);
        }
    }

    fn recorders_of(&self, active: u32) -> impl Iterator<Item = &'static dyn SiteRecorder> {
        let recorders = self.recorders.iter().enumerate();
        recorders
            .filter(move |(index, _)| active & 1 << index != 0)
            .filter_map(|(_, recorder)| recorder.get().copied())
    }

    /// Makes the call site known to a recorder, with nothing locked. Returns whether the recorder knows it.
    pub(crate) fn introduce(
        &'static self,
        recorder_index: usize,
        recorder: &'static dyn Recorder,
    ) -> bool {
        let place = &self.recorders[recorder_index];
        if place.get().is_some() {
            return true;
        }
        let switch = Switch {
            site: self,
            recorder_index,
        };
        let site_recorder = recorder.recorder_of(self, switch);
        if let Some(site_recorder) = site_recorder {
            // Another thread may have been first: its answer counts.
            let _ = place.set(site_recorder);
        }
        site_recorder.is_some()
    }

    /// Makes the next event introduce the call site again.
    pub(crate) fn forget_registration(&self) {
        // Relaxed: the next event finds the bit or a later one does.
        self.active.fetch_or(UNREGISTERED, Ordering::Relaxed);
    }

    fn set_active(&self, recorder_index: usize, is_on: bool) {
        let bit = 1 << recorder_index;
        // Relaxed: a thread that has to see the change synchronizes with the one that made it otherwise, as by
        // starting a session before it starts the thread.
        if is_on {
            self.active.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.active.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallSite")
            .field("category", &self.category)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A slice that has begun and not ended. Each recorder ends what it has begun.
#[derive(Debug)]
#[must_use = "the slice goes on until `end` is called"]
pub struct OpenSpan {
    site: &'static CallSite,
    /// By recorder; 0 for one that does not record the slice.
    spans: [u64; RECORDERS_MAX],
}

impl OpenSpan {
    /// Ends the slice.
    pub fn end(self) {
        let site = self.site;
        self.end_at(site, &Event::default());
    }

    /// Ends the slice with the arguments of `event`, whose names `site` has.
    #[inline(never)]
    pub fn end_at(self, site: &'static CallSite, event: &Event<'_>) {
        // Nobody turns the call site of an end on, so this registers it.
        site.active();
        for (index, span) in self.spans.into_iter().enumerate() {
            if span == 0 {
                continue;
            }
            if let Some(recorder) = site.recorders[index].get() {
                recorder.end(span, event);
            } else if let Some(recorder) = self.site.recorders[index].get() {
                recorder.end(span, &Event::default());
            }
        }
    }
}

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
    site: &'static CallSite,
    recorder_index: usize,
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
