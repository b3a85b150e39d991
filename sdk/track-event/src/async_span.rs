//! The span of a future: one slice for the whole future, on a track of its own, and one slice for
//! each poll, on the thread that polls. A flow leads from the begin of the future's slice through
//! all polls to its end:
//!
//! ```text
//!  the future's track  [ fetch                                ]
//!                       |                                    ^
//!  thread 1             '>[ fetch ]--.                       |
//!  thread 2                          '->[ fetch ]-->[ fetch ]'
//! ```
//!
//! In each session, the future's slice begins with the first poll that the session records.

use std::borrow::Cow;
use std::cell::Cell;
use std::task::Poll;

use protozero::{Decoder, HeapBuffered};

use crate::arg::write_arg;
use crate::async_slices::OpenAsyncSlice;
use crate::begin_sessions::BeginSessions;
use crate::call_site::CallSite;
use crate::event::{EndOf, EventPart, EventParts, EventWriter, Through};
use crate::flow::Flow;
use crate::guard_state::GuardState;
use crate::open_slices;
use crate::placement::Placement;
use crate::short_event::ShortEvent;
use crate::slice_end::{SliceEnd as _, WithParts};
use crate::span::Span;
use crate::track::Track;
use tracezero_core::protos::TrackEvent;
use tracezero_core::protos::track_event::Type;

thread_local! {
    /// The track of the future that this thread is polling. It is the parent of the tracks of
    /// futures whose tracks are created during the poll.
    static CURRENT: Cell<Option<Track>> = const { Cell::new(None) };
    /// A buffer for encoding, used again and again.
    static SCRATCH: Cell<Option<HeapBuffered<TrackEvent<'static>>>> = const { Cell::new(None) };
}

/// A span for a future, created by [`async_span!`](crate::async_span). It records nothing until it
/// is passed to [`traced`](crate::TraceFuture::traced) and the future is polled.
///
/// ```
/// use tracezero::{AsyncSpan, TraceFuture as _, async_span};
///
/// fn request_span(id: u64) -> AsyncSpan {
///     async_span!("http", "request", id)
/// }
///
/// let session = tracezero::InMemorySession::start()?;
/// let mut request = std::pin::pin!(async { "done" }.traced(request_span(7)));
/// # let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
/// assert!(request.as_mut().poll(context).is_ready());
/// // The slice of the future, and the slice of its only poll.
/// assert_eq!(session.finish().1.events, 4);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a span records nothing until it is passed to a future: `future.traced(span)`"]
pub struct AsyncSpan {
    state: GuardState<SpanState>,
}

#[derive(Debug)]
struct SpanState {
    site: &'static CallSite,
    /// The track of the future; `None` until a session records the span. During a poll it is
    /// swapped with the earlier value of [`CURRENT`].
    track: Option<Track>,
    /// The arguments, flows and fields of the future's slice: encoded fields of a `TrackEvent`.
    fields: Option<Box<[u8]>>,
    /// The sessions in which the future's slice is open.
    begun: Option<BeginSessions>,
    /// The open slice in the sessions that record into rings.
    open: OpenAsyncSlice,
    /// True from the begin of a poll until it returns. If it is true outside of a poll, the last
    /// poll has panicked.
    is_in_poll: bool,
}

/// A guard that ends the slice of a poll, also after a panic.
#[must_use]
struct PollGuard<'a> {
    state: &'a mut SpanState,
    _slice: Span,
}

/// The span of a future that is done; its slice is still open. [`end!`](crate::end) adds arguments
/// to the end.
#[derive(Debug)]
pub struct EndingSpan<'a> {
    state: &'a mut SpanState,
}

/// How a future ended. `Cancelled` and `Panicked` are recorded as arguments. Their names are the
/// last two argument names of each call site of [`async_span!`](crate::async_span).
#[derive(Clone, Copy, Debug)]
enum End {
    Completed,
    Cancelled,
    Panicked,
}

impl AsyncSpan {
    /// Creates a span that no session records yet; the macro calls this.
    #[doc(hidden)]
    #[inline(always)]
    pub fn new(site: &'static CallSite) -> Self {
        let state = SpanState {
            site,
            track: None,
            fields: None,
            begun: None,
            open: OpenAsyncSlice::default(),
            is_in_poll: false,
        };
        Self {
            state: GuardState::new(state),
        }
    }

    /// Creates a span that a session records. `parts` are its arguments, flows and fields. The
    /// future's track becomes a child of the track of `placement`.
    #[doc(hidden)]
    #[inline(never)]
    pub fn recorded<P: EventParts>(
        site: &'static CallSite,
        placement: &Placement<'_>,
        parts: &P,
    ) -> Self {
        let mut span = Self::new(site);
        if let Some(state) = span.state.as_mut() {
            let name = placement.name.map(|name| Cow::Owned(name.to_owned()));
            let name = name.unwrap_or(Cow::Borrowed(site.name()));
            state.track = Some(match placement.track {
                Some(parent) => parent.unique_child(name),
                None => track_under_current(name),
            });
            state.fields = (!P::IS_EMPTY).then(|| encode(parts, &site.names().ids().args));
        }
        span
    }

