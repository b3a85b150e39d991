//! Logs the states that a ring in a crash file keeps, for a recovery.
//!
//! The log begins with the states. Before the memory of a chunk is used again, the packets of that chunk
//! that have changed a state are appended, in one write. When they take more room than the states, the
//! log is written anew. So the file is at most about twice as long as the states, or 64 KiB longer, and
//! each packet costs as much as it is long, however large the states are.
//!
//! Close to the memory limit of a state, a recovered one can have more: a state that was written and
//! read again takes less memory, so it has room for changes that were refused.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};

use protozero::{DecodeError, HeapBuffered};
use tracezero_core::crash_files::format::check_of;
use tracezero_core::crash_files::{RingFile, StateFile};
use tracezero_core::ids::{ChunkId, WriterId};
use tracezero_core::protos::states;
use tracezero_protovm::{REGISTERS, Vm};

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

/// The folded packets of a writer.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoggedWriter {
    /// The newest chunk of which packets were overwritten, and the number of its bytes that were.
    pub(super) chunk_id: ChunkId,
    pub(super) chunk_bytes: u16,
    /// The number of packets that were folded, and are not lost.
    pub(super) folded: u64,
    /// The number of packets that were lost; `None` if an earlier ring had packets of the writer, too.
    pub(super) lost: Option<u64>,
}

impl LoggedWriter {
    /// Returns a writer of which nothing was folded yet.
    pub(super) fn behind(chunk: &EvictedChunk) -> Self {
        Self {
            chunk_id: chunk.chunk_id,
            chunk_bytes: chunk.payload_bytes,
            folded: 0,
            lost: Some(chunk.lost),
        }
    }

    /// Returns true if the log has all losses of the writer.
    pub(super) fn knows_losses(&self) -> bool {
        self.folded > 0 && self.lost.is_some()
    }

    /// Returns a check of these numbers in a folder with this nonce.
    fn check(&self, writer_id: WriterId, nonce: u64) -> u32 {
        let numbers = [
            writer_id.0.into(),
            self.chunk_id.0.into(),
            self.chunk_bytes.into(),
            self.folded,
            self.lost.is_some().into(),
            self.lost.unwrap_or_default(),
        ];
        check_of(nonce, numbers)
    }
}

/// The writers of which packets were folded.
pub(super) type LoggedWriters = BTreeMap<WriterId, LoggedWriter>;

/// A log that is being written.
#[derive(Debug)]
pub(super) struct StateLog {
    file: StateFile,
    /// The nonce of the folder.
    nonce: u64,
    writers: LoggedWriters,
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
    /// Creates a log beside the file of a ring. The ring is empty and continues behind these writers.
    pub(super) fn create(
        ring: &RingFile,
        vms: &[LoggedVm<'_>],
        writers: LoggedWriters,
    ) -> io::Result<Self> {
        let (nonce, mut state, mut states_bytes) = (ring.nonce(), Vec::new(), 0);
        let file = StateFile::create(ring, |file| {
            states_bytes = write_begin(vms, &writers, nonce, &mut state, file)?;
            Ok(())
        })?;
        Ok(Self {
            file,
            nonce,
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
    /// and not lost are of a single chunk. Writes the losses of writers that have folded packets, too.
    pub(super) fn end_chunks<'a>(
        &mut self,
        chunks: &[EvictedChunk],
        vms: impl FnOnce() -> Vec<LoggedVm<'a>>,
    ) -> io::Result<()> {
        let has_lost = |chunk: &EvictedChunk| {
            let writer = self.writers.get(&chunk.writer_id);
            writer.is_some_and(|it| it.knows_losses() && it.lost != Some(chunk.lost))
        };
        if self.changes.is_empty() && self.folded == 0 && !chunks.iter().any(has_lost) {
            return Ok(());
        }
        for chunk in chunks {
            let writer = self.writers.entry(chunk.writer_id);
            let writer = writer.or_insert(LoggedWriter::behind(chunk));
            writer.folded += std::mem::take(&mut self.folded);
            writer.lost = writer.lost.map(|_| chunk.lost);
            if chunk.is_newest {
                writer.chunk_id = chunk.chunk_id;
                writer.chunk_bytes = chunk.payload_bytes;
            }
        }
        let is_long = self.changes_bytes > self.states_bytes.max(CHANGES_MIN_BYTES);
        if is_long && self.write_anew(&vms()).is_ok() {
            return Ok(());
        }
        // Without room for a second file, the first one grows.
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
                let writer = &self.writers[&chunk.writer_id];
                add_writer(record, chunk.writer_id, writer, self.nonce);
            }
        });
        self.clear_changes();
        self.changes_bytes += record.len() as u64;
        self.file.append(&record)
    }

