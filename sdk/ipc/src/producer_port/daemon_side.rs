//! The messages of producers as their daemon decodes and encodes them. Producers are not trusted:
//! numbers that nothing can have are refused here.

use std::sync::Arc;

use protozero::DecodeError;
use tracezero_core::commit::{ChunkToMove, ChunkToPatch, CommitRequest, Patch};
use tracezero_core::coordination::{
    CategoryDescriptor, DataSourceDescriptor, FlushFlags, PacketCounts, WriterTotals,
};
use tracezero_core::ids::{BufferId, ChunkId, FlushId, InstanceId, WriterId};
use tracezero_core::shm::{ChunkPlace, PacketsWord};

use super::{ChunkData, Method, encoded};
use crate::protos::commit_data_request::{ChunkToPatchDecoder, ChunksToMoveDecoder};
use crate::protos::initialize_connection_request::ProducerSmbScrapingMode;
use crate::protos::tracezero_writer_totals_request::WriterDecoder;
use crate::protos::{
    ActivateTriggersRequestDecoder, CommitDataRequestDecoder, DataSourceDescriptorDecoder,
    GetAsyncCommandResponse, InitializeConnectionRequestDecoder, InitializeConnectionResponse,
    NotifyDataSourceStartedRequestDecoder, NotifyDataSourceStoppedRequestDecoder,
    RegisterDataSourceRequestDecoder, RegisterTraceWriterRequestDecoder,
    TracezeroWriterTotalsRequestDecoder, UnregisterDataSourceRequestDecoder,
    UnregisterTraceWriterRequestDecoder, UpdateDataSourceRequestDecoder,
};

/// What a producer asks for.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// The first request of a connection.
    InitializeConnection(ReceivedIntroduction<'a>),
    /// Offers a data source; `None` if the request has no descriptor.
    RegisterDataSource(Option<DataSourceDescriptor>),
    /// Takes one offer of this name back.
    UnregisterDataSource {
        /// The name of the data source.
        name: &'a str,
    },
    /// Hands chunks over.
    CommitData(Commit<'a>),
    /// Asks for the commands, which are replies to this request.
    GetAsyncCommand,
    /// Names the buffer of a writer; `None` if the numbers are those of no writer and buffer.
    RegisterTraceWriter(Option<TraceWriter>),
    /// The writer with this id writes no more; `None` if no writer has the id.
    UnregisterTraceWriter(Option<WriterId>),
    /// An instance has started.
    NotifyDataSourceStarted(InstanceId),
    /// An instance has stopped.
    NotifyDataSourceStopped(InstanceId),
    /// Activates triggers.
    ActivateTriggers {
        /// Their names.
        names: Vec<&'a str>,
    },
    /// Asks for a reply behind everything before.
    Sync,
    /// Replaces the descriptor of a data source; `None` if the request has none.
    UpdateDataSource(Option<DataSourceDescriptor>),
    /// Tells what became of the packets of writers.
    WriterTotals(Vec<WriterTotals>),
}

/// What a producer says first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedIntroduction<'a> {
    /// The name by which configurations choose producers. Nobody checks it.
    pub producer_name: &'a str,
    /// The size of the shared memory that the producer would like, in bytes; 0 for no wish.
    pub memory_size_bytes: u32,
    /// The size of its pages, in bytes; 0 for no wish.
    pub page_size_bytes: u32,
    /// True if a descriptor of memory that the producer has made comes with the request.
    pub provides_memory: bool,
    /// False if the producer forbids the daemon to read chunks that are not complete.
    pub may_be_scraped: bool,
    /// The name and version of the producer's library.
    pub sdk_version: &'a str,
    /// True if the producer is one of tracezero, and configurations can change while they are used.
    pub takes_changes: bool,
}

/// A writer and its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceWriter {
    /// The id of the writer, which is valid.
    pub writer_id: WriterId,
    /// The buffer that it writes to, as the producer says.
    pub target_buffer: BufferId,
}

