//! The layer: its callbacks for `tracing`, and what they record for a span.

use std::sync::atomic::{AtomicU32, Ordering};

use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Dispatch, Event, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::async_slice::begin_async_slice;
use super::entered_spans::{self, EnteredSpan};
use super::event::{record_event, with_header};
use super::fields::{NameFields, Scratch, with_scratch};
use super::first_enter::Enter;
use super::site::{Pattern, Site, site_of};
use super::spans::{Slot, SpanState, Spans};
use super::trace_context::TraceContextOf;
use tracezero_core::clock;
use tracezero_core::forked_child;
use tracezero_track_event::{
    BeginSessions, Encoded, EventTime, Flow, Links, SlicePosition, TRACK_EVENT, Traceparent,
};

/// A layer that records the spans and events of [`tracing`](https://docs.rs/tracing) while sessions
/// run.
///
/// ```
/// use tracing_subscriber::layer::SubscriberExt as _;
///
/// let subscriber = tracing_subscriber::registry().with(tracezero::layer());
/// # tracing::subscriber::with_default(subscriber, || {
/// let session = tracezero::InMemorySession::start()?;
/// let _span = tracing::info_span!("read_file", path = "Cargo.toml").entered();
/// tracing::info!(bytes = 1234, "read");
/// # assert_eq!(session.finish().1.events, 2);
/// # Ok::<(), tracezero::Error>(())
/// # })?;
/// # Ok::<(), tracezero::Error>(())
/// ```
///
/// The [guide](crate::guide#spans-of-the-tracing-crate) describes how spans and events appear in a
/// trace.
#[must_use]
pub fn layer() -> TracingLayer {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    TracingLayer {
        // Relaxed: the numbers only have to differ.
        number: NEXT.fetch_add(1, Ordering::Relaxed),
        spans: Spans::new(),
        async_spans: AsyncSpans::Both,
        name_fields: Vec::new(),
        trace_context: None,
    }
}

/// A layer of `tracing-subscriber` that records spans and events. Created by [`layer`].
#[derive(Debug)]
pub struct TracingLayer {
    /// The number of the layer, which distinguishes its spans from those of other layers.
    number: u32,
    pub(super) spans: Spans,
    async_spans: AsyncSpans,
    name_fields: Vec<String>,
    trace_context: Option<TraceContextOf>,
}

/// The way in which a span that is entered more than once, like the span of a future, appears in
/// the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AsyncSpans {
    /// One slice on a track of its own, from the first enter to the close, and a slice on a thread
    /// for each enter. A flow joins them.
    #[default]
    Both,
    /// Only a slice on a thread for each enter.
    OnThreads,
}

impl TracingLayer {
    /// Sets how spans that are entered more than once appear in the trace.
    #[must_use]
    pub fn async_spans(mut self, async_spans: AsyncSpans) -> Self {
        self.async_spans = async_spans;
        self
    }

    /// Sets the fields whose values become part of the names of spans: `system{name=movement}`.
    /// Viewers group by names, and queries search for them.
    #[must_use]
    pub fn name_fields<N: Into<String>>(mut self, fields: impl IntoIterator<Item = N>) -> Self {
        self.name_fields = fields.into_iter().map(Into::into).collect();
        self
    }

