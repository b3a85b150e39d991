//! The messages of producers and their daemon: as a producer encodes and decodes them here, and as
//! the daemon does in `daemon_side`.

use std::fmt;

use protozero::{DecodeError, HeapBuffered, Writer};
use tracezero_core::commit::{ChunkToMove, Patch};
use tracezero_core::coordination::{
    BufferExhaustedPolicy, DataSourceDescriptor as Descriptor, FlushFlags, WriterTotals,
};
use tracezero_core::ids::{BufferId, ChunkId, FlushId, InstanceId, WriterId};
use tracezero_core::protos::DataSourceConfigDecoder;
use tracezero_core::protos::data_source_config::BufferExhaustedPolicy as WirePolicy;
use tracezero_core::shm::{ChunkPlace, PacketsWord};

use crate::protos::get_async_command_response::Cmd;
use crate::protos::initialize_connection_request::ProducerSmbScrapingMode;
use crate::protos::{
    ActivateTriggersRequest, CommitDataRequest, DataSourceDescriptor,
    GetAsyncCommandResponseDecoder, InitializeConnectionRequest,
    InitializeConnectionResponseDecoder, NotifyDataSourceStartedRequest,
    NotifyDataSourceStoppedRequest, RegisterDataSourceRequest, RegisterTraceWriterRequest,
    TracezeroWriterTotalsRequest, UnregisterDataSourceRequest, UnregisterTraceWriterRequest,
    UpdateDataSourceRequest,
};
use crate::wire::BoundService;

mod daemon_side;

pub use self::daemon_side::{
    Commit, InitializeReply, ReceivedIntroduction, Request, TraceWriter, change,
    clear_incremental_state, flush, initialized, set_up, set_up_tracing, start, stop,
};

/// The name of the service.
pub const SERVICE: &str = "ProducerPort";

/// The payload of commits in one frame, in bytes. Less than a frame may have, because the size is
/// estimated.
const COMMIT_BYTES: usize = 100 * 1024;

/// The size of a chunk's header, in bytes.
const CHUNK_HEADER_BYTES: usize = 8;

/// The maximum size of a thread's name, in bytes. The kernel's names are shorter.
const THREAD_NAME_MAX_BYTES: usize = 64;

/// The most patches in one entry of a commit: daemons apply no more.
const PATCHES_MAX: usize = 1024;

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
    pub const fn number(self) -> u32 {
        self as u32 + 1
    }

    /// Returns the method with this [`number`](Self::number), if there is one.
    #[must_use]
    pub fn of_number(number: u32) -> Option<Self> {
        let index = number.checked_sub(1)?;
        Self::ALL.get(index as usize).copied()
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

/// What a producer says first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Introduction {
    /// The name by which configurations choose producers.
    pub producer_name: String,
    /// The size of the shared memory that the producer would like, in bytes; 0 for no wish.
    pub memory_size_bytes: u32,
    /// The size of its pages, in bytes; 0 for no wish.
    pub page_size_bytes: u32,
    /// The name and version of the producer's library.
    pub sdk_version: String,
    /// True if configurations may change while they are used. Say so only to a daemon of tracezero.
    pub takes_changes: bool,
}

/// Encodes a message.
fn encoded<M: Writer>(write: impl FnOnce(&mut M::At<'_>)) -> Vec<u8> {
    let mut buffer = HeapBuffered::<M>::new();
    write(&mut buffer.message());
    buffer.to_vec()
}

/// Encodes [`Method::InitializeConnection`]. The daemon may read chunks that are not complete.
#[must_use]
pub fn initialize_connection(introduction: &Introduction) -> Vec<u8> {
    encoded::<InitializeConnectionRequest<'_>>(|out| {
        if introduction.page_size_bytes > 0 {
            out.set_shared_memory_page_size_hint_bytes(introduction.page_size_bytes);
        }
        if introduction.memory_size_bytes > 0 {
            out.set_shared_memory_size_hint_bytes(introduction.memory_size_bytes);
        }
        out.set_producer_name(&introduction.producer_name);
        out.set_smb_scraping_mode(ProducerSmbScrapingMode::SMB_SCRAPING_ENABLED);
        out.set_sdk_version(&introduction.sdk_version);
        if introduction.takes_changes {
            out.set_tracezero_takes_changes(true);
        }
    })
}

/// Returns true if the daemon's answer to [`Method::InitializeConnection`] says that it cannot share
/// memory.
///
/// # Errors
///
/// If the answer is malformed.
pub fn needs_emulation(reply: &[u8]) -> Result<bool, DecodeError> {
    let reply = InitializeConnectionResponseDecoder::new(reply);
    Ok(reply.use_shmem_emulation()?.unwrap_or_default())
}