impl<'a> Request<'a> {
    /// Decodes the arguments of a method.
    ///
    /// # Errors
    ///
    /// If they are malformed. Of a commit, [`Commit::decode`] reports that.
    pub fn decode(method: Method, args: &'a [u8]) -> Result<Self, DecodeError> {
        let id = |id: Option<u64>| InstanceId(id.unwrap_or_default());
        Ok(match method {
            Method::InitializeConnection => {
                Self::InitializeConnection(ReceivedIntroduction::decode(args)?)
            }
            Method::RegisterDataSource => {
                let request = RegisterDataSourceRequestDecoder::new(args);
                let descriptor = request.data_source_descriptor()?;
                Self::RegisterDataSource(descriptor.map(|it| described(&it)).transpose()?)
            }
            Method::UpdateDataSource => {
                let request = UpdateDataSourceRequestDecoder::new(args);
                let descriptor = request.data_source_descriptor()?;
                Self::UpdateDataSource(descriptor.map(|it| described(&it)).transpose()?)
            }
            Method::UnregisterDataSource => {
                let request = UnregisterDataSourceRequestDecoder::new(args);
                Self::UnregisterDataSource {
                    name: request.data_source_name()?.unwrap_or_default(),
                }
            }
            Method::CommitData => Self::CommitData(Commit(CommitDataRequestDecoder::new(args))),
            Method::GetAsyncCommand => Self::GetAsyncCommand,
            Method::RegisterTraceWriter => {
                let request = RegisterTraceWriterRequestDecoder::new(args);
                let writer_id = writer_id(request.trace_writer_id()?);
                let target_buffer = buffer_id(request.target_buffer()?);
                Self::RegisterTraceWriter(writer_id.zip(target_buffer).map(
                    |(writer_id, target_buffer)| TraceWriter {
                        writer_id,
                        target_buffer,
                    },
                ))
            }
            Method::UnregisterTraceWriter => {
                let request = UnregisterTraceWriterRequestDecoder::new(args);
                Self::UnregisterTraceWriter(writer_id(request.trace_writer_id()?))
            }
            Method::NotifyDataSourceStarted => {
                let request = NotifyDataSourceStartedRequestDecoder::new(args);
                Self::NotifyDataSourceStarted(id(request.data_source_id()?))
            }
            Method::NotifyDataSourceStopped => {
                let request = NotifyDataSourceStoppedRequestDecoder::new(args);
                Self::NotifyDataSourceStopped(id(request.data_source_id()?))
            }
            Method::ActivateTriggers => {
                let request = ActivateTriggersRequestDecoder::new(args);
                Self::ActivateTriggers {
                    names: request.trigger_names().collect::<Result<_, _>>()?,
                }
            }
            Method::Sync => Self::Sync,
            Method::TracezeroWriterTotals => {
                let request = TracezeroWriterTotalsRequestDecoder::new(args);
                let mut totals = Vec::new();
                for writer in request.writers() {
                    totals.extend(writer_totals(&writer?)?);
                }
                Self::WriterTotals(totals)
            }
        })
    }
}

