//! Data sources and services come and go: each learns of the others through the registry.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::active_slots;
use crate::arbiter::Arbiter;
use crate::data_source_state::{DataSourceState, ENABLED};
use crate::pending_flushes::PendingFlushes;
use crate::realm::Realm;
use crate::registry::{ConnectedRealm, REGISTRY, offer, service};
use crate::switches::Recording;
use crate::thread_writers;
use tracezero_core::coordination::ServiceControl;
use tracezero_core::forked_child;
use tracezero_core::process_hooks;

/// The longest wait, at the first trace point of a data source, for other threads that are starting data
/// sources. There is an end to it, because one of these may be waiting for this very thread; what
/// it starts then records a little later. A machine with several threads per core keeps a thread from
/// running for more than 100 ms now and then: a packet that is written meanwhile is in no trace.
pub(super) const START_WAIT_LIMIT: Duration = Duration::from_secs(1);

impl DataSourceState {
    /// The slots that record this data source.
    #[inline(always)]
    pub(crate) fn active_slots(&'static self) -> u32 {
        if !ENABLED {
            return 0;
        }
        self.active.load(|| register_unless_nested(self))
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

/// Calls `change` with the instances that record a data source, with the registry locked: the
/// switches of the data source change there alone.
pub fn with_recording<R>(
    data_source: &'static DataSourceState,
    change: impl FnOnce(&Recording<'_>) -> R,
) -> R {
    let mut registry = REGISTRY.lock();
    registry.add(data_source);
    change(&registry.recording(data_source))
}

/// Takes over what else a data source can tell of: the service learns it, and its switches follow.
pub fn declarations_changed(data_source: &'static DataSourceState) {
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    let services = {
        let mut registry = REGISTRY.lock();
        registry.add(data_source);
        registry.update_masks();
        registry.services()
    };
    for service in services {
        publish_declarations(&*service, data_source);
    }
}

/// Tells the service what there is in a data source to choose from.
fn publish_declarations(service: &dyn ServiceControl, data_source: &DataSourceState) {
    loop {
        let descriptor = data_source.descriptor();
        let updated = service.update_data_source(descriptor.clone());
        debug_assert_eq!(updated, Ok(()), "it was offered when the service came");
        // Another thread may have declared more meanwhile, and have been faster.
        if descriptor == data_source.descriptor() {
            return;
        }
    }
}

/// From now on there is a service: it learns of the data sources that are known by now, and of
/// every other one when it is reached. `first` is a data source of the SDK that every service knows.
///
/// The caller has [entered](forked_child::enter) what a forked child must not.
pub fn connect(
    realm: Realm,
    service: &Arc<dyn ServiceControl>,
    arbiter: &Arc<Arbiter>,
    first: &'static DataSourceState,
) {
    watch_forks(first);
    {
        let mut registry = REGISTRY.lock();
        // Now, so that no trace point ever has to wait for it.
        registry.add(first);
        let connected = ConnectedRealm {
            service: Arc::clone(service),
            arbiter: Arc::clone(arbiter),
            flushes: PendingFlushes::new(),
            reached: Vec::new(),
        };
        registry.realms.insert(realm, connected);
        if realm == Realm::PROCESS {
            for data_source in &registry.data_sources {
                offer(&**service, data_source);
            }
        } else {
            // The others follow when threads of the capture reach them.
            offer(&**service, first);
            registry.update_masks();
        }
    }
    publish_declarations(&**service, first);
}

/// The data source that all services know.
static FIRST: OnceLock<&DataSourceState> = OnceLock::new();

/// Sees to it that trace points record nothing in a forked child.
fn watch_forks(first: &'static DataSourceState) {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    // As in `forked_child::enter`, whose hook is set already, and is called first.
    if !IS_WATCHED.load(Ordering::Acquire) {
        FIRST.get_or_init(|| first);
        process_hooks::in_forked_child(go_quiet);
        IS_WATCHED.store(true, Ordering::Release);
    }
}

/// Called in each child.
extern "C" fn go_quiet() {
    if forked_child::is_quiet() {
        active_slots::go_quiet();
        // From now on `ActiveSlots::load` finds it registered, and takes no lock.
        if let Some(first) = FIRST.get() {
            first.active.store(0);
        }
    }
}

/// Hits triggers by their names.
pub fn activate_triggers(names: &[&str]) {
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    if let Some(service) = service(Realm::PROCESS) {
        service.activate_triggers(names);
    }
}
