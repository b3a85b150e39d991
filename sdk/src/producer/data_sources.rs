//! Which data sources there are, and which sessions record them.
//!
//! An instance of a data source in a session takes one of a few *slots*, the same one for all data
//! sources of a session. Each data source carries a mask of the slots that record it, so that a
//! trace point decides with one relaxed load. What a thread keeps per data source and slot is found
//! by a *generation*, which counts every start and stop of an instance.
//!
//! All captures of tests share one more slot: its bit says that a thread may be captured, and the
//! thread knows by which one (`thread_writers`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::pending_flushes::PendingFlushes;
use super::realm::Realm;
use super::thread_writers;
use super::{Arbiter, BufferExhaustedPolicy};
use crate::commit::RingProgress;
use crate::coordination::{DataSourceDescriptor, DataSourceSetup, ServiceControl};
#[cfg(feature = "testing")]
use crate::data_source::contain;
use crate::data_source::{self, AnyInstance, DataSource, Setup};
use crate::forked_child;
use crate::ids::{BufferId, InstanceId, SessionId};
#[cfg(feature = "testing")]
use crate::reentry;
use crate::track_event::{
    CallSite, DeclaredCategories, ENABLED, EventConfig, EventOptions, TRACK_EVENT,
    declared_event_schemas,
};

/// Sessions that can run at once; one that lists a data source several times counts so often.
pub(crate) const SLOTS: usize = 16;

/// The slot of all captures; those of sessions come before it.
pub(crate) const CAPTURE_SLOT: usize = SLOTS;

/// Room for the slots of one data source in what a thread keeps.
pub(super) const SLOTS_STRIDE: usize = 32;

/// Bit of an active mask that says: nobody has asked the registry yet.
const UNREGISTERED: u32 = 1 << 31;

/// How long whoever reaches a data source first waits for other threads that are starting data
/// sources. There is an end to it, because one of these may be waiting for this very thread; what
/// it starts then records a little later.
const START_WAIT_LIMIT: Duration = Duration::from_millis(100);

/// Locked before anything of the service, and never while the application is called.
pub(super) static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    realms: BTreeMap::new(),
    data_sources: Vec::new(),
    switches: Vec::new(),
    slots: [const { None }; SLOTS],
    instances: BTreeMap::new(),
});

/// Counts starts and stops of instances.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// The generation of a forked child, in which no data source records.
const QUIET: u64 = u64::MAX;

pub(super) struct Registry {
    /// That of the process is there from the first session on.
    realms: BTreeMap<Realm, ConnectedRealm>,
    /// In the order of their indices.
    data_sources: Vec<&'static DataSourceState>,
    switches: Vec<Switch>,
    slots: [Option<Slot>; SLOTS],
    pub(super) instances: BTreeMap<(Realm, InstanceId), RegisteredInstance>,
}

/// What data sources need of a realm.
struct ConnectedRealm {
    service: Arc<dyn ServiceControl>,
    arbiter: Arc<Arbiter>,
    flushes: PendingFlushes,
    /// For captures: data sources that were offered because its threads reached them.
    #[cfg(feature = "testing")]
    reached: Vec<&'static DataSourceState>,
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
    /// Beside those that were declared for the category.
    tags: &'static [&'static str],
    active: &'static ActiveSlots,
}

pub(super) struct RegisteredInstance {
    data_source: &'static DataSourceState,
    setup: DataSourceSetup,
    /// Which track events it records, and how; `None` for other data sources.
    events: Option<EventConfig>,
    slot: usize,
    /// `None` for data sources without a type of their own, and until it is set up.
    pub(super) instance: Option<Arc<dyn AnyInstance>>,
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

