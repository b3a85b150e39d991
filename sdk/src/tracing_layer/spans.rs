//! The spans that are open, by their ids: what the begin of a slice needs later than their creation.
//!
//! A slot is used again by other spans and keeps its memory, so a new span allocates nothing. Ids of
//! open spans differ, but are anything: whoever gives them out may hash or pack them.
//!
//! Most spans are entered once, by one thread, and nothing is said of them after their creation. One
//! without fields leaves the state of its slot alone then: what it needs are a few atomics.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::first_enter::FirstEnter;
use super::levels::{BucketIndex, Levels};
use super::site::{Site, SiteIndex, site_at};
use tracezero_core::forked_child;
use tracezero_track_event::{Begun, Flow, Track, note_cut_arg};

/// Slots that share a bucket.
const BUCKET_SLOTS: usize = 4;
/// Values that are recorded later than this are left out: a span may go on for ever.
const ARGS_MAX_BYTES: usize = 64 * 1024;
/// In place of an id, while a slot is made that of a span that was created before. A span that has
/// this very id would find that slot meanwhile: where ids are hashes, one in 2^64 has.
const TAKEN: u64 = u64::MAX;
/// Spans that one span can follow from.
const CAUSES_MAX: usize = 8;

/// The open spans of a layer.
#[derive(Debug)]
pub(super) struct Spans {
    levels: Levels<Bucket>,
    /// Held while spans are added that were created before.
    late: Mutex<()>,
}

#[derive(Debug, Default)]
struct Bucket {
    /// 0 where no span is, [`TAKEN`] where one is about to be that was created before.
    ids: [AtomicU64; BUCKET_SLOTS],
    slots: [Slot; BUCKET_SLOTS],
}

/// A place for an open span.
///
/// What whoever adds a span stores here is relaxed: its id publishes it.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// A [`SiteIndex`].
    site: AtomicU32,
    /// Bytes of arguments there are. They only get more.
    args_len: AtomicU32,
    /// Whether there is something to do when the span ends.
    has_end: AtomicBool,
    /// Whether `state` is what a span before has left: nobody has said anything of this one.
    is_untold: AtomicBool,
    pub(super) first_enter: FirstEnter,
    state: Mutex<SpanState>,
}

/// Where a slot is.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotIndex {
    bucket: BucketIndex,
    slot: u8,
}

/// What was said of an open span.
#[derive(Debug, Default)]
pub(super) struct SpanState {
    /// Empty unless it has one of its own.
    pub(super) name: String,
    /// Encoded.
    pub(super) args: Vec<u8>,
    /// Joins the slices of the span, but for the first one if nobody knew then that there would be more.
    pub(super) flow: Option<Flow>,
    /// Flows of spans that this one follows from, until it is entered.
    pub(super) causes: Vec<Flow>,
    pub(super) life: Option<Life>,
}

/// The slice from the first enter to the end.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) track: Track,
    pub(super) begun: Option<Begun>,
    /// Arguments that its begin had.
    pub(super) args_len: usize,
}

impl Spans {
    pub(super) const fn new() -> Self {
        Self {
            levels: Levels::new(),
            late: Mutex::new(()),
        }
    }