    /// Writes all states, which contain the changes so far.
    pub(super) fn write_anew(&mut self, vms: &[LoggedVm<'_>]) -> io::Result<()> {
        let (writers, nonce, state) = (&self.writers, self.nonce, &mut self.state);
        let mut states_bytes = 0;
        // If this fails, try again when as many changes have come once more.
        self.changes_bytes = 0;
        self.file.replace(|file| {
            states_bytes = write_begin(vms, writers, nonce, state, file)?;
            Ok(())
        })?;
        self.states_bytes = states_bytes;
        self.clear_changes();
        Ok(())
    }

    fn clear_changes(&mut self) {
        self.packets.clear();
        self.changes.clear();
    }
}

/// Writes the states and writers that a log begins with. Returns the size of these records.
fn write_begin(
    vms: &[LoggedVm<'_>],
    writers: &LoggedWriters,
    nonce: u64,
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
                for (index, value) in (0..).zip(vm.registers()) {
                    if let Some(value) = value {
                        out.add_registers(|out| {
                            out.set_index(index);
                            out.set_value(*value);
                        });
                    }
                }
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
            add_writer(record, *writer_id, writer, nonce);
        }
    }))?;
    Ok(size_bytes)
}

fn add_writer(
    record: &mut states::Record<'_>,
    writer_id: WriterId,
    writer: &LoggedWriter,
    nonce: u64,
) {
    record.add_writers(|out| {
        out.set_writer_id(writer_id.0.into());
        out.set_chunk_id(writer.chunk_id.0);
        out.set_chunk_bytes(writer.chunk_bytes.into());
        out.set_folded(writer.folded);
        if let Some(lost) = writer.lost {
            out.set_lost(lost);
        }
        out.set_check(writer.check(writer_id, nonce));
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
    pub(super) registers: [Option<u64>; REGISTERS],
    pub(super) state: Vec<u8>,
}

/// A part of a log that is read.
#[derive(Debug)]
pub(super) enum LogEntry<'a> {
    State(Box<LoggedState<'a>>),
    /// A packet that has changed the state at a position.
    Change {
        state: usize,
        packet: &'a [u8],
    },
    Writer(WriterId, LoggedWriter),
}

/// The reason why a log cannot be used.
#[derive(Debug)]
pub(super) enum DamagedLog {
    Malformed(DecodeError),
    /// The begin is not whole.
    CutOff,
    /// Numbers have another check: they were changed, or the log is of another folder.
    WrongCheck,
    /// A state cannot be restored.
    State(String),
}

impl From<DecodeError> for DamagedLog {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

impl fmt::Display for DamagedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            Self::CutOff => f.write_str("the begin is cut off"),
            Self::WrongCheck => f.write_str("a check is wrong"),
            Self::State(error) => f.write_str(error),
        }
    }
}

