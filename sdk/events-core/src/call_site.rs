//! One place in the code that records events, and what records them.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::panic::RefUnwindSafe;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::event::Event;
use crate::value::Number;

/// The number of recorders that a program can have.
pub const RECORDERS_MAX: usize = 4;

/// Bit of [`CallSite::active`] that says: a recorder may not know the call site yet.
const UNREGISTERED: u32 = 1 << 31;

/// One place in the code that records events: a `static` behind each use of a macro.
pub struct CallSite {
    kind: Kind,
    category: &'static str,
    name: &'static str,
    arg_names: &'static [&'static str],
    /// The recorders that have the call site turned on, as a bit mask.
    active: AtomicU32,
    /// By recorder. A recorder that has turned the call site on is there.
    recorders: [OnceLock<&'static dyn SiteRecorder>; RECORDERS_MAX],
    /// The call site that was registered before this one. Set with the registry locked.
    pub(crate) previous: OnceLock<Option<&'static CallSite>>,
}

/// A kind of call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Begins a slice on the track of the thread.
    Span,
    /// Ends a slice, with arguments. It has no category: whoever has recorded the begin records the end.
    End,
    /// Records an instant.
    Instant,
    /// Records a value of a counter.
    Counter,
    /// Records nothing, and asks whether its category is recorded.
    Switch,
}

// A panic of a recorder leaves the atomics and the cells as they are.
impl RefUnwindSafe for CallSite {}

impl CallSite {
    /// Creates a call site. `category` is one name, or several with commas between them; `name` is empty if each
    /// event has a name of its own.
    #[must_use]
    pub const fn new(
        kind: Kind,
        category: &'static str,
        name: &'static str,
        arg_names: &'static [&'static str],
    ) -> Self {
        Self {
            kind,
            category,
            name,
            arg_names,
            active: AtomicU32::new(UNREGISTERED),
            recorders: [const { OnceLock::new() }; RECORDERS_MAX],
            previous: OnceLock::new(),
        }
    }

    /// Returns what the call site does.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
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
        // Relaxed: `recorder` synchronizes.
        let active = self.active.load(Ordering::Relaxed);
        // Zero first: most call sites are off, and this is all that they cost.
        if active == 0 || active & UNREGISTERED == 0 {
            return active;
        }
        self.register();
        // Relaxed: as above.
        self.active.load(Ordering::Relaxed) & !UNREGISTERED
    }

    /// Passes an instant to the recorders in `active`.
    #[inline(never)]
    pub fn instant(&'static self, active: u32, event: &Event<'_>) {
        for (_, recorder) in self.recorders_in(active) {
            recorder.instant(event);
        }
    }

    /// Begins a slice for the recorders in `active`.
    #[inline(never)]
    pub fn begin(&'static self, active: u32, event: &Event<'_>) -> OpenSpan {
        let mut open = OpenSpan {
            site: self,
            spans: [0; RECORDERS_MAX],
            not_send: PhantomData,
        };
        for (index, recorder) in self.recorders_in(active) {
            open.spans[index] = recorder.begin(event);
        }
        open
    }

    /// Passes a value of a counter to the recorders in `active`.
    #[inline(never)]
    pub fn count(&'static self, active: u32, value: Number, event: &Event<'_>) {
        for (_, recorder) in self.recorders_in(active) {
            recorder.count(value, event);
        }
    }

    fn recorders_in(
        &'static self,
        active: u32,
    ) -> impl Iterator<Item = (usize, &'static dyn SiteRecorder)> {
        (0..RECORDERS_MAX)
            .filter(move |index| active & 1 << index != 0)
            .filter_map(|index| Some((index, self.recorder(index)?)))
    }

    fn recorder(&self, index: usize) -> Option<&'static dyn SiteRecorder> {
        let place = &self.recorders[index];
        let recorder = place.get().or_else(|| {
            // Pairs with the release in `note_registered`: a thread that has seen a call site on and registered
            // sees its recorder.
            fence(Ordering::Acquire);
            place.get()
        });
        recorder.copied()
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

    /// Notes that all recorders know the call site.
    pub(crate) fn note_registered(&self) {
        // Release pairs with the fence in `recorder`.
        self.active.fetch_and(!UNREGISTERED, Ordering::Release);
    }

    /// Makes the next event register the call site again.
    pub(crate) fn forget_registration(&self) {
        // Relaxed: the next event finds the bit, or a later one does.
        self.active.fetch_or(UNREGISTERED, Ordering::Relaxed);
    }
}

impl fmt::Debug for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallSite")
            .field("kind", &self.kind)
            .field("category", &self.category)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A slice that has begun. It ends when this is dropped, for each recorder that has begun it.
///
/// It belongs to the thread that began it:
///
/// ```compile_fail
/// fn needs_send(_: impl Send) {}
/// fn check(open: tracezero_events_core::OpenSpan) {
///     needs_send(open);
/// }
/// ```
#[derive(Debug)]
#[must_use = "the slice ends where this is dropped"]
pub struct OpenSpan {
    site: &'static CallSite,
    /// By recorder; 0 for a recorder that does not record the slice, or has ended it.
    spans: [u64; RECORDERS_MAX],
    not_send: PhantomData<*const ()>,
}

impl OpenSpan {
    /// Ends the slice with the arguments of `event`, whose names `site` has.
    #[inline(never)]
    pub fn end_at(mut self, site: &'static CallSite, event: &Event<'_>) {
        // Nobody turns the call site of an end on, so this registers it.
        site.active();
        for index in 0..RECORDERS_MAX {
            // A recorder that does not know the call site of the end yet ends the slice below, without arguments.
            if let Some(recorder) = site.recorder(index).filter(|_| self.spans[index] != 0) {
                // A panic of this recorder ends the slice for the others.
                recorder.end(mem::take(&mut self.spans[index]), event);
            }
        }
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        for index in 0..RECORDERS_MAX {
            let span = mem::take(&mut self.spans[index]);
            if span != 0 {
                if let Some(recorder) = self.site.recorder(index) {
                    recorder.end(span, &Event::default());
                }
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
///
/// A later version may add methods, which do nothing by default. A method may panic where an argument's formatting
/// panics; a slice that it was to begin has not begun then, and a slice that it was to end has ended.
pub trait SiteRecorder: Sync {
    /// Records an instant.
    fn instant(&'static self, event: &Event<'_>);

    /// Begins a slice on the track of this thread. Returns a number to pass to [`end`](Self::end), or 0 if the slice
    /// is not recorded; then `end` is not called.
    fn begin(&'static self, event: &Event<'_>) -> u64;

    /// Ends a slice, on the thread that began it. If the end has a call site of its own, that site's recorder is
    /// called, because it knows the names of the arguments.
    fn end(&'static self, span: u64, event: &Event<'_>);

    /// Records the value of the counter with the call site's name. The event has no arguments.
    fn count(&'static self, value: Number, event: &Event<'_>);
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
        let bit = 1 << self.recorder_index;
        // Relaxed: a thread that has to see the change synchronizes with the one that made it otherwise, as by
        // starting a session before it starts the thread.
        if is_on {
            self.site.active.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.site.active.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switch")
            .field("site", &self.site)
            .finish_non_exhaustive()
    }
}
