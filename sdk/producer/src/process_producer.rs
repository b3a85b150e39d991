//! The producer of this process: passes the service's calls to data sources.
//!
//! Each call first updates the registry. Then it calls the application, with nothing locked. The
//! application answers by dropping the guard that it gets, during the call or later.

use std::sync::{Arc, OnceLock, Weak};

use crate::answers::{Flushing, Starting, Stopping};
use crate::application::call_application;
use crate::arbiter::Arbiter;
use crate::instance::AnyInstance;
use crate::pending_flushes::PendingFlushes;
use crate::realm::Realm;
use crate::registry::{self, REGISTRY};
use crate::setup::Setup;
use crate::thread_writers;
use tracezero_core::coordination::{
    DataSourceSetup, FlushFlags, Producer, ServiceControl, WriterTotals,
};
use tracezero_core::forked_child;
use tracezero_core::ids::{FlushId, InstanceId};

/// The producer of one realm, with the data sources of this process.
///
/// Callbacks of the application trace into this realm, and not into another capture.
#[derive(Debug)]
pub struct ProcessProducer {
    realm: Realm,
    /// Set once the arbiter exists. Weak: the writers keep it alive.
    arbiter: OnceLock<Weak<Arbiter>>,
}

impl ProcessProducer {
    /// Creates the producer of `realm`, without an arbiter.
    #[must_use]
    pub const fn new(realm: Realm) -> Self {
        Self {
            realm,
            arbiter: OnceLock::new(),
        }
    }

    /// Sets the arbiter, which knows what became of packets.
    pub fn set_arbiter(&self, arbiter: &Arc<Arbiter>) {
        self.arbiter.get_or_init(|| Arc::downgrade(arbiter));
    }

    /// Returns the schema of an instance's packets, a serialized `FileDescriptorSet`. Empty if the
    /// data source has none, or if there is no such instance.
    #[must_use]
    pub fn descriptors(&self, id: InstanceId) -> &'static [u8] {
        REGISTRY.lock().descriptors((self.realm, id))
    }
}

impl Producer for ProcessProducer {
    fn set_up_data_source(&self, id: InstanceId, setup: &DataSourceSetup) -> bool {
        let id = (self.realm, id);
        let Some(data_source) = REGISTRY.lock().set_up(id, setup) else {
            return false;
        };
        let made = self.call(|| (data_source.set_up)(&Setup::new(setup)));
        let mut registry = REGISTRY.lock();
        match (made, registry.instances.get_mut(&id)) {
            (Some(made), Some(instance)) => {
                instance.instance = Some(made);
                true
            }
            (None, _) => {
                drop(registry.remove(id));
                false
            }
            (Some(_), None) => false,
        }
    }

    fn change_data_source(&self, id: InstanceId, config: &[u8]) {
        let instance = REGISTRY.lock().instance((self.realm, id));
        if let Some(instance) = instance {
            instance.change(config);
            REGISTRY.lock().update_masks();
        }
    }

    fn start_data_source(&self, id: InstanceId) {
        let id = (self.realm, id);
        let instance = {
            let mut registry = REGISTRY.lock();
            registry.start(id);
            registry.instance(id)
        };
        let starting = Starting::new(id, instance_started);
        if let Some(instance) = instance {
            self.call(|| instance.start(starting));
        }
    }

    fn stop_data_source(&self, id: InstanceId) {
        let id = (self.realm, id);
        let instance = {
            let registry = REGISTRY.lock();
            let has_started = registry.has_started(id);
            registry.instance(id).filter(|_| has_started)
        };
        let stopping = Stopping::new(id, instance_stopped);
        if let Some(instance) = instance {
            self.call(|| instance.stop(stopping));
        }
    }

    fn flush(&self, flush: FlushId, instances: &[InstanceId], flags: FlushFlags) {
        // Chunks are committed when they are returned, and open chunks are scraped. So a flush only
        // waits for data that the application itself holds back.
        let flushing: Vec<(Arc<dyn AnyInstance>, Flushing)> = {
            let mut registry = REGISTRY.lock();
            let asked: Vec<_> = instances
                .iter()
                .map(|&id| (self.realm, id))
                .filter(|&id| registry.has_started(id))
                .filter_map(|id| Some((id, registry.instance(id)?)))
                .collect();
            let ids: Vec<InstanceId> = asked.iter().map(|&((_, id), _)| id).collect();
            if let Some(flushes) = registry.flushes(self.realm) {
                flushes.begin(flush, ids);
            }
            let answered_later =
                |(id, instance)| (instance, Flushing::new(flush, id, flags, instance_flushed));
            asked.into_iter().map(answered_later).collect()
        };
        for (instance, flushing) in flushing {
            self.call(|| instance.flush(flushing));
        }
        acknowledge_flushes(self.realm, |_| ());
    }

    fn clear_incremental_state(&self, instances: &[InstanceId]) {
        let instances: Vec<Arc<dyn AnyInstance>> = {
            let registry = REGISTRY.lock();
            let ids = instances.iter().map(|&id| (self.realm, id));
            ids.filter_map(|id| {
                registry.clear_incremental_state(id);
                registry.instance(id)
            })
            .collect()
        };
        for instance in instances {
            self.call(|| instance.clear_incremental_state());
        }
    }

    fn writer_totals(&self) -> Vec<WriterTotals> {
        let arbiter = self.arbiter.get().and_then(Weak::upgrade);
        arbiter.map_or_else(Vec::new, |arbiter| arbiter.writer_totals())
    }
}

impl ProcessProducer {
    /// Calls the application, attached to this realm.
    fn call<R>(&self, callback: impl FnOnce() -> R) -> R {
        let _attached = thread_writers::attach(self.realm);
        callback()
    }
}

/// Called when an instance has started.
fn instance_started((realm, id): (Realm, InstanceId)) {
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    if let Some(service) = registry::service(realm) {
        service.notify_started(id);
    }
}

/// Called when an instance has stopped: trace points no longer reach it.
fn instance_stopped((realm, id): (Realm, InstanceId)) {
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    let removed = {
        let mut registry = REGISTRY.lock();
        registry.remove((realm, id))
    };
    thread_writers::leave_ended_sessions();
    acknowledge_flushes(realm, |flushes| flushes.forget(id));
    if let Some(service) = registry::service(realm) {
        service.notify_stopped(id);
    }
    // With nothing locked: this may drop the last reference to the application's value.
    call_application(|| drop(removed));
}

/// Called when an instance has flushed.
fn instance_flushed((realm, id): (Realm, InstanceId), flush: FlushId) {
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    acknowledge_flushes(realm, |flushes| flushes.finish(flush, id));
}

/// Applies `change`, and tells the service which flushes are over.
fn acknowledge_flushes(realm: Realm, change: impl FnOnce(&mut PendingFlushes)) {
    let (service, finished): (Option<Arc<dyn ServiceControl>>, Option<FlushId>) = {
        let mut registry = REGISTRY.lock();
        let finished = registry.flushes(realm).and_then(|flushes| {
            change(flushes);
            flushes.take_finished()
        });
        (registry.service(realm), finished)
    };
    if let (Some(service), Some(flush)) = (service, finished) {
        service.acknowledge_flush(flush);
    }
}
