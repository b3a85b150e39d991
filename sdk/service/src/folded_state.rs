//! Keeps states of packets that a ring overwrites. Each VM folds the packets of one data source.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tracezero_core::crash_files::RingFile;
use tracezero_core::ids::ProducerId;
use tracezero_core::protos::sequences;
use tracezero_protovm::{ApplyError, Program, ProgramError, StateTooLong, Vm};

use super::packet_framer::{PacketFramer, Writer};
use super::state_log::{DamagedLog, LoggedState, LoggedVm, LoggedWriters, StateLog};
use super::trace_buffer::{EvictedChunk, OverwriteObserver, Overwritten, Packet, TraceBuffer};

/// The maximum number of programs that producers may have for one data source in a buffer.
pub(super) const PROGRAMS_PER_DATA_SOURCE_MAX: usize = 4;

/// The maximum number of VMs of a buffer.
const VMS_PER_BUFFER_MAX: usize = 64;

/// The maximum number of producers of a VM.
const PRODUCERS_PER_VM_MAX: usize = 4096;

/// The maximum size of a packet that is folded, in bytes.
const PATCH_MAX_BYTES: usize = 1 << 20;

/// The work that a program may do in all, for each packet and for each byte of packets. The first is
/// about a tenth of a second. A program that does more is stopped, because the buffer is locked
/// meanwhile.
const WORK_MAX: u64 = 1 << 24;
const WORK_PER_PACKET_MAX: u64 = 4096;
const WORK_PER_BYTE_MAX: u64 = 16;

/// The work that a program may do in a recovery. That locks nothing, so it may take about ten seconds.
const REPEATED_WORK_MAX: u64 = 1 << 30;
const REPEATED_WORK_PER_PACKET_MAX: u64 = 1 << 16;

/// The VMs of a buffer.
#[derive(Debug, Default)]
pub(super) struct FoldedStates {
    vms: Vec<StateVm>,
    /// The data sources without a VM, with the reason: at most [`VMS_PER_BUFFER_MAX`].
    refused: Vec<(String, Arc<str>)>,
    /// The writers whose states are in the trace. What is folded of them later is in no trace, so it is
    /// lost.
    announced: HashSet<Writer>,
    /// The bytes of the packet that is folded.
    patch: Vec<u8>,
    /// Writes changes into crash files.
    log: Option<StateLog>,
    /// The reason why there is no log any more.
    log_error: Option<Arc<str>>,
}

/// Folds the packets that a buffer overwrites.
pub(super) struct FoldingObserver(pub(super) Arc<Mutex<FoldedStates>>);

impl OverwriteObserver for FoldingObserver {
    fn packet(&mut self, packet: &Packet<'_>) -> Overwritten {
        self.0.lock().fold(packet)
    }

    fn end_of_chunk(&mut self, chunk: EvictedChunk) {
        self.0.lock().log_chunks(&[chunk]);
    }
}

/// A VM, which folds the packets of some producers.
#[derive(Debug)]
struct StateVm {
    data_source: String,
    vm: Vm,
    limit_kib: u32,
    /// The producers that offer the data source with this program, also those that have gone.
    producers: BTreeSet<ProducerId>,
    folds: FoldCounts,
}

/// The outcome of offering a packet to a program.
#[derive(Clone, Copy, Debug)]
struct FoldOutcome {
    /// False if the packet is not meant for the program, or was not applied completely.
    is_taken: bool,
    has_changed: bool,
}

/// Counts of the packets that were offered to a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FoldCounts {
    folded: u64,
    /// The work that the program may do for all packets that the VM was offered.
    work_max: u64,
    aborted: u64,
    skipped: u64,
    first_error: Option<Arc<str>>,
}

/// The state of a VM, with what a reader needs to fold the packets that are in the trace.
#[derive(Clone, Debug)]
pub(super) struct FoldedState {
    pub(super) program: Vec<u8>,
    pub(super) state: Vec<u8>,
    pub(super) limit_kib: u32,
    pub(super) producers: Vec<ProducerId>,
}

/// The statistics of the state that a ring keeps of a data source. `Display` formats what it lacks, as
/// one line for a log, whatever the name of the data source is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateStats {
    /// The name of the data source.
    pub data_source: String,
    /// The position of the buffer in the configuration.
    pub buffer: usize,
    /// The size of the state in memory, in bytes.
    pub state_bytes: usize,
    /// The number of packets that were folded into the state.
    pub packets_folded: u64,
    /// The number of packets that were not folded, or not completely: the program is wrong or too slow,
    /// the state has reached its maximum size, or a packet has more than 1 MiB.
    pub packets_failed: u64,
    /// The first fault, or the reason why there is no state at all.
    pub error: Option<Arc<str>>,
    /// The reason why the state is not in the crash files of the session, although it has some.
    pub crash_files_error: Option<Arc<str>>,
}