impl<'a> ReceivedIntroduction<'a> {
    fn decode(args: &'a [u8]) -> Result<Self, DecodeError> {
        let request = InitializeConnectionRequestDecoder::new(args);
        let scraping = request.smb_scraping_mode()?;
        Ok(Self {
            producer_name: request.producer_name()?.unwrap_or_default(),
            memory_size_bytes: request.shared_memory_size_hint_bytes()?.unwrap_or_default(),
            page_size_bytes: request
                .shared_memory_page_size_hint_bytes()?
                .unwrap_or_default(),
            provides_memory: request.producer_provided_shmem()?.unwrap_or_default(),
            may_be_scraped: scraping != Some(ProducerSmbScrapingMode::SMB_SCRAPING_DISABLED),
            sdk_version: request.sdk_version()?.unwrap_or_default(),
            takes_changes: request.tracezero_takes_changes()?.unwrap_or_default(),
        })
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

/// Returns the counts of a writer, unless nothing can have its numbers.
fn writer_totals(writer: &WriterDecoder<'_>) -> Result<Option<WriterTotals>, DecodeError> {
    /// More packets than a writer can write. So sums of counts do not overflow.
    const PACKETS_MAX: u64 = 1 << 48;
    let count = |count: Option<u64>| count.unwrap_or_default().min(PACKETS_MAX);
    let writer_id = match writer.writer_id()? {
        None | Some(0) => None,
        number => match writer_id(number) {
            None => return Ok(None),
            id => id,
        },
    };
    let Some(target_buffer) = buffer_id(writer.target_buffer()?) else {
        return Ok(None);
    };
    let mut counts = PacketCounts::default();
    counts.packets_empty = count(writer.packets_empty()?);
    counts.packets_begun = count(writer.packets_begun()?).max(counts.packets_empty);
    counts.packets_dropped = count(writer.packets_dropped()?);
    counts.drop_episodes = count(writer.drop_episodes()?);
    Ok(Some(WriterTotals {
        writer_id,
        target_buffer,
        thread_name: writer.thread_name()?.map(str::to_owned),
        counts,
    }))
}

fn described(
    descriptor: &DataSourceDescriptorDecoder<'_>,
) -> Result<DataSourceDescriptor, DecodeError> {
    let mut categories = Vec::new();
    if let Some(track_events) = descriptor.track_event_descriptor()? {
        for category in track_events.available_categories() {
            let category = category?;
            let tags = category.tags().map(|tag| tag.map(str::to_owned));
            categories.push(CategoryDescriptor {
                name: category.name()?.unwrap_or_default().to_owned(),
                description: category.description()?.unwrap_or_default().to_owned(),
                tags: tags.collect::<Result<_, _>>()?,
            });
        }
    }
    Ok(DataSourceDescriptor {
        name: descriptor.name()?.unwrap_or_default().to_owned(),
        id: descriptor.id()?.unwrap_or_default(),
        notifies_start: descriptor.will_notify_on_start()?.unwrap_or_default(),
        notifies_stop: descriptor.will_notify_on_stop()?.unwrap_or_default(),
        needs_no_flush: descriptor.no_flush()?.unwrap_or_default(),
        clears_incremental_state: descriptor
            .handles_incremental_state_clear()?
            .unwrap_or_default(),
        extension_descriptors: Arc::default(),
        categories,
        encoded: descriptor.as_decoder().bytes().into(),
    })
}

/// A commit, which is not decoded yet.
#[derive(Clone, Debug)]
pub struct Commit<'a>(CommitDataRequestDecoder<'a>);

impl Commit<'_> {
    /// Decodes the commit into `request`, whose memory is used again. Chunks whose bytes come with the
    /// commit, because the producer's memory is on another machine, go to `with_data` instead, before
    /// the patches. Leaves out what names no chunk, writer or buffer, and returns the number of entries
    /// that it leaves out.
    ///
    /// # Errors
    ///
    /// If the commit is malformed.
    pub fn decode(
        &self,
        request: &mut CommitRequest,
        mut with_data: impl FnMut(&ChunkData<'_>),
    ) -> Result<usize, DecodeError> {
        request.chunks_to_move.clear();
        request.chunks_to_patch.clear();
        let mut left_out = 0;
        for chunk in self.0.chunks_to_move() {
            let chunk = chunk?;
            let place = moved(&chunk)?;
            match (place, chunk.data()?) {
                (Some(place), None) => request.chunks_to_move.push(place),
                (Some(place), Some(data)) => match chunk_data(&place, &chunk, data)? {
                    Some(chunk) => with_data(&chunk),
                    None => left_out += 1,
                },
                (None, _) => left_out += 1,
            }
        }
        for chunk in self.0.chunks_to_patch() {
            match patched(&chunk?)? {
                Some(chunk) => request.chunks_to_patch.push(chunk),
                None => left_out += 1,
            }
        }
        Ok(left_out)
    }

    /// Returns the flush that the commit finishes, if it finishes one.
    ///
    /// # Errors
    ///
    /// If the commit is malformed.
    pub fn flush(&self) -> Result<Option<FlushId>, DecodeError> {
        let flush = self.0.flush_request_id()?;
        Ok(flush.filter(|flush| *flush > 0).map(FlushId))
    }
}

fn moved(chunk: &ChunksToMoveDecoder<'_>) -> Result<Option<ChunkToMove>, DecodeError> {
    let chunk_index = u8::try_from(chunk.chunk()?.unwrap_or_default());
    let target_buffer = buffer_id(chunk.target_buffer()?);
    let page_index = chunk.page()?.unwrap_or_default();
    Ok(chunk_index
        .ok()
        .zip(target_buffer)
        .map(|(chunk_index, target_buffer)| ChunkToMove {
            page_index,
            chunk_index,
            target_buffer,
            payload_bytes: 0,
        }))
}

/// Returns a chunk whose bytes have come: a header and the payload, at most 64 KiB - 1 in all.
fn chunk_data<'a>(
    place: &ChunkToMove,
    chunk: &ChunksToMoveDecoder<'_>,
    data: &'a [u8],
) -> Result<Option<ChunkData<'a>>, DecodeError> {
    let Some((&[i0, i1, i2, i3, w0, w1, p0, p1], payload)) = data.split_first_chunk() else {
        return Ok(None);
    };
    if data.len() > usize::from(u16::MAX) {
        return Ok(None);
    }
    Ok(Some(ChunkData {
        place: ChunkPlace {
            page_index: place.page_index,
            chunk_index: place.chunk_index,
        },
        target_buffer: place.target_buffer,
        writer_id: WriterId(u16::from_le_bytes([w0, w1])),
        chunk_id: ChunkId(u32::from_le_bytes([i0, i1, i2, i3])),
        packets: PacketsWord::from_bits(u16::from_le_bytes([p0, p1])),
        payload,
        is_complete: !chunk.chunk_incomplete()?.unwrap_or_default(),
    }))
}

