//! Sends what waits in all connections before the process exits.
//!
//! The daemon reads the shared memory of a process that has ended, but only chunks of writers that
//! the daemon knows. A program that ends right after recording may not have told the daemon about
//! its writers yet.

use std::sync::{Arc, Once, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tracezero_core::{forked_child, process_hooks};

use crate::shared::{ClientState, Shared};

/// The longest time that the exit waits for a connection, or for the lock.
const EXIT_LIMIT: Duration = Duration::from_secs(1);

static CLIENTS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// Closes the connection of a client when the process exits.
pub(crate) fn watch(client: &Arc<Shared>) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| process_hooks::at_exit(at_exit));
    let mut clients = CLIENTS.lock();
    clients.retain(|client| client.strong_count() > 0);
    clients.push(Arc::downgrade(client));
}

/// Called when the process exits.
extern "C" fn at_exit() {
    if forked_child::is_disabled() {
        return;
    }
    // Does not wait without limit: the exit may have ended a thread that holds the lock.
    let Some(clients) = CLIENTS.try_lock_for(EXIT_LIMIT) else {
        return;
    };
    let clients: Vec<Arc<Shared>> = clients.iter().filter_map(Weak::upgrade).collect();
    for client in &clients {
        client.begin_exiting();
    }
    for client in &clients {
        client.wait_for(&ClientState::Closed, EXIT_LIMIT);
    }
}
