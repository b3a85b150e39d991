//! The open spans by id, with the data that slices need after the span's creation.
//!
//! Slots are reused and keep their memory, so a new span allocates nothing. Ids of open spans are
//! unique but otherwise arbitrary: the subscriber may hash or pack them.
//!
//! Most spans are entered once, by one thread, and get no values after their creation. A span
//! without fields then does not touch the locked state of its slot: a few atomics are enough.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::fields::Call;
use super::first_enter::FirstEnter;
use super::growing_table::{BucketIndex, GrowingTable};
use super::site::{Site, SiteIndex, site_at};
use tracezero_core::forked_child;
use tracezero_track_event::{
    BeginSessions, Flow, Links, OpenAsyncSlice, Traceparent, Track, note_cut_arg,
};

/// The number of slots of a bucket.
const BUCKET_SLOTS: usize = 4;
/// The size of a span's arguments at most. Values beyond it are left out, since a span may never
/// end.
const ARGS_MAX_BYTES: usize = 64 * 1024;
/// The id of a slot while a span is added that was created before recording began. Meanwhile a span
/// with this very id would find the slot. If ids are hashes, one span in 2^64 has it.
const TAKEN: u64 = u64::MAX;
/// The number of spans that one span can follow from.
const CAUSES_MAX: usize = 8;

/// The open spans of a layer.
#[derive(Debug)]
pub(super) struct Spans {
    table: GrowingTable<Bucket>,
    /// Held while spans are added that were created before recording began.
    late: Mutex<()>,
}

#[derive(Debug, Default)]
struct Bucket {
    /// The ids of the spans: 0 for a free slot, [`TAKEN`] for a slot that `add_late` is filling.
    ids: [AtomicU64; BUCKET_SLOTS],
    slots: [Slot; BUCKET_SLOTS],
}

/// A slot for an open span.
///
/// The thread that adds a span stores here with relaxed ordering: the span's id publishes it.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// The [`SiteIndex`] of the call site.
    site: AtomicU32,
    /// The size of the arguments in bytes, which only grows.
    args_len: AtomicU32,
    /// True if there is something to record when the span ends.
    has_end: AtomicBool,
    /// True if `state` still holds the data of an earlier span, because this one has none yet.
    is_state_unused: AtomicBool,
    pub(super) first_enter: FirstEnter,
    state: Mutex<SpanState>,
}

/// The position of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotIndex {
    bucket: BucketIndex,
    slot: u8,
}

/// The data of an open span.
#[derive(Debug, Default)]
pub(super) struct SpanState {
    /// A dynamic name; empty if the span has the name of its call site.
    pub(super) name: String,
    /// The encoded arguments.
    pub(super) args: Vec<u8>,
    /// The flow that joins the slices of the span. The first slice lacks the flow if nobody knew,
    /// when it began, that there would be more slices.
    pub(super) flow: Option<Flow>,
    /// True if the span is linked to other spans.
    pub(super) is_linked: bool,
    /// Holds what an earlier span has left, unless `is_linked` is true.
    pub(super) linked: Linked,
    pub(super) async_slice: Option<AsyncSlice>,
}

/// What links a span to other spans.
#[derive(Debug, Default)]
pub(super) struct Linked {
    /// The flows of spans that this one follows from and of headers, until it is entered.
    pub(super) causes: Vec<Flow>,
    /// The request that the span belongs to.
    request: Option<Traceparent>,
    /// True if `request` is a header whose flow is among `causes`.
    is_header_due: bool,
    /// True if the span is a call to another service, as OpenTelemetry's field `otel.kind` says.
    is_outgoing: bool,
}

/// The slice of an asynchronous span, from the first enter to the close.
#[derive(Debug)]
pub(super) struct AsyncSlice {
    pub(super) track: Track,
    pub(super) begun: Option<BeginSessions>,
    pub(super) open: OpenAsyncSlice,
    /// The size of the arguments that the slice's begin had, in bytes.
    pub(super) args_len: usize,
}

impl Spans {
    pub(super) const fn new() -> Self {
        Self {
            table: GrowingTable::new(),
            late: Mutex::new(()),
        }
    }

