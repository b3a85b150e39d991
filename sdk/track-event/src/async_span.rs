//! The span of a future: one slice for its life, on a track of its own, and one for each poll, on
//! the thread that polls. A flow goes from the begin of its life through all polls to its end:
//!
//! ```text
//!  the future's track  [ fetch                                ]
//!                       |                                    ^
//!  thread 1             '>[ fetch ]--.                       |
//!  thread 2                          '->[ fetch ]-->[ fetch ]'
//! ```
//!
//! Its life begins with the first poll that a session sees, in each session by itself.

use std::borrow::Cow;
use std::cell::Cell;
use std::task::Poll;

use protozero::{Decoder, HeapBuffered};

use crate::arg::write_arg;
use crate::begun::Begun;
use crate::call_site::CallSite;
use crate::event::{EndOf, EventPart, EventParts, EventWriter, Through};
use crate::flow::Flow;
use crate::open_slices;
use crate::placement::Placement;
use crate::recorded::Recorded;
use crate::short_event::ShortEvent;
use crate::slice_end::{SliceEnd as _, WithParts};
use crate::span::Span;
use crate::track::Track;
use tracezero_core::protos::TrackEvent;
use tracezero_core::protos::track_event::Type;

thread_local! {
    /// The track of the future that this thread is polling: what begins now lies under it.
    static CURRENT: Cell<Option<Track>> = const { Cell::new(None) };
    /// Memory to encode in.
    static SCRATCH: Cell<Option<HeapBuffered<TrackEvent<'static>>>> = const { Cell::new(None) };
}

/// A span for a future, made by [`async_span!`](crate::async_span). It records nothing until the
/// future has it, by [`traced`](crate::TraceFuture::traced), and is polled.
#[derive(Debug)]
#[must_use = "it records nothing until a future has it: `future.traced(span)`"]
pub struct AsyncSpan {
    life: Recorded<Life>,
}

#[derive(Debug)]
struct Life {
    site: &'static CallSite,
    /// `None` until somebody records it. While the future is polled, that of [`CURRENT`] before.
    track: Option<Track>,
    /// What the macro was given for the slice of its life: encoded fields of a `TrackEvent`.
    fields: Option<Box<[u8]>>,
    /// Who has seen its begin, and not its end.
    begun: Option<Begun>,
    /// A poll has begun and not returned: where none goes on, the last one has panicked.
    is_in_poll: bool,
}

/// Ends a poll's slice when it is dropped, also by a panic.
#[must_use]
struct Polling<'a> {
    life: &'a mut Life,
    _slice: Span,
}

/// The span of a future that is done, which is still open. [`end!`](crate::end) adds arguments to its end.
#[derive(Debug)]
pub struct EndingSpan<'a> {
    life: &'a mut Life,
}

/// How a life ends. Call sites have names for the last two, as their last arguments.
#[derive(Clone, Copy, Debug)]
enum End {
    Completed,
    Cancelled,
    Panicked,
}

impl AsyncSpan {
    /// A span that nobody records yet; the macro makes these.
    #[doc(hidden)]
    #[inline(always)]
    pub fn new(site: &'static CallSite) -> Self {
        let life = Life {
            site,
            track: None,
            fields: None,
            begun: None,
            is_in_poll: false,
        };
        Self {
            life: Recorded::new(life),
        }
    }

    /// A span that somebody records, with what it carries. Its track lies under that of `placement`.
    #[doc(hidden)]
    #[inline(never)]
    pub fn recorded<P: EventParts>(
        site: &'static CallSite,
        placement: &Placement<'_>,
        parts: &P,
    ) -> Self {
        let mut span = Self::new(site);
        if let Some(life) = span.life.as_mut() {
            let name = placement.name.map(|name| Cow::Owned(name.to_owned()));
            let name = name.unwrap_or(Cow::Borrowed(site.name()));
            life.track = Some(match placement.track {
                Some(parent) => parent.unique_child(name),
                None => track_under_current(name),
            });
            life.fields = (!P::IS_EMPTY).then(|| encode(parts, &site.names().ids().args));
        }
        span
    }

