//! Registers data sources and services, and tells each of the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::active_slots;
use crate::application::call_application;
use crate::arbiter::Arbiter;
use crate::data_source_state::{DataSourceState, ENABLED};
use crate::pending_flushes::PendingFlushes;
use crate::realm::Realm;
use crate::registry::{ConnectedRealm, REGISTRY, offer};
use crate::switches::Recording;
use crate::thread_writers;
use tracezero_core::coordination::{DataSourceError, ServiceControl};
use tracezero_core::forked_child;
use tracezero_core::process_hooks;

/// The longest time that the first trace point of a data source waits for other threads that are
/// starting data sources. The wait is limited because one of those threads may be waiting for this
/// one; the sessions that the other thread starts then record a little later. The limit is not
/// shorter, because a busy machine sometimes suspends a thread for more than 100 ms, and packets
/// that are written in that time would be lost.
pub(super) const START_WAIT_LIMIT: Duration = Duration::from_secs(1);

impl DataSourceState {
    /// Returns the slots that record this data source.
    #[inline(always)]
    pub(crate) fn active_slots(&'static self) -> u32 {
        if !ENABLED {
            return 0;
        }
        self.active.load(|| register_unless_nested(self))
    }
}

/// Registers a data source. Does nothing inside of another trace point; the data source then
/// registers at its next trace point.
#[cold]
fn register_unless_nested(data_source: &'static DataSourceState) {
    if !thread_writers::is_nested() {
        (data_source.before_registration)();
        register(data_source);
    }
}

/// Registers a data source: running and later sessions can record it.
fn register(data_source: &'static DataSourceState) {
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    let services = {
        let mut registry = REGISTRY.lock();
        registry.add(data_source);
        registry.services_of_process()
    };
    for service in services {
        // Sets up and starts the data source for the sessions that record it. This is needed even
        // if another thread has added the data source.
        service.make_calls(START_WAIT_LIMIT);
    }
    let registry = REGISTRY.lock();
    // Relaxed, as in `update_masks`: the registry is locked.
    data_source.is_settled.store(true, Ordering::Relaxed);
    registry.update_masks();
}

/// Calls `change` with the recording instances of a data source, while the registry is locked. Only
/// `change` may change the data source's switches.
pub fn with_recording<R>(
    data_source: &'static DataSourceState,
    change: impl FnOnce(&Recording<'_>) -> R,
) -> R {
    let mut registry = REGISTRY.lock();
    registry.add(data_source);
    change(&registry.recording(data_source))
}

/// Publishes a data source's changed descriptor to all services, and updates its switches.
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

/// Sends a data source's descriptor, such as its categories, to the service.
fn publish_declarations(service: &dyn ServiceControl, data_source: &DataSourceState) {
    loop {
        let descriptor = data_source.descriptor();
        let updated = service.update_data_source(descriptor.clone());
        // The data source was offered when the service connected. If it declares too much, the
        // service counts that, and keeps the descriptor that it has.
        debug_assert!(
            matches!(updated, Ok(()) | Err(DataSourceError::TooMany { .. })),
            "{updated:?}"
        );
        // Publish again if another thread has declared more meanwhile: its newer descriptor may
        // have arrived before this older one.
        if descriptor == data_source.descriptor() {
            return;
        }
    }
}

/// Connects a service. The service learns of all data sources that are known now, and of each later
/// data source when that is registered. `first` is a data source of the SDK that every service
/// knows. `arbiter` is `None` until a daemon has given its memory: see [`set_arbiter`].
///
/// The caller must hold the guard of [`forked_child::enter`].
pub fn connect(
    realm: Realm,
    service: &Arc<dyn ServiceControl>,
    arbiter: Option<&Arc<Arbiter>>,
    first: &'static DataSourceState,
) {
    watch_forks(first);
    {
        let mut registry = REGISTRY.lock();
        // Add `first` here, so that no trace point has to wait until it is registered.
        registry.add(first);
        let connected = ConnectedRealm {
            service: Arc::clone(service),
            arbiter: arbiter.cloned(),
            flushes: PendingFlushes::new(),
            reached: Vec::new(),
        };
        registry.realms.insert(realm, connected);
        if realm.is_capture() {
            // A capture gets the other data sources when its threads reach them.
            offer(&**service, first);
            registry.update_masks();
        } else {
            for data_source in &registry.data_sources {
                offer(&**service, data_source);
            }
        }
    }
    publish_declarations(&**service, first);
}

/// Sets the arbiter of a daemon's memory. It gets all chunks of the realm from now on.
pub fn set_arbiter(realm: Realm, arbiter: &Arc<Arbiter>) {
    if let Some(connected) = REGISTRY.lock().realms.get_mut(&realm) {
        connected.arbiter.get_or_insert_with(|| Arc::clone(arbiter));
    }
}

/// Makes the writers of a realm start their incremental state again, so that what is left of a ring
/// can be read. A daemon does not tell how far a ring is.
pub fn restart_state(realm: Realm) {
    REGISTRY.lock().restart_state(realm);
}

/// Disconnects a service: trace points no longer reach its instances.
pub fn disconnect(realm: Realm) {
    let removed = REGISTRY.lock().remove_realm(realm);
    if let Some(connected) = &removed.connected
        && let Some(arbiter) = &connected.arbiter
    {
        // Threads drop their writers when they trace next. Until then they may wait for chunks.
        arbiter.try_shutdown();
    }
    // With nothing locked, because dropping instances runs code of the application.
    call_application(|| drop(removed));
}

/// The data source that all services know.
static FIRST: OnceLock<&DataSourceState> = OnceLock::new();

/// Makes sure that trace points record nothing in a forked child.
fn watch_forks(first: &'static DataSourceState) {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    // Acquire, as in `forked_child::enter`. The caller has called `enter`, so the hook of
    // `forked_child` is already set. It is called before the hook that is set here.
    if !IS_WATCHED.load(Ordering::Acquire) {
        FIRST.get_or_init(|| first);
        process_hooks::in_forked_child(go_quiet);
        IS_WATCHED.store(true, Ordering::Release);
    }
}

/// Called in each forked child.
extern "C" fn go_quiet() {
    if forked_child::is_disabled() {
        active_slots::go_quiet();
        // From now on, `ActiveSlots::load` finds the data source registered, and takes no lock.
        if let Some(first) = FIRST.get() {
            first.active.store(0);
        }
    }
}

/// Activates triggers by name.
pub fn activate_triggers(names: &[&str]) {
    let Some(_inside) = forked_child::enter() else {
        return;
    };
    let services = REGISTRY.lock().services_of_process();
    for service in services {
        service.activate_triggers(names);
    }
}
