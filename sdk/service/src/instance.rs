//! A data source that a producer offers, and one in a session.

use tracezero_core::coordination::DataSourceDescriptor;
use tracezero_core::ids::{InstanceId, ProducerId};

/// A data source that a producer offers. The same name may be offered several times.
#[derive(Clone, Debug)]
pub(super) struct RegisteredDataSource {
    pub(super) number: Registration,
    pub(super) descriptor: DataSourceDescriptor,
}

/// Numbers the data sources of all producers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Registration(pub(super) u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InstanceState {
    Configured,
    Starting,
    Started,
    Stopping,
    Stopped,
}

/// A data source of one producer in one session.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) id: InstanceId,
    pub(super) producer: ProducerId,
    pub(super) producer_name: String,
    pub(super) registration: Registration,
    /// As it was when the instance was set up.
    pub(super) descriptor: DataSourceDescriptor,
    /// Position in the buffers of the session.
    pub(super) buffer_index: usize,
    /// Position in the data sources of the configuration.
    pub(super) entry: usize,
    pub(super) state: InstanceState,
}

impl Instance {
    /// Whether its producer was not yet asked to stop it.
    pub(super) fn is_wanted(&self) -> bool {
        !matches!(self.state, InstanceState::Stopping | InstanceState::Stopped)
    }
}