impl fmt::Display for StateStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            data_source,
            packets_failed,
            error,
            ..
        } = self;
        write!(
            f,
            "the state of the data source {data_source:?} lacks {packets_failed} overwritten packets"
        )?;
        match error {
            // The program chooses the names that an error quotes.
            Some(error) => write!(f, ": {}", error.escape_debug()),
            None => Ok(()),
        }
    }
}

impl StateStats {
    #[cold]
    pub(super) fn write(&self, out: &mut sequences::StateAccount<'_>) {
        out.set_data_source(&self.data_source);
        out.set_buffer(self.buffer as u32);
        out.set_state_bytes(self.state_bytes as u64);
        out.set_folded(self.packets_folded);
        out.set_failed(self.packets_failed);
        if let Some(error) = &self.error {
            out.set_error(error);
        }
    }
}

/// The reason why a data source has no VM.
#[derive(Debug)]
enum NoVm {
    Program(ProgramError),
    TooManyPrograms,
    TooManyProducers,
    /// Only in crash files that are damaged.
    State(StateTooLong),
}

impl fmt::Display for NoVm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(error) => write!(f, "the program is malformed: {error}"),
            Self::TooManyPrograms => write!(
                f,
                "too many programs: a buffer takes {PROGRAMS_PER_DATA_SOURCE_MAX} for each data source, \
                 and {VMS_PER_BUFFER_MAX} in all"
            ),
            Self::TooManyProducers => write!(
                f,
                "too many producers: a state takes {PRODUCERS_PER_VM_MAX}, also those that have gone"
            ),
            Self::State(error) => error.fmt(f),
        }
    }
}

impl FoldedStates {
    /// Adds a producer to the VM of its data source, which is created if there is none with the same
    /// program. Returns false if there can be none.
    pub(super) fn add(
        &mut self,
        producer: ProducerId,
        data_source: &str,
        program: &[u8],
        limit_kib: u32,
    ) -> bool {
        let state = LoggedState {
            data_source,
            program,
            limit_kib,
            ..LoggedState::default()
        };
        let Err(reason) = self.try_add(producer, &state) else {
            return true;
        };
        let refusal = (data_source.to_owned(), reason.to_string().into());
        if self.refused.len() < VMS_PER_BUFFER_MAX && !self.refused.contains(&refusal) {
            self.refused.push(refusal);
        }
        false
    }

    fn try_add(&mut self, producer: ProducerId, state: &LoggedState<'_>) -> Result<(), NoVm> {
        let LoggedState {
            data_source,
            program,
            limit_kib,
            registers,
            ref state,
        } = *state;
        let of_name = self.vms.iter_mut();
        let mut programs = 0;
        for vm in of_name.filter(|it| it.data_source == data_source) {
            if vm.vm.program_bytes() == program {
                if vm.producers.len() >= PRODUCERS_PER_VM_MAX && !vm.producers.contains(&producer) {
                    return Err(NoVm::TooManyProducers);
                }
                vm.producers.insert(producer);
                return Ok(());
            }
            programs += 1;
        }
        if programs >= PROGRAMS_PER_DATA_SOURCE_MAX || self.vms.len() >= VMS_PER_BUFFER_MAX {
            return Err(NoVm::TooManyPrograms);
        }
        let program = Program::parse(program).map_err(NoVm::Program)?;
        let limit_bytes = u64::from(limit_kib) * 1024;
        let limit_bytes = usize::try_from(limit_bytes).unwrap_or(usize::MAX);
        let mut vm = Vm::with_state(program, limit_bytes, state).map_err(NoVm::State)?;
        vm.set_registers(registers);
        self.vms.push(StateVm {
            data_source: data_source.to_owned(),
            vm,
            limit_kib,
            producers: BTreeSet::from([producer]),
            folds: FoldCounts::default(),
        });
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.vms.is_empty()
    }

    /// Returns true if the packets of a producer are folded.
    pub(super) fn folds(&self, producer: ProducerId) -> bool {
        self.vms.iter().any(|vm| vm.producers.contains(&producer))
    }

