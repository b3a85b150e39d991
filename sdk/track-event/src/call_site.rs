//! The `static` behind each use of a macro: on or off, and what it is called.
//!
//! Nothing registers call sites when a program starts. A call site enters itself in the list of `switches.rs`
//! when a thread reaches it first. So trace points of a library work without a call by the application.

use std::fmt;
use std::mem;
use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::arg::CounterValue;
use super::begun::Begun;
use super::counter_track::CounterTrack;
use super::encoding::EventBody;
use super::event::EventParts;
use super::instance::EventThread;
use super::interning::{NameKind, intern};
use super::open_slices;
use super::placement::{EventTime, Placement};
use super::slice_end::{SliceEnd, WithParts};
use super::span::{Span, TrackSpan};
use super::switches;
use super::track::Track;
use super::track_slices;
use super::{ENABLED, TRACK_EVENT};
use tracezero_core::clock;
use tracezero_core::protos::TrackEvent;
use tracezero_core::protos::track_event::Type;
use tracezero_producer::{self as producer, ActiveSlots};

/// One place in the code that records events.
pub struct CallSite {
    /// The names of its categories, with commas between them.
    pub category: &'static str,
    /// Empty for an event whose name is no literal.
    pub(super) name: &'static str,
    pub(super) arg_names: &'static [&'static str],
    /// `None` for those of the macros.
    pub(super) origin: Option<&'static Origin>,
    active: ActiveSlots,
    ids: OnceLock<CallSiteIds>,
    /// For counters whose name is a literal.
    counter: OnceLock<CounterTrack>,
}

/// Where a call site is, if its events are to say so, and what else sessions choose it by.
#[derive(Debug)]
pub struct Origin {
    /// Path of the source file; empty if it is not known.
    pub file: &'static str,
    /// Line in that file.
    pub line: u32,
    /// Whether the name was made while the program ran.
    pub is_name_dynamic: bool,
    /// Beside those that were declared for its category.
    pub tags: &'static [&'static str],
}

/// The numbers of a call site's names.
#[derive(Debug)]
pub(super) struct CallSiteIds {
    /// The call site itself. Counts from 0.
    pub(super) site: u32,
    /// Of each category in the group.
    pub(super) categories: Box<[u32]>,
    /// 0 without a name.
    pub(super) event: u32,
    pub(super) args: Box<[u32]>,
    /// 0 if events do not say where they come from.
    pub(super) source_location: u32,
    /// What all events have in common; `None` if that is too long to be encoded ahead.
    begin: Option<EventBody>,
    instant: Option<EventBody>,
    end: Option<EventBody>,
}

