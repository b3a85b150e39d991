//! A data source that a producer offers, and its instance in a session.

use tracezero_core::coordination::DataSourceDescriptor;
use tracezero_core::ids::{InstanceId, ProducerId};

/// A data source that a producer offers. A producer may offer several with the same name.
#[derive(Clone, Debug)]
pub(super) struct RegisteredDataSource {
    pub(super) number: Registration,
    pub(super) descriptor: DataSourceDescriptor,
}

/// A number that identifies a registered data source among those of all producers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Registration(pub(super) u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InstanceState {
    Configured,
    Starting,
    Started,
    Stopping,
    Stopped,
    /// The producer could not set it up.
    Failed,
}

/// A data source of one producer in one session.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) id: InstanceId,
    pub(super) producer: ProducerId,
    pub(super) producer_name: String,
    pub(super) registration: Registration,
    /// The descriptor at the time when the instance was set up.
    pub(super) descriptor: DataSourceDescriptor,
    /// The position of its buffer in the session.
    pub(super) buffer_index: usize,
    /// The position of its entry in the data sources of the configuration.
    pub(super) entry: usize,
    pub(super) state: InstanceState,
}

impl Instance {
    /// Returns true if the producer was not yet asked to stop the instance.
    pub(super) fn is_wanted(&self) -> bool {
        !self.is_over() && self.state != InstanceState::Stopping
    }

    /// Returns true if a flush waits for the producer because of this instance.
    pub(super) fn is_flushed(&self) -> bool {
        !self.descriptor.needs_no_flush && self.state != InstanceState::Failed
    }

    /// Returns true if the producer records nothing more.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, InstanceState::Stopped | InstanceState::Failed)
    }
}