/// Encodes [`Method::RegisterDataSource`].
#[must_use]
pub fn register_data_source(descriptor: &Descriptor) -> Vec<u8> {
    encoded::<RegisterDataSourceRequest<'_>>(|out| {
        out.data_source_descriptor(|out| describe(descriptor, out));
    })
}

/// Encodes [`Method::UpdateDataSource`].
#[must_use]
pub fn update_data_source(descriptor: &Descriptor) -> Vec<u8> {
    encoded::<UpdateDataSourceRequest<'_>>(|out| {
        out.data_source_descriptor(|out| describe(descriptor, out));
    })
}

fn describe(descriptor: &Descriptor, out: &mut DataSourceDescriptor<'_>) {
    out.set_name(&descriptor.name);
    out.set_id(descriptor.id);
    out.set_will_notify_on_start(descriptor.notifies_start);
    out.set_will_notify_on_stop(descriptor.notifies_stop);
    out.set_handles_incremental_state_clear(descriptor.clears_incremental_state);
    out.set_no_flush(descriptor.needs_no_flush);
    if !descriptor.categories.is_empty() {
        out.track_event_descriptor(|out| {
            for category in &descriptor.categories {
                out.add_available_categories(|out| {
                    out.set_name(&category.name);
                    if !category.description.is_empty() {
                        out.set_description(&category.description);
                    }
                    for tag in &category.tags {
                        out.add_tags(tag);
                    }
                });
            }
        });
    }
}

/// Encodes [`Method::UnregisterDataSource`].
#[must_use]
pub fn unregister_data_source(name: &str) -> Vec<u8> {
    encoded::<UnregisterDataSourceRequest<'_>>(|out| {
        out.set_data_source_name(name);
    })
}

/// Encodes [`Method::RegisterTraceWriter`].
#[must_use]
pub fn register_trace_writer(writer: WriterId, target: BufferId) -> Vec<u8> {
    encoded::<RegisterTraceWriterRequest<'_>>(|out| {
        out.set_trace_writer_id(writer.0.into());
        out.set_target_buffer(target.0.into());
    })
}

/// Encodes [`Method::UnregisterTraceWriter`].
#[must_use]
pub fn unregister_trace_writer(writer: WriterId) -> Vec<u8> {
    encoded::<UnregisterTraceWriterRequest<'_>>(|out| {
        out.set_trace_writer_id(writer.0.into());
    })
}

/// Encodes [`Method::NotifyDataSourceStarted`].
#[must_use]
pub fn notify_started(instance: InstanceId) -> Vec<u8> {
    encoded::<NotifyDataSourceStartedRequest<'_>>(|out| {
        out.set_data_source_id(instance.0);
    })
}

/// Encodes [`Method::NotifyDataSourceStopped`].
#[must_use]
pub fn notify_stopped(instance: InstanceId) -> Vec<u8> {
    encoded::<NotifyDataSourceStoppedRequest<'_>>(|out| {
        out.set_data_source_id(instance.0);
    })
}

/// Encodes [`Method::ActivateTriggers`].
#[must_use]
pub fn activate_triggers(names: &[String]) -> Vec<u8> {
    encoded::<ActivateTriggersRequest<'_>>(|out| {
        for name in names {
            out.add_trigger_names(name);
        }
    })
}

/// Encodes [`Method::TracezeroWriterTotals`]. Calls `each` with the requests: none, or several if there
/// are too many writers for a frame.
pub fn writer_totals(totals: &[WriterTotals], mut each: impl FnMut(&[u8])) {
    /// The largest size of an encoded writer, whose thread's name is cut.
    const WRITER_BYTES: usize = 64 + THREAD_NAME_MAX_BYTES;
    for totals in totals.chunks(COMMIT_BYTES / WRITER_BYTES) {
        each(&encoded::<TracezeroWriterTotalsRequest<'_>>(|out| {
            for writer in totals {
                write_totals(writer, out);
            }
        }));
    }
}

fn write_totals(writer: &WriterTotals, out: &mut TracezeroWriterTotalsRequest<'_>) {
    out.add_writers(|out| {
        out.set_writer_id(writer.writer_id.map_or(0, |id| id.0.into()));
        out.set_target_buffer(writer.target_buffer.0.into());
        if let Some(name) = &writer.thread_name {
            out.set_thread_name(&name[..name.floor_char_boundary(THREAD_NAME_MAX_BYTES)]);
        }
        let counts = &writer.counts;
        out.set_packets_begun(counts.packets_begun);
        out.set_packets_empty(counts.packets_empty);
        out.set_packets_dropped(counts.packets_dropped);
        out.set_drop_episodes(counts.drop_episodes);
    });
}

