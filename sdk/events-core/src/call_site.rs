//! Call sites, the recorders of their events, and the switches that turn call sites on.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::panic::RefUnwindSafe;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use crate::event::Event;
use crate::value::Number;

/// The largest number of recorders in one program.
pub const RECORDERS_MAX: usize = 4;

/// The bit of `CallSite::active` that is set while a recorder may not know the call site.
const UNREGISTERED: u32 = 1 << 31;

/// A place in the code that emits events. Each use of a macro declares one as a `static`.
pub struct CallSite {
    kind: Kind,
    category: &'static str,
    name: &'static str,
    arg_names: &'static [&'static str],
    /// A bit mask of the recorders that have turned the call site on, and [`UNREGISTERED`].
    active: AtomicU32,
    /// The call site's `SiteRecorder`s, by the index of their recorder. Each is set before the
    /// recorder can turn the call site on.
    recorders: [OnceLock<&'static dyn SiteRecorder>; RECORDERS_MAX],
    /// The call site that was registered before this one. Set while the registry is locked.
    pub(crate) previous: OnceLock<Option<&'static CallSite>>,
}

/// The kind of event that a call site emits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The begin of a slice on the track of the thread. ("Slice" is Perfetto's word for a recorded
    /// span.)
    Span,
    /// The end of a slice, with arguments. It has no category: each recorder that recorded the
    /// begin records the end.
    End,
    /// An event without duration.
    Instant,
    /// A value of a counter.
    Counter,
    /// No event: the call site serves to ask whether its category is recorded.
    Switch,
}

// A panic in a recorder leaves the atomics and the cells unchanged.
impl RefUnwindSafe for CallSite {}

impl CallSite {
    /// Creates a call site. `category` is one name or several, separated by commas. `name` is empty
    /// if each event has a name of its own.
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

    /// Returns the kind of event that the call site emits.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the names of the categories, separated by commas.
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

    /// Returns a bit mask of the recorders that have turned the call site on. Costs one relaxed
    /// load. The first call registers the call site.
    #[inline(always)]
    pub fn active(&'static self) -> u32 {
        // Relaxed: the events read their recorders by `recorder`, which synchronizes.
        let active = self.active.load(Ordering::Relaxed);
        // Compares with zero first: most call sites are off, and then this comparison is all that
        // they cost.
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

    /// Returns the recorders in `active`, with their indices.
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
            // Pairs with the release in `note_registered`: a thread that has seen the call site
            // turned on and registered also sees its recorder here.
            fence(Ordering::Acquire);
            place.get()
        });
        recorder.copied()
    }

    /// Asks a recorder for its `SiteRecorder` for this call site, unless the call site has it
    /// already. Returns whether the call site now has it. The caller must hold no lock.
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
            // The error is ignored: it means that another thread was first, and that the recorder's
            // answer to that thread is kept.
            let _ = place.set(site_recorder);
        }
        site_recorder.is_some()
    }

    /// Marks the call site as registered: all recorders know it.
    pub(crate) fn note_registered(&self) {
        // Release pairs with the fence in `recorder`.
        self.active.fetch_and(!UNREGISTERED, Ordering::Release);
    }

    /// Marks the call site as not registered, so that its next event registers it again.
    pub(crate) fn forget_registration(&self) {
        // Relaxed: if the next event does not see the bit yet, a later one does.
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

/// A guard for a slice that has begun. Dropping it ends the slice in each recorder that has begun
/// it.
///
/// The guard cannot leave the thread that began the slice:
///
/// ```compile_fail
/// fn needs_send(_: impl Send) {}
/// fn check(open: tracezero_events_core::OpenSpan) {
///     needs_send(open);
/// }
/// ```
#[derive(Debug)]
#[must_use = "the slice ends when this is dropped; bind it"]
pub struct OpenSpan {
    site: &'static CallSite,
    /// The numbers that [`SiteRecorder::begin`] returned, by the index of the recorder. 0 for a
    /// recorder that does not record the slice or has ended it.
    spans: [u64; RECORDERS_MAX],
    not_send: PhantomData<*const ()>,
}

impl OpenSpan {
    /// Ends the slice with the arguments of `event`. `site` has the names of these arguments.
    #[inline(never)]
    pub fn end_at(mut self, site: &'static CallSite, event: &Event<'_>) {
        // Only registers the call site: no recorder ever turns on the call site of an `end!`.
        site.active();
        for index in 0..RECORDERS_MAX {
            // If a recorder does not know this call site yet, `drop` ends its slice, without
            // arguments.
            if let Some(recorder) = site.recorder(index).filter(|_| self.spans[index] != 0) {
                // If this recorder panics, `drop` ends the slice for the others.
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

/// A recorder of the events of all libraries in the program. It chooses the call sites that it
/// records.
///
/// Any thread may call its methods at any time. A trace point in an allocator may call them while
/// another call on the same thread has not returned yet.
pub trait Recorder: Sync {
    /// Returns the recorder of one call site's events. The call site is off until `switch` turns it
    /// on.
    ///
    /// After `None`, the next event of the call site calls this method again. If two threads reach
    /// the call site at the same time, both may call this method; one of the results is used.
    fn recorder_of(
        &'static self,
        site: &'static CallSite,
        switch: Switch,
    ) -> Option<&'static dyn SiteRecorder>;
}

/// A recorder of the events of one call site.
///
/// A later version may add methods; by default they do nothing. A method may panic if the
/// formatting of an argument panics. Then [`begin`](Self::begin) has not begun the slice, but
/// [`end`](Self::end) has ended it.
pub trait SiteRecorder: Sync {
    /// Records an instant.
    fn instant(&'static self, event: &Event<'_>);

    /// Begins a slice on the track of this thread. Returns a number to pass to [`end`](Self::end),
    /// or 0 if the slice is not recorded; then `end` is not called.
    fn begin(&'static self, event: &Event<'_>) -> u64;

    /// Ends a slice, on the thread that began it. If the end has a call site of its own, the
    /// `SiteRecorder` of that call site is called, because it knows the names of the arguments.
    fn end(&'static self, span: u64, event: &Event<'_>);

    /// Records a value of the counter that has the call site's name. `event` has no arguments.
    fn count(&'static self, value: Number, event: &Event<'_>);
}

/// Turns a call site on and off for one recorder.
#[derive(Clone, Copy)]
pub struct Switch {
    site: &'static CallSite,
    recorder_index: usize,
}

impl Switch {
    /// Turns the call site on or off for this recorder. The other recorders are not affected.
    pub fn set(self, is_on: bool) {
        let bit = 1 << self.recorder_index;
        // Relaxed: a thread that must see the change synchronizes with this thread by other means.
        // For example, this thread starts a session and then starts the other thread.
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