    /// Sets a function that returns the W3C trace context of a span: that of the span itself, not of its
    /// parent. The id of its trace becomes the correlation id of the span. If the field `otel.kind` says
    /// that the span is a call to another service (`client` or `producer`), an arrow leads to the span
    /// there that has the header of the call in its field `traceparent`.
    ///
    /// The function gets the id of the span, and the subscriber. It is called when the span is first
    /// entered, after layers that were added before this one. With `tracing-opentelemetry` from version
    /// 0.34 on:
    ///
    /// ```
    /// # mod stand_in {
    /// #     pub mod opentelemetry {
    /// #         pub mod trace {
    /// #             pub trait TraceContextExt { fn span(&self) -> super::Span; }
    /// #             impl TraceContextExt for super::Context {
    /// #                 fn span(&self) -> super::Span { super::Span }
    /// #             }
    /// #         }
    /// #         pub struct Context;
    /// #         pub struct Span;
    /// #         impl Span { pub fn span_context(&self) -> &Self { self } }
    /// #         impl Span { pub fn trace_id(&self) -> Id<16> { Id([1; 16]) } }
    /// #         impl Span { pub fn span_id(&self) -> Id<8> { Id([2; 8]) } }
    /// #         impl Span { pub fn trace_flags(&self) -> Id<1> { Id([1]) } }
    /// #         pub struct Id<const N: usize>([u8; N]);
    /// #         impl<const N: usize> Id<N> { pub fn to_bytes(&self) -> [u8; N] { self.0 } }
    /// #         impl Id<1> { pub fn to_u8(&self) -> u8 { self.0[0] } }
    /// #     }
    /// #     pub mod tracing_opentelemetry {
    /// #         pub fn get_otel_context(
    /// #             _: &tracing::Id,
    /// #             _: &tracing::Dispatch,
    /// #         ) -> Option<super::opentelemetry::Context> {
    /// #             Some(super::opentelemetry::Context)
    /// #         }
    /// #         pub fn layer() -> tracing_subscriber::layer::Identity { Default::default() }
    /// #     }
    /// # }
    /// # use stand_in::{opentelemetry, tracing_opentelemetry};
    /// use opentelemetry::trace::TraceContextExt as _;
    /// use tracezero::Traceparent;
    /// use tracing_opentelemetry::get_otel_context;
    /// use tracing_subscriber::layer::SubscriberExt as _;
    ///
    /// let tracezero = tracezero::layer().trace_context(|id, subscriber| {
    ///     let context = get_otel_context(id, subscriber)?;
    ///     let span = context.span();
    ///     let span = span.span_context();
    ///     Traceparent::new(
    ///         u128::from_be_bytes(span.trace_id().to_bytes()),
    ///         u64::from_be_bytes(span.span_id().to_bytes()),
    ///         span.trace_flags().to_u8(),
    ///     )
    /// });
    /// let subscriber = tracing_subscriber::registry()
    ///     .with(tracing_opentelemetry::layer())
    ///     .with(tracezero);
    /// # tracing::subscriber::with_default(subscriber, || {
    /// # let session = tracezero::InMemorySession::start()?;
    /// # tracing::info_span!("call", otel.kind = "client").in_scope(|| ());
    /// # let (trace, _) = session.finish();
    /// # let id = [b"01".repeat(16)].concat();
    /// # assert!(trace.windows(id.len()).any(|it| it == id));
    /// # Ok::<(), tracezero::Error>(())
    /// # })?;
    /// # Ok::<(), tracezero::Error>(())
    /// ```
    ///
    /// Earlier versions have the ids in the span's extensions: their `get_otel_context` takes these, or they
    /// have a type `OtelData`. The extensions are
    /// `subscriber.downcast_ref::<Registry>()?.span(id)?.extensions_mut()`.
    #[must_use]
    pub fn trace_context<F>(mut self, context_of: F) -> Self
    where
        F: Fn(&Id, &Dispatch) -> Option<Traceparent> + Send + Sync + 'static,
    {
        self.trace_context = Some(TraceContextOf::new(context_of));
        self
    }

    /// Handles the creation of a span.
    #[inline(never)]
    fn create(&self, attributes: &Attributes<'_>, id: &Id) {
        let Some(site) = site_of(attributes.metadata()) else {
            return;
        };
        let slots = site.call_site.active_slots();
        if slots == 0 {
            return;
        }
        let id = id.into_u64();
        if attributes.values().is_empty() {
            self.spans.add(id, site);
            return;
        }
        with_scratch(|scratch| {
            scratch.take(site, slots, |values| attributes.record(values));
            if !self.name_fields.is_empty() {
                self.write_name(attributes, scratch);
            }
            let Some(slot) = self.spans.add(id, site) else {
                scratch.take_call();
                return;
            };
            slot.describe(&scratch.args, &scratch.name);
            if scratch.has_call() {
                add_call(scratch, slot);
            }
        });
    }

    fn write_name(&self, attributes: &Attributes<'_>, scratch: &mut Scratch) {
        scratch.name.push_str(attributes.metadata().name());
        let mut fields = NameFields::new(&self.name_fields, &mut scratch.name);
        attributes.record(&mut fields);
        if !fields.finish() {
            scratch.name.clear();
        }
    }

