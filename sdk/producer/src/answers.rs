//! Guards that callbacks of data sources get. Dropping a guard, during the callback or later,
//! answers the service.

use crate::realm::Realm;
use tracezero_core::coordination::{FlushFlags, FlushInitiator, FlushReason};
use tracezero_core::ids::{FlushId, InstanceId};

/// The start of an instance. Dropping this value reports that the instance has started.
#[derive(Debug)]
#[must_use = "dropping this reports that the data source has started"]
pub struct Starting {
    instance: (Realm, InstanceId),
    done: fn((Realm, InstanceId)),
}

impl Starting {
    /// Creates the guard, which calls `done` when it is dropped.
    pub(crate) const fn new(instance: (Realm, InstanceId), done: fn((Realm, InstanceId))) -> Self {
        Self { instance, done }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        (self.done)(self.instance);
    }
}

/// The stop of an instance. Trace points reach the instance until this value is dropped, which
/// reports that the instance has stopped.
#[derive(Debug)]
#[must_use = "dropping this reports that the data source has stopped"]
pub struct Stopping {
    instance: (Realm, InstanceId),
    done: fn((Realm, InstanceId)),
}

impl Stopping {
    /// Creates the guard, which calls `done` when it is dropped.
    pub(crate) const fn new(instance: (Realm, InstanceId), done: fn((Realm, InstanceId))) -> Self {
        Self { instance, done }
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        (self.done)(self.instance);
    }
}

/// A flush of an instance. Dropping this value reports that the instance has flushed.
///
/// Flushes of a process end in the order in which they began. So a slow flush delays later ones,
/// until their timeouts.
#[derive(Debug)]
#[must_use = "dropping this reports that the data source has flushed"]
pub struct Flushing {
    flush: FlushId,
    instance: (Realm, InstanceId),
    flags: FlushFlags,
    done: fn((Realm, InstanceId), FlushId),
}

impl Flushing {
    /// Creates the guard, which calls `done` when it is dropped.
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

    /// Returns the reason of the flush.
    #[must_use]
    pub const fn reason(&self) -> FlushReason {
        self.flags.reason
    }

    /// Returns who asked for the flush.
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
