//! Which data sources there are, and which sessions record them.
//!
//! An instance of a data source in a session takes one of a few *slots*, the same one for all data
//! sources of a session. Each data source carries a mask of the slots that record it, so that a
//! trace point decides with one relaxed load. What a thread keeps per data source and slot is found
//! by a *generation*, which counts every start and stop of an instance.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, ReentrantMutex};

use super::BufferExhaustedPolicy;
use super::thread_writers;
use crate::commit::RingProgress;
use crate::coordination::{
    DataSourceDescriptor, DataSourceSetup, FlushFlags, Producer, ServiceControl, WriterTotals,
};
use crate::forked_child;
use crate::ids::{BufferId, FlushId, InstanceId, SessionId};
use crate::runtime;
use crate::track_event::{CallSite, DeclaredCategories, EventConfig, EventOptions, TRACK_EVENT};

/// Sessions that can run at once; one that lists a data source several times counts so often.
pub(crate) const SLOTS: usize = 16;

/// Bit of an active mask that says: nobody has asked the registry yet.
const UNREGISTERED: u32 = 1 << 31;

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    service: None,
    data_sources: Vec::new(),
    switches: Vec::new(),
    slots: [const { None }; SLOTS],
    instances: BTreeMap::new(),
});

/// Held while a data source makes itself known: other threads that reach it wait until sessions
/// that want it have started it. Trace points inside of its own start do not.
static REGISTERING: ReentrantMutex<()> = ReentrantMutex::new(());

/// Counts starts and stops of instances.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// The generation of a forked child, in which no data source records.
const QUIET: u64 = u64::MAX;

struct Registry {
    /// `None` until the first session.
    service: Option<Arc<dyn ServiceControl>>,
    /// In the order of their indices.
    data_sources: Vec<&'static DataSourceState>,
    switches: Vec<Switch>,
    slots: [Option<Slot>; SLOTS],
    instances: BTreeMap<InstanceId, RegisteredInstance>,
}

/// What a slot stands for: a session, and which of its entries for a data source.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Slot {
    session: SessionId,
    ordinal: usize,
}

/// Something that is on while a session records a category.
#[derive(Clone, Copy)]
struct Switch {
    category: &'static str,
    active: &'static ActiveSlots,
}

struct RegisteredInstance {
    setup: DataSourceSetup,
    /// Which track events it records, and how; `None` for other data sources.
    events: Option<EventConfig>,
    slot: usize,
    /// The generation that began with its start; `None` while it does not record.
    generation: Option<u64>,
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
        self.0.load(Ordering::Relaxed) & !UNREGISTERED
    }

    /// Called with the registry locked.
    fn store(&self, mask: u32) {
        // Release pairs with the fence in `generation`: a thread that sees this mask also sees the
        // generation that came before it.
        self.0.store(mask, Ordering::Release);
    }

    fn is_registered(&self) -> bool {
        // Relaxed: only a reason to look closer.
        self.0.load(Ordering::Relaxed) & UNREGISTERED == 0
    }
}

/// The generation that masks read before belong to, or a later one.
#[inline(always)]
pub(crate) fn generation() -> u64 {
    // Acquire pairs with the release in `ActiveSlots::store`.
    std::sync::atomic::fence(Ordering::Acquire);
    GENERATION.load(Ordering::Relaxed)
}

/// Has all trace points of this process record nothing from now on. Called in a forked child.
pub(crate) fn go_quiet() {
    // Relaxed: the child has one thread.
    GENERATION.store(QUIET, Ordering::Relaxed);
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

    /// The name that configurations know it by.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// The slots that record this data source.
    #[inline(always)]
    pub(crate) fn active_slots(&'static self) -> u32 {
        self.active.load(|| register_unless_nested(self))
    }

    /// Position of what a thread keeps for this data source and `slot`.
    #[inline(always)]
    pub(crate) fn instance_index(&self, slot: usize) -> usize {
        // Relaxed: the index was stored before the mask that led here (see `register`).
        self.index.load(Ordering::Relaxed) * SLOTS + slot
    }

    fn descriptor(&self) -> DataSourceDescriptor {
        let categories = if std::ptr::eq(self, &raw const TRACK_EVENT) {
            DeclaredCategories::lock().descriptors()
        } else {
            Vec::new()
        };
        DataSourceDescriptor {
            name: self.name.to_owned(),
            // Relaxed: the caller has locked the registry since the index was stored.
            id: self.index.load(Ordering::Relaxed) as u64 + 1,
            // So that what was written until then is scraped.
            notifies_stop: true,
            categories,
            ..DataSourceDescriptor::default()
        }
    }
}

/// Makes a data source known, unless a nested trace point has reached it: the next one will.
#[cold]
fn register_unless_nested(data_source: &'static DataSourceState) {
    if !thread_writers::is_nested() {
        register(data_source);
    }
}