    /// Polls the future. Calls `end` when it is done, if a session has seen the begin.
    #[inline(always)]
    pub(super) fn around<T>(
        &mut self,
        poll: impl FnOnce() -> Poll<T>,
        end: impl FnOnce(&T, EndingSpan<'_>),
    ) -> Poll<T> {
        let Some(life) = self.life.as_mut() else {
            return poll();
        };
        // Also while nobody records the poll: whoever has seen the begin is told how it ends.
        life.is_in_poll = true;
        let result = {
            let _polling = match life.site.active_slots() {
                0 => None,
                slots => life.poll(slots),
            };
            poll()
        };
        if let Poll::Ready(output) = &result {
            if life.is_recorded() {
                // A panic in here counts as one of the poll.
                end(output, EndingSpan { life });
            }
            life.end(End::Completed);
        }
        life.is_in_poll = false;
        result
    }
}

impl Drop for AsyncSpan {
    #[inline]
    fn drop(&mut self) {
        if let Some(life) = self.life.as_mut() {
            life.end(if life.is_in_poll {
                End::Panicked
            } else {
                End::Cancelled
            });
        }
    }
}

impl Life {
    #[inline(never)]
    fn poll(&mut self, slots: u32) -> Option<Polling<'_>> {
        let poll = Begun::in_slots(slots)?;
        let (site, begun) = (self.site, self.begun);
        let track = self
            .track
            .get_or_insert_with(|| track_under_current(site.name().into()));
        let flow = flow_of(track);
        let mut placement = Placement::new();
        if site.name().is_empty() {
            placement = placement.named(track.name());
        }
        let time = placement.time();
        let name = placement.name.unwrap_or_default();
        let open = open_slices::push_with(poll, site, time, name, Some(flow))?;
        let mut begun_now = None;
        poll.begin(|instance| {
            let is_begun = begun.is_some_and(|begun| begun.is_known_to(instance));
            if !is_begun {
                begun_now = Begun::union(begun_now, Begun::in_instance(instance));
            }
            let (writer, events) = (&mut instance.writer, &mut instance.local);
            if !is_begun {
                let fields = Encoded(self.fields.as_deref().unwrap_or_default());
                let (placement, parts) = (placement.on(track), (((), fields), Through(&flow)));
                events.event(
                    writer,
                    time,
                    site.names(),
                    Type::SLICE_BEGIN,
                    &placement,
                    &parts,
                );
            }
            let parts = ((), Through(&flow));
            events.event(
                writer,
                time,
                site.names(),
                Type::SLICE_BEGIN,
                &placement,
                &parts,
            );
        });
        if begun_now.is_some() {
            self.begun = Begun::union(begun.and_then(Begun::still_recording), begun_now);
        }
        exchange_current(&mut self.track);
        Some(Polling {
            life: self,
            _slice: Span::new(open),
        })
    }

    /// Returns whether a session that has seen the begin still records.
    #[inline(always)]
    fn is_recorded(&self) -> bool {
        self.begun.is_some_and(|begun| begun.active_slots() != 0)
    }

    #[inline(always)]
    fn end(&mut self, end: End) {
        if let Some(begun) = self.begun.take() {
            self.end_in(begun, self.site, &Placement::new(), &((), end));
        }
    }

    /// Writes the end for each session that has seen the begin; `site` has the names of the arguments.
    #[inline(never)]
    fn end_in(
        &self,
        begun: Begun,
        site: &'static CallSite,
        placement: &Placement<'_>,
        parts: &impl EventParts,
    ) {
        let Some(track) = &self.track else {
            return;
        };
        let slots = begun.active_slots();
        if slots == 0 {
            return;
        }
        let (time, flow) = (placement.time(), flow_of(track));
        WithParts::end(site, &LastOfFlow { flow, parts }, |end| {
            begun.each(slots, |instance| end.write(instance, time, Some(track)));
        });
    }
}

