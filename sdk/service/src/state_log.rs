//! Logs the states that a ring in a crash file keeps, for a recovery.
//!
//! The log begins with the states. Before the memory of a chunk is used again, the packets of that chunk
//! that have changed a state are appended, in one write. When they take more room than the states, the
//! log is written anew. So the file is at most about twice as long as the states, and each packet costs
//! as much as it is long, however large the states are.
//!
//! Close to the memory limit of a state, a recovered one can have more: a state that was written and
//! read again takes less memory, so it has room for changes that were refused.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};

use protozero::{DecodeError, HeapBuffered};
use tracezero_core::crash_files::{RingFile, StateFile};
use tracezero_core::ids::{ChunkId, WriterId};
use tracezero_core::protos::states;
use tracezero_protovm::Vm;

use super::trace_buffer::EvictedChunk;

/// The size up to which changes are appended, however small the states are.
const CHANGES_MIN_BYTES: u64 = 64 << 10;

/// The size of the parts in which a state is written.
const PART_BYTES: usize = 64 << 10;

/// The maximum size of the memory that stays allocated for the next state.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// A state that is to be logged.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoggedVm<'a> {
    pub(super) data_source: &'a str,
    pub(super) limit_kib: u32,
    pub(super) vm: &'a Vm,
}

/// What a log knows of a writer.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoggedWriter {
    /// The newest chunk of which packets were overwritten, and the number of its bytes that were.
    pub(super) chunk_id: ChunkId,
    pub(super) chunk_bytes: u16,
    /// The number of packets that were folded, and are not lost.
    pub(super) folded: u64,
}

/// A log that is being written.
#[derive(Debug)]
pub(super) struct StateLog {
    file: StateFile,
    writers: BTreeMap<WriterId, LoggedWriter>,
    /// The packets of the present chunk that have changed a state, back to back.
    packets: Vec<u8>,
    /// The state and the size of each of these packets.
    changes: Vec<(usize, usize)>,
    /// The number of packets of the present chunk that were folded, and are not lost.
    folded: u64,
    /// The size of the records of states.
    states_bytes: u64,
    /// The size of the records of changes.
    changes_bytes: u64,
    /// The memory for a state while it is written.
    state: Vec<u8>,
}

impl StateLog {
    /// Creates a log beside the file of a ring.
    pub(super) fn create(ring: &RingFile, vms: &[LoggedVm<'_>]) -> io::Result<Self> {
        let (writers, mut state) = (BTreeMap::new(), Vec::new());
        let mut states_bytes = 0;
        let file = StateFile::create(ring, |file| {
            states_bytes = write_begin(vms, &writers, &mut state, file)?;
            Ok(())
        })?;
        Ok(Self {
            file,
            writers,
            packets: Vec::new(),
            changes: Vec::new(),
            folded: 0,
            states_bytes,
            changes_bytes: 0,
            state,
        })
    }

    /// Notes a packet that has changed the state at this position.
    pub(super) fn note_change(&mut self, state: usize, packet: &[u8]) {
        self.packets.extend_from_slice(packet);
        self.changes.push((state, packet.len()));
    }

    /// Notes that a packet was folded, and does not count as lost.
    pub(super) fn note_folded(&mut self) {
        self.folded += 1;
    }

    /// Writes what was noted: of packets of these chunks, each of another writer. Packets that are folded
    /// and not lost are of a single chunk.
    pub(super) fn end_chunks<'a>(
        &mut self,
        chunks: &[EvictedChunk],
        vms: impl FnOnce() -> Vec<LoggedVm<'a>>,
    ) -> io::Result<()> {
        if self.changes.is_empty() && self.folded == 0 {
            return Ok(());
        }
        for chunk in chunks {
            let writer = self.writers.entry(chunk.writer_id);
            let writer = writer.or_insert(LoggedWriter {
                chunk_id: chunk.chunk_id,
                chunk_bytes: chunk.payload_bytes,
                folded: 0,
            });
            writer.folded += std::mem::take(&mut self.folded);
            if chunk.is_newest {
                writer.chunk_id = chunk.chunk_id;
                writer.chunk_bytes = chunk.payload_bytes;
            }
        }
        if self.changes_bytes > self.states_bytes.max(CHANGES_MIN_BYTES) {
            return self.write_anew(&vms());
        }
        let record = encode(|record| {
            let mut rest = &self.packets[..];
            for &(state, len_bytes) in &self.changes {
                let (packet, behind) = rest.split_at(len_bytes);
                rest = behind;
                record.add_changes(|change| {
                    change.set_state(state as u32);
                    change.set_packet(packet);
                });
            }
            for chunk in chunks {
                add_writer(record, chunk.writer_id, &self.writers[&chunk.writer_id]);
            }
        });
        self.clear_changes();
        self.changes_bytes += record.len() as u64;
        self.file.append(&record)
    }

