//! What producer and service tell each other besides chunks: which data sources there are, which
//! of them record, and when they flush.

use std::fmt;
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use crate::commit::RingProgress;
use crate::ids::{BufferId, FlushId, InstanceId, SessionId, WriterId};

/// A data source that a producer offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataSourceDescriptor {
    /// The name that configurations know it by.
    pub name: String,
    /// Tells data sources of one producer apart, so that one of them can be
    /// [updated](ServiceControl::update_data_source); 0 if that is not needed.
    pub id: u64,
    /// Whether it is recording only once it says so.
    pub notifies_start: bool,
    /// Whether it is done only once it says so.
    pub notifies_stop: bool,
    /// Whether it has nothing to do for a flush.
    pub needs_no_flush: bool,
    /// Whether it wants to know when later packets must not build on earlier ones.
    pub clears_incremental_state: bool,
    /// The schema of its packets, for readers that do not have it: a serialized
    /// `FileDescriptorSet`, which traces with this data source carry. Empty for none.
    pub extension_descriptors: Arc<[u8]>,
    /// Categories that it declares: what a session can choose from, besides names that nobody
    /// declared.
    pub categories: Vec<CategoryDescriptor>,
}

/// A category of track events, as its declaration describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CategoryDescriptor {
    /// The name that events have it under.
    pub name: String,
    /// What its events are about; may be empty.
    pub description: String,
    /// Names for groups of categories that are chosen together.
    pub tags: Vec<String>,
}

/// Why the service does not take what a producer says of a data source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataSourceError {
    /// Another data source of the producer has this id: choose another one, or 0.
    IdInUse {
        /// The id.
        id: u64,
    },
    /// The producer has no such data source: only one with a name and an id that were registered
    /// can be updated.
    Unknown {
        /// The id.
        id: u64,
        /// The name.
        name: String,
    },
}

impl fmt::Display for DataSourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IdInUse { id } => {
                write!(
                    f,
                    "the id {id} is that of another data source of this producer"
                )
            }
            Self::Unknown { id, name } => write!(
                f,
                "this producer has no data source {name:?} with the id {id} to update"
            ),
        }
    }
}

impl std::error::Error for DataSourceError {}

/// What a writer does when no chunk is free, or when a ring that is streamed into a file holds too much
/// that the file does not have yet: a quarter of a ring of fixed size, three quarters of what one may
/// grow to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BufferExhaustedPolicy {
    /// Drops packets until a chunk is free. Overwrites a ring.
    #[default]
    Drop,
    /// Waits for a chunk, and for the file, at every packet, each time as long as
    /// `DataSourceConfig::stall_limit` says. Only then are
    /// packets dropped; the process is never aborted. Perfetto's own SDK aborts it.
    Stall,
    /// Waits likewise, but while it is dropping it does not wait again.
    StallThenDrop,
}

/// What a data source is to do in one session.
#[derive(Clone, Debug)]
pub struct DataSourceSetup {
    /// The session that wants it.
    pub session: SessionId,
    /// The name of the data source.
    pub name: String,
    /// Which of the entries for this data source in the configuration this is, from 0 on.
    pub ordinal: usize,
    /// Where its packets go.
    pub target_buffer: BufferId,
    /// How far that buffer has come.
    pub progress: Arc<RingProgress>,
    /// What its writers do when there is no free chunk.
    pub exhausted_policy: BufferExhaustedPolicy,
    /// How long they wait, if they do.
    pub stall_limit: Duration,
    /// A serialized `DataSourceConfig`, with what the service fills in.
    pub config: Vec<u8>,
}

/// What became of the packets of one writer, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Packets that were begun.
    pub packets_begun: u64,
    /// Packets without a single field. Readers skip them.
    pub packets_empty: u64,
    /// Packets of which nothing reached a chunk: begun while the shared memory was exhausted, or
    /// given up in their first fragment.
    pub packets_dropped: u64,
    /// How often a writer ran out of shared memory.
    pub drop_episodes: u64,
}

impl AddAssign for PacketCounts {
    fn add_assign(&mut self, other: Self) {
        self.packets_begun += other.packets_begun;
        self.packets_empty += other.packets_empty;
        self.packets_dropped += other.packets_dropped;
        self.drop_episodes += other.drop_episodes;
    }
}

/// The packets that went to one central buffer under one writer id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterTotals {
    /// The id, which several writers may have had one after the other. `None` for writers that
    /// got none, and dropped everything.
    pub writer_id: Option<WriterId>,
    /// The buffer.
    pub target_buffer: BufferId,
    /// The name of the thread that writes under this id, or did last.
    pub thread_name: Option<String>,
    /// What became of the packets.
    pub counts: PacketCounts,
}

/// A producer as the service calls it. Calls come one at a time, from any thread, with nothing
/// locked: a producer may call the service from inside of them.
pub trait Producer: Send + Sync {
    /// A session wants this data source; it will start later.
    fn set_up_data_source(&self, instance: InstanceId, setup: &DataSourceSetup);