    /// Returns the slot of an open span.
    #[inline]
    pub(super) fn find(&self, id: u64) -> Option<(SlotIndex, &Slot)> {
        self.table.buckets(id).find_map(|(bucket_index, bucket)| {
            let ids = bucket.ids.iter();
            // Acquire pairs with the release in `add_late`: the slot holds the data of this span.
            let slot = ids
                .map(|other| other.load(Ordering::Acquire))
                .position(|other| other == id)?;
            let index = SlotIndex {
                bucket: bucket_index,
                slot: slot as u8,
            };
            Some((index, bucket.slots.get(slot)?))
        })
    }

    /// Returns the slot of a span, if it is still open.
    #[inline]
    pub(super) fn at(&self, index: SlotIndex, id: u64) -> Option<&Slot> {
        let bucket = self.table.at(index.bucket)?;
        let slot = usize::from(index.slot);
        // Relaxed: only a thread that holds the span open calls this.
        let is_there = bucket.ids.get(slot)?.load(Ordering::Relaxed) == id;
        is_there.then(|| bucket.slots.get(slot)).flatten()
    }

    /// Adds a span that was just created, without data. Returns `None` if there is no room.
    ///
    /// Other threads may see its id before the rest of its slot. That is harmless: no other thread
    /// has the span yet, and the thread that hands it on publishes all of it.
    #[inline]
    pub(super) fn add(&self, id: u64, site: &'static Site) -> Option<&Slot> {
        let (_, slot) = self.take(id, id)?;
        slot.begin(site);
        Some(slot)
    }

    /// Adds a span that was created before recording began, unless another thread has added it
    /// meanwhile.
    #[cold]
    pub(super) fn add_late(&self, id: u64, site: &'static Site) -> Option<(SlotIndex, &Slot)> {
        let _late = self.late.lock();
        if self.find(id).is_none() {
            let (place, slot) = self.take(id, TAKEN)?;
            slot.begin(site);
            // Release pairs with the acquire in `find`: other threads may have the span already.
            place.store(id, Ordering::Release);
        }
        self.find(id)
    }

    /// Takes a free slot for a span and stores `taken` as its id.
    #[inline(always)]
    fn take(&self, id: u64, taken: u64) -> Option<(&AtomicU64, &Slot)> {
        self.table.all_buckets(id).find_map(|(_, bucket)| {
            let mut places = bucket.ids.iter().zip(&bucket.slots);
            places.find(|(place, _)| {
                // The load alone is faster for a slot in use. Acquire pairs with the release in
                // `remove`: this thread's accesses come after all those of the slot's previous
                // span.
                place.load(Ordering::Relaxed) == 0
                    && place
                        .compare_exchange(0, taken, Ordering::Acquire, Ordering::Relaxed)
                        .is_ok()
            })
        })
    }

    /// Returns whether no span was ever added.
    #[inline]
    pub(super) fn is_unused(&self) -> bool {
        self.table.is_unused()
    }

    /// Removes a span that has ended. If [`Slot::needs_end`] was called, `end` is called with the
    /// span's data.
    #[inline]
    pub(super) fn remove(&self, id: u64, end: impl FnOnce(&'static Site, &mut SpanState)) {
        let Some((index, slot)) = self.find(id) else {
            return;
        };
        // Relaxed: no thread has the span open any more, and the thread that closed it last has
        // synchronized with the others. In a forked child the lock may be held by a thread that
        // exists only in the parent.
        if slot.has_end.load(Ordering::Relaxed)
            && !forked_child::is_disabled()
            && let Some(site) = slot.site()
        {
            end(site, &mut slot.lock());
        }
        let bucket = self.table.at(index.bucket);
        if let Some(place) = bucket.and_then(|bucket| bucket.ids.get(usize::from(index.slot))) {
            // Release pairs with the acquire in `take`.
            place.store(0, Ordering::Release);
        }
    }
}

impl Slot {
    /// Prepares the slot for a new span.
    #[inline]
    fn begin(&self, site: &'static Site) {
        // Relaxed: see `Slot`.
        self.site.store(site.index.0, Ordering::Relaxed);
        self.args_len.store(0, Ordering::Relaxed);
        self.has_end.store(false, Ordering::Relaxed);
        self.is_state_unused.store(true, Ordering::Relaxed);
        self.first_enter.forget();
    }

    #[inline]
    pub(super) fn site(&self) -> Option<&'static Site> {
        // Relaxed: see `Slot`.
        site_at(SiteIndex(self.site.load(Ordering::Relaxed)))
    }