    /// Writes all states, which contain the changes so far.
    pub(super) fn write_anew(&mut self, vms: &[LoggedVm<'_>]) -> io::Result<()> {
        self.clear_changes();
        self.changes_bytes = 0;
        let (writers, state) = (&self.writers, &mut self.state);
        let states_bytes = &mut self.states_bytes;
        self.file.replace(|file| {
            *states_bytes = write_begin(vms, writers, state, file)?;
            Ok(())
        })
    }

    fn clear_changes(&mut self) {
        self.packets.clear();
        self.changes.clear();
    }
}

/// Writes the states and writers that a log begins with. Returns the size of these records.
fn write_begin(
    vms: &[LoggedVm<'_>],
    writers: &BTreeMap<WriterId, LoggedWriter>,
    state: &mut Vec<u8>,
    file: &mut File,
) -> io::Result<u64> {
    let mut size_bytes = 0;
    let mut write = |record: Vec<u8>| {
        size_bytes += record.len() as u64;
        file.write_all(&record)
    };
    for LoggedVm {
        data_source,
        limit_kib,
        vm,
    } in vms
    {
        write(encode(|record| {
            record.state(|out| {
                out.set_data_source(data_source);
                out.set_program(vm.program_bytes());
                out.set_limit_kib(*limit_kib);
            });
        }))?;
        state.clear();
        vm.append_state(state);
        for part in state.chunks(PART_BYTES) {
            write(encode(|record| {
                record.set_state_part(part);
            }))?;
        }
        state.clear();
        state.shrink_to(KEPT_BYTES_MAX);
    }
    write(encode(|record| {
        for (writer_id, writer) in writers {
            add_writer(record, *writer_id, writer);
        }
    }))?;
    Ok(size_bytes)
}

fn add_writer(record: &mut states::Record<'_>, writer_id: WriterId, writer: &LoggedWriter) {
    record.add_writers(|out| {
        out.set_writer_id(writer_id.0.into());
        out.set_chunk_id(writer.chunk_id.0);
        out.set_chunk_bytes(writer.chunk_bytes.into());
        out.set_folded(writer.folded);
    });
}

fn encode(write: impl FnOnce(&mut states::Record<'_>)) -> Vec<u8> {
    let mut buffer = HeapBuffered::<states::StateLog<'_>>::new();
    buffer.message().add_records(write);
    buffer.to_vec()
}

/// A state that was read from a log.
#[derive(Clone, Debug, Default)]
pub(super) struct LoggedState<'a> {
    pub(super) data_source: &'a str,
    pub(super) program: &'a [u8],
    pub(super) limit_kib: u32,
    pub(super) state: Vec<u8>,
}

/// A part of a log that is read.
#[derive(Debug)]
pub(super) enum LogEntry<'a> {
    State(LoggedState<'a>),
    /// A packet that has changed the state at a position.
    Change {
        state: usize,
        packet: &'a [u8],
    },
    Writer(WriterId, LoggedWriter),
}

/// Reads a log. Calls `take` with its parts.
pub(super) fn read_log(log: &[u8], mut take: impl FnMut(LogEntry<'_>)) -> Result<(), DecodeError> {
    let mut state: Option<LoggedState<'_>> = None;
    for record in states::StateLogDecoder::new(log).records() {
        let record = record?;
        if let Some(part) = record.state_part()? {
            if let Some(state) = &mut state {
                state.state.extend_from_slice(part);
            }
            continue;
        }
        if let Some(state) = state.take() {
            take(LogEntry::State(state));
        }
        if let Some(begin) = record.state()? {
            state = Some(LoggedState {
                data_source: begin.data_source()?.unwrap_or_default(),
                program: begin.program()?.unwrap_or_default(),
                limit_kib: begin.limit_kib()?.unwrap_or_default(),
                state: Vec::new(),
            });
        }
        for change in record.changes() {
            let change = change?;
            take(LogEntry::Change {
                state: change.state()?.unwrap_or_default() as usize,
                packet: change.packet()?.unwrap_or_default(),
            });
        }
        for writer in record.writers() {
            let writer = writer?;
            let logged = LoggedWriter {
                chunk_id: ChunkId(writer.chunk_id()?.unwrap_or_default()),
                chunk_bytes: writer.chunk_bytes()?.unwrap_or_default() as u16,
                folded: writer.folded()?.unwrap_or_default(),
            };
            let writer_id = writer.writer_id()?.unwrap_or_default() as u16;
            take(LogEntry::Writer(WriterId(writer_id), logged));
        }
    }
    Ok(())
}
