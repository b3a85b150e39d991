//! The calls between producer and service, other than commits: registering data sources, starting
//! and stopping them, and flushes.

use std::fmt;
use std::ops::{AddAssign, Sub};
use std::sync::Arc;
use std::time::Duration;

use crate::commit::RingProgress;
use crate::ids::{BufferId, FlushId, InstanceId, SessionId, WriterId};

/// The maximum size of the name of a producer, a data source or a trigger, in bytes.
pub const NAME_MAX_BYTES: usize = 256;

/// A data source that a producer offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataSourceDescriptor {
    /// The name by which configurations choose the data source: 1 to [`NAME_MAX_BYTES`] bytes.
    pub name: String,
    /// An id that is unique within the producer, so that the data source can be
    /// [updated](ServiceControl::update_data_source); 0 if that is not needed.
    pub id: u64,
    /// True if the data source calls [`ServiceControl::notify_started`] when it has started.
    pub notifies_start: bool,
    /// True if the data source calls [`ServiceControl::notify_stopped`] when it has stopped.
    pub notifies_stop: bool,
    /// True if the data source has nothing to do for a flush.
    pub needs_no_flush: bool,
    /// True if the data source has incremental state, and so needs the calls to
    /// [`Producer::clear_incremental_state`].
    pub clears_incremental_state: bool,
    /// The schema of its packets, as a serialized `FileDescriptorSet`. Traces with this data source
    /// contain it, for readers that do not know the schema. Empty for none.
    pub extension_descriptors: Arc<[u8]>,
    /// The program by which a ring keeps a state of the packets that it overwrites, as a serialized
    /// `VmProgram`. Empty for none.
    pub protovm_program: Arc<[u8]>,
    /// The categories that it declares. A session may also choose categories that are not declared.
    pub categories: Vec<CategoryDescriptor>,
    /// The serialized `DataSourceDescriptor` that a producer of another process has sent, with fields
    /// that this version does not know. Empty for a producer of this process.
    pub encoded: Arc<[u8]>,
}

/// The declaration of a category of track events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CategoryDescriptor {
    /// The name of the category in events.
    pub name: String,
    /// A description of its events. May be empty.
    pub description: String,
    /// Names of groups that the category belongs to. A session can choose all categories of a
    /// group.
    pub tags: Vec<String>,
}

/// The reason why the service refuses to register or update a data source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataSourceError {
    /// Another data source of the producer has this id. Choose another id, or 0.
    IdInUse {
        /// The id.
        id: u64,
    },
    /// The producer has no data source with this id and name, so it cannot be updated.
    Unknown {
        /// The id.
        id: u64,
        /// The name.
        name: String,
    },
    /// The producer offers too many data sources, or their descriptors are too large. Unregister
    /// some of them, or shorten their schemas and categories.
    TooMany {
        /// The maximum number of data sources of a producer.
        count_max: usize,
        /// The maximum size of all their descriptors, in bytes.
        bytes_max: usize,
    },
    /// The descriptors of all producers of this user are too large. Shorten their schemas and
    /// categories, or end some of these producers.
    TooLargeForUser {
        /// The maximum size of all descriptors of a user's producers, in bytes.
        bytes_max: usize,
    },
    /// The name of the data source is empty or too long. Choose another name.
    WrongName {
        /// The size of the name in bytes.
        bytes: usize,
        /// The maximum size of a name in bytes: [`NAME_MAX_BYTES`].
        bytes_max: usize,
    },
}