fn patched(chunk: &ChunkToPatchDecoder<'_>) -> Result<Option<ChunkToPatch>, DecodeError> {
    let writer_id = writer_id(chunk.writer_id()?);
    let target_buffer = buffer_id(chunk.target_buffer()?);
    let Some((writer_id, target_buffer)) = writer_id.zip(target_buffer) else {
        return Ok(None);
    };
    let mut patches = Vec::new();
    for patch in chunk.patches() {
        let patch = patch?;
        let offset_bytes = u16::try_from(patch.offset()?.unwrap_or_default());
        let data = patch.data()?.unwrap_or_default().try_into();
        let (Ok(offset_bytes), Ok(data)) = (offset_bytes, data) else {
            return Ok(None);
        };
        patches.push(Patch { offset_bytes, data });
    }
    Ok(Some(ChunkToPatch {
        writer_id,
        chunk_id: ChunkId(chunk.chunk_id()?.unwrap_or_default()),
        target_buffer,
        patches,
        has_more_patches: chunk.has_more_patches()?.unwrap_or_default(),
    }))
}

/// The answer to [`Method::InitializeConnection`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InitializeReply {
    /// True if the daemon uses the memory that the producer has made.
    pub uses_memory_of_producer: bool,
    /// True if producer and daemon cannot share memory, so that commits carry the chunks.
    pub is_emulated: bool,
}

/// Encodes the answer to [`Method::InitializeConnection`]. The daemon lets producers patch chunks
/// that are complete and not committed.
#[must_use]
pub fn initialized(reply: InitializeReply) -> Vec<u8> {
    encoded::<InitializeConnectionResponse<'_>>(|out| {
        out.set_using_shmem_provided_by_producer(reply.uses_memory_of_producer);
        out.set_direct_smb_patching_supported(true);
        out.set_use_shmem_emulation(reply.is_emulated);
    })
}

/// Encodes the command to use the shared memory whose descriptor comes with it. `page_size_kib` is
/// `None` if the memory is the producer's own, and no descriptor comes.
#[must_use]
pub fn set_up_tracing(page_size_kib: Option<u32>) -> Vec<u8> {
    command(|out| {
        out.setup_tracing(|out| {
            if let Some(page_size_kib) = page_size_kib {
                out.set_shared_buffer_page_size_kb(page_size_kib);
            }
        });
    })
}