impl CallSite {
    /// A call site; the macros make these.
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
            origin: None,
            active: ActiveSlots::unregistered(),
            ids: OnceLock::new(),
            counter: OnceLock::new(),
        }
    }

    /// The call site of a library that has call sites of its own.
    pub const fn at(mut self, origin: &'static Origin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// The same with another name.
    pub const fn renamed(&self, name: &'static str) -> Self {
        let mut renamed = Self::new(self.category, name, self.arg_names);
        renamed.origin = self.origin;
        renamed
    }

    /// The name of its events; empty if it is no literal.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Where it is in the source, if its events say so.
    #[must_use]
    pub const fn origin(&self) -> Option<&'static Origin> {
        self.origin
    }

    /// The sessions that record this call site, as a bit mask: one relaxed load.
    #[inline(always)]
    pub fn active_slots(&'static self) -> u32 {
        if !ENABLED {
            return 0;
        }
        self.active.load(|| switches::register_call_site(self))
    }

    /// Begins a slice in the sessions of `slots`, on the track of this thread.
    #[inline(never)]
    pub fn span<P: EventParts>(&'static self, slots: NonZeroU32, parts: &P) -> Span {
        let begun = Begun::in_some_slots(slots);
        let time = EventTime::Now(clock::event_now_ns());
        let Some(open) = open_slices::push(begun, self, time) else {
            return Span::none();
        };
        let panic_guard = EndsAfterPanic::new(|| drop(Span::new(open)));
        self.slice_begin(begun, time, Placement::USUAL, parts);
        panic_guard.disarm();
        Span::new(open)
    }

    /// The same with a name of its own, or at another time.
    #[inline(never)]
    pub fn span_placed<P: EventParts>(
        &'static self,
        slots: u32,
        placement: &Placement<'_>,
        parts: &P,
    ) -> Span {
        let Some(begun) = Begun::in_slots(slots) else {
            return Span::none();
        };
        let (time, name) = (placement.time(), placement.name.unwrap_or_default());
        let Some(open) = open_slices::push_with(begun, self, time, name, None) else {
            return Span::none();
        };
        let panic_guard = EndsAfterPanic::new(|| drop(Span::new(open)));
        self.slice_begin(begun, time, placement, parts);
        panic_guard.disarm();
        Span::new(open)
    }

    /// The same on a track that is not this thread's.
    #[inline(never)]
    pub fn span_on_track<P: EventParts>(
        &'static self,
        slots: u32,
        track: &Track,
        placement: &Placement<'_>,
        parts: &P,
    ) -> TrackSpan {
        let Some(begun) = Begun::in_slots(slots) else {
            return TrackSpan::none();
        };
        let Some((guard, time)) = track_slices::push(track, begun, self, placement) else {
            return TrackSpan::none();
        };
        let panic_guard = EndsAfterPanic::new(|| drop(TrackSpan::new(begun, track, guard)));
        self.slice_begin(begun, time, &placement.on(track), parts);
        panic_guard.disarm();
        TrackSpan::new(begun, track, guard)
    }

    /// Begins a slice that another call site ends.
    #[inline(never)]
    pub fn begin<P: EventParts>(&'static self, slots: u32, placement: &Placement<'_>, parts: &P) {
        let Some(begun) = Begun::in_slots(slots) else {
            return;
        };
        // Neither is recorded inside of another trace point: the stacks do not know of them.
        if producer::is_nested() {
            return;
        }
        let time = match placement.track {
            Some(track) => track_slices::push_by_macro(track, begun, self, placement),
            None => {
                let (time, name) = (placement.time(), placement.name.unwrap_or_default());
                if open_slices::push_by_macro(begun, self, time, name).is_none() {
                    return;
                }
                time
            }
        };
        self.slice_begin(begun, time, placement, parts);
    }

    /// Ends a slice that another call site began.
    #[inline(never)]
    pub fn end<P: EventParts>(&'static self, slots: u32, placement: &Placement<'_>, parts: &P) {
        if producer::is_nested() {
            return;
        }
        let (time, on_track) = match placement.track {
            Some(track) => {
                let (time, pieces) = track_slices::remove_by_macro(track, placement);
                (time, Some(pieces))
            }
            None => (placement.time(), None),
        };
        WithParts::end(self, parts, |end| {
            TRACK_EVENT.trace(slots, |instance| {
                let write = |instance: &mut EventThread| end.write(instance, time, placement.track);
                if let Some(pieces) = &on_track {
                    pieces.interrupt(instance, time, placement.track, write);
                } else if let Some(pieces) = open_slices::remove_by_macro(instance) {
                    pieces.interrupt(instance, time, None, write);
                    open_slices::give_back(pieces);
                }
            });
        });
    }

    /// Records an instant in the sessions of `slots`, on the track of this thread.
    #[inline(never)]
    pub fn instant<P: EventParts>(&'static self, slots: NonZeroU32, parts: &P) {
        self.event(slots.get(), Type::INSTANT, Placement::USUAL, parts);
    }

    /// The same with a name of its own, at another time, or on another track.
    #[inline(never)]
    pub fn instant_placed<P: EventParts>(
        &'static self,
        slots: u32,
        placement: &Placement<'_>,
        parts: &P,
    ) {
        self.event(slots, Type::INSTANT, placement, parts);
    }

    /// Records the value of the counter with this call site's name in the sessions of `slots`.
    #[inline]
    pub fn counter(
        &'static self,
        slots: u32,
        placement: &Placement<'_>,
        value: impl Into<CounterValue>,
    ) {
        self.count(slots, None, placement, value.into());
    }

    /// Records the value of a counter in the sessions of `slots`.
    #[inline]
    pub fn counter_on(
        &'static self,
        slots: u32,
        track: &CounterTrack,
        placement: &Placement<'_>,
        value: impl Into<CounterValue>,
    ) {
        self.count(slots, Some(track), placement, value.into());
    }

    #[inline]
    fn slice_begin(
        &'static self,
        begun: Begun,
        time: EventTime,
        placement: &Placement<'_>,
        parts: &impl EventParts,
    ) {
        begun.begin(|instance| {
            let (writer, events) = (&mut instance.writer, &mut instance.local);
            events.event(writer, time, self, Type::SLICE_BEGIN, placement, parts);
        });
    }

    #[inline]
    fn event(
        &'static self,
        slots: u32,
        event_type: Type,
        placement: &Placement<'_>,
        parts: &impl EventParts,
    ) {
        let time = placement.time();
        TRACK_EVENT.trace(slots, |instance| {
            let (writer, events) = (&mut instance.writer, &mut instance.local);
            events.event(writer, time, self, event_type, placement, parts);
        });
    }

    /// On this call site's own track for `None`.
    #[inline(never)]
    fn count(
        &self,
        slots: u32,
        track: Option<&CounterTrack>,
        placement: &Placement<'_>,
        value: CounterValue,
    ) {
        let time = placement.time();
        TRACK_EVENT.trace(slots, |instance| {
            // In here, because making it allocates: an allocator that counts would come back to it.
            let own = || self.counter.get_or_init(|| CounterTrack::new(self.name));
            let track = track.unwrap_or_else(own);
            let (writer, events) = (&mut instance.writer, &mut instance.local);
            events.counter(writer, time, track, value);
        });
    }

    pub(crate) fn active(&self) -> &ActiveSlots {
        &self.active
    }

    /// Tags beside those that were declared for the category.
    pub fn tags(&self) -> &'static [&'static str] {
        self.origin.map_or(&[], |origin| origin.tags)
    }

    /// Finds the numbers, so that recording does not have to.
    pub(crate) fn intern(&self) {
        self.ids();
    }

    #[inline]
    pub(super) fn ids(&self) -> &CallSiteIds {
        self.ids.get_or_init(|| {
            let categories: Box<[u32]> = self
                .categories()
                .map(|category| intern(NameKind::Category, category))
                .collect();
            let event = match self.name {
                "" => 0,
                name => intern(NameKind::Event, name),
            };
            let site = next_site();
            let source_location = match self.origin {
                // Each call site is at a place of its own.
                Some(origin) if !origin.file.is_empty() => site + 1,
                _ => 0,
            };
            let mut ids = CallSiteIds {
                site,
                source_location,
                categories,
                event,
                args: self
                    .arg_names
                    .iter()
                    .map(|name| intern(NameKind::Arg, name))
                    .collect(),
                begin: None,
                instant: None,
                end: None,
            };
            let body = |event_type| EventBody::encode(|event| ids.write_fields(event_type, event));
            let (begin, instant) = (body(Type::SLICE_BEGIN), body(Type::INSTANT));
            (ids.end, ids.begin, ids.instant) = (body(Type::SLICE_END), begin, instant);
            ids
        })
    }

    /// The categories of the events, which commas separate. An empty name is none: ends of spans have it.
    pub(super) fn categories(&self) -> impl Iterator<Item = &'static str> {
        let categories = self.category.split(',').map(str::trim);
        categories.filter(|category| !category.is_empty())
    }
}