    /// Offers an overwritten packet to the VMs of its producer.
    pub(super) fn fold(&mut self, packet: &Packet<'_>) -> Overwritten {
        let origin = packet.origin();
        if !self.folds(origin.producer_id) {
            return Overwritten::Lost;
        }
        let mut patch = std::mem::take(&mut self.patch);
        patch.clear();
        let is_small = packet.len_bytes() <= PATCH_MAX_BYTES;
        if is_small {
            for slice in packet.slices() {
                patch.extend_from_slice(slice);
            }
        }
        let is_taken = self.offer(origin.producer_id, is_small.then_some(&patch));
        self.patch = patch;
        let writer = (origin.producer_id, origin.writer_id);
        if !is_taken || self.announced.contains(&writer) {
            return Overwritten::Lost;
        }
        if let Some(log) = &mut self.log {
            log.note_folded();
        }
        Overwritten::Folded
    }

    /// Offers a packet to the VMs of its producer, in the order of their creation, until one takes it.
    /// Returns whether one has. `patch` is `None` if the packet is too large: each VM skips it.
    fn offer(&mut self, producer: ProducerId, patch: Option<&[u8]>) -> bool {
        for (index, vm) in self.vms.iter_mut().enumerate() {
            if !vm.producers.contains(&producer) {
                continue;
            }
            let Some(patch) = patch.filter(|_| !vm.is_stopped()) else {
                vm.folds.skipped += 1;
                continue;
            };
            let applied = vm.fold(patch);
            if applied.has_changed
                && let Some(log) = &mut self.log
            {
                log.note_change(index, patch);
            }
            if applied.is_taken {
                return true;
            }
        }
        false
    }

    /// Folds packets that were read into a part of a trace. Later parts can be without this one, but
    /// their packets build on it.
    pub(super) fn fold_read(&mut self, buffer: &TraceBuffer, framer: &PacketFramer) {
        let mut writers = BTreeSet::new();
        framer.each_taken(|writer, patch| {
            let is_small = patch.len() <= PATCH_MAX_BYTES;
            if self.offer(writer.0, is_small.then_some(patch)) {
                writers.insert(writer);
            }
        });
        let position = |(producer_id, writer_id): Writer| {
            let position = buffer.read_position(producer_id, writer_id)?;
            Some(EvictedChunk {
                producer_id,
                writer_id,
                chunk_id: position.chunk_id,
                payload_bytes: position.chunk_bytes,
                is_newest: true,
                lost: buffer.packet_counts(producer_id, writer_id)?.lost(),
            })
        };
        let chunks: Vec<_> = writers.into_iter().filter_map(position).collect();
        self.log_chunks(&chunks);
    }

    /// Folds the unread packets of a buffer that is taken for a clone: the session's trace does not have
    /// them, but its later packets build on them.
    pub(super) fn fold_all(&mut self, buffer: &TraceBuffer) {
        if self.vms.is_empty() {
            return;
        }
        let Ok(mut buffer) = buffer.clone_read_only() else {
            // There is no memory for a copy to read from.
            for vm in &mut self.vms {
                vm.folds
                    .note_error(&"the packets that a clone has taken are not in the state");
            }
            return;
        };
        buffer.begin_read();
        while let Some(packet) = buffer.read_packet() {
            self.fold(&packet);
        }
    }

    /// Writes all states into the log beside the file of a ring. If there is none, it is created, and begins
    /// with these writers of the ring.
    pub(super) fn log(&mut self, ring: &RingFile, writers: LoggedWriters) {
        let vms: Vec<_> = self.vms.iter().map(StateVm::logged).collect();
        let written = match &mut self.log {
            Some(log) => log.write_anew(&vms),
            None => StateLog::create(ring, &vms, writers).map(|log| self.log = Some(log)),
        };
        if let Err(error) = written {
            self.stop_logging(&error);
        }
    }

    /// Takes the log, which is removed when it is dropped.
    pub(super) fn take_log(&mut self) -> Option<StateLog> {
        self.log.take()
    }

    /// Writes what was folded into the log: packets of these chunks, each of another writer.
    fn log_chunks(&mut self, chunks: &[EvictedChunk]) {
        let vms = || self.vms.iter().map(StateVm::logged).collect();
        if let Some(log) = &mut self.log
            && let Err(error) = log.end_chunks(chunks, vms)
        {
            self.stop_logging(&error);
        }
    }