    /// The slot of an open span.
    #[inline]
    pub(super) fn find(&self, id: u64) -> Option<(SlotIndex, &Slot)> {
        self.levels.buckets(id).find_map(|(bucket_index, bucket)| {
            let ids = bucket.ids.iter();
            // Acquire pairs with the release in `add`: the slot is that of the span.
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

    /// The slot of a span, if the span is still there.
    #[inline]
    pub(super) fn at(&self, index: SlotIndex, id: u64) -> Option<&Slot> {
        let bucket = self.levels.at(index.bucket)?;
        let slot = usize::from(index.slot);
        // Relaxed: only who has the span open comes here.
        let is_there = bucket.ids.get(slot)?.load(Ordering::Relaxed) == id;
        is_there.then(|| bucket.slots.get(slot)).flatten()
    }

    /// Adds a span that was just created, of which nothing is said. Without room it is left out.
    ///
    /// Its id may show before the rest of its slot: nobody else has the span yet, and whoever hands it
    /// on publishes all of it.
    #[inline]
    pub(super) fn add(&self, id: u64, site: &'static Site) -> Option<&Slot> {
        let (_, slot) = self.take(id, id)?;
        slot.begin(site);
        Some(slot)
    }

    /// Adds a span that was created before, unless another thread does.
    #[cold]
    pub(super) fn add_late(&self, id: u64, site: &'static Site) -> Option<(SlotIndex, &Slot)> {
        let _late = self.late.lock();
        if self.find(id).is_none() {
            let (place, slot) = self.take(id, TAKEN)?;
            slot.begin(site);
            // Release pairs with the acquire in `find`: other threads have the span already.
            place.store(id, Ordering::Release);
        }
        self.find(id)
    }

    /// A free slot for a span, which shows `taken` from now on.
    #[inline(always)]
    fn take(&self, id: u64, taken: u64) -> Option<(&AtomicU64, &Slot)> {
        self.levels.all_buckets(id).find_map(|(_, bucket)| {
            let mut places = bucket.ids.iter().zip(&bucket.slots);
            places.find(|(place, _)| {
                // The load alone is faster where a span is. Acquire pairs with the release in
                // `remove`: what follows comes after all that the span before did.
                place.load(Ordering::Relaxed) == 0
                    && place
                        .compare_exchange(0, taken, Ordering::Acquire, Ordering::Relaxed)
                        .is_ok()
            })
        })
    }

    /// Returns whether there never was a span.
    #[inline]
    pub(super) fn is_unused(&self) -> bool {
        self.levels.is_unused()
    }

    /// Removes a span that has ended. `end` is called with what is known of it, if
    /// [`Slot::needs_end`] was.
    #[inline]
    pub(super) fn remove(&self, id: u64, end: impl FnOnce(&'static Site, &SpanState)) {
        let Some((index, slot)) = self.find(id) else {
            return;
        };
        // Relaxed: nobody has the span open any more; the last one to close it saw what others did.
        // In a forked child, another thread of the parent may have had it locked.
        if slot.has_end.load(Ordering::Relaxed)
            && !forked_child::is_quiet()
            && let Some(site) = slot.site()
        {
            end(site, &slot.lock());
        }
        let bucket = self.levels.at(index.bucket);
        if let Some(place) = bucket.and_then(|bucket| bucket.ids.get(usize::from(index.slot))) {
            // Release pairs with the acquire in `add`.
            place.store(0, Ordering::Release);
        }
    }
}

impl Slot {
    /// A span is here from now on.
    #[inline]
    fn begin(&self, site: &'static Site) {
        // Relaxed: see `Slot`.
        self.site.store(site.index.0, Ordering::Relaxed);
        self.args_len.store(0, Ordering::Relaxed);
        self.has_end.store(false, Ordering::Relaxed);
        self.is_untold.store(true, Ordering::Relaxed);
        self.first_enter.forget();
    }

    #[inline]
    pub(super) fn site(&self) -> Option<&'static Site> {
        // Relaxed: see `Slot`.
        site_at(SiteIndex(self.site.load(Ordering::Relaxed)))
    }

    /// Whether nothing was said of the span but its call site. Something may be at any time, by
    /// another thread.
    #[inline]
    pub(super) fn is_untold(&self) -> bool {
        // Relaxed: what is said at the same time as the span is entered was said later.
        self.is_untold.load(Ordering::Relaxed)
    }

    /// What was said of the span, to be added to.
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, SpanState> {
        let mut state = self.state.lock();
        // Relaxed: the lock orders it.
        if self.is_untold.load(Ordering::Relaxed) {
            state.clear();
            self.is_untold.store(false, Ordering::Relaxed);
        }
        state
    }

    /// Says what was known of the span when it was created.
    #[inline]
    pub(super) fn describe(&self, args: &[u8], name: &str) {
        let mut state = self.lock();
        state.args.extend_from_slice(args);
        state.name.push_str(name);
        self.set_args_len(&state);
    }

    /// There is something to do when the span ends.
    #[inline]
    pub(super) fn needs_end(&self) {
        // Relaxed: as in `Spans::remove`.
        self.has_end.store(true, Ordering::Relaxed);
    }

    /// Bytes of arguments there are by now.
    #[inline]
    pub(super) fn args_len(&self) -> usize {
        // Relaxed: whoever sees more of them locks the state.
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

impl SpanState {
    /// The span follows from the one with this flow.
    pub(super) fn add_cause(&mut self, flow: Flow) {
        if self.causes.len() < CAUSES_MAX {
            self.causes.push(flow);
        }
    }

    /// Arguments that were recorded after the first `len` bytes.
    pub(super) fn args_after(&self, len: usize) -> &[u8] {
        self.args.get(len..).unwrap_or_default()
    }

    #[inline]
    fn clear(&mut self) {
        self.name.clear();
        self.args.clear();
        self.flow = None;
        self.causes.clear();
        self.life = None;
    }
}