/// Encodes [`Method::CommitData`] that finishes a flush.
#[must_use]
pub fn flush_done(flush: FlushId) -> Vec<u8> {
    encoded::<CommitDataRequest<'_>>(|out| {
        out.set_flush_request_id(flush.0);
    })
}

/// Encodes [`Method::CommitData`] for chunks. Calls `each` with the requests, in order: one, or
/// several if the commit is too large for a frame.
pub fn commit_moves(chunks_to_move: &[ChunkToMove], mut each: impl FnMut(&[u8])) {
    /// The largest size of an encoded move.
    const MOVE_BYTES: usize = 20;
    for moves in chunks_to_move.chunks(COMMIT_BYTES / MOVE_BYTES) {
        each(&encoded::<CommitDataRequest<'_>>(|out| {
            for chunk in moves {
                write_move(chunk, out);
            }
        }));
    }
}

/// Patches for one chunk, which the daemon applies to its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchedChunk<'a> {
    /// The writer of the chunk.
    pub writer_id: WriterId,
    /// The position of the chunk in the writer's sequence.
    pub chunk_id: ChunkId,
    /// The trace buffer that the chunk went to.
    pub target_buffer: BufferId,
    /// The patches, in the order of their offsets in the chunk.
    pub patches: &'a [Patch],
    /// True if more patches for this chunk follow in a later commit.
    pub has_more_patches: bool,
}

/// Encodes [`Method::CommitData`] for patches. Calls `each` with the requests, in order: one, or
/// several if there are more patches than a daemon applies at once.
pub fn commit_patches(patched: &PatchedChunk<'_>, mut each: impl FnMut(&[u8])) {
    let mut parts = patched.patches.chunks(PATCHES_MAX).peekable();
    while let Some(patches) = parts.next() {
        let has_more_patches = patched.has_more_patches || parts.peek().is_some();
        each(&encoded::<CommitDataRequest<'_>>(|out| {
            let part = PatchedChunk {
                patches,
                has_more_patches,
                ..*patched
            };
            write_patches(&part, out);
        }));
    }
}

/// A chunk of memory that the daemon cannot map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkData<'a> {
    /// Where the chunk is in the producer's memory.
    pub place: ChunkPlace,
    /// The trace buffer for its packets.
    pub target_buffer: BufferId,
    /// The writer of the chunk.
    pub writer_id: WriterId,
    /// The position of the chunk in the writer's sequence.
    pub chunk_id: ChunkId,
    /// The fragment count and flags.
    pub packets: PacketsWord,
    /// The bytes behind the header.
    pub payload: &'a [u8],
    /// False if the writer goes on writing to the chunk, so that its last fragment is not finished.
    pub is_complete: bool,
}

/// Encodes [`Method::CommitData`] with the bytes of a chunk.
#[must_use]
pub fn commit_chunk_data(chunk: &ChunkData<'_>) -> Vec<u8> {
    // As in the memory: the id, the writer, and the count with the flags.
    let mut data = Vec::with_capacity(CHUNK_HEADER_BYTES + chunk.payload.len());
    data.extend_from_slice(&chunk.chunk_id.0.to_le_bytes());
    data.extend_from_slice(&chunk.writer_id.0.to_le_bytes());
    data.extend_from_slice(&chunk.packets.bits().to_le_bytes());
    data.extend_from_slice(chunk.payload);
    encoded::<CommitDataRequest<'_>>(|out| {
        out.add_chunks_to_move(|out| {
            out.set_page(chunk.place.page_index);
            out.set_chunk(chunk.place.chunk_index.into());
            out.set_target_buffer(chunk.target_buffer.0.into());
            out.set_data(&data);
            out.set_chunk_incomplete(!chunk.is_complete);
        });
    })
}

fn write_move(chunk: &ChunkToMove, out: &mut CommitDataRequest<'_>) {
    out.add_chunks_to_move(|out| {
        out.set_page(chunk.page_index);
        out.set_chunk(chunk.chunk_index.into());
        out.set_target_buffer(chunk.target_buffer.0.into());
    });
}

fn write_patches(patched: &PatchedChunk<'_>, out: &mut CommitDataRequest<'_>) {
    out.add_chunks_to_patch(|out| {
        out.set_target_buffer(patched.target_buffer.0.into());
        out.set_writer_id(patched.writer_id.0.into());
        out.set_chunk_id(patched.chunk_id.0);
        for patch in patched.patches {
            out.add_patches(|out| {
                out.set_offset(patch.offset_bytes.into());
                out.set_data(&patch.data);
            });
        }
        out.set_has_more_patches(patched.has_more_patches);
    });
}