    /// Removes the log. It lacks changes, so a recovery would take it for more than it is.
    fn stop_logging(&mut self, error: &io::Error) {
        self.log = None;
        self.log_error = Some(error.to_string().into());
    }

    /// Takes over a state of a log, of which this is the only producer.
    pub(super) fn restore(
        &mut self,
        producer: ProducerId,
        state: &LoggedState<'_>,
    ) -> Result<(), DamagedLog> {
        let states = self.vms.len();
        let added = self.try_add(producer, state);
        added.map_err(|error| DamagedLog::State(error.to_string()))?;
        match self.vms.len() > states {
            true => Ok(()),
            false => Err(DamagedLog::State("a state is there twice".to_owned())),
        }
    }

    /// Applies a packet that has changed the state at a position. The work that it may cost depends on the
    /// log alone, because the packets that changed nothing are missing there.
    pub(super) fn repeat_change(&mut self, state: usize, patch: &[u8]) -> Result<(), DamagedLog> {
        let vm = self.vms.get_mut(state);
        let vm = vm.ok_or_else(|| DamagedLog::State(format!("there is no state {state}")))?;
        // The result was the same when the packet was folded.
        let _ = vm.vm.apply(patch);
        vm.folds.work_max += REPEATED_WORK_PER_PACKET_MAX;
        match vm.vm.work() > REPEATED_WORK_MAX + vm.folds.work_max {
            true => Err(DamagedLog::State(
                "to repeat the changes takes too long".to_owned(),
            )),
            false => Ok(()),
        }
    }

    /// Returns the present states, for a trace that gets packets of these writers next.
    pub(super) fn announce(&mut self, writers: impl Iterator<Item = Writer>) -> Vec<FoldedState> {
        self.announced.extend(writers);
        self.states()
    }

    /// Returns the present states.
    pub(super) fn states(&self) -> Vec<FoldedState> {
        let states = self.vms.iter().map(|vm| FoldedState {
            program: vm.vm.program_bytes().to_vec(),
            state: vm.vm.state(),
            limit_kib: vm.limit_kib,
            producers: vm.producers.iter().copied().collect(),
        });
        states.collect()
    }

    pub(super) fn stats(&self, buffer: usize) -> impl Iterator<Item = StateStats> + '_ {
        let kept = self.vms.iter().map(move |vm| StateStats {
            data_source: vm.data_source.clone(),
            buffer,
            state_bytes: vm.vm.state_memory_bytes(),
            packets_folded: vm.folds.folded,
            packets_failed: vm.folds.aborted + vm.folds.skipped,
            error: vm.folds.first_error.clone(),
            crash_files_error: self.log_error.clone(),
        });
        let refused = self.refused.iter().map(move |(name, error)| StateStats {
            data_source: name.clone(),
            buffer,
            state_bytes: 0,
            packets_folded: 0,
            packets_failed: 0,
            error: Some(Arc::clone(error)),
            crash_files_error: None,
        });
        kept.chain(refused)
    }
}

impl StateVm {
    fn logged(&self) -> LoggedVm<'_> {
        LoggedVm {
            data_source: &self.data_source,
            limit_kib: self.limit_kib,
            vm: &self.vm,
        }
    }

    fn fold(&mut self, patch: &[u8]) -> FoldOutcome {
        self.folds.work_max += WORK_PER_PACKET_MAX + WORK_PER_BYTE_MAX * patch.len() as u64;
        let (changes, operations) = (self.vm.changes(), self.vm.operations());
        let result = self.vm.apply(patch);
        let has_changed = self.vm.changes() != changes;
        let is_ignored = self.vm.operations() == operations;
        if self.is_stopped() {
            self.folds
                .note_error(&"the program took too long, and was stopped");
        }
        match &result {
            Ok(()) => self.folds.folded += 1,
            // The packet is not one of those that the program is for.
            Err(ApplyError::Missing { .. }) if is_ignored => {}
            Err(error) => {
                self.folds.aborted += 1;
                self.folds.note_error(error);
            }
        }
        FoldOutcome {
            is_taken: result.is_ok(),
            has_changed,
        }
    }

    fn is_stopped(&self) -> bool {
        self.vm.work() > WORK_MAX + self.folds.work_max
    }
}

impl FoldCounts {
    /// Keeps only the first error: a producer may cause one with every packet.
    fn note_error(&mut self, error: &dyn fmt::Display) {
        if self.first_error.is_none() {
            self.first_error = Some(error.to_string().into());
        }
    }
}