impl fmt::Display for DataSourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IdInUse { id } => {
                write!(
                    f,
                    "the id {id} belongs to another data source of this producer; choose another"
                )
            }
            Self::Unknown { id, name } => write!(
                f,
                "this producer has no data source {name:?} with the id {id}; offer it before updating it"
            ),
            Self::TooMany {
                count_max,
                bytes_max,
            } => write!(
                f,
                "a producer may offer {count_max} data sources with {bytes_max} bytes of descriptors; \
                 unregister some, or shorten their schemas and categories"
            ),
            Self::TooLargeForUser { bytes_max } => write!(
                f,
                "the producers of a user may offer data sources with {bytes_max} bytes of descriptors; \
                 shorten their schemas and categories, or end some of the producers"
            ),
            Self::WrongName { bytes, bytes_max } => write!(
                f,
                "the name of a data source has 1 to {bytes_max} bytes, and this one has {bytes}; choose \
                 another"
            ),
        }
    }
}

impl std::error::Error for DataSourceError {}

/// The behaviour of a trace writer that finds no room.
///
/// There is no room if no chunk of the shared memory is free, or if the target is a ring buffer
/// that is streamed into a file and too much of it is not in the file yet: a quarter of a ring of
/// fixed size, or three quarters of the size to which the ring may grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BufferExhaustedPolicy {
    /// The writer does not wait. It drops packets until a chunk is free. In a ring buffer, new
    /// packets overwrite packets that are not in the file yet.
    #[default]
    Drop,
    /// The writer waits for a free chunk, and for the file, before every packet. Each wait takes at
    /// most `DataSourceConfig::stall_limit`; after that the packet is dropped. The process is never
    /// aborted; Perfetto's own SDK would abort it.
    Stall,
    /// The writer waits like [`Stall`](Self::Stall). Once it drops packets, it does not wait again
    /// until there is room.
    StallThenDrop,
}

/// The setup of a data source for one session.
#[derive(Clone, Debug)]
pub struct DataSourceSetup {
    /// The session that records the data source.
    pub session: SessionId,
    /// The name of the data source.
    pub name: String,
    /// The index of this entry among the configuration's entries with the same name, from 0 on.
    pub ordinal: usize,
    /// The trace buffer for its packets.
    pub target_buffer: BufferId,
    /// The progress of the target buffer.
    pub progress: Arc<RingProgress>,
    /// The behaviour of its trace writers when there is no room.
    pub exhausted_policy: BufferExhaustedPolicy,
    /// The longest time that its trace writers wait for room, if `exhausted_policy` makes them
    /// wait.
    pub stall_limit: Duration,
    /// The sizes that the session's configuration gives for the shared memory of the producer.
    pub memory_sizes: MemorySizes,
    /// [`DataSourceDescriptor::clears_incremental_state`] of the data source.
    pub clears_incremental_state: bool,
    /// A serialized `DataSourceConfig`, including the fields that the service sets.
    pub config: Vec<u8>,
}

/// The sizes of a shared memory, as somebody asks for them. Nobody has checked them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySizes {
    /// The size of the memory; 0 if it does not matter.
    pub size_bytes: u64,
    /// The size of its pages; 0 if it does not matter.
    pub page_size_bytes: u64,
}

/// Counts of the packets of one trace writer, or of several.
///
/// ```
/// use tracezero::{DataSource as _, InMemorySession, data_source};
///
/// struct Heartbeat;
/// data_source!(Heartbeat, "com.example.heartbeat");
///
/// let session = InMemorySession::start()?;
/// Heartbeat::trace(|cx| {
///     cx.packet(|packet| {
///         packet.for_testing(|event| {
///             event.set_str("still alive");
///         });
///     });
///     let counts = cx.packet_counts();
///     assert_eq!((counts.packets_begun, counts.packets_dropped), (1, 0));
/// });
/// assert_eq!(session.finish().1.data_packets, 1);
/// # Ok::<(), tracezero::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacketCounts {
    /// The number of packets that were begun.
    pub packets_begun: u64,
    /// The number of packets without any field. Readers skip them.
    pub packets_empty: u64,
    /// The number of packets that reached no chunk, not even in part: they were begun while the
    /// shared memory was exhausted, or given up in their first fragment.
    pub packets_dropped: u64,
    /// The number of times that a writer ran out of shared memory.
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