/// What a daemon tells a producer to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Use the shared memory whose descriptor comes with the command.
    SetUpTracing {
        /// The size of its pages, in KiB.
        page_size_kib: u32,
    },
    /// Prepare an instance of a data source.
    SetUp(InstanceId, DataSourceConfig<'a>),
    /// Start an instance.
    Start(InstanceId, DataSourceConfig<'a>),
    /// Stop an instance.
    Stop(InstanceId),
    /// Commit all that these instances hold, and answer.
    Flush {
        /// The number of the flush.
        flush: FlushId,
        /// The instances; there may be none.
        instances: Vec<InstanceId>,
        /// Why it is asked for.
        flags: FlushFlags,
    },
    /// Let later packets of these instances depend on no earlier ones.
    ClearIncrementalState(Vec<InstanceId>),
    /// Change the configuration of an instance: the bytes are an encoded `DataSourceConfig`.
    Change(InstanceId, &'a [u8]),
    /// A command that this version does not know.
    Unknown,
}

/// The configuration of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSourceConfig<'a> {
    /// The name of the data source.
    pub name: &'a str,
    /// The number of the session; 0 if the daemon does not say.
    pub session: u64,
    /// The trace buffer for its packets.
    pub target_buffer: BufferId,
    /// What its writers do when there is no room; `None` if the daemon leaves it to the producer.
    pub exhausted_policy: Option<BufferExhaustedPolicy>,
    /// The whole configuration, encoded.
    pub bytes: &'a [u8],
}

impl<'a> DataSourceConfig<'a> {
    fn decode(config: Option<&DataSourceConfigDecoder<'a>>) -> Result<Self, DecodeError> {
        let empty = DataSourceConfigDecoder::new(&[]);
        let config = config.unwrap_or(&empty);
        Ok(Self {
            name: config.name()?.unwrap_or_default(),
            session: config.tracing_session_id()?.unwrap_or_default(),
            target_buffer: BufferId(config.target_buffer()?.unwrap_or_default() as u16),
            exhausted_policy: match config.buffer_exhausted_policy()? {
                Some(WirePolicy::BUFFER_EXHAUSTED_DROP) => Some(BufferExhaustedPolicy::Drop),
                Some(WirePolicy::BUFFER_EXHAUSTED_STALL_THEN_ABORT) => {
                    Some(BufferExhaustedPolicy::Stall)
                }
                Some(WirePolicy::BUFFER_EXHAUSTED_STALL_THEN_DROP) => {
                    Some(BufferExhaustedPolicy::StallThenDrop)
                }
                _ => None,
            },
            bytes: config.as_decoder().bytes(),
        })
    }
}

impl<'a> Command<'a> {
    /// Decodes a reply to [`Method::GetAsyncCommand`].
    ///
    /// # Errors
    ///
    /// If the reply is malformed.
    pub fn decode(reply: &'a [u8]) -> Result<Self, DecodeError> {
        let id = |id: Option<u64>| InstanceId(id.unwrap_or_default());
        Ok(match GetAsyncCommandResponseDecoder::new(reply).cmd()? {
            Some(Cmd::SetupTracing(setup)) => Self::SetUpTracing {
                page_size_kib: setup.shared_buffer_page_size_kb()?.unwrap_or_default(),
            },
            Some(Cmd::SetupDataSource(setup)) => {
                let config = DataSourceConfig::decode(setup.config()?.as_ref())?;
                Self::SetUp(id(setup.new_instance_id()?), config)
            }
            Some(Cmd::StartDataSource(start)) => {
                let config = DataSourceConfig::decode(start.config()?.as_ref())?;
                Self::Start(id(start.new_instance_id()?), config)
            }
            Some(Cmd::StopDataSource(stop)) => Self::Stop(id(stop.instance_id()?)),
            Some(Cmd::Flush(flush)) => Self::Flush {
                flush: FlushId(flush.request_id()?.unwrap_or_default()),
                instances: instances(flush.data_source_ids())?,
                flags: FlushFlags::from_bits(flush.flags()?.unwrap_or_default()),
            },
            Some(Cmd::ClearIncrementalState(clear)) => {
                Self::ClearIncrementalState(instances(clear.data_source_ids())?)
            }
            Some(Cmd::TracezeroChangeDataSource(change)) => {
                let config = change.config()?;
                let bytes = config.map_or(&[][..], |config| config.as_decoder().bytes());
                Self::Change(id(change.instance_id()?), bytes)
            }
            None => Self::Unknown,
        })
    }
}

fn instances(
    ids: impl Iterator<Item = Result<u64, DecodeError>>,
) -> Result<Vec<InstanceId>, DecodeError> {
    ids.map(|id| id.map(InstanceId)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FRAME_MAX_BYTES;
    use crate::protos::CommitDataRequestDecoder;

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
        assert_eq!(methods.id(Method::Sync), Some(Method::Sync.number()));
        assert_eq!(methods.id(Method::UpdateDataSource), None);
        let error = Methods::new(&bound("CommitData")).unwrap_err();
        assert_eq!(error, MissingMethod("CommitData"));
    }

    #[test]
    fn a_commit_is_split_into_frames() {
        let chunk = ChunkToMove {
            page_index: u32::MAX,
            chunk_index: 13,
            target_buffer: BufferId(u16::MAX),
            payload_bytes: 0,
        };
        let patch = Patch {
            offset_bytes: u16::MAX,
            data: [0x80; 4],
        };
        let patched = PatchedChunk {
            writer_id: WriterId::MAX,
            chunk_id: ChunkId(u32::MAX),
            target_buffer: BufferId(u16::MAX),
            patches: &vec![patch; 2 * PATCHES_MAX + 1],
            has_more_patches: false,
        };
        let mut moves = 0;
        commit_moves(&vec![chunk; 20_000], |bytes| {
            assert!(bytes.len() + 64 < FRAME_MAX_BYTES);
            moves += CommitDataRequestDecoder::new(bytes)
                .chunks_to_move()
                .count();
        });
        let (mut patches, mut finished) = (0, 0);
        commit_patches(&patched, |bytes| {
            assert!(bytes.len() + 64 < FRAME_MAX_BYTES);
            let decoded = CommitDataRequestDecoder::new(bytes);
            for patched in decoded.chunks_to_patch().map(Result::unwrap) {
                patches += patched.patches().count();
                finished += usize::from(patched.has_more_patches() == Ok(Some(false)));
            }
        });
        assert_eq!((moves, patches, finished), (20_000, 2049, 1));
    }

    #[test]
    fn the_bytes_of_a_chunk_begin_with_its_header() {
        let chunk = ChunkData {
            place: ChunkPlace {
                page_index: 3,
                chunk_index: 2,
            },
            target_buffer: BufferId(7),
            writer_id: WriterId(0x0506),
            chunk_id: ChunkId(0x0102_0304),
            packets: PacketsWord::from_bits(0x0809),
            payload: b"payload",
            is_complete: false,
        };
        let bytes = commit_chunk_data(&chunk);
        let decoded = CommitDataRequestDecoder::new(&bytes);
        let moved = decoded.chunks_to_move().next().unwrap().unwrap();
        let numbers = (moved.page(), moved.chunk(), moved.target_buffer());
        assert_eq!(numbers, (Ok(Some(3)), Ok(Some(2)), Ok(Some(7))));
        let data: &[u8] = b"\x04\x03\x02\x01\x06\x05\x09\x08payload";
        assert_eq!(moved.data(), Ok(Some(data)));
        assert_eq!(moved.chunk_incomplete(), Ok(Some(true)));
    }

    #[test]
    fn commands_are_decoded() {
        let decode = |bytes| Command::decode(bytes).unwrap();
        let page = Command::SetUpTracing { page_size_kib: 4 };
        assert_eq!(decode(&[0x1a, 2, 8, 4]), page);
        assert_eq!(decode(&[0x12, 2, 8, 7]), Command::Stop(InstanceId(7)));
        let flush = Command::Flush {
            flush: FlushId(9),
            instances: vec![InstanceId(1), InstanceId(2)],
            flags: FlushFlags::from_bits(0x22),
        };
        assert_eq!(decode(&[0x2a, 8, 8, 1, 8, 2, 16, 9, 24, 0x22]), flush);
        // The same with packed numbers.
        assert_eq!(decode(&[0x2a, 8, 10, 2, 1, 2, 16, 9, 24, 0x22]), flush);
        let Command::SetUp(InstanceId(3), config) =
            decode(b"\x32\x0b\x08\x03\x12\x07\x0a\x01a\x10\x05\x48\x01")
        else {
            panic!("no set-up");
        };
        assert_eq!((config.name, config.target_buffer), ("a", BufferId(5)));
        assert_eq!(config.exhausted_policy, Some(BufferExhaustedPolicy::Drop));
        assert_eq!(config.bytes, b"\x0a\x01a\x10\x05\x48\x01");
        assert_eq!(decode(&[0x22, 0]), Command::Unknown);
        assert_eq!(decode(&[]), Command::Unknown);
    }
}
