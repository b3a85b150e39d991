//! Data sources, call sites and services come and go: each learns of the others through the registry.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Arbiter;
#[cfg(feature = "testing")]
use super::active_slots::advance_generation;
use super::active_slots::{self, ActiveSlots};
use super::data_source_state::DataSourceState;
use super::pending_flushes::PendingFlushes;
use super::realm::Realm;
#[cfg(feature = "testing")]
use super::registry::RegisteredInstance;
use super::registry::{ConnectedRealm, REGISTRY, Switch, offer, service};
use super::thread_writers;
use crate::coordination::ServiceControl;
#[cfg(feature = "testing")]
use crate::data_source::contain;
use crate::forked_child;
#[cfg(feature = "testing")]
use crate::ids::InstanceId;
#[cfg(feature = "testing")]
use crate::reentry;
use crate::track_event::{CallSite, DeclaredCategories, TRACK_EVENT};

/// How long whoever reaches a data source first waits for other threads that are starting data
/// sources. There is an end to it, because one of these may be waiting for this very thread; what
/// it starts then records a little later.
const START_WAIT_LIMIT: Duration = Duration::from_millis(100);

/// Makes a data source known, unless a nested trace point has reached it: the next one will.
#[cold]
pub(super) fn register_unless_nested(data_source: &'static DataSourceState) {
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

/// Has all trace points of this process record nothing from now on. Called in a forked child.
pub(crate) fn go_quiet() {
    active_slots::go_quiet();
    // Whoever asks first whether there are track events at all takes no lock then.
    TRACK_EVENT.active.store(0);
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
