//! Guards that callbacks get, and drop when they are done: now or later.

use crate::realm::Realm;
use tracezero_core::coordination::{FlushFlags, FlushInitiator, FlushReason};
use tracezero_core::ids::{FlushId, InstanceId};

/// An instance that starts. It has started when this is dropped.
#[derive(Debug)]
#[must_use = "the data source has started when this is dropped"]
pub struct Starting {
    instance: (Realm, InstanceId),
    done: fn((Realm, InstanceId)),
}

impl Starting {
    /// Calls `done` when it is dropped.
    pub(crate) const fn new(instance: (Realm, InstanceId), done: fn((Realm, InstanceId))) -> Self {
        Self { instance, done }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        (self.done)(self.instance);
    }
}

/// An instance that stops. Trace points reach it until this is dropped.
#[derive(Debug)]
#[must_use = "the data source has stopped when this is dropped"]
pub struct Stopping {
    instance: (Realm, InstanceId),
    done: fn((Realm, InstanceId)),
}

impl Stopping {
    /// Calls `done` when it is dropped.
    pub(crate) const fn new(instance: (Realm, InstanceId), done: fn((Realm, InstanceId))) -> Self {
        Self { instance, done }
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        (self.done)(self.instance);
    }
}

/// A flush that an instance takes part in. It has done so when this is dropped.
///
/// Flushes of a process end in the order in which they began: one that takes its time holds up
/// those behind it, until their timeouts.
#[derive(Debug)]
#[must_use = "the data source has flushed when this is dropped"]
pub struct Flushing {
    flush: FlushId,
    instance: (Realm, InstanceId),
    flags: FlushFlags,
    done: fn((Realm, InstanceId), FlushId),
}

impl Flushing {
    /// Calls `done` when it is dropped.
    pub(crate) const fn new(
        flush: FlushId,
        instance: (Realm, InstanceId),
        flags: FlushFlags,
        done: fn((Realm, InstanceId), FlushId),
    ) -> Self {
        Self {
            flush,
            instance,
            flags,
            done,
        }
    }

    /// Why there is a flush.
    #[must_use]
    pub const fn reason(&self) -> FlushReason {
        self.flags.reason
    }

    /// On whose behalf there is a flush.
    #[must_use]
    pub const fn initiator(&self) -> FlushInitiator {
        self.flags.initiator
    }
}

impl Drop for Flushing {
    fn drop(&mut self) {
        (self.done)(self.instance, self.flush);
    }
}