/// Encodes the command to prepare an instance. `config` is an encoded `DataSourceConfig`.
#[must_use]
pub fn set_up(instance: InstanceId, config: &[u8]) -> Vec<u8> {
    command(|out| {
        out.setup_data_source(|out| {
            out.set_new_instance_id(instance.0);
            out.config(|out| out.as_message_mut().append_raw(config));
        });
    })
}

/// Encodes the command to start an instance. `config` is that of its set-up.
#[must_use]
pub fn start(instance: InstanceId, config: &[u8]) -> Vec<u8> {
    command(|out| {
        out.start_data_source(|out| {
            out.set_new_instance_id(instance.0);
            out.config(|out| out.as_message_mut().append_raw(config));
        });
    })
}

/// Encodes the command to stop an instance.
#[must_use]
pub fn stop(instance: InstanceId) -> Vec<u8> {
    command(|out| {
        out.stop_data_source(|out| {
            out.set_instance_id(instance.0);
        });
    })
}

/// Encodes the command to flush instances.
#[must_use]
pub fn flush(flush: FlushId, instances: &[InstanceId], flags: FlushFlags) -> Vec<u8> {
    command(|out| {
        out.flush(|out| {
            for instance in instances {
                out.add_data_source_ids(instance.0);
            }
            out.set_request_id(flush.0);
            out.set_flags(flags.bits());
        });
    })
}

/// Encodes the command to start the incremental state of instances again.
#[must_use]
pub fn clear_incremental_state(instances: &[InstanceId]) -> Vec<u8> {
    command(|out| {
        out.clear_incremental_state(|out| {
            for instance in instances {
                out.add_data_source_ids(instance.0);
            }
        });
    })
}

/// Encodes the command to change the configuration of an instance, for producers that
/// [take changes](ReceivedIntroduction::takes_changes). `config` is an encoded `DataSourceConfig`.
#[must_use]
pub fn change(instance: InstanceId, config: &[u8]) -> Vec<u8> {
    command(|out| {
        out.tracezero_change_data_source(|out| {
            out.set_instance_id(instance.0);
            out.config(|out| out.as_message_mut().append_raw(config));
        });
    })
}

