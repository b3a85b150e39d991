//! What callbacks answer, now or later: dropping one of these says that it is done.

use crate::Realm;
use tracezero_core::coordination::{FlushFlags, FlushInitiator, FlushReason};
use tracezero_core::ids::{FlushId, InstanceId};

/// An instance that starts. It has started when this is dropped.
#[derive(Debug)]
#[must_use = "the data source has started when this is dropped"]
pub struct Starting {
    instance: (Realm, InstanceId),
}

impl Starting {
    pub(crate) const fn new(instance: (Realm, InstanceId)) -> Self {
        Self { instance }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        crate::instance_started(self.instance);
    }
}

/// An instance that stops. Trace points reach it until this is dropped.
#[derive(Debug)]
#[must_use = "the data source has stopped when this is dropped"]
pub struct Stopping {
    instance: (Realm, InstanceId),
}

impl Stopping {
    pub(crate) const fn new(instance: (Realm, InstanceId)) -> Self {
        Self { instance }
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        crate::instance_stopped(self.instance);
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
}

impl Flushing {
    pub(crate) const fn new(
        flush: FlushId,
        instance: (Realm, InstanceId),
        flags: FlushFlags,
    ) -> Self {
        Self {
            flush,
            instance,
            flags,
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
        crate::instance_flushed(self.instance, self.flush);
    }
}
