//! The data sources of this process, as the service calls them.
//!
//! What a call changes in the registry is changed first; then the application is called, with
//! nothing locked. It answers by dropping what it was given, during the call or later.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::WriterTotals;
use super::data_sources::{self, REGISTRY, Registry};
use super::thread_writers;
use crate::coordination::{DataSourceSetup, FlushFlags, Producer, ServiceControl};
use crate::data_source::{AnyInstance, Flushing, Setup, Starting, Stopping, contain};
use crate::forked_child;
use crate::ids::{FlushId, InstanceId};
use crate::reentry;
use crate::runtime;
use crate::track_event::{EventConfig, TRACK_EVENT};

/// The producer of this process.
#[derive(Debug)]
pub(crate) struct ProcessProducer;

impl Producer for ProcessProducer {
    fn set_up_data_source(&self, id: InstanceId, setup: &DataSourceSetup) {
        let is_track_event = setup.name == TRACK_EVENT.name();
        let events = is_track_event.then(|| EventConfig::decode(&setup.config));
        let Some(data_source) = REGISTRY.lock().set_up(id, setup, events) else {
            return;
        };
        let Some(set_up) = data_source.set_up else {
            return;
        };
        let made = set_up(&Setup::new(setup));
        let mut registry = REGISTRY.lock();
        match (made, registry.instances.get_mut(&id)) {
            (Some(made), Some(instance)) => instance.instance = Some(made),
            // Nothing is recorded by an instance that could not be made.
            (None, _) => drop(registry.remove(id)),
            (Some(_), None) => {}
        }
    }

    fn change_data_source(&self, id: InstanceId, config: &[u8]) {
        let changed = EventConfig::decode(config);
        REGISTRY.lock().change_events(id, changed);
    }

    fn start_data_source(&self, id: InstanceId) {
        let instance = {
            let mut registry = REGISTRY.lock();
            registry.start(id);
            registry.instance(id)
        };
        let starting = Starting::new(id);
        if let Some(instance) = instance {
            instance.start(starting);
        }
    }

    fn stop_data_source(&self, id: InstanceId) {
        let instance = {
            let registry = REGISTRY.lock();
            let has_started = registry.has_started(id);
            registry.instance(id).filter(|_| has_started)
        };
        let stopping = Stopping::new(id);
        if let Some(instance) = instance {
            instance.stop(stopping);
        }
    }

    fn flush(&self, flush: FlushId, instances: &[InstanceId], flags: FlushFlags) {
        // Commits are made at once, and what is in open chunks is scraped: only what the
        // application itself holds back is to be waited for.
        let flushing: Vec<(Arc<dyn AnyInstance>, Flushing)> = {
            let mut registry = REGISTRY.lock();
            let asked: Vec<_> = instances
                .iter()
                .filter(|id| registry.has_started(**id))
                .filter_map(|&id| Some((id, registry.instance(id)?)))
                .collect();
            let ids: BTreeSet<InstanceId> = asked.iter().map(|&(id, _)| id).collect();
            registry.flushes.begin(flush, ids);
            let answered_later = |(id, instance)| (instance, Flushing::new(flush, id, flags));
            asked.into_iter().map(answered_later).collect()
        };
        for (instance, flushing) in flushing {
            instance.flush(flushing);
        }
        acknowledge_flushes(|_| ());
    }

    fn clear_incremental_state(&self, instances: &[InstanceId]) {
        let instances: Vec<Arc<dyn AnyInstance>> = {
            let registry = REGISTRY.lock();
            registry.clear_incremental_state(instances);
            instances
                .iter()
                .filter_map(|&id| registry.instance(id))
                .collect()
        };
        for instance in instances {
            instance.clear_incremental_state();
        }
    }

    fn writer_totals(&self) -> Vec<WriterTotals> {
        runtime::writer_totals()
    }
}

/// An instance says that it has started.
pub(crate) fn instance_started(id: InstanceId) {
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    if let Some(service) = data_sources::service() {
        service.notify_started(id);
    }
}

/// An instance says that it has stopped: trace points no longer reach it.
pub(crate) fn instance_stopped(id: InstanceId) {
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    let removed = {
        let mut registry = REGISTRY.lock();
        registry.remove(id)
    };
    thread_writers::leave_ended_sessions();
    acknowledge_flushes(|registry| registry.flushes.forget(id));
    if let Some(service) = data_sources::service() {
        service.notify_stopped(id);
    }
    // With nothing locked: it may be the last of what the application has made.
    contain(|| reentry::outside(|| drop(removed)));
}

/// An instance says that it has flushed.
pub(crate) fn instance_flushed(id: InstanceId, flush: FlushId) {
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    acknowledge_flushes(|registry| registry.flushes.finish(flush, id));
}

/// Tells the service of the flushes that are over after `change`.
fn acknowledge_flushes(change: impl FnOnce(&mut Registry)) {
    let (service, finished): (Option<Arc<dyn ServiceControl>>, Option<FlushId>) = {
        let mut registry = REGISTRY.lock();
        change(&mut registry);
        (registry.service.clone(), registry.flushes.take_finished())
    };
    if let (Some(service), Some(flush)) = (service, finished) {
        service.acknowledge_flush(flush);
    }
}