    /// Called with the registry locked.
    fn is_registered(&self) -> bool {
        // Relaxed: it is stored under that lock.
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

/// Makes an instance, unless that panics.
type SetUp = fn(&Setup<'_>) -> Option<Arc<dyn AnyInstance>>;

/// What the SDK keeps for a type of data source: one `static` each, made by
/// [`data_source!`](crate::data_source).
pub struct DataSourceState {
    name: &'static str,
    /// A serialized `FileDescriptorSet`, or empty.
    /// Whether all sessions that want it have started it once. Changed with the registry locked.
    is_settled: AtomicBool,
    descriptors: &'static [u8],
    /// Makes an instance; `None` for data sources without a type of their own.
    pub(super) set_up: Option<SetUp>,
    active: ActiveSlots,
    /// Position in the registry; meaningful once registered.
    index: AtomicUsize,
}

impl DataSourceState {
    /// The state of a type of data source.
    #[must_use]
    pub const fn of<D: DataSource>() -> Self {
        Self {
            is_settled: AtomicBool::new(false),
            descriptors: D::DESCRIPTORS,
            set_up: Some(data_source::set_up::<D>),
            ..Self::new(D::NAME)
        }
    }

    /// The state of the data source `name`, which has no type of its own.
    #[must_use]
    pub(crate) const fn new(name: &'static str) -> Self {
        Self {
            name,
            // No trace point waits for it.
            is_settled: AtomicBool::new(true),
            descriptors: &[],
            set_up: None,
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
        if !ENABLED {
            return 0;
        }
        self.active.load(|| register_unless_nested(self))
    }

    /// Position of what a thread keeps for this data source and `slot`.
    #[inline(always)]
    pub(crate) fn instance_index(&self, slot: usize) -> usize {
        // Relaxed: the index was stored before the mask that led here (see `register`).
        self.index.load(Ordering::Relaxed) * SLOTS_STRIDE + slot
    }

    fn descriptor(&self) -> DataSourceDescriptor {
        let is_track_event = std::ptr::eq(self, &raw const TRACK_EVENT);
        let (categories, extension_descriptors) = if is_track_event {
            (
                DeclaredCategories::lock().descriptors(),
                declared_event_schemas(),
            )
        } else {
            (Vec::new(), Arc::from(self.descriptors))
        };
        DataSourceDescriptor {
            name: self.name.to_owned(),
            // Relaxed: the registry is locked, or was since the index was stored.
            id: self.index.load(Ordering::Relaxed) as u64 + 1,
            notifies_start: true,
            // Also so that what was written until then is scraped.
            notifies_stop: true,
            needs_no_flush: false,
            clears_incremental_state: true,
            extension_descriptors,
            categories,
        }
    }
}

impl fmt::Debug for DataSourceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataSourceState")
            .field("name", &self.name)
            .finish_non_exhaustive()
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
    let service = {
        let mut registry = REGISTRY.lock();
        registry.add(data_source);
        registry.service(Realm::PROCESS)
    };
    if let Some(service) = service {
        // Sets it up and starts it for sessions that want it, also if another thread added it.
        service.make_calls(START_WAIT_LIMIT);
    }
    let registry = REGISTRY.lock();
    // Relaxed, as in `update_masks`: the registry is locked.
    data_source.is_settled.store(true, Ordering::Relaxed);
    registry.update_masks();
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
    add_switch(Switch {
        category: call_site.category,
        tags: call_site.tags(),
        active: call_site.active(),
    });
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
    add_switch(Switch {
        category,
        tags: &[],
        active,
    });
}

fn add_switch(switch: Switch) {
    let mut registry = REGISTRY.lock();
    registry.add(&TRACK_EVENT);
    if !switch.active.is_registered() {
        registry.switches.push(switch);
        let mask = registry.mask_of_switch(switch, &DeclaredCategories::lock());
        switch.active.store(mask);
    }
}

/// Takes over what was declared: the service can tell of it, and switches follow new tags.
pub(crate) fn declarations_changed() {
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    let services = {
        let mut registry = REGISTRY.lock();
        registry.add(&TRACK_EVENT);
        registry.update_masks();
        registry.services()
    };
    for service in services {
        publish_declarations(&*service);
    }
}

/// Tells the service which categories and schemas of events there are.
fn publish_declarations(service: &dyn ServiceControl) {
    loop {
        let descriptor = TRACK_EVENT.descriptor();
        let updated = service.update_data_source(descriptor.clone());
        debug_assert_eq!(updated, Ok(()), "it was offered when the service came");
        // Another thread may have declared more meanwhile, and have been faster.
        if descriptor == TRACK_EVENT.descriptor() {
            return;
        }
    }
}

/// From now on there is a service: it learns of the data sources that are known by now, and of
/// every other one when it is reached.
pub(crate) fn connect(realm: Realm, service: &Arc<dyn ServiceControl>, arbiter: &Arc<Arbiter>) {
    {
        let mut registry = REGISTRY.lock();
        // Now, so that no call site ever has to wait for it.
        registry.add(&TRACK_EVENT);
        let connected = ConnectedRealm {
            service: Arc::clone(service),
            arbiter: Arc::clone(arbiter),
            flushes: PendingFlushes::new(),
            #[cfg(feature = "testing")]
            reached: Vec::new(),
        };
        registry.realms.insert(realm, connected);
        if realm == Realm::PROCESS {
            for data_source in &registry.data_sources {
                offer(&**service, data_source);
            }
        } else {
            // The others follow when threads of the capture reach them.
            offer(&**service, &TRACK_EVENT);
            registry.update_masks();
        }
    }
    publish_declarations(&**service);
}

/// Has a data source take part in the capture that this thread writes to, if it does not yet: its
/// trace point was reached, or it was registered. So a capture has those that its test uses, and not
/// those that happen to be known because of others.
#[cfg(feature = "testing")]
#[cold]
pub(crate) fn reach_in_capture(data_source: &'static DataSourceState) {
    let Some(realm) = thread_writers::capture_without_instance(data_source) else {
        return;
    };
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    let service = {
        let mut registry = REGISTRY.lock();
        let Some(connected) = registry.realms.get_mut(&realm) else {
            return;
        };
        let mut reached = connected.reached.iter();
        if !reached.any(|reached| std::ptr::eq(*reached, data_source)) {
            connected.reached.push(data_source);
            offer(&*connected.service, data_source);
        }
        Arc::clone(&connected.service)
    };
    // Also if another thread offered it.
    service.make_calls(START_WAIT_LIMIT);
}

/// Forgets a realm and what is left of its instances: trace points no longer reach them.
#[cfg(feature = "testing")]
pub(crate) fn disconnect(realm: Realm) {
    let removed = {
        let mut registry = REGISTRY.lock();
        let connected = registry.realms.remove(&realm);
        let left = |&(other, _): &(Realm, InstanceId), _: &mut RegisteredInstance| other == realm;
        let instances: Vec<_> = registry.instances.extract_if(.., left).collect();
        advance_generation();
        registry.update_masks();
        (connected, instances)
    };
    // With nothing locked: instances are the application's.
    contain(|| reentry::outside(|| drop(removed)));
}

/// Whether there is such a realm, or still is.
#[cfg(feature = "testing")]
pub(super) fn is_connected(realm: Realm) -> bool {
    REGISTRY.lock().realms.contains_key(&realm)
}

/// The service of a realm, if there is one, or still is.
pub(super) fn service(realm: Realm) -> Option<Arc<dyn ServiceControl>> {
    REGISTRY.lock().service(realm)
}

fn offer(service: &dyn ServiceControl, data_source: &DataSourceState) {
    let offered = service.offer_data_source(data_source.descriptor());
    debug_assert_eq!(offered, Ok(()), "only ids that are in use are refused");
}

/// Hits triggers by their names.
pub(crate) fn activate_triggers(names: &[&str]) {
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    if let Some(service) = service(Realm::PROCESS) {
        service.activate_triggers(names);
    }
}

impl Registry {
    /// Adds a data source, and offers it to the service, unless that was done before.
    fn add(&mut self, data_source: &'static DataSourceState) {
        let mut known = self.data_sources.iter();
        if known.any(|known| std::ptr::eq(*known, data_source)) {
            return;
        }
        // Relaxed: the mask that is stored later, with release, publishes it.
        data_source
            .index
            .store(self.data_sources.len(), Ordering::Relaxed);
        self.data_sources.push(data_source);
        if let Some(service) = self.service(Realm::PROCESS) {
            offer(&*service, data_source);
        }
    }

    fn services(&self) -> Vec<Arc<dyn ServiceControl>> {
        let realms = self.realms.values();
        realms.map(|realm| Arc::clone(&realm.service)).collect()
    }

    pub(super) fn service(&self, realm: Realm) -> Option<Arc<dyn ServiceControl>> {
        Some(Arc::clone(&self.realms.get(&realm)?.service))
    }

    /// The flushes that are under way in a realm.
    pub(super) fn flushes(&mut self, realm: Realm) -> Option<&mut PendingFlushes> {
        Some(&mut self.realms.get_mut(&realm)?.flushes)
    }

    /// Makes room for an instance. Returns its data source.
    pub(super) fn set_up(
        &mut self,
        (realm, id): (Realm, InstanceId),
        setup: &DataSourceSetup,
        events: Option<EventConfig>,
    ) -> Option<&'static DataSourceState> {
        let wanted = Slot {
            session: setup.session,
            ordinal: setup.ordinal,
        };
        let slot = if realm == Realm::PROCESS {
            let taken = self.slots.iter().position(|slot| *slot == Some(wanted));
            let free = || self.slots.iter().position(Option::is_none);
            // Without a slot it is not recorded; the service admits fewer sessions than there are.
            taken.or_else(free)?
        } else {
            CAPTURE_SLOT
        };
        // Several data sources may have the name; each is set up once.
        let data_source = self.data_sources.iter().find(|data_source| {
            data_source.name == setup.name && self.at(realm, data_source, slot).is_none()
        })?;
        if realm == Realm::PROCESS {
            self.slots[slot] = Some(wanted);
        }
        self.instances.insert(
            (realm, id),
            RegisteredInstance {
                data_source,
                setup: setup.clone(),
                events,
                slot,
                instance: None,
                generation: None,
            },
        );
        Some(data_source)
    }

    /// Takes over which track events an instance records.
    pub(super) fn change_events(&mut self, id: (Realm, InstanceId), changed: EventConfig) {
        let instance = self.instances.get_mut(&id);
        if let Some(events) = instance.and_then(|instance| instance.events.as_mut()) {
            // What is written already was written with the same options.
            events.filter = changed.filter;
            self.update_masks();
        }
    }

    /// Has trace points reach an instance.
    pub(super) fn start(&mut self, id: (Realm, InstanceId)) {
        if let Some(instance) = self.instances.get_mut(&id) {
            instance.generation = Some(advance_generation());
            self.update_masks();
        }
    }

    /// Has trace points reach an instance no longer. Returns what the application has made of it.
    pub(super) fn remove(&mut self, id: (Realm, InstanceId)) -> Option<Arc<dyn AnyInstance>> {
        let removed = self.instances.remove(&id)?;
        let is_used = |instance: &RegisteredInstance| instance.slot == removed.slot;
        if !self.instances.values().any(is_used)
            && let Some(slot) = self.slots.get_mut(removed.slot)
        {
            *slot = None;
        }
        advance_generation();
        self.update_masks();
        removed.instance
    }

    /// What the application has made of an instance.
    pub(super) fn instance(&self, id: (Realm, InstanceId)) -> Option<Arc<dyn AnyInstance>> {
        self.instances.get(&id)?.instance.clone()
    }

    pub(super) fn has_started(&self, id: (Realm, InstanceId)) -> bool {
        let instance = self.instances.get(&id);
        instance.is_some_and(|instance| instance.generation.is_some())
    }

    pub(super) fn clear_incremental_state(&self, id: (Realm, InstanceId)) {
        if let Some(instance) = self.instances.get(&id) {
            instance.setup.progress.advance(1);
        }
    }

    fn at(
        &self,
        realm: Realm,
        data_source: &DataSourceState,
        slot: usize,
    ) -> Option<&RegisteredInstance> {
        let of_realm = (realm, InstanceId(0))..=(realm, InstanceId(u64::MAX));
        let mut instances = self.instances.range(of_realm).map(|(_, instance)| instance);
        instances.find(|instance| {
            instance.slot == slot && std::ptr::eq(instance.data_source, data_source)
        })
    }

    fn mask_of(&self, data_source: &DataSourceState) -> u32 {
        self.instances
            .values()
            .filter(|instance| {
                instance.generation.is_some() && std::ptr::eq(instance.data_source, data_source)
            })
            .fold(self.mask_of_captures(), |mask, instance| {
                mask | 1 << instance.slot
            })
    }

    /// The bit of captures, if there is one: any data source may be reached in it.
    fn mask_of_captures(&self) -> u32 {
        let has_captures = self.realms.keys().any(|realm| *realm != Realm::PROCESS);
        u32::from(has_captures) << CAPTURE_SLOT
    }

    fn mask_of_switch(&self, switch: Switch, declared: &DeclaredCategories) -> u32 {
        let Switch { category, tags, .. } = switch;
        let chooses = |instance: &RegisteredInstance| {
            let events = instance.events.as_ref();
            // A capture has all categories, since captures share the bit.
            events.is_some_and(|events| {
                instance.slot == CAPTURE_SLOT
                    || declared.are_enabled(category, tags, &events.filter)
            })
        };
        self.instances
            .values()
            .filter(|instance| instance.generation.is_some())
            .filter(|instance| chooses(instance))
            .fold(0, |mask, instance| mask | 1 << instance.slot)
    }

    /// Brings all masks up to date after an instance started or stopped, or its choice changed.
    fn update_masks(&self) {
        for data_source in &self.data_sources {
            // Until all sessions have started it, other threads that reach it wait in `register`.
            let is_settled = data_source.is_settled.load(Ordering::Relaxed);
            let unsettled = if is_settled { 0 } else { UNREGISTERED };
            data_source
                .active
                .store(self.mask_of(data_source) | unsettled);
        }
        let declared = DeclaredCategories::lock();
        for &switch in &self.switches {
            switch.active.store(self.mask_of_switch(switch, &declared));
        }
    }
}

/// Called with the registry locked.
fn advance_generation() -> u64 {
    // Relaxed: the masks that are stored afterwards, with release, publish it.
    GENERATION.fetch_add(1, Ordering::Relaxed) + 1
}

/// Where a data source writes to in a session that records it.
pub(crate) struct Target {
    pub(crate) arbiter: Arc<Arbiter>,
    /// The generation that began with the instance.
    pub(crate) generation: u64,
    pub(crate) buffer_id: BufferId,
    pub(crate) progress: Arc<RingProgress>,
    pub(crate) exhausted_policy: BufferExhaustedPolicy,
    pub(crate) stall_limit: Option<Duration>,
    /// `None` for data sources without a type of their own.
    pub(crate) instance: Option<Arc<dyn AnyInstance>>,
    /// For track events.
    pub(crate) options: EventOptions,
}

/// The target of `data_source` in the session of `slot`, if there is one and it records it.
#[cold]
pub(crate) fn target(realm: Realm, data_source: &DataSourceState, slot: usize) -> Option<Target> {
    if forked_child::is_quiet() {
        return None;
    }
    let registry = REGISTRY.lock();
    let recording = registry.at(realm, data_source, slot)?;
    let RegisteredInstance { setup, events, .. } = recording;
    Some(Target {
        arbiter: Arc::clone(&registry.realms.get(&realm)?.arbiter),
        generation: recording.generation?,
        buffer_id: setup.target_buffer,
        progress: Arc::clone(&setup.progress),
        exhausted_policy: setup.exhausted_policy,
        stall_limit: setup.stall_limit,
        instance: recording.instance.clone(),
        options: events
            .as_ref()
            .map_or(EventOptions::DEFAULT, |events| events.options),
    })
}

/// Whether what a thread keeps for the instance that began with `generation` still records.
#[cold]
pub(crate) fn is_current(generation: u64) -> bool {
    let registry = REGISTRY.lock();
    let mut instances = registry.instances.values();
    instances.any(|instance| instance.generation == Some(generation))
}