    /// Returns whether the span has no data but its call site. Another thread may add data at any
    /// time.
    #[inline]
    pub(super) fn is_state_unused(&self) -> bool {
        // Relaxed: data that is added at the same time as the span is entered counts as later.
        self.is_state_unused.load(Ordering::Relaxed)
    }

    /// Locks the span's data.
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, SpanState> {
        let mut state = self.state.lock();
        // Relaxed: the lock orders it.
        if self.is_state_unused.load(Ordering::Relaxed) {
            state.clear();
            self.is_state_unused.store(false, Ordering::Relaxed);
        }
        state
    }

    /// Stores the arguments and the name that the span has at its creation.
    #[inline]
    pub(super) fn describe(&self, args: &[u8], name: &str) {
        let mut state = self.lock();
        state.args.extend_from_slice(args);
        state.name.push_str(name);
        self.set_args_len(&state);
    }

    /// Notes that there is something to record when the span ends.
    #[inline]
    pub(super) fn needs_end(&self) {
        // Relaxed: as in `Spans::remove`.
        self.has_end.store(true, Ordering::Relaxed);
    }

    /// Returns the current size of the arguments in bytes.
    #[inline]
    pub(super) fn args_len(&self) -> usize {
        // Relaxed: a thread that sees a larger size locks the state.
        self.args_len.load(Ordering::Relaxed) as usize
    }

    /// Adds arguments.
    pub(super) fn add_args(&self, args: &[u8]) {
        let mut state = self.lock();
        if state.args.len() + args.len() <= ARGS_MAX_BYTES {
            state.args.extend_from_slice(args);
            self.set_args_len(&state);
        } else {
            note_cut_arg();
        }
    }

    #[inline]
    fn set_args_len(&self, state: &SpanState) {
        // Relaxed: as in `args_len`.
        let len = state.args.len() as u32;
        self.args_len.store(len, Ordering::Relaxed);
    }
}

impl Linked {
    /// Notes that the span follows from the span with this flow, or is one end of it.
    pub(super) fn add_cause(&mut self, flow: Flow) {
        if self.causes.len() < CAUSES_MAX {
            self.causes.push(flow);
        }
    }

    /// Notes what fields tell about calls between services.
    pub(super) fn add_call(&mut self, call: Call) {
        self.is_outgoing |= call.is_outgoing;
        if let Some(header) = call.header {
            self.request = Some(header);
            self.is_header_due = true;
            self.add_cause(header.flow());
        }
    }

    /// Notes the context that another layer has given to the span. A header counts more: another service
    /// knows its ids.
    pub(super) fn add_context(&mut self, context: Traceparent) {
        if self.request.is_none() {
            self.request = Some(context);
            if self.is_outgoing {
                self.add_cause(context.flow());
            }
        }
    }

    /// Returns what the slices of the span are written with.
    pub(super) fn links(&self) -> Links {
        Links {
            request: self.request,
            last_flow: None,
        }
    }

    /// Forgets the flows that the begin of a slice now has.
    pub(super) fn forget_causes(&mut self) {
        self.causes.clear();
        self.is_header_due = false;
    }

    /// Returns the header that was recorded since the slice began, and forgets its flow: the end of the
    /// slice has it.
    pub(super) fn take_late_header(&mut self) -> Option<Traceparent> {
        let header = self.request.filter(|_| self.is_header_due)?;
        self.is_header_due = false;
        self.causes.retain(|flow| *flow != header.flow());
        Some(header)
    }
}

impl SpanState {
    /// Returns what links the span to others. Most spans have nothing of it.
    #[cold]
    pub(super) fn linked(&mut self) -> &mut Linked {
        if !self.is_linked {
            self.is_linked = true;
            self.linked.causes.clear();
            self.linked.request = None;
            self.linked.is_header_due = false;
            self.linked.is_outgoing = false;
        }
        &mut self.linked
    }

    /// Returns the arguments after the first `len` bytes.
    pub(super) fn args_after(&self, len: usize) -> &[u8] {
        self.args.get(len..).unwrap_or_default()
    }

    /// Outlined, because most spans have no such slice.
    #[cold]
    #[inline(never)]
    fn forget_async_slice(&mut self) {
        self.async_slice = None;
    }

    #[inline]
    fn clear(&mut self) {
        self.name.clear();
        self.args.clear();
        self.flow = None;
        self.is_linked = false;
        if self.async_slice.is_some() {
            self.forget_async_slice();
        }
    }
}