impl Sub for PacketCounts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            packets_begun: self.packets_begun - earlier.packets_begun,
            packets_empty: self.packets_empty - earlier.packets_empty,
            packets_dropped: self.packets_dropped - earlier.packets_dropped,
            drop_episodes: self.drop_episodes - earlier.drop_episodes,
        }
    }
}

/// Counts of the packets that were written to one trace buffer under one writer id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterTotals {
    /// The writer id. Several trace writers may have used it one after the other. `None` for
    /// writers that got no id, and dropped all packets.
    pub writer_id: Option<WriterId>,
    /// The trace buffer.
    pub target_buffer: BufferId,
    /// The name of the thread that used this id last.
    pub thread_name: Option<String>,
    /// The counts of the packets.
    pub counts: PacketCounts,
}

/// The interface of a producer for the service. The service makes one call at a time, from any
/// thread, and with nothing locked. So a producer may call the service from inside of a call.
pub trait Producer: Send + Sync {
    /// Sets up an instance of a data source for a session. The instance starts later. Returns false
    /// if the producer cannot record: the session then goes on without the instance.
    fn set_up_data_source(&self, instance: InstanceId, setup: &DataSourceSetup) -> bool;

    /// Starts recording. A data source with [`DataSourceDescriptor::notifies_start`] answers with
    /// [`ServiceControl::notify_started`].
    fn start_data_source(&self, instance: InstanceId);

    /// Changes the configuration of an instance while it records. `config` is a serialized
    /// `DataSourceConfig` that only has fields with numbers from 100 on. They replace the fields
    /// with the same numbers in the instance's setup.
    fn change_data_source(&self, instance: InstanceId, config: &[u8]) {
        let _ = (instance, config);
    }

    /// Stops recording. A data source with [`DataSourceDescriptor::notifies_stop`] answers with
    /// [`ServiceControl::notify_stopped`].
    fn stop_data_source(&self, instance: InstanceId);

    /// Commits all packets that these instances hold. The producer answers with
    /// [`ServiceControl::acknowledge_flush`].
    fn flush(&self, flush: FlushId, instances: &[InstanceId], flags: FlushFlags);

    /// Clears the incremental state of these instances: their later packets must not depend on
    /// earlier ones.
    fn clear_incremental_state(&self, instances: &[InstanceId]);

    /// Returns the counts of the packets of all trace writers so far.
    ///
    /// Unlike the other methods, this one is called while the service is locked, and by several
    /// threads at once. It must not call the service, nor wait for a thread that does. If the
    /// result is empty, the service assumes that no packets are in flight.
    fn writer_totals(&self) -> Vec<WriterTotals> {
        Vec::new()
    }
}

/// The interface of the service for a producer, other than
/// [commits](crate::commit::ServiceEndpoint).
pub trait ServiceControl: Send + Sync {
    /// Registers a data source. Before this returns, sessions that record this name have set up the
    /// data source, and running sessions have started it. If this is called from inside of a call
    /// to the [`Producer`], sessions set the data source up and start it only later. Several data
    /// sources may have the same name; each of them is recorded.
    ///
    /// # Errors
    ///
    /// [`DataSourceError::WrongName`], [`DataSourceError::IdInUse`], [`DataSourceError::TooMany`].
    fn register_data_source(&self, descriptor: DataSourceDescriptor)
    -> Result<(), DataSourceError>;

    /// Registers a data source and returns at once. Unlike
    /// [`ServiceControl::register_data_source`], it does not wait until sessions have set up and
    /// started the data source: the next [`ServiceControl::make_calls`] does that.
    ///
    /// # Errors
    ///
    /// [`DataSourceError::WrongName`], [`DataSourceError::IdInUse`], [`DataSourceError::TooMany`].
    fn offer_data_source(&self, descriptor: DataSourceDescriptor) -> Result<(), DataSourceError>;

