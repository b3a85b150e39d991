//! The registry of all data sources, and of the sessions that record them.
//!
//! A data source of an application is a `static`. It registers itself when a thread first reaches
//! it, or when the application calls `DataSource::register`. No list of a program's data sources is
//! needed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use crate::active_slots::{CAPTURE_SLOT, SLOTS, UNREGISTERED, advance_generation};
use crate::arbiter::Arbiter;
use crate::data_source_state::DataSourceState;
use crate::instance::{AnyInstance, Target};
use crate::pending_flushes::PendingFlushes;
use crate::realm::Realm;
use crate::switches::Recording;
use tracezero_core::commit::RingProgress;
use tracezero_core::coordination::{DataSourceError, DataSourceSetup, ServiceControl};
use tracezero_core::forked_child;
use tracezero_core::ids::{InstanceId, SessionId};
use tracezero_core::small_map::SmallMap;

/// Locked before any lock of the service, and never while the application is called.
pub(super) static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    realms: SmallMap::new(),
    data_sources: Vec::new(),
    slots: [const { None }; SLOTS],
    instances: SmallMap::new(),
});

pub(super) struct Registry {
    /// The realm of the process is added with the first session.
    pub(super) realms: SmallMap<Realm, ConnectedRealm>,
    /// Each data source is at the index that [`DataSourceState::set_position`] got.
    pub(super) data_sources: Vec<&'static DataSourceState>,
    slots: [Option<Slot>; SLOTS],
    pub(super) instances: SmallMap<(Realm, InstanceId), RegisteredInstance>,
}

/// A realm as data sources see it.
pub(super) struct ConnectedRealm {
    pub(super) service: Arc<dyn ServiceControl>,
    /// `None` until a daemon has given its memory, which it does before the first set-up.
    pub(super) arbiter: Option<Arc<Arbiter>>,
    pub(super) flushes: PendingFlushes,
    /// For captures: the data sources that were offered because threads of the capture reached
    /// them.
    #[cfg_attr(
        not(feature = "testing"),
        expect(dead_code, reason = "nobody captures")
    )]
    pub(super) reached: Vec<&'static DataSourceState>,
}

/// The meaning of a slot: a session and, if it lists a data source several times, the number of the
/// entry.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Slot {
    realm: Realm,
    session: SessionId,
    ordinal: usize,
}

pub(super) struct RegisteredInstance {
    data_source: &'static DataSourceState,
    setup: DataSourceSetup,
    pub(super) slot: usize,
    /// `None` until it is set up.
    pub(super) instance: Option<Arc<dyn AnyInstance>>,
    /// The generation that began with its start; `None` while it does not record.
    generation: Option<u64>,
}

/// A realm that is no longer connected.
pub(super) struct RemovedRealm {
    pub(super) connected: Option<ConnectedRealm>,
    _instances: Vec<RegisteredInstance>,
}

impl Registry {
    /// Adds a data source and offers it to the services, unless it is already known. Captures get it
    /// when their threads reach it.
    pub(super) fn add(&mut self, data_source: &'static DataSourceState) {
        let mut known = self.data_sources.iter();
        if known.any(|known| std::ptr::eq(*known, data_source)) {
            return;
        }
        data_source.set_position(self.data_sources.len());
        self.data_sources.push(data_source);
        for (realm, connected) in self.realms.iter() {
            if !realm.is_capture() {
                offer(&*connected.service, data_source);
            }
        }
    }

    pub(super) fn services(&self) -> Vec<Arc<dyn ServiceControl>> {
        let realms = self.realms.values();
        realms.map(|realm| Arc::clone(&realm.service)).collect()
    }

    /// Returns the services of all realms but captures.
    pub(super) fn services_of_process(&self) -> Vec<Arc<dyn ServiceControl>> {
        let realms = self.realms.iter();
        let shared = realms.filter(|(realm, _)| !realm.is_capture());
        shared
            .map(|(_, connected)| Arc::clone(&connected.service))
            .collect()
    }