    #[inline(never)]
    fn enter_recorded<S>(&self, id: &Id, context: &Context<'_, S>)
    where
        S: Subscriber + for<'l> LookupSpan<'l>,
    {
        entered_spans::enter(|| self.enter(id, context));
    }

    /// Records that the thread enters a span.
    #[inline]
    fn enter<S>(&self, id: &Id, context: &Context<'_, S>) -> Option<EnteredSpan>
    where
        S: Subscriber + for<'l> LookupSpan<'l>,
    {
        let number = id.into_u64();
        let (slot_index, slot) = match self.spans.find(number) {
            Some(found) => found,
            // The span was created while no session recorded it.
            None => self
                .spans
                .add_late(number, site_of(context.metadata(id)?)?)?,
        };
        let site = slot.site()?;
        let begun = BeginSessions::in_slots(site.call_site.active_slots())?;
        if let Some(trace_context) = &self.trace_context {
            trace_context.learn(id, slot);
        }
        let entered = |slice| EnteredSpan {
            layer: self.number,
            id: number,
            site,
            slice,
            slot: slot_index,
            args_len: 0,
        };
        // A capture must not depend on anything recorded before it.
        let is_captured = begun.is_captured();
        let is_plain = slot.is_state_unused()
            && (self.async_spans == AsyncSpans::OnThreads
                || (!is_captured && site.pattern() == Pattern::Unknown));
        if is_plain {
            let time = EventTime::Now(clock::event_now_ns());
            if slot.first_enter.claim(Enter::now(time, begun)) {
                return site.call_site.begin_plain(begun, time).map(entered);
            }
        }
        let mut span = slot.lock();
        let time = EventTime::Now(clock::event_now_ns());
        let is_first = note_enter(slot, site, time, begun);
        if self.async_spans == AsyncSpans::Both {
            let pattern = site.pattern();
            if is_first && (is_captured || pattern != Pattern::Unknown) {
                span.flow.get_or_insert_with(Flow::new);
            }
            if !is_first || (!is_captured && pattern == Pattern::Asynchronous) {
                let parent = || self.parent_track(begun, id, context);
                let slots = begun.slots();
                begin_async_slice(slot, &mut span, site, slots, time, parent);
            }
        }
        let slice = begin_poll(&mut span, site, begun, time, is_first)?;
        Some(EnteredSpan {
            args_len: span.args.len(),
            ..entered(slice)
        })
    }

    /// Records that the thread leaves a span.
    #[inline(never)]
    fn exit(&self, id: &Id) {
        let end = |left: &EnteredSpan, time| {
            let late = self.spans.at(left.slot, left.id);
            let late = late.filter(|slot| {
                // In a forked child the lock may be held by a thread that exists only in the
                // parent.
                slot.args_len() > left.args_len && !forked_child::is_disabled()
            });
            match late {
                Some(slot) => end_late(left, time, &mut slot.lock()),
                None => left.end(time, Encoded::new(&[], &[])),
            }
        };
        entered_spans::exit(self.number, id.into_u64(), end);
    }

    /// Records the end of a span.
    #[inline(never)]
    fn close(&self, id: &Id) {
        self.spans.remove(id.into_u64(), |site, span| {
            if let Some(async_slice) = &mut span.async_slice
                && let Some(begun) = async_slice.begun
            {
                async_slice.open.end();
                let time = EventTime::Now(clock::event_now_ns());
                let args = span.args.get(async_slice.args_len..).unwrap_or_default();
                let links = Links {
                    last_flow: span.flow,
                    request: None,
                };
                let end = Encoded::new(args, &[]).linked(&links);
                let call_site = &site.call_site;
                call_site.end_encoded(begun, time, &async_slice.track, end);
            }
        });
    }

    /// Adds values that are recorded after the span's creation.
    fn record(&self, id: &Id, values: &Record<'_>) {
        let Some((_, slot)) = self.spans.find(id.into_u64()) else {
            return;
        };
        let Some(site) = slot.site() else { return };
        with_scratch(|scratch| {
            scratch.take(site, 0, |to| values.record(to));
            slot.add_args(&scratch.args);
            if scratch.has_call() {
                slot.lock().linked().add_call(scratch.take_call());
            }
        });
    }

    /// Records that a span follows from another one.
    fn follow(&self, id: &Id, follows: &Id) {
        let Some((_, slot)) = self.spans.find(follows.into_u64()) else {
            return;
        };
        let flow = {
            let mut cause = slot.lock();
            if let Some(site) = slot.site() {
                site.note(Pattern::Followed);
            }
            if slot.first_enter.is_claimed() && cause.flow.is_none() {
                // The slice of the other span was already recorded without a flow. Later spans of
                // the same call site get one.
                return;
            }
            *cause.flow.get_or_insert_with(Flow::new)
        };
        if let Some((_, slot)) = self.spans.find(id.into_u64()) {
            slot.lock().linked().add_cause(flow);
        }
    }
}

/// Stores an enter if it is the first one, and returns whether it is. If a span was entered before
/// a capture began, the capture has a first enter of its own. The slot must be locked.
#[inline]
fn note_enter(slot: &Slot, site: &'static Site, time: EventTime, begun: BeginSessions) -> bool {
    let enter = Enter::now(time, begun);
    if slot.first_enter.claim(enter) {
        return true;
    }
    let is_new = |first: Enter| begun.is_new_to_capture(first.seen_by);
    if slot.first_enter.get().is_some_and(is_new) {
        slot.first_enter.set(enter);
        return true;
    }
    site.note(Pattern::Asynchronous);
    false
}

/// Begins the slice of an enter on the thread.
#[inline]
fn begin_poll(
    span: &mut SpanState,
    site: &'static Site,
    begun: BeginSessions,
    time: EventTime,
    is_first: bool,
) -> Option<SlicePosition> {
    let (call_site, placement) = site.named(&span.name);
    let args = match &span.async_slice {
        // The first slice, and the slice on the span's own track, have the arguments already.
        Some(_) if !is_first => &[][..],
        _ => &span.args,
    };
    if !span.is_linked {
        let parts = Encoded::new(args, span.flow.as_slice());
        return call_site.begin_encoded(begun, time, &placement, parts, span.flow);
    }
    let linked = &mut span.linked;
    linked.causes.extend(span.flow);
    let links = linked.links();
    let parts = Encoded::new(args, &linked.causes).linked(&links);
    let slice = call_site.begin_encoded(begun, time, &placement, parts, span.flow);
    linked.forget_causes();
    slice
}

/// Gives a span what its fields tell about a call between services.
#[cold]
#[inline(never)]
fn add_call(scratch: &mut Scratch, slot: &Slot) {
    let call = scratch.take_call();
    slot.lock().linked().add_call(call);
}

/// Ends the slice of an enter since which values were recorded.
#[inline(never)]
fn end_late(left: &EnteredSpan, time: EventTime, span: &mut SpanState) {
    let header = match span.is_linked {
        true => span.linked.take_late_header(),
        false => None,
    };
    let parts = Encoded::new(span.args_after(left.args_len), &[]);
    match header {
        None => left.end(time, parts),
        header => with_header(header, parts, |parts| left.end(time, parts)),
    }
}

/// Returns whether any session records track events.
#[inline(always)]
fn is_recorded() -> bool {
    TRACK_EVENT.active_slots() != 0
}

// All spans and events are enabled, even while no session runs: if one layer disables a span, it is
// disabled for all layers. Each method first checks whether there is anything to record, and
// returns if there is not. The code behind the check is not inlined, so that the check alone needs
// no stack frame.
impl<S> tracing_subscriber::Layer<S> for TracingLayer
where
    S: Subscriber + for<'l> LookupSpan<'l>,
{
    fn on_register_dispatch(&self, subscriber: &Dispatch) {
        if let Some(trace_context) = &self.trace_context {
            trace_context.note_subscriber(subscriber);
        }
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if is_recorded() {
            self.create(attributes, id);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        if is_recorded() {
            self.record(id, values);
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, _: Context<'_, S>) {
        if is_recorded() {
            self.follow(id, follows);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if is_recorded() {
            record_event(event);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if is_recorded() {
            self.enter_recorded(id, &context);
        }
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        if entered_spans::is_in_any() {
            self.exit(id);
        }
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        if !self.spans.is_unused() {
            self.close(&id);
        }
    }
}