    /// Recording begins. A data source whose descriptor says so answers with
    /// [`ServiceControl::notify_started`].
    fn start_data_source(&self, instance: InstanceId);

    /// The session wants something else of this instance from now on. `config` is a serialized
    /// `DataSourceConfig` with fields from number 100 on, which take the place of those that the
    /// instance was set up with.
    fn change_data_source(&self, instance: InstanceId, config: &[u8]) {
        let _ = (instance, config);
    }

    /// Recording ends. A data source whose descriptor says so answers with
    /// [`ServiceControl::notify_stopped`].
    fn stop_data_source(&self, instance: InstanceId);

    /// Commit everything that these instances hold; answered with
    /// [`ServiceControl::acknowledge_flush`].
    fn flush(&self, flush: FlushId, instances: &[InstanceId], flags: FlushFlags);

    /// Later packets of these instances must not build on earlier ones.
    fn clear_incremental_state(&self, instances: &[InstanceId]);

    /// What became of the packets of all writers so far.
    ///
    /// Unlike the other calls this one comes with the service locked, and from several threads: it
    /// must not call the service, nor wait for anybody who does. A producer that tells nothing has
    /// no packets in flight, as far as the service knows.
    fn writer_totals(&self) -> Vec<WriterTotals> {
        Vec::new()
    }
}

/// The service as a producer calls it, besides [commits](crate::commit::ServiceEndpoint).
pub trait ServiceControl: Send + Sync {
    /// Offers a data source. Sessions that want it have set it up, and started it if they have
    /// started, when this returns; unless it is called from inside of a call to the [`Producer`].
    /// Several may have the same name; each is recorded.
    ///
    /// # Errors
    ///
    /// [`DataSourceError::IdInUse`].
    fn register_data_source(&self, descriptor: DataSourceDescriptor)
    -> Result<(), DataSourceError>;

    /// Offers a data source and returns at once: what [`ServiceControl::register_data_source`]
    /// promises has happened after [`ServiceControl::make_calls`].
    ///
    /// # Errors
    ///
    /// [`DataSourceError::IdInUse`].
    fn offer_data_source(&self, descriptor: DataSourceDescriptor) -> Result<(), DataSourceError>;

    /// Makes the calls to [`Producer`]s that follow from what was asked so far. Those that another
    /// thread is making are waited for, but not longer than `limit`.
    fn make_calls(&self, limit: Duration);

    /// Replaces the descriptor of the data source with this name and id. Instances go on with what
    /// they were set up with.
    ///
    /// # Errors
    ///
    /// [`DataSourceError::Unknown`].
    fn update_data_source(&self, descriptor: DataSourceDescriptor) -> Result<(), DataSourceError>;

    /// Takes back the data sources of this name; their instances end.
    fn unregister_data_source(&self, name: &str);

    /// Answers [`Producer::start_data_source`].
    fn notify_started(&self, instance: InstanceId);

    /// Answers [`Producer::stop_data_source`]: nothing more is written for this instance.
    fn notify_stopped(&self, instance: InstanceId);

    /// Answers [`Producer::flush`], for this one and all before it.
    fn acknowledge_flush(&self, flush: FlushId);

    /// Hits triggers: sessions that wait for one of these names take it.
    fn activate_triggers(&self, names: &[&str]);
}

/// Why there is a flush, and on whose behalf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushFlags {
    /// Why.
    pub reason: FlushReason,
    /// On whose behalf.
    pub initiator: FlushInitiator,
}

/// Why there is a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushReason {
    /// It was not said.
    #[default]
    Unknown = 0,
    /// It is time for the next one.
    Periodic = 1,
    /// The session ends.
    TraceStop = 2,
    /// A snapshot is taken.
    TraceClone = 3,
    /// Somebody asked for it.
    Explicit = 4,
}

/// On whose behalf there is a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushInitiator {
    /// It was not said.
    #[default]
    Unknown = 0,
    /// The service's own.
    Service = 1,
    /// The application's that holds the session.
    Consumer = 3,
}

impl FlushFlags {
    /// A flush of the service's own.
    #[must_use]
    pub const fn by_service(reason: FlushReason) -> Self {
        Self {
            reason,
            initiator: FlushInitiator::Service,
        }
    }

    /// A flush that the application asked for.
    #[must_use]
    pub const fn explicit() -> Self {
        Self {
            reason: FlushReason::Explicit,
            initiator: FlushInitiator::Consumer,
        }
    }

    /// As the number that goes over a connection: the reason in bits 0 to 3, the initiator in bits
    /// 4 to 7 (reference: `FlushFlags`).
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.reason as u64 | (self.initiator as u64) << 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_flags_have_the_bits_of_the_reference() {
        assert_eq!(FlushFlags::default().bits(), 0);
        assert_eq!(FlushFlags::explicit().bits(), 0x34);
        assert_eq!(FlushFlags::by_service(FlushReason::TraceStop).bits(), 0x12);
    }
}