    /// Makes the calls to [`Producer`]s that are pending. If another thread is making them, waits
    /// for that thread, but not longer than `limit`.
    fn make_calls(&self, limit: Duration);

    /// Replaces the descriptor of the data source with this name and id. Existing instances keep
    /// their setup.
    ///
    /// # Errors
    ///
    /// [`DataSourceError::WrongName`], [`DataSourceError::Unknown`], [`DataSourceError::TooMany`].
    fn update_data_source(&self, descriptor: DataSourceDescriptor) -> Result<(), DataSourceError>;

    /// Unregisters a data source with this name, and ends its instances. Of several, it is the one that
    /// was registered first.
    fn unregister_data_source(&self, name: &str);

    /// Answers [`Producer::start_data_source`].
    fn notify_started(&self, instance: InstanceId);

    /// Answers [`Producer::stop_data_source`]. The instance writes no more packets.
    fn notify_stopped(&self, instance: InstanceId);

    /// Answers [`Producer::flush`], for this flush and all earlier ones.
    fn acknowledge_flush(&self, flush: FlushId);

    /// Activates the triggers with these names, in all sessions that have them. A name of more than
    /// [`NAME_MAX_BYTES`] is ignored.
    fn activate_triggers(&self, names: &[&str]);
}

/// The reason and the initiator of a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushFlags {
    /// The reason.
    pub reason: FlushReason,
    /// The initiator.
    pub initiator: FlushInitiator,
}

/// The reason of a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FlushReason {
    /// No reason was given.
    #[default]
    Unknown = 0,
    /// The flush period of the session has passed.
    Periodic = 1,
    /// The end of the session.
    TraceStop = 2,
    /// A clone of the session.
    TraceClone = 3,
    /// A request by the application.
    Explicit = 4,
}

/// The party that initiated a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FlushInitiator {
    /// No initiator was given.
    #[default]
    Unknown = 0,
    /// The service itself.
    Service = 1,
    /// The command `perfetto`.
    CommandLine = 2,
    /// The application, which holds the session.
    Consumer = 3,
}

impl FlushFlags {
    /// Returns the flags of a flush that the service initiates.
    #[must_use]
    pub const fn by_service(reason: FlushReason) -> Self {
        Self {
            reason,
            initiator: FlushInitiator::Service,
        }
    }

    /// Returns the flags of a flush that the application requests.
    #[must_use]
    pub const fn explicit() -> Self {
        Self {
            reason: FlushReason::Explicit,
            initiator: FlushInitiator::Consumer,
        }
    }

    /// Returns the flags with these [`bits`](Self::bits). Unknown values read as unknown.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            reason: match bits & 0xf {
                1 => FlushReason::Periodic,
                2 => FlushReason::TraceStop,
                3 => FlushReason::TraceClone,
                4 => FlushReason::Explicit,
                _ => FlushReason::Unknown,
            },
            initiator: match bits >> 4 & 0xf {
                1 => FlushInitiator::Service,
                2 => FlushInitiator::CommandLine,
                3 => FlushInitiator::Consumer,
                _ => FlushInitiator::Unknown,
            },
        }
    }

    /// Returns the flags as a number, in the encoding of Perfetto's `FlushFlags`: the reason in
    /// bits 0 to 3, the initiator in bits 4 to 7.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.reason as u64 | (self.initiator as u64) << 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_flags_have_perfettos_bits() {
        assert_eq!(FlushFlags::default().bits(), 0);
        assert_eq!(FlushFlags::explicit().bits(), 0x34);
        assert_eq!(FlushFlags::by_service(FlushReason::TraceStop).bits(), 0x12);
        for bits in [0, 0x12, 0x34, 0x21, 0x22, 0x13] {
            assert_eq!(FlushFlags::from_bits(bits).bits(), bits);
        }
        assert_eq!(FlushFlags::from_bits(0xfff), FlushFlags::default());
    }
}