    /// Polls the future. When the future is done, calls `end` if a session that has seen the span's
    /// begin still records.
    #[inline(always)]
    pub(super) fn around<T>(
        &mut self,
        poll: impl FnOnce() -> Poll<T>,
        end: impl FnOnce(&T, EndingSpan<'_>),
    ) -> Poll<T> {
        let Some(state) = self.state.as_mut() else {
            return poll();
        };
        // This is set even if no session records this poll, because sessions that have seen the
        // begin also get the end.
        state.is_in_poll = true;
        let result = {
            let _poll_guard = match state.site.active_slots() {
                0 => None,
                slots => state.poll(slots),
            };
            poll()
        };
        if let Poll::Ready(output) = &result {
            if state.is_recorded() {
                // If `end` panics, the future counts as panicked.
                end(output, EndingSpan { state });
            }
            state.end(End::Completed);
        }
        state.is_in_poll = false;
        result
    }
}

impl Drop for AsyncSpan {
    #[inline]
    fn drop(&mut self) {
        if let Some(state) = self.state.as_mut() {
            state.end(if state.is_in_poll {
                End::Panicked
            } else {
                End::Cancelled
            });
        }
    }
}

impl SpanState {
    #[inline(never)]
    fn poll(&mut self, slots: u32) -> Option<PollGuard<'_>> {
        let poll = BeginSessions::in_slots(slots)?;
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
        let (mut begun_now, mut begun_in_rings) = (None, None);
        poll.begin(|instance| {
            let is_begun = begun.is_some_and(|begun| begun.is_known_to(instance));
            if !is_begun {
                begun_now = BeginSessions::union(begun_now, BeginSessions::in_instance(instance));
                begun_in_rings =
                    BeginSessions::union(begun_in_rings, BeginSessions::in_ring_of(instance));
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
            self.begun =
                BeginSessions::union(begun.and_then(BeginSessions::still_recording), begun_now);
        }
        if let Some(begun) = begun_in_rings {
            self.open.begin(track, site, begun, time);
        }
        exchange_current(&mut self.track);
        Some(PollGuard {
            state: self,
            _slice: Span::new(open),
        })
    }

    /// Returns true if a session that has seen the begin still records.
    #[inline(always)]
    fn is_recorded(&self) -> bool {
        self.begun.is_some_and(|begun| begun.active_slots() != 0)
    }

    #[inline(always)]
    fn end(&mut self, end: End) {
        if let Some(begun) = self.begun.take() {
            self.open.end();
            self.end_in(begun, self.site, &Placement::new(), &((), end));
        }
    }

    /// Writes the end into each session that has seen the begin. `site` has the names of the
    /// arguments in `parts`.
    #[inline(never)]
    fn end_in(
        &self,
        begun: BeginSessions,
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
    /// Returns true if a session that has seen the begin still records.
    #[doc(hidden)]
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.state.is_recorded()
    }

    /// Ends the span at the time of `placement`, with `parts`.
    #[doc(hidden)]
    pub fn end_with<P: EventParts>(
        self,
        site: &'static CallSite,
        placement: &Placement<'_>,
        parts: &P,
    ) {
        if let Some(begun) = self.state.begun.take() {
            self.state.open.end();
            self.state.end_in(begun, site, placement, parts);
        }
    }
}

impl Drop for PollGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        exchange_current(&mut self.state.track);
    }
}

/// Creates a new track as a child of the track of the future that is being polled, or of the
/// process.
fn track_under_current(name: Cow<'static, str>) -> Track {
    let current = CURRENT.try_with(|current| {
        let track = current.take();
        current.set(track.clone());
        track
    });
    match current {
        Ok(Some(current)) => current.unique_child(name),
        // No future is being polled, or the thread is ending.
        _ => Track::unique(name),
    }
}

/// Swaps `track` with the current track of the thread. Called before and after each poll, so the
/// second call undoes the first. Does nothing on a thread that is ending.
fn exchange_current(track: &mut Option<Track>) {
    // Fails only on a thread that is ending.
    let _ = CURRENT.try_with(|current| *track = current.replace(track.take()));
}

/// Returns the flow that joins the slices of a future. Its id is the uuid of the future's track.
fn flow_of(track: &Track) -> Flow {
    Flow::global(track.uuid())
}

/// Encodes the fields that `parts` write.
fn encode(parts: &impl EventParts, name_iids: &[u32]) -> Box<[u8]> {
    // `None` if an argument's formatting, further up the stack, is using the buffer. The buffer is
    // empty.
    let scratch = SCRATCH.try_with(Cell::take).ok().flatten();
    let mut scratch = scratch.unwrap_or_default();
    parts.write_all(&mut EventWriter::new(&mut scratch.message(), name_iids));
    let fields = scratch.to_vec().into_boxed_slice();
    scratch.reset();
    // On a thread that is ending, the buffer is dropped.
    let _ = SCRATCH.try_with(|kept| kept.set(Some(scratch)));
    fields
}

/// Encoded fields as a part of an event.
struct Encoded<'a>(&'a [u8]);

impl EventPart for Encoded<'_> {
    fn write(&self, event: &mut EventWriter<'_, '_>) {
        let out = event.event.as_message_mut();
        // Every async span has argument names. If there are none here, the session filters
        // arguments out.
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

/// The end of a flow, followed by other parts, whose formatting may panic. The flow comes first so
/// that it ends in any case.
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