impl EndingSpan<'_> {
    /// Returns whether a session that has seen the begin still records.
    #[doc(hidden)]
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.life.is_recorded()
    }

    /// Ends the span at the time of `placement`, with `parts`.
    #[doc(hidden)]
    pub fn end_with<P: EventParts>(
        self,
        site: &'static CallSite,
        placement: &Placement<'_>,
        parts: &P,
    ) {
        if let Some(begun) = self.life.begun.take() {
            self.life.end_in(begun, site, placement, parts);
        }
    }
}

impl Drop for Polling<'_> {
    #[inline]
    fn drop(&mut self) {
        exchange_current(&mut self.life.track);
    }
}

/// A track that no one else has, under that of the future that is being polled.
fn track_under_current(name: Cow<'static, str>) -> Track {
    let current = CURRENT.try_with(|current| {
        let track = current.take();
        current.set(track.clone());
        track
    });
    match current {
        Ok(Some(current)) => current.unique_child(name),
        // Also on a thread that is ending.
        _ => Track::unique(name),
    }
}

/// Called before and after each poll: what was moved comes back. On a thread that is ending nothing
/// is moved.
fn exchange_current(track: &mut Option<Track>) {
    // The error is that of an ending thread.
    let _ = CURRENT.try_with(|current| *track = current.replace(track.take()));
}

/// The flow that joins the slices of a future: it has the number of its track.
fn flow_of(track: &Track) -> Flow {
    Flow::global(track.uuid())
}

/// The fields that `parts` write.
fn encode(parts: &impl EventParts, name_iids: &[u32]) -> Box<[u8]> {
    // None while it is in use, where what formats an argument makes a span; it comes back empty.
    let scratch = SCRATCH.try_with(Cell::take).ok().flatten();
    let mut scratch = scratch.unwrap_or_default();
    parts.write_all(&mut EventWriter::new(&mut scratch.message(), name_iids));
    let fields = scratch.to_vec().into_boxed_slice();
    scratch.reset();
    // Dropped on a thread that is ending.
    let _ = SCRATCH.try_with(|kept| kept.set(Some(scratch)));
    fields
}

/// Fields that are encoded already.
struct Encoded<'a>(&'a [u8]);

impl EventPart for Encoded<'_> {
    fn write(&self, event: &mut EventWriter<'_, '_>) {
        let out = event.event.as_message_mut();
        // All call sites of async spans have arguments: without names, the session wants none.
        if !event.name_iids.is_empty() {
            return out.append_raw(self.0);
        }
        let mut fields = Decoder::new(self.0).fields();
        let mut begin = 0;
        while let Some(Ok(field)) = fields.next() {
            let end = fields.offset();
            if field.number != TrackEvent::DEBUG_ANNOTATIONS_FIELD_NUMBER {
                out.append_raw(&self.0[begin..end]);
            }
            begin = end;
        }
    }
}

/// The end of a flow, and other parts behind it: formatting one of them may panic.
struct LastOfFlow<'p, P> {
    flow: Flow,
    parts: &'p P,
}

impl<P: EventParts> EventParts for LastOfFlow<'_, P> {
    const IS_EMPTY: bool = false;

    fn write_all(&self, event: &mut EventWriter<'_, '_>) {
        EndOf(&self.flow).write(event);
        self.parts.write_all(event);
    }

    fn are_short(&self) -> bool {
        false
    }

    fn put_all(&self, _: &mut ShortEvent<'_, '_>) -> bool {
        false
    }
}

impl EventPart for End {
    fn write(&self, event: &mut EventWriter<'_, '_>) {
        let [.., cancelled, panicked] = event.name_iids else {
            return;
        };
        match self {
            Self::Completed => {}
            Self::Cancelled => write_arg(&true, *cancelled, event.event),
            Self::Panicked => write_arg(&true, *panicked, event.event),
        }
    }
}