/// Makes a data source known to the sessions there are, and to those to come.
fn register(data_source: &'static DataSourceState) {
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    let _registering = REGISTERING.lock();
    let service = {
        let mut registry = REGISTRY.lock();
        if !registry.add(data_source) {
            return;
        }
        registry.service.clone()
    };
    if let Some(service) = service {
        // Sets it up and starts it for sessions that want it, by the calls below.
        offer(&*service, data_source.descriptor());
        publish_categories(&*service);
    }
    REGISTRY.lock().update_masks();
}

/// Adds a call site of the track-event macros, unless it was reached by a nested one.
#[cold]
pub(crate) fn register_call_site(call_site: &'static CallSite) {
    if thread_writers::is_nested() {
        return;
    }
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    call_site.intern();
    add_switch(call_site.category, call_site.active());
}

/// Has `active` say from now on which slots record a category, unless it was reached by a nested
/// trace point.
#[cold]
pub(crate) fn register_switch(category: &'static str, active: &'static ActiveSlots) {
    if thread_writers::is_nested() {
        return;
    }
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    add_switch(category, active);
}

fn add_switch(category: &'static str, active: &'static ActiveSlots) {
    let _registering = REGISTERING.lock();
    if !TRACK_EVENT.active.is_registered() {
        register(&TRACK_EVENT);
    }
    let mut registry = REGISTRY.lock();
    if !active.is_registered() {
        registry.switches.push(Switch { category, active });
        active.store(registry.mask_of_category(category, &DeclaredCategories::lock()));
    }
}

/// Takes over what was declared: the service can tell of it, and switches follow new tags.
pub(crate) fn categories_changed() {
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    if !TRACK_EVENT.active.is_registered() {
        register(&TRACK_EVENT);
    }
    let service = {
        let mut registry = REGISTRY.lock();
        registry.update_masks();
        registry.service.clone()
    };
    if let Some(service) = service {
        publish_categories(&*service);
    }
}

/// Tells the service which categories there are.
fn publish_categories(service: &dyn ServiceControl) {
    loop {
        let descriptor = TRACK_EVENT.descriptor();
        // Refused until the data source has been offered; whoever offers it comes here afterwards.
        let _ = service.update_data_source(descriptor.clone());
        // Another thread may have declared more meanwhile, and have been faster.
        if descriptor == TRACK_EVENT.descriptor() {
            return;
        }
    }
}

/// From now on there is a service: it learns of the data sources that are known by now, and of
/// every other one when it is reached.
pub(crate) fn connect(service: &Arc<dyn ServiceControl>) {
    let _registering = REGISTERING.lock();
    let known: Vec<DataSourceDescriptor> = {
        let mut registry = REGISTRY.lock();
        registry.service = Some(Arc::clone(service));
        let known = registry.data_sources.iter();
        known.map(|data_source| data_source.descriptor()).collect()
    };
    for descriptor in known {
        offer(&**service, descriptor);
    }
    publish_categories(&**service);
}

fn offer(service: &dyn ServiceControl, descriptor: DataSourceDescriptor) {
    let registered = service.register_data_source(descriptor);
    debug_assert_eq!(registered, Ok(()), "only ids that are in use are refused");
}

/// Hits triggers by their names.
pub(crate) fn activate_triggers(names: &[&str]) {
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    let service = REGISTRY.lock().service.clone();
    if let Some(service) = service {
        service.activate_triggers(names);
    }
}

/// The data sources of this process, as the service calls them.
#[derive(Debug)]
pub(crate) struct ProcessProducer;

impl Producer for ProcessProducer {
    fn set_up_data_source(&self, instance: InstanceId, setup: &DataSourceSetup) {
        let is_track_event = setup.name == TRACK_EVENT.name;
        let events = is_track_event.then(|| EventConfig::decode(&setup.config));
        REGISTRY.lock().set_up(instance, setup, events);
    }

    fn change_data_source(&self, instance: InstanceId, config: &[u8]) {
        let changed = EventConfig::decode(config);
        let mut registry = REGISTRY.lock();
        let instance = registry.instances.get_mut(&instance);
        if let Some(events) = instance.and_then(|instance| instance.events.as_mut()) {
            // What is written already was written with the same options.
            events.filter = changed.filter;
            registry.update_masks();
        }
    }

    fn start_data_source(&self, instance: InstanceId) {
        let mut registry = REGISTRY.lock();
        if let Some(instance) = registry.instances.get_mut(&instance) {
            instance.generation = Some(advance_generation());
            registry.update_masks();
        }
    }

    fn stop_data_source(&self, instance: InstanceId) {
        let service = {
            let mut registry = REGISTRY.lock();
            registry.remove(instance);
            advance_generation();
            registry.update_masks();
            registry.service.clone()
        };
        thread_writers::leave_ended_sessions();
        if let Some(service) = service {
            service.notify_stopped(instance);
        }
    }

    fn flush(&self, flush: FlushId, _instances: &[InstanceId], _flags: FlushFlags) {
        // Commits are made at once, and what is in open chunks is scraped.
        let service = REGISTRY.lock().service.clone();
        if let Some(service) = service {
            service.acknowledge_flush(flush);
        }
    }