impl CallSiteIds {
    /// The fields that all events of this type have in common.
    pub(super) fn write_fields(&self, event_type: Type, event: &mut TrackEvent<'_>) {
        event.set_type(event_type);
        // An end belongs to whatever began.
        if event_type == Type::SLICE_END {
            return;
        }
        for &category in &self.categories {
            event.add_category_iids(u64::from(category));
        }
        if self.event != 0 {
            event.set_name_iid(u64::from(self.event));
        }
        if self.source_location != 0 {
            event.set_source_location_iid(u64::from(self.source_location));
        }
    }

    /// The same, encoded ahead.
    #[inline]
    pub(super) const fn body(&self, event_type: Type) -> Option<&EventBody> {
        match event_type {
            Type::SLICE_BEGIN => self.begin.as_ref(),
            Type::SLICE_END => self.end.as_ref(),
            _ => self.instant.as_ref(),
        }
    }
}

fn next_site() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only that each number is given once counts.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl fmt::Debug for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallSite")
            .field("category", &self.category)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Ends a slice whose begin was cut short by a panic, as that of what formats an argument.
struct EndsAfterPanic<F: FnMut()>(F);

impl<F: FnMut()> EndsAfterPanic<F> {
    #[inline(always)]
    fn new(end: F) -> Self {
        Self(end)
    }

    #[inline(always)]
    fn disarm(self) {
        mem::forget(self);
    }
}

impl<F: FnMut()> Drop for EndsAfterPanic<F> {
    #[cold]
    fn drop(&mut self) {
        (self.0)();
    }
}