    pub(super) fn service(&self, realm: Realm) -> Option<Arc<dyn ServiceControl>> {
        Some(Arc::clone(&self.realms.get(&realm)?.service))
    }

    /// Returns the flushes that are under way in a realm.
    pub(super) fn flushes(&mut self, realm: Realm) -> Option<&mut PendingFlushes> {
        Some(&mut self.realms.get_mut(&realm)?.flushes)
    }

    /// Adds an instance that is not set up yet. Returns its data source.
    pub(super) fn set_up(
        &mut self,
        (realm, id): (Realm, InstanceId),
        setup: &DataSourceSetup,
    ) -> Option<&'static DataSourceState> {
        if !self.realms.contains_key(&realm) {
            return None;
        }
        let wanted = Slot {
            realm,
            session: setup.session,
            ordinal: setup.ordinal,
        };
        let slot = if realm.is_capture() {
            CAPTURE_SLOT
        } else {
            let taken = self.slots.iter().position(|slot| *slot == Some(wanted));
            let free = || self.slots.iter().position(Option::is_none);
            // Without a slot, the instance does not record. The service of the process admits half
            // as many sessions as there are slots, and so do daemons.
            taken.or_else(free)?
        };
        // Several data sources may have the same name; each is set up once.
        let data_source = self.data_sources.iter().find(|data_source| {
            data_source.name() == setup.name && self.at(realm, data_source, slot).is_none()
        })?;
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = Some(wanted);
        }
        self.instances.insert(
            (realm, id),
            RegisteredInstance {
                data_source,
                setup: setup.clone(),
                slot,
                instance: None,
                generation: None,
            },
        );
        Some(data_source)
    }

    /// Starts an instance: trace points reach it from now on.
    pub(super) fn start(&mut self, id: (Realm, InstanceId)) {
        if let Some(instance) = self.instances.get_mut(&id) {
            instance.generation = Some(advance_generation());
            self.update_masks();
        }
    }

    /// Makes the writers of a realm start their incremental state again.
    pub(super) fn restart_state(&self, realm: Realm) {
        for ((of, _), instance) in self.instances.iter() {
            if *of == realm {
                instance.setup.progress.advance(RingProgress::QUARTER);
            }
        }
    }

    /// Removes an instance: trace points no longer reach it. Returns the data source's value for
    /// the instance.
    pub(super) fn remove(&mut self, id: (Realm, InstanceId)) -> Option<Arc<dyn AnyInstance>> {
        let removed = self.instances.remove(&id)?;
        self.free_unused_slots();
        advance_generation();
        self.update_masks();
        removed.instance
    }

    /// Removes a realm and its instances: trace points no longer reach them. The caller drops the
    /// instances with nothing locked.
    pub(super) fn remove_realm(&mut self, realm: Realm) -> RemovedRealm {
        let connected = self.realms.remove(&realm);
        let left = |&(other, _): &(Realm, InstanceId), _: &RegisteredInstance| other == realm;
        let instances = self.instances.extract(left);
        self.free_unused_slots();
        advance_generation();
        self.update_masks();
        RemovedRealm {
            connected,
            _instances: instances.into_iter().map(|(_, it)| it).collect(),
        }
    }

    fn free_unused_slots(&mut self) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let mut instances = self.instances.values();
            if !instances.any(|instance| instance.slot == index) {
                *slot = None;
            }
        }
    }

    /// Returns the schema of an instance's packets; empty if there is none.
    pub(super) fn descriptors(&self, id: (Realm, InstanceId)) -> &'static [u8] {
        let instance = self.instances.get(&id);
        instance.map_or(&[], |instance| instance.data_source.descriptors())
    }

    /// Returns the data source's value for an instance.
    pub(super) fn instance(&self, id: (Realm, InstanceId)) -> Option<Arc<dyn AnyInstance>> {
        self.instances.get(&id)?.instance.clone()
    }

    pub(super) fn has_started(&self, id: (Realm, InstanceId)) -> bool {
        let instance = self.instances.get(&id);
        instance.is_some_and(|instance| instance.generation.is_some())
    }

    pub(super) fn clear_incremental_state(&self, id: (Realm, InstanceId)) {
        if let Some(instance) = self.instances.get(&id) {
            instance.setup.progress.advance(RingProgress::QUARTER);
        }
    }

    fn at(
        &self,
        realm: Realm,
        data_source: &DataSourceState,
        slot: usize,
    ) -> Option<&RegisteredInstance> {
        let mut instances = self.instances.iter();
        let found = instances.find(|((of, _), instance)| {
            *of == realm && instance.slot == slot && std::ptr::eq(instance.data_source, data_source)
        });
        found.map(|(_, instance)| instance)
    }

    /// Returns the instances of a data source that record.
    pub(super) fn recording(&self, data_source: &DataSourceState) -> Recording<'_> {
        let recording = self.instances.values().filter(|instance| {
            instance.generation.is_some() && std::ptr::eq(instance.data_source, data_source)
        });
        Recording::new(recording.map(|instance| (instance.slot, instance.instance.as_deref())))
    }

    /// Returns the bit of captures if there is a capture: its threads may reach any data source.
    fn mask_of_captures(&self) -> u32 {
        let has_captures = self.realms.keys().any(|realm| realm.is_capture());
        u32::from(has_captures) << CAPTURE_SLOT
    }

    /// Updates all masks. Called after an instance has started or stopped, or a choice of
    /// categories has changed.
    pub(super) fn update_masks(&self) {
        for data_source in &self.data_sources {
            // Until all sessions have started the data source, other threads that reach it wait in
            // `register`.
            let is_settled = data_source.is_settled.load(Ordering::Relaxed);
            let unsettled = if is_settled { 0 } else { UNREGISTERED };
            let recording = self.recording(data_source);
            let mask = recording.all_slots() | self.mask_of_captures();
            data_source.active.store(mask | unsettled);
            if let Some(switches) = data_source.switches {
                switches.update(&recording);
            }
        }
    }
}