    fn clear_incremental_state(&self, instances: &[InstanceId]) {
        let registry = REGISTRY.lock();
        for instance in instances {
            if let Some(instance) = registry.instances.get(instance) {
                instance.setup.progress.advance(1);
            }
        }
    }

    fn writer_totals(&self) -> Vec<WriterTotals> {
        runtime::writer_totals()
    }
}

impl Registry {
    /// Returns whether the data source is new.
    fn add(&mut self, data_source: &'static DataSourceState) -> bool {
        let known = self
            .data_sources
            .iter()
            .any(|other| std::ptr::eq(*other, data_source));
        if !known {
            // Relaxed: the mask that is stored later, with release, publishes it.
            data_source
                .index
                .store(self.data_sources.len(), Ordering::Relaxed);
            self.data_sources.push(data_source);
        }
        !known
    }

    fn set_up(&mut self, id: InstanceId, setup: &DataSourceSetup, events: Option<EventConfig>) {
        let wanted = Slot {
            session: setup.session,
            ordinal: setup.ordinal,
        };
        let taken = self.slots.iter().position(|slot| *slot == Some(wanted));
        let free = || self.slots.iter().position(Option::is_none);
        // Without a slot it is not recorded; the service admits fewer sessions than there are.
        let Some(slot) = taken.or_else(free) else {
            return;
        };
        self.slots[slot] = Some(wanted);
        self.instances.insert(
            id,
            RegisteredInstance {
                setup: setup.clone(),
                events,
                slot,
                generation: None,
            },
        );
    }

    fn remove(&mut self, id: InstanceId) {
        let Some(removed) = self.instances.remove(&id) else {
            return;
        };
        let is_used = |instance: &RegisteredInstance| instance.slot == removed.slot;
        if !self.instances.values().any(is_used) {
            self.slots[removed.slot] = None;
        }
    }

    fn mask_of(&self, data_source: &str) -> u32 {
        self.instances
            .values()
            .filter(|instance| instance.generation.is_some() && instance.setup.name == data_source)
            .fold(0, |mask, instance| mask | 1 << instance.slot)
    }

    fn mask_of_category(&self, category: &str, declared: &DeclaredCategories) -> u32 {
        self.instances
            .values()
            .filter(|instance| instance.generation.is_some())
            .filter(|instance| {
                let events = instance.events.as_ref();
                events.is_some_and(|events| declared.are_enabled(category, &events.filter))
            })
            .fold(0, |mask, instance| mask | 1 << instance.slot)
    }

    /// Brings all masks up to date after an instance started or stopped, or its choice changed.
    fn update_masks(&mut self) {
        for data_source in &self.data_sources {
            data_source.active.store(self.mask_of(data_source.name));
        }
        let declared = DeclaredCategories::lock();
        for Switch { category, active } in &self.switches {
            active.store(self.mask_of_category(category, &declared));
        }
    }

    fn recording(&self, data_source: &str, slot: usize) -> Option<(u64, &RegisteredInstance)> {
        self.instances.values().find_map(|instance| {
            let is_it = instance.slot == slot && instance.setup.name == data_source;
            is_it.then_some((instance.generation?, instance))
        })
    }
}

/// Called with the registry locked.
fn advance_generation() -> u64 {
    // Relaxed: the masks that are stored afterwards, with release, publish it.
    GENERATION.fetch_add(1, Ordering::Relaxed) + 1
}

/// Where a data source writes to in a session that records it.
pub(crate) struct Target {
    /// The generation that began with the instance.
    pub(crate) generation: u64,
    pub(crate) buffer_id: BufferId,
    pub(crate) progress: Arc<RingProgress>,
    pub(crate) exhausted_policy: BufferExhaustedPolicy,
    pub(crate) stall_limit: Option<Duration>,
    /// For track events.
    pub(crate) options: EventOptions,
}

/// The target of `data_source` in the session of `slot`, if there is one and it records it.
#[cold]
pub(crate) fn target(data_source: &DataSourceState, slot: usize) -> Option<Target> {
    if forked_child::is_quiet() {
        return None;
    }
    let registry = REGISTRY.lock();
    let (generation, instance) = registry.recording(data_source.name, slot)?;
    let RegisteredInstance { setup, events, .. } = instance;
    Some(Target {
        generation,
        buffer_id: setup.target_buffer,
        progress: Arc::clone(&setup.progress),
        exhausted_policy: setup.exhausted_policy,
        stall_limit: setup.stall_limit,
        options: events
            .as_ref()
            .map_or(EventOptions::DEFAULT, |events| events.options),
    })
}

/// Whether what a thread keeps at `instance_index` since `generation` still records.
#[cold]
pub(crate) fn is_current(instance_index: usize, generation: u64) -> bool {
    let registry = REGISTRY.lock();
    let data_source = registry.data_sources[instance_index / SLOTS];
    let recording = registry.recording(data_source.name, instance_index % SLOTS);
    recording.is_some_and(|(current, _)| current == generation)
}