fn command(write: impl FnOnce(&mut GetAsyncCommandResponse<'_>)) -> Vec<u8> {
    encoded::<GetAsyncCommandResponse<'_>>(write)
}

#[cfg(test)]
mod tests {
    use super::super::{
        Command, Introduction, PatchedChunk, activate_triggers, commit_chunk_data, commit_moves,
        commit_patches, flush_done, initialize_connection, register_data_source,
        register_trace_writer, unregister_data_source,
    };
    use super::*;

    fn decode(method: Method, args: &[u8]) -> Request<'_> {
        Request::decode(method, args).unwrap()
    }

    #[test]
    fn requests_are_decoded_as_producers_encode_them() {
        let introduction = Introduction {
            producer_name: "p".to_owned(),
            memory_size_bytes: 1 << 20,
            page_size_bytes: 4096,
            sdk_version: "v".to_owned(),
            takes_changes: true,
        };
        let args = initialize_connection(&introduction);
        let Request::InitializeConnection(received) = decode(Method::InitializeConnection, &args)
        else {
            panic!("no introduction");
        };
        let expected = ReceivedIntroduction {
            producer_name: "p",
            memory_size_bytes: 1 << 20,
            page_size_bytes: 4096,
            provides_memory: false,
            may_be_scraped: true,
            sdk_version: "v",
            takes_changes: true,
        };
        assert_eq!(received, expected);

        let mut descriptor = DataSourceDescriptor {
            name: "ds".to_owned(),
            id: 7,
            notifies_stop: true,
            categories: vec![CategoryDescriptor {
                name: "c".to_owned(),
                description: "d".to_owned(),
                tags: vec!["t".to_owned()],
            }],
            ..DataSourceDescriptor::default()
        };
        let args = register_data_source(&descriptor);
        let Request::RegisterDataSource(Some(received)) = decode(Method::RegisterDataSource, &args)
        else {
            panic!("no data source");
        };
        descriptor.encoded = args[2..].into();
        assert_eq!(received, descriptor);

        let args = unregister_data_source("ds");
        let request = decode(Method::UnregisterDataSource, &args);
        assert!(matches!(
            request,
            Request::UnregisterDataSource { name: "ds" }
        ));
        let args = activate_triggers(&["a".to_owned(), "b".to_owned()]);
        let request = decode(Method::ActivateTriggers, &args);
        assert!(matches!(request, Request::ActivateTriggers { names } if names == ["a", "b"]));
    }

    #[test]
    fn commits_are_decoded_as_producers_encode_them() {
        let moved = ChunkToMove {
            page_index: u32::MAX,
            chunk_index: 13,
            target_buffer: BufferId(u16::MAX),
            payload_bytes: 0,
        };
        let patches = vec![Patch {
            offset_bytes: 7,
            data: [0x80; 4],
        }];
        let patched = PatchedChunk {
            writer_id: WriterId::MAX,
            chunk_id: ChunkId(9),
            target_buffer: BufferId(1),
            patches: &patches,
            has_more_patches: true,
        };
        let mut args = Vec::new();
        commit_moves(&[moved; 2], |bytes| args.extend_from_slice(bytes));
        commit_patches(&patched, |bytes| args.extend_from_slice(bytes));
        args.extend(flush_done(FlushId(5)));
        let Request::CommitData(commit) = decode(Method::CommitData, &args) else {
            panic!("no commit");
        };
        let mut request = CommitRequest::default();
        let with_data = |chunk: &ChunkData<'_>| panic!("{chunk:?}");
        assert_eq!(commit.decode(&mut request, with_data), Ok(0));
        assert_eq!(request.chunks_to_move, [moved; 2]);
        let expected = ChunkToPatch {
            writer_id: WriterId::MAX,
            chunk_id: ChunkId(9),
            target_buffer: BufferId(1),
            patches,
            has_more_patches: true,
        };
        assert_eq!(request.chunks_to_patch, [expected]);
        assert_eq!(commit.flush(), Ok(Some(FlushId(5))));
    }

    #[test]
    fn numbers_that_nothing_has_are_left_out() {
        // Chunk 256; buffer 65,536; no buffer. Writer 0; a patch of three bytes.
        let args = b"\x0a\x07\x08\x00\x10\x80\x02\x18\x01\
            \x0a\x08\x08\x00\x10\x00\x18\x80\x80\x04\
            \x0a\x04\x08\x00\x10\x00\
            \x12\x06\x08\x01\x10\x00\x18\x00\
            \x12\x0d\x08\x01\x10\x01\x18\x00\x22\x05\x12\x03abc";
        let mut request = CommitRequest::default();
        let Request::CommitData(commit) = decode(Method::CommitData, args) else {
            panic!("no commit");
        };
        let with_data = |chunk: &ChunkData<'_>| panic!("{chunk:?}");
        assert_eq!(commit.decode(&mut request, with_data), Ok(5));
        assert!(request.is_empty());
        for (writer, buffer, is_valid) in [
            (1, 1, true),
            (0, 1, false),
            (0x7fff, 0xffff, true),
            (0x8000, 1, false),
            (1, 0x1_0000, false),
        ] {
            let args = encoded::<crate::protos::RegisterTraceWriterRequest<'_>>(|out| {
                out.set_trace_writer_id(writer);
                out.set_target_buffer(buffer);
            });
            let Request::RegisterTraceWriter(found) = decode(Method::RegisterTraceWriter, &args)
            else {
                panic!("no writer");
            };
            assert_eq!(found.is_some(), is_valid, "{writer} {buffer}");
        }
        let args = register_trace_writer(WriterId(3), BufferId(4));
        let Request::RegisterTraceWriter(Some(writer)) = decode(Method::RegisterTraceWriter, &args)
        else {
            panic!("no writer");
        };
        assert_eq!(
            (writer.writer_id, writer.target_buffer),
            (WriterId(3), BufferId(4))
        );
    }

    #[test]
    fn bytes_of_chunks_are_decoded_as_producers_encode_them() {
        let chunk = ChunkData {
            place: ChunkPlace {
                page_index: 3,
                chunk_index: 2,
            },
            target_buffer: BufferId(7),
            writer_id: WriterId(5),
            chunk_id: ChunkId(0x0102_0304),
            packets: PacketsWord::from_bits(0x0809),
            payload: b"payload",
            is_complete: false,
        };
        let largest = vec![0; usize::from(u16::MAX) - 8];
        let too_large = vec![0; usize::from(u16::MAX) - 7];
        for (payload, left_out) in [
            (&b"payload"[..], 0),
            (&[], 0),
            (&largest, 0),
            (&too_large, 1),
        ] {
            let chunk = ChunkData { payload, ..chunk };
            let args = commit_chunk_data(&chunk);
            let Request::CommitData(commit) = decode(Method::CommitData, &args) else {
                panic!("no commit");
            };
            let mut request = CommitRequest::default();
            let mut received = 0;
            let decoded = commit.decode(&mut request, |decoded| {
                assert_eq!(*decoded, chunk);
                received += 1;
            });
            assert_eq!((decoded, received), (Ok(left_out), 1 - left_out));
            assert!(request.is_empty());
        }
    }

    #[test]
    fn counts_of_writers_are_decoded_as_producers_encode_them() {
        let totals = |writer_id: u16| {
            let mut counts = PacketCounts::default();
            counts.packets_begun = 4;
            counts.packets_empty = 3;
            counts.packets_dropped = 2;
            counts.drop_episodes = 1;
            WriterTotals {
                writer_id: (writer_id > 0).then_some(WriterId(writer_id)),
                target_buffer: BufferId(7),
                thread_name: Some("thread".to_owned()),
                counts,
            }
        };
        let all: Vec<WriterTotals> = (0..2000).map(totals).collect();
        let (mut received, mut requests) = (Vec::new(), 0);
        super::super::writer_totals(&all, |args| {
            let Request::WriterTotals(some) = decode(Method::TracezeroWriterTotals, args) else {
                panic!("no counts");
            };
            received.extend(some);
            requests += 1;
        });
        assert_eq!((received, requests), (all, 3));
    }

    #[test]
    fn counts_that_no_writer_can_have_are_limited() {
        let args = encoded::<crate::protos::TracezeroWriterTotalsRequest<'_>>(|out| {
            for writer_id in [1, 0x8000] {
                out.add_writers(|out| {
                    out.set_writer_id(writer_id);
                    out.set_target_buffer(1);
                    out.set_packets_empty(u64::MAX);
                });
            }
        });
        let Request::WriterTotals(totals) = decode(Method::TracezeroWriterTotals, &args) else {
            panic!("no counts");
        };
        let [writer] = &totals[..] else {
            panic!("{totals:?}");
        };
        let counts = &writer.counts;
        assert_eq!(
            (counts.packets_begun, counts.packets_empty),
            (1 << 48, 1 << 48)
        );
    }

    #[test]
    fn commands_are_decoded_as_the_daemon_encodes_them() {
        let config = b"\x0a\x02ds\x10\x05";
        let instances = [InstanceId(1), InstanceId(300)];
        let flags = FlushFlags::explicit();
        let prepared = set_up(InstanceId(7), config);
        let Command::SetUp(InstanceId(7), received) = Command::decode(&prepared).unwrap() else {
            panic!("no set-up");
        };
        assert_eq!((received.name, received.bytes), ("ds", &config[..]));
        let started = start(InstanceId(7), config);
        let started = Command::decode(&started).unwrap();
        assert_eq!(started, Command::Start(InstanceId(7), received));
        for (command, expected) in [
            (
                set_up_tracing(Some(4)),
                Command::SetUpTracing { page_size_kib: 4 },
            ),
            (stop(InstanceId(9)), Command::Stop(InstanceId(9))),
            (
                flush(FlushId(3), &instances, flags),
                Command::Flush {
                    flush: FlushId(3),
                    instances: instances.to_vec(),
                    flags,
                },
            ),
            (
                change(InstanceId(9), config),
                Command::Change(InstanceId(9), config),
            ),
            (
                clear_incremental_state(&instances),
                Command::ClearIncrementalState(instances.to_vec()),
            ),
        ] {
            assert_eq!(Command::decode(&command).unwrap(), expected);
        }
    }
}
