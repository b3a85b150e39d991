//! Which data sources there are, and which sessions record them.
//!
//! A session takes one of a few *slots*. Each data source carries a mask of the slots that record
//! it, so that a trace point decides with one relaxed load. What a thread keeps per data source and
//! slot is found by a *generation*, which counts every start and end of a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::BufferExhaustedPolicy;
use crate::commit::RingProgress;
use crate::consumer::ResolvedConfig;
use crate::error::Error;
use crate::ids::BufferId;
use crate::track_event::{CallSite, TRACK_EVENT};

/// Sessions that can run at once.
pub(crate) const SLOTS: usize = 8;

/// Bit of an active mask that says: nobody has asked the registry yet.
const UNREGISTERED: u32 = 1 << 31;

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    data_sources: Vec::new(),
    call_sites: Vec::new(),
    slots: [const { None }; SLOTS],
});

/// Counts starts and ends of sessions.
static GENERATION: AtomicU64 = AtomicU64::new(1);

struct Registry {
    /// In the order of their indices.
    data_sources: Vec<&'static DataSourceState>,
    call_sites: Vec<&'static CallSite>,
    slots: [Option<Slot>; SLOTS],
}

/// A session on the producer's side.
struct Slot {
    /// The generation that began with this session.
    generation: u64,
    config: Arc<ResolvedConfig>,
    /// In the order of the configuration.
    buffers: Vec<SessionBuffer>,
}

/// A buffer of a session, as writers know it.
pub(crate) struct SessionBuffer {
    pub(crate) id: BufferId,
    pub(crate) progress: Arc<RingProgress>,
}

/// The slots that record something, as a bit mask that is read without a lock.
#[derive(Debug)]
pub(crate) struct ActiveSlots(AtomicU32);

impl ActiveSlots {
    pub(crate) const fn unregistered() -> Self {
        Self(AtomicU32::new(UNREGISTERED))
    }

    /// The mask; `register` is called first if that never happened.
    #[inline(always)]
    pub(crate) fn load(&self, register: impl FnOnce()) -> u32 {
        // Relaxed: whoever goes on because a bit is set synchronizes in `generation`.
        let mask = self.0.load(Ordering::Relaxed);
        if mask & UNREGISTERED == 0 {
            return mask;
        }
        register();
        self.0.load(Ordering::Relaxed)
    }

    /// Called with the registry locked.
    fn store(&self, mask: u32) {
        // Release pairs with the fence in `generation`: a thread that sees this mask also sees the
        // generation that came before it.
        self.0.store(mask, Ordering::Release);
    }
}

/// The generation that masks read before belong to, or a later one.
#[inline(always)]
pub(crate) fn generation() -> u64 {
    // Acquire pairs with the release in `ActiveSlots::store`.
    std::sync::atomic::fence(Ordering::Acquire);
    GENERATION.load(Ordering::Relaxed)
}

/// What the SDK keeps for a type of data source: one `static` each, made by
/// [`data_source!`](crate::data_source).
#[derive(Debug)]
pub struct DataSourceState {
    name: &'static str,
    active: ActiveSlots,
    /// Position in the registry; meaningful once registered.
    index: AtomicUsize,
}

impl DataSourceState {
    /// The state of the data source `name`.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            active: ActiveSlots::unregistered(),
            index: AtomicUsize::new(0),
        }
    }

    /// The slots that record this data source.
    #[inline(always)]
    pub(crate) fn active_slots(&'static self) -> u32 {
        self.active.load(|| self.register())
    }

    /// Position of what a thread keeps for this data source and `slot`.
    #[inline(always)]
    pub(crate) fn instance_index(&self, slot: usize) -> usize {
        // Relaxed: the index was stored before the mask that led here (see `register`).
        self.index.load(Ordering::Relaxed) * SLOTS + slot
    }

    #[cold]
    fn register(&'static self) {
        REGISTRY.lock().register(self);
    }
}