/// Returns the instance of `data_source` in the session of `slot`, and the destination of its
/// packets; `None` if that session does not record it. `capture` is the thread's capture.
#[cold]
pub(crate) fn target(
    capture: Option<Realm>,
    data_source: &DataSourceState,
    slot: usize,
) -> Option<(Arc<dyn AnyInstance>, Target)> {
    if forked_child::is_disabled() {
        return None;
    }
    let registry = REGISTRY.lock();
    let realm = match registry.slots.get(slot) {
        Some(slot) => slot.as_ref()?.realm,
        None => capture?,
    };
    let recording = registry.at(realm, data_source, slot)?;
    let setup = &recording.setup;
    let target = Target {
        arbiter: registry.realms.get(&realm)?.arbiter.clone()?,
        generation: recording.generation?,
        buffer_id: setup.target_buffer,
        progress: Arc::clone(&setup.progress),
        exhausted_policy: setup.exhausted_policy,
        stall_limit: setup.stall_limit,
    };
    Some((recording.instance.clone()?, target))
}

/// Returns true if the instance that began with `generation` still records.
#[cold]
pub(crate) fn is_current(generation: u64) -> bool {
    let registry = REGISTRY.lock();
    let mut instances = registry.instances.values();
    instances.any(|instance| instance.generation == Some(generation))
}

/// Returns the service of a realm; `None` if the realm is not connected, or no longer.
pub(super) fn service(realm: Realm) -> Option<Arc<dyn ServiceControl>> {
    REGISTRY.lock().service(realm)
}

pub(super) fn offer(service: &dyn ServiceControl, data_source: &DataSourceState) {
    // The service counts data sources that are too many (`TraceStats::data_sources_refused`), and the
    // report of a session that asks for one warns that nobody offers it. Wrong names do not compile.
    let offered = service.offer_data_source(data_source.descriptor());
    debug_assert!(
        matches!(offered, Ok(()) | Err(DataSourceError::TooMany { .. })),
        "{offered:?}"
    );
}
