//! The messages of producers and their daemon, as either side encodes and decodes them.
//!
//! ```text
//!  introduction    what a producer says first, and what the daemon answers
//!  requests        what a producer asks
//!  commits         chunks and patches, which a producer hands over
//!  writer_totals   what became of the packets of writers; tracezero's own
//!  commands        what the daemon tells a producer to do
//! ```
//!
//! Producers are not trusted: numbers that nothing can have are refused here.

use std::fmt;

use tracezero_core::ids::{BufferId, WriterId};

use crate::wire::BoundService;

mod commands;
mod commits;
mod introduction;
mod requests;
mod writer_totals;

pub use self::commands::{
    Command, DataSourceConfig, change, clear_incremental_state, flush, set_up, set_up_tracing,
    start, stop,
};
pub use self::commits::{
    ChunkData, Commit, PatchedChunk, commit_chunk_data, commit_moves, commit_patches, flush_done,
};
pub use self::introduction::{
    InitializeReply, Introduction, ReceivedIntroduction, initialize_connection, initialized,
    needs_emulation,
};
pub use self::requests::{
    Request, TraceWriter, activate_triggers, notify_started, notify_stopped, register_data_source,
    register_trace_writer, unregister_data_source, unregister_trace_writer, update_data_source,
};
pub use self::writer_totals::writer_totals;

/// The name of the service.
pub const SERVICE: &str = "ProducerPort";

/// The size of a part of a request that is split, in bytes. Less than a frame may have, because sizes
/// are estimated.
const PART_BYTES: usize = 100 * 1024;

/// A method of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the protocol's")]
pub enum Method {
    InitializeConnection,
    RegisterDataSource,
    UnregisterDataSource,
    CommitData,
    GetAsyncCommand,
    RegisterTraceWriter,
    UnregisterTraceWriter,
    NotifyDataSourceStarted,
    NotifyDataSourceStopped,
    ActivateTriggers,
    Sync,
    UpdateDataSource,
    /// Tracezero's own: only its daemons have this method.
    TracezeroWriterTotals,
}

impl Method {
    /// All methods, in the order of the numbers that Perfetto's daemon gives them.
    pub const ALL: [Self; 13] = [
        Self::InitializeConnection,
        Self::RegisterDataSource,
        Self::UnregisterDataSource,
        Self::CommitData,
        Self::GetAsyncCommand,
        Self::RegisterTraceWriter,
        Self::UnregisterTraceWriter,
        Self::NotifyDataSourceStarted,
        Self::NotifyDataSourceStopped,
        Self::ActivateTriggers,
        Self::Sync,
        Self::UpdateDataSource,
        Self::TracezeroWriterTotals,
    ];

    /// The methods without which a producer cannot record.
    const NEEDED: [Self; 4] = [
        Self::InitializeConnection,
        Self::RegisterDataSource,
        Self::CommitData,
        Self::GetAsyncCommand,
    ];

    /// Returns the name in the protocol.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InitializeConnection => "InitializeConnection",
            Self::RegisterDataSource => "RegisterDataSource",
            Self::UnregisterDataSource => "UnregisterDataSource",
            Self::CommitData => "CommitData",
            Self::GetAsyncCommand => "GetAsyncCommand",
            Self::RegisterTraceWriter => "RegisterTraceWriter",
            Self::UnregisterTraceWriter => "UnregisterTraceWriter",
            Self::NotifyDataSourceStarted => "NotifyDataSourceStarted",
            Self::NotifyDataSourceStopped => "NotifyDataSourceStopped",
            Self::ActivateTriggers => "ActivateTriggers",
            Self::Sync => "Sync",
            Self::UpdateDataSource => "UpdateDataSource",
            Self::TracezeroWriterTotals => "TracezeroWriterTotals",
        }
    }

    /// Returns the number that Perfetto's daemon gives the method. Clients take the numbers from the
    /// reply to their bind.
    #[must_use]
    pub const fn id(self) -> u32 {
        self as u32 + 1
    }

    /// Returns the method with this [id](Self::id); `None` if there is none.
    #[must_use]
    pub fn from_id(id: u32) -> Option<Self> {
        let index = usize::try_from(id).ok()?.checked_sub(1)?;
        Self::ALL.get(index).copied()
    }
}

/// A daemon that lacks a method that every producer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingMethod(
    /// The name of the method.
    pub &'static str,
);

impl fmt::Display for MissingMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the daemon has no method {} for producers", self.0)
    }
}

impl std::error::Error for MissingMethod {}

/// The numbers of the service and its methods on one connection.
#[derive(Clone, Debug)]
pub struct Methods {
    service_id: u32,
    /// By method; `None` if the daemon does not have it.
    ids: [Option<u32>; Method::ALL.len()],
}

impl Methods {
    /// Takes the numbers from the reply to a bind.
    ///
    /// # Errors
    ///
    /// If a method is missing that every producer needs.
    pub fn new(bound: &BoundService<'_>) -> Result<Self, MissingMethod> {
        let methods = Self {
            service_id: bound.service_id,
            ids: Method::ALL.map(|method| bound.method(method.name())),
        };
        match Method::NEEDED.iter().find(|it| methods.id(**it).is_none()) {
            Some(missing) => Err(MissingMethod(missing.name())),
            None => Ok(methods),
        }
    }

    /// Returns the number of the service.
    #[must_use]
    pub fn service_id(&self) -> u32 {
        self.service_id
    }

    /// Returns true if the daemon is one of tracezero.
    #[must_use]
    pub fn are_of_tracezero(&self) -> bool {
        self.id(Method::TracezeroWriterTotals).is_some()
    }

    /// Returns the number of a method; `None` if the daemon does not have it.
    #[must_use]
    pub fn id(&self, method: Method) -> Option<u32> {
        self.ids[method as usize]
    }
}

/// Returns the id of a writer, unless no writer can have it.
fn writer_id(number: Option<u32>) -> Option<WriterId> {
    let id = WriterId(u16::try_from(number?).ok()?);
    id.is_valid().then_some(id)
}

/// Returns the id of a buffer, unless no buffer can have it.
fn buffer_id(number: Option<u32>) -> Option<BufferId> {
    u16::try_from(number?).ok().map(BufferId)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(missing: &str) -> BoundService<'static> {
        let names = Method::ALL.map(Method::name).into_iter();
        BoundService {
            service_id: 1,
            methods: names
                .zip(1..)
                .filter(|(name, _)| *name != missing)
                .collect(),
        }
    }

    #[test]
    fn methods_have_the_numbers_that_the_daemon_gives() {
        let methods = Methods::new(&bound("UpdateDataSource")).unwrap();
        assert_eq!(methods.id(Method::CommitData), Some(4));
        assert_eq!(methods.id(Method::Sync), Some(Method::Sync.id()));
        assert_eq!(methods.id(Method::UpdateDataSource), None);
        let error = Methods::new(&bound("CommitData")).unwrap_err();
        assert_eq!(error, MissingMethod("CommitData"));
    }
}