impl Registry {
    fn register(&mut self, data_source: &'static DataSourceState) {
        let known = self
            .data_sources
            .iter()
            .any(|other| std::ptr::eq(*other, data_source));
        if !known {
            // Relaxed: the mask that is stored next, with release, publishes it.
            data_source
                .index
                .store(self.data_sources.len(), Ordering::Relaxed);
            self.data_sources.push(data_source);
        }
        data_source.active.store(self.mask_of(data_source.name));
    }

    fn mask_of(&self, data_source: &str) -> u32 {
        let records = |slot: &Option<Slot>| {
            slot.as_ref()
                .is_some_and(|slot| slot.config.data_source(data_source).is_some())
        };
        self.slots
            .iter()
            .enumerate()
            .map(|(index, slot)| u32::from(records(slot)) << index)
            .sum()
    }

    /// Brings all masks up to date after a slot was taken or left.
    fn update_masks(&mut self) {
        for data_source in &self.data_sources {
            data_source.active.store(self.mask_of(data_source.name));
        }
        let track_event = self.mask_of(TRACK_EVENT.name);
        for call_site in &self.call_sites {
            call_site.active().store(track_event);
        }
    }
}

/// Adds a call site of the track-event macros.
#[cold]
pub(crate) fn register_call_site(call_site: &'static CallSite) {
    let mut registry = REGISTRY.lock();
    registry.register(&TRACK_EVENT);
    let known = registry
        .call_sites
        .iter()
        .any(|other| std::ptr::eq(*other, call_site));
    if !known {
        call_site.intern();
        registry.call_sites.push(call_site);
    }
    call_site.active().store(registry.mask_of(TRACK_EVENT.name));
}

/// Starts recording into the buffers of a session; returns the slot it takes.
pub(crate) fn start_session(
    config: &Arc<ResolvedConfig>,
    buffers: Vec<SessionBuffer>,
) -> Result<usize, Error> {
    let mut registry = REGISTRY.lock();
    let slot = registry
        .slots
        .iter()
        .position(Option::is_none)
        .ok_or(Error::TooManySessions { limit: SLOTS })?;
    registry.slots[slot] = Some(Slot {
        generation: advance_generation(),
        config: Arc::clone(config),
        buffers,
    });
    registry.update_masks();
    Ok(slot)
}

/// Ends recording into a slot. Trace points that are under way finish.
pub(crate) fn stop_session(slot: usize) {
    let mut registry = REGISTRY.lock();
    registry.slots[slot] = None;
    advance_generation();
    registry.update_masks();
}

/// Called with the registry locked.
fn advance_generation() -> u64 {
    // Relaxed: the masks that are stored afterwards, with release, publish it.
    GENERATION.fetch_add(1, Ordering::Relaxed) + 1
}

/// Where a data source writes to in a session that records it.
pub(crate) struct Target {
    /// The generation that began with the session.
    pub(crate) generation: u64,
    pub(crate) buffer_id: BufferId,
    pub(crate) progress: Arc<RingProgress>,
    pub(crate) exhausted_policy: BufferExhaustedPolicy,
}

/// The target of `data_source` in the session of `slot`, if there is one and it records it.
#[cold]
pub(crate) fn target(data_source: &DataSourceState, slot: usize) -> Option<Target> {
    let registry = REGISTRY.lock();
    let slot = registry.slots[slot].as_ref()?;
    let target = slot.config.data_source(data_source.name)?;
    let buffer = &slot.buffers[target.buffer_index];
    Some(Target {
        generation: slot.generation,
        buffer_id: buffer.id,
        progress: Arc::clone(&buffer.progress),
        exhausted_policy: target.exhausted_policy,
    })
}

/// The generation of the session in `slot`; `None` if no session has it.
#[cold]
pub(crate) fn slot_generation(slot: usize) -> Option<u64> {
    Some(REGISTRY.lock().slots[slot].as_ref()?.generation)
}
