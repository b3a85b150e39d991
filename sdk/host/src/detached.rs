//! Sessions without a consumer, until another connection of the same user attaches them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tracezero_core::ids::SessionId;

use crate::remote_consumer::RemoteConsumer;

/// The detached sessions, by user and key.
#[derive(Default)]
pub(crate) struct Detached(Mutex<HashMap<(u32, String), Arc<RemoteConsumer>>>);

impl Detached {
    /// Adds a session. Returns false if the user has another one with this key.
    pub(crate) fn insert(&self, uid: u32, key: &str, consumer: &Arc<RemoteConsumer>) -> bool {
        use std::collections::hash_map::Entry;
        match self.0.lock().entry((uid, key.to_owned())) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(Arc::clone(consumer));
                true
            }
        }
    }

    /// Removes the session with this key, if the user has one.
    pub(crate) fn remove(&self, uid: u32, key: &str) -> Option<Arc<RemoteConsumer>> {
        self.0.lock().remove(&(uid, key.to_owned()))
    }

    /// Removes a session. Returns whether it was here.
    pub(crate) fn remove_session(&self, session: SessionId) -> bool {
        let mut detached = self.0.lock();
        let before = detached.len();
        detached.retain(|_, consumer| consumer.session() != Some(session));
        detached.len() < before
    }
}