/// Reads a log of a folder with this nonce. Calls `take` with its parts.
pub(super) fn read_log(
    log: &[u8],
    nonce: u64,
    mut take: impl FnMut(LogEntry<'_>) -> Result<(), DamagedLog>,
) -> Result<(), DamagedLog> {
    let mut state: Option<LoggedState<'_>> = None;
    let mut has_begin = false;
    for record in states::StateLogDecoder::new(log).records() {
        let record = record?;
        if let Some(part) = record.state_part()? {
            let state = state.as_mut().ok_or(DamagedLog::CutOff)?;
            state.state.extend_from_slice(part);
            continue;
        }
        if let Some(state) = state.take() {
            take(LogEntry::State(Box::new(state)))?;
        }
        if let Some(begin) = record.state()? {
            state = Some(begin_of_state(&begin)?);
            continue;
        }
        has_begin = true;
        for change in record.changes() {
            let change = change?;
            take(LogEntry::Change {
                state: change.state()?.unwrap_or_default() as usize,
                packet: change.packet()?.unwrap_or_default(),
            })?;
        }
        for writer in record.writers() {
            let writer = writer?;
            let number = |field: Option<u32>| u16::try_from(field.unwrap_or_default());
            let (Ok(id), Ok(chunk_bytes)) =
                (number(writer.writer_id()?), number(writer.chunk_bytes()?))
            else {
                return Err(DamagedLog::WrongCheck);
            };
            let logged = LoggedWriter {
                chunk_id: ChunkId(writer.chunk_id()?.unwrap_or_default()),
                chunk_bytes,
                folded: writer.folded()?.unwrap_or_default(),
                lost: writer.lost()?,
            };
            if writer.check()? != Some(logged.check(WriterId(id), nonce)) {
                return Err(DamagedLog::WrongCheck);
            }
            take(LogEntry::Writer(WriterId(id), logged))?;
        }
    }
    match has_begin {
        true => Ok(()),
        false => Err(DamagedLog::CutOff),
    }
}

fn begin_of_state<'a>(state: &states::StateDecoder<'a>) -> Result<LoggedState<'a>, DecodeError> {
    let mut registers = [None; REGISTERS];
    for register in state.registers() {
        let register = register?;
        let index = register.index()?.unwrap_or_default() as usize;
        if let Some(register_value) = registers.get_mut(index) {
            *register_value = register.value()?;
        }
    }
    Ok(LoggedState {
        data_source: state.data_source()?.unwrap_or_default(),
        program: state.program()?.unwrap_or_default(),
        limit_kib: state.limit_kib()?.unwrap_or_default(),
        registers,
        state: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use support::Folder;
    use tracezero_core::crash_files::{ProcessFolder, SessionFolder};
    use tracezero_core::shm::Geometry;
    use tracezero_protovm::Program;

    use super::*;

    /// A program of one instruction, which merges a patch into the state.
    const MERGE: &[u8] = b"\x12\x02\x1a\x00";

    /// Returns the states and the writers of a log.
    fn read(log: &[u8], nonce: u64) -> Result<(Vec<String>, LoggedWriters), DamagedLog> {
        let (mut states, mut writers) = (Vec::new(), LoggedWriters::new());
        read_log(log, nonce, |entry| {
            match entry {
                LogEntry::State(state) => states.push(format!("{state:?}")),
                LogEntry::Change { .. } => panic!("nothing was changed"),
                LogEntry::Writer(id, writer) => drop(writers.insert(id, writer)),
            }
            Ok(())
        })?;
        Ok((states, writers))
    }

    #[test]
    fn a_log_has_registers_and_positions_and_belongs_to_its_folder() {
        let folder = Folder::empty();
        let geometry = Geometry::new(4096, 4096).unwrap();
        let process = ProcessFolder::create(folder.path(), "test", geometry).unwrap();
        let session = SessionFolder::create(&process).unwrap();
        let ring = RingFile::create(&session, 0, 4096, false).unwrap();
        let mut vm = Vm::new(Program::parse(MERGE).unwrap(), 1 << 20);
        vm.apply(b"\x08\x2a").unwrap();
        let mut registers = *vm.registers();
        registers[3] = Some(7);
        vm.set_registers(registers);
        let logged = LoggedVm {
            data_source: "ds",
            limit_kib: 16,
            vm: &vm,
        };
        let writer = LoggedWriter {
            chunk_id: ChunkId(5),
            chunk_bytes: 100,
            folded: 9,
            lost: Some(2),
        };
        let writers = LoggedWriters::from([(WriterId(1), writer)]);
        let _log = StateLog::create(&ring, &[logged, logged], writers).unwrap();
        let bytes = fs::read(process.path().join("s0/states0.0")).unwrap();

        let (states, writers) = read(&bytes, ring.nonce()).unwrap();
        let expected = LoggedState {
            data_source: "ds",
            program: MERGE,
            limit_kib: 16,
            registers,
            state: vm.state(),
        };
        assert_eq!(states, [format!("{expected:?}"), format!("{expected:?}")]);
        let ends = writers
            .iter()
            .map(|(id, it)| (id.0, it.chunk_id.0, it.folded, it.lost));
        assert_eq!(ends.collect::<Vec<_>>(), [(1, 5, 9, Some(2))]);

        let error = read(&bytes, ring.nonce() + 1).unwrap_err();
        assert!(matches!(error, DamagedLog::WrongCheck), "{error}");
        for end in [0, bytes.len() / 2] {
            let error = read(&bytes[..end], ring.nonce()).unwrap_err();
            assert!(!matches!(error, DamagedLog::WrongCheck), "{error}");
        }
    }
}
